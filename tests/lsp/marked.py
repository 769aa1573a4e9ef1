"""Texts with a cursor in them, written as `|`."""

from __future__ import annotations

from omnigraph.lsp.query_completion import completions
from omnigraph.lsp.query_file import QueryFile
from omnigraph.lsp.schema_file import SchemaFile

SCHEMA_TEXT = """\
interface Named {
    name: String @description("what people call it")
}

node Person implements Named @description("somebody") {
    slug: String @key
    born: Date?
}

node Company {
    slug: String @key
}

edge Knows: Person -> Person {
    since: Date?
}
edge WorksAt: Person -> Company @description("a job")
"""
SCHEMA = SchemaFile("people.pg", SCHEMA_TEXT)


def cut(text: str) -> tuple[str, int]:
    """Return a text without its cursor, and where that stood."""
    before, mark, after = text.partition("|")
    assert mark, "there is no cursor"
    return before + after, len(before)


def query_file(text: str) -> tuple[QueryFile, int]:
    plain, offset = cut(text)
    return QueryFile("q.gq", plain, SCHEMA), offset


def offered(text: str) -> list[str]:
    file, offset = query_file(text)
    return [item.label for item in completions(file, offset).items]


def offered_by_schema(text: str) -> list[str]:
    plain, offset = cut(text)
    return [item.label for item in SchemaFile("s.pg", plain).completions(offset).items]
