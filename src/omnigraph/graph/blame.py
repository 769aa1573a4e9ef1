"""Finds the commit that last changed an entity."""

from __future__ import annotations

from omnigraph.commits import GraphCommit
from omnigraph.commits.contract import SchemaContract
from omnigraph.commits.open_branches import OpenBranch
from omnigraph.errors import StorageError, StorageFailureKind
from omnigraph.graph.permits import Reachable
from omnigraph.ops.export import export_rows
from omnigraph.store import Pin, Tables, quoted

_CHANGED_AT = "_row_last_updated_at_version"

Image = dict[str, object]


class Blame:
    """Looks back along the published versions of one table.

    Lance knows of every row a version it has not changed since. So of the versions in between
    none is looked at; only where a row was touched, it is compared with what it was before. Of a
    row that is gone nothing is known, and versions are looked at one by one.
    """

    def __init__(
        self, lines: Reachable, line: OpenBranch, tables: Tables, contract: SchemaContract
    ) -> None:
        self._lines = lines
        self._line = line
        self._tables = tables
        self._contract = contract
        self._history = line.manifest.history

    def last_change(self, pin: Pin, entity_id: str) -> GraphCommit | None:
        """Return the commit that last changed an entity; None when it never existed.

        `pin` is the newest published version of its table.
        """
        history = self._history
        image = self._image(pin, entity_id, self._line.manifest.view.version)
        while True:
            touched = pin
            if image is not None:
                touched = history.first_pin(pin, self._changed_at(pin, entity_id))
                if self._schema_moved(touched, pin):
                    touched = self._changed_since(touched, pin, image, entity_id)
            before = next(history.pins_back(touched.incarnation, touched.seq - 1), None)
            older = None if before is None else self._image(before, entity_id, touched.seq - 1)
            if older != image:
                return history.author(touched.seq, touched.table_key, entity_id)
            if before is None:
                return None
            pin, image = before, older

    def _schema_moved(self, origin: Pin, pin: Pin) -> bool:
        first, last = (self._history.head_at(item.seq).schema_hash for item in (origin, pin))
        return first != last

    def _changed_since(self, origin: Pin, pin: Pin, image: Image, entity_id: str) -> Pin:
        """Return the published version that gave a row its image, after Lance last touched it.

        A change of the schema adds and removes columns without touching a row.
        """
        newer = pin
        for item in self._history.pins_back(pin.incarnation, pin.seq - 1):
            if self._image(item, entity_id, newer.seq - 1) != image:
                return newer
            newer = item
            if item.seq <= origin.seq:
                break
        return origin

    def _image(self, pin: Pin, entity_id: str, version: int) -> Image | None:
        """Return an entity as a published version has it; `version` is the last that names it."""
        # Each version under its own schema: a rename is no reason not to find the entity.
        then = self._contract.at(self._history.head_at(pin.seq).schema_hash).catalog
        try:
            table = self._tables.open(pin.path, pin.version)
            return next(export_rows(then, pin.table_key, table, only_id=entity_id), None)
        except StorageError as error:
            if error.failure is StorageFailureKind.NOT_FOUND:
                # A cleanup that was killed leaves versions whose files are gone already.
                self._lines.state(self._line, version)
            raise

    def _changed_at(self, pin: Pin, entity_id: str) -> int:
        """Return a version of a table since which it has not changed an entity that it holds."""
        table = self._tables.open(pin.path, pin.version)
        rows = table.scan(columns=[_CHANGED_AT], where=f"id = {quoted(entity_id)}")
        return int(rows[_CHANGED_AT][0].as_py())
