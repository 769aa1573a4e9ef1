"""One process of a soak that uses the graph: it notes, calls, and judges what it is answered.

Errors that the documentation tells callers to expect are counted. Everything else ends the
process and fails the run.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.places import AnyPath, S3Path
from tests.soak.journal import Journal, entries
from tests.soak.model import Op, query_of, schema_text

if TYPE_CHECKING:
    from omnigraph import Graph

BRANCHES = ("b0", "b1", "b2")
TAGS = ("t0", "t1", "t2")
QUIET = "quiet-season"
"""A file of this name means: no new branches, so that the schema can change."""

FEATURES = (
    "branches",
    "branch-optimize",
    "cleanup",
    "crossing-merges",
    "edges",
    "failpoints",
    "kills",
    "loads",
    "main-optimize",
    "nested-branches",
    "picks",
    "schema",
    "stops",
    "tags",
)
"""What a run can leave out."""
TOLERATED = "Tolerated"
"""Begins the names of errors that nobody has to expect, and that a run was told to pass over."""

LOST_RACE = {"ConflictError", "VersionConflictError", "SchemaMovedError"}
_MOVED = {"ConflictError", "SchemaMovedError"}
_OLD = {"NotFoundError", "VersionReclaimedError"}
_MADE = {"ConflictError", "AlreadyExistsError"}
EXPECTED: dict[str, set[str]] = {
    "write": LOST_RACE | {"DataError", "KeyConflictError"},
    "set_extra": LOST_RACE | {"CompileError"},
    # A cleanup keeps what merging a branch with main starts from, but not what two other branches
    # have in common, nor any older state.
    "merge": _MOVED | {"MergeConflictError", "NotFoundError"},
    "far_merge": _MOVED | _OLD | {"MergeConflictError"},
    "revert": _MOVED | _OLD | {"MergeConflictError", "DiffRefusedError"},
    "pick": _MOVED | _OLD | {"MergeConflictError", "DiffRefusedError"},
    "schema": {"ConflictError", "BadRequestError"},
    "create": _MADE,
    "create_old": _MADE | _OLD,
    "delete": {"ConflictError", "NotFoundError"},
    "tag": _MADE,
    "tag_old": _MADE | _OLD,
    "untag": {"ConflictError", "NotFoundError"},
    "optimize": _MOVED,
    "cleanup": {"ConflictError"},
    "read": set(),
    "look": {"VersionReclaimedError"},
    "read_old": _OLD,
    "diff": _OLD | {"DiffRefusedError"},
    "feed": {"ChangeFeedGapError"},
    "baseline": {"VersionReclaimedError"},
}
"""Per kind of call, the errors its documentation tells callers to expect.

