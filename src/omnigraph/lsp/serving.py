"""Speaks the Language Server Protocol for a service. Importing it needs the package pygls."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Protocol

from lsprotocol import types
from pygls import uris
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from omnigraph.errors import BadRequestError
from omnigraph.lang.formatting import Language
from omnigraph.lang.source import Severity, Span
from omnigraph.lsp.answers import Item, ItemKind, Place, Problem
from omnigraph.lsp.positions import Positions
from omnigraph.lsp.service import Document, Service
from omnigraph.version import __version__

TRIGGERS: Final = [".", "$", "@", ":"]
"""Characters after which an editor asks for completions by itself."""

REQUEST_FAILED: Final = -32803
"""The protocol's code for a request that is right but cannot be done."""

_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFO: types.DiagnosticSeverity.Information,
}
_KINDS = {
    ItemKind.KEYWORD: types.CompletionItemKind.Keyword,
    ItemKind.FUNCTION: types.CompletionItemKind.Function,
    ItemKind.TYPE: types.CompletionItemKind.Class,
    ItemKind.EDGE: types.CompletionItemKind.Method,
    ItemKind.PROPERTY: types.CompletionItemKind.Property,
    ItemKind.VARIABLE: types.CompletionItemKind.Variable,
    ItemKind.PARAMETER: types.CompletionItemKind.Variable,
    ItemKind.ANNOTATION: types.CompletionItemKind.Property,
}


class _Asking(Protocol):
    """A request about a place in a document."""

    text_document: types.TextDocumentIdentifier
    position: types.Position


class Server(LanguageServer):
    """The protocol's side of a service."""

    def __init__(self) -> None:
        super().__init__(
            "omnigraph",
            __version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Full,
        )
        self.service = Service()

    def document(self, uri: str) -> Document:
        """Return an open document. Raises the protocol's error for one that is not open."""
        document = self.service.get(uri)
        if document is None:
            raise JsonRpcException(f"{uri} is not an open .pg or .gq file", REQUEST_FAILED)
        return document

    def positions(self, text: str) -> Positions:
        """Return what converts places of a text."""
        return Positions(text, self.workspace.position_encoding or "utf-16")

    def range(self, text: str, span: Span) -> types.Range:
        """Return a span as the protocol writes it."""
        start, end = self.positions(text).range(span)
        return types.Range(start=types.Position(*start), end=types.Position(*end))

    def asked(self, params: _Asking) -> tuple[Document, int]:
        """Return the document and offset a request is about."""
        document = self.document(params.text_document.uri)
        place = params.position
        return document, self.positions(document.text).offset(place.line, place.character)

    def put(self, uri: str, text: str, version: int | None, language_id: str | None = None) -> None:
        """Take over a text and publish what is wrong with it and what depends on it."""
        language = _language(uri, language_id)
        known = self.service.get(uri)
        if known is not None:
            language = known.language
        if language is None:
            return
        document = Document(uri=uri, path=_path(uri), language=language, text=text, version=version)
        self.service.put(document)
        for item in self.service.affected_by(document):
            self.publish(item)

    def publish(self, document: Document) -> None:
        """Send an editor what to underline."""
        diagnostics = [self._diagnostic(document, item) for item in self.service.problems(document)]
        self.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(
                uri=document.uri, diagnostics=diagnostics, version=document.version
            )
        )

    def publish_all(self) -> None:
        """Check everything again."""
        for document in self.service.all():
            self.publish(document)

    def _diagnostic(self, document: Document, item: Problem) -> types.Diagnostic:
        return types.Diagnostic(
            range=self.range(document.text, item.span),
            message=item.message,
            severity=_SEVERITIES[item.severity],
            code=item.code,
            source="omnigraph",
        )

    def take_settings(self, settings: object) -> None:
        """Take over what an editor is set to: `{"schema": ...}`, alone or under `omnigraph`."""
        inner = settings.get("omnigraph", settings) if isinstance(settings, dict) else {}
        schema = inner.get("schema") if isinstance(inner, dict) else None
        self.service.schema_setting = schema if isinstance(schema, str) and schema else None


def _language(uri: str, language_id: str | None) -> Language | None:
    suffix = Path(uri).suffix.lower()
    by_name = next((item for item in Language if item.suffix == suffix), None)
    by_id = {"omnigraph-schema": Language.SCHEMA, "omnigraph-query": Language.QUERY}
    return by_name or by_id.get(language_id or "")


def _path(uri: str) -> Path | None:
    path = uris.to_fs_path(uri) if uri.startswith("file:") else None
    return Path(path) if path else None


def make_server() -> Server:
    """Return a server that answers every request below."""
    server = Server()
    _follow_documents(server)
    _follow_workspace(server)
    _answer_questions(server)
    _answer_changes(server)
    return server


