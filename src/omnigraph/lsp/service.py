"""The texts an editor has open, and answers about them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from omnigraph.errors import BadRequestError, CompileError
from omnigraph.lang.formatting import Language, format_text
from omnigraph.lang.source import Severity, Span
from omnigraph.lsp.answers import Completions, Edit, Help, Place, Problem
from omnigraph.lsp.finding import Found, find_schema, read_disk
from omnigraph.lsp.query_completion import completions
from omnigraph.lsp.query_file import QueryFile
from omnigraph.lsp.schema_file import SchemaFile

SCHEMA_RENAME = (
    "names of a schema are not renamed here: graphs and other query files know them. Write the new "
    'name with @rename_from("{name}") behind it, so that a change of the schema keeps the rows'
)


class Document(Struct, frozen=True, kw_only=True):
    """A text an editor has open, under its address; `path` is None for one that is no file."""

    uri: str
    path: Path | None
    language: Language
    text: str
    version: int | None = None


class Service:
    """Answers questions about open documents; offsets count characters."""

    def __init__(self) -> None:
        self.roots: tuple[Path, ...] = ()
        self.schema_setting: str | None = None
        self._documents: dict[str, Document] = {}
        self._last_schema: SchemaFile | None = None

    # ---- documents ------------------------------------------------------------------------

    def put(self, document: Document) -> None:
        """Take over the text of a document that was opened or changed."""
        self._documents[document.uri] = document

    def drop(self, uri: str) -> None:
        """Forget a document that was closed."""
        self._documents.pop(uri, None)

    def get(self, uri: str) -> Document | None:
        """Return an open document."""
        return self._documents.get(uri)

    def affected_by(self, document: Document) -> Iterable[Document]:
        """Return the documents to check again when one changed: with a schema, all queries."""
        if document.language is Language.QUERY:
            return [document]
        others = self._documents.values()
        return [document, *(item for item in others if item.language is Language.QUERY)]

    def all(self) -> list[Document]:
        """Return every open document."""
        return list(self._documents.values())

    def text_of(self, path: Path) -> str | None:
        """Return the text of a file: the one that is open, else the one on disk."""
        for document in self._documents.values():
            if document.path == path:
                return document.text
        return read_disk(path)

    # ---- files ----------------------------------------------------------------------------

    def _schema_of(self, document: Document) -> tuple[SchemaFile | None, str | None]:
        """Return the schema of a query file, or why there is none."""
        schema = Found(path=None, problem="save the file to have its types checked")
        if document.path is not None:
            schema = find_schema(document.path, self.roots, self.schema_setting)
        if schema.path is None:
            return None, schema.problem
        text = self.text_of(schema.path)
        if text is None:
            return None, f"{schema.path.name} cannot be read as UTF-8 text"
        last = self._last_schema
        if last is None or (last.path, last.text) != (str(schema.path), text):
            last = self._last_schema = SchemaFile(str(schema.path), text)
        return last, None

    def _schema_file(self, document: Document) -> SchemaFile:
        return SchemaFile(str(document.path or document.uri), document.text)

    def _query_file(self, document: Document) -> QueryFile:
        schema, _ = self._schema_of(document)
        return QueryFile(str(document.path or document.uri), document.text, schema)

    # ---- answers --------------------------------------------------------------------------

    def problems(self, document: Document) -> list[Problem]:
        """Return everything to underline."""
        if document.language is Language.SCHEMA:
            return self._schema_file(document).problems
        schema, missing = self._schema_of(document)
        file = QueryFile(str(document.path or document.uri), document.text, schema)
        if missing is not None:
            return [*file.problems, _remark(missing, Severity.INFO)]
        if schema is not None and schema.has_errors:
            name = Path(schema.path).name
            remark = _remark(f"types are not checked: {name} has errors", Severity.WARNING)
            return [*file.problems, remark]
        return file.problems

    def hover(self, document: Document, offset: int) -> Help | None:
        """Return help on what stands at an offset."""
        if document.language is Language.SCHEMA:
            return self._schema_file(document).hover(offset)
        return self._query_file(document).hover(offset)

    def completions(self, document: Document, offset: int) -> Completions:
        """Return how a text may go on at an offset."""
        if document.language is Language.SCHEMA:
            return self._schema_file(document).completions(offset)
        return completions(self._query_file(document), offset)

    def definition(self, document: Document, offset: int) -> Place | None:
        """Return where what stands at an offset is introduced."""
        if document.language is Language.SCHEMA:
            return self._schema_file(document).definition(offset)
        return self._query_file(document).definition(offset)

    def renamable(self, document: Document, offset: int) -> Span:
        """Return what a rename at an offset would rename. Raises `BadRequestError`."""
        if document.language is Language.SCHEMA:
            self._refuse_schema_rename(document, offset)
        return self._query_file(document).renamable(offset)

    def rename(self, document: Document, offset: int, new_name: str) -> list[Edit]:
        """Return the edits that rename what stands at an offset. Raises `BadRequestError`."""
        if document.language is Language.SCHEMA:
            self._refuse_schema_rename(document, offset)
        return self._query_file(document).rename(offset, new_name)

    def _refuse_schema_rename(self, document: Document, offset: int) -> None:
        hover = self._schema_file(document).hover(offset)
        name = "Old" if hover is None else document.text[hover.span.start : hover.span.end]
        raise BadRequestError(SCHEMA_RENAME.format(name=name))

    def formatted(self, document: Document) -> str | None:
        """Return a text in the layout of its language, None while it has syntax errors."""
        try:
            return format_text(document.text, document.language, name=document.uri)
        except CompileError:
            return None


def _remark(text: str, severity: Severity) -> Problem:
    return Problem(span=Span(0, 0), message=text, severity=severity)
