"""Results: which snapshot they show, what forms they take, and how queries fail."""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.read import frame
from tests.integration.helpers import NewGraph, edge, head, load, node, run
from tests.integration.test_query import EDGES, PEOPLE, SCHEMA, ask
from tests.places import AnyPath

NAMES = "match { $p: Person } return { $p.name, $p.age } order { $p.name }"
FRIENDS = "match { $a knows $b } return { $a, $b } order { $a, $b }"
ITEM = """\
node Item {
    name: String @key
    big: I64?
    ratio: F64?
    half: F32?
    day: Date?
    moment: DateTime?
    numbers: [I64]?
    days: [Date]?
    vector: Vector(2)?
}
"""


@pytest.fixture
def people(new_graph: NewGraph) -> og.Graph:
    graph = new_graph(SCHEMA)
    load(graph, [node("Person", name="a", age=1), node("Person", name="b", age=2)])
    load(graph, [edge("Knows", "a", "b", id="ab")])
    return graph


@pytest.fixture(scope="module")
def item(module_place: AnyPath) -> Iterator[og.Graph]:
    values = {
        "big": 2**53 + 1,
        "ratio": 0.5,
        "half": 0.1,
        "day": "2024-02-29",
        "moment": "2024-02-29T10:00:00.5Z",
        "numbers": [1, 2**60],
        "days": ["2024-01-01"],
        "vector": [0.5, 1.5],
    }
    with og.init(module_place / "g", ITEM, durability="none") as graph:
        load(graph, [node("Item", name="<b>&", **values), node("Item", name="null")])
        yield graph


def version(graph: og.Graph) -> int:
    return graph.snapshot().version


def read(graph: og.Graph, body: str, **place: object) -> list[dict[str, object]]:
    return graph.query(f"query q() {{ {body} }}", **place).to_pylist()  # type: ignore[arg-type]


# ---- snapshots ----------------------------------------------------------------------------


def test_reading_an_older_version_and_commit(people: og.Graph) -> None:
    old, commit = version(people), head(people)
    run(people, 'update Person set { age: 9 } where name = "a"')
    run(people, 'insert Person { name: "c" }')
    run(people, 'delete Person where name = "b"')
    before = [{"p.name": "a", "p.age": 1}, {"p.name": "b", "p.age": 2}]
    assert read(people, NAMES) == [{"p.name": "a", "p.age": 9}, {"p.name": "c", "p.age": None}]
    assert read(people, FRIENDS) == []
    assert read(people, NAMES, version=old) == read(people, NAMES, commit=commit) == before
    assert read(people, FRIENDS, version=old) == [{"a": "a", "b": "b"}]
    assert read(people, NAMES, version=old + 1)[0] == {"p.name": "a", "p.age": 9}


def test_a_result_names_its_snapshot(people: og.Graph) -> None:
    commit = head(people)
    now = people.query(f"query q() {{ {NAMES} }}")
    assert (now.commit_id, now.target) == (commit, {"branch": "main", "snapshot": None})
    run(people, 'insert Person { name: "c" }')
    then = people.query(f"query q() {{ {NAMES} }}", commit=commit)
    assert (then.commit_id, then.target) == (commit, {"branch": None, "snapshot": commit})
    assert people.query(f"query q() {{ {NAMES} }}").commit_id == head(people)


def test_a_snapshot_is_read_as_it_was(people: og.Graph) -> None:
    text = f"query q() {{ {NAMES} }}"
    states = [people.snapshot(), people.branch("dev").snapshot(), people.snapshot("dev")]
    before = people.query(text).to_pylist()
    for branch in ("main", "dev"):
        people.mutate('query m() { insert Person { name: "c" } }', branch=branch)
    for state in states:
        found = state.query(text)
        assert (found.commit_id, found.to_pylist()) == (state.graph_commit_id, before)
        with pytest.raises(og.BadRequestError, match="a snapshot is one state: version has no"):
            state.query(text, version=2)
    people.branches.delete("dev")
    people.schema.apply(SCHEMA.replace("age: I32?", 'years: I32? @rename_from("age")'))
    assert states[0].query(text).to_pylist() == before


def test_places_that_do_not_exist(people: og.Graph) -> None:
    with pytest.raises(og.NotFoundError):
        read(people, NAMES, commit="01J0000000000000000000NONE")
    with pytest.raises(og.OmniGraphError) as caught:
        read(people, NAMES, version=999)
    assert isinstance(caught.value, og.NotFoundError | og.BadRequestError)
    with pytest.raises(og.NotFoundError):
        read(people, NAMES, branch="dev")
    with pytest.raises(og.BadRequestError):
        read(people, NAMES, version=1, commit=head(people))


