"""Rules of a resolution as data: read strictly, and checked before any row is read."""

from __future__ import annotations

import builtins
import hashlib
import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct, field

from omnigraph.catalog import Catalog, NodeType, Property, Scalar
from omnigraph.catalog.types import NUMERICS, TEMPORALS
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.extras import needed
from omnigraph.limits import RESOLVE_BLOCK_NODES, RESOLVE_CLUSTER_NODES
from omnigraph.store import read_text
from omnigraph.wording import names_hint

KeyWord = Literal["exact", "normalised", "prefix", "initials", "words"]
"""What makes two nodes candidates: equal values, texts, beginnings, first letters, or words."""
CompareWord = Literal["exact", "normalised", "edit", "words", "vector"]
"""How two values are compared; `words` are edits of the words in alphabetical order."""
MeasureWord = Literal["cosine", "l2"]
"""How the distance of two vectors is measured."""
SurvivorWord = Literal["lowest_id", "most_edges", "newest"]
"""Which node of a cluster stays."""
ValueWord = Literal["survivor", "first", "longest", "newest"]
"""Which value of a cluster a property of the survivor gets."""

ALL_OTHERS = "*"
EDITS: tuple[CompareWord, ...] = ("edit", "words")
"""Comparisons that count edits."""


class Key(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a block: nodes whose keys are equal are candidates. Null is in no block."""

    property: str
    by: KeyWord = "exact"
    length: int | None = None
    """Letters of a `prefix`."""


class Comparison(Struct, frozen=True, forbid_unknown_fields=True):
    """One comparison of two candidates. With a `threshold`, a pair that misses it is no match."""

    property: str
    by: CompareWord = "exact"
    weight: float = 1.0
    threshold: float | None = None
    measure: MeasureWord | None = None
    """Of a `vector`; cosine unless given."""

    @builtins.property
    def name(self) -> str:
        """The column of its scores."""
        return f"{self.property}_{self.by}"


class Rules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which nodes of a type are the same, and what one node is made of them.

    >>> from omnigraph.resolve import Comparison, Key, Rules
    >>> rules = Rules(
    ...     type="Person",
    ...     blocks=[Key("name", by="prefix", length=1)],
    ...     compare=[Comparison("name", by="edit")],
    ...     threshold=0.8,
    ... )
    >>> rules.threshold
    0.8

    A block is one key, or several that must all be equal; a pair is compared if it shares any
    block. `newest_by` names the property that says which node is newer. `properties` says which
    value each property of the survivor gets; `*` stands for all that are not named.
    """

    type: str
    blocks: Sequence[Key | Sequence[Key]]
    compare: Sequence[Comparison]
    threshold: float
    survivor: SurvivorWord = "lowest_id"
    newest_by: str | None = None
    properties: Mapping[str, ValueWord] = field(default_factory=dict)
    block_nodes_max: int = RESOLVE_BLOCK_NODES
    cluster_nodes_max: int = RESOLVE_CLUSTER_NODES

    @property
    def keys(self) -> tuple[tuple[Key, ...], ...]:
        """The keys of each block."""
        return tuple((item,) if isinstance(item, Key) else tuple(item) for item in self.blocks)

    def digest(self) -> str:
        """Return what tells these rules from others."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]

    def check_values(self) -> None:
        """Refuse what no graph could make right. Raises `BadRequestError`."""
        if not self.blocks or not all(self.keys):
            raise BadRequestError("'blocks' needs a key: without blocks all pairs are compared")
        if not self.compare:
            raise BadRequestError("'compare' needs a comparison")
        _check_share("'threshold'", self.threshold)
        for key in (key for block in self.keys for key in block):
            if key.length is not None and (key.by != "prefix" or key.length < 1):
                raise BadRequestError(
                    f"key of '{key.property}': 'length' is the number of letters of a prefix"
                )
        for item in self.compare:
            if item.threshold is not None:
                _check_share(f"'threshold' of '{item.property}'", item.threshold)
            if not (math.isfinite(item.weight) and item.weight > 0):
                raise BadRequestError(f"'weight' of '{item.property}' is above 0")
            if item.measure is not None and item.by != "vector":
                raise BadRequestError(f"'measure' of '{item.property}' is for vectors")
        names = [item.name for item in self.compare]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise BadRequestError(f"the comparison {twice} appears twice")
        if self.block_nodes_max < 2 or self.cluster_nodes_max < 2:
            raise BadRequestError("'block_nodes_max' and 'cluster_nodes_max' are from 2 on")
        if self.newest_by is None and "newest" in (self.survivor, *self.properties.values()):
            raise BadRequestError("'newest' needs 'newest_by', the property that says when")

    def check(self, catalog: Catalog) -> NodeType:
        """Refuse what does not fit a schema, or lacks a package, and return the type."""
        self.check_values()
        node = catalog.nodes.get(self.type)
        if node is None:
            if self.type in catalog.edges:
                raise BadRequestError(f"{self.type} is an edge type: nodes are resolved")
            hint = names_hint(self.type, catalog.nodes)
            raise NotFoundError(f"unknown node type '{self.type}'", hint=hint)
        for key in (key for block in self.keys for key in block):
            _check_key(node, key)
        for item in self.compare:
            _check_comparison(node, item)
        if self.newest_by is not None:
            declared = _property(node, self.newest_by).type
            if declared.is_list or declared.scalar not in (NUMERICS | TEMPORALS):
                raise _wrong_type(node, self.newest_by, "'newest_by'", "a time or a number")
        for name, rule in self.properties.items():
            if name != ALL_OTHERS:
                _check_value_rule(node, name, rule)
            elif rule == "longest":
                raise BadRequestError("'longest' is for properties that are named, not for '*'")
        if any(item.by in EDITS for item in self.compare):
            needed("rapidfuzz", "comparing by edit distance", extra="resolve")
        return node

    def value_rules(self, node: NodeType) -> dict[str, ValueWord]:
        """Return the properties whose value may come from another node, with their rule."""
        others = self.properties.get(ALL_OTHERS, "survivor")
        rules: dict[str, ValueWord] = {}
        for name, declared in node.properties.items():
            own = name in node.key or declared.type.scalar is Scalar.BLOB
            if own or declared.embedding is not None:
                continue
            rule = self.properties.get(name, others)
            if rule != "survivor":
                rules[name] = rule
        return rules


def read_rules(path: str | os.PathLike[str]) -> Rules:
    """Read rules from a TOML file. Raises `BadRequestError`."""
    name = os.fspath(path)
    return parse_rules(read_text(name), name)


def parse_rules(text: str, name: str) -> Rules:
    """Return the rules of a TOML text; `name` says in errors where they stand."""
    try:
        fields = tomllib.loads(text)
    except ValueError as error:
        raise BadRequestError(f"{name} is not a TOML file: {error}") from error
    return rules_of(fields, name)


def rules_of(fields: Mapping[str, object], name: str) -> Rules:
    """Return rules from parsed TOML; `name` says in errors where they stand."""
    try:
        rules = msgspec.convert(fields, Rules)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"{name}: {error}") from error
    try:
        rules.check_values()
    except BadRequestError as error:
        raise BadRequestError(f"{name}: {error.message}", hint=error.hint) from None
    return rules


# ---- checks ---------------------------------------------------------------------------------


def _check_share(what: str, value: float) -> None:
    if not 0 < value <= 1:
        raise BadRequestError(f"{what} is above 0 and at most 1, not {value}")


def _property(node: NodeType, name: str) -> Property:
    prop = node.properties.get(name)
    if prop is None:
        hint = names_hint(name, node.properties)
        raise BadRequestError(f"{node.name} has no property '{name}'", hint=hint)
    return prop


def _wrong_type(node: NodeType, name: str, use: str, wanted: str) -> BadRequestError:
    kind = node.properties[name].type
    return BadRequestError(f"{use} needs {wanted}, and {node.name}.{name} is {kind}")


def _check_key(node: NodeType, key: Key) -> None:
    declared = _property(node, key.property).type
    if key.by == "exact" and not declared.is_scalar:
        raise _wrong_type(node, key.property, "the key 'exact'", "one value")
    if key.by != "exact" and not declared.is_text:
        raise _wrong_type(node, key.property, f"the key '{key.by}'", "a text")


def _check_comparison(node: NodeType, item: Comparison) -> None:
    declared = _property(node, item.property).type
    use = f"the comparison '{item.by}'"
    if item.by == "vector" and (declared.is_list or declared.scalar is not Scalar.VECTOR):
        raise _wrong_type(node, item.property, use, "a vector")
    if item.by in ("normalised", "edit", "words") and not declared.is_text:
        raise _wrong_type(node, item.property, use, "a text")
    if item.by == "exact" and not declared.is_scalar:
        raise _wrong_type(node, item.property, use, "one value")


def _check_value_rule(node: NodeType, name: str, rule: ValueWord) -> None:
    declared = _property(node, name)
    if rule == "survivor":
        return
    if name in node.key:
        raise BadRequestError(f"{node.name}.{name} is its key, which the survivor keeps")
    if declared.type.scalar is Scalar.BLOB:
        raise BadRequestError(f"{node.name}.{name} is a blob, which the survivor keeps")
    if declared.embedding is not None:
        source = declared.embedding.source
        raise BadRequestError(f"{node.name}.{name} follows '{source}', whose vector it is")
    if rule == "longest" and not (declared.type.is_text or declared.type.is_list):
        raise _wrong_type(node, name, "'longest'", "a text or a list")
