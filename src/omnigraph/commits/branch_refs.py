"""What the files say that make branches exist. None of them ever changes, so each is read once."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from omnigraph.commits.branch_ids import MAIN_BRANCH, collides, parse_branch_uid
from omnigraph.commits.records import MAIN
from omnigraph.store import (
    BranchRef,
    branches_beginning,
    named_by,
    read_branch,
    read_branches,
    ref_names,
)
from omnigraph.store.files.protocol import Files
from omnigraph.values.commits import BranchId, BranchInfo


def known_branch(ref: BranchRef) -> BranchInfo | None:
    """Return the graph branch a manifest branch is for; None if another program made it."""
    branch = parse_branch_uid(ref.name)
    parent = parse_branch_uid(ref.parent or MAIN)
    if branch is None or parent is None:
        return None
    return BranchInfo(
        name=branch.name,
        branch_uid=branch.uid,
        parent=parent.uid,
        forked_at=ref.parent_version,
        created_at_s=ref.created_at_s,
    )


class BranchRefs:
    """The branches of a graph that are stored, deleted ones that are kept included.

    A look costs one listing and a read of each file that was not there before. What is remembered
    is about files that exist. Safe to share between threads.
    """

    def __init__(self, files: Files, root: str) -> None:
        self._files = files
        self._root = root
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        """Listings are taken in in the order they were made: an older one lacks what is new."""
        self._infos: dict[str, BranchInfo | None] = {}
        self._children: dict[str, set[str]] = {}

    def ids(self) -> list[BranchId]:
        """Return every branch, by name, without where it was made: nothing is read."""
        return _parsed(sorted(map(named_by, ref_names(self._files, self._root))))

    def named(self, name: str) -> list[BranchId]:
        """Return every life of a name that is stored."""
        names = branches_beginning(self._files, self._root, [f"{name}."])
        return [branch for branch in _parsed(names) if branch.name == name]

    def in_the_way(self, name: str) -> list[BranchId]:
        """Return what a branch of this name cannot lie beside: the same name, or a folder of it."""
        parts = name.split("/")
        folders = ["/".join(parts[: number + 1]) for number in range(len(parts))]
        beginnings = [f"{name}/", *(f"{folder}." for folder in folders)]
        names = branches_beginning(self._files, self._root, beginnings)
        return [
            branch
            for branch in (MAIN_BRANCH, *_parsed(names))
            if collides(name, branch.name) or name.startswith(f"{branch.uid}/")
        ]

    def info(self, uid: str) -> BranchInfo | None:
        """Return where a branch was made, from its own file; None when there is none."""
        ref = read_branch(self._files, self._root, uid)
        return None if ref is None else known_branch(ref)

    def infos(self) -> list[BranchInfo]:
        """Return every branch, by name, with where it was made."""
        self._look()
        with self._lock:
            infos = [info for info in self._infos.values() if info is not None]
        return sorted(infos, key=lambda info: info.id.uid)

    def children(self, uid: str) -> list[BranchInfo]:
        """Return the branches that were made from one, by name."""
        self._look()
        with self._lock:
            infos = (self._infos[name] for name in self._children.get(uid, ()))
            children = [info for info in infos if info is not None]
        return sorted(children, key=lambda info: info.id.uid)

    def _look(self) -> None:
        with self._looking:
            stored = set(ref_names(self._files, self._root))
            with self._lock:
                new = stored - self._infos.keys()
            read = read_branches(self._files, self._root, sorted(map(named_by, new)))
            branches = {ref.name: known_branch(ref) for ref in read}
            with self._lock:
                for name in self._infos.keys() - stored:
                    self._drop(name)
                for name in new:
                    if named_by(name) in branches:
                        self._remember_branch(name, branches[named_by(name)])

    def _remember_branch(self, name: str, info: BranchInfo | None) -> None:
        self._infos[name] = info
        if info is not None:
            self._children.setdefault(info.parent or MAIN, set()).add(name)

    def _drop(self, name: str) -> None:
        info = self._infos.pop(name)
        if info is not None:
            siblings = self._children[info.parent or MAIN]
            siblings.discard(name)
            if not siblings:
                del self._children[info.parent or MAIN]


def _parsed(names: Iterable[str]) -> list[BranchId]:
    branches = map(parse_branch_uid, names)
    return [branch for branch in branches if branch is not None]
