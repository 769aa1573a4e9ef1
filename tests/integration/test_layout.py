"""What a graph looks like on disk, how it is created, and when it is refused."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph.catalog import TypeKind
from omnigraph.rows import table_folder
from omnigraph.store import locate
from tests.integration.conftest import Cli
from tests.integration.helpers import PEOPLE, NewGraph, files, load, node, rows, run

STAMP = "omnigraph:internal_schema_version"
RETIRED = (
    "_graph_commits.lance",
    "_graph_commit_actors.lance",
    "_graph_runs.lance",
    "_graph_run_actors.lance",
)
PERSON = "nodes/40d76f1f51639ec0"
KNOWS = "edges/602a25a3bd0b455b"


def datasets(root: str) -> list[Path]:
    return sorted(path.parent for path in Path(root).rglob("_versions"))


# ---- the tree -----------------------------------------------------------------------------


@pytest.mark.local
def test_init_creates_exactly_the_tree(graph: og.Graph) -> None:
    names = sorted(os.listdir(graph.uri))
    assert names == [
        "__manifest",
        "__schema_state.json",
        "_schema.ir.json",
        "_schema.pg",
        "_schema_history",
        "edges",
        "nodes",
    ]
    assert len(os.listdir(Path(graph.uri, "nodes"))) == 2
    assert len(os.listdir(Path(graph.uri, "edges"))) == 2
    (history,) = os.listdir(Path(graph.uri, "_schema_history"))
    state = json.loads(Path(graph.uri, "__schema_state.json").read_text(encoding="utf-8"))
    assert f"sha256:{history}" == f"{state['ir_hash']}.json"


def test_retired_datasets_never_appear(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a")])
    run(graph, 'insert Person { name: "b" }')
    run(graph, 'delete Person where name = "a"')
    assert not [path for path in files(graph.uri) for name in RETIRED if name in path]


@pytest.mark.local
def test_writes_leave_no_slot_and_no_staging_file(graph: og.Graph) -> None:
    run(graph, 'insert Person { name: "a" }')
    assert os.listdir(Path(graph.uri, "__recovery")) == []
    assert not [path for path in files(graph.uri) if path.endswith(".staging")]
    assert not Path(graph.uri, "__init_claim.json").exists()


def test_stamp_genesis_commit_and_tables_are_one_manifest_version(graph: og.Graph) -> None:
    manifest = lance.dataset(f"{graph.uri}/__manifest")
    assert manifest.version == 1
    assert manifest.schema.metadata[STAMP.encode()] == b"4"
    kinds = manifest.to_table(columns=["object_type"])["object_type"].to_pylist()
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        "table": 4,
        "table_version": 4,
        "graph_commit": 1,
    }
    genesis = graph.commits.head()
    assert (genesis.kind, genesis.parent_commit_id, genesis.manifest_version) == ("init", None, 1)


@pytest.mark.local
def test_every_dataset_has_row_ids_key_format_and_no_auto_cleanup(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a"), node("Paper", id="p", title="t")])
    run(graph, 'insert Knows { from: "a", to: "a" } insert Wrote { from: "a", to: "p" }')
    found = datasets(graph.uri)
    assert len(found) == 5
    for path in found:
        dataset = lance.dataset(str(path))
        key = dataset.schema.field("object_id" if path.name == "__manifest" else "id")
        assert dataset.has_stable_row_ids, path
        assert dataset.data_storage_version == "2.2", path
        assert not key.nullable, path
        assert key.metadata[b"lance-schema:unenforced-primary-key"] == b"true", path
        assert not [name for name in dataset.config() if "auto_cleanup" in name], path


def test_dataset_properties_survive_overwrite_update_and_delete(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a"), node("Person", name="b")])
    load(graph, [node("Person", name="c"), node("Person", name="d")], "overwrite")
    run(graph, 'update Person set { age: 1 } where name = "c"')
    run(graph, 'delete Person where name = "d"')
    dataset = lance.dataset(f"{graph.uri}/{PERSON}")
    assert dataset.has_stable_row_ids
    assert b"lance-schema:unenforced-primary-key" in dataset.schema.field("id").metadata
    assert dataset.data_storage_version == "2.2"


# ---- paths --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "digits"),
    [
        ("", "cbf29ce484222325"),
        ("a", "af63dc4c8601ec8c"),
        ("foobar", "85944171f73967e8"),
        ("Person", "40d76f1f51639ec0"),
        ("Knows", "602a25a3bd0b455b"),
    ],
)
def test_a_folder_is_the_fnv_1a_hash_of_the_type_name(name: str, digits: str) -> None:
    assert table_folder(TypeKind.NODE, name) == f"nodes/{digits}"
    assert table_folder(TypeKind.EDGE, name) == f"edges/{digits}"


@pytest.mark.local
def test_tables_lie_at_the_hashed_paths(graph: og.Graph) -> None:
    tables = graph.snapshot().tables
    assert tables["node:Person"].path == PERSON
    assert tables["edge:Knows"].path == KNOWS
    for pin in tables.values():
        assert Path(graph.uri, pin.path, "_versions").is_dir()


def test_a_node_and_an_edge_type_of_one_name_do_not_share_a_table(new_graph: NewGraph) -> None:
    graph = new_graph("node Link { name: String @key }\nedge Link: Link -> Link\n")
    tables = graph.snapshot().tables
    assert tables["node:Link"].path.removeprefix("nodes/") == tables["edge:Link"].path.removeprefix(
        "edges/"
    )
    load(graph, [node("Link", name="a"), {"edge": "Link", "from": "a", "to": "a"}])
    assert [item.row_count for item in graph.snapshot().tables.values()] == [1, 1]


def test_the_fold_after_a_publish_equals_a_cold_open(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a"), node("Person", name="b")])
    run(graph, 'insert Knows { from: "a", to: "b" }')
    run(graph, 'delete Person where name = "b"')
    with og.open(graph.uri, mode="ro") as cold:
        assert cold.snapshot() == graph.snapshot()
        assert cold.commits.list() == graph.commits.list()


# ---- init ---------------------------------------------------------------------------------


def test_init_over_a_graph_is_refused_and_destroys_nothing(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a")])
    before = files(graph.uri)
    for force in (False, True):
        with pytest.raises(og.AlreadyInitializedError, match="already holds a graph"):
            og.init(graph.uri, "node Other { x: I32 }", force=force, durability="none")
    assert files(graph.uri) == before
    assert rows(graph, "Person") == {"a": {"name": "a"}}


def test_init_onto_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "g").write_text("keep me", encoding="utf-8")
    with pytest.raises(og.BadRequestError, match="is a file"):
        og.init(tmp_path / "g", PEOPLE, durability="none")
    assert (tmp_path / "g").read_text(encoding="utf-8") == "keep me"


def test_a_schema_that_does_not_compile_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(og.CompileError):
        og.init(tmp_path / "g", "node {", durability="none")
    assert not (tmp_path / "g").exists()


def test_schema_files_without_a_graph_need_force(tmp_path: Path) -> None:
    place = tmp_path / "g"
    place.mkdir()
    (place / "_schema.pg").write_text("node Old { x: I32 }\n", encoding="utf-8")
    with pytest.raises(og.AlreadyInitializedError, match=r"_schema\.pg but no graph"):
        og.init(place, PEOPLE, durability="none")
    assert (place / "_schema.pg").read_text(encoding="utf-8") == "node Old { x: I32 }\n"
    with og.init(place, PEOPLE, force=True, durability="none") as graph:
        assert graph.schema_source == PEOPLE
        run(graph, 'insert Person { name: "a" }')


def test_init_keeps_what_it_did_not_make(tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "mine.txt").write_text("keep me", encoding="utf-8")
    with contextlib.suppress(og.AlreadyInitializedError):
        og.init(tmp_path, PEOPLE, durability="none").close()
    assert (tmp_path / "nodes" / "mine.txt").exists()


RACER = """
import sys
import omnigraph as og
sys.stdin.readline()
try:
    og.init(sys.argv[1], "node Person { name: String @key }\\nedge Knows: Person -> Person\\n")
