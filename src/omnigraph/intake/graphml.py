"""GraphML files as columns of types: those that an export writes, and those of other programs.

A file is held in memory. Its ids name nodes inside the file; the ids of the graph come from keys,
from an attribute `id`, or are the file's where a type has no key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO
from xml.parsers import expat

import pyarrow as pa
from msgspec import Struct

from omnigraph.catalog import Catalog, EdgeType, Entity, NodeType
from omnigraph.compute.types import Column
from omnigraph.errors import BadRequestError
from omnigraph.intake.shapes import text_array
from omnigraph.rows.keys import key_ids
from omnigraph.rows.problems import Problem, Problems

Frame = tuple[Entity, pa.Table, list[int]]
Skip = Callable[[int], bool]
# How files say of which type something is: an export of ours, of Neo4j (`:Person`), others.
_OWN_TYPE = "\0type"
_NODE_TYPES = (_OWN_TYPE, "labels", "type", "label")
_EDGE_TYPES = (_OWN_TYPE, "label", "type", "labels")
_ID = "id"


class _Item(Struct):
    """A node or edge of the file, with the texts of its attributes."""

    number: int
    kind: str
    xml_id: str | None
    ends: tuple[str, str]
    data: dict[str, str]


class _Key(Struct):
    """An attribute that a file declares."""

    name: str
    of: str
    default: str | None = None


def graphml_frames(
    handle: IO[bytes], catalog: Catalog, problems: Problems, *, skip: Skip | None = None
) -> tuple[list[Frame], list[int]]:
    """Return a frame for each type with the number of each element, and the lines of elements.

    Elements are counted from 1, as many may stand on a line; so do problems. `skip` tells elements
    to leave out.
    """
    parser = _Parser(problems)
    parser.read(handle)
    items = [item for item in parser.items if skip is None or not skip(item.number)]
    nodes: dict[str, list[_Item]] = {}
    edges: dict[str, list[_Item]] = {}
    for item in items:
        by_type = nodes if item.kind == "node" else edges
        entity = _type_of(item, catalog, problems)
        if entity is not None:
            by_type.setdefault(entity.name, []).append(item)
    named: dict[str, tuple[str, str | None]] = {}
    frames = [_nodes(catalog.nodes[name], group, named, problems) for name, group in nodes.items()]
    frames += [_edges(catalog.edges[name], group, named, problems) for name, group in edges.items()]
    return frames, parser.lines


def _type_of(item: _Item, catalog: Catalog, problems: Problems) -> Entity | None:
    """Return the type of a node or edge, and take the attribute that names it away."""
    marks = _NODE_TYPES if item.kind == "node" else _EDGE_TYPES
    said: str | None = None
    for mark in marks:
        text = item.data.get(mark)
        if text is None:
            continue
        said = said or text
        entity = _entity(item.kind, text, catalog)
        if entity is not None:
            del item.data[mark]
            return entity
    known: list[Entity] = list((catalog.nodes if item.kind == "node" else catalog.edges).values())
    if len(known) == 1:
        return known[0]
    what = "has no attribute 'type'" if said is None else f"is of type {said!r}, which is unknown"
    names = ", ".join(entity.name for entity in known)
    message = f"{item.kind} {item.xml_id!r} {what}; expected one of {names}"
    problems.add(Problem(message=message, line=item.number))
    return None


def _entity(kind: str, text: str, catalog: Catalog) -> Entity | None:
    for name in text.strip(":").split(":"):
        entity = catalog.nodes.get(name) if kind == "node" else catalog.edge_by_word(name)
        if entity is not None:
            return entity
    return None


def _nodes(
    node: NodeType,
    items: list[_Item],
    named: dict[str, tuple[str, str | None]],
    problems: Problems,
) -> Frame:
    """Return nodes as a frame, and note in `named` which ids they have in the graph."""
    lines = [item.number for item in items]
    columns = _properties(node, items, problems)
    given = [item.data.get(_ID) for item in items]
    if not node.key:
        columns[_ID] = [
            item.xml_id if own is None else own for item, own in zip(items, given, strict=True)
        ]
        ids = columns[_ID]
    else:
        columns[_ID] = given
        ids = _key_texts(node, columns, given)
    for item, entity_id in zip(items, ids, strict=True):
        if item.xml_id is None:
            problems.add(Problem(message="a node has no id", line=item.number))
        elif item.xml_id in named:
            problems.add(Problem(message=f"node {item.xml_id!r} appears twice", line=item.number))
        else:
            named[item.xml_id] = node.name, entity_id
    return node, _frame(columns), lines


def _key_texts(
    node: NodeType, columns: dict[str, Column | list[str | None]], given: list[str | None]
) -> list[str | None]:
    """Return the ids of nodes with a key; without an own `id` only a key of one column tells it.

    The order of several columns in an id is not part of the types a file is read with.
    """
    if len(node.key) > 1 or node.key[0] not in columns:
        return given
    (name,) = node.key
    return list(key_ids([columns[name]], [node.properties[name].type]).to_pylist())


def _edges(
    edge: EdgeType,
    items: list[_Item],
    named: dict[str, tuple[str, str | None]],
    problems: Problems,
) -> Frame:
    columns = _properties(edge, items, problems)
    columns[_ID] = [item.data.get(_ID) for item in items]
    wanted = (edge.source, edge.target)
    for number, (word, end) in enumerate((("from", "source"), ("to", "target"))):
        ids: list[str | None] = []
        for item in items:
            xml_id = item.ends[number]
            type_name, entity_id = named.get(xml_id, ("", None))
            ids.append(entity_id)
            message = None
            if not type_name:
                message = f"edge {edge.name}: its {end} {xml_id!r} is not a node of the file"
            elif type_name != wanted[number]:
                message = (
                    f"edge {edge.name}: its {end} {xml_id!r} is of type {type_name}, "
                    f"expected {wanted[number]}"
                )
            elif entity_id is None:
                message = f"edge {edge.name}: its {end} {xml_id!r} needs an attribute 'id'"
            if message is not None:
                problems.add(Problem(message=message, type_name=edge.name, line=item.number))
        columns[word] = ids
    return edge, _frame(columns), [item.number for item in items]


def _properties(
    entity: Entity, items: list[_Item], problems: Problems
) -> dict[str, Column | list[str | None]]:
    """Return the attributes of some items as columns; names that are no property stay texts."""
    names = dict.fromkeys(name for item in items for name in item.data if name != _ID)
    columns: dict[str, Column | list[str | None]] = {}
    for name in names:
        texts = [item.data.get(name) for item in items]
        declared = entity.properties.get(name)
        if declared is None:
            columns[name] = texts
            continue

        def report(row: int, message: str, field: str = name) -> None:
            problems.add(
                Problem(
                    message=f"property '{field}': {message}",
                    type_name=entity.name,
                    field=field,
                    line=items[row].number,
                )
            )

        columns[name] = text_array(texts, declared.type, report)
    return columns


def _frame(columns: dict[str, Column | list[str | None]]) -> pa.Table:
    return pa.table(
        {
            name: pa.array(values, pa.string()) if isinstance(values, list) else values
            for name, values in columns.items()
        }
    )


class _Parser:
    """Reads the nodes and edges of a file in one pass."""

    def __init__(self, problems: Problems) -> None:
        self.items: list[_Item] = []
        self.lines: list[int] = []
        self._problems = problems
        self._keys: dict[str, _Key] = {}
        self._item: _Item | None = None
        self._key: _Key | None = None
        self._data: str | None = None
        self._text: list[str] | None = None
        # The separator makes the parser give names as "namespace name".
        self._expat = expat.ParserCreate(namespace_separator=" ")
        self._expat.buffer_text = True
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._expat.CharacterDataHandler = self._characters
        self._expat.EntityDeclHandler = _refuse_entities

    def read(self, handle: IO[bytes]) -> None:
        """Take in a file."""
        try:
            self._expat.ParseFile(handle)
        except expat.ExpatError as error:
            message = f"not valid XML: {expat.ErrorString(error.code)}"
            self._problems.add(Problem(message=message, line=self._number(error.lineno)))
        except (LookupError, ValueError) as error:
            # The encoding that the file says it has.
            self._problems.add(Problem(message=f"not valid XML: {error}", line=self._number(1)))

    def _number(self, line: int) -> int:
        """Return the number of something that begins on a line."""
        self.lines.append(line)
        return len(self.lines)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        tag, line = name.rpartition(" ")[2], self._expat.CurrentLineNumber
        if tag == "key":
            own = attributes.get("id", "")
            told = attributes.get("attr.name", own)
            self._key = _Key(
                _OWN_TYPE if own in ("node.type", "edge.type") else told,
                attributes.get("for", "all"),
            )
            self._keys[own] = self._key
        elif tag in ("node", "edge"):
            ends = (attributes.get("source", ""), attributes.get("target", ""))
            own_id, data = attributes.get("id"), dict(self._defaults(tag))
            self._item = _Item(self._number(line), tag, own_id, ends, data)
            self.items.append(self._item)
        elif tag == "hyperedge":
            message = "a hyperedge joins any number of nodes, an edge two"
            self._problems.add(Problem(message=message, line=self._number(line)))
        elif tag == "data" and self._item is not None:
            self._data, self._text = attributes.get("key", ""), []
            if self._data not in self._keys:
                message = f"the key {self._data!r} is not declared"
                self._problems.add(Problem(message=message, line=self._item.number))
        elif tag == "default" and self._key is not None:
            self._text = []

    def _defaults(self, kind: str) -> Iterator[tuple[str, str]]:
        for key in self._keys.values():
            if key.default is not None and key.of in (kind, "all"):
                yield key.name, key.default

    def _end(self, name: str) -> None:
        tag = name.rpartition(" ")[2]
        if tag == "data" and self._item is not None and self._text is not None:
            key = self._keys.get(self._data or "")
            if key is not None:
                self._item.data[key.name] = "".join(self._text)
            self._text = None
        elif tag == "default" and self._key is not None and self._text is not None:
            self._key.default, self._text = "".join(self._text), None
        elif tag == "key":
            self._key = None
        elif tag in ("node", "edge"):
            self._item = None

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)


def _refuse_entities(*_declared: object) -> None:
    # A few nested ones would stand for gigabytes.
    raise BadRequestError("the file declares entities of its own", hint="write it without them")
