"""Mappings: what becomes of the columns of files and frames, in one commit."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from tests.integration.conftest import Cli

SCHEMA = """\
node Person {
    name: String @key
    age: I32?
    city: String?
    origin: String @default("unknown")
    tags: [String]?
}

node Place {
    zone: I32
    code: String
    @key(zone, code)
}

edge Knows: Person -> Person { since: Date?  @unique(src, dst) }

edge LivesIn: Person -> Place
"""

ORDERS = """\
Buyer;Friend;Age;Place;Since;Skip
 Ann ;BOB;41;7/a;01.02.2026;no
Bob;;NA;7/b;;no
ANN;cy;42;7/a;03.02.2026;no
junk;junk;x;1/x;;yes
"""

MAPPING = """\
[sources.orders]
data = "orders.csv.gz"
delimiter = ";"
null = ["", "NA"]

[[rows]]
type = "Person"
source = "orders"
where = 'Skip = "no"'
columns = { Age = "age" }
compute = { name = 'lower(trim(Buyer))' }
constants = { origin = "orders" }
ignore = true
duplicates = "last"

[[rows]]
type = "Person"
source = "orders"
where = 'Friend is not null and Skip = "no"'
compute = { name = 'lower(trim(Friend))' }
ignore = true
duplicates = "last"

[[rows]]
type = "Place"
source = "orders"
where = 'Skip = "no"'
compute = { zone = 'integer(part(Place, "/", 1))', code = 'part(Place, "/", 2)' }
ignore = true
duplicates = "first"

[[rows]]
type = "Knows"
source = "orders"
where = 'Friend is not null and Skip = "no"'
ignore = true

[rows.compute]
from = 'lower(trim(Buyer))'
to = 'lower(trim(Friend))'
since = 'date(Since, "%d.%m.%Y")'

[[LivesIn]]
source = "orders"
where = 'Skip = "no"'
ignore = true

