"""Source text with positions, and diagnostics that point into it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from functools import cached_property
from typing import Final

from msgspec import Struct

from omnigraph.errors import CompileError, DiagnosticLike
from omnigraph.limits import DIAGNOSTICS_MAX

SHOWN_COLUMNS_MAX: Final = 160
"""Characters of a source line shown around a caret: more wraps in every terminal."""

_CUT: Final = "..."


class Span(Struct, frozen=True):
    """A half-open range of characters in a source text."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """Return the span from the start of this one to the end of the other."""
        return Span(self.start, other.end)


class SourceText(Struct, frozen=True, dict=True):
    """A text and the name people know it by (usually its path)."""

    name: str
    text: str

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        starts.extend(i + 1 for i, char in enumerate(self.text) if char == "\n")
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and column of a character offset."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Return one line (1-based) without its line ending."""
        start = self._line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : len(self.text) if end < 0 else end].rstrip("\r")


class Severity(StrEnum):
    """How bad a diagnostic is. Only errors stop a compile."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Diagnostic(Struct, frozen=True, kw_only=True):
    """One finding of a compiler, with its place in the source and what to do about it."""

    code: str
    message: str
    source: SourceText
    span: Span
    severity: Severity = Severity.ERROR
    hint: str | None = None

    @property
    def position(self) -> tuple[int, int]:
        """Line and column (1-based) where the finding starts."""
        return self.source.position(self.span.start)

    def render(self) -> str:
        """Return text for people: place, message, source line with caret, hint."""
        line, column = self.position
        text, caret = _window(self.source.line(line), column - 1)
        width = max(1, min(self.span.end - self.span.start, len(text) - caret))
        # Tabs are kept in the margin so that the caret lands under its character.
        pad = "".join("\t" if char == "\t" else " " for char in text[:caret])
        gutter = str(line)
        rows = [
            f"{self.source.name}:{line}:{column}: {self.severity}[{self.code}]: {self.message}",
            f" {gutter} | {text}",
            f" {' ' * len(gutter)} | {pad}{'^' * width}",
        ]
        if self.hint is not None:
            rows.append(f" {' ' * len(gutter)} = help: {self.hint}")
        return "\n".join(rows)

    def to_json(self) -> dict[str, object]:
        """Return the finding as plain JSON data."""
        line, column = self.position
        body: dict[str, object] = {
            "severity": str(self.severity),
            "code": self.code,
            "message": self.message,
            "file": self.source.name,
            "line": line,
            "column": column,
            "span": [self.span.start, self.span.end],
        }
        if self.hint is not None:
            body["hint"] = self.hint
        return body


def _window(text: str, caret: int) -> tuple[str, int]:
    """Cut a long line around the caret; return what to show and where the caret is in it."""
    start = max(0, min(caret - SHOWN_COLUMNS_MAX // 2, len(text) - SHOWN_COLUMNS_MAX))
    end = start + SHOWN_COLUMNS_MAX
    before, after = _CUT if start else "", _CUT if end < len(text) else ""
    # A message must be printable even when the text it shows is not.
    shown = text[start:end].encode(errors="replace").decode()
    return before + shown + after, len(before) + caret - start


class Diagnostics:
    """Collects findings about one source text, in the order they are reported.

    Each severity has its own maximum, so that warnings never hide an error; what comes after it is
    dropped.
    """

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.items: list[Diagnostic] = []
        self._counts: Counter[Severity] = Counter()

    def error(self, code: str, span: Span, message: str, *, hint: str | None = None) -> None:
        """Record an error."""
        self._add(code, span, message, hint, Severity.ERROR)

    def warning(self, code: str, span: Span, message: str, *, hint: str | None = None) -> None:
        """Record a warning."""
        self._add(code, span, message, hint, Severity.WARNING)

    def extend(self, diagnostics: Iterable[DiagnosticLike]) -> None:
        """Record findings made elsewhere, such as those of a caught `CompileError`."""
        for item in diagnostics:
            if isinstance(item, Diagnostic) and not self.is_full(item.severity):
                self._counts[item.severity] += 1
                self.items.append(item)

    def _add(
        self, code: str, span: Span, message: str, hint: str | None, severity: Severity
    ) -> None:
        diagnostic = Diagnostic(
            code=code,
            message=message,
            source=self.source,
            span=span,
            severity=severity,
            hint=hint,
        )
        self.extend((diagnostic,))

    def is_full(self, severity: Severity = Severity.ERROR) -> bool:
        """Whether nothing more of a severity is kept, so that looking for it is pointless."""
        return self._counts[severity] >= DIAGNOSTICS_MAX

    def has_errors(self) -> bool:
        """Whether an error was found."""
        return self._counts[Severity.ERROR] > 0

    @property
    def errors(self) -> list[Diagnostic]:
        """The errors among the findings, in source order."""
        errors = [item for item in self.items if item.severity is Severity.ERROR]
        return sorted(errors, key=lambda item: (item.span.start, item.span.end))

    @property
    def warnings(self) -> list[Diagnostic]:
        """The warnings among the findings, in source order."""
        warnings = [item for item in self.items if item.severity is Severity.WARNING]
        return sorted(warnings, key=lambda item: (item.span.start, item.span.end))

    def raise_errors(self) -> None:
        """Raise `CompileError` with every error found, if any was."""
        if errors := self.errors:
            raise CompileError(errors)


def did_you_mean(word: str, candidates: Iterable[str]) -> str | None:
    """Return a hint naming the closest candidate, or None when nothing else is close."""
    names = sorted(set(candidates) - {word})
    folded = {name.lower(): name for name in names}
    if (same := folded.get(word.lower())) is not None:
        return f"did you mean `{same}`?"
    import difflib

    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean `{close[0]}`?" if close else None
