"""A state for other programs: folders of CSV, GraphML files, graphs of other libraries.

All of it is made of the types of one state and of an Arrow table for each of them, which an open
graph and a served one have alike.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.catalog import Scalar
from omnigraph.compute import python_values
from omnigraph.errors import AlreadyExistsError, BadRequestError, NotFoundError, StorageError
from omnigraph.graph.api import Path
from omnigraph.intake.mapping import MAPPING_FILE
from omnigraph.rows.texts import text_values
from omnigraph.store import is_object, is_taken, new_local_file, remove_folder
from omnigraph.values.inspection import PropertyInfo, TypeInfo
from omnigraph.values.networks import Arc, Vertex, type_attribute
from omnigraph.values.words import EXPORT_FORMATS, ExportFormat
from omnigraph.wording import names_hint

BATCH_ROWS = 8192
_QUOTED = re.compile('[",\r\n]')
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Not those of `xml.sax.saxutils`: it imports half of the standard library.
_IN_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_IN_ATTRIBUTE = _IN_TEXT | str.maketrans({'"': "&quot;", "\n": "&#10;", "\t": "&#9;"})
_GRAPHML_TYPES = {
    Scalar.BOOL: "boolean",
    Scalar.I32: "int",
    Scalar.U32: "long",
    Scalar.I64: "long",
    Scalar.U64: "long",
    Scalar.F32: "float",
    Scalar.F64: "double",
}


class StateRows(Struct, frozen=True, kw_only=True):
    """One state of a graph: its types, nodes before edges, and what gives the rows of each.

    Rows are an Arrow table with `id`, for edges `from` and `to`, and the properties, by id.
    """

    types: tuple[TypeInfo, ...]
    rows: Callable[[TypeInfo], pa.Table]

    def only(self, names: Iterable[str], *, with_ends: bool = False) -> StateRows:
        """Return the state with some types; edges may bring the types of their ends along."""
        wanted = set(names)
        if not wanted:
            return self
        known = {item.name for item in self.types}
        for name in sorted(wanted - known):
            hint = names_hint(name, sorted(known))
            raise NotFoundError(f"unknown export type '{name}'", hint=hint)
        if with_ends:
            edges = [item for item in self.types if item.kind == "edge" and item.name in wanted]
            wanted |= {str(end) for item in edges for end in (item.source, item.target)}
        return StateRows(types=tuple(t for t in self.types if t.name in wanted), rows=self.rows)

    def network(self) -> tuple[Iterator[Vertex], Iterator[Arc], str]:
        """Return nodes, edges and the attribute for types, as graphs of libraries are made of."""
        nodes = [item for item in self.types if item.kind == "node"]
        edges = [item for item in self.types if item.kind == "edge"]
        taken = (prop.name for item in self.types for prop in item.properties)
        vertices = (vertex for item in nodes for vertex in self._vertices(item))
        arcs = (arc for item in edges for arc in self._arcs(item))
        return vertices, arcs, type_attribute(taken)

    def _vertices(self, info: TypeInfo) -> Iterator[Vertex]:
        for row in _dictionaries(self.rows(info)):
            yield Vertex(info.name, row.pop("id"), row)

    def _arcs(self, info: TypeInfo) -> Iterator[Arc]:
        source, target = str(info.source), str(info.target)
        for row in _dictionaries(self.rows(info)):
            ends = (source, row.pop("from")), (target, row.pop("to"))
            yield Arc(info.name, row.pop("id"), *ends, row)


def _dictionaries(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield rows as dictionaries; what is null is left out."""
    names = table.column_names
    for start in range(0, table.num_rows, BATCH_ROWS):
        columns = [python_values(column) for column in table.slice(start, BATCH_ROWS).columns]
        for row in zip(*columns, strict=True):
            pairs = zip(names, row, strict=True)
            yield {name: value for name, value in pairs if value is not None}


