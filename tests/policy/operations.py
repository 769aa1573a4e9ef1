"""Every public way to use a graph, with what it asks the policy for.

The table is complete by test: a method that is added without a row fails it.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraph as og
from omnigraph.catalog import AcceptedSchema
from omnigraph.errors import ConflictError
from omnigraph.graph import seam
from omnigraph.graph.blobs import Blobs
from omnigraph.graph.branches import Branches, Tags
from omnigraph.graph.changes import ChangeFeed
from omnigraph.graph.entities import Entities
from omnigraph.graph.graph import Graph
from omnigraph.graph.history import Commits
from omnigraph.graph.maintaining import MaintenanceOps
from omnigraph.graph.schema_ops import SchemaOps
from omnigraph.graph.view import BranchView
from omnigraph.graph.writing import Terms
from omnigraph.ops.diff import ChangeFilter
from omnigraph.ops.load import Load, LoadMode
from omnigraph.policy import Access, Action, Decision

SCHEMA = "node P { k: String @key  v: I64?  b: Blob? }\n"
READ = "query q() { match { $p: P } return { $p.k } }"
ADD = "query add($k: String) { insert P { k: $k } }"
NONE = 'query none() { match { $p: P  $p.k = "no such" } return { $p.k } }'

PARTS: dict[str, type] = {
    "graph": Graph,
    "graph.branches": Branches,
    "graph.tags": Tags,
    "graph.commits": Commits,
    "graph.feed": ChangeFeed,
    "graph.blobs": Blobs,
    "graph.entities": Entities,
    "graph.schema": SchemaOps,
    "graph.maintenance": MaintenanceOps,
    "view": BranchView,
}

# What needs no permission: it reveals nothing stored and changes nothing anybody sees.
FREE = {
    "graph.as_actor": "asks as somebody else from then on",
    "graph.session": "asks as this handle does",
    "graph.acting_for": "asks as somebody else, under the policy it is given",
    "graph.actor": "known to whoever opened it",
    "graph.maintenance.upkeep": "tells how often it ran, nothing of the graph",
    "graph.maintenance.recovered": "known to whoever opened it",
    "graph.maintenance.cache_stats": "tells sizes and counts of memory, nothing of the graph",
    "graph.branch": "a view reads nothing; making the branch is asked for",
    "graph.branches.allowed": "tells what the policy says, nothing of the graph",
    "graph.close": "ends the handle",
    "graph.refresh": "looks at heads, returns nothing",
    "graph.uri": "known to whoever opened it",
    "seam.check_names": "looks at names only",
    "seam.check_schema": "returns nothing",
    "seam.check_writable": "returns nothing",
    "seam.domain": "for a server that serves the graph",
    "seam.embed_query": "turns a text of the caller into a vector",
    "seam.embedder_of": "known to whoever opened it",
    "seam.limit_cache": "for a server that serves the graph",
    "seam.limit_queries": "for a server that serves the graph",
    "seam.note_commits": "for a server that serves the graph",
    "seam.permit": "is the question itself",
    "seam.request_keys": "for a server that serves the graph",
    "seam.reach": "known to whoever opened it",
    "seam.new_scratch": "a name for an empty folder",
    "seam.scratch_folder": "an empty folder",
    "seam.session_of": "asks as somebody else, under the same policy",
}


@dataclass
class Recorder:
    """A policy that notes every question and allows some actions."""

    allowed: set[Action]
    asked: list[Access] = field(default_factory=list)
    name: str = "recorder"

    def decide(self, access: Access) -> Decision:
        self.asked.append(access)
        return Decision(allowed=access.action in self.allowed, message=access.describe())


@dataclass
class World:
    """A graph with something of everything in it, made before any policy was."""

    graph: og.Graph
    folder: Path
    head: str
    side: str
    names: Iterator[str] = field(default_factory=lambda: (f"n{i}" for i in itertools.count()))

    @property
    def view(self) -> BranchView:
        return BranchView(self.graph, "dev")

    @property
    def state(self) -> og.Snapshot:
        """A snapshot that somebody who was allowed to took."""
        with og.open(self.graph.uri, mode="ro") as graph:
            return graph.snapshot("dev")

    def new(self) -> str:
        return next(self.names)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One call, and the questions it must ask: action, branch, target branch."""

    call: Callable[[World], Any]
    asks: tuple[tuple[str, str | None, str | None], ...]


