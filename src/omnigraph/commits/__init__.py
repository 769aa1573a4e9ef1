"""Graph truth and the one way to change it: state, history, recovery, the write loop."""

from __future__ import annotations

from omnigraph.commits.ancestry import OwnHistory, lines_in_use, merge_bases
from omnigraph.commits.audit import AUDIT, RecoveryAudit, RecoveryKind, RecoveryRecord
from omnigraph.commits.base import Base
from omnigraph.commits.branch_ids import (
    MAIN_BRANCH,
    MANIFEST,
    BranchId,
    BranchName,
    new_branch,
    parse_branch_uid,
)
from omnigraph.commits.branches import CONTROL_SLOT, BranchDirectory, BranchInfo, Tag
from omnigraph.commits.changes import BuildIndexes, ChangeSet, TableStep
from omnigraph.commits.history import History
from omnigraph.commits.identity import CommitIdentity, mint
from omnigraph.commits.intents import Intent, slot_name
from omnigraph.commits.loop import Writer
from omnigraph.commits.manifest_reader import (
    BranchState,
    GraphReplacedError,
    ManifestReader,
    check_stamp,
)
from omnigraph.commits.operation import (
    LeftoversFound,
    Operation,
    Persistence,
    PlainOperation,
    Request,
    Reserve,
    SchemaMovedError,
)
from omnigraph.commits.plans import PlannedTable, PublishPlan
from omnigraph.commits.publisher import HeadMoved, Publisher
from omnigraph.commits.records import (
    MAIN,
    MAINTENANCE_KINDS,
    RECOVERY,
    RECOVERY_ACTOR,
    SCHEMA_APPLY,
    GraphCommit,
    TableEntry,
    TableRecord,
    Tombstone,
    dropped,
    encode,
    manifest_schema,
    registered,
    renamed,
)
from omnigraph.commits.recovery import PendingWrite, Recovery, Verdict

__all__ = [
    "AUDIT",
    "CONTROL_SLOT",
    "MAIN",
    "MAINTENANCE_KINDS",
    "MAIN_BRANCH",
    "MANIFEST",
    "RECOVERY",
    "RECOVERY_ACTOR",
    "SCHEMA_APPLY",
    "Base",
    "BranchDirectory",
    "BranchId",
    "BranchInfo",
    "BranchName",
    "BranchState",
    "BuildIndexes",
    "ChangeSet",
    "CommitIdentity",
    "GraphCommit",
    "GraphReplacedError",
    "HeadMoved",
    "History",
    "Intent",
    "LeftoversFound",
    "ManifestReader",
    "Operation",
    "OwnHistory",
    "PendingWrite",
    "Persistence",
    "PlainOperation",
    "PlannedTable",
    "PublishPlan",
    "Publisher",
    "Recovery",
    "RecoveryAudit",
    "RecoveryKind",
    "RecoveryRecord",
    "Request",
    "Reserve",
    "SchemaMovedError",
    "TableEntry",
    "TableRecord",
    "TableStep",
    "Tag",
    "Tombstone",
    "Verdict",
    "Writer",
    "check_stamp",
    "dropped",
    "encode",
    "lines_in_use",
    "manifest_schema",
    "merge_bases",
    "mint",
    "new_branch",
    "parse_branch_uid",
    "registered",
    "renamed",
    "slot_name",
]
