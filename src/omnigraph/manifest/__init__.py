"""Graph truth: which table versions are published, and the history of graph commits."""

from __future__ import annotations

from omnigraph.manifest.ancestry import OwnHistory, lines_in_use, merge_bases
from omnigraph.manifest.audit import AUDIT, RecoveryAudit, RecoveryKind, RecoveryRecord
from omnigraph.manifest.branch_ids import (
    MAIN_BRANCH,
    MANIFEST,
    BranchId,
    BranchName,
    new_branch,
    parse_incarnation,
)
from omnigraph.manifest.branches import CONTROL_SLOT, BranchDirectory, BranchInfo, Tag
from omnigraph.manifest.coordinator import Capture, Coordinator, GraphReplacedError, check_stamp
from omnigraph.manifest.intents import slot_name
from omnigraph.manifest.ledger import Ledger
from omnigraph.manifest.publisher import (
    Effect,
    Identity,
    Lost,
    PlannedTable,
    Publisher,
    PublishPlan,
)
from omnigraph.manifest.records import (
    MAIN,
    MAINTENANCE_KINDS,
    RECOVERY,
    RECOVERY_ACTOR,
    SCHEMA_APPLY,
    GraphCommit,
    Pin,
    Place,
    TableEntry,
    TableRecord,
    Tombstone,
    encode,
    manifest_schema,
)
from omnigraph.manifest.recovery import PendingWrite, Recovery, Verdict

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
    "BranchDirectory",
    "BranchId",
    "BranchInfo",
    "BranchName",
    "Capture",
    "Coordinator",
    "Effect",
    "GraphCommit",
    "GraphReplacedError",
    "Identity",
    "Ledger",
    "Lost",
    "OwnHistory",
    "PendingWrite",
    "Pin",
    "Place",
    "PlannedTable",
    "PublishPlan",
    "Publisher",
    "Recovery",
    "RecoveryAudit",
    "RecoveryKind",
    "RecoveryRecord",
    "TableEntry",
    "TableRecord",
    "Tag",
    "Tombstone",
    "Verdict",
    "check_stamp",
    "encode",
    "lines_in_use",
    "manifest_schema",
    "merge_bases",
    "new_branch",
    "parse_incarnation",
    "slot_name",
]
