"""Events of change data capture on Spark do what they do in one process."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.spark import Tuning
from tests.integration.event_histories import SCHEMA, History, frame
from tests.spark.worlds import FULL, ULID, NewGraph, content, outcome

ENDS = "node Person { name: String @key }\nedge Likes: Person -> Person"
APART = Tuning(event_rows=3, merge_rows=0)
"""Several tasks apply the events of a type, and workers replace rows."""


def _rows(name: str, *, row_groups: int, folder: Path, given: Any) -> Any:
    rows = given if isinstance(given, og.Rows) else og.Rows(data=given)
    path = folder / f"{name}.parquet"
    pq.write_table(rows.data, path, row_group_size=row_groups)
    return og.Rows(data=path, seq_col=rows.seq_col)


@pytest.mark.parametrize("seed", range(6 if FULL else 1))
def test_random_histories_equal_a_model(
    spark: Any, new_graph: NewGraph, tmp_path: Path, seed: int
) -> None:
    graph, history = new_graph(SCHEMA), History(seed)
    sources: dict[str, Any] = {}
    for number in range(6 if FULL else 3):
        sources = history.batch()
        tuning = APART if number % 2 else Tuning()
        given = sources
        if number:
            given = {
                name: _rows(name, row_groups=2, folder=tmp_path, given=rows)
                for name, rows in sources.items()
            }
        graph.bulk(given, mode="apply", engine="spark", session=spark, tuning=tuning)
        history.check(graph)
    assert graph.bulk(sources, mode="apply", engine="spark", session=spark).commit is None
    assert not list(Path(graph.uri, "_scratch").glob("*"))


def test_a_frame_is_applied_once_and_deletes_take_edges_along(
    spark: Any, new_graph: NewGraph
) -> None:
    local, remote = new_graph(SCHEMA, name="local"), new_graph(SCHEMA, name="spark")
    people = [("c", "ann", 1), ("c", "bob", 2), ("u", "ann", 3)]
    events = {
        "Person": pa.table(
            dict(zip(("op", "name", "age"), zip(*people, strict=True), strict=True))
        ),
        "Knows": frame(
            {"op": "c", "id": "k", "from": "ann", "to": "bob"},
            {"op": "c", "id": None, "from": "bob", "to": "ann"},
        ),
    }
    local.bulk(events, mode="apply")
    lazy = {
        "Person": spark.createDataFrame(people, "op string, name string, age int").coalesce(1),
        "Knows": events["Knows"],
    }
    options: dict[str, Any] = {"engine": "spark", "session": spark, "tuning": APART}
    first = remote.bulk(lazy, mode="apply", operation_id="one", **options)
    assert (first.nodes, first.edges) == ({"Person": 2}, {"Knows": 2})
    again = remote.bulk(lazy, mode="apply", operation_id="one", **options)
    assert (again.repeated, again.commit, again.nodes) == (True, first.commit, {})
    assert content(remote) == content(local)
    # Of an edge that is named by its id and by its ends the put counts, wherever it stands.
    renamed = frame(
        {"op": "d", "id": "k", "from": None, "to": None, "since": None},
        {"op": "u", "id": None, "from": "ann", "to": "bob", "since": 4},
    )
    for graph, more in ((local, {}), (remote, options)):
        graph.bulk({"Knows": renamed}, mode="apply", **more)
    assert content(remote) == content(local)
    assert len(content(local)["Knows"]) == 2
    for graph, more in ((local, {}), (remote, options)):
        gone = graph.bulk({"Person": pa.table({"name": ["ann", "nobody"]})}, mode="delete", **more)
        assert gone.nodes == {"Person": 2}
    assert content(remote) == content(local)
    assert list(content(local)) == ["Person"]


def test_wrong_events_give_the_same_errors(spark: Any, new_graph: NewGraph, tmp_path: Path) -> None:
    local, remote = new_graph(SCHEMA, name="local"), new_graph(SCHEMA, name="spark")
    wrong: list[dict[str, Any]] = [
        {
            "Person": frame(
                {"op": "x", "name": "a", "age": 1},
                {"op": "u", "name": "b", "age": 1},
                {"op": "d", "name": None, "age": 1},
            ),
            "Knows": frame({"op": "d", "from": "a"}),
        },
        {"Person": frame({"op": "u", "name": "a", "size": 1})},
        {"Person": frame({"op": "u", "name": "a", "age": "old"}, {"op": "u", "name": "b"})},
        {"Knows": frame({"op": "u", "from": "a", "to": "b"}, {"op": "u", "from": "b", "to": "c"})},
        {"Note": frame({"op": "u", "id": "n", "text": None})},
    ]
    for events in wrong:
        wanted = outcome(partial(local.bulk, events, mode="apply"))
        options: dict[str, Any] = {"engine": "spark", "session": spark, "tuning": APART}
        assert outcome(partial(remote.bulk, events, mode="apply", **options)) == wanted
        assert wanted[0] == "data"


def test_sources_of_a_type_name_their_ends_each_for_itself(
    spark: Any, new_graph: NewGraph, tmp_path: Path
) -> None:
    (tmp_path / "people.csv").write_text("name,op\nann,i\nbob,i\n")
    (tmp_path / "none.csv").write_text("")
    (tmp_path / "1.csv").write_text('id,a,b,op\n"",ann,bob,i\n')
    (tmp_path / "2.csv").write_text("id,a,b,op\ny,ann,bob,i\n")
    found = []
    for engine in ("local", "spark"):
        graph = new_graph(ENDS, name=engine)
        rows = [
            og.Rows(type="Person", data=[tmp_path / "none.csv", tmp_path / "people.csv"]),
            og.Rows(type="Likes", data=tmp_path / "1.csv", from_col="a", to_col="b", null="NA"),
            og.Rows(type="Likes", data=tmp_path / "2.csv", from_col="b", to_col="a"),
        ]
        more = {"session": spark} if engine == "spark" else {}
        graph.bulk(rows, mode="apply", engine=engine, **more)
        found.append(graph.export_table("Likes").select(["id", "from", "to"]).to_pylist())
    wanted = [("", "ann", "bob"), ("y", "bob", "ann")]
    assert [[tuple(row.values()) for row in rows] for rows in found] == [wanted, wanted]


@pytest.mark.parametrize("mode", ["apply", "merge"])
def test_a_frame_keeps_its_place_among_files(
    spark: Any, new_graph: NewGraph, tmp_path: Path, mode: Any
) -> None:
    word = ", op" if mode == "apply" else ""
    (tmp_path / "late.csv").write_text(f"name,age{word[:1]}{word[2:]}\nann,2{word and ',u'}\n")
    row = ("ann", 1, "u")[: 3 if word else 2]
    early = spark.createDataFrame([row], "name string, age int" + (word and ", op string"))
    graph = new_graph("node Person { name: String @key  age: I32? }")
    rows = [
        og.Rows(type="Person", data=data, duplicates="last")
        for data in (early, tmp_path / "late.csv")
    ]
    graph.bulk(rows, mode=mode, engine="spark", session=spark)
    assert graph.export_table("Person")["age"].to_pylist() == [2]


def test_wrong_events_are_left_out_alike(spark: Any, new_graph: NewGraph, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(
        "op,name,age,lsn\nc,ann,1,1\nu,ann,old,2\nx,bob,2,3\nc,cy,3,4\nc,,4,5\nd,ann,,\n"
    )
    (tmp_path / "knows.jsonl").write_text(
        '{"op": "c", "from": "ann", "to": "cy"}\n{"op": "c", "from": "cy", "to": "bob"}\n'
    )
    notes = [("c", "n", "x"), ("u", "n", None), ("c", "m", "y")]
    lazy = spark.createDataFrame(notes, "op string, id string, text string").coalesce(1)
    table = pa.table(dict(zip(("op", "id", "text"), zip(*notes, strict=True), strict=True)))
    local, remote = new_graph(SCHEMA, name="local"), new_graph(SCHEMA, name="spark")
    small = Tuning(piece_bytes=40, event_rows=3, merge_rows=0)
    both: list[tuple[og.Graph, dict[str, Any]]] = [
        (local, {"engine": "local"}),
        (remote, {"engine": "spark", "session": spark, "tuning": small}),
    ]

    def apply(graph: og.Graph, allowed: int, more: dict[str, Any]) -> Any:
        return graph.bulk(
            {
                "Person": og.Rows(data=tmp_path / "people.csv", seq_col="lsn"),
                "Knows": tmp_path / "knows.jsonl",
                "Note": table if graph is local else lazy,
            },
            mode="apply",
            allow_rejects=allowed,
            rejects=tmp_path / f"{more['engine']}.jsonl",
            **more,
        )

    wanted, found = (outcome(partial(apply, graph, 5, more)) for graph, more in both)
    assert found == wanted
    assert wanted[0] == "data"
    counts = []
    for graph, more in both:
        done = apply(graph, 6, more)
        counts.append((done.nodes, done.edges, done.rejected))
    assert counts == [({"Person": 2, "Note": 2}, {"Knows": 1}, 6)] * 2
    assert content(remote) == content(local)
    texts = [ULID.sub("ID", (tmp_path / f"{n}.jsonl").read_text()) for n in ("local", "spark")]
    assert sorted(texts[1].splitlines()) == sorted(texts[0].splitlines())
