"""Random schemas as `.pg` text that compiles, and pairs of them that a plan can migrate.

Texts carry random spacing and comments between any two tokens. Names come from small pools, so two
independent schemas share many of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import TypeVar

from hypothesis import strategies as st

from omnigraph.catalog import TypeKind

T = TypeVar("T")
Tokens = tuple[str, ...]

INTERFACE_NAMES = ("Named", "Timed")
NODE_NAMES = ("Person", "Rack", "Sample", "Tube")
EDGE_NAMES = ("Holds", "Knows", "StoredIn")
PROPERTY_NAMES = ("age", "body", "code", "note", "size", "tag_list", "vec")
ENUM_VALUES = ("a", "b-c", "frozen", "1st", "X_9")
SEPARATORS = (" ", "\n", "\n\n\n", "\t", " // why\n", " /* what */ ", "\n/* a\n   b */\n")
LITERALS = {
    "String": ('"x"', '"two\\nlines"', '"q \\" q"'),
    "Bool": ("true", "false"),
    "I32": ("7", "-7"),
    "I64": ("0", "-9000000000"),
    "U32": ("7",),
    "U64": ("18446744073709551615",),
    "F32": ("0.5", "3"),
    "F64": ("-0.25", "10"),
    "Date": ('"2024-02-29"',),
    "DateTime": ('"2024-02-29T12:00:00Z"',),
}
FREE_ANNOTATIONS: tuple[Tokens, ...] = (
    ("@", "description", "(", '"some text"', ")"),
    ("@", "rename_from", "(", '"ghost"', ")"),
    ("@", "pinned"),
    ("@", "pinned", "(", "word", ")"),
    ("@", "tag", "(", "[1, -2]", ",", "key", "=", '"v"', ")"),
)
BOUNDS: tuple[Tokens, ...] = (("0", ".."), ("..", "9.5"), ("-", "1", "..", "20"))
NUMERIC = ("I32", "I64", "U32", "U64", "F32", "F64")


class Coins:
    """Many small choices out of one drawn string of bytes: far cheaper than a draw for each."""

    def __init__(self, data: bytes) -> None:
        self._data = iter(data)

    def flip(self) -> bool:
        return bool(next(self._data, 0) & 1)

    def pick(self, options: Sequence[T]) -> T:
        return options[next(self._data, 0) % len(options)]

    def some(self, options: Sequence[T]) -> list[T]:
        return [item for item in options if self.flip()]


def coins() -> st.SearchStrategy[Coins]:
    return st.binary(min_size=64, max_size=64).map(Coins)


@dataclass(frozen=True)
class PropertyDraft:
    name: str
    core: Tokens
    nullable: bool
    annotations: tuple[Tokens, ...] = ()

    @property
    def is_enum(self) -> bool:
        return self.core[0] == "enum"

    @property
    def is_text(self) -> bool:
        return self.is_enum or self.core == ("String",)

    @property
    def is_scalar(self) -> bool:
        return self.is_enum or self.core[0] in LITERALS

    def has(self, word: str) -> bool:
        return any(item[1] == word for item in self.annotations)

    def without(self, word: str) -> PropertyDraft:
        kept = tuple(item for item in self.annotations if item[1] != word)
        return replace(self, annotations=kept)

    def with_annotation(self, item: Tokens) -> PropertyDraft:
        return replace(
            self.without(item[1]), annotations=(*self.without(item[1]).annotations, item)
        )

    def tokens(self) -> Iterator[str]:
        yield from (self.name, ":", *self.core)
        if self.nullable:
            yield "?"
        for item in self.annotations:
            yield from item


@dataclass(frozen=True)
class TypeDraft:
    kind: TypeKind
    name: str
    properties: tuple[PropertyDraft, ...] = ()
    rules: tuple[Tokens, ...] = ()
    head: tuple[Tokens, ...] = ()
    implements: tuple[str, ...] = ()
    source: str = ""
    target: str = ""

    def tokens(self) -> Iterator[str]:
        yield from (str(self.kind), self.name)
        if self.kind is TypeKind.EDGE:
            yield from (":", self.source, "->", self.target)
        if self.implements:
            yield from ("implements", *_commas(self.implements))
        for item in self.head:
            yield from item
        if self.properties or self.rules or self.kind is not TypeKind.EDGE:
            yield "{"
            for member in self.properties:
                yield from member.tokens()
            for rule in self.rules:
                yield from rule
            yield "}"

    def replacing(self, old: PropertyDraft, *new: PropertyDraft) -> TypeDraft:
        found: list[PropertyDraft] = []
        for item in self.properties:
            found.extend(new if item == old else (item,))
        return replace(self, properties=tuple(found))


@dataclass(frozen=True)
class SchemaDraft:
    types: tuple[TypeDraft, ...]

    def text(self, separators: Sequence[str]) -> str:
        spaces = cycle(separators or (" ",))
        return "".join(token + next(spaces) for item in self.types for token in item.tokens())

    def of(self, kind: TypeKind) -> list[TypeDraft]:
        return [item for item in self.types if item.kind is kind]

    def replacing(self, old: TypeDraft, *new: TypeDraft) -> SchemaDraft:
        found: list[TypeDraft] = []
        for item in self.types:
            found.extend(new if item == old else (item,))
        return SchemaDraft(types=tuple(found))


def _commas(words: Sequence[str]) -> Tokens:
    return tuple(piece for word in words for piece in (",", word))[1:]


def call(word: str, *arguments: str) -> Tokens:
    return ("@", word, "(", *_commas(arguments), ")")


def spacing() -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(SEPARATORS), min_size=1, max_size=9)


def some_of(names: Sequence[str], *, most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), unique=True, max_size=most)


def _core(coins: Coins) -> Tokens:
    shape = coins.pick(("scalar", "scalar", "enum", "list", "vector", "blob"))
    if shape == "enum":
        return ("enum", "(", *_commas(coins.some(ENUM_VALUES) or ENUM_VALUES[:1]), ")")
    if shape == "vector":
        return ("Vector", "(", coins.pick("123456789"), ")")
    if shape == "blob":
        return ("Blob",)
    scalar = coins.pick(tuple(LITERALS))
    return ("[", scalar, "]") if shape == "list" else (scalar,)


def _default(coins: Coins, core: Tokens) -> Tokens | None:
    if core[0] == "enum":
        words = [word for word in core[2:-1] if word in ("a", "frozen", "X_9")]
        return call("default", coins.pick(words)) if words else None
    if core[0] == "[":
        return ("@", "default", "(", "[", LITERALS[core[1]][0], "]", ")")
    if core[0] in LITERALS:
        return call("default", coins.pick(LITERALS[core[0]]))
    return None


def _property(coins: Coins, name: str) -> PropertyDraft:
    found = PropertyDraft(name=name, core=_core(coins), nullable=coins.flip())
    if found.is_scalar:
        for word in coins.some(("unique", "index")):
            found = found.with_annotation(("@", word))
    default = _default(coins, found.core) if coins.flip() else None
    if default is not None:
        found = found.with_annotation(default)
    if coins.flip():
        found = found.with_annotation(coins.pick(FREE_ANNOTATIONS))
    return found


def _rules(coins: Coins, item: TypeDraft) -> Iterator[Tokens]:
    plain = [found.name for found in item.properties if found.is_scalar]
    columns = [*plain, "src", "dst"] if item.kind is TypeKind.EDGE else plain
    for word in ("unique", "index"):
        if picked := coins.some(columns):
            yield call(word, *picked)
    if item.kind is TypeKind.EDGE:
        return
    for found in item.properties:
        if found.core[0] in NUMERIC and coins.flip():
            yield ("@", "range", "(", found.name, ",", *coins.pick(BOUNDS), ")")
        elif found.is_text and coins.flip():
            yield call("check", found.name, '"^[a-z]+\\\\d$"')


def _with_key(coins: Coins, item: TypeDraft) -> TypeDraft:
    eligible = [
        found
        for found in item.properties
        if found.is_scalar and not found.nullable and not found.has("default")
    ]
    if not eligible or not coins.flip():
        return item
    if len(eligible) > 1 and coins.flip():
        names = [found.name for found in eligible[:2]]
        return replace(item, rules=(*item.rules, call("key", *names)))
    return item.replacing(eligible[0], eligible[0].with_annotation(("@", "key")))


def _with_embedding(coins: Coins, item: TypeDraft) -> TypeDraft:
    vector = next((found for found in item.properties if found.core[0] == "Vector"), None)
    source = next((found.name for found in item.properties if found.is_text), None)
    if vector is None or source is None or not coins.flip():
        return item
    spelled = ("@", "embed", "(", f'"{source}"', ",", "model", "=", '"m"', ")")
    return item.replacing(vector, vector.with_annotation(spelled))


def _interface(coins: Coins, name: str) -> TypeDraft:
    # Own property names per interface: two contracts never disagree on a property.
    names = [f"{name.lower()}_{suffix}" for suffix in coins.some("xyz")]
    members = tuple(_property(coins, found) for found in names)
    return TypeDraft(kind=TypeKind.INTERFACE, name=name, properties=members)


def _node(coins: Coins, name: str, interfaces: Sequence[TypeDraft] = ()) -> TypeDraft:
    members = tuple(_property(coins, found) for found in coins.some(PROPERTY_NAMES))
    item = TypeDraft(kind=TypeKind.NODE, name=name, properties=members)
    item = _with_embedding(coins, _with_key(coins, item))
    item = replace(item, rules=(*item.rules, *_rules(coins, item)))
    picked = coins.some(interfaces)
    for interface in picked:
        # Some contracts are met by a declaration of the node's own.
        if interface.properties and coins.flip():
            own = replace(interface.properties[0], annotations=())
            item = replace(item, properties=(*item.properties, own))
    head = (call("description", '"a node"'),) if coins.flip() else ()
    return replace(item, head=head, implements=tuple(found.name for found in picked))


def _edge(coins: Coins, name: str, node_names: Sequence[str]) -> TypeDraft:
    item = TypeDraft(
        kind=TypeKind.EDGE,
        name=name,
        properties=tuple(_property(coins, found) for found in coins.some(PROPERTY_NAMES[:4])),
        head=tuple(
            coins.some((call("instruction", '"an edge"'), ("@", "card", "(", "0", "..", "2", ")")))
        ),
        source=coins.pick(node_names),
        target=coins.pick(node_names),
    )
    return replace(item, rules=tuple(_rules(coins, item)))


@st.composite
def drafts(draw: st.DrawFn) -> SchemaDraft:
    interfaces = [
        _interface(draw(coins()), name) for name in draw(some_of(INTERFACE_NAMES, most=2))
    ]
    node_names = draw(some_of(NODE_NAMES, most=3))
    found = [*interfaces]
    found += [_node(draw(coins()), name, interfaces) for name in node_names]
    if node_names:
        edge_names = draw(some_of(EDGE_NAMES, most=2))
        found += [_edge(draw(coins()), name, node_names) for name in edge_names]
    return SchemaDraft(types=tuple(draw(st.permutations(found))))


@st.composite
def schemas(draw: st.DrawFn) -> str:
    """Yield `.pg` texts that compile."""
    return draw(drafts()).text(draw(spacing()))


def _mentions(item: TypeDraft, name: str) -> bool:
    embeds = any(f'"{name}"' in note for found in item.properties for note in found.annotations)
    return embeds or any("key" in rule and name in rule for rule in item.rules)


def _free_properties(item: TypeDraft) -> list[PropertyDraft]:
    """List the properties that can go: no key, no embedding source, no interface contract."""
    return [
        found
        for found in item.properties
        if found.name in PROPERTY_NAMES and not found.has("key") and not _mentions(item, found.name)
    ]


def _renamed(item: TypeDraft, old: PropertyDraft) -> TypeDraft:
    hint = call("rename_from", f'"{old.name}"')
    new = replace(old, name=f"new_{old.name}").with_annotation(hint)
    rules = tuple(
        tuple(new.name if word == old.name else word for word in rule) for rule in item.rules
    )
    return replace(item.replacing(old, new), rules=rules)


def _edited(coins: Coins, item: TypeDraft) -> TypeDraft:
    free = _free_properties(item)
    if free and coins.flip():
        gone = free.pop()
        kept = tuple(rule for rule in item.rules if gone.name not in rule)
        item = replace(item.replacing(gone), rules=kept)
    if free and coins.flip():
        item = _renamed(item, free.pop())
    for old in free:
        new = old
        if old.is_enum and coins.flip():
            new = replace(new, core=("enum", "(", "zebra", ",", *old.core[2:]))
        if old.is_scalar and coins.flip():
            new = new.without("default").with_annotation(("@", "index"))
        item = item.replacing(old, new)
    if coins.flip():
        extra = PropertyDraft(name="extra", core=("I32",), nullable=coins.flip())
        extra = extra.with_annotation(call("default", "1"))
        item = replace(item, properties=(*item.properties, extra))
    return item


def _with_renamed_node(schema: SchemaDraft, old: TypeDraft) -> SchemaDraft:
    name = f"New{old.name}"
    head = (*old.head, call("rename_from", f'"{old.name}"'))
    schema = schema.replacing(old, replace(old, name=name, head=head))
    for edge in schema.of(TypeKind.EDGE):
        source = name if edge.source == old.name else edge.source
        target = name if edge.target == old.name else edge.target
        schema = schema.replacing(edge, replace(edge, source=source, target=target))
    return schema


def _with_new_node(coins: Coins, schema: SchemaDraft) -> SchemaDraft:
    added = _node(coins, "Added")
    # A new type cannot take over properties, so its hints would be refused.
    bare = tuple(found.without("rename_from") for found in added.properties)
    return SchemaDraft(types=(*schema.types, replace(added, properties=bare)))


@st.composite
def migrations(draw: st.DrawFn) -> tuple[str, str]:
    """Yield pairs of texts such that a plan can lead from the first to the second."""
    before = after = draw(drafts())
    for item in before.types:
        if item.kind is not TypeKind.INTERFACE:
            after = after.replacing(item, _edited(draw(coins()), item))
    choices = draw(coins())
    if (edge_types := after.of(TypeKind.EDGE)) and choices.flip():
        after = after.replacing(edge_types[0])
    if (node_types := after.of(TypeKind.NODE)) and choices.flip():
        after = _with_renamed_node(after, node_types[0])
    if choices.flip():
        after = _with_new_node(draw(coins()), after)
    return before.text(draw(spacing())), after.text(draw(spacing()))
