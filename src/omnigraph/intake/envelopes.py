"""Reads JSONL envelopes into columns: strict, fast, and exact about what is wrong where.

Many lines are parsed at once where nothing is unusual about them. Otherwise each is decoded twice:
its envelope first, then its data against a decoder made for the type, so types and unknown fields
are checked while parsing. Problems are collected with line and field.
"""

from __future__ import annotations

import io
import itertools
import json
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import msgspec
import pyarrow as pa
from msgspec import UNSET

from omnigraph.catalog import (
    FLOATS,
    INTEGERS,
    Catalog,
    EdgeType,
    Entity,
    PropertyType,
    Scalar,
)
from omnigraph.intake.envelope_batch import BatchParser
from omnigraph.limits import (
    BATCH_LINES_MIN,
    LINE_BYTES_MAX,
    LOAD_BLOCK_BYTES,
    LOAD_CHUNK_BYTES,
    LOAD_CHUNK_ROWS,
    LOAD_MEMORY_BYTES,
)
from omnigraph.rows.convert import column_array
from omnigraph.rows.problems import Problem, Problems
from omnigraph.rows.spill import SpillFile
from omnigraph.rows.table_schema import rows_schema
from omnigraph.wording import or_meant

RESERVED = (
    "_tombstone",
    "_rowid",
    "_rowaddr",
    "_rowoffset",
    "_row_created_at_version",
    "_row_last_updated_at_version",
)
_AT_FIELD = re.compile(r" - at `\$\.?([^`\[]*)[^`]*`$")
_UNKNOWN = re.compile(r"unknown field `([^`]*)`")
_SPACED_COLON = re.compile(rb'"[ \t\r]+:')
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_GOT = re.compile(r"got `([^`]*)`")
_KINDS = {"str": "a string", "int": "an integer", "float": "a float", "bool": "a boolean"}


_NO_DATA = msgspec.Raw(b"{}")


class _Envelope(
    msgspec.Struct, forbid_unknown_fields=True, rename={"source": "from", "target": "to"}
):
    type: str | msgspec.UnsetType = UNSET
    edge: str | msgspec.UnsetType = UNSET
    source: str | msgspec.UnsetType = UNSET
    target: str | msgspec.UnsetType = UNSET
    id: str | msgspec.UnsetType | None = UNSET
    data: msgspec.Raw = _NO_DATA


BytesRead = Callable[[int], None]
"""Called with the number of bytes read so far."""


@dataclass(slots=True)
class TypeRows:
    """Rows of one type as they come in: columns in chunks, with the line each came from.

    Chunks are in memory or, if there are many, in a file; `kept_bytes` counts the former.
    """

    entity: Entity
    decoder: msgspec.json.Decoder[msgspec.Struct]
    names: tuple[str, ...]
    chunks: list[pa.Table] = field(default_factory=list)
    lines: array[int] = field(default_factory=lambda: array("q"))
    rows: list[tuple[object, ...]] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    kept_bytes: int = 0
    spill: SpillFile | None = None

    batches: BatchParser = field(init=False)

    # Members of the envelope besides `data`: the type, and an edge's two ends.
    head_members: int = 1
    ends: int = 0

    def __post_init__(self) -> None:
        self.ends = 2 if isinstance(self.entity, EdgeType) else 0
        self.head_members = 1 + self.ends
        self.batches = BatchParser(self.entity)

    @property
    def count(self) -> int:
        """Rows taken in so far."""
        return len(self.lines)

    def table(self) -> pa.Table:
        """Return all rows; the id column is what the input gave, null where it gave none."""
        if self.spill is None:
            return pa.concat_tables(self.chunks)
        # Rows are told apart by their place, so those still in memory go behind the others.
        self.move_to_file()
        return self.spill.table()

    def keep(self, chunk: pa.Table) -> None:
        """Take in a chunk."""
        self.chunks.append(chunk)
        self.kept_bytes += chunk.nbytes

    def move_to_file(self) -> None:
        """Write the chunks in memory to the type's file."""
        if self.spill is None:
            self.spill = SpillFile(rows_schema(self.entity))
        for chunk in self.chunks:
            self.spill.append(chunk)
        self.chunks, self.kept_bytes = [], 0


