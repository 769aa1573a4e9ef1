"""Clusters as code: graphs, schemas, stored queries and policies, described in one file.

`validate`, `plan`, `apply`, `status` and `approve` work on the folder of a `cluster.yaml`;
`read_cluster` returns what a server serves.
"""

from __future__ import annotations

from omnigraph.cluster.operations import (
    adopt,
    apply,
    approve,
    force_unlock,
    plan,
    refresh,
    status,
    validate,
)
from omnigraph.cluster.reports import Report
from omnigraph.cluster.serving import (
    ServedCluster,
    ServedGraph,
    cluster_root,
    is_described,
    read_cluster,
)
from omnigraph.cluster.stored import QueryParameter, StoredQuery, stored_queries
from omnigraph.values.answers import ClusterDiagnostic

__all__ = [
    "ClusterDiagnostic",
    "QueryParameter",
    "Report",
    "ServedCluster",
    "ServedGraph",
    "StoredQuery",
    "adopt",
    "apply",
    "approve",
    "cluster_root",
    "force_unlock",
    "is_described",
    "plan",
    "read_cluster",
    "refresh",
    "status",
    "stored_queries",
    "validate",
]