[LivesIn.compute]
from = 'lower(trim(Buyer))'
to = 'key(part(Place, "/", 2), integer(part(Place, "/", 1)))'
"""


@pytest.fixture
def graph(tmp_path: Path) -> Any:
    with og.init(tmp_path / "g", SCHEMA, durability="none") as found:
        yield found


def _content(graph: og.Graph) -> dict[str, Any]:
    lines: Any = graph.export()
    found: dict[str, list[Any]] = {}
    for line in lines:
        data = {key: value for key, value in line["data"].items() if key != "id"}
        ends = [line[key] for key in ("from", "to") if key in line]
        found.setdefault(line.get("type") or line["edge"], []).append([*ends, data])
    return {key: sorted(rows, key=json.dumps) for key, rows in found.items()}


def _orders(folder: Path) -> Path:
    (folder / "orders.csv.gz").write_bytes(gzip.compress(ORDERS.encode()))
    (folder / "crew.toml").write_text(MAPPING)
    return folder / "crew.toml"


def test_one_source_feeds_several_types(graph: og.Graph, tmp_path: Path) -> None:
    result = graph.bulk(og.read_mapping(_orders(tmp_path)), mode="append")
    assert result.nodes == {"Person": 3, "Place": 2}
    assert result.edges == {"Knows": 2, "LivesIn": 3}
    content = _content(graph)
    people = {row[0]["name"]: row[0] for row in content["Person"]}
    assert people["ann"]["age"] == 42
    assert people["ann"]["origin"] == "orders"
    assert people["cy"]["origin"] == "unknown"
    assert content["LivesIn"][0][:2] == ["ann", '["a","7"]']
    assert [row[2]["since"] for row in content["Knows"]] == [20485, 20487]


def test_inputs_of_every_form_are_one_commit(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"type": "Person", "data": {"name": "env"}}\n')
    flat = [
        {"who": "flat", "address": {"city": "Bonn"}, "tags": ["x"]},
        {"who": "bare"},
    ]
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in flat))
    (tmp_path / "c.csv").write_text("'name'|age\n'a|b'|\nd|4\n")
    nested = pa.table({"name": ["pq"], "address": [{"city": "Ulm"}]})
    pq.write_table(nested, tmp_path / "d.parquet")
    head = graph.commits.head()
    result = graph.bulk(
        [
            tmp_path / "a.jsonl",
            og.Rows(
                type="Person",
                data=tmp_path / "b.jsonl",
                columns={"who": "name", "address.city": "city"},
            ),
            og.Rows(type="Person", data=tmp_path / "c.csv", delimiter="|", quote="'"),
            og.Rows(type="Person", data=tmp_path / "d.parquet", columns={"address.city": "city"}),
            og.Rows(type="Person", data=pa.table({"name": ["fr"], "age": [3]})),
            og.Rows(type="Knows", data=[{"a": "fr", "b": "pq"}], from_col="a", to_col="b"),
        ],
        mode="append",
    )
    assert result.nodes == {"Person": 7}
    assert len(list(graph.commits.list())) == 2
    assert graph.commits.head() != head
    people = {row[0]["name"]: row[0] for row in _content(graph)["Person"]}
    assert {name: row["city"] for name, row in people.items()} == {
        "env": None, "flat": "Bonn", "bare": None, "a|b": None, "d": None, "pq": "Ulm", "fr": None
    }  # fmt: skip
    assert people["flat"]["tags"] == ["x"]
    assert people["bare"]["origin"] == "unknown"
    assert (people["d"]["age"], people["a|b"]["age"]) == (4, None)


def test_bad_records_name_their_place_and_can_be_left_out(graph: og.Graph, tmp_path: Path) -> None:
    lines = [
        '{"name": "a", "age": "old"}',
        '{"name": "b", "size": 3}',
        "{",
        "[1]",
        '{"name": "c", "age": 3}',
        '{"name": "d", "age": true}',
    ]
    (tmp_path / "p.jsonl").write_text("\n".join(lines) + "\n")
    rows = og.Rows(data=tmp_path / "p.jsonl", compute={"city": 'if(age > 2, "x", "y")'})
    with pytest.raises(og.DataError) as found:
        graph.bulk({"Person": rows}, mode="append")
    by_line = {item["line"]: item["message"] for item in reversed(found.value.problems)}
    assert by_line == {
        1: "property 'city': cannot compare 'old' with 2",
        2: "unknown input field 'size' for 'node:Person'",
        3: "not valid JSON: Input data was truncated",
        4: "expected a JSON object",
        6: "property 'city': cannot compare true with 2",
    }
    plain = og.Rows(data=tmp_path / "p.jsonl")
    with pytest.raises(og.DataError, match=r"line 1: property 'age' expects I32\?, got a string"):
        graph.bulk({"Person": plain}, mode="append")
    frame = pa.table({"name": ["x", None, "y"], "age": [1, 2, 3]})
    result = graph.bulk(
        [og.Rows(type="Person", data=tmp_path / "p.jsonl"), og.Rows(type="Person", data=frame)],
        mode="append",
        allow_rejects=6,
    )
    assert (result.nodes, result.rejected) == ({"Person": 3}, 6)


def test_a_line_that_several_types_read_is_left_out_once(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("name,friend,age\nann,bob,1\nbob,ann,old\n")
    people = og.Rows(type="Person", data=tmp_path / "p.csv", ignore=True)
    knows = og.Rows(
        type="Knows",
        data=tmp_path / "p.csv",
        columns={"name": "from", "friend": "to"},
        ignore=True,
        where='friend != "bob"',
    )
    result = graph.bulk([people, knows], mode="append", allow_rejects=1)
    assert (result.nodes, result.edges, result.rejected) == ({"Person": 1}, {}, 1)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"columns": {"who": "nam"}}, "column 'who' maps to 'nam', which Person lacks"),
        ({"compute": {"nam": "a"}}, "the mapping: Person has no 'nam'"),
        ({"compute": {"name": "lowr(a)"}}, "unknown function `lowr`"),
        ({"where": "a ="}, "the mapping: Person: where"),
        ({"constants": {"age": "old"}}, "the constant 'old': property 'age' expects"),
        ({"constants": {"age": 2**40}}, "outside the range of I32"),
        ({"columns": {"a": "name"}, "compute": {"name": "b"}}, "'name' of Person is set twice"),
        ({"duplicates": "any"}, "unknown value of duplicates 'any'"),
        ({"delimiter": "||"}, "the delimiter of a CSV file is one character"),
    ],
)
def test_a_wrong_mapping_is_refused_before_anything_is_read(
    graph: og.Graph, tmp_path: Path, rows: dict[str, Any], message: str
) -> None:
    with pytest.raises(og.OmniGraphError, match=message):
        graph.bulk({"Person": og.Rows(data=tmp_path / "not-there.csv", **rows)}, mode="append")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", "is not a TOML file"),
        ("[Person]\ncolumns = {}", r"\[Person\] needs either 'data' or 'source'"),
        ("[Person]\ndata = 'a.csv'\ncolums = {}", r"\[Person\] has no 'colums'"),
        ("[Person]\ndata = 3", "data: expected a path, or a list of paths, got 3"),
        ("[Person]\ndata = 'a.csv'\ncompute = {a = 1}", "compute: expected a table of texts"),
        ("[[rows]]\ndata = 'a.csv'", r"\[\[rows\]\] needs 'type'"),
        ("[[rows]]\ntype = 'Person'\nsource = 'x'", "names the source 'x', which is not there"),
        ("[sources.a]\nnull = ['']", r"\[sources.a\] needs 'data'"),
        ("Person = 1", "'Person' is not a table"),
        ("", "names nothing to load"),
        ("a = " + "9" * 5000, "is not a TOML file"),
    ],
)
def test_a_wrong_mapping_file_is_told(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "m.toml").write_text(text)
    with pytest.raises(og.BadRequestError, match=message):
        og.read_mapping(tmp_path / "m.toml")


def test_a_plan_is_printed_and_nothing_is_loaded(graph: og.Graph, tmp_path: Path, cli: Cli) -> None:
    mapping = str(_orders(tmp_path))
    (tmp_path / "more.jsonl").write_text("")
    more = ["--data", str(tmp_path / "more.jsonl")]
    found = cli("load", graph.uri, "--mapping", mapping, *more, "--mode", "append", "--explain")
    assert "  name   <- lower(trim(Buyer))\n" in found.out
    assert '  origin <- constant "orders"\n' in found.out
    assert "  age    <- column Age\n" in found.out
    assert "  of several records of an entity the last counts\n" in found.out
    assert "any type <- " in found.out
    assert graph.snapshot().tables["node:Person"].row_count == 0
    shown = cli("load", graph.uri, "--mapping", mapping, "--mode", "merge", "--explain", "--json")
    assert [item["type"] for item in shown.json["inputs"]] == [
        "Person", "Person", "Place", "Knows", "LivesIn"
    ]  # fmt: skip
    assert cli("load", graph.uri, "--mapping", mapping, "--mode", "append", "--dry-run").code == 0
    assert graph.snapshot().tables["node:Person"].row_count == 0


def test_broken_compressed_files_are_refused(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"name\nann\n")[:-9])
    (tmp_path / "b.jsonl.gz").write_bytes(b"plain")
    for sources in ({"Person": tmp_path / "a.csv.gz"}, tmp_path / "b.jsonl.gz"):
        with pytest.raises(og.BadRequestError, match="cannot be decompressed"):
            graph.bulk(sources, mode="append")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"compute": {"age": "integer(zz)"}}, "property 'age': there is no column 'zz'"),
        ({"where": "zz is null"}, "where: there is no column 'zz'"),
        ({"columns": {"zz": "age"}}, "there is no column 'zz'"),
    ],
)
def test_a_column_that_is_not_there_is_no_fault_of_a_row(
    graph: og.Graph, tmp_path: Path, rows: dict[str, Any], message: str
) -> None:
    (tmp_path / "p.csv").write_text("name\nann\nbob\n")
    given = og.Rows(data=tmp_path / "p.csv", **rows)
    with pytest.raises(og.DataError, match=message) as found:
        graph.bulk({"Person": given}, mode="append", allow_rejects=10)
    assert [item.get("line") for item in found.value.problems] == [None]


@pytest.mark.parametrize("empty", ["", "\n", "name,op\n"])
def test_a_part_without_events_sets_no_columns(graph: og.Graph, tmp_path: Path, empty: str) -> None:
    (tmp_path / "1.csv").write_text(empty)
    (tmp_path / "2.csv").write_text("name,age,op\nann,1,i\n")
    (tmp_path / "3.csv").write_text("name,age,op\n")
    files = [tmp_path / f"{number}.csv" for number in (1, 2, 3)]
    assert graph.bulk({"Person": files}, mode="apply").nodes == {"Person": 1}


def test_a_mapping_that_names_its_own_folder_is_refused(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "mapping.toml").write_text('envelopes = "."\n')
    with pytest.raises(og.BadRequestError, match="names the folder that holds it"):
        graph.bulk(tmp_path / "in", mode="append")


@pytest.mark.parametrize("mode", ["append", "apply"])
@pytest.mark.parametrize("more", [{}, {"compute": {"city": "name"}}, {"where": 'name = "a"'}])
def test_a_column_of_a_csv_file_that_stands_twice_is_refused(
    graph: og.Graph, tmp_path: Path, mode: Any, more: dict[str, Any]
) -> None:
    (tmp_path / "p.csv").write_text("name,age,name,op\na,1,b,i\n")
    rows = og.Rows(data=tmp_path / "p.csv", ignore=["op"], **more)
    with pytest.raises(og.DataError, match="column 'name' appears twice"):
        graph.bulk({"Person": rows}, mode=mode)


def test_numbers_that_no_column_holds_are_refused(graph: og.Graph) -> None:
    with pytest.raises(og.BadRequestError, match="the rows do not fit one table"):
        graph.bulk({"Person": [{"name": "a", "age": 2**64}]}, mode="append")


def test_dictionaries_hold_the_largest_numbers_of_a_type(tmp_path: Path) -> None:
    with og.init(tmp_path / "u", "node Count { n: U64 }", durability="none") as graph:
        graph.bulk({"Count": [{"n": 2**64 - 1}, {"n": 1}]}, mode="append")
        assert sorted(graph.export_table("Count")["n"].to_pylist()) == [1, 2**64 - 1]
