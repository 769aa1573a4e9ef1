"""What workers of a parallel job do with a table: read some fragments, write new ones.

A worker knows a folder and a version, and no graph. What it writes is invisible until somebody
stages and publishes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import lance
from lance.fragment import write_fragments

from omnigraph.limits import ROWS_PER_FILE_MAX
from omnigraph.store.lance_errors import translated
from omnigraph.store.tables import Table


def fragment_ids(table: Table) -> list[tuple[int, int]]:
    """Return the id and the number of rows of every fragment."""
    return [(int(item.fragment_id), int(item.physical_rows)) for item in table.fragments()]


def read_fragments(
    folder: str,
    version: int,
    ids: Sequence[int],
    columns: Sequence[str],
    *,
    blob_bytes: bool = False,
    batch_rows: int = 65_536,
) -> Iterator[Any]:
    """Yield the rows of some fragments of one version, batch by batch."""
    options: dict[str, Any] = {"blob_handling": "all_binary"} if blob_bytes else {}
    with translated(f"reading {folder}"):
        dataset: Any = lance.dataset(folder, version=version)
        scanner = dataset.scanner(
            columns=list(columns),
            fragments=[dataset.get_fragment(item) for item in ids],
            batch_size=batch_rows,
            **options,
        )
        yield from scanner.to_batches()


def write_rows(folder: str, version: int, rows: Any) -> list[str]:
    """Write rows as new fragments; return what `stage_fragments` needs to know of them.

    Files of a failed call are removed or stay unreferenced: whoever repeats it loses nothing.
    """
    with translated(f"writing {folder}"):
        made = write_fragments(
            rows,
            lance.dataset(folder, version=version),
            mode="append",
            max_rows_per_file=ROWS_PER_FILE_MAX,
        )
    return [json.dumps(item.to_json()) for item in made]