def _json_type(declared: PropertyType) -> Any:  # noqa: ANN401 - a type, or several
    scalar = declared.scalar
    json_type: Any = str
    if scalar is Scalar.BOOL:
        json_type = bool
    elif scalar in INTEGERS:
        json_type = int
    elif scalar in FLOATS:
        json_type = float
    elif scalar in (Scalar.DATE, Scalar.DATETIME):
        json_type = str | int
    elif scalar is Scalar.VECTOR:
        json_type = list[float]
    if declared.is_list:
        json_type = list[json_type]
    return json_type | None if declared.nullable else json_type


def _row_decoder(entity: Entity) -> tuple[msgspec.json.Decoder[msgspec.Struct], tuple[str, ...]]:
    """Make the decoder of a type's data. Field names are positional: any property name works."""
    names = ("id", *entity.properties)
    fields: list[tuple[str, object, object]] = [("p0", str | msgspec.UnsetType, UNSET)]
    for index, declared in enumerate(entity.properties.values(), 1):
        fields.append((f"p{index}", _json_type(declared.type) | msgspec.UnsetType, UNSET))
    rename = {f"p{index}": name for index, name in enumerate(names)}
    struct = msgspec.defstruct(
        f"Row{entity.name}", fields, forbid_unknown_fields=True, rename=rename, gc=False
    )
    return msgspec.json.Decoder(struct), names


