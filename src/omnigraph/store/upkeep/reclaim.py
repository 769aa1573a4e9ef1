"""Removes versions that no reader needs any more, by exact list, and the files only they used."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from omnigraph.clock import now_s
from omnigraph.limits import REMOVALS_AT_ONCE
from omnigraph.store.files.counters import count
from omnigraph.store.files.parallel import side_by_side
from omnigraph.store.files.protocol import Files
from omnigraph.store.tables.branches import (
    branch_names,
    deletable_together,
    delete_branch,
    owner_of,
    read_branches,
)
from omnigraph.store.tables.lance_errors import translated
from omnigraph.store.tables.removals import note_removal
from omnigraph.store.tables.table import TREE, Tables
from omnigraph.store.tables.torn_versions import (
    ASIDE,
    is_beside,
    newest_version,
    version_of,
    versions_on_disk,
)


class Reclaimed(Struct, frozen=True, kw_only=True):
    """What was, or would be, removed."""

    versions: int = 0
    bytes: int = 0


def stored_versions(tables: Tables, path: str) -> list[int]:
    """Return every version a dataset still has, oldest first."""
    return sorted(versions_on_disk(tables.files, tables.folder(path)))


def versions_and_beside(tables: Tables, path: str) -> tuple[list[int], list[str]]:
    """Return every version a dataset has, oldest first, and the files of versions beside them."""
    count("version_lists")
    folder = f"{tables.folder(path)}/_versions"
    names = tables.files.names(folder)
    versions = sorted(number for name in names if (number := version_of(name)) is not None)
    return versions, [f"{folder}/{name}" for name in names if is_beside(name)]


def version_times_us(tables: Tables, path: str) -> dict[int, int]:
    """Return when each version a dataset still has was made, in microseconds."""
    folder = f"{tables.folder(path)}/_versions"
    times_us: dict[int, int] = {}
    for entry in tables.files.entries(folder):
        version = version_of(entry.path.rpartition("/")[2])
        if version is not None:
            times_us[version] = int(entry.changed_at_s * 1e6)
    return times_us


def remove_versions(
    tables: Tables, path: str, versions: Sequence[int], *, dry_run: bool
) -> Reclaimed:
    """Remove exactly these versions. Branch points, tagged versions and the newest one stay.

    Files of writes that are under way are left alone: they belong to no version yet.
    """
    if not versions:
        return Reclaimed()
    count("reclaims")
    with translated(f"cleaning up {path}"):
        dataset: Any = tables.open_latest(path).dataset
        run = dataset.explain_cleanup_old_versions if dry_run else dataset.cleanup_old_versions
        report = run(versions=list(versions), error_if_tagged_old_versions=False)
    stats = report.stats if dry_run else report
    return Reclaimed(versions=int(stats.old_versions), bytes=int(stats.bytes_removed))


def orphan_forks(
    tables: Tables, root: str, *, used: set[str], older_than_s: float, gone: Collection[str]
) -> list[list[str]]:
    """Return the branches of a table that no branch of the graph names and no writer is making.

    Those made for a branch in `gone` belonged to a branch that is not there any more. They come in
    groups, each before those its members were made from; none that another rests on is among them.
    """
    folder = tables.folder(root)
    names = branch_names(tables.files, folder)
    if used.issuperset(names):
        return []
    now = now_s()
    groups: list[list[str]] = []
    held: set[str | None] = set()
    refs = read_branches(tables.files, folder, names)
    for wave in deletable_together(refs, name=lambda ref: ref.name):
        removed: list[str] = []
        for ref in wave:
            is_over = now - ref.created_at_s > older_than_s or owner_of(ref.name) in gone
            if is_over and ref.name not in used and ref.name not in held:
                removed.append(ref.name)
            else:
                held.add(ref.parent)
        groups.append(removed)
    return groups


def remove_forks(tables: Tables, root: str, groups: Iterable[Sequence[str]]) -> int:
    """Delete branches of a table, group after group; return the bytes they held."""
    folder = tables.folder(root)

    def remove(name: str) -> int:
        return delete_branch(tables.files, folder, name)

    return sum(sum(side_by_side(remove, names, at_once=REMOVALS_AT_ONCE)) for names in groups)


def stray_trees(tables: Tables, root: str, *, older_than_s: float) -> list[str]:
    """Return folders of branches whose ref is gone, or never came: an interrupted step left them.

    A tree is recognised by its versions folder; names may hold slashes. Folders of branches that
    exist are not looked into.
    """
    folder = tables.folder(root)
    known = set(branch_names(tables.files, folder))
    return sorted(
        path
        for name in _unknown_folders(tables.files, f"{folder}/{TREE}", known)
        for path, changed_at_s in datasets_below(tables.files, f"{folder}/{TREE}/{name}").items()
        if now_s() - changed_at_s > older_than_s
    )


def _unknown_folders(files: Files, trees: str, known: Collection[str]) -> Iterator[str]:
    """Yield the topmost folders that neither are branches nor hold any."""
    above = {name[:place] for name in known for place in slashes(name)}
    waiting = [""]
    while waiting:
        begin = waiting.pop()
        for item in files.folders(f"{trees}/{begin}".rstrip("/")):
            name = f"{begin}{item}"
            if name in above and name not in known:
                waiting.append(f"{name}/")
            elif name not in known:
                yield name


def slashes(name: str) -> list[int]:
    """Return where the parts of a name end."""
    return [place for place, letter in enumerate(name) if letter == "/"]


def datasets_below(files: Files, folder: str) -> dict[str, float]:
    """Return the datasets below a folder, with the time of their last change (seconds)."""
    datasets: dict[str, float] = {}
    for item in files.entries(folder):
        path, separator, _name = f"{item.path}/".rpartition("/_versions/")
        if separator:
            datasets[path] = max(datasets.get(path, 0.0), item.changed_at_s)
    return datasets


def tree_bytes(tables: Tables, folder: str) -> int:
    """Return the size of everything below a folder."""
    return sum(item.size_bytes for item in tables.files.entries(folder))


def remove_tree(tables: Tables, folder: str) -> int:
    """Remove a folder; return the bytes it held."""
    return tables.files.remove(folder)


def erase_table(tables: Tables, path: str) -> int:
    """Remove everything of a table but its place: a reader is told that it was reclaimed."""
    folder = tables.folder(path)
    tables.forget(path, below=newest_version(tables.files, folder) + 1)
    freed = tables.files.remove(folder)
    tables.files.make_folder(f"{folder}/_versions")
    return freed


def erase_history(tables: Tables, path: str, *, below: int) -> int:
    """Remove every version of a table below one; return the bytes only they used."""
    tables.forget(path, below=below)
    old = [version for version in stored_versions(tables, path) if version < below]
    if old:
        note_removal(tables.files, tables.folder(path), old)
    return remove_versions(tables, path, old, dry_run=False).bytes


def torn_folder(tables: Tables, path: str) -> str:
    """Return where version files that a power loss tore were set aside."""
    return os.path.join(tables.folder(path), ASIDE)