A call on another branch than main may find it gone; one that names a head may find another.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What all processes of one run share."""

    root: str
    folder: Path
    seed: str
    without: frozenset[str] = frozenset()
    lease_s: float | None = None
    tolerated: tuple[str, ...] = ()
    threads: int = 8
    """How many threads of one process write at once, at most."""

    @property
    def place(self) -> AnyPath:
        """Where the graph lies."""
        return S3Path(self.root) if "://" in self.root else Path(self.root)

    def has(self, feature: str) -> bool:
        """Whether a run includes a feature."""
        return feature not in self.without

    @property
    def quiet(self) -> bool:
        """Whether branches are to go, for a change of the schema."""
        return (self.folder / QUIET).exists()


class Unexpected(Exception):
    """The graph answered with an error nobody has to expect there."""


class Client:
    """A handle on the graph, a journal and the numbers of operations."""

    def __init__(self, setup: Setup, name: str, life: int) -> None:
        self.setup = setup
        self.name = name
        self.dice = random.Random(f"{setup.seed}/{name}/{life}")  # noqa: S311 - a test
        path = setup.folder / f"{name}.journal"
        self.past = [entry for entry in entries(path) if entry["t"] in ("intent", "answer")][-40:]
        self.journal = Journal(path)
        self.known: list[str] = []
        self._life = life
        self._number = 0
        self._graph: Graph | None = None
        self.journal.add(t="life", life=life, pid=os.getpid())

    @property
    def graph(self) -> Graph:
        """The open graph; opened when it is first needed."""
        import omnigraph as og

        if self._graph is None:
            durability: Any = self.dice.choice(["none", "none", "full"])
            self.journal.add(t="open")
            self._graph = og.open(self.setup.root, durability=durability, actor=self.name)
        return self._graph

    def reopen(self) -> None:
        """Forget the handle; the next call opens another one."""
        if self._graph is not None:
            self._graph.close()
            self._graph = None

    def new_id(self) -> str:
        """Return an operation id no other operation has."""
        self._number += 1
        return f"{self.name}L{self._life}n{self._number}"

    # ---- calls ----------------------------------------------------------------------------

    def write(
        self,
        branch: str,
        op: Op,
        *,
        kind: str = "write",
        operation_id: str | None = None,
        expected_head: str | None = None,
    ) -> str | None:
        """Make one write, noting it before and after; return the name of its error, or None.

        An unknown outcome is repeated with the same id until there is an answer.
        """
        name = operation_id or self.new_id()
        asked = {"id": name, "branch": branch, "op": op, "kind": kind, "head": expected_head}
        while True:
            self.journal.add(t="intent", **asked)
            error = None
            try:
                answer = perform(self.graph, branch, op, name, expected_head)
            except Exception as caught:
                headed = expected_head is not None
                error = self.judge(caught, kind, branch, op, unknown=True, headed=headed)
                answer = {"error": error, "message": str(caught)[:300]}
            self.journal.add(t="answer", id=name, branch=branch, kind=kind, **answer)
            if error != "OutcomeUnknownError":
                return error

    @contextlib.contextmanager
    def expecting(self, kind: str, branch: str = "main", **what: Any) -> Iterator[dict[str, Any]]:
        """Note a call that is no write of rows; errors that belong to it end the block.

        The block adds what it was answered to the dictionary, unless it adds nothing.
        """
        self.journal.add(t="call", kind=kind, branch=branch, **what)
        answer: dict[str, Any] = {}
        try:
            yield answer
        except Exception as caught:
            error = self.judge(caught, kind, branch, what)
            answer = {"error": error, "message": str(caught)[:300]}
        self.journal.add(t="done", kind=kind, branch=branch, **what, **answer)

    def judge(
        self,
        caught: Exception,
        kind: str,
        branch: str,
        what: Any,
        *,
        unknown: bool = False,
        headed: bool = False,
    ) -> str:
        """Return the name of an expected error; raise `Unexpected` for any other.

        The outcome of a write may be `unknown`; a call is `headed` if it named the head it expects.
        """
        import omnigraph as og

        name = type(caught).__name__
        expected = name in EXPECTED[kind]
        if name == "NotFoundError":
            expected = (expected or branch != "main") and _is_gone(str(caught))
        expected |= headed and name == "PreconditionFailedError"
        expected |= unknown and name == "OutcomeUnknownError"
        if isinstance(caught, og.OmniGraphError) and expected:
            return name
        shown = f"{name} from {kind}: {caught}"
        if any(re.search(pattern, shown) for pattern in self.setup.tolerated):
            return f"{TOLERATED}{name}"
        raise Unexpected(f"{name} from {kind} on {branch}: {what}\n{caught}") from caught


def _is_gone(message: str) -> bool:
    """Whether what the caller named is gone; main never is, nor a file that a table needs."""
    gone = ("does not exist", "was deleted", "is not a branch")
    return any(text in message for text in gone) and "branch 'main'" not in message


def perform(
    graph: Graph, branch: str, op: Op, operation_id: str, expected_head: str | None = None
) -> dict[str, Any]:
    """Do a write; return what was answered."""
    asked: dict[str, Any] = {"operation_id": operation_id}
    more: dict[str, Any] = {}
    match op["op"]:
        case "merge":
            result = graph.branches.merge(
                op["source"],
                branch,
                resolve=op["resolve"],
                property_merge=op["by_property"],
                delete_source=op["drop"],
                **asked,
            )
            commit, more = result.commit, {"outcome": result.outcome}
        case "revert":
            commit = graph.branches.revert(op["commit"], branch, resolve=op["resolve"], **asked)
        case "pick":
            commit = graph.branches.cherry_pick(
                op["commit"], branch, resolve=op["resolve"], **asked
            )
        case "schema":
            text = schema_text(op["extras"], op["renames"])
            commit = graph.schema.apply(text, **asked).commit
        case "load":
            loaded = graph.load(
                op["rows"], mode=op["mode"], branch=branch, expected_head=expected_head, **asked
            )
            commit, more = loaded.commit, {"repeated": loaded.repeated}
        case _:
            params = {name: value for name, value in op.items() if name not in ("op", "prop")}
            changed = graph.mutate(
                query_of(op), params, branch=branch, expected_head=expected_head, **asked
            )
            commit, more = changed.commit, {"repeated": changed.repeated}
    if commit is None:
        return {"commit": None, **more}
    return {"commit": commit.graph_commit_id, "seq": commit.manifest_version, **more}


def now() -> float:
    """Return the time all processes share."""
    return time.monotonic()
