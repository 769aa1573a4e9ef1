"""States that are looked at before they become a commit: written, and named by no manifest."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from omnigraph.commits.base import Base
from omnigraph.commits.branch_ids import BranchId, new_branch
from omnigraph.commits.changes import ChangeSet
from omnigraph.commits.manifest_reader import BranchState
from omnigraph.commits.plans import PlannedTable
from omnigraph.errors import OmniGraphError
from omnigraph.failpoints import Failpoint, fire
from omnigraph.store import (
    Pin,
    StagedTable,
    Tables,
    commit_staged,
    delete_forks,
    split_branch,
)

TRIAL = "merge-check"


@contextlib.contextmanager
def tried(
    base: Base,
    changes: ChangeSet,
    stage: Callable[[Base], Sequence[PlannedTable]],
    new_id: Callable[[], str],
) -> Iterator[BranchState]:
    """Hold the state that changes of rows lead to, for reading; `stage` writes their files.

    Its tables are table branches of a graph branch that does not exist, so nothing else can see or
    write to it. A process killed meanwhile leaves table branches that the next cleanups find in no
    manifest, as those of any interrupted first write on a branch.
    """
    branch = new_branch(TRIAL, new_id())
    apart = replace(base, capture=replace(base.capture, branch=branch))
    try:
        pins = dict(base.capture.pins)
        for item in stage(apart):
            if isinstance(item.step, StagedTable):
                pins[item.pin.table_key] = _committed(base.tables, item.pin, item.step)
        fire(Failpoint.FORK_POST_TRIAL)
        yield replace(base.capture, pins=pins)
    finally:
        _discard(base.tables, branch, [base.capture.pins[key].path for key in changes.tables])


def _committed(tables: Tables, pin: Pin, staged: StagedTable) -> Pin:
    table = commit_staged(tables, staged)
    return replace(
        pin,
        path=staged.path,
        version=table.version,
        row_count=table.count_rows(),
        transaction_uuid=table.transaction_uuid(),
    )


def _discard(tables: Tables, branch: BranchId, paths: Sequence[str]) -> None:
    """Free what was written: it is only space, so a failure is left to a cleanup."""
    for path in paths:
        with contextlib.suppress(OmniGraphError):
            delete_forks(tables, split_branch(path)[0], {branch.uid})
