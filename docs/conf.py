"""How `make docs-site` builds the pages of this folder: Sphinx, with pages in Markdown.

The site asks no other host for anything: it can be read from a disk, or served behind a wall. The
build fails on a broken link and on a page that would load something from elsewhere.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text
from sphinx.errors import ExtensionError

from omnigraph.lang import words
from omnigraph.version import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "OmniGraph"
author = "OmniGraph contributors"
copyright = author
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["openapi.json"]
root_doc = "index"
nitpicky = False
# An example may be cut short, or be of a language that no highlighter knows.
suppress_warnings = ["misc.highlighting_failure"]

myst_heading_anchors = 4
myst_enable_extensions: list[str] = []

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"OmniGraph {release}"
html_show_sphinx = False
html_copy_source = False
html_use_index = True

# A link to a folder, or, from so deep, to a file outside of `docs`.
_OUTSIDE = {
    depth: re.compile(rf"\[([^\]]+)\]\((?:(?:\.\./){{{depth + 1}}}[^)]*|[\w/.-]*/)\)")
    for depth in (0, 1)
}
# `search.html` is the search of the site, so the page about searching is there under another name.
_ABOUT_SEARCH = re.compile(r"(\]\((?:\.\./)?)search\.md")
_LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["'](?:https?:)?//"""
    r"""|<link\b(?![^>]*\brel=["'](?:canonical|search)["'])[^>]*\bhref=["'](?:https?:)?//"""
    r"""|(?:@import\s+|url\()["']?(?:https?:)?//""",
    re.IGNORECASE,
)


_KEYWORDS = "|".join(
    sorted({*words.SCHEMA_KEYWORDS, *words.QUERY_KEYWORDS, *words.QUERY_FUNCTIONS})
)


class _Lexer(RegexLexer):
    """Colours a language of OmniGraph."""

    tokens: ClassVar = {
        "root": [
            (r"//[^\n]*", Comment.Single),
            (r'"(?:\\.|[^"\\])*"', String),
            (r"\$\w+", Name.Variable),
            (r"@\w+", Name.Decorator),
            (r"\d[\w.]*", Number),
            (rf"\b(?:{_KEYWORDS})\b", Keyword),
            (r"\b[A-Z]\w*", Name.Class),
            (r"\w+", Name),
            (r"\s+", Text.Whitespace),
            (r"[{}()\[\],:.]", Punctuation),
            (r".", Operator),
        ]
    }


def _change_links(_app: Sphinx, page: str, source: list[str]) -> None:
    """Show the name of a file that is in the repository but not on the site."""
    text = _ABOUT_SEARCH.sub(r"\1text-search.md", source[0])
    source[0] = _OUTSIDE[page.count("/")].sub(r"\1", text)


def _read_as_markdown(
    _app: Sphinx, _what: str, _name: str, _object: object, _options: object, lines: list[str]
) -> None:
    """Show words in backticks as code; docstrings are written that way."""
    lines[:] = [re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``\\ ", line) for line in lines]


def _refuse_other_hosts(app: Sphinx, error: Exception | None) -> None:
    """Fail if a page loads a script, a style, a font or a picture from another host."""
    if error is not None:
        return
    found = [
        f"{path.relative_to(app.outdir)}: {match.group()[:80]}"
        for path in sorted(Path(app.outdir).rglob("*"))
        if path.suffix in {".html", ".css"}
        for match in _LOADED.finditer(path.read_text(encoding="utf-8"))
    ]
    if found:
        raise ExtensionError("pages load from other hosts:\n" + "\n".join(found))


def setup(app: Sphinx) -> dict[str, Any]:
    """Add what the pages need: two languages, and the checks above."""
    for name in ("pg", "gq", "pg-plan", "pg-fmt", "gq-fmt"):
        app.add_lexer(name, _Lexer)
    app.connect("source-read", _change_links)
    app.connect("autodoc-process-docstring", _read_as_markdown)
    app.connect("build-finished", _refuse_other_hosts)
    return {"parallel_read_safe": True}
