"""Loads: modes, ids, sources of data, and what one load commits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # no stubs are installed
import polars as pl
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.values.words import LoadWord
from tests.integration.helpers import (
    NewGraph,
    edge,
    ends,
    exported,
    files,
    head,
    ids,
    jsonl,
    load,
    node,
    pins,
    rows,
)

TEAMS = """\
node Team { name: String @key }
node Player { name: String @key  born: Date? @unique }
edge Plays: Player -> Team @card(1..2)
"""


# ---- modes --------------------------------------------------------------------------------


def test_append_of_an_existing_id_is_a_key_conflict_and_writes_nothing(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a", age=1)])
    before = files(graph.uri)
    with pytest.raises(og.KeyConflictError) as refused:
        graph.load(
            jsonl('{"type":"Person","data":{"name":"b"}}', '{"type":"Person","data":{"name":"a"}}'),
            mode="append",
        )
    error = refused.value
    assert error.message == "line 2: Person 'a' already exists; nothing was written"
    assert dict(error.details) == {"entity_kind": "node", "type_name": "Person", "entity_id": "a"}
    assert files(graph.uri) == before


def test_the_first_conflict_of_the_input_is_reported_whatever_its_type(graph: og.Graph) -> None:
    people = [node("Person", name="a"), node("Person", name="b")]
    paper, wrote = node("Paper", id="x", title=""), edge("Wrote", "a", "x", id="w")
    load(graph, [*people, paper, wrote])
    new = node("Person", name="c")
    for rows_, place in (
        ([new, people[1], wrote, paper], "line 2: Person 'b'"),
        ([new, wrote, paper, people[1]], "line 2: Wrote 'w'"),
        ([new, paper, people[0], wrote], "line 2: Paper 'x'"),
    ):
        with pytest.raises(og.KeyConflictError, match=f"^{place} already exists"):
            load(graph, rows_)


def test_append_of_an_existing_edge_id_is_a_key_conflict(graph: og.Graph) -> None:
    load(
        graph, [node("Person", name="a"), edge("Wrote", "a", "x"), node("Paper", id="x", title="")]
    )
    (known,) = rows(graph, "Wrote")
    with pytest.raises(og.KeyConflictError) as refused:
        load(graph, [edge("Wrote", "a", "x", id=known)])
    assert refused.value.entity_kind == "edge"


def test_merge_replaces_whole_rows_and_adds_others(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a", age=1, mail="m"), node("Person", name="b", age=2)])
    result = graph.load([node("Person", name="a", age=9), node("Person", name="c")], mode="merge")
    assert rows(graph, "Person") == {
        "a": {"name": "a", "age": 9},
        "b": {"name": "b", "age": 2},
        "c": {"name": "c"},
    }
    assert (dict(result.nodes), result.total_entities) == ({"Person": 2}, 2)


def test_merge_of_the_same_file_twice_changes_no_row(graph: og.Graph) -> None:
    data = [
        node("Person", name="a", age=1),
        node("Person", name="b"),
        edge("Knows", "a", "b", since="2025-03-01"),
        edge("Knows", "b", "a"),
    ]
    load(graph, data, "merge")
    before = exported(graph)
    load(graph, data, "merge")
    assert exported(graph) == before


def test_merge_gives_an_edge_of_a_unique_pair_its_new_values(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a"), edge("Knows", "a", "a", id="e")])
    load(graph, [edge("Knows", "a", "a", weight=5.0), node("Person", name="b")], "merge")
    assert rows(graph, "Knows") == {"e": {"weight": 5.0}}


def test_merge_without_a_unique_pair_adds_the_edge_again(graph: og.Graph) -> None:
    data = [node("Person", name="a"), node("Paper", id="x", title="t"), edge("Wrote", "a", "x")]
    load(graph, data, "merge")
    load(graph, data, "merge")
    assert ends(graph, "Wrote") == [("a", "x"), ("a", "x")]


def test_overwrite_replaces_the_types_present_and_no_other(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a"), node("Paper", id="x", title="t")])
    before = pins(graph)
    load(graph, [node("Person", name="b"), node("Person", name="c")], "overwrite")
    assert set(rows(graph, "Person")) == {"b", "c"}
    assert set(rows(graph, "Paper")) == {"x"}
    assert pins(graph) == {**before, "node:Person": before["node:Person"] + 1}


def test_overwrite_of_edges_resolves_against_the_nodes_kept(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a"), node("Person", name="b"), edge("Knows", "a", "b")])
    load(graph, [edge("Knows", "b", "a", id="e")], "overwrite")
    assert ends(graph, "Knows") == [("b", "a")]
    with pytest.raises(og.DataError, match="dst 'z' not found in Person"):
        load(graph, [edge("Knows", "a", "z")], "overwrite")


def test_overwrite_is_judged_on_the_new_content_only(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a", mail="m")])
    load(graph, [node("Person", name="b", mail="m")], "overwrite")
    assert rows(graph, "Person") == {"b": {"name": "b", "mail": "m"}}
    with pytest.raises(og.DataError, match="src 'a' not found in Person"):
        load(graph, [node("Person", name="b"), edge("Knows", "a", "b")], "overwrite")


def test_overwrite_that_drops_a_node_some_edge_needs_is_refused(graph: og.Graph) -> None:
    load(
        graph, [node("Person", name="a"), node("Person", name="b"), edge("Knows", "a", "b", id="e")]
    )
    before = files(graph.uri)
    with pytest.raises(og.DataError) as refused:
        load(graph, [node("Person", name="a")], "overwrite")
    assert [problem["message"] for problem in refused.value.problems] == [
        "Knows 'e': dst 'b' not found in Person"
    ]
    assert files(graph.uri) == before


def test_overwrite_may_drop_a_node_together_with_its_edges(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a"), node("Person", name="b"), edge("Knows", "a", "b")])
    load(graph, [node("Person", name="a"), edge("Knows", "a", "a")], "overwrite")
    assert ends(graph, "Knows") == [("a", "a")]


def test_a_unique_value_of_a_stored_row_is_refused_as_its_type(new_graph: NewGraph) -> None:
    graph = new_graph(TEAMS)
    load(graph, [node("Player", name="p", born="2025-03-01")])
    for mode in ("append", "merge"):
        with pytest.raises(og.DataError, match="held by 'p' and 'q'") as refused:
            load(graph, [node("Player", name="q", born=20148)], mode)
        assert refused.value.problems[0]["line"] == 1
    load(graph, [node("Player", name="p"), node("Player", name="q", born=20148)], "merge")
    assert rows(graph, "Player")["q"]["born"] == 20148


def test_an_edge_moved_by_a_merge_recounts_the_source_it_left(new_graph: NewGraph) -> None:
    graph = new_graph(TEAMS)
    load(
        graph,
        [
            *(node("Team", name=t) for t in "xyz"),
            *(node("Player", name=p) for p in "pq"),
            edge("Plays", "p", "x", id="e"),
            edge("Plays", "q", "x", id="f"),
        ],
    )
    with pytest.raises(og.DataError) as refused:
        load(graph, [edge("Plays", "q", "y", id="e")], "merge")
    assert refused.value.problems[0]["message"] == (
        "@card violation on edge Plays: source 'p' has 0 edges (min 1)"
    )
    load(graph, [edge("Plays", "q", "y", id="e"), edge("Plays", "p", "z", id="g")], "merge")
    assert ends(graph, "Plays") == [("p", "z"), ("q", "x"), ("q", "y")]


def test_an_unknown_mode_is_refused(graph: og.Graph) -> None:
    with pytest.raises(og.BadRequestError, match="expected one of append, merge, overwrite"):
        graph.load(b"", mode="replace")  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["append", "merge"])
@pytest.mark.parametrize("data", [b"", b"\n \r\n\t\n", []])
def test_an_empty_input_commits_nothing(graph: og.Graph, mode: LoadWord, data: Any) -> None:
    before = head(graph)
    result = graph.load(data, mode=mode)
    assert (result.total_entities, result.commit) == (0, None)
    assert head(graph) == before


def test_an_empty_overwrite_is_refused(graph: og.Graph) -> None:
    with pytest.raises(og.BadRequestError, match="an empty input overwrites nothing"):
        graph.load(b"\n", mode="overwrite")


# ---- envelopes and ids --------------------------------------------------------------------


def test_edges_may_come_before_their_nodes_in_a_file(graph: og.Graph) -> None:
    load(graph, [edge("Knows", "a", "b"), node("Person", name="b"), node("Person", name="a")])
    assert ends(graph, "Knows") == [("a", "b")]


@pytest.mark.parametrize("word", ["Knows", "knows", "KNOWS", "kNoWs"])
def test_an_edge_type_is_named_in_any_case(graph: og.Graph, word: str) -> None:
    load(graph, [node("Person", name="a"), edge(word, "a", "a")])
    assert ends(graph, "Knows") == [("a", "a")]


def test_data_may_be_left_out(graph: og.Graph) -> None:
    graph.load(
        jsonl('{"type":"Person","data":{"name":"a"}}', '{"edge":"Knows","from":"a","to":"a"}'),
        mode="append",
    )
    assert [row["weight"] for row in rows(graph, "Knows").values()] == [1.0]


def test_an_explicit_id_must_equal_the_key(graph: og.Graph) -> None:
    load(graph, [node("Person", id="a", name="a")])
    with pytest.raises(og.DataError) as refused:
        load(graph, [node("Person", id="B", name="b")])
    assert refused.value.problems == (
        {
            "line": 1,
            "type": "Person",
            "field": "id",
            "message": "id 'B' does not match the key: expected 'b'",
        },
    )


def test_ids_without_a_key_are_kept_or_made(graph: og.Graph) -> None:
    load(graph, [node("Paper", id="é'", title="t"), node("Paper", title="u")])
    found = set(rows(graph, "Paper"))
    assert "é'" in found
    (made,) = found - {"é'"}
    assert len(made) == 26
    assert made.isupper()


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_an_id_twice_in_one_input_is_refused_with_both_lines(
    graph: og.Graph, mode: LoadWord
) -> None:
    before = files(graph.uri)
    with pytest.raises(og.DataError) as refused:
        graph.load(
            jsonl(
                '{"type":"Person","data":{"name":"a"}}',
                "",
                '{"type":"Paper","data":{"id":"x","title":"t"}}',
                '{"type":"Person","data":{"name":"a"}}',
                '{"type":"Paper","data":{"id":"x","title":"u"}}',
            ),
            mode=mode,
        )
    assert [(p["line"], p["message"]) for p in refused.value.problems] == [
        (4, "duplicate id 'a' of Person (also on line 1)"),
        (5, "duplicate id 'x' of Paper (also on line 3)"),
    ]
    assert files(graph.uri) == before


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("String", "a b", "a b"),
        ("String", "", ""),
        ("enum(red, green)", "red", "red"),
        ("Bool", True, "true"),
        ("Bool", False, "false"),
        ("I32", -7, "-7"),
        ("I64", 2**63 - 1, "9223372036854775807"),
        ("U32", 2**32 - 1, "4294967295"),
        ("U64", 2**64 - 1, "18446744073709551615"),
        ("F64", 1.0, "1"),
        ("F64", 2.5, "2.5"),
        ("F64", 1e21, "1000000000000000000000"),
        ("F64", 1e-7, "0.0000001"),
        ("F64", -0.0, "0"),
        ("F64", 0.1, "0.1"),
        ("F32", 0.1, "0.1"),
        ("F32", 16777216, "16777216"),
        ("Date", "2025-02-01", "20120"),
        ("Date", -1, "-1"),
        ("DateTime", "1970-01-01T00:00:01.5Z", "1500"),
    ],
)
def test_an_id_is_the_canonical_text_of_its_key(
    new_graph: NewGraph, kind: str, given: object, expected: str
) -> None:
    graph = new_graph(f"node Item {{ k: {kind} @key }}\nedge Same: Item -> Item\n")
    load(graph, [node("Item", k=given), edge("Same", expected, expected)])
    assert list(rows(graph, "Item")) == [expected]
    with pytest.raises(og.KeyConflictError):
        load(graph, [node("Item", id=expected, k=given)])


def test_a_composite_key_is_a_compact_json_array(new_graph: NewGraph) -> None:
    graph = new_graph("node Cell { row: I32 col: String @key(row, col) }\n")
    load(graph, [node("Cell", row=3, col='a"b'), node("Cell", row=3, col="é,1")])
    assert list(rows(graph, "Cell")) == ['["a\\"b","3"]', '["é,1","3"]']
    load(graph, [node("Cell", row=3, col="é,1", id='["é,1","3"]')], "merge")
    assert len(rows(graph, "Cell")) == 2


# ---- sources ------------------------------------------------------------------------------

LINES = jsonl(
    '{"type":"Person","data":{"name":"a","age":1}}',
    '{"edge":"Knows","from":"a","to":"a","data":{"id":"e"}}',
)


def assert_loaded(graph: og.Graph) -> None:
    assert rows(graph, "Person") == {"a": {"name": "a", "age": 1}}
    assert rows(graph, "Knows") == {"e": {"weight": 1.0}}


@pytest.mark.parametrize("kind", ["path", "text", "bytes", "list", "generator"])
def test_a_load_reads_paths_bytes_and_envelopes(graph: og.Graph, tmp_path: Path, kind: str) -> None:
    (tmp_path / "in.jsonl").write_bytes(LINES)
    envelopes = [node("Person", name="a", age=1), edge("Knows", "a", "a", id="e")]
    sources: dict[str, Any] = {
        "path": tmp_path / "in.jsonl",
        "text": os.fspath(tmp_path / "in.jsonl"),
        "bytes": LINES,
        "list": envelopes,
        "generator": (item for item in envelopes),
    }
    result = graph.load(sources[kind], mode="append")
    assert_loaded(graph)
    assert (dict(result.nodes), dict(result.edges)) == ({"Person": 1}, {"Knows": 1})


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + LINES,
        LINES.replace(b"\n", b"\r\n"),
        b"\n \n" + LINES.replace(b"\n", b"\n\t\n"),
        LINES.rstrip(b"\n"),
        LINES.replace(b'{"type"', b'  {  "type"'),
    ],
    ids=["byte-order mark", "CRLF", "blank lines", "no last newline", "spaces"],
)
def test_harmless_framing_is_accepted(graph: og.Graph, data: bytes) -> None:
    graph.load(data, mode="append")
    assert_loaded(graph)


def test_a_missing_file_and_a_folder_are_refused(graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(og.NotFoundError, match="file not found"):
        graph.load(tmp_path / "none.jsonl", mode="append")
    with pytest.raises(og.BadRequestError, match="is a directory"):
        graph.load(tmp_path, mode="append")


def frames() -> dict[str, tuple[Any, Any]]:
    people = {"name": ["a", "b"], "age": [1, None]}
    knows = {"s": ["a", "b"], "t": ["b", "a"], "weight": [0.5, 2.0]}
    batch = pa.RecordBatch.from_pydict(people)
    return {
        "arrow": (pa.table(people), pa.table(knows)),
        "batch": (batch, pa.table(knows)),
        "pandas": (pd.DataFrame(people), pd.DataFrame(knows)),
        "polars": (pl.DataFrame(people), pl.DataFrame(knows)),
    }


@pytest.mark.parametrize("kind", ["arrow", "batch", "pandas", "polars"])
def test_a_frame_of_any_library_is_loaded(graph: og.Graph, kind: str) -> None:
    people, knows = frames()[kind]
    first = graph.load_table("Person", people, mode="append")
    graph.load_table("Knows", knows, mode="append", from_col="s", to_col="t")
    assert dict(first.nodes) == {"Person": 2}
    assert rows(graph, "Person") == {"a": {"name": "a", "age": 1}, "b": {"name": "b"}}
    assert ends(graph, "Knows") == [("a", "b"), ("b", "a")]
    assert sorted(row["weight"] for row in rows(graph, "Knows").values()) == [0.5, 2.0]


def test_a_frame_carries_every_type(new_graph: NewGraph) -> None:
    graph = new_graph(
        """node Item { k: I64 @key  t: String?  b: Bool?  f: F32?  d: Date?  m: DateTime?
        v: Vector(2)?  x: Blob?  l: [String]?  u: U64? }"""
    )
    table = pa.table(
        {
            "k": pa.array([1, 2], pa.int32()),
            "t": pa.array(["a", None]).dictionary_encode(),
            "b": [True, None],
            "f": pa.array([0.5, None], pa.float64()),
            "d": pa.array(["2025-03-01", None]),
            "m": pa.array([1500, None], pa.timestamp("ms")),
            "v": [[1.0, 2.0], None],
            "x": [b"\x00\xff", None],
            "l": pa.array([["a", ""], []], pa.large_list(pa.large_string())),
            "u": pa.array([2**64 - 1, None], pa.uint64()),
        }
    )
    graph.load_table("Item", table, mode="append")
    assert rows(graph, "Item") == {
        "1": {
            "k": 1,
            "t": "a",
            "b": True,
            "f": 0.5,
            "d": 20148,
            "m": 1500,
            "v": [1.0, 2.0],
            "x": "base64:AP8=",
            "l": ["a", ""],
            "u": 2**64 - 1,
        },
        "2": {"k": 2, "l": []},
    }


@pytest.mark.parametrize(
    ("type_name", "columns", "field", "message"),
    [
        ("Person", {"name": ["a"], "nope": [1]}, "nope", "unknown column 'nope' for 'node:Person'"),
        ("Person", {"name": [1]}, "name", "a column of int64 cannot be loaded as String"),
        ("Person", {"name": ["a"], "age": ["x"]}, "age", "cannot be loaded as I32?"),
        ("Person", {"name": ["a"], "age": [2**40]}, "age", "outside the range of I32"),
        ("Person", {"age": [1]}, "name", "missing required property 'name'"),
        ("Knows", {"to": ["a"]}, "src", "needs a column with the 'from' ids"),
        ("Knows", {"from": ["a"], "to": pa.nulls(1, pa.string())}, "dst", "must not be null"),
    ],
)
def test_a_frame_that_does_not_fit_is_refused(
    graph: og.Graph, type_name: str, columns: dict[str, Any], field: str, message: str
) -> None:
    before = files(graph.uri)
    with pytest.raises(og.DataError, match=f"the {type_name} frame") as refused:
        graph.load_table(type_name, pa.table(columns), mode="append")
    problem = refused.value.problems[0]
    assert problem["field"] == field
    assert message in str(problem["message"])
    assert files(graph.uri) == before


def test_a_frame_with_a_fraction_for_an_integer_is_refused(graph: og.Graph) -> None:
    with pytest.raises(og.DataError):
        graph.load_table("Person", pa.table({"name": ["a"], "age": [1.5]}), mode="append")


@pytest.mark.parametrize("values", [["x", None]])
def test_a_frame_with_null_in_a_list_is_refused(new_graph: NewGraph, values: list[object]) -> None:
    graph = new_graph("node Item { k: String @key  l: [String]? }")
    with pytest.raises(og.DataError):
        graph.load_table("Item", pa.table({"k": ["a"], "l": [values]}), mode="append")


def test_a_frame_with_a_column_twice_is_refused(graph: og.Graph) -> None:
    table = pa.table([pa.array(["a"]), pa.array(["b"])], names=["name", "name"])
    with pytest.raises(og.OmniGraphError):
        graph.load_table("Person", table, mode="append")


def test_an_unknown_type_or_frame_is_refused(graph: og.Graph) -> None:
    with pytest.raises(og.NotFoundError, match="unknown type 'Nobody'"):
        graph.load_table("Nobody", pa.table({"a": [1]}), mode="append")
    with pytest.raises(og.BadRequestError, match="row 1 is an int"):
        graph.load_table("Person", [1], mode="append")


# ---- one commit ---------------------------------------------------------------------------


def test_a_large_load_of_many_types_is_one_commit(graph: og.Graph) -> None:
    count = 9_000
    people = [node("Person", name=f"p{i}", age=i) for i in range(count)]
    knows = [edge("Knows", f"p{i}", f"p{(i + 1) % count}") for i in range(count)]
    result = graph.load([*people, *knows], mode="append")
    assert result.commit is not None
    assert graph.commits.get(result.commit.graph_commit_id).kind == "load"
    assert result.commit.manifest_version == 2
    tables = graph.snapshot(version=2).tables
    assert (tables["node:Person"].row_count, tables["edge:Knows"].row_count) == (count, count)
    assert sum(row["age"] for row in rows(graph, "Person").values()) == sum(range(count))
    again = graph.load(people[:8_500], mode="merge")
    assert again.total_entities == 8_500
    assert len(rows(graph, "Person")) == count


def test_a_dry_run_checks_everything_and_writes_nothing(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a")])
    before = files(graph.uri)
    result = graph.load([node("Person", name="b")], mode="append", dry_run=True)
    assert (result.dry_run, result.commit, dict(result.nodes)) == (True, None, {"Person": 1})
    with pytest.raises(og.DataError, match="not found in Person"):
        graph.load([edge("Knows", "a", "z")], mode="append", dry_run=True)
    with pytest.raises(og.KeyConflictError):
        graph.load([node("Person", name="a")], mode="append", dry_run=True)
    assert files(graph.uri) == before


def test_progress_reports_growing_bytes_up_to_the_end(graph: og.Graph, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(
        b"".join(b'{"type":"Person","data":{"name":"%d"}}\n' % i for i in range(200_000))
    )
    seen: list[int] = []
    graph.load(path, mode="append", progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == path.stat().st_size
    # Once for each block of lines.
    assert len(seen) == 3


def test_a_load_takes_expected_head_operation_id_and_actor(graph: og.Graph) -> None:
    genesis = head(graph)
    data = [node("Person", name="a")]
    first = graph.load(
        data, mode="append", expected_head=genesis, operation_id="job-1", actor="ann"
    )
    assert first.commit is not None
    assert first.commit.actor_id == first.actor_id == "ann"
    again = graph.load(data, mode="append", operation_id="job-1")
    assert again.commit == first.commit
    assert (first.repeated, again.repeated) == (False, True)
    assert again.nodes == first.nodes == {"Person": 1}
    with pytest.raises(og.PreconditionFailedError):
        graph.load([node("Person", name="b")], mode="append", expected_head=genesis)
    assert ids(exported(graph, "Person")) == ["a"]


def test_the_result_lists_types_by_name(graph: og.Graph) -> None:
    result = graph.load(
        [node("Person", name="a"), node("Paper", title="t"), edge("Knows", "a", "a")],
        mode="append",
    )
    found = result.to_json()
    assert found["nodes"] == [
        {"name": "Paper", "entities_loaded": 1},
        {"name": "Person", "entities_loaded": 1},
    ]
    assert found["edges"] == [{"name": "Knows", "entities_loaded": 1}]
    assert (found["total_entities"], found["mode"], found["branch"]) == (3, "append", "main")
    assert found["branch_created"] is False


@pytest.mark.parametrize(
    ("given", "said"), [(5, "an int"), (None, "a NoneType"), ({"type": "Person"}, "a dict")]
)
def test_what_is_not_an_input_is_refused_by_its_name(tmp_path: Path, given: Any, said: str) -> None:
    with (
        og.init(tmp_path / "g", "node Person { name: String @key }", durability="none") as graph,
        pytest.raises(og.BadRequestError, match=f"^cannot load {said}$") as caught,
    ):
        graph.load(given, mode="append")
    assert "a list of dictionaries" in str(caught.value.hint)
