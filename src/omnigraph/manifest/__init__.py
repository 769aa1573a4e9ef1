"""Graph truth: which table versions are published, and the history of graph commits."""

from __future__ import annotations

from omnigraph.manifest.audit import AUDIT, RecoveryAudit, RecoveryKind, RecoveryRecord
from omnigraph.manifest.coordinator import Capture, Coordinator, check_stamp
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
    RECOVERY_ACTOR,
    GraphCommit,
    Pin,
    TableRecord,
    encode,
    manifest_schema,
)
from omnigraph.manifest.recovery import PendingWrite, Recovery, Verdict

__all__ = [
    "AUDIT",
    "MAIN",
    "RECOVERY_ACTOR",
    "Capture",
    "Coordinator",
    "Effect",
    "GraphCommit",
    "Identity",
    "Ledger",
    "Lost",
    "PendingWrite",
    "Pin",
    "PlannedTable",
    "PublishPlan",
    "Publisher",
    "Recovery",
    "RecoveryAudit",
    "RecoveryKind",
    "RecoveryRecord",
    "TableRecord",
    "Verdict",
    "check_stamp",
    "encode",
    "manifest_schema",
    "slot_name",
]
