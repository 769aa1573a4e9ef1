"""Names of headers and media types, for the server and its clients."""

from __future__ import annotations

IF_COMMIT = "Omnigraph-If-Graph-Commit"
IDEMPOTENCY_KEY = "Idempotency-Key"
SNAPSHOT_ID = "Omnigraph-Snapshot-Id"

JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
BYTES = "application/octet-stream"

ARROW_METADATA = b"omnigraph"
"""Where the schema of an Arrow stream says what its rows are the answer to."""