def reads(call: Callable[[World], Any], *branches: str | None) -> Operation:
    return Operation(call=call, asks=tuple(("read", branch, None) for branch in branches))


def asks(call: Callable[[World], Any], *questions: tuple[str, str | None, str | None]) -> Operation:
    return Operation(call=call, asks=questions)


def admin(call: Callable[[World], Any]) -> Operation:
    return Operation(call=call, asks=(("admin", None, None),))


def table() -> pa.Table:
    return pa.table({"k": ["t"]})


def transaction(world: World) -> None:
    with world.graph.transaction(name="tx") as view:
        view.mutate(ADD, {"k": "tx"})


def staged(world: World) -> Callable[..., Any]:
    """A load of one row, as those are made that others stage."""

    def make(schema: AcceptedSchema, _embedder: object) -> Load:
        load = Load(schema, LoadMode.MERGE, new_ids=lambda _count: ("", 0))
        load.read_table("P", table(), from_col="from", to_col="to")
        return load

    return make


def apply_schema(world: World) -> None:
    """Allowed, it goes on to find that there are branches."""
    with contextlib.suppress(ConflictError):
        world.graph.schema.apply(NEW)


ROW = [{"type": "P", "data": {"k": "row"}}]
NEW = SCHEMA.replace("v: I64?", "v: I64?  w: I64?")
CHANGE_MAIN = ("change", "main", None)
CHANGE_DEV = ("change", "dev", None)
MERGE = ("branch_merge", "dev", "main")