def test_the_empty_graph(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    assert read(graph, NAMES) == read(graph, FRIENDS) == []
    assert read(graph, "match { $a knows{1,3} $b $b <knows> $c } return { $a }") == []
    assert read(graph, "match { $a: Person not { $a knows $b } } return { $a }") == []
    assert read(graph, "match { $a: Person } return { count(*), max($a.age) }") == [
        {"count": 0, "a.age": None}
    ]


def test_a_result_does_not_change_with_later_commits(people: og.Graph) -> None:
    result = people.query(f"query q() {{ {NAMES} }}")
    run(people, 'delete Person where name = "a"')
    assert [row["p.name"] for row in result] == ["a", "b"]


def test_another_handle_sees_commits_when_it_reads_again(people: og.Graph) -> None:
    with og.open(people.uri, mode="ro") as other:
        assert len(read(other, NAMES)) == 2
        run(people, 'insert Person { name: "c" }')
        assert len(read(other, NAMES)) == 3


def test_edges_follow_updates_and_deletes_of_nodes(people: og.Graph) -> None:
    both = "match { $a knows $b } return { $a.age as x, $b.age as y }"
    assert read(people, both) == [{"x": 1, "y": 2}]
    run(people, 'update Person set { age: 7 } where name = "b"')
    assert read(people, both) == [{"x": 1, "y": 7}]
    load(people, [node("Person", name="a", age=5)], mode="merge")
    assert read(people, both) == [{"x": 5, "y": 7}]
    run(people, 'delete Person where name = "b"')
    assert read(people, both) == []
    run(people, 'insert Person { name: "b" }')
    assert read(people, both) == []


QUERIES = [
    NAMES,
    FRIENDS,
    "match { $a $w:knows $b } return { $w.id, $w.weight } order { $w.id }",
    "match { $a: Person { name: 'a' } $a knows{1,3} $b } return { $b } order { $b }",
    "match { $p: Person optional { $p worksAt $f } } return { $p, $f } order { $p, $f }",
    "match { $p: Person } return { $p.age, count(*) as n } order { $p.age }",
]


def test_results_survive_folding_and_reopening(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    load(graph, [*PEOPLE, *EDGES])
    queries = [text.replace("'", '"') for text in QUERIES]
    before = [read(graph, text) for text in queries]
    old = version(graph)
    # Enough small commits that maintenance rewrites the tables.
    for number in range(40):
        run(graph, f'insert Person {{ name: "n{number}" }}')
    run(graph, 'delete Person where name starts_with "n"')
    assert version(graph) > old + 41, "no maintenance commit"
    assert [read(graph, text) for text in queries] == before
    assert [read(graph, text, version=old) for text in queries] == before
    with og.open(graph.uri, mode="ro") as again:
        assert [read(again, text) for text in queries] == before
        assert [read(again, text, version=old) for text in queries] == before


# ---- forms --------------------------------------------------------------------------------


def test_a_result_is_a_sequence_of_rows(people: og.Graph) -> None:
    result = people.query(f"query who() {{ {NAMES} }}")
    assert (len(result), result.num_rows, result.columns) == (2, 2, ["p.name", "p.age"])
    assert (
        list(result)
        == result.to_pylist()
        == [
            {"p.name": "a", "p.age": 1},
            {"p.name": "b", "p.age": 2},
        ]
    )
    assert repr(result) == "Result(who: 2 rows, columns p.name, p.age)"


def test_one_and_scalar(people: og.Graph) -> None:
    count = people.query("query q() { match { $p: Person } return { count(*) } }")
    assert (count.one(), count.scalar()) == ({"count": 2}, 2)
    two = people.query("query q() { match { $p: Person } return { $p } }")
    with pytest.raises(og.QueryError, match="expected one row from 'q', got 2"):
        two.one()
    with pytest.raises(og.QueryError, match="expected one row"):
        two.scalar()
    none = people.query('query q() { match { $p: Person { name: "z" } } return { $p } }')
    assert len(none) == 0
    with pytest.raises(og.QueryError, match="got 0"):
        none.one()
    wide = people.query('query q() { match { $p: Person { name: "a" } } return { $p, $p.age } }')
    with pytest.raises(og.QueryError, match="expected one column"):
        wide.scalar()


def test_frames_and_streams(people: og.Graph) -> None:
    result = people.query(f"query q() {{ {NAMES} }}")
    table = result.to_arrow()
    assert table.schema == result.schema
    assert table.column("p.age").type == pa.int32()
    assert result.to_pandas()["p.name"].tolist() == ["a", "b"]
    assert result.to_polars()["p.age"].to_list() == [1, 2]
    assert pa.ipc.open_stream(io.BytesIO(result.to_ipc())).read_all() == table
    assert pa.table(result) == table
    assert pa.Table.from_batches(result.to_batches(), schema=result.schema) == table


def test_an_empty_result_keeps_its_types(people: og.Graph) -> None:
    result = people.query('query q() { match { $p: Person { name: "z" } } return { $p.age } }')
    assert result.to_arrow().schema.types == [pa.int32()]
    assert pa.ipc.open_stream(io.BytesIO(result.to_ipc())).read_all().num_rows == 0
    assert result.to_polars().height == 0


def test_json_follows_the_wire_format(people: og.Graph) -> None:
    found = people.query(f"query who() {{ {NAMES} }}").to_json()
    assert found == {
        "query_name": "who",
        "target": {"branch": "main", "snapshot": None},
        "row_count": 2,
        "columns": ["p.name", "p.age"],
        "rows": [{"p.name": "a", "p.age": 1}, {"p.name": "b", "p.age": 2}],
        "graph_commit_id": head(people),
    }
    assert list(found) == [
        "query_name",
        "target",
        "row_count",
        "columns",
        "rows",
        "graph_commit_id",
    ]


def test_json_values(item: og.Graph) -> None:
    names = ["big", "ratio", "half", "day", "moment", "numbers", "days", "vector"]
    columns = ", ".join(f"$i.{name} as {name}" for name in names)
    result = item.query(
        f"query q() {{ match {{ $i: Item }} return {{ {columns} }} order {{ $i }} }}"
    )
    first, second = result.rows_json()
    assert first == {
        "big": 2**53 + 1,
        "ratio": 0.5,
        "half": pytest.approx(0.1),
        "day": "2024-02-29",
        "moment": "2024-02-29T10:00:00.500Z",
        "numbers": [1, 2**60],
        "days": ["2024-01-01"],
        "vector": [0.5, 1.5],
    }
    assert set(second.values()) == {None}
    safe = result.rows_json(ints="string")[0]
    assert (safe["big"], safe["numbers"]) == (str(2**53 + 1), [1, str(2**60)])
    assert json.loads(json.dumps(result.to_json(ints="string")))["rows"][0]["big"] == str(2**53 + 1)


def test_json_integers_at_the_edge_of_safety(item: og.Graph) -> None:
    body = "match { $i: Item $i.big > 0 } return { $i.big - 2 as a, $i.big - 1 as b, -$i.big as c }"
    row = item.query(f"query q() {{ {body} }}").rows_json(ints="string")[0]
    assert row == {"a": 2**53 - 1, "b": str(2**53), "c": str(-(2**53) - 1)}


def test_json_numbers_that_are_not_finite(item: og.Graph) -> None:
    body = (
        "query q($x: F64) { match { $i: Item $i.ratio > 0.0 } return { $i.ratio * $x * $x as a,"
        " -$i.ratio * $x * $x as b, $i.ratio * $x * $x - $i.ratio * $x * $x as c } }"
    )
    row = item.query(body, {"x": 1e308}).rows_json()[0]
    assert row == {"a": "Infinity", "b": "-Infinity", "c": "NaN"}


def test_html_is_escaped_and_cut(item: og.Graph) -> None:
    shown = item.query("query q() { match { $i: Item } return { $i.name as a, $i.big } }")
    text = shown._repr_html_()
    assert "<td>&lt;b&gt;&amp;</td>" in text
    assert "<td>null</td>" in text
    assert "<th>i.big</th>" in text
    many = "match { $a: Item $b: Item $c: Item $d: Item $e: Item $f: Item $g: Item }"
    long = item.query(f"query q() {{ {many} return {{ $a }} }}")
    assert len(long) == 128
    assert long._repr_html_().count("<tr>") == 101
    assert long._repr_html_().endswith("<p>and 28 more rows</p>")


def test_moments_are_in_utc(item: og.Graph) -> None:
    body = "query q() { match { $i: Item $i.moment is not null } return { $i.moment } }"
    found = item.query(body).scalar()
    assert found.utcoffset() == datetime.timedelta(0)
    assert found.microsecond == 500_000


# ---- failures -----------------------------------------------------------------------------

TWO = """\
query one($x: I32, $y: String?) { match { $p: Person { age: $x } } return { $p, $y } }
query two() { match { $p: Person } return { $p } }
query add($n: String) { insert Person { name: $n } }
"""


def test_a_query_is_picked_by_name(people: og.Graph) -> None:
    assert people.query(TWO, {"x": 2}, name="one").to_pylist() == [{"p": "b", "y": None}]
    assert len(people.query(TWO, name="two")) == 2
    with pytest.raises(og.NotFoundError, match="three"):
        people.query(TWO, name="three")
    with pytest.raises(og.BadRequestError):
        people.query(TWO)


def test_a_mutation_is_no_query_and_a_query_no_mutation(people: og.Graph) -> None:
    before = head(people)
    with pytest.raises(og.BadRequestError, match="query 'add' writes; use it as a mutation"):
        people.query(TWO, {"n": "z"}, name="add")
    with pytest.raises(og.BadRequestError, match="query 'two' reads; use it as a query"):
        people.mutate(TWO, name="two")
    assert head(people) == before


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "parameter 'x': not provided"),
        ({"x": None}, "parameter 'x': null is not accepted for non-nullable parameter"),
        ({"x": "two"}, "parameter 'x'"),
        ({"x": 2.5}, "parameter 'x'"),
        ({"x": True}, "parameter 'x'"),
        ({"x": 2**31}, "parameter 'x'"),
        ({"x": 1, "y": 7}, "parameter 'y'"),
        ({"y": 7}, "parameter 'x': .*; parameter 'y'"),
    ],
)
def test_parameters_are_checked_first(
    people: og.Graph, params: dict[str, object], message: str
) -> None:
    with pytest.raises(og.BadRequestError, match=message):
        people.query(TWO, params, name="one")


