"""Values that frames, files and Python objects bring: refused with type, property and row."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.rows import convert
from omnigraph.values.words import BulkWord
from tests.integration.conftest import Cli
from tests.integration.helpers import NewGraph, ends, head, jsonl, load, messages, node, rows

SCHEMA = """\
node Item {
    k: String @key
    s: String?
    b: Bool?
    i: I32?
    n: U64?
    f: F32?
    x: F64?
    d: Date?
    t: DateTime?
    v: Vector(2)?
    o: Blob?
    ss: [String]?
    xs: [F64]?
    ds: [Date]?
}

edge Next: Item -> Item { since: Date? }
"""
pytestmark = pytest.mark.local
NAMES = ("s", "b", "i", "n", "f", "x", "d", "t", "v", "o", "ss", "xs", "ds")
FAR = 2**62
COLUMNS = {
    "decimal": pa.array([decimal.Decimal("1.5")]),
    "whole decimal": pa.array([10**30], pa.decimal128(38, 0)),
    "huge integer": pa.array([2**63], pa.uint64()),
    "negative": pa.array([-1]),
    "fraction": pa.array([0.5]),
    "nan": pa.array([float("nan")]),
    "infinity": pa.array([float("inf")]),
    "big float": pa.array([1e300]),
    "half": pa.array([1.5], pa.float16()),
    "text": pa.array(["text"]),
    "text view": pa.array(["text"], pa.string_view()),
    "bytes": pa.array([b"\xff"]),
    "fixed bytes": pa.array([b"ab"], pa.binary(2)),
    "boolean": pa.array([True]),
    "date32": pa.array([2_932_897], pa.int32()).cast(pa.date32()),
    "date64": pa.array([FAR], pa.int64()).cast(pa.date64()),
    "seconds": pa.array([FAR], pa.int64()).cast(pa.timestamp("s")),
    "millis": pa.array([FAR], pa.int64()).cast(pa.timestamp("ms", tz="UTC")),
    "micros": pa.array([-FAR], pa.int64()).cast(pa.timestamp("us", tz="Asia/Tokyo")),
    "nanos": pa.array([1], pa.int64()).cast(pa.timestamp("ns")),
    "time": pa.array([1], pa.int64()).cast(pa.time64("us")),
    "duration": pa.array([1], pa.int64()).cast(pa.duration("s")),
    "interval": pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    "struct": pa.array([{"a": 1}]),
    "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
    "dictionary": pa.array(["a"]).dictionary_encode(),
    "list of integers": pa.array([[1, 2]]),
    "list of decimals": pa.array([[decimal.Decimal("1.5")]]),
    "list of texts": pa.array([["x"]]),
    "list of nulls": pa.array([[None]], pa.list_(pa.null())),
    "list of lists": pa.array([[[1.0]]]),
    "list with a null": pa.array([[1.0, None]]),
    "list with infinity": pa.array([[1.0, float("inf")]]),
    "large list": pa.array([[1.0, 2.0]], pa.large_list(pa.float64())),
    "vector": pa.array([[1.0, float("nan")]], pa.list_(pa.float32(), 2)),
    "list of days": pa.array([[2_932_897]]),
    "list of far seconds": pa.array([[FAR]], pa.list_(pa.int64())).cast(
        pa.list_(pa.timestamp("s"))
    ),
    "null": pa.nulls(1),
}


@pytest.fixture
def graph(new_graph: NewGraph) -> og.Graph:
    return new_graph(SCHEMA)


@pytest.mark.parametrize("kind", COLUMNS)
def test_any_column_for_any_property_is_taken_or_refused_by_name(
    graph: og.Graph, kind: str
) -> None:
    for name in NAMES:
        frame = pa.table({"k": ["a"], name: COLUMNS[kind]})
        try:
            graph.load_table("Item", frame, mode="merge")
        except og.DataError as error:
            (problem,) = error.problems
            assert (problem["type"], problem["field"]) == ("Item", name)
            assert f"'{name}'" in str(problem["message"])
            whole = "cannot be loaded as" in str(problem["message"])
            assert problem.get("line") == (None if whole else 1)
    # Whatever was taken can be read and written out.
    found = graph.query("query q() { match { $i: Item } return { $i.d, $i.t, $i.x, $i.v } }")
    assert len(found.rows_json()) <= 1
    assert len(rows(graph, "Item")) <= 1


@pytest.mark.parametrize("kind", ["decimal", "struct", "interval", "bytes", "list of lists"])
def test_ids_that_are_no_text_are_refused(graph: og.Graph, kind: str) -> None:
    load(graph, [node("Item", k="a")])
    frame = pa.table({"from": COLUMNS[kind], "to": ["a"]})
    with pytest.raises(og.DataError) as refused:
        graph.load_table("Next", frame, mode="append")
    assert [p["type"] for p in refused.value.problems] == ["Next"]


def _frame(name: str, values: Any, kind: Any) -> Any:
    return pa.table({"k": [str(n) for n in range(len(values))], name: pa.array(values, kind)})


OUTSIDE = [
    _frame("d", [0, 2_932_897], pa.int64()),
    _frame("d", [0, -719_163], pa.int32()),
    _frame("d", [0, 2_932_897], pa.date32()),
    _frame("t", [0, 253_402_300_800_000], pa.int64()),
    _frame("t", [0, 2**53], pa.timestamp("ms", tz="UTC")),
    _frame("t", [0, 253_402_300_800], pa.timestamp("s")),
    _frame("t", [0, -62_135_596_800_000_001], pa.timestamp("us")),
    _frame("ds", [[0], [1, 2_932_897]], pa.list_(pa.int64())),
]


@pytest.mark.parametrize("frame", OUTSIDE, ids=lambda frame: f"{frame.schema.field(1).type}")
def test_days_outside_the_years_1_to_9999_are_refused_from_frames_and_files(
    graph: og.Graph, tmp_path: Path, frame: Any
) -> None:
    before = head(graph)
    pq.write_table(frame, tmp_path / "in.parquet")
    for data in (frame, str(tmp_path / "in.parquet")):
        with pytest.raises(og.DataError, match="is outside the years 1 to 9999") as refused:
            graph.bulk({"Item": data}, mode="append", engine="local")
        assert [p["line"] for p in refused.value.problems] == [2]
    with pytest.raises(og.DataError, match="is outside the years 1 to 9999"):
        graph.load_table("Item", frame, mode="append")
    assert head(graph) == before


def test_the_first_and_the_last_day_are_taken(graph: og.Graph) -> None:
    load(graph, [node("Item", k="a", d=-719_162, t=-62_135_596_800_000)])
    load(graph, [node("Item", k="b", d=2_932_896, t=253_402_300_799_999)])
    frame = pa.table({"k": ["c"], "t": pa.array([-1], pa.int64()).cast(pa.timestamp("us"))})
    graph.load_table("Item", frame, mode="append")
    found = graph.query("query q() { match { $i: Item } return { $i.d, $i.t } order { $i.k } }")
    assert found.rows_json() == [
        {"i.d": "0001-01-01", "i.t": "0001-01-01T00:00:00.000Z"},
        {"i.d": "9999-12-31", "i.t": "9999-12-31T23:59:59.999Z"},
        {"i.d": None, "i.t": "1969-12-31T23:59:59.999Z"},
    ]


@pytest.mark.parametrize("value", [2_932_897, -719_163, 0])
def test_a_parameter_is_no_number_of_days(graph: og.Graph, value: int) -> None:
    with pytest.raises(og.BadRequestError, match="expected a Date such as"):
        graph.mutate('query q($d: Date) { insert Item { k: "a", d: $d } }', {"d": value})


def test_days_an_older_release_stored_are_read_as_numbers(
    graph: og.Graph, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(convert, "check_days", int)
        older.setattr(convert, "check_millis", int)
        load(graph, [node("Item", k="a", d=2_932_897, t=2**53, ds=[0, -719_163])])
        load(graph, [node("Item", k="b", d=0, t=0)])
    source = "query q() { match { $i: Item } return { $i.d, $i.t, $i.ds } order { $i.k } }"
    found = graph.query(source)
    zero = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    day = datetime.date(1970, 1, 1)
    assert found.to_pylist() == [
        {"i.d": 2_932_897, "i.t": 2**53, "i.ds": [day, -719_163]},
        {"i.d": day, "i.t": zero, "i.ds": None},
    ]
    assert found.rows_json()[0]["i.ds"] == ["1970-01-01", -719163]
    assert "2932897" in found._repr_html_()
    with pytest.raises(og.QueryError, match="pandas"):
        found.to_pandas()
    assert rows(graph, "Item")["a"]["d"] == 2_932_897
    for format in ("json", "table", "csv"):
        shown = cli("query", "--store", graph.uri, "-e", source, "--format", format)
        assert (shown.code, "2932897" in shown.out) == (0, True), shown
    shown = cli("commit", "changes", graph.commits.list()[1].graph_commit_id, graph.uri)
    assert (shown.code, "2932897" in shown.out) == (0, True)
    # And mended as any other value.
    graph.mutate('query q() { update Item set { d: date("2025-03-01") } where k = "a" }')
    assert graph.query(source).to_pylist()[0]["i.d"] == datetime.date(2025, 3, 1)


def test_numbers_that_are_not_finite_name_type_property_and_row(graph: og.Graph) -> None:
    frame = pa.table({"k": ["a", "b", "c"], "f": [1.0, 1e39, 2.0], "x": [1.0, 1.0, float("nan")]})
    with pytest.raises(og.DataError) as refused:
        graph.load_table("Item", frame, mode="append")
    found = [(p["type"], p["field"], p["line"], p["message"]) for p in refused.value.problems]
    assert found == [
        ("Item", "f", 2, "property 'f': expected a finite number, got inf"),
        ("Item", "x", 3, "property 'x': expected a finite number, got nan"),
    ]


# ---- bytes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "declared"),
    [("s", b"raw", "String?"), ("ss", [b"raw"], "[String]?"), ("d", b"2025-03-01", "Date?")],
)
def test_bytes_are_no_text(graph: og.Graph, field: str, value: object, declared: str) -> None:
    with pytest.raises(og.DataError) as refused:
        load(graph, [node("Item", k="a"), node("Item", k="b", **{field: value})])
    (problem,) = refused.value.problems
    assert problem["message"] == f"property '{field}' expects {declared}, got bytes"
    assert (problem["type"], problem["field"], problem["line"]) == ("Item", field, 2)
    kind = declared.removesuffix("?")
    with pytest.raises(og.BadRequestError, match="parameter 'p': "):
        graph.mutate(
            f'query q($p: {kind}) {{ insert Item {{ k: "a", {field}: $p }} }}', {"p": value}
        )


@pytest.mark.parametrize("value", [b"raw", bytearray(b"raw"), memoryview(b"raw")])
def test_bytes_for_a_blob_are_taken(graph: og.Graph, value: object) -> None:
    load(graph, [node("Item", k="a", o=value)])
    assert rows(graph, "Item")["a"]["o"] == "base64:cmF3"


# ---- rows left out --------------------------------------------------------------------------


def _nodes(graph: og.Graph) -> None:
    load(graph, [node("Item", k=name) for name in "abcd"])


def test_an_edge_without_an_end_is_left_out_itself(
    graph: og.Graph, cli: Cli, tmp_path: Path
) -> None:
    _nodes(graph)
    frame = pa.table({"from": ["a", "b", None, "d"], "to": ["b", "c", "d", None]})
    pq.write_table(frame, tmp_path / "next.parquet")
    (tmp_path / "next.csv").write_text("from,to\na,b\nb,c\n,d\nd,\n", encoding="utf-8")
    cases: tuple[tuple[BulkWord, Any, int], ...] = (
        ("append", frame, 3),
        ("overwrite", str(tmp_path / "next.parquet"), 3),
        ("overwrite", str(tmp_path / "next.csv"), 4),
    )
    for mode, data, first in cases:
        kept = tmp_path / "rejects.jsonl"
        result = graph.bulk(
            {"Next": data}, mode=mode, allow_rejects=2, rejects=kept, engine="local"
        )
        assert result.rejected == 2
        assert ends(graph, "Next") == [("a", "b"), ("b", "c")]
        reasons = [json.loads(line) for line in kept.read_text().splitlines()]
        assert [item["line"] for item in reasons] == [first, first + 1]
    typed = ("load", graph.uri, "--data", "Next=next.csv", "--mode", "overwrite")
    shown = cli(*typed, "--allow-rejects", "2", "--json")
    assert (shown.code, shown.json["rejected"]) == (0, 2)
    assert ends(graph, "Next") == [("a", "b"), ("b", "c")]


def test_a_column_of_the_wrong_type_rejects_no_row(graph: og.Graph) -> None:
    _nodes(graph)
    before = head(graph)
    wrong = {"from": ["a", "b"], "to": ["b", "c"], "since": [1.5, 2.5]}
    for data in (wrong, {"to": ["b", "c"]}):
        with pytest.raises(og.DataError) as refused:
            graph.bulk({"Next": pa.table(data)}, mode="append", allow_rejects=10, engine="local")
        assert "line" not in refused.value.problems[0]
    assert head(graph) == before


def test_a_table_of_the_wrong_type_is_refused_as_a_whole(graph: og.Graph) -> None:
    with pytest.raises(og.DataError) as refused:
        graph.load_table("Item", pa.table({"k": ["a"], "x": COLUMNS["decimal"]}), mode="append")
    found = messages(refused.value)
    assert found == ["property 'x': a column of decimal128(2, 1) cannot be loaded as F64?"]
    assert refused.value.message.startswith("1 problem in the Item frame; nothing was written:")


def test_a_list_of_days_in_lines_is_checked_too(graph: og.Graph) -> None:
    lines = [json.dumps(node("Item", k=str(n), ds=[0])) for n in range(100)]
    lines.append('{"type":"Item","data":{"k":"x","ds":[0,2932897]}}')
    with pytest.raises(og.DataError, match="line 101: property 'ds': 2932897 is outside"):
        graph.load(jsonl(*lines), mode="append")
