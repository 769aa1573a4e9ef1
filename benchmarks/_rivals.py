"""What the engine is measured against: bare Lance doing the same commits, and other databases."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance import LanceDataset
from lance.fragment import write_fragments

HEAD_ROWS = 20
FOLD_EVERY = 32


def _key_field(name: str) -> pa.Field:
    metadata = {b"lance-schema:unenforced-primary-key": b"true"}
    return pa.field(name, pa.string(), nullable=False, metadata=metadata)


NODE = pa.schema([_key_field("id"), pa.field("name", pa.string()), pa.field("age", pa.int32())])
EDGE = pa.schema(
    [
        _key_field("id"),
        pa.field("src", pa.string(), nullable=False),
        pa.field("dst", pa.string(), nullable=False),
        pa.field("since", pa.int32()),
    ]
)


def node_rows(names: list[str]) -> pa.Table:
    """Return nodes as a bare table stores them."""
    ages = pa.array([1] * len(names), pa.int32())
    return pa.Table.from_arrays([pa.array(names), pa.array(names), ages], schema=NODE)


def edge_rows(ids: list[str], ends: list[str]) -> pa.Table:
    """Return edges as a bare table stores them."""
    since = pa.array([1] * len(ids), pa.int32())
    columns = [pa.array(ids), pa.array(ends), pa.array(ends), since]
    return pa.Table.from_arrays(columns, schema=EDGE)


class BareTable:
    """One Lance table with a BTREE on its id, written the cheapest way there is."""

    def __init__(self, folder: Path, rows: pa.Table) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._dataset: Any = lance.write_dataset(
            rows,
            str(folder),
            enable_stable_row_ids=True,
            enable_v2_manifest_paths=True,
            data_storage_version="2.2",
        )
        self._commits = 0
        self.fold()

    def fold(self) -> None:
        """Compact and index everything, so that the table is as fast as it can be."""
        self._dataset.optimize.compact_files(num_threads=1)
        self._dataset.create_scalar_index("id", "BTREE", name="id_idx", replace=True)
        self._dataset = lance.dataset(self._dataset.uri)

    def fold_if_due(self) -> None:
        """Fold every few dozen commits; callers leave it out of the clock, in our disfavour."""
        if self._commits >= FOLD_EVERY:
            self._commits = 0
            self.fold()

    def upsert(self, rows: pa.Table) -> None:
        """Stage an upsert through the index and commit it."""
        merge = self._dataset.merge_insert("id")
        merge = merge.when_matched_update_all().when_not_matched_insert_all()
        transaction, _stats = merge.execute_uncommitted(rows)
        self._commit(transaction)

    def append(self, rows: pa.Table) -> None:
        """Stage an append, unchecked, and commit it."""
        staged: Any = write_fragments(rows, self._dataset, mode="append", return_transaction=True)
        self._commit(staged)

    def _commit(self, transaction: lance.Transaction) -> None:
        self._dataset = LanceDataset.commit(self._dataset, transaction, max_retries=0)
        self._commits += 1


class BareHead:
    """A tiny table that says what is published, swapped as a whole: the cheapest exact publish."""

    def __init__(self, folder: Path) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._rows = pa.table(
            {
                "object_id": [f"table:{number}" for number in range(HEAD_ROWS)],
                "version": pa.array([1] * HEAD_ROWS, pa.uint64()),
            }
        )
        self._dataset: Any = lance.write_dataset(
            self._rows, str(folder), enable_v2_manifest_paths=True, data_storage_version="2.2"
        )

    def publish(self) -> None:
        """Overwrite the rows, only if nobody else did since."""
        transaction: Any = write_fragments(
            self._rows, self._dataset, mode="overwrite", return_transaction=True
        )
        self._dataset = LanceDataset.commit(self._dataset, transaction, max_retries=0)


class Sqlite:
    """SQLite with every commit synced."""

    def __init__(self, path: Path, journal: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute(f"PRAGMA journal_mode={journal}")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("CREATE TABLE person (name TEXT PRIMARY KEY, age INTEGER)")
        self._number = 0

    def insert(self) -> None:
        """Insert one row in a transaction of its own."""
        self._number += 1
        self._connection.execute("INSERT INTO person VALUES (?, ?)", (f"n{self._number}", 1))


class SyncedFile:
    """A new small file, written and synced: what the disk itself asks for."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._number = 0

    def write(self) -> None:
        """Write one file and sync it."""
        self._number += 1
        with open(self._folder / str(self._number), "xb") as handle:
            handle.write(b"x" * 2048)
            handle.flush()
            os.fsync(handle.fileno())


class Kuzu:
    """Kuzu, one insert per automatic transaction. Raises `ImportError` when it is not there."""

    def __init__(self, path: Path) -> None:
        import kuzu

        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = kuzu.Connection(kuzu.Database(str(path)))
        self._connection.execute(
            "CREATE NODE TABLE Person(name STRING, age INT64, PRIMARY KEY(name))"
        )
        self._number = 0

    def insert(self) -> None:
        """Insert one node."""
        self._number += 1
        self._connection.execute(
            "CREATE (:Person {name: $name, age: 1})", {"name": f"n{self._number}"}
        )