def export_format(dest: Path | None, asked: str | None) -> ExportFormat:
    """Return the format to write: the one asked for, else the one a file's ending means."""
    if asked is None:
        asked = "graphml" if str(dest).lower().endswith(".graphml") else "jsonl"
    for known in EXPORT_FORMATS:
        if asked == known:
            if dest is None and known != "jsonl":
                raise BadRequestError(f"format '{known}' needs a place to write to")
            return known
    listed = ", ".join(EXPORT_FORMATS)
    raise BadRequestError(f"unknown format '{asked}'", hint=f"known are {listed}")


def write_state(state: StateRows, types: Iterable[str], dest: Path, form: ExportFormat) -> int:
    """Write a folder of CSV, or a GraphML file, which appears when it is complete."""
    if form == "csv":
        return _write_csv(state.only(types), os.fspath(dest))
    with new_local_file(os.fspath(dest)) as out:
        return _write_graphml(state.only(types, with_ends=True), out)


def _texts(info: TypeInfo, table: pa.Table) -> Iterator[tuple[str, list[str | None]]]:
    """Yield the columns of some rows as texts, by name."""
    properties = {item.name: item for item in info.properties}
    for name, column in zip(table.column_names, table.columns, strict=True):
        prop = properties.get(name)
        if prop is None:
            yield name, column.to_pylist()
        else:
            place = f"{info.name}.{name}"
            scalar = Scalar(prop.scalar)
            yield name, text_values(column, scalar, is_list=prop.is_list, place=place)


# ---- CSV ----------------------------------------------------------------------------------


def _write_csv(state: StateRows, dest: str) -> int:
    count = 0
    with _new_folder(dest) as folder:
        mapping = ["# Loaded by: omnigraph load GRAPH --mode append --data FOLDER\n"]
        for info in state.types:
            table = state.rows(info)
            null = _null_mark(info, table)
            with new_local_file(os.path.join(folder, f"{info.name}.csv")) as out:
                _write_rows(info, table, null, out)
            mapping.append(f'\n[{info.name}]\ndata = "{info.name}.csv"\n')
            if null:
                mapping.append(f"null = '{null}'\n")
            count += table.num_rows
        with new_local_file(os.path.join(folder, MAPPING_FILE)) as out:
            out.write("".join(mapping).encode())
    return count


def _null_mark(info: TypeInfo, table: pa.Table) -> str:
    r"""Return how null is written: as nothing, or as `\N` where an empty text is among the texts.

    If that is one of the texts, too, as the first of `\NN`, `\NNN`, ... that is none.
    """
    texts = [item.name for item in info.properties if _is_text(item)]
    texts += [name for name in ("id", "from", "to") if name in table.column_names]
    mark = ""
    while any(pc.any(pc.equal(table[name], mark), min_count=0).as_py() for name in texts):
        mark = mark + "N" if mark else r"\N"
    return mark


def _is_text(item: PropertyInfo) -> bool:
    return item.scalar == Scalar.STRING and not item.is_list


def _write_rows(info: TypeInfo, table: pa.Table, null: str, out: IO[bytes]) -> None:
    out.write((",".join(table.column_names) + "\n").encode())
    for start in range(0, table.num_rows, BATCH_ROWS):
        columns = [values for _name, values in _texts(info, table.slice(start, BATCH_ROWS))]
        for row in zip(*columns, strict=True):
            line = ",".join(null if text is None else _csv_field(text) for text in row)
            out.write(f"{line}\n".encode())


def _csv_field(text: str) -> str:
    if _QUOTED.search(text) is None:
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


@contextlib.contextmanager
def _new_folder(dest: str) -> Iterator[str]:
    """Give a folder to write to, which gets its name when the block ends well."""
    if is_object(dest):
        raise BadRequestError(f"{dest}: a folder of CSV is written to this machine only")
    target = os.path.abspath(dest)
    if is_taken(target):
        raise AlreadyExistsError(f"{dest} exists already", hint="name a new folder")
    folder = f"{target}.{secrets.token_hex(8)}.partial"
    try:
        os.makedirs(folder)
        yield folder
        os.rename(folder, target)
    except OSError as error:
        raise StorageError(f"cannot write {dest}: {error.strerror or error}") from error
    finally:
        remove_folder(folder)


# ---- GraphML ------------------------------------------------------------------------------

_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"
    xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns
    http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">