OPERATIONS: dict[str, Operation] = {
    "graph.schema_source": reads(lambda w: w.graph.schema_source, None),
    "graph.catalog": reads(lambda w: w.graph.catalog, None),
    "graph.query": reads(lambda w: w.graph.query(READ, branch="dev"), "dev"),
    "graph.prepare": reads(lambda w: w.graph.prepare(READ), None),
    "graph.explain": reads(lambda w: w.graph.explain(READ), "main"),
    "graph.branches.heads": reads(
        lambda w: w.graph.branches.heads(), "main", None, "main", "dev", "spare"
    ),
    "graph.branches.history": reads(
        lambda w: w.graph.branches.history(), None, None, "main", "dev", "spare", "main"
    ),
    "graph.entities.neighbours": reads(
        lambda w: w.graph.entities.neighbours("P", "a", branch="dev"), "dev"
    ),
    "graph.entities.history": reads(lambda w: w.graph.entities.history("P", "a", "dev"), "dev"),
    "graph.entities.subgraph": reads(
        lambda w: w.graph.entities.subgraph([("P", "a")], branch="dev"), "dev"
    ),
    "graph.draw": reads(lambda w: w.graph.draw([("P", "a")], branch="dev"), "dev"),
    "graph.schema.describe": reads(lambda w: w.graph.schema.describe(branch="dev"), "dev"),
    "graph.schema.draw": reads(lambda w: w.graph.schema.draw(branch="dev"), "dev"),
    "graph.schema.lint": reads(lambda w: w.graph.schema.lint(READ, branch="dev"), "dev"),
    "graph.maintenance.tables": reads(lambda w: w.graph.maintenance.tables("dev"), "dev"),
    "seam.read_query": reads(
        lambda w: seam.read_query(w.graph, w.state, READ, None, None), "dev"
    ),
    "graph.snapshot": reads(lambda w: w.graph.snapshot(tag="t"), "main"),
    "graph.diff": reads(lambda w: w.graph.diff("main", "dev"), "main", "dev"),
    "seam.commit_of_operation": reads(
        lambda w: seam.commit_of_operation(w.graph, "dev", "none"), "dev"
    ),
    "seam.explain_sources": reads(
        lambda w: seam.explain_sources(w.graph, {"P": [{"k": "x"}]}, "dev"), "dev"
    ),
    "seam.commit_steps": reads(lambda w: seam.commit_steps(w.graph, "dev").head(), "dev"),
    "seam.differing_tables": reads(
        lambda w: seam.differing_tables(w.graph, "main", "dev", ChangeFilter()), "main", "dev"
    ),
    "graph.get": reads(lambda w: w.graph.get("P", "a"), "main"),
    "graph.entity_at": reads(lambda w: w.graph.entity_at("node:P", "a", version=2), "main"),
    "graph.maintenance.recoveries": reads(lambda w: w.graph.maintenance.recoveries(), None),
    "graph.maintenance.pending_writes": reads(
        lambda w: w.graph.maintenance.pending_writes(), None
    ),
    "graph.export": asks(lambda w: w.graph.export(branch="dev"), ("export", "dev", None)),
    "graph.export_table": asks(
        lambda w: w.graph.export_table("P", branch="dev"), ("export", "dev", None)
    ),
    "graph.to_networkx": asks(
        lambda w: w.graph.to_networkx(branch="dev"), ("export", "dev", None)
    ),
    "graph.to_igraph": asks(
        lambda w: w.graph.to_igraph(branch="dev"), ("export", "dev", None)
    ),
    "graph.maintenance.dump": asks(
        lambda w: w.graph.maintenance.dump(w.folder / "all.tar"), ("export", None, None)
    ),
    "graph.mutate": asks(lambda w: w.graph.mutate(ADD, {"k": w.new()}), CHANGE_MAIN),
    "graph.load": asks(
        lambda w: w.graph.load(ROW, mode="merge", branch="made", create_from="dev"),
        ("change", "made", None),
        ("branch_create", "dev", "made"),
        ("read", "dev", None),
    ),
    "graph.bulk": asks(
        lambda w: w.graph.bulk({"P": table()}, mode="merge", branch="dev"), CHANGE_DEV
    ),
    "seam.load_staged": asks(
        lambda w: seam.load_staged(w.graph, staged(w), "append", Terms(branch="dev", dry_run=True)),
        CHANGE_DEV,
        ("read", "dev", None),
    ),
    "seam.catalog_at": reads(lambda w: seam.catalog_at(w.graph, w.state), "dev"),
    "seam.table_at": reads(lambda w: seam.table_at(w.graph, w.state, "node:P"), "dev"),
    "graph.load_table": asks(
        lambda w: w.graph.load_table("P", table(), mode="merge", branch="dev"), CHANGE_DEV
    ),
    "graph.transaction": asks(
        transaction,
        ("branch_merge", "tx", "main"),
        ("branch_delete", None, "tx"),
        ("branch_create", "main", "tx"),
        ("read", "main", None),
        ("change", "tx", None),
        ("branch_merge", "tx", "main"),
        ("read", "tx", None),
        ("branch_delete", None, "tx"),
    ),
    "graph.maintenance.ensure_indices": admin(
        lambda w: w.graph.maintenance.ensure_indices()
    ),
    "graph.optimize": admin(lambda w: w.graph.optimize()),
    "graph.repair": admin(lambda w: w.graph.repair()),
    "graph.cleanup": admin(lambda w: w.graph.cleanup(keep=100)),
    "graph.maintenance.recover": admin(lambda w: w.graph.maintenance.recover()),
    "graph.branches.list": reads(lambda w: w.graph.branches.list(), None),
    "graph.branches.details": reads(lambda w: w.graph.branches.details(), None),
    "graph.branches.exists": reads(lambda w: w.graph.branches.exists("dev"), "dev"),
    "graph.branches.create": asks(
        lambda w: w.graph.branches.create("b", "dev"),
        ("branch_create", "dev", "b"),
        ("read", "dev", None),
    ),
    "graph.branches.delete": asks(
        lambda w: w.graph.branches.delete("spare"), ("branch_delete", None, "spare")
    ),
    "graph.branches.merge_plan": reads(
        lambda w: w.graph.branches.merge_plan("dev"), "dev", "main"
    ),
    "graph.branches.merge": asks(
        lambda w: w.graph.branches.merge("dev", checks=[NONE]),
        MERGE,
        ("read", "dev", None),
        ("read", "main", None),
    ),
    "graph.branches.cherry_pick": asks(
        lambda w: w.graph.branches.cherry_pick(w.side), CHANGE_MAIN, ("read", "dev", None)
    ),
    "graph.branches.revert": asks(
        lambda w: w.graph.branches.revert(w.head), CHANGE_MAIN, ("read", "main", None)
    ),
    "graph.tags.list": reads(lambda w: w.graph.tags.list(), None),
    "graph.tags.create": asks(
        lambda w: w.graph.tags.create("u", branch="dev"),
        ("branch_create", "dev", "u"),
        ("read", "dev", None),
    ),
    "graph.tags.delete": asks(
        lambda w: w.graph.tags.delete("t"), ("branch_delete", None, "t")
    ),
    "graph.commits.list": reads(lambda w: w.graph.commits.list("dev"), "dev"),
    "graph.commits.get": reads(lambda w: w.graph.commits.get(w.side), "dev"),
    "graph.commits.head": reads(lambda w: w.graph.commits.head(), "main"),
    "graph.commits.changes": reads(lambda w: w.graph.commits.changes(w.side), "dev"),
    "graph.commits.last_change": reads(lambda w: w.graph.commits.last_change("P", "a"), "main"),
    "graph.feed.poll": reads(lambda w: w.graph.feed.poll("beginning", branch="dev"), "dev"),
    "graph.feed.follow": reads(lambda w: next(w.graph.feed.follow("beginning")), "main"),
    "graph.feed.baseline": asks(
        lambda w: w.graph.feed.baseline(w.folder / "base.jsonl"), ("export", "main", None)
    ),
    "graph.blobs.stat": reads(lambda w: w.graph.blobs.stat("node", "P", "a", "b"), "main"),
    "graph.blobs.open": reads(
        lambda w: w.graph.blobs.open("node", "P", "a", "b", branch="dev"), "dev"
    ),
    "graph.schema.plan": reads(lambda w: w.graph.schema.plan(NEW), "main"),
    "graph.schema.apply": asks(
        apply_schema,
        ("schema_apply", None, "main"),
        ("read", "main", None),
        ("read", "dev", None),
        ("read", "spare", None),
    ),
    "view.query": reads(lambda w: w.view.query(READ), "dev"),
    "view.snapshot": reads(lambda w: w.view.snapshot(), "dev"),
    "view.commits": reads(lambda w: w.view.commits(), "dev"),
    "view.head": reads(lambda w: w.view.head(), "dev"),
    "view.diff": reads(lambda w: w.view.diff(), "main", "dev"),
    "view.merge_plan": reads(lambda w: w.view.merge_plan(), "dev", "main"),
    "view.export": asks(lambda w: w.view.export(), ("export", "dev", None)),
    "view.mutate": asks(lambda w: w.view.mutate(ADD, {"k": w.new()}), CHANGE_DEV),
    "view.load": asks(lambda w: w.view.load(ROW, mode="merge"), CHANGE_DEV),
    "view.load_table": asks(lambda w: w.view.load_table("P", table(), mode="merge"), CHANGE_DEV),
    "view.merge": asks(lambda w: w.view.merge(), MERGE, ("read", "dev", None)),
    "view.delete": asks(lambda w: w.view.delete(), ("branch_delete", None, "dev")),
}  # fmt: skip


def public_names() -> set[str]:
    """Every public method and property of the parts of a graph."""
    found: set[str] = set()
    for place, part in PARTS.items():
        for cls in part.__mro__[:-1]:
            names = (name for name, value in vars(cls).items() if _is_api(value))
            found |= {f"{place}.{name}" for name in names if not name.startswith("_")}
    own = (name for name, value in vars(seam).items() if _is_of(value, seam.__name__))
    return found | {f"seam.{name}" for name in own if not name.startswith("_")}


def _is_of(value: object, module: str) -> bool:
    return callable(value) and getattr(value, "__module__", None) == module


def _is_api(value: object) -> bool:
    return callable(value) or isinstance(value, property | staticmethod | classmethod)
