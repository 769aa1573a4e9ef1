"""The schema contract on disk: source, compiled form and the hashes that tie them together.

It is checked at open and at the start of every write, never cached across writes, so a graph
whose schema was touched behind its back refuses to be written.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

from omnigraph.catalog import AcceptedSchema, Catalog, shape_hash
from omnigraph.catalog.accepted import IR_VERSION, identities_from_json
from omnigraph.errors import FormatError, StorageError
from omnigraph.store import ControlFiles, count

SOURCE = "_schema.pg"
IR = "_schema.ir.json"
STATE = "__schema_state.json"
CONTRACT_FILES = (SOURCE, IR, STATE)
STAGING = (f"{SOURCE}.staging", f"{STATE}.staging")
HISTORY = "_schema_history"
STATE_FORMAT = 1

Compiler = Callable[[str], Catalog]


def write_contract(control: ControlFiles, source: str, accepted: AcceptedSchema) -> None:
    """Write the three files and the immutable history entry of a schema."""
    state = {
        "format_version": STATE_FORMAT,
        "shape_hash": accepted.shape_hash,
        "ir_hash": accepted.ir_hash(),
        "identity_version": IR_VERSION,
        "identity_domain": accepted.domain,
    }
    digest = accepted.ir_hash().removeprefix("sha256:")
    record = json.dumps({"source": source, "ir": accepted.ir_json()}, ensure_ascii=False)
    control.create(f"{HISTORY}/{digest}.json", record.encode())
    control.replace(SOURCE, source.encode())
    control.replace(IR, accepted.ir_text().encode())
    control.replace(STATE, json.dumps(state, indent=1).encode())


class SchemaContract:
    """Reads and checks the contract of one graph."""

    def __init__(self, control: ControlFiles, compiler: Compiler) -> None:
        self._control = control
        self._compiler = compiler
        self._lock = threading.Lock()
        self._bytes: tuple[bytes, ...] = ()
        self._accepted: AcceptedSchema | None = None

    def validate(self) -> AcceptedSchema:
        """Read the files and return the accepted schema they agree on.

        Raises `FormatError` when they do not agree or a schema change was interrupted.
        """
        count("schema_text_reads", len(CONTRACT_FILES))
        found = tuple(self._read(name) for name in CONTRACT_FILES)
        count("schema_exists", len(STAGING))
        for name in STAGING:
            if self._control.exists(name):
                raise FormatError(
                    f"a schema change was interrupted: {name} is still there",
                    hint="open the graph read-write to finish it",
                )
        with self._lock:
            if found != self._bytes or self._accepted is None:
                self._accepted = self._check(found)
                self._bytes = found
            return self._accepted

    @property
    def source(self) -> str:
        """Source text of the schema as last validated."""
        return self._bytes[0].decode() if self._bytes else ""

    def _read(self, name: str) -> bytes:
        found = self._control.read(name)
        if found is None:
            raise FormatError(
                f"{name} is missing", hint="restore it from a backup; the graph cannot be used"
            )
        return found

    def _check(self, found: tuple[bytes, ...]) -> AcceptedSchema:
        source, ir_bytes, state_bytes = found
        try:
            ir = json.loads(ir_bytes)
            state = json.loads(state_bytes)
            if not isinstance(state, dict):
                raise TypeError(f"{STATE} holds no object")
            identities = identities_from_json(ir)
            text = source.decode()
            domain = str(ir["domain"])
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(f"the schema files cannot be read: {error}") from error
        catalog = self._compiler(text)
        if shape_hash(catalog) != state.get("shape_hash"):
            raise FormatError(
                f"{SOURCE} no longer describes the accepted schema",
                hint="undo the edit; change a schema with `schema apply`",
            )
        accepted = AcceptedSchema(domain=domain, catalog=catalog, identities=identities)
        if accepted.ir_hash() != state.get("ir_hash") or accepted.ir_text().encode() != ir_bytes:
            raise FormatError(f"{IR} does not belong to {SOURCE}", hint="restore both files")
        if state.get("identity_domain") != domain:
            raise FormatError(f"{STATE} belongs to another graph", hint="restore the file")
        return accepted
