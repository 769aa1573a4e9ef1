"""Lance branches and tags: branches of a table beside its main one, and versions that have names.

A branch is a dataset of its own in a folder below its parent's root, and it shares the parent's
files: making one costs the same whatever the size. Its path is all a reader needs to open it.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import quote, unquote

from msgspec import Struct

from omnigraph.errors import StorageError
from omnigraph.store.files.counters import count
from omnigraph.store.files.parallel import side_by_side
from omnigraph.store.files.protocol import Files
from omnigraph.store.tables.lance_errors import translated
from omnigraph.store.tables.strays import no_strays
from omnigraph.store.tables.table import TREE, Table, Tables

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.dataset import Tag

RETIRED = "_retired"


class BranchRef(Struct, frozen=True, kw_only=True):
    """A branch of a dataset: its name, and where it left its parent."""

    name: str
    parent: str | None
    parent_version: int
    created_at_s: int


class TagRef(Struct, frozen=True, kw_only=True):
    """A named version of a dataset or of one of its branches."""

    name: str
    branch: str | None
    version: int
    created_at_us: int


def branch_path(root: str, name: str) -> str:
    """Return the path of a branch of the dataset at `root`."""
    return f"{root}/{TREE}/{name}"


def split_branch(path: str) -> tuple[str, str | None]:
    """Return the dataset's own path and the branch, None for its main line."""
    root, separator, name = path.partition(f"/{TREE}/")
    return root, name if separator else None


def ref_file(root: str, name: str) -> str:
    """Return the file that makes a branch exist."""
    return os.path.join(root, "_refs", "branches", f"{quote(name, safe='')}.json")


def branch_exists(files: Files, root: str, name: str) -> bool:
    """Whether a branch exists and was not retired: a look at two files."""
    count("branch_probes")
    if files.calls_at_once == 1:
        return is_stored(files, root, name) and not files.exists(retired_file(root, name))
    paths = (ref_file(root, name), retired_file(root, name))
    stored, retired = side_by_side(files.exists, paths, at_once=len(paths))
    return stored and not retired


def is_stored(files: Files, root: str, name: str) -> bool:
    """Whether a branch exists or is kept for its history."""
    return files.exists(ref_file(root, name))


def retired_file(root: str, name: str) -> str:
    """Return the file that says a branch is only kept for its history."""
    return os.path.join(root, RETIRED, f"{quote(name, safe='')}.json")


def retire_branch(files: Files, root: str, name: str, note: bytes = b"") -> str:
    """Make a branch count as deleted while its versions stay; return the file that says so.

    Being there is all the file has to say; `note` is for the cleanup that looks at it later.
    """
    count("branch_deletes")
    path = retired_file(root, name)
    files.create(path, note, sync=False)
    return path


def retired_note(files: Files, root: str, name: str) -> bytes:
    """Return what was noted when a branch was retired; nothing if that cannot be told."""
    return files.read(retired_file(root, name)) or b""


def retired_branches(files: Files, root: str) -> set[str]:
    """Return the branches that are only kept for their history."""
    names = files.names(f"{root}/{RETIRED}")
    return {unquote(name.removesuffix(".json")) for name in names if name[0] != "."}


def forget_retired(files: Files, root: str, name: str) -> None:
    """Remove the mark of a retired branch that is gone."""
    files.delete(retired_file(root, name))


def branch_names(files: Files, root: str) -> list[str]:
    """Return the names of the branches of a dataset, in order: one listing, nothing read."""
    return sorted(map(named_by, ref_names(files, root)))


def ref_names(files: Files, root: str) -> list[str]:
    """Return the names of the files that make branches exist, in no order: one listing."""
    return [name for name in _listed(files, root) if name.endswith(".json") and name[0] != "."]


def _listed(files: Files, root: str) -> list[str]:
    count("branch_lists")
    return files.names(f"{root}/_refs/branches")


def named_by(ref: str) -> str:
    """Return the branch that the name of its file stands for."""
    return unquote(ref.removesuffix(".json"))


def branches_beginning(files: Files, root: str, beginnings: Iterable[str]) -> list[str]:
    """Return the branches whose names begin in one of some ways: one listing."""
    # Of thousands of names few begin so: these are looked at again.
    wanted = tuple(quote(item, safe="") for item in beginnings)
    file_names = [name for name in _listed(files, root) if name.startswith(wanted)]
    return [named_by(name) for name in file_names if name.endswith(".json")]


