"""Graph truth: which table versions are published, and the history of graph commits."""

from __future__ import annotations

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
    MAINTENANCE_KINDS,
    RECOVERY_ACTOR,
    GraphCommit,
    Pin,
    TableRecord,
    encode,
    manifest_schema,
)
from omnigraph.manifest.recovery import Recovery, Verdict

__all__ = [
    "MAIN",
    "MAINTENANCE_KINDS",
    "RECOVERY_ACTOR",
    "Capture",
    "Coordinator",
    "Effect",
    "GraphCommit",
    "Identity",
    "Ledger",
    "Lost",
    "Pin",
    "PlannedTable",
    "PublishPlan",
    "Publisher",
    "Recovery",
    "TableRecord",
    "Verdict",
    "check_stamp",
    "encode",
    "manifest_schema",
    "slot_name",
]
