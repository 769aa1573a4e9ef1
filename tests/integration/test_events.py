"""Events of change data capture: the last one of each entity wins, and only what came is set."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og

SCHEMA = """\
node Person {
    name: String @key
    age: I32?
    bio: String?
    rank: I32 @default(1)
}

node Note { text: String }

edge Knows: Person -> Person {
    since: I32?
    @unique(src, dst)
}

edge Wrote: Person -> Note
"""


@pytest.fixture
def graph(tmp_path: Path) -> Any:
    with og.init(tmp_path / "g", SCHEMA, durability="none") as found:
        yield found


def _frame(*rows: dict[str, Any]) -> Any:
    return pa.Table.from_pylist(list(rows))


def _apply(graph: og.Graph, *rows: dict[str, Any], type_name: str = "Person", **more: Any) -> Any:
    given = {name: more.pop(name) for name in ("op_col", "seq_col", "columns") if name in more}
    rows_of = og.Rows(data=_frame(*rows), **given)
    return graph.bulk({type_name: rows_of}, mode=more.pop("mode", "apply"), **more)


def _people(graph: og.Graph) -> dict[str, tuple[Any, ...]]:
    text = "query q() { match { $p: Person } return { $p.name, $p.age, $p.bio, $p.rank } }"
    return {row["p.name"]: (row["p.age"], row["p.bio"], row["p.rank"]) for row in graph.query(text)}


def _knows(graph: og.Graph) -> dict[tuple[str, str], Any]:
    lines: Any = graph.export()
    found = (line for line in lines if line.get("edge") == "Knows")
    return {(line["from"], line["to"]): line["data"]["since"] for line in found}


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
    assert _people(graph) == {"ann": (2, None, 1)}


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
    assert _people(graph) == {"ann": (3, None, 1), "cy": (2, None, 1)}


def test_columns_that_did_not_come_stay_as_they_are(graph: og.Graph) -> None:
    _apply(graph, {"op": "c", "name": "ann", "age": 1, "bio": "x", "rank": 7})
    _apply(graph, {"op": "u", "name": "ann", "bio": "y"}, {"op": "u", "name": "bob", "bio": "z"})
    assert _people(graph) == {"ann": (1, "y", 7), "bob": (None, "z", 1)}
    _apply(graph, {"op": "u", "name": "ann", "bio": None})
    assert _people(graph)["ann"] == (1, None, 7)


def test_events_that_are_applied_again_change_nothing(graph: og.Graph) -> None:
    rows = [{"op": "c", "name": "ann", "age": 1}, {"op": "c", "name": "bob", "age": 2}]
    links = _frame({"op": "c", "from": "ann", "to": "bob", "since": 3})
    first = graph.bulk({"Person": _frame(*rows), "Knows": links}, mode="apply")
    assert first.commit is not None
    again = graph.bulk({"Person": _frame(*rows), "Knows": links}, mode="apply")
    assert again.commit is None
    assert graph.commits.head() == first.commit
    gone = [{"op": "d", "name": "ann", "age": None}]
    assert _apply(graph, *gone).commit is not None
    assert _apply(graph, *gone).commit is None
    assert _knows(graph) == {}
    _apply(graph, {"op": "c", "name": "eve"}, operation_id="batch-7")
    named = _apply(graph, {"op": "c", "name": "eve"}, operation_id="batch-7")
    assert named.repeated
    assert named.commit == graph.commits.head()


def test_a_deleted_node_takes_its_edges_along(graph: og.Graph) -> None:
    graph.bulk(
        {
            "Person": _frame(*({"op": "c", "name": name} for name in "abc")),
            "Note": _frame({"op": "c", "id": "n", "text": "t"}),
            "Knows": _frame(
                {"op": "c", "from": "a", "to": "b"}, {"op": "c", "from": "b", "to": "c"}
            ),
            "Wrote": _frame({"op": "c", "id": "w", "from": "a", "to": "n"}),
        },
        mode="apply",
    )
    result = graph.bulk({"Person": _frame({"name": "a"}, {"name": "zed"})}, mode="delete")
    assert result.nodes == {"Person": 2}
    assert set(_people(graph)) == {"b", "c"}
    assert _knows(graph) == {("b", "c"): None}
    assert graph.snapshot().tables["edge:Wrote"].row_count == 0
    graph.bulk({"Knows": _frame({"from": "b", "to": "c"})}, mode="delete")
    assert _knows(graph) == {}
    with pytest.raises(og.DataError, match="'a'"):
        graph.bulk({"Knows": _frame({"op": "c", "from": "a", "to": "b"})}, mode="apply")


def test_files_and_names_of_other_systems(graph: og.Graph, tmp_path: Path) -> None:
    """As Debezium writes flattened changes."""
    parts = [
        _frame({"who": "ann", "__op": "c", "__ts": 1, "age": 1}),
        _frame({"who": "ann", "__op": "d", "__ts": 3, "age": None}, {"who": "bob", "__op": "r"}),
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
    assert _people(graph) == {"bob": (None, None, 1)}


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
        ([{"op": "u", "name": "a"}], {"allow_rejects": 1}, "events cannot be left out"),
    ],
)
def test_wrong_events_change_nothing(
    graph: og.Graph, rows: list[dict[str, Any]], more: dict[str, Any], message: str
) -> None:
    head = graph.commits.head()
    with pytest.raises(og.OmniGraphError, match=message):
        _apply(graph, *rows, **more)
    assert graph.commits.head() == head


def test_a_file_of_another_kind_is_refused(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("op,name\nc,ann\n")
    with pytest.raises(og.BadRequestError, match="events are rows of Parquet files or frames"):
        graph.bulk({"Person": tmp_path / "a.csv"}, mode="apply")


def test_a_dry_run_judges_and_writes_nothing(graph: og.Graph) -> None:
    head = graph.commits.head()
    result = _apply(graph, {"op": "c", "name": "ann"}, dry_run=True)
    assert (result.dry_run, result.commit, result.nodes) == (True, None, {"Person": 1})
    with pytest.raises(og.DataError, match="unknown column"):
        _apply(graph, {"op": "c", "name": "ann", "size": 2}, dry_run=True)
    assert graph.commits.head() == head


@pytest.mark.parametrize("seed", range(4))
def test_random_histories_equal_a_model(graph: og.Graph, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    people: dict[str, dict[str, Any]] = {}
    knows: dict[tuple[str, str], Any] = {}
    sequence = 0
    for _ in range(12):
        columns = rng.sample(["age", "bio", "rank"], rng.randint(1, 3))
        events: list[dict[str, Any]] = []
        for _ in range(rng.randint(1, 12)):
            sequence += 1
            name, op = rng.choice("abcdef"), rng.choice("cuud")
            values = {"age": rng.randint(0, 9), "bio": rng.choice(["x", None]), "rank": 2}
            values = {key: values[key] for key in columns}
            events.append({"op": op, "name": name, "seq": sequence, **values})
            if op == "d":
                people.pop(name, None)
                knows = {pair: since for pair, since in knows.items() if name not in pair}
            else:
                known = people.setdefault(name, {"age": None, "bio": None, "rank": 1})
                known.update(values)
        # Events of a batch that follow a delete find the entity as it was before the batch.
        last = {event["name"]: event for event in events}
        links: dict[tuple[str, str], dict[str, Any]] = {}
        for _ in range(rng.randint(0, 5)):
            if people:
                pair = (rng.choice(sorted(people)), rng.choice(sorted(people)))
                since = rng.randint(0, 3)
                op = rng.choice("cd")
                links[pair] = {"op": op, "from": pair[0], "to": pair[1], "since": since}
                knows.pop(pair, None)
                if op == "c":
                    knows[pair] = since
        shuffled = rng.sample(events, len(events))
        sources: dict[str, Any] = {"Person": og.Rows(data=_frame(*shuffled), seq_col="seq")}
        if links:
            sources["Knows"] = _frame(*links.values())
        before = _people(graph)
        for name, event in last.items():
            if event["op"] != "d":
                old = dict(
                    zip(("age", "bio", "rank"), before.get(name, (None, None, 1)), strict=True)
                )
                people[name] = {**old, **{key: event[key] for key in columns}}
        # A node that was deleted and came back within one batch was never away.
        present = set(_knows(graph))
        kept = {pair for pair in present if set(pair) <= set(people) and pair not in links}
        old_knows = _knows(graph)
        knows.update({pair: old_knows[pair] for pair in kept})
        graph.bulk(sources, mode="apply")
        assert _people(graph) == {
            name: (row["age"], row["bio"], row["rank"]) for name, row in people.items()
        }
        assert _knows(graph) == knows
        assert graph.bulk(sources, mode="apply").commit is None
