"""Stored queries: queries with a name that a server or an agent can call."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from omnigraph.catalog import PropertyType, Scalar
from omnigraph.lang.queries import parse_file
from omnigraph.values.answers import QueryEntry, QueryParam

_KINDS = {
    Scalar.STRING: "string",
    Scalar.BLOB: "blob",
    Scalar.BOOL: "bool",
    Scalar.I32: "int",
    Scalar.U32: "int",
    Scalar.I64: "bigint",
    Scalar.U64: "bigint",
    Scalar.F32: "float",
    Scalar.F64: "float",
    Scalar.DATE: "date",
    Scalar.DATETIME: "datetime",
    Scalar.VECTOR: "vector",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryParameter:
    """A parameter of a stored query."""

    name: str
    type: PropertyType

    @property
    def kind(self) -> str:
        """What travels for it: see `QueryParam`."""
        return "list" if self.type.is_list else _KINDS[self.type.scalar]

    @property
    def entry(self) -> QueryParam:
        """What the query catalog tells of it."""
        return QueryParam(
            name=self.name,
            kind=self.kind,
            item_kind=_KINDS[self.type.scalar] if self.type.is_list else None,
            vector_dim=self.type.vector_dim if self.type.scalar is Scalar.VECTOR else None,
            nullable=self.type.nullable,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredQuery:
    """One query by name. `source` is the text of this query alone; run it with `name`."""

    name: str
    source: str
    mutation: bool
    parameters: tuple[QueryParameter, ...] = ()
    description: str | None = None
    instruction: str | None = None

    @property
    def tool_name(self) -> str:
        """What agents call it."""
        return self.name

    @property
    def digest(self) -> str:
        """Identifies the text."""
        return digest_of(self.source)

    def to_json(self) -> dict[str, object]:
        """Return the entry of the query catalog."""
        return QueryEntry(
            name=self.name,
            tool_name=self.tool_name,
            mutation=self.mutation,
            description=self.description,
            instruction=self.instruction,
            params=tuple(item.entry for item in self.parameters),
        ).to_json()


def digest_of(text: str) -> str:
    """Return what identifies a text: its SHA-256, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def stored_queries(text: str, *, name: str = "<query>") -> list[StoredQuery]:
    """Return every query of a `.gq` text. Raises `CompileError` for text that does not parse.

    Types are checked against a schema by the caller, who has one.
    """
    _source, nodes = parse_file(text, name=name)
    return [
        StoredQuery(
            name=node.name,
            source=text[node.span.start : node.span.end],
            mutation=node.read is None,
            parameters=tuple(QueryParameter(name=p.name, type=p.type) for p in node.parameters),
            description=node.description,
            instruction=node.instruction,
        )
        for node in nodes
    ]
