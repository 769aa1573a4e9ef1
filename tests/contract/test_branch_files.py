"""A Lance branch is a file and a folder: removing both is all that deleting it takes."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.store import delete_branch, locate
from omnigraph.store.tables.branches import branch_names, branch_path, ref_file
from omnigraph.store.tables.table import Tables
from omnigraph.store.upkeep.reclaim import orphan_forks, remove_forks, stray_trees

NAMES = ("dev.01", "a/b.02", "a/c.03")
OLD_S = -1.0
"""Everything is older than this."""


@pytest.fixture
def root(tmp_path: Path) -> str:
    dataset = lance.write_dataset(pa.table({"x": [1, 2]}), str(tmp_path / "t"))
    for name in NAMES:
        branch = dataset.create_branch(name, dataset.version)
        lance.write_dataset(pa.table({"x": [3]}), branch, mode="append")
    return str(tmp_path / "t")


def listed(root: str) -> list[str]:
    return sorted(lance.dataset(root).branches.list())


def rows(root: str, name: str) -> list[int]:
    path = branch_path(root, name)
    return lance.dataset(path).to_table()["x"].to_pylist()  # type: ignore[no-any-return]


def test_a_branch_is_where_the_engine_looks_for_it(root: str) -> None:
    files = locate(root).files
    assert listed(root) == branch_names(files, root) == sorted(NAMES)
    for name in NAMES:
        assert Path(ref_file(root, name)).is_file()
        assert Path(branch_path(root, name), "_versions").is_dir()


def test_without_its_files_a_branch_is_gone_and_the_others_are_whole(root: str) -> None:
    files = locate(root).files
    assert delete_branch(files, root, "a/b.02") > 0
    assert listed(root) == ["a/c.03", "dev.01"]
    assert not Path(branch_path(root, "a/b.02")).exists()
    assert [rows(root, name) for name in listed(root)] == [[1, 2, 3], [1, 2, 3]]
    assert lance.dataset(root).to_table()["x"].to_pylist() == [1, 2]
    # The last one of a folder takes the folder along.
    delete_branch(files, root, "a/c.03")
    assert not Path(root, "tree", "a").exists()
    assert delete_branch(files, root, "a/c.03") == 0
    # The name is free: Lance makes it anew.
    lance.dataset(root).create_branch("a/c.03", 1)
    assert rows(root, "a/c.03") == [1, 2]


def test_a_line_that_another_one_rests_on_stays(root: str) -> None:
    parent = lance.dataset(branch_path(root, "dev.01"))
    lance.dataset(root).create_branch("child.04", ("dev.01", parent.version))
    tables = Tables(locate(root))

    def orphans(used: set[str], gone: set[str]) -> list[list[str]]:
        return orphan_forks(tables, "", used=used, older_than_s=3600.0, gone=gone)

    assert orphans({"child.04"}, {"dev", "a/b"}) == [[], ["a/b.02"]]
    # Without it both go, the one that rests on the other first.
    groups = orphans(set(), {"dev", "child"})
    assert groups == [["child.04"], ["dev.01"]]
    assert remove_forks(tables, "", groups) > 0
    assert listed(root) == ["a/b.02", "a/c.03"]


def test_only_folders_without_a_branch_are_strays(root: str) -> None:
    tables = Tables(locate(root))
    assert stray_trees(tables, "", older_than_s=OLD_S) == []
    for name in ("dev.01", "a/b.02"):
        Path(ref_file(root, name)).unlink()
    found = stray_trees(tables, "", older_than_s=OLD_S)
    assert [Path(path).name for path in found] == ["b.02", "dev.01"]
    assert stray_trees(tables, "", older_than_s=3600.0) == []
