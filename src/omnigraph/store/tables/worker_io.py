"""What workers of a parallel job do with a table: read some fragments, write new ones.

A worker knows a folder and a version, and no graph. What it writes is invisible until the driver
stages and publishes it.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from lance import LanceDataset
from lance.dataset import Index
from lance.fragment import FragmentMetadata, write_fragments
from lance.optimize import CompactionTask, RewriteResult
from msgspec.structs import replace
from numpy.typing import NDArray

from omnigraph.limits import ROWS_PER_FILE_MAX
from omnigraph.store.files.location import locate
from omnigraph.store.tables.delta import DeltaPart
from omnigraph.store.tables.lance_errors import translated
from omnigraph.store.tables.staging import NewRows
from omnigraph.store.tables.table import Table, fragment_of
from omnigraph.store.tables.upsert import Rewritten, rewrite_rows
from omnigraph.store.tables.workers import IndexPart, build_part, rewrite


def _opened(folder: str, version: int) -> LanceDataset:
    """Open a table; an object store is reached as `reaching` or the environment says."""
    options = locate(folder).lance_options if "://" in folder else None
    return lance.dataset(folder, version=version, storage_options=options)


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
    where: str | None = None,
    batch_rows: int = 65_536,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some fragments of one version, or those that match, batch by batch."""
    options: dict[str, Any] = {"blob_handling": "all_binary"} if blob_bytes else {}
    with translated(f"reading {folder}"):
        dataset = _opened(folder, version)
        scanner = dataset.scanner(
            columns=list(columns),
            filter=where,
            fragments=[fragment_of(dataset, item) for item in ids],
            batch_size=batch_rows,
            scan_in_order=True,
            **options,
        )
        yield from scanner.to_batches()


def refusal(folder: str, version: int, where: str) -> str | None:
    """Return why a table cannot evaluate a condition, None if it can; nothing is read."""
    try:
        _opened(folder, version).scanner(columns=[], with_row_id=True, filter=where).explain_plan()
    except (ValueError, OSError, RuntimeError) as error:
        return str(error).splitlines()[0]
    return None


def read_delta(
    part: DeltaPart, columns: Sequence[str], *, blob_bytes: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part, batch by batch."""
    batches = read_fragments(
        part.folder, part.version, [part.fragment], columns, blob_bytes=blob_bytes
    )
    if part.places is None:
        yield from batches
        return
    wanted, start = np.array(part.places, np.int64), 0
    for batch in batches:
        inside = wanted[(wanted >= start) & (wanted < start + batch.num_rows)] - start
        start += batch.num_rows
        if len(inside):
            yield batch.take(pa.array(inside))


def open_version(folder: str, version: int) -> Table:
    """Open a version of a table where no graph is open."""
    with translated(f"reading {folder}"):
        return Table(folder, _opened(folder, version))


def read_range(
    table: Table,
    part: DeltaPart,
    start: int,
    stop: int,
    columns: Sequence[str],
    *,
    blob_bytes: bool = False,
    batch_rows: int = 16_384,
) -> Iterator[pa.RecordBatch]:
    """Yield some rows of a part, by their place in it, batch by batch."""
    if part.places is not None:
        for at in range(start, stop, batch_rows):
            rows = np.arange(at, min(at + batch_rows, stop))
            yield from read_places(table, part, rows, columns, blob_bytes=blob_bytes).to_batches()
        return
    options: dict[str, Any] = {"blob_handling": "all_binary"} if blob_bytes else {}
    with translated(f"reading {part.folder}"):
        scanner = table.dataset.scanner(
            columns=list(columns),
            fragments=[fragment_of(table.dataset, part.fragment)],
            offset=start,
            limit=stop - start,
            batch_size=batch_rows,
            scan_in_order=True,
            **options,
        )
        yield from scanner.to_batches()


def read_places(
    table: Table,
    part: DeltaPart,
    rows: NDArray[np.int64],
    columns: Sequence[str],
    *,
    blob_bytes: bool = False,
) -> pa.Table:
    """Return rows of a part, by their places in it; these are in order."""
    places = rows.tolist()
    if part.places is not None:
        places = [part.places[row] for row in places]
    if blob_bytes:
        # Bytes of blobs come with scans only.
        only = replace(part, places=tuple(places))
        return pa.Table.from_batches(read_delta(only, columns, blob_bytes=True))
    with translated(f"reading {part.folder}"):
        fragment = fragment_of(table.dataset, part.fragment)
        return fragment.take(places, columns=list(columns))


def write_rows(folder: str, version: int, rows: NewRows) -> list[str]:
    """Write rows as new fragments; return what `stage_fragments` needs to know of them.

    Files of a failed call are removed or stay unreferenced: a caller that repeats it loses nothing.
    """
    with translated(f"writing {folder}"):
        made = write_fragments(
            rows,
            _opened(folder, version),
            mode="append",
            max_rows_per_file=ROWS_PER_FILE_MAX,
        )
    return [json.dumps(item.to_json()) for item in made]


def rewrite_fragments(folder: str, version: int, rows: NewRows) -> tuple[list[str], bytes, int]:
    """Write rows that replace those of the same id, or are added, as a worker of a merge.

    Returns the fragments, the addresses of old images, and the number of rows that are new, as
    `joined_rewrites` wants them.
    """
    with translated(f"writing {folder}"):
        dataset = _opened(folder, version)
    rewritten = rewrite_rows(Table(folder, dataset), rows)
    fragments = [json.dumps(item.to_json()) for item in rewritten.fragments]
    return fragments, rewritten.places.astype(np.uint64).tobytes(), rewritten.added


def compact(folder: str, version: int, task: str) -> str:
    """Do one task of a compaction plan, as a worker; both the task and its result are JSON."""
    with translated(f"compacting {folder}"):
        planned = CompactionTask.from_json(task)  # type: ignore[attr-defined]  # a stub gap
        opened = Table(folder, _opened(folder, version))
    return str(rewrite(opened, [planned])[0].json())


def compacted(result: str) -> RewriteResult:
    """Return the result of a worker's compaction as `commit_rewrite` wants it."""
    compaction: RewriteResult
    compaction = RewriteResult.from_json(result)  # type: ignore[attr-defined]  # a stub gap
    return compaction


def build_index(folder: str, version: int, part: IndexPart) -> bytes:
    """Build an index over some fragments, as a worker."""
    with translated(f"indexing {folder}"):
        return pickle.dumps(build_part(_opened(folder, version), part))


def built_index(answer: bytes) -> Index:
    """Return what `build_index` answered."""
    index: Index = pickle.loads(answer)  # noqa: S301 - from our own worker
    return index


def joined_rewrites(parts: Sequence[tuple[list[str], bytes, int]]) -> Rewritten:
    """Return what workers rewrote as one. No two of them may have had the same id."""
    return Rewritten(
        fragments=[FragmentMetadata.from_json(item) for part in parts for item in part[0]],
        places=np.frombuffer(b"".join(part[1] for part in parts), np.uint64),
        added=sum(part[2] for part in parts),
    )
