"""Lance datasets that belong to no graph: written by several workers, visible all at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.fragment import FragmentMetadata, write_fragments

from omnigraph.limits import ROWS_PER_FILE_MAX
from omnigraph.store.files.location import locate
from omnigraph.store.tables.lance_errors import translated


def _options(uri: str) -> dict[str, str] | None:
    return locate(uri).lance_options if "://" in uri else None


def write_dataset_part(uri: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> list[str]:
    """Write rows as fragments that no version names yet; return what `publish_dataset` needs."""
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    with translated(f"writing {uri}"):
        made = write_fragments(
            reader,
            uri,
            schema=schema,
            mode="overwrite",
            max_rows_per_file=ROWS_PER_FILE_MAX,
            storage_options=_options(uri),
        )
    return [json.dumps(item.to_json()) for item in made]


def publish_dataset(uri: str, schema: pa.Schema, fragments: Sequence[str]) -> int:
    """Make fragments the whole content of a dataset; return how many rows it has now."""
    metadata = [FragmentMetadata.from_json(item) for item in fragments]
    with translated(f"writing {uri}"):
        made = LanceDataset.commit(
            uri, LanceOperation.Overwrite(schema, metadata), storage_options=_options(uri)
        )
        return int(made.count_rows())