def read_branch(files: Files, root: str, name: str) -> BranchRef | None:
    """Return where a branch left its parent; None when there is none of this name."""
    count("branch_reads")
    path = ref_file(root, name)
    body = files.read(path)
    if body is None:
        return None
    try:
        known = json.loads(body)
        return BranchRef(
            name=name,
            parent=known["parentBranch"],
            parent_version=int(known["parentVersion"]),
            created_at_s=int(known["createAt"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{path} is damaged: {error}") from error


def list_branches(files: Files, root: str) -> list[BranchRef]:
    """Return the branches of a dataset, by name."""
    return read_branches(files, root, branch_names(files, root))


def read_branches(files: Files, root: str, names: Sequence[str]) -> list[BranchRef]:
    """Return where branches left their parents; those that are gone are left out."""
    refs = side_by_side(
        lambda name: read_branch(files, root, name), names, at_once=files.calls_at_once
    )
    return [ref for ref in refs if ref is not None]


class HasParent(Protocol):
    """Something that was made from another of its kind."""

    @property
    def parent(self) -> str | None:
        """The name of that other one."""


Child = TypeVar("Child", bound=HasParent)


def children_first(branches: Sequence[Child], *, name: Callable[[Child], str]) -> list[Child]:
    """Return branches so that each comes before the one it was made from.

    Only so can they be deleted one after the other.
    """
    return [item for wave in deletable_together(branches, name=name) for item in wave]


def deletable_together(
    branches: Sequence[Child], *, name: Callable[[Child], str]
) -> list[list[Child]]:
    """Return branches in groups, each before those its members were made from."""
    parents = {name(item): item.parent for item in branches}
    groups: dict[int, list[Child]] = {}
    for item in branches:
        depth, above = 0, item.parent
        while above is not None and above in parents and depth <= len(parents):
            depth, above = depth + 1, parents[above]
        groups.setdefault(depth, []).append(item)
    return [groups[depth] for depth in sorted(groups, reverse=True)]


def make_branch(dataset: LanceDataset, name: str, version: int) -> LanceDataset:
    """Create a branch at a version of an open dataset; return the branch's dataset."""
    count("branch_creates")
    with translated(f"creating branch {name}"):
        # Through a handle of its own: the call locks the one it is made on against every reader.
        dataset = copy.copy(dataset)
        with no_strays(dataset):
            return dataset.create_branch(name, version)


def delete_branch(files: Files, root: str, name: str) -> int:
    """Delete a branch: first the file that makes it exist, then its folder; return its bytes.

    No branch may have been made from it. Lance would read the files of all branches to make sure;
    a cleanup that deletes many of them does that once.
    """
    count("branch_deletes")
    files.delete(ref_file(root, name))
    folder = branch_path(root, name)
    freed = files.remove(folder)
    files.remove_empty(os.path.dirname(folder), below=f"{root}/{TREE}")
    return freed


def branch_files(files: Files, root: str, name: str) -> Iterator[str]:
    """Yield every file a new branch consists of, for syncing. Looked for when asked for."""
    yield from files.below(branch_path(root, name))
    yield ref_file(root, name)


def list_tags(dataset: LanceDataset) -> list[TagRef]:
    """Return the tags of a dataset, by name."""
    with translated("listing tags"):
        tags = dataset.tags.list()
    return [_tag(name, known) for name, known in sorted(tags.items())]


def _tag(name: str, known: Tag) -> TagRef:
    try:
        made_at = known["created_at"]
        if made_at is None:
            raise ValueError("it does not say when it was made")
        return TagRef(
            name=name,
            branch=known["branch"],
            version=int(known["version"]),
            created_at_us=int(made_at.timestamp() * 1e6),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StorageError(f"the file of tag '{name}' is damaged: {error}") from error


def create_tag(dataset: LanceDataset, name: str, branch: str | None, version: int) -> None:
    """Name a version for good. The name must be free."""
    with translated(f"creating tag {name}"), no_strays(dataset):
        dataset.tags.create(name, version if branch is None else (branch, version))


def delete_tag(dataset: LanceDataset, name: str) -> None:
    """Forget a tag; the version stays."""
    with translated(f"deleting tag {name}"):
        dataset.tags.delete(name)


def tag_file(root: str, name: str) -> str:
    """Return the file that makes a tag exist."""
    return os.path.join(root, "_refs", "tags", f"{quote(name, safe='')}.json")


def fork_table(tables: Tables, table: Table, name: str) -> tuple[Table, Iterator[str]]:
    """Start a branch of a table at this version; return it and its files."""
    root, _branch = split_branch(table.path)
    created = make_branch(table.dataset, name, table.version)
    forked = tables.remember(Table(branch_path(root, name), created))
    return forked, branch_files(tables.files, tables.folder(root), name)


def owner_of(fork: str) -> str:
    """Return the branch of the graph that a branch of a table was made for."""
    return fork.rpartition(".")[0]


def delete_forks(tables: Tables, root: str, owners: Collection[str]) -> int:
    """Delete the branches of a table that were made for some of the graph; return how many.

    Nothing else may have been made from them.
    """
    folder = tables.folder(root)
    names = [name for name in branch_names(tables.files, folder) if owner_of(name) in owners]
    if len(names) > 1:
        refs = read_branches(tables.files, folder, names)
        names = [ref.name for ref in children_first(refs, name=lambda ref: ref.name)]
    for name in names:
        delete_branch(tables.files, folder, name)
    return len(names)
