"""Reads the fenced blocks of a page and runs them as their tags say.

    pg                    compiles, without a warning
    pg schema             the same; the gq blocks after it are compiled against it
    pg warning W01 ...    compiles, with exactly these warnings
    pg error S08 ...      fails with exactly these codes, in source order
    pg-plan [hard]        a schema, `---`, a schema, `=>` and the plan between them
    pg-fmt, gq-fmt        a schema or queries, `=>` and the same text formatted
    gq                    every query compiles
    gq error T7 ...       fails with exactly these codes, in source order
    gq explain            compiles to the plans in the text block after it
    gq lint L201 ...      compiles, with exactly these findings (`none` for one without a code)
    sh run [exit=N]       runs in a folder of the page; a text block after it is what it prints
    python run            runs in that folder too
    python more           goes on where the python block before it ended
    yaml                  can be read
    console, ebnf, json, lisp, lua, sh, text, toml   shown only

`file=NAME` on a pg, gq or yaml block also puts its text into the folder of the page. A text block
after an error block is the rendered error. An expected line that ends in ` ...` stands for any
line that starts like it.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from omnigraph.catalog import Catalog, accept_initial
from omnigraph.errors import CompileError
from omnigraph.lang import compile_queries, compile_schema, lint_queries
from omnigraph.lang.formatting import Language, format_text
from omnigraph.lang.schema_plan import plan_schema
from omnigraph.lang.source import Diagnostic
from omnigraph.plan import explain
from omnigraph.yaml_text import parse_yaml

SHOWN_ONLY = frozenset({"console", "ebnf", "json", "lisp", "lua", "sh", "text", "toml"})
TAGS = {
    "pg": {"", "schema", "warning", "error"},
    "pg-plan": {"", "hard"},
    "pg-fmt": {""},
    "gq-fmt": {""},
    "gq": {"", "error", "explain", "lint"},
    "python": {"run", "more"},
    "sh": {"", "run"},
    "yaml": {""},
    **{language: {""} for language in SHOWN_ONLY - {"sh"}},
}
CUT = " ..."

_FENCE = re.compile(r"(```+|~~~+)[ \t]*(.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block: where it opens, its tag words, its options and its text."""

    page: Path
    line: int
    language: str
    words: tuple[str, ...]
    options: dict[str, str]
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.name}:{self.line}"

    @property
    def tag(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def name(self) -> str:
        """What diagnostics call the source text."""
        return self.options.get("file", self.page.name)

    @property
    def is_known(self) -> bool:
        return self.tag in TAGS.get(self.language, set())

    @property
    def is_example(self) -> bool:
        """Whether the block is checked on its own or run, rather than only shown."""
        return self.language not in SHOWN_ONLY or self.tag == "run"


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page in order."""
    return list(_scan(page, page.read_text(encoding="utf-8").splitlines()))


def _scan(page: Path, lines: list[str]) -> Iterator[Block]:
    fence, info, start = "", "", 0
    body: list[str] = []
    for number, line in enumerate(lines, start=1):
        found = _FENCE.match(line)
        if not fence and found:
            fence, info, start, body = found.group(1), found.group(2), number, []
        elif fence and line.strip() == fence:
            language, *words = info.split() or [""]
            yield Block(
                page=page,
                line=start,
                language=language,
                words=tuple(word for word in words if "=" not in word),
                options=dict(word.split("=", 1) for word in words if "=" in word),
                text="".join(f"{row}\n" for row in body),
            )
            fence = ""
        elif fence:
            body.append(line)
    assert not fence, f"{page.name}:{start}: block is not closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A block to check, the schema in force and the text block right after it, if any."""

    block: Block
    schema: Block | None
    expected: Block | None


def examples_of(page: Path) -> list[Example]:
    """Return the blocks of a page that are checked, in order."""
    found: list[Example] = []
    schema: Block | None = None
    blocks = blocks_of(page)
    for index, block in enumerate(blocks):
        following = blocks[index + 1] if index + 1 < len(blocks) else None
        if block.language == "pg" and block.tag == "schema":
            schema = block
        expected = following if following is not None and following.language == "text" else None
        if block.language == "python" and block.tag == "more":
            last = max(n for n, item in enumerate(found) if item.block.language == "python")
            begun = found[last].block
            found[last] = replace(found[last], block=replace(begun, text=begun.text + block.text))
        elif block.is_example:
            found.append(Example(block=block, schema=schema, expected=expected))
    return found


def check(example: Example) -> None:
    """Check a block of schema or query text. Raises `AssertionError` with the difference."""
    match example.block.language:
        case "pg":
            _check_schema(example)
        case "pg-plan":
            _check_plan(example.block)
        case "pg-fmt" | "gq-fmt":
            _check_format(example.block)
        case "gq":
            _check_queries(example)
        case "yaml":
            parse_yaml(example.block.text)
        case other:
            raise AssertionError(f"{example.block.place}: no check for {other}")


def run(example: Example, folder: Path, env: Mapping[str, str] | None = None) -> None:
    """Run a block of commands in a folder. Raises `AssertionError` when it does not do as told.

    `env` is what the commands see; without it they see what the tests see.
    """
    block = example.block
    wanted = int(block.options.get("exit", "0"))
    shell = ["/bin/sh", "-eu", "-c"]
    command = [*shell, block.text] if block.language == "sh" else [sys.executable, "-c", block.text]
    bin_folder = str(Path(sys.executable).parent)
    done = subprocess.run(  # noqa: S603 - the commands are our own documentation
        command,
        cwd=folder,
        env={
            **(os.environ if env is None else env),
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    printed = done.stdout + done.stderr
    assert done.returncode == wanted, f"{block.place}: exit {done.returncode}\n{printed}"
    if example.expected is not None:
        compare(example.expected, printed)


def compare(expected: Block, actual: str) -> None:
    """Compare shown text with real text, honouring lines that are cut short."""
    wanted, found = expected.text.rstrip().split("\n"), actual.rstrip().split("\n")
    pairs = zip(wanted, found, strict=False)
    if len(wanted) == len(found) and all(_same(left, right) for left, right in pairs):
        return
    rows = difflib.unified_diff(wanted, found, "shown", "real", lineterm="")
    raise AssertionError(f"{expected.place}:\n" + "\n".join(rows))


def _same(wanted: str, found: str) -> bool:
    if wanted.endswith(CUT):
        return found.startswith(wanted.removesuffix(CUT))
    return wanted == found


def _codes(error: CompileError) -> list[str]:
    return [item.code for item in error.diagnostics if isinstance(item, Diagnostic)]


def _check_schema(example: Example) -> None:
    block = example.block
    try:
        compiled = compile_schema(block.text, name=block.name)
    except CompileError as error:
        _check_error(example, error)
        return
    assert block.tag != "error", f"{block.place}: compiles, but is marked as an error"
    wanted = list(block.words[1:]) if block.tag == "warning" else []
    assert [item.code for item in compiled.warnings] == wanted, block.place


def _check_error(example: Example, error: CompileError) -> None:
    block = example.block
    assert block.tag == "error", f"{block.place}: {error}"
    assert _codes(error) == list(block.words[1:]), f"{block.place}: {error}"
    if example.expected is not None:
        compare(example.expected, str(error))


def _catalog(example: Example) -> Catalog:
    assert example.schema is not None, f"{example.block.place}: no `pg schema` block above"
    return compile_schema(example.schema.text).catalog


def _check_queries(example: Example) -> None:
    block, catalog = example.block, _catalog(example)
    try:
        compiled = compile_queries(block.text, catalog, name=block.name)
    except CompileError as error:
        _check_error(example, error)
        return
    assert block.tag != "error", f"{block.place}: compiles, but is marked as an error"
    assert compiled, f"{block.place}: holds no query"
    if block.tag == "explain":
        assert example.expected is not None, f"{block.place}: no text block with the plan after it"
        compare(example.expected, "\n".join(explain(query.plan) for query in compiled))
    elif block.tag == "lint":
        report = lint_queries(block.text, catalog, name=block.name)
        found = [item.code or "none" for item in report.findings]
        assert found == list(block.words[1:]), block.place


def _check_plan(block: Block) -> None:
    schemas, _, plan = block.text.partition("\n=>\n")
    before, mark, after = schemas.partition("\n---\n")
    assert mark, f"{block.place}: expected `---` between two schemas"
    assert plan, f"{block.place}: expected `=>` and a plan"
    found = plan_schema(
        accept_initial(compile_schema(before).catalog, domain="DOCS"),
        compile_schema(after).catalog,
        allow_data_loss=block.tag == "hard",
    )
    shown = Block(
        page=block.page, line=block.line, language="text", words=(), options={}, text=plan
    )
    compare(shown, found.render())


def _check_format(block: Block) -> None:
    before, mark, after = block.text.partition("\n=>\n")
    assert mark, f"{block.place}: expected `=>`"
    language = Language(block.language.removesuffix("-fmt"))
    found = format_text(before, language, name=block.name)
    assert found == after, f"{block.place}:\n{found}"
    again = format_text(after, language, name=block.name)
    assert again == after, f"{block.place}: formatting it again changes it"