"""
_OPEN = '  <graph id="G" edgedefault="directed">\n'
_CLOSE = "  </graph>\n</graphml>\n"


def _write_graphml(state: StateRows, out: IO[bytes]) -> int:
    keys = _Keys(state.types)
    out.write((_HEAD + "".join(keys.declared) + _OPEN).encode())
    count = 0
    for info in state.types:
        table = state.rows(info)
        for start in range(0, table.num_rows, BATCH_ROWS):
            rows = table.slice(start, BATCH_ROWS)
            lines = [_element(info, row, keys) for row in _named_texts(info, rows)]
            out.write("".join(lines).encode())
        count += table.num_rows
    out.write(_CLOSE.encode())
    return count


class _Keys:
    """The attributes of a file: one for each name and type of value among nodes, and edges."""

    def __init__(self, types: tuple[TypeInfo, ...]) -> None:
        self.declared: list[str] = []
        self._ids: dict[tuple[str, str], str] = {}
        names = [prop.name for item in types for prop in item.properties]
        attribute = type_attribute(names)
        for kind in ("node", "edge"):
            self._declare(kind, f"{kind}.type", attribute, "string", "")
            self._declare(kind, f"{kind}.id", "id", "string", "")
        for info in types:
            for item in info.properties:
                self._property(info, item)

    def of(self, info: TypeInfo, name: str) -> str:
        """Return the key of a property."""
        return self._ids[info.name, name]

    def _property(self, info: TypeInfo, item: PropertyInfo) -> None:
        key = f"{info.kind}.property.{item.name}.{item.type.rstrip('?')}"
        key = re.sub(r"[^\w.]", "_", key)
        form = _GRAPHML_TYPES.get(Scalar(item.scalar), "string")
        if key not in self._ids.values():
            form = "string" if item.is_list else form
            self._declare(info.kind, key, item.name, form, item.type.rstrip("?"))
        self._ids[info.name, item.name] = key

    def _declare(self, kind: str, key: str, name: str, form: str, note: str) -> None:
        desc = f"<desc>{note.translate(_IN_TEXT)}</desc>" if note else ""
        self.declared.append(
            f'  <key id={_attribute(key)} for="{kind}" attr.name={_attribute(name)}'
            f' attr.type="{form}">{desc}</key>\n'
        )


def _named_texts(info: TypeInfo, rows: pa.Table) -> Iterator[dict[str, str]]:
    names, columns = zip(*_texts(info, rows), strict=True)
    for row in zip(*columns, strict=True):
        pairs = zip(names, row, strict=True)
        yield {name: text for name, text in pairs if text is not None}


def _element(info: TypeInfo, row: dict[str, str], keys: _Keys) -> str:
    """Return one node or edge as a line."""
    entity_id = row.pop("id")
    place = f"{info.name} {entity_id!r}"
    ends = (row.pop("from"), row.pop("to")) if info.kind == "edge" else ("", "")
    data = _data(f"{info.kind}.type", info.name, place)
    data += _data(f"{info.kind}.id", entity_id, place)
    for name, text in row.items():
        data += _data(keys.of(info, name), text, f"{place}: {name}")
    if info.kind == "node":
        return f"    <node id={_attribute(f'{info.name}:{entity_id}', place)}>{data}</node>\n"
    # Without an XML id: readers such as networkx would take it for the id of the edge.
    source = _attribute(f"{info.source}:{ends[0]}", place)
    target = _attribute(f"{info.target}:{ends[1]}", place)
    return f"    <edge source={source} target={target}>{data}</edge>\n"


def _data(key: str, text: str, place: str) -> str:
    return f'<data key="{key}">{_xml(text, place).translate(_IN_TEXT)}</data>'


def _attribute(text: str, place: str = "") -> str:
    return f'"{_xml(text, place).translate(_IN_ATTRIBUTE)}"'


def _xml(text: str, place: str) -> str:
    match = _NOT_XML.search(text)
    if match is not None:
        raise BadRequestError(
            f"{place} holds the character U+{ord(match.group()):04X}, which XML cannot hold",
            hint="export it as jsonl or csv",
        )
    return text
