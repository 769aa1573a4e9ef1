"""Events of change data capture: the last one of each entity wins, and only what came is set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from tests.integration.event_histories import SCHEMA, History, frame, knows_of, people_of


@pytest.fixture
def graph(tmp_path: Path) -> Any:
    with og.init(tmp_path / "g", SCHEMA, durability="none") as found:
        yield found


def _apply(graph: og.Graph, *rows: dict[str, Any], type_name: str = "Person", **more: Any) -> Any:
    given = {name: more.pop(name) for name in ("op_col", "seq_col", "columns") if name in more}
    rows_of = og.Rows(data=frame(*rows), **given)
    return graph.bulk({type_name: rows_of}, mode=more.pop("mode", "apply"), **more)


def test_the_last_event_of_an_entity_wins(graph: og.Graph) -> None:
    result = _apply(
        graph,
        {"op": "insert", "name": "ann", "age": 1},
        {"op": "c", "name": "bob", "age": 5},
        {"op": "update", "name": "ann", "age": 2},
        {"op": "delete", "name": "bob", "age": None},
        {"op": "D", "name": "nobody", "age": None},
    )
    assert result.nodes == {"Person": 3}
    assert (result.mode, result.repeated) == ("apply", False)
    assert people_of(graph) == {"ann": (2, None, 1)}


def test_a_sequence_decides_what_is_last(graph: og.Graph) -> None:
    rows: list[dict[str, Any]] = [
        {"op": "u", "name": "ann", "age": 3, "lsn": 30},
        {"op": "u", "name": "ann", "age": 1, "lsn": 10},
        {"op": "d", "name": "bob", "age": None, "lsn": 11},
        {"op": "c", "name": "bob", "age": 7, "lsn": 9},
        {"op": "u", "name": "cy", "age": 1, "lsn": 5},
        {"op": "u", "name": "cy", "age": 2, "lsn": 5},
    ]
    _apply(graph, *rows, seq_col="lsn")
    assert people_of(graph) == {"ann": (3, None, 1), "cy": (2, None, 1)}


def test_columns_that_did_not_come_stay_as_they_are(graph: og.Graph) -> None:
    _apply(graph, {"op": "c", "name": "ann", "age": 1, "bio": "x", "rank": 7})
    _apply(graph, {"op": "u", "name": "ann", "bio": "y"}, {"op": "u", "name": "bob", "bio": "z"})
    assert people_of(graph) == {"ann": (1, "y", 7), "bob": (None, "z", 1)}
    _apply(graph, {"op": "u", "name": "ann", "bio": None})
    assert people_of(graph)["ann"] == (1, None, 7)


def test_events_that_are_applied_again_change_nothing(graph: og.Graph) -> None:
    rows = [{"op": "c", "name": "ann", "age": 1}, {"op": "c", "name": "bob", "age": 2}]
    links = frame({"op": "c", "from": "ann", "to": "bob", "since": 3})
    first = graph.bulk({"Person": frame(*rows), "Knows": links}, mode="apply")
    assert first.commit is not None
    again = graph.bulk({"Person": frame(*rows), "Knows": links}, mode="apply")
    assert again.commit is None
    assert graph.commits.head() == first.commit
    gone = [{"op": "d", "name": "ann", "age": None}]
    assert _apply(graph, *gone).commit is not None
    assert _apply(graph, *gone).commit is None
    assert knows_of(graph) == {}
    _apply(graph, {"op": "c", "name": "eve"}, operation_id="batch-7")
    named = _apply(graph, {"op": "c", "name": "eve"}, operation_id="batch-7")
    assert named.repeated
    assert named.commit == graph.commits.head()


def test_a_deleted_node_takes_its_edges_along(graph: og.Graph) -> None:
    graph.bulk(
        {
            "Person": frame(*({"op": "c", "name": name} for name in "abc")),
            "Note": frame({"op": "c", "id": "n", "text": "t"}),
            "Knows": frame(
                {"op": "c", "from": "a", "to": "b"}, {"op": "c", "from": "b", "to": "c"}
            ),
            "Wrote": frame({"op": "c", "id": "w", "from": "a", "to": "n"}),
        },
        mode="apply",
    )
    result = graph.bulk({"Person": frame({"name": "a"}, {"name": "zed"})}, mode="delete")
    assert result.nodes == {"Person": 2}
    assert set(people_of(graph)) == {"b", "c"}
    assert knows_of(graph) == {("b", "c"): None}
    assert graph.snapshot().tables["edge:Wrote"].row_count == 0
    graph.bulk({"Knows": frame({"from": "b", "to": "c"})}, mode="delete")
    assert knows_of(graph) == {}
    with pytest.raises(og.DataError, match="'a'"):
        graph.bulk({"Knows": frame({"op": "c", "from": "a", "to": "b"})}, mode="apply")


def test_files_and_names_of_other_systems(graph: og.Graph, tmp_path: Path) -> None:
    """As Debezium writes flattened changes."""
    parts = [
        frame({"who": "ann", "__op": "c", "__ts": 1, "age": 1}),
        frame({"who": "ann", "__op": "d", "__ts": 3, "age": None}, {"who": "bob", "__op": "r"}),
    ]
    for number, part in enumerate(parts):
        names = ["who", "__op", "__ts", "age"]
        table = pa.table(
            {
                name: part[name].cast(pa.string() if name in ("who", "__op") else pa.int32())
                if name in part.column_names
                else pa.nulls(part.num_rows, pa.int32())
                for name in names
            }
        )
        table = table.set_column(2, "__ts", pa.array(range(number, number + table.num_rows)))
        pq.write_table(table, tmp_path / f"{number}.parquet")
    rows = og.Rows(
        data=tmp_path / "*.parquet", columns={"who": "name"}, op_col="__op", seq_col="__ts"
    )
    graph.bulk({"Person": rows}, mode="apply")
    assert people_of(graph) == {"bob": (None, None, 1)}


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        ([{"op": "x", "name": "a"}], {}, "operation 'x': expected insert, update, upsert"),
        ([{"op": None, "name": "a"}], {}, "operation 'none'"),
        ([{"name": "a"}], {}, "there is no column 'op' with the operations"),
        ([{"op": "u", "name": "a"}], {"seq_col": "n"}, "there is no column 'n' with the order"),
        ([{"op": "u", "name": "a", "n": None}], {"seq_col": "n"}, "must not be null"),
        ([{"op": "u", "age": 1}], {}, "events of Person need its key: name"),
        ([{"op": "u", "name": None}], {}, "missing required property 'name'"),
        ([{"op": "u", "name": "a", "size": 1}], {}, "unknown column 'size'"),
        ([{"op": "u", "name": "a", "age": "old"}], {}, "property 'age'"),
        ([{"op": "u", "text": "x"}], {"type_name": "Note"}, "events of Note need its key: id"),
        ([{"op": "u", "id": "n", "text": None}], {"type_name": "Note"}, "text"),
        ([{"op": "d", "from": "a"}], {"type_name": "Knows"}, "does not say which entity"),
        ([{"op": "d", "from": "a", "to": "b"}], {"type_name": "Wrote"}, "which entity"),
        ([{"name": "a", "size": 1}], {"mode": "delete"}, "unknown column 'size'"),
        ([{"op": "u", "name": "a", "size": 1}], {"allow_rejects": 9}, "unknown column 'size'"),
    ],
)
def test_wrong_events_change_nothing(
    graph: og.Graph, rows: list[dict[str, Any]], more: dict[str, Any], message: str
) -> None:
    head = graph.commits.head()
    with pytest.raises(og.OmniGraphError, match=message):
        _apply(graph, *rows, **more)
    assert graph.commits.head() == head


def test_events_are_read_from_files_of_every_form(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("op,name,age,lsn\nu,ann,2,10\nc,ann,1,9\n")
    graph.bulk({"Person": og.Rows(data=tmp_path / "a.csv", seq_col="lsn")}, mode="apply")
    assert people_of(graph) == {"ann": (2, None, 1)}
    lines = [{"op": "u", "name": "ann", "bio": "x"}, {"op": "c", "name": "bob", "bio": None}]
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    graph.bulk({"Person": tmp_path / "b.jsonl"}, mode="apply")
    assert people_of(graph) == {"ann": (2, "x", 1), "bob": (None, None, 1)}
    (tmp_path / "c.jsonl").write_text(
        '{"op": "u", "name": "ann", "age": 3}\n{"op": "d", "name": "b"}\n'
    )
    with pytest.raises(og.DataError, match="line 2: property 'age': missing here"):
        graph.bulk({"Person": tmp_path / "c.jsonl"}, mode="apply")
    with pytest.raises(og.BadRequestError, match="by type, not as envelopes"):
        graph.bulk(tmp_path / "b.jsonl", mode="apply")


def test_a_dry_run_judges_and_writes_nothing(graph: og.Graph) -> None:
    head = graph.commits.head()
    result = _apply(graph, {"op": "c", "name": "ann"}, dry_run=True)
    assert (result.dry_run, result.commit, result.nodes) == (True, None, {"Person": 1})
    with pytest.raises(og.DataError, match="unknown column"):
        _apply(graph, {"op": "c", "name": "ann", "size": 2}, dry_run=True)
    assert graph.commits.head() == head


@pytest.mark.parametrize("seed", range(4))
def test_random_histories_equal_a_model(graph: og.Graph, seed: int) -> None:
    history = History(seed)
    for _ in range(12):
        sources = history.batch()
        graph.bulk(sources, mode="apply")
        history.check(graph)
        assert graph.bulk(sources, mode="apply").commit is None


def test_files_that_differ_in_their_columns_are_refused(graph: og.Graph, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"op": "c", "name": "a"}, {"op": "c", "name": "b", "age": 1}]
    for number, row in enumerate(rows):
        pq.write_table(frame(row), tmp_path / f"{number}.parquet")
    with pytest.raises(og.BadRequestError, match=r"0.parquet differ in the columns age"):
        graph.bulk({"Person": tmp_path / "*.parquet"}, mode="apply")


def test_problems_of_several_files_name_the_file(graph: og.Graph, tmp_path: Path) -> None:
    for number, row in enumerate([{"op": "c", "name": "a"}, {"op": "x", "name": "b"}]):
        pq.write_table(frame(row), tmp_path / f"{number}.parquet")
    with pytest.raises(og.DataError, match=r"1.parquet line 1: operation 'x'"):
        graph.bulk({"Person": tmp_path / "*.parquet"}, mode="apply")


def test_edges_may_be_named_by_numbers(tmp_path: Path) -> None:
    schema = "node N { number: I32 @key }\nedge E: N -> N { @unique(src, dst) }"
    with og.init(tmp_path / "n", schema, durability="none") as graph:
        graph.bulk({"N": pa.table({"number": [1, 2]})}, mode="append")
        graph.bulk({"E": pa.table({"op": ["c"], "from": [1], "to": [2]})}, mode="apply")
        assert graph.bulk({"E": pa.table({"from": [1], "to": [2]})}, mode="delete").commit
        assert graph.snapshot().tables["edge:E"].row_count == 0


def test_wrong_events_may_be_left_out(graph: og.Graph, tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    people.write_text(
        "op,name,age,lsn\nc,ann,1,1\nu,ann,old,2\nx,bob,2,3\nc,cy,3,4\nc,,4,5\nd,ann,,\n"
    )
    knows = tmp_path / "knows.jsonl"
    lines = [{"op": "c", "from": "ann", "to": "cy"}, {"op": "c", "from": "cy", "to": "bob"}]
    knows.write_text("".join(json.dumps(line) + "\n" for line in lines))
    sources: dict[str, Any] = {"Person": og.Rows(data=people, seq_col="lsn"), "Knows": knows}
    rejects = tmp_path / "rejects.jsonl"
    with pytest.raises(og.DataError):
        graph.bulk(sources, mode="apply", allow_rejects=4, rejects=rejects)
    assert people_of(graph) == {}
    assert rejects.read_text()
    found = graph.bulk(sources, mode="apply", allow_rejects=5, rejects=rejects)
    assert (found.nodes, found.edges, found.rejected) == ({"Person": 2}, {"Knows": 1}, 5)
    # Without the event that is wrong the one before it is the last.
    assert people_of(graph) == {"ann": (1, None, 1), "cy": (3, None, 1)}
    assert knows_of(graph) == {("ann", "cy"): None}
    reasons = [json.loads(line) for line in rejects.read_text().splitlines()]
    places = sorted((Path(item["file"]).name, item["line"]) for item in reasons)
    assert places == [("knows.jsonl", 2), *(("people.csv", line) for line in (3, 4, 6, 7))]
    assert graph.bulk(sources, mode="apply", allow_rejects=5).commit is None


def test_what_is_wrong_with_the_outcome_names_the_event(graph: og.Graph, tmp_path: Path) -> None:
    notes = frame(
        {"op": "c", "id": "n", "text": "x"},
        {"op": "c", "id": "m", "text": None},
        {"op": "u", "id": "n", "text": None},
    )
    with pytest.raises(og.DataError, match="line 2: missing required property 'text'") as caught:
        graph.bulk({"Note": notes}, mode="apply")
    assert [item["line"] for item in caught.value.problems] == [2, 3]
    with pytest.raises(og.DataError, match="line 1: Knows: src 'a' not found in Person"):
        _apply(graph, {"op": "c", "from": "a", "to": "a"}, type_name="Knows")
    with pytest.raises(og.DataError, match="line 1: Wrote: src 'a' not found in Person"):
        _apply(graph, {"op": "c", "id": "w", "from": "a", "to": "n"}, type_name="Wrote")
