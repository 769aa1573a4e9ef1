"""Tables that stand above their published version: one judge, and what each caller does.

The table `EXPECTED` is the one in docs/operations.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.commits import HeadMoved, Publisher
from omnigraph.failpoints import Failpoint, armed, error
from omnigraph.store import Standing, standing
from omnigraph.store.tables.standing import Author, judge
from tests.places import AnyPath, dataset

SCHEMA = """
node P { k: String @key  v: I64? }
node Q { k: String @key }
"""
ADD = "query add($k: String, $v: I64) { insert P { k: $k, v: $v } }"
ADD_Q = "query add_q($k: String) { insert Q { k: $k } }"
ALL = "query all() { match { $p: P } return { $p.k as k, $p.v as v } }"


@pytest.fixture
def root(place: AnyPath) -> AnyPath:
    return place / "g"


@pytest.fixture
def graph(root: AnyPath) -> Iterator[og.Graph]:
    with og.init(root, SCHEMA, durability="none") as found:
        for number in range(5):
            found.mutate(ADD, {"k": f"k{number}", "v": number})
        yield found


def keys(graph: og.Graph) -> set[str]:
    return {row["k"] for row in graph.query(ALL)}


def fresh(graph: og.Graph) -> og.Graph:
    return og.open(graph.uri, durability="none")


def table(graph: og.Graph, key: str = "node:P") -> lance.LanceDataset:
    return dataset(f"{graph.uri}/{graph.snapshot().tables[key].path}")


# ---- ways a table gets above its published version -----------------------------------------


def compact(graph: og.Graph) -> None:
    table(graph).optimize.compact_files()


def index(graph: og.Graph) -> None:
    table(graph).create_scalar_index("v", "BTREE")


def append(graph: og.Graph) -> None:
    found = table(graph)
    rows = pa.table({"id": ["x"], "k": ["x"], "v": [1]}, schema=found.schema)
    lance.write_dataset(rows, found, mode="append")


def delete(graph: og.Graph) -> None:
    table(graph).delete("k = 'k0'")


def leave_over(graph: og.Graph) -> None:
    """A write that dies after its table moved, and whose slot is lost."""
    with armed(Failpoint.PUBLISH_PRE_CAS, error), pytest.raises(og.OutcomeUnknownError):
        graph.mutate(ADD, {"k": "leftover", "v": 1})
    files = graph._engine.location.files
    for name in files.names(f"{graph._engine.location.root}/__recovery"):
        files.delete(f"{graph._engine.location.root}/__recovery/{name}")


def schedule_cleanup(graph: og.Graph) -> None:
    """Let Lance delete old versions at the commit after this one."""
    found = table(graph)
    following = str(found.version + 2)
    found.update_config(
        {"lance.auto_cleanup.interval": following, "lance.auto_cleanup.older_than": "0s"}
    )


DRIFTS: dict[str, tuple[Callable[[og.Graph], None], Standing]] = {
    "leftover": (leave_over, Standing.LEFTOVER),
    "settings": (schedule_cleanup, Standing.LEFTOVER),
    "compacted": (compact, Standing.MAINTENANCE),
    "indexed": (index, Standing.MAINTENANCE),
    "appended": (append, Standing.FOREIGN),
    "deleted": (delete, Standing.FOREIGN),
}


# ---- callers -------------------------------------------------------------------------------


def opened(graph: og.Graph) -> str:
    """Open read-write and query: only an interrupted write of this engine is undone."""
    before = graph.commits.head().graph_commit_id
    with fresh(graph) as other:
        assert keys(other) == {f"k{n}" for n in range(5)}
        return "kept" if other.commits.head().graph_commit_id == before else "restored"


def mutated(graph: og.Graph) -> str:
    try:
        graph.mutate(ADD, {"k": "new", "v": 9})
    except og.DriftError:
        return "refused"
    return "written"


def merged(graph: og.Graph) -> str:
    try:
        graph.branches.merge("side")
    except og.DriftError:
        return "refused"
    return "written"


def optimized(graph: og.Graph) -> str:
    found = {item.table_key: item for item in graph.optimize().tables}["node:P"]
    return found.skipped or "done"


def migrated(graph: og.Graph) -> str:
    graph.branches.delete("side")
    try:
        graph.schema.apply(SCHEMA.replace("v: I64?", "v: I64?  w: I64?"))
    except og.DriftError:
        return "refused"
    return "written"


def repaired(graph: og.Graph) -> str:
    found = {item.table_key: item for item in graph.repair(confirm=True).tables}["node:P"]
    return found.action


def discarded(graph: og.Graph) -> str:
    found = graph.repair(confirm=True, discard=True).tables
    assert keys(graph) == {f"k{n}" for n in range(5)}
    return {item.table_key: item for item in found}["node:P"].action


CALLERS: dict[str, Callable[[og.Graph], str]] = {
    "open": opened,
    "write": mutated,
    "merge": merged,
    "optimize": optimized,
    "schema apply": migrated,
    "repair --confirm": repaired,
    "repair --confirm --discard": discarded,
}
EXPECTED: dict[Standing, dict[str, str]] = {
    Standing.LEFTOVER: {
        "open": "restored",
        "write": "written",
        "merge": "written",
        "optimize": "done",
        "schema apply": "written",
        "repair --confirm": "discarded",
        "repair --confirm --discard": "discarded",
    },
    Standing.MAINTENANCE: {
        "open": "kept",
        "write": "written",
        "merge": "written",
        "optimize": "drift_needs_repair",
        "schema apply": "written",
        "repair --confirm": "healed",
        "repair --confirm --discard": "discarded",
    },
    Standing.FOREIGN: {
        "open": "kept",
        "write": "refused",
        "merge": "refused",
        "optimize": "drift_needs_repair",
        "schema apply": "refused",
        "repair --confirm": "refused",
        "repair --confirm --discard": "discarded",
    },
}


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("drift", DRIFTS)
def test_what_each_caller_does_about_each_verdict(
    graph: og.Graph, root: AnyPath, drift: str, caller: str
) -> None:
    graph.branches.create("side")
    graph.mutate(ADD, {"k": "side", "v": 7}, branch="side")
    make, verdict = DRIFTS[drift]
    make(graph)
    pin = graph.snapshot().tables["node:P"]
    assert standing(graph._engine.tables, pin.path, pin.version).verdict is verdict
    assert CALLERS[caller](graph) == EXPECTED[verdict][caller]
    assert graph.maintenance.pending_writes() == []
    # Whatever was done, nothing of this engine's is lost, and other tables can be written to.
    expected = {f"k{n}" for n in range(5)}
    with fresh(graph) as other:
        assert expected <= keys(other) <= expected | {"new", "side"}
        other.mutate(ADD_Q, {"k": "q"})


def test_foreign_rows_stay_where_they_are_until_repair_decides(graph: og.Graph) -> None:
    append(graph)
    for _again in range(2):
        with pytest.raises(og.DriftError, match="another program") as refused:
            graph.mutate(ADD, {"k": "new", "v": 9})
        assert refused.value.verdict == "foreign"
        assert "--discard" in str(refused.value.hint)
    assert graph.maintenance.pending_writes() == []
    assert set(table(graph).to_table()["k"].to_pylist()) == {*(f"k{n}" for n in range(5)), "x"}
    report = graph.repair(confirm=True, force=True)
    assert report.commit is not None
    assert keys(graph) == {*(f"k{n}" for n in range(5)), "x"}
    graph.mutate(ADD, {"k": "new", "v": 9})
    assert keys(graph) == {*(f"k{n}" for n in range(5)), "x", "new"}


def test_discarded_rows_are_gone_and_writes_go_on(graph: og.Graph) -> None:
    append(graph)
    graph.repair(confirm=True, discard=True)
    graph.mutate(ADD, {"k": "new", "v": 9})
    with fresh(graph) as other:
        assert keys(other) == {*(f"k{n}" for n in range(5)), "new"}
        assert all(item.action == "no_op" for item in other.repair().tables)


def test_force_and_discard_exclude_each_other(graph: og.Graph) -> None:
    with pytest.raises(og.BadRequestError, match="one of them"):
        graph.repair(confirm=True, force=True, discard=True)
    with pytest.raises(og.BadRequestError, match="discard"):
        graph.repair(discard=True)


def test_no_commit_makes_lance_delete_history(graph: og.Graph) -> None:
    """Settings of another program would make every commit delete old versions."""
    newest = graph.snapshot().version
    schedule_cleanup(graph)
    # In an object store a writer that is open already does not look before it commits.
    with fresh(graph) if "://" in graph.uri else graph.as_actor("me") as writer:
        writer.mutate(ADD, {"k": "new", "v": 9})
    graph.optimize()
    schedule_cleanup(graph)
    graph.optimize()
    graph.mutate(ADD, {"k": "newer", "v": 9})
    check_history(graph, newest)


def test_an_adopted_setting_is_taken_out(graph: og.Graph) -> None:
    compact(graph)
    schedule_cleanup(graph)
    newest = graph.snapshot().version
    assert graph.repair(confirm=True).commit is not None
    for number in range(3):
        graph.mutate(ADD, {"k": f"n{number}", "v": 9})
    check_history(graph, newest)


def check_history(graph: og.Graph, newest: int) -> None:
    with fresh(graph) as other:
        for version in range(1, newest + 1):
            assert len(other.query(ALL, version=version)) == version - 1


def test_an_interrupted_write_under_foreign_rows_leaves_them(graph: og.Graph) -> None:
    """Recovery undoes only what is the engine's own."""
    with (
        armed(Failpoint.PUBLISH_POST_SLOT_PRE_EFFECT, error),
        pytest.raises(og.OutcomeUnknownError),
    ):
        graph.mutate(ADD, {"k": "late", "v": 1})
    append(graph)
    graph.maintenance.recover()
    assert graph.maintenance.pending_writes() == []
    assert "x" in table(graph).to_table()["k"].to_pylist()
    with pytest.raises(og.DriftError):
        graph.mutate(ADD, {"k": "new", "v": 9})


