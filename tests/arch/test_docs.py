"""Documentation points at things that exist and stays shorter than the code it explains."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.arch.project import PACKAGE, ROOT, files_under, line_count, lines_of, place, report

# Below this size a third of the source would not even hold the guide pages.
BUDGET_STARTS_ABOVE_SOURCE_LINES = 9000
SOURCE_LINES_PER_DOC_LINE = 3

_INLINE_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+[\"'][^)]*)?\)")
_REFERENCE_LINK = re.compile(r"^ {0,3}\[[^\]]+\]:\s+<?([^\s>]+)")
_CODE_SPAN = re.compile(r"(`+).+?\1")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def test_relative_links_resolve() -> None:
    problems = [
        f"{place(page, number)}: {target}"
        for page in _pages()
        for number, target in _links(page)
        if not _ADDRESS.match(target) and not _resolves(page, target)
    ]
    assert not problems, report("links to nothing", problems)


def test_docs_fit_their_budget() -> None:
    source_lines = sum(line_count(path) for path in files_under(PACKAGE, "*.py"))
    docs_lines = sum(line_count(path) for path in files_under(ROOT / "docs", "*.md"))
    if source_lines > BUDGET_STARTS_ABOVE_SOURCE_LINES:
        assert docs_lines * SOURCE_LINES_PER_DOC_LINE < source_lines, (
            f"docs has {docs_lines} lines for {source_lines} lines of source: shorten a page"
        )


def _pages() -> list[Path]:
    top = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return [page for page in top if page.is_file()] + list(files_under(ROOT / "docs", "*.md"))


def _prose(page: Path) -> Iterator[tuple[int, str]]:
    """Yield numbered lines outside fenced code."""
    fence = ""
    for number, line in enumerate(lines_of(page), start=1):
        mark = line.lstrip()[:3]
        if fence:
            fence = "" if mark == fence else fence
        elif mark in ("```", "~~~"):
            fence = mark
        else:
            yield number, line


def _links(page: Path) -> Iterator[tuple[int, str]]:
    for number, line in _prose(page):
        text = _CODE_SPAN.sub("", line)
        for pattern in (_INLINE_LINK, _REFERENCE_LINK):
            for match in pattern.finditer(text):
                yield number, match.group(1)


def _resolves(page: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    path = (page.parent / name).resolve() if name else page
    if not path.exists():
        return False
    return not anchor or path.suffix != ".md" or anchor in _anchors(path)


def _anchors(page: Path) -> set[str]:
    headings = (line.lstrip("#") for _, line in _prose(page) if re.match(r"#{1,6} ", line))
    return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in headings}
