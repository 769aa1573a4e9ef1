"""Groups of fragments whose content outlives a table version.

Most of a table's fragments are the same in its next version. What was computed from them can be
kept by the group's key; `signature` also names the deletions, which can grow from one version to
the next.
"""

from __future__ import annotations

from lance.fragment import LanceFragment
from msgspec import Struct

from omnigraph.store.tables.table import Table, file_name


class FragmentGroup(Struct, frozen=True, kw_only=True):
    """Fragments that follow each other in a table version."""

    key: str
    signature: str
    fragments: list[LanceFragment]


def fragment_groups(table: Table, *, rows_min: int) -> list[FragmentGroup]:
    """Split a version's fragments, in order: large ones alone, small neighbours together."""
    groups: list[list[LanceFragment]] = []
    open_group = False
    for fragment in table.fragments():
        large = fragment.physical_rows >= rows_min
        if large or not open_group:
            groups.append([fragment])
        else:
            groups[-1].append(fragment)
        open_group = not large
    return [
        FragmentGroup(
            key="|".join(_files(fragment) for fragment in group),
            signature="|".join(f"{_files(f)}:{f.deletion_file() or ''}" for f in group),
            fragments=group,
        )
        for group in groups
    ]


def _files(fragment: LanceFragment) -> str:
    names = "+".join(file_name(item) for item in fragment.data_files())
    return f"{fragment.fragment_id}:{names}"
