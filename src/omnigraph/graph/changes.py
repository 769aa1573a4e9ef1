"""Differences between states, the changes of a commit, and the feed of changes."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import math
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import accumulate, islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from omnigraph.bounded import BoundedCache
from omnigraph.catalog import AcceptedSchema, Catalog, Entity
from omnigraph.commits import MAIN, BranchState, GraphCommit, History
from omnigraph.commits.compare import may_differ
from omnigraph.commits.contract import SchemaContract
from omnigraph.commits.open_branches import OpenBranch, OpenBranches
from omnigraph.errors import (
    BadRequestError,
    ChangeFeedGapError,
    CursorRejectedError,
    DiffRefusedError,
    NotFoundError,
    StorageError,
    StorageFailureKind,
)
from omnigraph.graph.permits import PermittedBranches, Reachable
from omnigraph.graph.revisions import resolve_revision
from omnigraph.limits import (
    FEED_CHANGES_DEFAULT,
    FEED_CHANGES_MAX,
    FEED_COMMITS_DEFAULT,
    FEED_HELD_BYTES,
)
from omnigraph.ops.diff import (
    ChangeFilter,
    EntityChange,
    GroupChanges,
    TypeChanges,
    entity_changes,
    type_changes,
    wanted_types,
)
from omnigraph.ops.export import export_lines
from omnigraph.policy import Action, Permit
from omnigraph.store import Table, Tables
from omnigraph.values.changes import Baseline as Baseline
from omnigraph.values.changes import ChangeBlock as ChangeBlock
from omnigraph.values.changes import Diff as Diff
from omnigraph.values.changes import FeedPage as FeedPage
from omnigraph.values.words import ChangeOp, EntityKind

HeldChanges = BoundedCache[tuple[str, ChangeFilter], tuple[TypeChanges, ...]]
"""What commits did, held while a reader takes them page by page, so that no page costs a commit."""


def held_changes() -> HeldChanges:
    """Return room for what commits did."""
    return BoundedCache(FEED_HELD_BYTES)


class Changes:
    """Compares states of one graph."""

    def __init__(
        self,
        lines: Reachable,
        tables: Tables,
        contract: SchemaContract,
        held: HeldChanges | None = None,
    ) -> None:
        self._lines = lines
        self._tables = tables
        self._contract = contract
        self._together = GroupChanges(tables)
        self._held = held_changes() if held is None else held

    def diff(self, before: str | int, after: str | int, wanted: ChangeFilter) -> Diff:
        """Compare two states given by branch, commit id, version or tag.

        Raises `DiffRefusedError` for states of different schemas.
        """
        schema, line, old, new = self._states(before, after)
        changes = entity_changes(
            schema, self._tables, old.pins, new.pins, line.manifest.history, wanted
        )
        return Diff(before=str(before), after=str(after), changes=tuple(changes))

    def _states(
        self, before: str | int, after: str | int
    ) -> tuple[AcceptedSchema, OpenBranch, BranchState, BranchState]:
        _line, old = resolve_revision(self._lines, before)
        line, new = resolve_revision(self._lines, after)
        if old.head.schema_hash != new.head.schema_hash:
            raise DiffRefusedError(
                reason="schema_boundary", graph_commit_id=new.head.graph_commit_id
            )
        return self._contract.at(new.head.schema_hash), line, old, new

    def tables(
        self, before: str | int, after: str | int, wanted: ChangeFilter
    ) -> Iterator[tuple[Entity, int, Table | None, Table | None]]:
        """Yield the types whose tables may differ, their ids, and both tables."""
        schema, _line, old, new = self._states(before, after)
        for entity, type_id in wanted_types(schema, wanted):
            pins = [state.pins.get(entity.table_key) for state in (old, new)]
            if may_differ(pins[0], pins[1]):
                opened = [None if p is None else self._tables.open(p.path, p.version) for p in pins]
                yield entity, type_id, opened[0], opened[1]

    def of_commit(self, commit: GraphCommit, line: OpenBranch, wanted: ChangeFilter) -> ChangeBlock:
        """Return what a commit changed, under the schema it was made with.

        Raises `DiffRefusedError` for the first commit, and for a change of schema.
        """
        if commit.parent_commit_id is None:
            raise DiffRefusedError(
                reason="parentless_commit", graph_commit_id=commit.graph_commit_id
            )
        history = line.manifest.history
        parent = history.commits[commit.parent_commit_id]
        if parent.schema_hash != commit.schema_hash:
            raise DiffRefusedError(reason="schema_boundary", graph_commit_id=commit.graph_commit_id)
        with self._at_work(commit, line):
            by_type = self._of_types(commit, line, wanted)
            changes = [change for item in by_type for change in item.part(0, len(item))]
        return ChangeBlock(commit=commit, changes=tuple(changes))

    @contextlib.contextmanager
    def _at_work(self, commit: GraphCommit, line: OpenBranch) -> Iterator[None]:
        """Tell a state that was given up from damage.

        A cleanup that was killed leaves versions whose files are gone already.
        """
        try:
            yield
        except StorageError as error:
            if error.failure is StorageFailureKind.NOT_FOUND:
                self._lines.state(line, commit.manifest_version - 1)
            raise

    def _of_types(
        self, commit: GraphCommit, line: OpenBranch, wanted: ChangeFilter
    ) -> Iterator[TypeChanges]:
        history = line.manifest.history
        parent = history.commits[commit.parent_commit_id or ""]
        group = history.group_of(commit)
        if group is not None:
            version = (line.branch.uid, commit.manifest_version)
            touched = group.touched_by(commit.graph_commit_id)
            schema = self._contract.at(commit.schema_hash)
            return self._together.of_commit(schema, version, touched, history, wanted)
        return type_changes(
            self._contract.at(commit.schema_hash),
            self._tables,
            history.pins_at(parent.manifest_version),
            history.pins_at(commit.manifest_version),
            history,
            wanted,
        )

    def block(
        self,
        commit: GraphCommit,
        line: OpenBranch,
        wanted: ChangeFilter,
        skip: int = 0,
        room: int | None = None,
    ) -> tuple[ChangeBlock, bool]:
        """Return what a commit changed as the feed tells it, and whether there is more.

        Nothing is told where a diff is refused. `skip` and `room` choose some of the changes. As
        long as there are more, what the commit did is held for the next call.
        """
        if commit.parent_commit_id is None:
            return ChangeBlock(commit=commit, changes=()), False
        parent = line.manifest.history.commits[commit.parent_commit_id]
        if parent.schema_hash != commit.schema_hash:
            return ChangeBlock(commit=commit, changes=(), schema_boundary=True), False
        known = self.wanted_then(commit, wanted)
        if known is None:
            return ChangeBlock(commit=commit, changes=()), False
        key = (commit.graph_commit_id, known)
        by_type = self._held.pop(key)
        if by_type is None:
            with self._at_work(commit, line):
                by_type = tuple(self._of_types(commit, line, known))
        stop = sum(map(len, by_type)) if room is None else skip + room
        changes: list[EntityChange] = []
        for item, at in zip(by_type, accumulate(map(len, by_type), initial=0), strict=False):
            changes += item.part(max(skip - at, 0), max(min(stop - at, len(item)), 0))
        more = sum(map(len, by_type)) > stop
        if more:
            self._held.put(key, by_type, sum(item.nbytes for item in by_type))
        return ChangeBlock(commit=commit, changes=tuple(changes)), more

    def wanted_then(self, commit: GraphCommit, wanted: ChangeFilter) -> ChangeFilter | None:
        """Return a filter without the types a commit did not know; None if nothing is left."""
        if not wanted.types:
            return wanted
        # A type may have had another name, or none, when the commit was made.
        then = self._contract.at(commit.schema_hash).catalog
        known = tuple(t for t in wanted.types if t in then.nodes or t in then.edges)
        return replace(wanted, types=known) if known else None


class ChangeFeed:
    """Delivers commits with their changes, in order, at least once each."""

    def __init__(
        self,
        lines: OpenBranches,
        tables: Tables,
        contract: SchemaContract,
        permit: Permit,
        held: HeldChanges,
    ) -> None:
        self._lines = PermittedBranches(lines, permit)
        self._exported = PermittedBranches(lines, permit, Action.EXPORT)
        self._tables = tables
        self._contract = contract
        self._changes = Changes(self._lines, tables, contract, held)

    def poll(
        self,
        start: str = "now",
        *,
        cursor: str | None = None,
        page_token: str | None = None,
        branch: str = MAIN,
        limit: int = FEED_CHANGES_DEFAULT,
        kinds: Iterable[EntityKind] = (),
        types: Iterable[str] = (),
        ops: Iterable[ChangeOp] = (),
    ) -> FeedPage:
        """Return the next commits and what they changed.

        >>> page = graph.feed.poll("beginning", branch="dev")
        >>> [len(block.changes) for block in page.blocks]
        [0, 5, 1]
        >>> graph.feed.poll(cursor=page.cursor, branch="dev").blocks
        ()

        Args:
            start: `now`, `beginning` or `after:<commit id>`; used without a cursor.
            cursor: Where the last answer ended.
            page_token: Goes on inside an answer that was too long for one page.
            branch: Branch to follow.
            limit: At most this many changes in one answer.
            kinds: `node` or `edge`; all when empty.
            types: Type names; all when empty.
            ops: `insert`, `update` or `delete`; all when empty.
        """
        if not 1 <= limit <= FEED_CHANGES_MAX:
            raise BadRequestError(f"limit must be 1 to {FEED_CHANGES_MAX}, not {limit}")
        wanted = ChangeFilter.of(kinds, types, ops)
        line = self._lines.get(branch)
        schema = self._contract.validate()
        domain, catalog = schema.domain, schema.catalog
        _check_types(wanted, catalog)
        state = line.manifest.capture()
        tokens = _Tokens(domain, line, wanted)
        if page_token is not None:
            known = tokens.read(page_token, "page")
            after, skip, cut = _Place.of(known), int(known["skip"]), int(known["cut"])
        elif cursor is not None:
            after = _Place.of(tokens.read(cursor, "cursor"))
            skip, cut = 0, state.version
        else:
            after = _start(line, state, start)
            skip, cut = 0, state.version
        return self._page(line, tokens, after, skip, cut, limit, wanted)

    def _page(
        self,
        line: OpenBranch,
        tokens: _Tokens,
        after: _Place,
        skip: int,
        cut: int,
        limit: int,
        wanted: ChangeFilter,
    ) -> FeedPage:
        history = line.manifest.history
        start = after
        newer = (
            commit
            for commit in history.oldest_first(start.version - 1, cut)
            if start < _Place.at(commit, history)
        )
        blocks: list[ChangeBlock] = []
        room = limit
        for commit in islice(newer, FEED_COMMITS_DEFAULT):
            try:
                block, more = self._changes.block(commit, line, wanted, skip, room)
            except NotFoundError as error:
                raise ChangeFeedGapError(
                    cursor=tokens.write("cursor", **after.to_json()),
                    first_unreadable_commit_id=commit.graph_commit_id,
                ) from error
            blocks.append(block)
            if more:
                token = tokens.write("page", **after.to_json(), skip=skip + room, cut=cut)
                return FeedPage(blocks=tuple(blocks), next_page_token=token)
            room -= len(block.changes)
            skip, after = 0, _Place.at(commit, history)
            if room == 0:
                break
        caught_up = next(newer, None) is None
        cursor = tokens.write("cursor", **after.to_json())
        return FeedPage(blocks=tuple(blocks), cursor=cursor, caught_up=caught_up)

    def follow(
        self,
        start: str = "now",
        *,
        cursor: str | None = None,
        branch: str = MAIN,
        interval_s: float = 1.0,
        limit: int = FEED_CHANGES_DEFAULT,
    ) -> Iterator[FeedPage]:
        """Yield answers as commits arrive, for ever. Keep the last cursor to go on later.

        >>> page = next(graph.feed.follow("beginning"))
        >>> len(page.blocks)
        2
        """
        ask = partial(self.poll, start, branch=branch, limit=limit)
        return pages_for_ever(ask, cursor, interval_s)

    def baseline(
        self,
        dest: str | os.PathLike[str],
        *,
        branch: str = MAIN,
        kinds: Iterable[EntityKind] = (),
        types: Iterable[str] = (),
        ops: Iterable[ChangeOp] = (),
    ) -> Baseline:
        """Write a whole snapshot as JSONL; the feed resumes right after it.

        >>> graph.feed.baseline("all.jsonl").entities
        5

        The last line names the snapshot and the cursor. The file appears only when complete.
        With a filter only what it admits is written, and the cursor is for polls with the same.
        """
        wanted = ChangeFilter.of(kinds, types, ops)
        line = self._exported.get(branch)
        self._contract.validate()
        state = line.manifest.capture()
        schema = self._contract.at(state.head.schema_hash)
        _check_types(wanted, schema.catalog)
        keys = {item.table_key for item in schema.catalog.entities() if wanted.admits(item)}
        pins = {key: pin for key, pin in state.pins.items() if key in keys}
        tables = {key: self._tables.open(p.path, p.version) for key, p in pins.items()}
        cursor = _Tokens(schema.domain, line, wanted).write("cursor", after=state.version)
        baseline = Baseline(
            snapshot_commit_id=state.head.graph_commit_id, resume_cursor=cursor, entities=0
        )
        lines = export_lines(
            schema.catalog, tables, (), dest, last={"baseline": baseline.to_json()}, durable=True
        )
        return Baseline(
            snapshot_commit_id=baseline.snapshot_commit_id, resume_cursor=cursor, entities=lines
        )


def pages_for_ever(
    ask: Callable[..., FeedPage], cursor: str | None, interval_s: float
) -> Iterator[FeedPage]:
    """Yield answers of a feed; `ask` takes where to go on, and waits are between the newest."""
    token: str | None = None
    while True:
        page = ask(cursor=cursor, page_token=token)
        token, cursor = page.next_page_token, page.cursor or cursor
        if page.blocks:
            yield page
        if page.caught_up:
            time.sleep(interval_s)


def _check_types(wanted: ChangeFilter, catalog: Catalog) -> None:
    for name in wanted.types:
        if name not in catalog.nodes and name not in catalog.edges:
            raise NotFoundError(f"unknown type '{name}'")


class _Place(Struct, frozen=True, order=True):
    """Where a feed stands: after all of a graph version, or after one of its commits."""

    version: int
    place: float = math.inf

    @classmethod
    def at(cls, commit: GraphCommit, history: History) -> _Place:
        if history.is_last(commit):
            return cls(commit.manifest_version)
        return cls(commit.manifest_version, commit.place)

    @classmethod
    def of(cls, token: Mapping[str, Any]) -> _Place:
        return cls(int(token["after"]), token.get("place", math.inf))

    def to_json(self) -> dict[str, int]:
        inside = {} if self.place == math.inf else {"place": int(self.place)}
        return {"after": self.version, **inside}


def _start(line: OpenBranch, state: BranchState, start: str) -> _Place:
    """Return where the feed begins."""
    if start == "now":
        return _Place(state.version)
    if start == "beginning":
        return _Place(0)
    word, separator, commit_id = start.partition(":")
    if word == "after" and separator:
        commit = line.manifest.history.commits.get(commit_id)
        if commit is None:
            raise NotFoundError(f"commit '{commit_id}' is not on branch '{line.branch.name}'")
        return _Place.at(commit, line.manifest.history)
    raise BadRequestError(f"unknown start {start!r}; expected now, beginning or after:<commit>")


class _Tokens:
    """Opaque places in a feed, bound to graph, branch life and filter."""

    def __init__(self, domain: str, line: OpenBranch, wanted: ChangeFilter) -> None:
        self._bound = {
            "graph": domain,
            "branch": line.branch.uid,
            "filter": zlib.crc32(json.dumps(wanted.to_json()).encode()),
        }

    def write(self, kind: str, **place: int) -> str:
        body = json.dumps({**self._bound, "kind": kind, **place}, separators=(",", ":")).encode()
        check = zlib.crc32(body).to_bytes(4, "big")
        return base64.urlsafe_b64encode(check + body).decode().rstrip("=")

    def read(self, token: str, kind: str) -> dict[str, Any]:
        try:
            raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            check, body = raw[:4], raw[4:]
            if zlib.crc32(body).to_bytes(4, "big") != check:
                raise CursorRejectedError("it is damaged")
            fields: dict[str, Any] = json.loads(body)
        except (ValueError, binascii.Error) as error:
            raise CursorRejectedError("it is damaged") from error
        if fields.get("kind") != kind:
            raise CursorRejectedError(f"it is a {fields.get('kind')}, not a {kind}")
        reasons = {
            "graph": "another graph issued it",
            "branch": "it belongs to another branch, or to a deleted branch of the same name",
            "filter": "it was issued for another filter",
        }
        for name, reason in reasons.items():
            if fields.get(name) != self._bound[name]:
                raise CursorRejectedError(reason)
        return fields
