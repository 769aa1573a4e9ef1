"""What is told to an editor, free of any protocol: offsets count characters of a text."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from omnigraph.lang.source import Severity, Span


class Problem(Struct, frozen=True, kw_only=True):
    """Something to underline."""

    span: Span
    message: str
    severity: Severity
    code: str | None = None


class Help(Struct, frozen=True, kw_only=True):
    """Markdown about what stands at a place."""

    text: str
    span: Span


class ItemKind(StrEnum):
    """What a completion stands for."""

    KEYWORD = "keyword"
    FUNCTION = "function"
    TYPE = "type"
    EDGE = "edge"
    PROPERTY = "property"
    VARIABLE = "variable"
    PARAMETER = "parameter"
    ANNOTATION = "annotation"


class Item(Struct, frozen=True, kw_only=True):
    """A way a text may go on."""

    label: str
    kind: ItemKind
    detail: str | None = None
    text: str | None = None


class Completions(Struct, frozen=True, kw_only=True):
    """The ways a text may go on; each replaces what is typed of it already."""

    span: Span
    items: tuple[Item, ...] = ()


class Place(Struct, frozen=True, kw_only=True):
    """A stretch of a file; None is the file that was asked about."""

    path: str | None
    span: Span


class Edit(Struct, frozen=True, kw_only=True):
    """A stretch of the file that was asked about, and its new text."""

    span: Span
    text: str
