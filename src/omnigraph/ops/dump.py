"""A whole graph, with branches, tags and history, in one archive."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Iterator, Mapping

from omnigraph.commits import MANIFEST, BranchState
from omnigraph.commits.open_branches import OpenBranches
from omnigraph.store import Location
from omnigraph.store.files.conditional import PROBE
from omnigraph.store.slots.protocol import RECOVERY_FOLDER
from omnigraph.store.slots.request_keys import REQUESTS_FOLDER
from omnigraph.store.tables.torn_versions import ASIDE, version_of
from omnigraph.values.reports import DumpReport as DumpReport
from omnigraph.version import INTERNAL_SCHEMA_VERSION, __version__

DUMP_FORMAT = 1
Progress = Callable[[str], None]


def dump(
    location: Location, lines: OpenBranches, archive: str, progress: Progress | None
) -> DumpReport:
    """Write a graph into an archive while others go on writing to it.

    Files never change once they are named, so it is enough to list them at one moment.
    """
    from omnigraph.store.files.archive import write_archive

    with lines.directory.cleaning(), lines.directory.control():
        states = {
            info.name: lines.get(info.name).manifest.capture()
            for info in lines.directory.branches()
        }
        # The manifest first: whatever it names is there already.
        names = list(_manifest_files(location, states.values()))
        names += _other_files(location, states.values())
    heads = {name: state.head.graph_commit_id for name, state in states.items()}
    header = {
        "format": DUMP_FORMAT,
        "omnigraph_version": __version__,
        "internal_schema_version": INTERNAL_SCHEMA_VERSION,
        "created_at": datetime.datetime.now(datetime.UTC).isoformat(),
        "branches": heads,
        "files": len(names),
    }
    size = write_archive(archive, location, names, header, progress or (lambda _name: None))
    return DumpReport(uri=location.uri, archive=archive, heads=heads, files=len(names), bytes=size)


def _manifest_files(location: Location, states: Iterable[BranchState]) -> Iterator[str]:
    """Yield the files of the manifest, but no version that came after a capture."""
    limits = {state.branch.path: state.version for state in states}
    # References first: a branch that is named has its folder already.
    yield from _files(location, f"{MANIFEST}/_refs")
    for name in _files(location, MANIFEST):
        if not name.startswith(f"{MANIFEST}/_refs/") and not _is_newer(name, limits):
            yield name


def _other_files(location: Location, states: Iterable[BranchState]) -> Iterator[str]:
    """Yield all other files, but no unpublished version of a table."""
    limits = {
        pin.path: pin.version
        for state in states
        for pin in state.pins.values()
        if state.branch.owns(pin.table_branch)
    }
    for name in _files(location, ""):
        if not name.startswith(f"{MANIFEST}/") and not _is_newer(name, limits):
            yield name


def _files(location: Location, folder: str) -> Iterator[str]:
    """Yield files below a folder, relative to the root, without slots and unfinished ones.

    Keys of requests are left out as well: a server forgets them at any moment.
    """
    left_out = {RECOVERY_FOLDER, REQUESTS_FOLDER, ASIDE}
    for path in sorted(location.files.below(location.path(folder).rstrip("/"))):
        name = path.removeprefix(f"{location.root}/")
        *folders, file = name.split("/")
        # Lance gives a file its name when it is complete.
        finished = not file.startswith(".") and "#" not in file
        if finished and not left_out & set(folders) and name != PROBE:
            yield name


def _is_newer(name: str, limits: Mapping[str, int]) -> bool:
    """Whether a file holds a version of a dataset above the one wanted of it."""
    folder, file = os.path.split(name)
    dataset, last = os.path.split(folder)
    version = version_of(file) if last == "_versions" else None
    return version is not None and version > limits.get(dataset, version)