class EnvelopeReader:
    """Reads envelopes of one schema."""

    def __init__(
        self, catalog: Catalog, problems: Problems, *, memory_bytes: int | None = None
    ) -> None:
        self._memory_bytes = memory_bytes or LOAD_MEMORY_BYTES
        self._catalog = catalog
        self._problems = problems
        self._envelopes = msgspec.json.Decoder(_Envelope)
        self._by_envelope: dict[tuple[object, object], TypeRows] = {}
        self._by_head: dict[bytes, TypeRows | None] = {}
        self._text_bytes = 0
        self.types: dict[str, TypeRows] = {}

    def read(self, lines: Iterable[bytes]) -> None:
        """Take in lines until they end or too much is wrong."""
        self.read_blocks(_blocks(lines))

    def read_blocks(self, blocks: Iterable[Sequence[bytes]]) -> None:
        """Take in lines, of which each block holds as many as fit into memory several times."""
        self.take_blocks(blocks, 1)
        self.types = {key: rows for key, rows in self.types.items() if rows.count}

    def take_blocks(self, blocks: Iterable[Sequence[bytes]], first: int) -> None:
        """Take in lines; `first` is the number of the first one. More may come later."""
        for block in blocks:
            numbers: Sequence[int] = range(first, first + len(block))
            first += len(block)
            texts = [line.strip() for line in block]
            if not all(texts):
                numbers = [number for number, text in zip(numbers, texts, strict=True) if text]
                texts = [text for text in texts if text]
            if not self._batch(numbers, texts):
                break
        self._flush_all()

    def take_rows(self, entity: Entity, rows: pa.Table, lines: bytes) -> None:
        """Take in rows that were read by other means, with the numbers of their lines."""
        type_rows = self._type_rows(entity)
        type_rows.keep(rows)
        type_rows.lines.frombytes(lines)
        self._make_room()

    def _batch(self, numbers: Sequence[int], texts: list[bytes]) -> bool:
        """Take in lines; False when too much is wrong."""
        if len(texts) >= BATCH_LINES_MIN and self._at_once(numbers, texts):
            return True
        for number, text in zip(numbers, texts, strict=True):
            if not self._line(number, text) and self._problems.full:
                return False
        return True

    def _at_once(self, numbers: Sequence[int], texts: list[bytes]) -> bool:
        """Take in lines all of which are plain; False, and nothing is taken, when some are not."""
        if max(map(len, texts)) > LOAD_BLOCK_BYTES:
            # A line that is as long as many is read alone, to be in memory a few times only.
            return False
        parsed: list[tuple[TypeRows, pa.Table, Sequence[int]]] = []
        for head, places, mine in _by_head(numbers, texts):
            rows = self._rows_by_head(head)
            table = None if rows is None else rows.batches.parse(mine)
            if rows is None or table is None or any(rows is other for other, *_rest in parsed):
                # Of two heads for one type the rows would change places.
                return False
            parsed.append((rows, table, places))
        self._flush_all()
        for rows, table, places in parsed:
            rows.keep(table)
            rows.lines.extend(places)
        self._make_room()
        return True

    def _rows_by_head(self, head: bytes) -> TypeRows | None:
        if head not in self._by_head:
            try:
                envelope = self._envelopes.decode(head + b"}")
            except _UNREADABLE:
                return None
            entity = self._entity_of(envelope)
            self._by_head[head] = None if entity is None else self._type_rows(entity)
        return self._by_head[head]

    def _entity_of(self, head: _Envelope) -> Entity | None:
        if isinstance(head.type, str):
            return self._catalog.nodes.get(head.type)
        word = str(head.edge)
        return self._catalog.edges.get(word) or self._catalog.edge_by_word(word)

    def _type_rows(self, entity: Entity) -> TypeRows:
        rows = self.types.get(entity.table_key)
        if rows is None:
            decoder, names = _row_decoder(entity)
            rows = self.types[entity.table_key] = TypeRows(entity, decoder, names)
        return rows

    def close(self) -> None:
        """Let go of temporary files that will not be read."""
        for rows in self.types.values():
            if rows.spill is not None:
                rows.spill.close()

    def _problem(
        self, line: int, message: str, *, type_name: str | None = None, field: str | None = None
    ) -> None:
        self._problems.add(Problem(message=message, line=line, type_name=type_name, field=field))

    def _line(self, number: int, text: bytes) -> bool:
        """Take in one line; False when it has a problem."""
        # This runs for every row: the straight path comes first and allocates little.
        if len(text) > LINE_BYTES_MAX:
            self._problem(number, f"the line has more than {LINE_BYTES_MAX} bytes")
            return False
        try:
            head = self._envelopes.decode(text)
        except _UNREADABLE as error:
            self._problem(number, _envelope_problem(error))
            return False
        rows = self._by_envelope.get((head.type, head.edge))
        ends = (head.source is not UNSET) + (head.target is not UNSET)
        if rows is None or ends != rows.ends:
            rows = self._rows_of(number, head)
            if rows is None:
                return False
        try:
            row = msgspec.structs.astuple(rows.decoder.decode(head.data))
        except msgspec.ValidationError as error:
            self._data_problem(number, rows.entity, str(error))
            return False
        except _UNREADABLE as error:
            self._problem(number, f"not valid JSON: {_reason(error)}")
            return False
        if head.id is not UNSET and head.id is not None:
            # The id is the first field of every type.
            problem = _id_problem(rows.entity, row[0])
            if problem is not None:
                self._problem(number, problem, type_name=rows.entity.name, field="id")
                return False
            row = (head.id, *row[1:])
        members = rows.head_members + (head.data is not _NO_DATA)
        members += len(row) - row.count(UNSET)
        # A line with other colons than the members that were read may name one twice.
        if text.count(b'":') != members or _SPACED_COLON.search(text):
            repeated = _repeated_member(text)
            if repeated is not None:
                self._problem(number, f"member '{repeated}' appears twice", field=repeated)
                return False
        rows.rows.append(row)
        rows.lines.append(number)
        if ends:
            rows.sources.append(head.source)  # type: ignore[arg-type]  # both ends are there
            rows.targets.append(head.target)  # type: ignore[arg-type]
        self._text_bytes += len(text)
        if self._text_bytes >= LOAD_CHUNK_BYTES or len(rows.rows) >= LOAD_CHUNK_ROWS:
            self._flush_all()
        return True

    def _rows_of(self, number: int, head: _Envelope) -> TypeRows | None:
        if (head.type is UNSET) == (head.edge is UNSET):
            both = head.type is not UNSET
            self._problem(
                number,
                "has both 'type' and 'edge'" if both else "expected 'type' or 'edge' field",
            )
            return None
        entity = self._entity_of(head)
        if isinstance(head.type, str):
            if entity is None:
                self._unknown_type(number, "node", head.type, list(self._catalog.nodes))
                return None
            if head.source is not UNSET or head.target is not UNSET:
                self._problem(number, "a node has no 'from' or 'to'", type_name=head.type)
                return None
        else:
            if entity is None:
                self._unknown_type(number, "edge", str(head.edge), list(self._catalog.edges))
                return None
            missing = [
                name
                for name, value in (("from", head.source), ("to", head.target))
                if value is UNSET
            ]
            if missing:
                self._problem(number, f"edge {entity.name} needs '{missing[0]}'", field=missing[0])
                return None
        rows = self._by_envelope[(head.type, head.edge)] = self._type_rows(entity)
        return rows

    def _unknown_type(self, number: int, kind: str, name: str, known: list[str]) -> None:
        message = f"unknown {kind} type '{name}'{or_meant(name, known)}"
        self._problem(number, message, type_name=name)

    def _data_problem(self, number: int, entity: Entity, text: str) -> None:
        unknown = _UNKNOWN.search(text)
        at = _AT_FIELD.search(text)
        if unknown is not None:
            name = unknown.group(1)
            reserved = name in RESERVED or (isinstance(entity, EdgeType) and name in ("src", "dst"))
            word = "reserved" if reserved else "unknown"
            message = f"{word} input field '{name}' for '{entity.table_key}'"
            self._problem(number, message, type_name=entity.name, field=name)
            return
        name = at.group(1).split(".")[0] if at else ""
        declared = entity.properties.get(name)
        if declared is None:
            detail = "expected an object" if not name else f"'{name}' must be a string"
            self._problem(number, f"data: {detail}", type_name=entity.name, field=name or "data")
            return
        got = _GOT.search(text)
        given = _KINDS.get(got.group(1), got.group(1)) if got else "something else"
        self._problem(
            number,
            f"property '{name}' expects {declared.type}, got {given}",
            type_name=entity.name,
            field=name,
        )

    def _flush_all(self) -> None:
        """Turn everything buffered into chunks, and keep no more of these than fits."""
        self._text_bytes = 0
        for rows in self.types.values():
            self._flush(rows)
        self._make_room()

    def _make_room(self) -> None:
        while sum(rows.kept_bytes for rows in self.types.values()) > self._memory_bytes:
            max(self.types.values(), key=lambda rows: rows.kept_bytes).move_to_file()

    def _flush(self, type_rows: TypeRows) -> None:
        """Turn buffered rows into an Arrow chunk."""
        if not type_rows.rows:
            return
        entity = type_rows.entity
        schema = rows_schema(entity)
        start = len(type_rows.lines) - len(type_rows.rows)
        columns = list(zip(*type_rows.rows, strict=True))
        arrays: list[pa.Array] = []
        for name in schema.names:
            if name in ("src", "dst"):
                ends = type_rows.sources if name == "src" else type_rows.targets
                arrays.append(pa.array(ends, pa.string()))
                continue
            values = columns[type_rows.names.index(name)]
            if name == "id":
                plain = [None if value is UNSET else value for value in values]
                arrays.append(pa.array(plain, pa.string()))
                continue
            declared = entity.properties[name]

            def report(row: int, message: str, field_name: str = name) -> None:
                self._problem(
                    type_rows.lines[start + row],
                    f"property '{field_name}': {message}",
                    type_name=entity.name,
                    field=field_name,
                )

            default = declared.default if declared.has_default else None
            filled = [default if value is UNSET else value for value in values]
            # An embedder may fill a vector later; validation has the last word on it.
            needed = declared.required and declared.embedding is None
            if needed and not declared.has_default and UNSET in values:
                for row, value in enumerate(values):
                    if value is UNSET:
                        self._problem(
                            type_rows.lines[start + row],
                            f"missing required property '{name}'",
                            type_name=entity.name,
                            field=name,
                        )
            arrays.append(column_array(filled, declared.type, report))
        type_rows.keep(pa.Table.from_arrays(arrays, schema=schema))
        type_rows.rows = []
        type_rows.sources = []
        type_rows.targets = []


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"not valid UTF-8 ({error.reason})"
    return str(error).removeprefix("JSON is malformed: ")


