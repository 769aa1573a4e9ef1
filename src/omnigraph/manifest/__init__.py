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
from omnigraph.manifest.identity import Identity, mint
from omnigraph.manifest.intents import Intent, slot_name
from omnigraph.manifest.ledger import Ledger
from omnigraph.manifest.plans import PlannedTable, PublishPlan
from omnigraph.manifest.publisher import Lost, Publisher
from omnigraph.manifest.records import (
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
from omnigraph.manifest.recovery import PendingWrite, Recovery, Verdict
from omnigraph.store import Pin, Place

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
    "GraphCommit",
    "GraphReplacedError",
    "Identity",
    "Intent",
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
    "dropped",
    "encode",
    "lines_in_use",
    "manifest_schema",
    "merge_bases",
    "mint",
    "new_branch",
    "parse_incarnation",
    "registered",
    "renamed",
    "slot_name",
]
