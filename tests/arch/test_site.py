"""The site that `make docs-site` builds has every page and every public name.

Building it needs packages of its own; what can be seen without them is checked here.
"""

from __future__ import annotations

import re

import omnigraph as og
from tests.arch.project import ROOT

DOCS = ROOT / "docs"


def test_every_page_is_in_the_navigation_once() -> None:
    text = (DOCS / "index.rst").read_text(encoding="utf-8")
    listed = re.findall(r"^   ([a-z][\w/*-]*)$", text, re.MULTILINE)
    found = {path.stem for path in DOCS.iterdir() if path.suffix in {".md", ".rst"}}
    # Sphinx makes a page called search, so the one about searching has another name there.
    assert sorted(listed) == sorted((found | {"text-search", "decisions/*"}) - {"index", "search"})


def test_the_reference_has_every_public_name_once() -> None:
    text = (DOCS / "api.rst").read_text(encoding="utf-8")
    listed = re.findall(
        r"^\.\. auto(?:function|class|exception|data):: omnigraph\.(\w+)$", text, re.M
    )
    assert sorted(listed) == sorted(og.__all__)


def test_the_readme_links_every_guide() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [
        page.name for page in sorted(DOCS.glob("*.md")) if f"(docs/{page.name})" not in text
    ] == []
