"""The words that calls take where only a few are known, as types."""

from __future__ import annotations

from typing import Final, Literal, get_args

LoadWord = Literal["append", "merge", "overwrite"]
"""What a load does with ids that exist."""
BulkWord = Literal["append", "merge", "overwrite", "apply", "delete"]
"""The same, and what events and deletions are."""
DurabilityWord = Literal["full", "none"]
"""What a commit survives: power loss, or the process only."""
EngineWord = Literal["auto", "local", "spark"]
"""Where a load runs."""
SideWord = Literal["ours", "theirs"]
"""Which side a conflict is decided for."""
EntityKind = Literal["node", "edge"]
"""What an entity is."""
ChangeOp = Literal["insert", "update", "delete"]
"""What happened to an entity."""
Language = Literal["gq", "pg"]
"""What a text is written in: queries, or a schema."""
ExportFormat = Literal["jsonl", "csv", "graphml"]
"""What an export writes."""

EXPORT_FORMATS: Final[tuple[ExportFormat, ...]] = get_args(ExportFormat)