def _follow_documents(server: Server) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        opened = params.text_document
        server.put(opened.uri, opened.text, opened.version, opened.language_id)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        changed = params.text_document
        text = server.workspace.get_text_document(changed.uri).source
        server.put(changed.uri, text, changed.version)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.service.drop(uri)
        server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri=uri, diagnostics=[])
        )
        server.publish_all()


def _follow_workspace(server: Server) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        folders = [folder.uri for folder in params.workspace_folders or ()]
        if not folders and params.root_uri is not None:
            folders = [params.root_uri]
        server.service.roots = tuple(path for uri in folders if (path := _path(uri)) is not None)
        server.take_settings(params.initialization_options)

    @server.feature(types.INITIALIZED)
    def initialized(_params: types.InitializedParams) -> None:
        workspace = server.client_capabilities.workspace
        watching = None if workspace is None else workspace.did_change_watched_files
        if watching is None or not watching.dynamic_registration:
            return
        watchers = [types.FileSystemWatcher(glob_pattern="**/*.pg")]
        options = types.DidChangeWatchedFilesRegistrationOptions(watchers=watchers)
        method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
        wanted = types.Registration(id="schemas", method=method, register_options=options)
        server.client_register_capability(types.RegistrationParams(registrations=[wanted]))

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def did_change_configuration(params: types.DidChangeConfigurationParams) -> None:
        server.take_settings(params.settings)
        server.publish_all()

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def did_change_watched_files(_params: types.DidChangeWatchedFilesParams) -> None:
        server.publish_all()


def _answer_questions(server: Server) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        document, offset = server.asked(params)
        description = server.service.hover(document, offset)
        if description is None:
            return None
        return types.Hover(
            contents=types.MarkupContent(kind=types.MarkupKind.Markdown, value=description.text),
            range=server.range(document.text, description.span),
        )

    @server.feature(
        types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=TRIGGERS)
    )
    def completion(params: types.CompletionParams) -> types.CompletionList:
        document, offset = server.asked(params)
        completions = server.service.completions(document, offset)
        place = server.range(document.text, completions.span)
        items = [_completion(item, place, n) for n, item in enumerate(completions.items)]
        return types.CompletionList(is_incomplete=False, items=items)

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def definition(params: types.DefinitionParams) -> types.Location | None:
        document, offset = server.asked(params)
        place = server.service.definition(document, offset)
        return None if place is None else _location(server, document, place)


def _completion(item: Item, place: types.Range, number: int) -> types.CompletionItem:
    return types.CompletionItem(
        label=item.label,
        kind=_KINDS[item.kind],
        detail=item.detail,
        # Editors sort by the label otherwise.
        sort_text=f"{number:04}",
        filter_text=item.label,
        text_edit=types.TextEdit(range=place, new_text=item.text or item.label),
    )


def _location(server: Server, document: Document, place: Place) -> types.Location | None:
    if place.path is None or place.path == str(document.path or document.uri):
        return types.Location(uri=document.uri, range=server.range(document.text, place.span))
    text = server.service.text_of(Path(place.path))
    uri = uris.from_fs_path(place.path)
    if text is None or uri is None:
        return None
    return types.Location(uri=uri, range=server.range(text, place.span))


def _answer_changes(server: Server) -> None:
    @server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)
    def prepare_rename(params: types.PrepareRenameParams) -> types.Range:
        document, offset = server.asked(params)
        try:
            span = server.service.renamable(document, offset)
        except BadRequestError as error:
            raise JsonRpcException(error.message, REQUEST_FAILED) from error
        return server.range(document.text, span)

    @server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
    def rename(params: types.RenameParams) -> types.WorkspaceEdit:
        document, offset = server.asked(params)
        try:
            edits = server.service.rename(document, offset, params.new_name)
        except BadRequestError as error:
            raise JsonRpcException(error.message, REQUEST_FAILED) from error
        changes = [
            types.TextEdit(range=server.range(document.text, item.span), new_text=item.text)
            for item in edits
        ]
        return types.WorkspaceEdit(changes={document.uri: changes})

    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    def formatting(params: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
        document = server.document(params.text_document.uri)
        text = server.service.formatted(document)
        if text is None or text == document.text:
            return None
        whole = server.range(document.text, Span(0, len(document.text)))
        return [types.TextEdit(range=whole, new_text=text)]


def run_stdio() -> None:
    """Serve one editor over standard input and output, until it ends."""
    # The server closes what it writes to, and the end of the program flushes standard output.
    with os.fdopen(os.dup(0), "rb") as reads, os.fdopen(os.dup(1), "wb") as writes:
        make_server().start_io(reads, writes)