@pytest.mark.parametrize(
    ("authors", "verdict"),
    [
        ((), Standing.CURRENT),
        ((Author.ENGINE,), Standing.LEFTOVER),
        ((Author.ENGINE, Author.MAINTENANCE), Standing.LEFTOVER),
        ((Author.SETTINGS,), Standing.LEFTOVER),
        ((Author.MAINTENANCE, Author.MAINTENANCE), Standing.MAINTENANCE),
        ((Author.MAINTENANCE, Author.SETTINGS), Standing.MAINTENANCE),
        ((Author.MAINTENANCE, Author.ROWS), Standing.FOREIGN),
        ((Author.ENGINE, Author.ROWS), Standing.FOREIGN),
        ((Author.ROWS, Author.UNKNOWN), Standing.UNREADABLE),
    ],
)
def test_the_verdict_follows_from_who_made_the_versions(
    authors: tuple[Author, ...], verdict: Standing
) -> None:
    assert judge(3, 3 + len(authors), authors) is verdict
    assert judge(3, 2, ()) is Standing.BEHIND


def test_an_undo_that_was_stopped_for_too_long_is_no_failure(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recovery never finishes what is not staged, so nothing of it can still come."""
    leave_over(graph)
    writer = graph._engine.lines.main.writer

    def late(*_args: object, **_options: object) -> None:
        raise HeadMoved(may_land=True)

    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "publish", late)
        assert not writer.clear_leftovers()
        with pytest.raises(og.ConflictError, match="writers came first"):
            graph.optimize()
        # A write is staged: recovery may publish it.
        with pytest.raises(og.OutcomeUnknownError):
            graph.mutate(ADD, {"k": "late", "v": 1})
    assert writer.clear_leftovers()
    assert "late" not in keys(graph)
