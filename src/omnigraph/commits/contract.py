"""The schema contract on disk: source, compiled form and the hashes that tie them together.

The head commit of main decides which schema is accepted; `_schema_history` holds every schema the
graph ever had, written before the commit that uses it. The three files at the root are a copy for
people and for checking: they are compared with the head at open, at a refresh and at the start of
every write, so a graph whose schema was touched behind its back refuses to be changed. A read uses
what was validated as long as its commit names it. A copy that merely lags behind the head is
brought up to date.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TypeVar

from omnigraph.bounded import BoundedCache
from omnigraph.catalog import AcceptedSchema, Catalog, shape_hash
from omnigraph.catalog.accepted import IR_VERSION, identities_from_json
from omnigraph.catalog.shape import Json
from omnigraph.commits.manifest_reader import ManifestReader
from omnigraph.errors import CompileError, FormatError, OmniGraphError, StorageError
from omnigraph.failpoints import Failpoint, fire
from omnigraph.limits import SCHEMA_READS_MAX, SCHEMAS_KEPT_MAX
from omnigraph.store import ControlFiles, count, side_by_side

SOURCE = "_schema.pg"
IR = "_schema.ir.json"
STATE = "__schema_state.json"
CONTRACT_FILES = (SOURCE, IR, STATE)
STAGING = (f"{SOURCE}.staging", f"{STATE}.staging")
HISTORY = "_schema_history"
STATE_FORMAT = 1

T = TypeVar("T")
_DAMAGED = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
Compiler = Callable[[str], Catalog]
Contents = tuple[bytes, ...]
Tags = tuple[str | None, ...]


def write_history(control: ControlFiles, source: str, accepted: AcceptedSchema) -> None:
    """Keep a schema for ever. It must be there before a commit names it."""
    text = json.dumps(source, ensure_ascii=False).encode()
    record = b"".join((b'{"source": ', text, b', "ir": ', accepted.ir, b"}"))
    control.create(_history_name(accepted.ir_hash()), record)


def write_contract(control: ControlFiles, source: str, accepted: AcceptedSchema) -> None:
    """Write the three files of a schema. The state comes last: it says that the others are in."""
    text, ir, state = contract_files(source, accepted)
    control.replace(SOURCE, text)
    fire(Failpoint.SCHEMA_BETWEEN_FILES)
    control.replace(IR, ir)
    fire(Failpoint.SCHEMA_BETWEEN_FILES)
    control.replace(STATE, state)


def contract_files(source: str, accepted: AcceptedSchema) -> Contents:
    """Return the content of the three files of a schema."""
    state = {
        "format_version": STATE_FORMAT,
        "shape_hash": accepted.shape_hash,
        "ir_hash": accepted.ir_hash(),
        "identity_version": IR_VERSION,
        "identity_domain": accepted.domain,
    }
    return source.encode(), accepted.ir, json.dumps(state, indent=1).encode()


def _history_name(schema_hash: str) -> str:
    return f"{HISTORY}/{schema_hash.removeprefix('sha256:')}.json"


class SchemaContract:
    """Knows the schemas of one graph. `control` excludes other processes that change them.

    Without `control` nothing is written: a lagging copy is then left as it is.
    """

    def __init__(
        self,
        files: ControlFiles,
        compiler: Compiler,
        manifest: ManifestReader,
        control: Callable[[], AbstractContextManager[object]] | None,
    ) -> None:
        self._files = files
        self._compiler = compiler
        self._manifest = manifest
        self._control = control
        self._lock = threading.Lock()
        self._bytes: Contents = ()
        self._listed: tuple[Tags, Contents] | None = None
        self._accepted: AcceptedSchema | None = None
        self._domain: str | None = None
        self._known: BoundedCache[str, tuple[AcceptedSchema, str]] = BoundedCache(SCHEMAS_KEPT_MAX)
        self.source = ""
        """Source text of the schema as last validated."""

    # ---- the accepted schema --------------------------------------------------------------

    def validate(self) -> AcceptedSchema:
        """Read the files and return the accepted schema.

        Raises `FormatError` or `StorageError` when they do not agree with the graph.
        """
        for _attempt in range(SCHEMA_READS_MAX):
            # The state first: the others are replaced before it, so they are never older.
            contents = self._read_all()
            self._check_domain(contents[2])
            named = _named_hash(contents[2])
            known = self._manifest.capture(fresh=False)
            if named == known.head.schema_hash:
                try:
                    return self._checked(contents)
                except OmniGraphError:
                    if self._settled(contents[2], named):
                        raise
                    continue
            # Either this handle or the copy is behind.
            head = self._manifest.capture().head.schema_hash
            if named == head:
                continue
            if not self._was_named(named):
                self._checked(contents)
                raise FormatError(
                    f"{STATE} names a schema this graph never had",
                    hint="restore the schema files from a backup",
                )
            if self._control is None:
                accepted, self.source = self._load(head)
                return accepted
            with self._control():
                self.bring_up_to_date()
        raise StorageError("the schema keeps changing", hint="try again")

    def _was_named(self, schema_hash: str | None) -> bool:
        """Whether a commit of the graph had a schema."""
        commits = self._manifest.history.newest_first(self._manifest.view.version)
        return any(commit.schema_hash == schema_hash for commit in commits)

    def check_graph(self) -> None:
        """Refuse to go on where another graph was made since. Raises `GraphReplacedError`."""
        state = self._files.read(STATE)
        if state is not None:
            self._check_domain(state)

    def _check_domain(self, state: bytes) -> None:
        """Refuse files of another graph that was made where this one was."""
        domain = _member(state, "identity_domain")
        if self._domain is None:
            self._domain = domain
        elif domain is not None and domain != self._domain:
            # Its manifest may be at the very version this handle wrote last: reads would not tell.
            raise self._manifest.replaced()

    def _settled(self, state: bytes, named: str | None) -> bool:
        """Whether files that do not agree will not get better by looking again."""
        head = self._manifest.capture().head.schema_hash
        return named == head and self._files.read(STATE) == state

    def bring_up_to_date(self) -> None:
        """Make the files those of the head's schema. Needs the control slot."""
        head = self._manifest.capture().head.schema_hash
        state = self._files.read(STATE)
        if state is None or _named_hash(state) != head:
            accepted, source = self._load(head)
            write_contract(self._files, source, accepted)

    def keep(self, source: str, accepted: AcceptedSchema) -> None:
        """Write a schema to the history, before a commit names it."""
        write_history(self._files, source, accepted)
        self._known.put(accepted.ir_hash(), (accepted, source))

    # ---- the schemas of the past ----------------------------------------------------------

    def at(self, schema_hash: str) -> AcceptedSchema:
        """Return the schema a commit was made under, from the history."""
        return self._load(schema_hash)[0]

    def _load(self, schema_hash: str) -> tuple[AcceptedSchema, str]:
        if (known := self._known.get(schema_hash)) is not None:
            return known
        name = _history_name(schema_hash)
        raw = self._files.read(name)
        if raw is None:
            raise StorageError(f"{name} is missing", hint="restore it from a backup")
        try:
            record = json.loads(raw)
            source = str(record["source"])
            accepted = self._accept(record["ir"], self._compiler(source))
        except (*_DAMAGED, CompileError) as error:
            raise _damaged(name, error) from error
        if accepted.ir_hash() != schema_hash:
            raise StorageError(f"{name} holds another schema", hint="restore it from a backup")
        self._known.put(schema_hash, (accepted, source))
        return accepted, source

    @staticmethod
    def _accept(ir: Json, catalog: Catalog) -> AcceptedSchema:
        return AcceptedSchema(
            domain=str(ir["domain"]), catalog=catalog, identities=identities_from_json(ir)
        )

    # ---- the three files ------------------------------------------------------------------

    def _read_all(self) -> Contents:
        """Return the three files. Where a listing is cheaper, unchanged ones are not read again.

        The listing is made anew at every call, and a tag stands for the content it came with.
        """
        listed = self._files.tags()
        if listed is None:
            contents, _tags = self._read_contents()
            count("schema_exists", len(STAGING))
            _refuse_staging(name for name in STAGING if self._files.exists(name))
            return contents
        count("schema_listings")
        _refuse_staging(name for name in STAGING if name in listed)
        shown = tuple(listed.get(name) for name in CONTRACT_FILES)
        with self._lock:
            known = self._listed
        if known is not None and None not in shown and known[0] == shown:
            return known[1]
        contents, tags = self._read_contents()
        with self._lock:
            self._listed = (tags, contents)
        return contents

    def _read_contents(self) -> tuple[Contents, Tags]:
        count("schema_text_reads", len(CONTRACT_FILES))
        state = self._read(STATE)
        source, ir = side_by_side(self._read, (SOURCE, IR), at_once=self._files.calls_at_once)
        tagged = (source, ir, state)
        return tuple(item[0] for item in tagged), tuple(item[1] for item in tagged)

    def _read(self, name: str) -> tuple[bytes, str | None]:
        tagged = self._files.read_tagged(name)
        if tagged is None:
            raise FormatError(
                f"{name} is missing", hint="restore it from a backup; the graph cannot be used"
            )
        return tagged

    def _checked(self, contents: Contents) -> AcceptedSchema:
        with self._lock:
            if contents != self._bytes or self._accepted is None:
                self._accepted = self._check(contents)
                self._bytes = contents
                self._known.put(self._accepted.ir_hash(), (self._accepted, contents[0].decode()))
            self.source = contents[0].decode()
            return self._accepted

    def _check(self, contents: Contents) -> AcceptedSchema:
        source, ir_bytes, state_bytes = contents
        known = self._known.get(_named_hash(state_bytes) or "")
        if known is not None and contents == contract_files(known[1], known[0]):
            # To the byte what the schema says that is meant.
            return known[0]
        text = _read_as(SOURCE, source.decode)
        catalog = _read_as(SOURCE, lambda: self._compiler(text))
        ir: Json = _read_as(IR, lambda: dict(json.loads(ir_bytes)))
        _read_as(IR, lambda: identities_from_json(ir))
        domain = _read_as(IR, lambda: str(ir["domain"]))
        state: Json = _read_as(STATE, lambda: dict(json.loads(state_bytes)))
        _read_as(STATE, lambda: [state[name] for name in ("shape_hash", "ir_hash")])
        if shape_hash(catalog) != state.get("shape_hash"):
            raise FormatError(
                f"{SOURCE} no longer describes the accepted schema",
                hint="undo the edit; change a schema with `schema apply`",
            )
        accepted = self._accept(ir, catalog)
        if accepted.ir_hash() != state.get("ir_hash") or accepted.ir != ir_bytes:
            raise FormatError(f"{IR} does not belong to {SOURCE}", hint="restore both files")
        if state.get("identity_domain") != domain:
            raise FormatError(f"{STATE} belongs to another graph", hint="restore the file")
        return accepted


def _read_as(name: str, read: Callable[[], T]) -> T:
    """Return what a file says. Raises `StorageError` that names it if it is damaged."""
    try:
        return read()
    except (*_DAMAGED, CompileError) as error:
        raise _damaged(name, error) from error


def _damaged(name: str, error: Exception) -> StorageError:
    return StorageError(f"{name} cannot be read: {error}", hint="restore it from a backup")


def _refuse_staging(names: Iterable[str]) -> None:
    for name in names:
        raise FormatError(
            f"{name} is there, which no schema change of this release leaves behind",
            hint="remove it if nothing else uses it",
        )


def _named_hash(state: bytes) -> str | None:
    """Return the schema a state file names, None when it names none."""
    return _member(state, "ir_hash")


def _member(state: bytes, name: str) -> str | None:
    try:
        fields = json.loads(state)
    except _DAMAGED:
        return None
    named = fields.get(name) if isinstance(fields, dict) else None
    return named if isinstance(named, str) else None
