"""A resolution for people: figures, what was left out, and the first clusters in full."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.resolve.clusters import CLUSTER, MEMBER
from omnigraph.resolve.finding import Resolved
from omnigraph.resolve.merging import SURVIVOR
from omnigraph.resolve.scores import LEFT, RIGHT, SCORE
from omnigraph.values.resolutions import ResolveReport
from omnigraph.wording import counted

CLUSTERS_SHOWN = 10
LEFT_OUT_SHOWN = 5


def text(resolved: Resolved, report: ResolveReport, *, clusters: int = CLUSTERS_SHOWN) -> str:
    """Return a resolution as lines of text, with so many clusters."""
    return "\n".join(
        [*_figures(report), *_left_out(resolved, report), *_clusters(resolved, clusters)]
    )


def _figures(report: ResolveReport) -> Iterator[str]:
    yield f"{report.type} on {report.branch}: {counted(report.nodes, 'node')}"
    compared = counted(report.compared, "pair")
    yield f"  {compared} compared, {counted(report.pairs, 'match', 'matches')}"
    yield f"  {counted(report.clusters, 'cluster')}, {counted(report.merged, 'node')} to merge"
    for name, item in report.edges.items():
        gone = f"{item['collapsed']:,} collapsed, {counted(item['loops'], 'loop')} dropped"
        yield f"  {name}: {counted(item['redirected'], 'edge')} redirected, {gone}"
    if report.dry_run:
        yield "dry run: nothing was written"
    elif report.commit is not None:
        again = " before" if report.repeated else ""
        yield f"proposed{again} on branch {report.proposed_on}: {report.commit}"
    elif not report.merged:
        yield "nothing to merge"


def _left_out(resolved: Resolved, report: ResolveReport) -> Iterator[str]:
    if report.blocks_skipped:
        most = resolved.rules.block_nodes_max
        left = counted(report.blocks_skipped, "block")
        yield f"{left} left out, of more than {counted(most, 'node')}:"
        for item in report.largest_skipped[:LEFT_OUT_SHOWN]:
            names = "+".join(key.property for key in resolved.rules.keys[item["block"]])
            shown = item["key"].replace("\x1f", " + ")
            yield f"  {item['nodes']:>10,}  {names} = {shown!r}"
    if report.clusters_too_large:
        most = resolved.rules.cluster_nodes_max
        left = counted(report.clusters_too_large, "cluster")
        yield f"{left} left as found, of more than {counted(most, 'node')}:"
        for item in report.largest_clusters[:LEFT_OUT_SHOWN]:
            yield f"  {item['nodes']:>10,}  with {item['lowest_id']}"


def _clusters(resolved: Resolved, shown: int) -> Iterator[str]:
    """Yield the first clusters: the node that stays, and what it takes in with its best score."""
    merged = resolved.clusters.filter(resolved.clusters[SURVIVOR].is_valid())
    numbers = np.unique(merged[CLUSTER].to_numpy())
    if not len(numbers) or not shown:
        return
    yield "clusters:"
    for number in numbers[:shown].tolist():
        members = merged.filter(pc.equal(merged[CLUSTER], number))
        stays = members[SURVIVOR][0].as_py()
        yield f"  {stays}"
        for name in members[MEMBER].to_pylist():
            if name != stays:
                yield f"    <- {name}  {_best(resolved.pairs, name):.3f}"
    if len(numbers) > shown:
        yield f"  and {counted(len(numbers) - shown, 'cluster')} more"


def _best(pairs: pa.Table, name: str) -> float:
    mine = pc.or_(pc.equal(pairs[LEFT], name), pc.equal(pairs[RIGHT], name))
    return float(pc.max(pairs.filter(mine)[SCORE]).as_py())