def test_a_parameter_the_query_does_not_declare_is_refused(people: og.Graph) -> None:
    with pytest.raises(og.BadRequestError, match="it declares no parameters"):
        people.query(TWO, {"other": 1}, name="two")
    text = "query q($oldest: I32?) { match { $p: Person  $p.age <= $oldest } return { $p.name } }"
    for call in (people.query, people.explain):
        with pytest.raises(og.BadRequestError, match=r"'oldst': .*did you mean `oldest`"):
            call(text, {"oldst": 1})
    change = "query q($a: I32?) { update Person set { age: $a } where age = 1 }"
    with pytest.raises(og.BadRequestError, match="'age': the query declares no such parameter"):
        people.mutate(change, {"age": 1})


def test_bad_text_is_a_compile_error(people: og.Graph) -> None:
    with pytest.raises(og.CompileError, match="T6"):
        people.query("query q() { match { $p: Person } return { $p.names } }")
    with pytest.raises(og.CompileError, match="P00"):
        people.query("query q() {")


@pytest.mark.parametrize(
    "pattern",
    [
        "$a: Person $b: Person $c: Person",
        "$a: Person $b: Person $c: Person not { $d: Person $d.name = $a.name $d.age > $c.age }",
        "$a: Person $b: Person optional { $a.age > 0 $c: Person }",
    ],
)
def test_too_many_rows_are_refused(
    new_graph: NewGraph, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    graph = new_graph(SCHEMA)
    load(graph, [*PEOPLE, *EDGES])
    body = f"match {{ {pattern} }} return {{ $a.name, $b.name }}"
    assert len(ask(graph, body)) > 25
    monkeypatch.setattr(frame, "QUERY_ROWS_MAX", 25)
    with pytest.raises(og.ResourceLimitError) as caught:
        ask(graph, body)
    assert "intermediate rows of a query" in str(caught.value)
    assert len(ask(graph, "match { $a: Person } return { $a }")) == 5


@pytest.mark.parametrize("hops", ["", "{1,3}"])
def test_too_many_reached_rows_are_refused(
    new_graph: NewGraph, monkeypatch: pytest.MonkeyPatch, hops: str
) -> None:
    graph = new_graph(SCHEMA)
    load(graph, [*PEOPLE, *EDGES])
    pattern = f"match {{ $a: Person $a knows{hops} $b }}"
    listing = f"{pattern} return {{ $a, $b }}"
    assert len(ask(graph, listing)) > 5
    monkeypatch.setattr(frame, "QUERY_ROWS_MAX", 5)
    with pytest.raises(og.ResourceLimitError):
        ask(graph, listing)
    if not hops:
        assert ask(graph, f"{pattern} return {{ count(*) }}")[0][0] > 5, "counting lists nothing"