def _id_problem(entity: Entity, in_data: object) -> str | None:
    """Return what is wrong with an id beside the type of a line."""
    if not isinstance(entity, EdgeType):
        return "the id of a node stands in 'data'"
    return None if in_data is UNSET else "the id is given twice: beside 'edge' and in 'data'"


def _envelope_problem(error: Exception) -> str:
    text = str(error)
    if not isinstance(error, msgspec.ValidationError):
        return f"not valid JSON: {_reason(error)}"
    unknown = _UNKNOWN.search(text)
    if unknown is not None:
        return f"unknown top-level graph batch field '{unknown.group(1)}'"
    if "Expected `object`" in text:
        return "expected a JSON object"
    at = _AT_FIELD.search(text)
    return f"'{at.group(1)}' must be a string" if at else text


def _repeated_member(text: bytes) -> str | None:
    """Return a member name that one object of the text has twice, None when there is none."""
    repeated: list[str] = []

    def check(pairs: list[tuple[str, object]]) -> dict[str, object]:
        names = [name for name, _value in pairs]
        if len(set(names)) < len(names):
            repeated.extend(name for name in names if names.count(name) > 1)
        return dict(pairs)

    try:
        json.loads(text, object_pairs_hook=check)
    except RecursionError:
        return None
    return repeated[0] if repeated else None


