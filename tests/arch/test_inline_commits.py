"""Calls that make Lance commit by itself are few, known and explained."""

from __future__ import annotations

import ast
import re

from tests.arch.project import PACKAGE, ROOT, files_under, tree_of

# Every method of the library's dataset, its parts and its builders that commits on its own.
COMMITTING = {
    "add_bases",
    "add_columns",
    "alter_columns",
    "cleanup_old_versions",
    "compact_files",
    "create_branch",
    "create_index",
    "create_scalar_index",
    "delete_config_keys",
    "drop_columns",
    "drop_index",
    "optimize_indices",
    "replace_field_metadata",
    "replace_schema_metadata",
    "restore",
    "update_config",
    "write_dataset",
}
ON_PARTS = {"branches.delete", "tags.create", "tags.delete", "tags.update", "Compaction.commit"}
ROW = re.compile(r"\| `(?P<call>[\w.]+)` \| `(?P<place>[\w/]+\.py)` \|")


def calls() -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for path in files_under(PACKAGE / "store", "*.py"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Attribute):
                text = ast.unparse(node)
                tail = ".".join(text.split(".")[-2:])
                if (node.attr in COMMITTING and "explain" not in text) or tail in ON_PARTS:
                    found.add((text, path.relative_to(PACKAGE).as_posix()))
    return found


def test_every_inline_commit_is_in_the_operators_table() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    listed = {(row["call"], row["place"]) for row in ROW.finditer(page)}
    assert calls() == listed