except og.AlreadyInitializedError:
    sys.exit(5)
"""


def test_of_racing_inits_one_wins_and_the_others_are_told(tmp_path: Path) -> None:
    place = str(tmp_path / "g")
    racers = [
        subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-c", RACER, place], stdin=subprocess.PIPE
        )
        for _ in range(4)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write(b"\n")
        racer.stdin.flush()
    codes = sorted(racer.wait(timeout=120) for racer in racers)
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.close()
    assert codes == [0, 5, 5, 5]
    with og.open(place, durability="none") as graph:
        assert graph.snapshot().version == 1
        run(graph, 'insert Person { name: "a" }')


KILLED = """
import os, signal, sys
import omnigraph as og
from omnigraph.store.tables.{module} import {owner}
def die(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)
{owner}.{method} = die
og.init(sys.argv[1], "node Person {{ name: String @key }}\\n")
"""


def killed_init(place: Path, *, module: str, owner: str, method: str) -> None:
    script = KILLED.format(module=module, owner=owner, method=method)
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", script, str(place)], check=False, timeout=120
    )
    assert done.returncode == -signal.SIGKILL


def test_init_after_an_init_killed_early_succeeds(tmp_path: Path) -> None:
    place = tmp_path / "g"
    killed_init(place, module="table", owner="Tables", method="create")
    with pytest.raises(og.NotFoundError, match="no graph at"):
        og.open(place)
    with og.init(place, PEOPLE, durability="none") as graph:
        run(graph, 'insert Person { name: "a" }')
        assert not Path(graph.uri, "__init_claim.json").exists()


def test_init_after_an_init_killed_before_the_manifest_starts_anew(tmp_path: Path) -> None:
    place = tmp_path / "g"
    killed_init(place, module="journal", owner="Journal", method="create")
    with pytest.raises(og.NotFoundError, match="no graph at"):
        og.open(place)
    with og.init(place, PEOPLE, durability="none") as graph:
        assert graph.schema_source == PEOPLE
        assert len(os.listdir(Path(graph.uri, "nodes"))) == 2
        assert not Path(graph.uri, "__init_claim.json").exists()
        run(graph, 'insert Person { name: "a" }')


# ---- the schema contract ------------------------------------------------------------------


def drift(graph: og.Graph, name: str, content: bytes | None) -> None:
    place = locate(graph.uri)
    if content is None:
        place.files.delete(place.path(name))
    else:
        place.files.replace(place.path(name), content, sync=False)


def assert_refused_everywhere(graph: og.Graph) -> None:
    before = files(graph.uri)
    attempts: list[Callable[[], object]] = [
        lambda: og.open(graph.uri, durability="none"),
        lambda: og.open(graph.uri, mode="ro"),
        graph.refresh,
        lambda: run(graph, 'insert Person { name: "x" }'),
        lambda: load(graph, [node("Person", name="x")]),
    ]
    for attempt in attempts:
        with pytest.raises(og.OmniGraphError):
            attempt()
    assert files(graph.uri) == before


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("_schema.pg", PEOPLE.replace("age: I32?", "age: I64?").encode()),
        ("_schema.pg", b"node {"),
        ("_schema.pg", b"\xff"),
        ("_schema.pg", None),
        ("_schema.ir.json", b"{}"),
        ("_schema.ir.json", b"[]"),
        ("_schema.ir.json", None),
        ("__schema_state.json", b"{}"),
        ("__schema_state.json", b"nonsense"),
        ("__schema_state.json", None),
        ("_schema.pg.staging", b""),
    ],
)
def test_schema_drift_is_refused_on_open_refresh_and_write(
    graph: og.Graph, name: str, content: bytes | None
) -> None:
    run(graph, 'insert Person { name: "a" }')
    drift(graph, name, content)
    assert_refused_everywhere(graph)


def test_a_state_file_that_is_no_object_is_refused(graph: og.Graph) -> None:
    drift(graph, "__schema_state.json", b"[]")
    assert_refused_everywhere(graph)


def test_the_ir_of_another_graph_is_refused(graph: og.Graph, new_graph: NewGraph) -> None:
    other = new_graph(name="other")
    drift(graph, "_schema.ir.json", locate(other.uri).files.read(f"{other.uri}/_schema.ir.json"))
    assert_refused_everywhere(graph)


def test_a_drifted_schema_says_how_to_undo_it(graph: og.Graph) -> None:
    drift(graph, "_schema.pg", b"node Other { x: I32 }\n")
    with pytest.raises(og.OmniGraphError, match="no longer describes") as refused:
        graph.refresh()
    assert refused.value.hint == "undo the edit; change a schema with `schema apply`"
    drift(graph, "_schema.pg", PEOPLE.encode())
    graph.refresh()
    run(graph, 'insert Person { name: "a" }')


def test_a_comment_edit_of_the_schema_is_accepted(graph: og.Graph) -> None:
    edited = "// who is who\n" + PEOPLE.replace("    age", "    // years\n    age")
    drift(graph, "_schema.pg", edited.encode())
    run(graph, 'insert Person { name: "a", age: 3 }')
    graph.refresh()
    assert graph.schema_source == edited
    with og.open(graph.uri, durability="none") as again:
        run(again, 'insert Person { name: "b" }')
        assert rows(again, "Person") == {"a": {"name": "a", "age": 3}, "b": {"name": "b"}}


# ---- the storage format -------------------------------------------------------------------

REBUILD = "export the graph with the release that wrote it"


def restamp(graph: og.Graph, stamp: str | None) -> None:
    dataset = lance.dataset(f"{graph.uri}/__manifest")
    dataset.update_schema_metadata({} if stamp is None else {STAMP: stamp}, replace=True)


@pytest.mark.local
@pytest.mark.parametrize(
    ("stamp", "message", "remedy"),
    [
        ("3", "found storage format 3; this release reads format 4", REBUILD),
        ("5", "found storage format 5; this release reads format 4", "upgrade omnigraph first"),
        (None, "found no format stamp; this release reads format 4", "not initialised to the end"),
        ("four", "this release reads format 4", ""),
        ("-4", "this release reads format 4", ""),
        (" 4", "this release reads format 4", ""),
    ],
)
def test_another_storage_format_is_refused_in_both_modes_before_any_table(
    graph: og.Graph, cli: Cli, stamp: str | None, message: str, remedy: str
) -> None:
    restamp(graph, stamp)
    # A table that would be opened could not be: they are gone.
    for folder in ("nodes", "edges"):
        os.rename(Path(graph.uri, folder), Path(graph.uri, f"moved-{folder}"))
    before = files(graph.uri)
    for mode in ("rw", "ro"):
        with pytest.raises(og.FormatVersionError) as refused:
            og.Graph(graph.uri, mode="ro" if mode == "ro" else "rw")
        assert message in refused.value.message
        assert remedy in (refused.value.hint or "")
        assert refused.value.supported == og.INTERNAL_SCHEMA_VERSION
    assert files(graph.uri) == before
    shown = cli("snapshot", graph.uri)
    assert shown.code == 1
    assert message in shown.err


def test_an_unreadable_stamp_is_named(graph: og.Graph) -> None:
    restamp(graph, "four")
    with pytest.raises(og.FormatVersionError, match="four"):
        og.open(graph.uri)