def _by_head(
    numbers: Sequence[int], texts: list[bytes]
) -> Iterator[tuple[bytes, Sequence[int], list[bytes]]]:
    """Sort lines by what stands before the first comma, which names the type if it comes first."""
    first = texts[0].partition(b",")[0]
    if all(map(bytes.startswith, texts, itertools.repeat(first + b","))):
        yield first, numbers, texts
        return
    groups: dict[bytes, tuple[list[int], list[bytes]]] = {}
    for number, text in zip(numbers, texts, strict=True):
        places, mine = groups.setdefault(text.partition(b",")[0], ([], []))
        places.append(number)
        mine.append(text)
    for head, (places, mine) in groups.items():
        yield head, places, mine


def _blocks(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    block: list[bytes] = []
    size = 0
    for line in lines:
        block.append(line)
        size += len(line)
        if size >= LOAD_BLOCK_BYTES or len(block) >= LOAD_CHUNK_ROWS:
            yield block
            block, size = [], 0
    if block:
        yield block


def file_blocks(handle: IO[bytes], progress: BytesRead | None) -> Iterator[list[bytes]]:
    """Yield the lines of an open file in blocks and report how far it was read.

    A byte-order mark is skipped. Of a line above the limit only the beginning is read into memory:
    as much as tells that it is too long.
    """
    done = 0
    while block := _next_lines(handle):
        if not done:
            block[0] = block[0].removeprefix(b"\xef\xbb\xbf")
        done += sum(map(len, block))
        if progress is not None:
            progress(done)
        yield block


def _next_lines(handle: IO[bytes]) -> list[bytes]:
    """Return the next whole lines, about a block of them; none at the end."""
    block = handle.read(LOAD_BLOCK_BYTES)
    if not block or block.endswith(b"\n"):
        return list(io.BytesIO(block))
    rest = read_line(handle)
    lines = list(io.BytesIO(block))
    lines[-1] += rest
    return lines


def read_line(handle: IO[bytes]) -> bytes:
    """Return the rest of a line; of one above the limit only so much as exceeds it."""
    line = bytes(handle.readline(LINE_BYTES_MAX + 1))
    if line and not line.endswith(b"\n"):
        skip_line(handle)
    return line


def skip_line(handle: IO[bytes]) -> None:
    """Go to the beginning of the next line."""
    while (part := handle.readline(LOAD_BLOCK_BYTES)) and not part.endswith(b"\n"):
        pass
