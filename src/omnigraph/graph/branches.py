"""Branches and tags as people use them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from functools import partial

from msgspec.structs import replace

from omnigraph.commits import MAIN, BranchInfo, BranchState, GraphCommit, Tag
from omnigraph.errors import (
    CheckFailedError,
    NotFoundError,
    OmniGraphError,
    PolicyDeniedError,
    PreconditionFailedError,
)
from omnigraph.graph.acting import Acting
from omnigraph.graph.overview import Overview
from omnigraph.graph.permits import PermittedBranches
from omnigraph.graph.revisions import has_branch, parse_revision, resolve_commit, resolve_revision
from omnigraph.graph.targets import At, check_head, resolve
from omnigraph.ids import is_ulid
from omnigraph.ops.delete_branch import DeleteBranch
from omnigraph.ops.merge.merging import MergePlan, MergeResult, Resolution, decider
from omnigraph.ops.merge.operation import MergeWorkers
from omnigraph.policy import Action
from omnigraph.rows.three_way import Conflict, Decision
from omnigraph.values.inspection import (
    HISTORY_COMMITS_DEFAULT,
    AllowedActions,
    BranchHeads,
    CommitGraph,
)


class Branches:
    """The branches of a graph: isolated lines of work that share everything until written to."""

    def __init__(self, acting: Acting) -> None:
        self._acting = acting
        self._lines = acting.engine.lines
        self._merging = acting.engine.merging

    def list(self) -> list[str]:
        """Return the names of all branches, main first; of those the actor may read.

        >>> graph.branches.list()
        ['main', 'dev']
        """
        return [info.name for info in self.details()]

    def details(self) -> tuple[BranchInfo, ...]:
        """Return all branches with where and when they were made; those the actor may read.

        >>> [item.name for item in graph.branches.details()]
        ['main', 'dev']
        """
        return _readable_branches(self._acting)

    def heads(self, base: str = MAIN) -> BranchHeads:
        """Return all branches with their newest commits, and how far each is from a base.

        >>> [(item.name, item.ahead) for item in graph.branches.heads().branches]
        [('main', 0), ('dev', 1)]
        """
        self._acting.permit(Action.READ, branch=base)
        return Overview(self._acting.readable, self.details()).heads(base)

    def history(
        self, *, limit: int = HISTORY_COMMITS_DEFAULT, page_token: str | None = None
    ) -> CommitGraph:
        """Return the commits of all branches, each before its parents, with branches and tags.

        >>> sorted(graph.branches.history().heads)
        ['dev', 'main']
        """
        tags = Tags(self._acting).list()
        overview = Overview(self._acting.readable, self.details(), tags)
        return overview.graph(limit=limit, page_token=page_token)

    def allowed(self, branch: str = MAIN) -> AllowedActions:
        """Return what the actor may do on a branch; whether it exists is not told.

        >>> "change" in graph.branches.allowed("dev").actions
        True
        """
        actions = [str(action) for action in Action if self._may(action, branch)]
        return AllowedActions(
            actor=self._acting.caller.actor, branch=branch, actions=tuple(actions)
        )

    def _may(self, action: Action, branch: str) -> bool:
        if action.on_server:
            return False
        try:
            self._acting.permit(action, branch=branch, target_branch=branch)
        except PolicyDeniedError:
            return False
        return True

    def exists(self, name: str) -> bool:
        """Whether there is a branch of this name.

        >>> graph.branches.exists("dev")
        True
        """
        self._acting.permit(Action.READ, branch=name)
        return has_branch(self._lines, name)

    def create(
        self,
        name: str,
        from_: str | int = MAIN,
        *,
        expected_head: str | None = None,
        actor: str | None = None,
    ) -> BranchInfo:
        """Make a branch from any state: a branch, tag, commit, `main~2`, `main@{yesterday}`.

        >>> graph.branches.create("fix", from_="v1").name
        'fix'

        Costs the same whatever the graph holds; no data is copied. With `expected_head` it is
        refused unless that commit made the state it starts from.
        """
        self._acting.check_writable()
        self._acting.permit(
            Action.BRANCH_CREATE,
            branch=parse_revision(str(from_)).anchor,
            target_branch=name,
            actor=actor,
        )
        # An actor with a branch of a state can read all of it there.
        source = PermittedBranches(self._lines, partial(self._acting.permit, actor=actor))

        def find() -> BranchState:
            line, state = resolve_revision(source, from_)
            check_head(line, state, expected_head)
            return state

        return self._lines.naming(find, lambda state: self._lines.create(name, state))

    def delete(
        self, name: str, *, expected_head: str | None = None, actor: str | None = None
    ) -> None:
        """Remove a branch. Commits merged elsewhere stay there.

        >>> graph.branches.delete("dev")

        What only it holds is freed by the next `cleanup` after which no merge can need it. With
        `expected_head` it is refused unless that commit is the branch's head.
        """
        self._acting.check_writable()
        self._acting.permit(Action.BRANCH_DELETE, target_branch=name, actor=actor)
        line = self._acting.line(name)
        ending = DeleteBranch(self._lines.directory, line.branch, line.manifest)
        with self._acting.telling(name, actor):
            ending.run(line.writer, expected_head)
        self._lines.forget(name)

    def merge_plan(
        self,
        source: str,
        into: str = MAIN,
        *,
        resolve: Resolution | None = None,
        property_merge: bool = False,
    ) -> MergePlan:
        """Compute a merge for review: every change and every conflict; nothing is written.

        >>> graph.branches.merge_plan("dev").outcome
        'fast_forward'
        """
        self._acting.permit(Action.READ, branch=source)
        self._acting.permit(Action.READ, branch=into)
        decide = decider(resolve, property_merge=property_merge)
        schema = self._acting.engine.accepted_schema()
        with self._acting.suggesting(source), self._acting.suggesting(into):
            return self._merging.plan(schema, source, into, decide)

    def merge(
        self,
        source: str,
        into: str = MAIN,
        *,
        resolve: Resolution | None = None,
        property_merge: bool = False,
        checks: Iterable[str] = (),
        delete_source: bool = False,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
        actor: str | None = None,
        workers: MergeWorkers | None = None,
    ) -> MergeResult:
        """Merge a branch into another as one commit with two parents.

        >>> merged = graph.branches.merge("dev", delete_source=True)

        Args:
            source: Branch whose changes are taken; it stays as it is.
            into: Branch that gets them.
            resolve: `ours` (keep the target) or `theirs` for every conflict, or a mapping from
                `Type` or `Type/id` to a side or to the values to write.
            property_merge: Join two updates of one entity that changed different properties.
            checks: Text of read queries that must return no rows on the merged state.
            delete_source: Delete the source unless it was written to since; failing is reported.
            expected_head: Refuse unless this commit is the target's head.
            operation_id: Your own id for this write: repeating it returns the first outcome.
            message: Message of the commit.
            actor: Overrides the handle's actor.
            workers: Merge large tables elsewhere, as those of `omnigraph.spark.merge` do.

        Raises `MergeConflictError` with every conflict; the target is then untouched.
        """
        self._permit_merge(source, into, actor)
        target = self._acting.line(into)
        decide = decider(resolve, property_merge=property_merge)
        queries = tuple(checks)
        request = self._acting.request(
            target,
            actor=actor,
            expected_head=expected_head,
            operation_id=operation_id,
            message=message,
        )
        source_head = None
        seen = self._head_of(source) if delete_source else None
        if queries:
            # A check that fails shows rows of what would be merged.
            self._acting.permit(Action.READ, branch=into, actor=actor)
        if queries and self._merging.done(target, request) is None:
            source_head = self._acting.line(source).manifest.capture().head.graph_commit_id
            head = self._run_checks(source, into, decide, queries, expected_head, source_head)
            request = replace(request, expected_head=head)
        with self._acting.telling(into, actor), self._acting.suggesting(source):
            outcome, commit, changes = self._merging.run(
                self._acting.engine.accepted_schema(),
                source,
                into,
                decide,
                request,
                source_head=source_head,
                workers=workers,
            )
        self._acting.after_commit(target, commit, changes)
        result = MergeResult(
            outcome=outcome, source=source, target=into, commit=commit, actor_id=request.actor_id
        )
        return self._drop_source(result, seen, actor) if delete_source else result

    def _head_of(self, name: str) -> str | None:
        """Return the newest commit of a branch, None if there is no such branch."""
        try:
            return self._acting.line(name).manifest.capture().head.graph_commit_id
        except NotFoundError:
            return None

    def _permit_merge(self, source: str, into: str, actor: str | None) -> None:
        self._acting.check_writable()
        self._acting.permit(Action.BRANCH_MERGE, branch=source, target_branch=into, actor=actor)
        # What is merged can be read in the target.
        self._acting.permit(Action.READ, branch=source, actor=actor)

    def cherry_pick(
        self,
        commit_id: str,
        branch: str = MAIN,
        *,
        resolve: Resolution | None = None,
        property_merge: bool = False,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
        actor: str | None = None,
    ) -> GraphCommit | None:
        """Make the changes of one commit on another branch; None when they are there already.

        >>> made = graph.branches.cherry_pick(graph.commits.head("dev").graph_commit_id)
        >>> graph.get("Task", "t2")["title"]
        'Water'
        """
        terms = (expected_head, operation_id, message, actor)
        return self._apply(commit_id, branch, resolve, property_merge, terms)

    def revert(
        self,
        commit_id: str,
        branch: str = MAIN,
        *,
        resolve: Resolution | None = None,
        property_merge: bool = False,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
        actor: str | None = None,
    ) -> GraphCommit | None:
        """Undo the changes of one commit in a new one; None when nothing of it is left.

        >>> made = graph.branches.revert(graph.commits.head("dev").graph_commit_id, "dev")
        >>> graph.get("Task", "t2", branch="dev")["title"]
        'Plant'

        Raises `MergeConflictError` when later commits changed the same entities.
        """
        terms = (expected_head, operation_id, message, actor)
        return self._apply(commit_id, branch, resolve, property_merge, terms, inverse=True)

    def _apply(
        self,
        commit_id: str,
        branch: str,
        resolve: Resolution | None,
        property_merge: bool,
        terms: tuple[str | None, str | None, str | None, str | None],
        *,
        inverse: bool = False,
    ) -> GraphCommit | None:
        expected_head, operation_id, message, actor = terms
        self._acting.check_writable()
        self._acting.permit(Action.CHANGE, branch=branch, actor=actor)
        line = self._lines.get(branch)
        request = self._acting.request(
            line,
            actor=actor,
            expected_head=expected_head,
            operation_id=operation_id,
            message=message,
        )
        if (done := self._merging.done(line, request)) is not None:
            return done
        # What a commit did can be read off its copy or its reversal.
        if not is_ulid(commit_id):
            readable = PermittedBranches(self._lines, partial(self._acting.permit, actor=actor))
            commit_id = resolve_commit(readable, commit_id)[1].graph_commit_id
        source = self._lines.containing(commit_id)[0].branch.name
        self._acting.permit(Action.READ, branch=source, actor=actor)
        with self._acting.telling(branch, actor):
            commit, changes = self._merging.apply_commit(
                self._acting.engine.accepted_schema(),
                commit_id,
                branch,
                decider(resolve, property_merge=property_merge),
                request,
                inverse=inverse,
            )
        self._acting.after_commit(line, commit, changes)
        return commit

    def _drop_source(self, result: MergeResult, seen: str | None, actor: str | None) -> MergeResult:
        """Delete the source, if the commit that was merged is still its newest one.

        Where nothing had to be merged, that is the one `seen` before.
        """
        source = result.source
        merged = seen if result.commit is None else result.commit.merged_parent_commit_id
        try:
            self.delete(source, expected_head=merged or "", actor=actor)
        except NotFoundError:
            pass  # An earlier call with this operation id deleted it, or somebody else did.
        except PreconditionFailedError:
            told = f"branch '{source}' has commits that were not merged"
            return replace(result, branch_delete_error=told)
        except OmniGraphError as error:
            return replace(result, branch_delete_error=error.message)
        return replace(result, branch_deleted=True)

    def _run_checks(
        self,
        source: str,
        into: str,
        decide: Callable[[Conflict], Decision],
        queries: tuple[str, ...],
        expected_head: str | None,
        source_head: str,
    ) -> str:
        """Ask on the merged state, kept out of sight; return the head the verdict holds for."""
        schema = self._acting.engine.accepted_schema()
        with self._merging.trial(schema, source, into, decide, source_head) as merged:
            for text in queries:
                answer = self._acting.ask(text, merged)
                if len(answer):
                    raise CheckFailedError(answer.query_name, answer.to_pylist()[:10], len(answer))
        return expected_head or merged.head.graph_commit_id


def _readable_branches(acting: Acting) -> tuple[BranchInfo, ...]:
    """Return the branches an actor may read. Raises `PolicyDeniedError` if that is none."""
    infos = tuple(acting.engine.lines.directory.branches())
    try:
        acting.permit(Action.READ)
    except PolicyDeniedError:
        readable = tuple(info for info in infos if acting.may_read(info.name))
        if not readable:
            raise
        return readable
    return infos


class Tags:
    """Names for states of the graph that never move."""

    def __init__(self, acting: Acting) -> None:
        self._acting = acting
        self._lines = acting.engine.lines

    def list(self) -> list[Tag]:
        """Return all tags, by name; of branches the actor may read.

        >>> [tag.name for tag in graph.tags.list()]
        ['v1']
        """
        names = {info.name for info in _readable_branches(self._acting)}
        return [tag for tag in self._lines.directory.tags() if tag.branch.name in names]

    def create(
        self,
        name: str,
        *,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        timestamp: datetime.datetime | str | None = None,
        expected_head: str | None = None,
    ) -> Tag:
        """Name the newest state of a branch, or an older one.

        >>> graph.tags.create("v2", branch="dev").name
        'v2'

        With `expected_head` it is refused unless that commit made the state.
        """
        self._acting.check_writable()
        self._acting.permit(Action.BRANCH_CREATE, branch=branch, target_branch=name)

        at = At(branch=branch, commit=commit, version=version, timestamp=timestamp)

        def find() -> BranchState:
            line, state = resolve(self._acting.readable, at)
            check_head(line, state, expected_head)
            return state

        def make(state: BranchState) -> Tag:
            inner = state.head.graph_commit_id if state.inner else None
            held = self._lines.holding(state)
            return self._lines.directory.create_tag(name, held, inner)

        return self._lines.naming(find, make)

    def delete(self, name: str, *, expected_head: str | None = None) -> None:
        """Forget a tag; the state it named stays.

        >>> graph.tags.delete("v1")

        With `expected_head` it is refused unless that commit made the state it names.
        """
        self._acting.check_writable()
        self._acting.permit(Action.BRANCH_DELETE, target_branch=name)
        if expected_head is not None:
            line, state = resolve(self._lines, At(tag=name))
            with self._acting.telling(line.branch.name):
                check_head(line, state, expected_head)
        self._lines.directory.delete_tag(name)
