r"""Reads golden fixtures: a source line, then the line that says what must come of it.

A file `tests/golden/<language>/<topic>.txt` is a list of such pairs. Lines that start with `#` are
titles, blank lines separate. In a source line `\n` stands for a newline and `\\n` for a backslash
and an n; everything else is itself. A first line `#schema <name>.pg` names the schema, from
`tests/golden/schemas`, that the cases of the file are compiled against.

An expectation is written by hand from the specification, never copied from what the program said.
`pending.txt` holds the cases the program still gets wrong; it is not run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omnigraph.lang.source import Diagnostic

FOLDER = Path(__file__).parent
PENDING = "pending.txt"

_ARROW = "=> "
_SCHEMA = "#schema "
_NEWLINE = re.compile(r"\\?\\n")
_DIAGNOSTIC = re.compile(r"(\w+) (\d+):(\d+)(?: (.*?))??(?: ~ (.+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One pair; `line` is where its source stands, `schema` the file named by the header."""

    file: str
    line: int
    source: str
    expectation: str
    schema: str | None = None

    @property
    def id(self) -> str:
        return f"{self.file}:{self.line}"


def load_cases(language: str) -> list[Case]:
    """Read every case of a language, by file name and line."""
    paths = sorted((FOLDER / language).glob("*.txt"))
    return [case for path in paths if path.name != PENDING for case in read_cases(path)]


def read_cases(path: Path) -> list[Case]:
    """Read one file. Raises `ValueError` when sources and expectations do not alternate."""
    lines = path.read_text(encoding="utf-8").split("\n")
    schema = lines[0].removeprefix(_SCHEMA).strip() if lines[0].startswith(_SCHEMA) else None
    content = [(n, text) for n, text in enumerate(lines, 1) if text and not text.startswith("#")]
    cases: list[Case] = []
    for (number, source), (_, expected) in zip(content[::2], content[1::2], strict=False):
        if source.startswith(_ARROW) or not expected.startswith(_ARROW):
            raise ValueError(f"{path.name}:{number}: not a source line and its expectation")
        text = _NEWLINE.sub(lambda found: "\n" if found.group() == r"\n" else r"\n", source)
        expectation = expected.removeprefix(_ARROW)
        cases.append(
            Case(file=path.name, line=number, source=text, expectation=expectation, schema=schema)
        )
    if len(content) % 2:
        raise ValueError(f"{path.name}:{content[-1][0]}: source without an expectation")
    return cases


def read_schema(case: Case) -> str:
    """Return the text of the schema that a case is compiled against."""
    if case.schema is None:
        raise ValueError(f"{case.file} names no schema")
    return (FOLDER / "schemas" / case.schema).read_text(encoding="utf-8")


def assert_diagnostics(found: Sequence[Diagnostic], expected: str) -> None:
    """Compare findings with `CODE line:column fragment ~ hint fragment | ...`, one for one.

    Fragments may be left out; `~ -` says that there is no hint.
    """
    shown = "\n".join(_show(item) for item in found) or "nothing was reported"
    wanted = expected.split(" | ")
    assert len(found) == len(wanted), f"expected {len(wanted)} diagnostics:\n{shown}"
    for item, text in zip(found, wanted, strict=True):
        parsed = _DIAGNOSTIC.fullmatch(text)
        assert parsed is not None, f"not an expectation: {text}"
        code, line, column, fragment, hint = parsed.groups()
        assert (item.code, item.position) == (code, (int(line), int(column))), shown
        assert fragment is None or fragment in item.message, shown
        if hint == "-":
            assert item.hint is None, shown
        elif hint is not None:
            assert item.hint is not None, shown
            assert hint in item.hint, shown


def _show(item: Diagnostic) -> str:
    line, column = item.position
    hint = "" if item.hint is None else f" ~ {item.hint}"
    return f"{item.code} {line}:{column} {item.message}{hint}"
