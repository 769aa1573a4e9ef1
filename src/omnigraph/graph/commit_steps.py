"""The commits of a branch as work that others can divide: which tables each moved, and how far."""

from __future__ import annotations

import datetime

from msgspec import Struct

from omnigraph.catalog import Entity
from omnigraph.commits import MAIN, MAINTENANCE_KINDS, GraphCommit
from omnigraph.commits.compare import may_differ
from omnigraph.commits.contract import SchemaContract
from omnigraph.commits.open_branches import OpenBranch
from omnigraph.errors import ChangeFeedGapError, NotFoundError
from omnigraph.graph.changes import ChangeBlock, Changes
from omnigraph.graph.permits import Reachable
from omnigraph.graph.revisions import parse_moment
from omnigraph.graph.targets import At, resolve
from omnigraph.ops.diff import ChangeFilter, wanted_types
from omnigraph.store import Pin, Table, Tables

BEGINNING = "beginning"
NOW = "now"


class TableStep(Struct, frozen=True, kw_only=True):
    """One table before and after a commit; a side on which it does not exist is None.

    `descends` says that the second version grew out of the first. `touched` is how many rows the
    commit touched if others were published with it: the step is then that of all of them.
    """

    entity: Entity
    type_id: int
    before: Table | None
    after: Table | None
    descends: bool
    touched: int | None = None


class CommitSteps:
    """The commits of one branch, in order, and what each did to tables."""

    def __init__(
        self, lines: Reachable, tables: Tables, contract: SchemaContract, branch: str = MAIN
    ) -> None:
        self._lines = lines
        self._tables = tables
        self._contract = contract
        self._changes = Changes(lines, tables, contract)
        self._branch = branch

    def _line(self) -> OpenBranch:
        return self._lines.get(self._branch)

    def head(self) -> str:
        """Return the id of the newest commit."""
        return self._line().manifest.capture().head.graph_commit_id

    def after(self, commit_id: str) -> list[GraphCommit]:
        """Return the commits that came later, oldest first; all after `BEGINNING`."""
        line = self._line()
        state = line.manifest.capture()
        history = line.manifest.history
        if commit_id == BEGINNING:
            return list(history.oldest_first(0, state.version))
        known = history.find(commit_id)
        if known is None:
            raise NotFoundError(f"commit '{commit_id}' is not on branch '{self._branch}'")
        place = (known.manifest_version, known.place)
        commits = history.oldest_first(known.manifest_version - 1, state.version)
        return [item for item in commits if (item.manifest_version, item.place) > place]

    def named(self, name: str) -> str:
        """Return the commit that is meant: by its id, a version, a tag or a moment.

        A moment means the newest commit of its time, `BEGINNING` if there was none.
        """
        if name == BEGINNING:
            return name
        if name == NOW:
            return self.head()
        is_tag = any(tag.name == name for tag in self._lines.directory.tags())
        moment = None if is_tag or name.isdigit() else parse_moment(name)
        if moment is not None:
            return self._at_moment(moment)
        point = At(branch=self._branch, commit=name)
        _line, state = resolve(self._lines, point)
        return state.head.graph_commit_id

    def _at_moment(self, moment: datetime.datetime) -> str:
        microseconds = int(moment.timestamp() * 1e6)
        line = self._line()
        state = line.manifest.capture()
        history = line.manifest.history
        last = next(history.newest_first(state.version, until_us=microseconds), None)
        return BEGINNING if last is None else last.graph_commit_id

    def steps(self, commit: GraphCommit, wanted: ChangeFilter) -> list[TableStep]:
        """Return the tables whose rows a commit may have changed.

        There are none where the feed tells nothing: at the first commit, at a change of schema,
        and for upkeep, which moves rows and changes none.
        """
        line = self._line()
        history = line.manifest.history
        if commit.parent_commit_id is None or commit.kind in MAINTENANCE_KINDS:
            return []
        parent = history.commits[commit.parent_commit_id]
        known = self._changes.wanted_then(commit, wanted)
        if parent.schema_hash != commit.schema_hash or known is None:
            return []
        group = history.group_of(commit)
        # Commits that were published together share one step of each table.
        first = commit.manifest_version - 1 if group else parent.manifest_version
        touched = None if group is None else group.touched_by(commit.graph_commit_id)
        before = history.pins_at(first)
        after = history.pins_at(commit.manifest_version)
        steps: list[TableStep] = []
        for entity, type_id in wanted_types(self._contract.at(commit.schema_hash), known):
            key = entity.table_key
            old, new = before.get(key), after.get(key)
            if may_differ(old, new) and (touched is None or key in touched):
                steps.append(
                    TableStep(
                        entity=entity,
                        type_id=type_id,
                        before=self._open(old, commit),
                        after=self._open(new, commit),
                        descends=history.grew_from(new, old),
                        touched=None if touched is None else len(touched[key].all),
                    )
                )
        return steps

    def _open(self, pin: Pin | None, commit: GraphCommit) -> Table | None:
        try:
            return None if pin is None else self._tables.open(pin.path, pin.version)
        except NotFoundError as error:
            raise ChangeFeedGapError(
                cursor=None, first_unreadable_commit_id=commit.graph_commit_id
            ) from error

    def block(self, commit_id: str, wanted: ChangeFilter) -> ChangeBlock:
        """Return what one commit changed, as the feed tells it."""
        line = self._line()
        line.manifest.capture()
        commit = line.manifest.history.commits[commit_id]
        try:
            return self._changes.block(commit, line, wanted)[0]
        except NotFoundError as error:
            raise ChangeFeedGapError(cursor=None, first_unreadable_commit_id=commit_id) from error
