"""Fills `@embed` vectors from their source texts while rows are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.catalog import Entity, Property
from omnigraph.embed import Embedder, embed_texts
from omnigraph.errors import BadRequestError

Values = Mapping[str, object]


class Embeddings:
    """The vectors of one write; a text is embedded once, however often the write is retried."""

    def __init__(self, embedder: Embedder | None) -> None:
        self._embedder = embedder
        self._known: dict[tuple[int, str], NDArray[np.float32]] = {}

    @property
    def active(self) -> bool:
        """Whether there is an embedder; without one vectors stay as they are given."""
        return self._embedder is not None

    def prefetch(self, assigned: Iterable[tuple[Entity, Values]]) -> None:
        """Embed the texts of many assignments in few calls."""
        texts: dict[int, dict[str, None]] = {}
        for entity, values in assigned:
            for declared, text in self._wanted(entity, values):
                if text is not None:
                    texts.setdefault(_dimension(declared), {})[text] = None
        for dimension, wanted in texts.items():
            self._vectors(list(wanted), dimension)

    def fill_values(self, entity: Entity, values: dict[str, object]) -> None:
        """Add the vectors of assigned sources; a source without text clears its vector."""
        for declared, text in list(self._wanted(entity, values)):
            if text is None:
                values[declared.name] = None
            else:
                (vector,) = self._vectors([text], _dimension(declared))
                values[declared.name] = tuple(float(item) for item in vector)

    def _wanted(self, entity: Entity, values: Values) -> Iterator[tuple[Property, str | None]]:
        """Yield the vectors that an assignment leaves out although it sets their source."""
        if self._embedder is None:
            return
        for declared in entity.properties.values():
            embedding = declared.embedding
            if embedding is None or declared.name in values or embedding.source not in values:
                continue
            text = values[embedding.source]
            if isinstance(text, str) and text.strip():
                self._check_model(entity, declared)
                yield declared, text
            else:
                yield declared, None

    def fill_rows(self, entity: Entity, rows: pa.Table) -> pa.Table:
        """Return rows whose null vectors are filled where there is a text to embed."""
        if self._embedder is None:
            return rows
        for declared in entity.properties.values():
            embedding = declared.embedding
            if embedding is None:
                continue
            index = rows.schema.get_field_index(declared.name)
            column = rows.column(index).combine_chunks()
            source = rows[embedding.source].combine_chunks()
            blank = pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(source)), 0)
            wanted = pc.and_(pc.is_null(column), pc.invert(pc.fill_null(blank, True)))
            places = pc.indices_nonzero(wanted).to_numpy()
            if not len(places):
                continue
            self._check_model(entity, declared)
            texts = source.take(pa.array(places)).dictionary_encode()
            vectors = embed_texts(
                self._embedder, texts.dictionary.to_pylist(), dimension=_dimension(declared)
            )
            filled = vectors[texts.indices.to_numpy()]
            rows = rows.set_column(
                index, rows.schema.field(index), _replaced(column, places, filled)
            )
        return rows

    def _check_model(self, entity: Entity, declared: Property) -> None:
        model = declared.embedding.model if declared.embedding else None
        if self._embedder is not None and model is not None and model != self._embedder.model:
            raise BadRequestError(
                f"{entity.name}.{declared.name} is embedded with model '{model}', but the "
                f"embedder is '{self._embedder.model}'",
                hint="write with that model, or give the vectors yourself",
            )

    def _vectors(self, texts: list[str], dimension: int) -> NDArray[np.float32]:
        if self._embedder is None:
            return np.empty((0, dimension), dtype=np.float32)
        new = [text for text in dict.fromkeys(texts) if (dimension, text) not in self._known]
        if new:
            vectors = embed_texts(self._embedder, new, dimension=dimension)
            self._known.update(
                ((dimension, text), row) for text, row in zip(new, vectors, strict=True)
            )
        return np.array([self._known[(dimension, text)] for text in texts], dtype=np.float32)


def _dimension(declared: Property) -> int:
    return declared.type.vector_dim or 0


def _replaced(
    column: pa.Array, places: NDArray[np.int64], vectors: NDArray[np.float32]
) -> pa.Array:
    """Return a vector column with some of its entries replaced."""
    values = pa.array(np.ascontiguousarray(vectors).reshape(-1), pa.float32())
    new = pa.FixedSizeListArray.from_arrays(values, type=column.type)
    order = np.arange(len(column))
    order[places] = len(column) + np.arange(len(places))
    return pa.concat_arrays([column, new]).take(pa.array(order))
