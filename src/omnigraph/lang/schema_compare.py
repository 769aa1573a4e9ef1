"""Compares two catalogs whose declarations are matched already, and names every difference.

A difference that needs data that is not there is refused with a reason instead of guessed at; one
that stored data might contradict is a step, and applying it looks at the data first. Things are
compared by stable identity, so a rename changes nothing but names: edges, constraints and
embeddings that mention the renamed thing stay the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from omnigraph.catalog import (
    FLOATS,
    Annotation,
    Catalog,
    EdgeType,
    Entity,
    IndexConstraint,
    NodeType,
    Property,
    PropertyType,
    Scalar,
    TypeKind,
    UniqueConstraint,
)
from omnigraph.lang.schema_resolve import Resolution, properties_in
from omnigraph.lang.schema_steps import (
    PROPERTY_TYPE_CHANGE,
    REQUIRED_WITHOUT_BACKFILL,
    AddConstraint,
    AddProperty,
    AddType,
    ChangeCardinality,
    ChangeDefault,
    ChangeLanguage,
    ChangeNullability,
    Constraint,
    DropConstraint,
    DropMode,
    DropProperty,
    DropType,
    ExtendEnum,
    RenameProperty,
    RenameType,
    Step,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
    WidenProperty,
    entity_name,
)

_METADATA = ("description", "instruction")
REBUILD = "to get there, export the data, initialise a new graph with this schema and load it"


_WIDER: dict[Scalar, frozenset[Scalar]] = {
    Scalar.I32: frozenset({Scalar.I64}),
    Scalar.U32: frozenset({Scalar.U64, Scalar.I64}),
    Scalar.F32: frozenset({Scalar.F64}),
}


class Comparison(Struct, frozen=True, kw_only=True):
    """Yields the differences between two catalogs whose declarations are matched already."""

    accepted: Catalog
    desired: Catalog
    resolution: Resolution
    mode: DropMode

    def steps(self) -> Iterator[Step]:
        """Yield interfaces, nodes, edges: each by desired name, then the types that go away."""
        for kind in TypeKind:
            for changed, name in self.resolution.differ.changed:
                if changed is kind:
                    yield from self._type(kind, name)
            yield from self._dropped_types(kind)

    def _dropped_types(self, kind: TypeKind) -> Iterator[Step]:
        types = self.resolution.origins.types
        kept = {origin for (type_kind, _), origin in types.items() if type_kind is kind}
        for type_kind, name in self.resolution.differ.gone:
            if type_kind is not kind or name in kept:
                continue
            if (kind, name) in self.resolution.contested_types:
                continue
            if kind is TypeKind.INTERFACE:
                yield _refuse(
                    entity_name(kind, name),
                    f"removing or renaming interface '{name}' is not supported; keep declaring it, "
                    "an interface stores nothing",
                )
            else:
                yield DropType(type_kind=kind, name=name, mode=self.mode)

    def _type(self, kind: TypeKind, name: str) -> Iterator[Step]:
        problems = self.resolution.problems
        if (entity := entity_name(kind, name)) in problems:
            yield _refuse(entity, problems[entity])
            return
        origin = self.resolution.origins.types.get((kind, name))
        if origin is None:
            yield AddType(type_kind=kind, name=name)
            for prop in properties_in(self.desired, kind, name):
                if (entity := entity_name(kind, name, prop)) in problems:
                    yield _refuse(entity, problems[entity])
            return
        if origin != name:
            yield RenameType(type_kind=kind, old_name=origin, new_name=name)
        match kind:
            case TypeKind.INTERFACE:
                yield from self._properties(kind, name, origin, links=True)
                yield from self._flags(name, origin)
            case TypeKind.NODE:
                old, new = self.accepted.nodes[origin], self.desired.nodes[name]
                yield from _implements(old, new)
                yield from _type_metadata(old, new)
                links = old.implements == new.implements
                yield from self._properties(kind, name, origin, links=links)
                yield from self._key(old, new)
                yield from self._rules(old, new)
            case TypeKind.EDGE:
                before, after = self.accepted.edges[origin], self.desired.edges[name]
                yield from self._ends(before, after)
                yield from _type_metadata(before, after)
                yield from self._properties(kind, name, origin, links=True)
                yield from self._rules(before, after)
        yield from self._dropped_properties(kind, name, origin)

    def _properties(self, kind: TypeKind, name: str, origin: str, *, links: bool) -> Iterator[Step]:
        accepted = properties_in(self.accepted, kind, origin)
        for new in properties_in(self.desired, kind, name).values():
            entity = entity_name(kind, name, new.name)
            if (problem := self.resolution.problems.get(entity)) is not None:
                yield _refuse(entity, problem)
                continue
            before = self.resolution.origins.properties.get((kind, name, new.name))
            if before is None:
                yield _added_property(kind, name, new)
            else:
                yield from self._changed_property(kind, name, accepted[before], new)
                if links:
                    yield from self._links(entity, accepted[before], new)

    def _flags(self, name: str, origin: str) -> Iterator[Step]:
        accepted, desired = self.accepted.interfaces[origin], self.desired.interfaces[name]
        for prop in desired.properties:
            entity = entity_name(TypeKind.INTERFACE, name, prop)
            before = self.resolution.origins.properties.get((TypeKind.INTERFACE, name, prop))
            if before is None or entity in self.resolution.problems:
                continue
            old, new = set(accepted.flags.get(before, ())), set(desired.flags.get(prop, ()))
            for word in sorted((old ^ new) & {"index", "unique"}):
                rule = (IndexConstraint if word == "index" else UniqueConstraint)(columns=(prop,))
                step = AddConstraint if word in new else DropConstraint
                yield step(type_kind=TypeKind.INTERFACE, type_name=name, constraint=rule)
            if "key" in old ^ new:
                yield _refuse(
                    entity,
                    f"changing @key of '{name}.{prop}' is not supported: nodes take it from the "
                    "interface; leave the interface property as it was",
                )

    def _dropped_properties(self, kind: TypeKind, name: str, origin: str) -> Iterator[Step]:
        carried = self.resolution.carried[(kind, name)]
        for prop in properties_in(self.accepted, kind, origin):
            if prop not in carried and not self._is_contested(kind, origin, prop):
                yield DropProperty(
                    type_kind=kind, type_name=name, property_name=prop, mode=self.mode
                )

    def _is_contested(self, kind: TypeKind, origin: str, prop: str) -> bool:
        return (kind, origin, prop) in self.resolution.contested_properties

    def _has_problem(self, new: Entity, columns: Iterable[str]) -> bool:
        entities = (entity_name(new.kind, new.name, column) for column in columns)
        return any(entity in self.resolution.problems for entity in entities)

    def _changed_property(
        self, kind: TypeKind, owner: str, old: Property, new: Property
    ) -> Iterator[Step]:
        entity = entity_name(kind, owner, new.name)
        if old.name != new.name:
            yield RenameProperty(
                type_kind=kind, type_name=owner, old_name=old.name, new_name=new.name
            )
        if old.type != new.type:
            is_key = kind is TypeKind.NODE and new.name in self.desired.nodes[owner].key
            yield from _changed_type(kind, owner, old.type, new, is_key=is_key)
        yield from self._embedding(kind, owner, old, new)
        if (old.has_default, old.default) != (new.has_default, new.default):
            yield ChangeDefault(
                type_kind=kind,
                type_name=owner,
                property_name=new.name,
                old=old.default,
                new=new.default,
                had_default=old.has_default,
                has_default=new.has_default,
            )
        if old.language != new.language:
            yield ChangeLanguage(
                type_kind=kind,
                type_name=owner,
                property_name=new.name,
                old=old.language,
                new=new.language,
            )
        if _other(old.annotations, "language") != _other(new.annotations, "language"):
            yield _refuse_annotations(entity)
        # `@language(english)` declares what holds anyway: no more than a remark.
        respelled = old.language == new.language and _is_respelled(old, new)
        if _metadata(old.annotations) != (wanted := _metadata(new.annotations)) or respelled:
            yield UpdatePropertyMetadata(
                type_kind=kind, type_name=owner, property_name=new.name, annotations=wanted
            )

    def _embedding(
        self, kind: TypeKind, owner: str, old: Property, new: Property
    ) -> Iterator[Step]:
        before = old.embedding
        if before is not None:
            origin = self.resolution.origins.types[(kind, owner)]
            if self._is_contested(kind, origin, before.source):
                return
            source = self.resolution.carried[(kind, owner)].get(before.source, before.source)
            before = replace(before, source=source)
        if before != new.embedding:
            yield _refuse(
                entity_name(kind, owner, new.name),
                f"changing @embed of '{owner}.{new.name}' is not supported: stored vectors would "
                "no longer match their declared source and model; add a new vector property "
                "instead",
            )

    def _links(self, entity: str, old: Property, new: Property) -> Iterator[Step]:
        if old.declared_directly != new.declared_directly:
            now = "declared directly" if new.declared_directly else "taken from an interface"
            yield _refuse(
                entity,
                f"the property would now be {now}, and changing where it comes from is not "
                "supported; keep the declaration where it was",
            )
        elif (before := {self._link(link) for link in old.satisfies}) != set(new.satisfies):
            changed = ", ".join(sorted(before ^ set(new.satisfies)))
            yield _refuse(
                entity,
                f"changing which interface properties it satisfies ({changed}) is not supported; "
                "leave the interface property as it was",
            )

    def _link(self, link: str) -> str:
        interface, _, prop = link.partition(".")
        carried = self.resolution.carried.get((TypeKind.INTERFACE, interface), {})
        return f"{interface}.{carried.get(prop, prop)}"

    def _ends(self, old: EdgeType, new: EdgeType) -> Iterator[Step]:
        entity = entity_name(TypeKind.EDGE, new.name)
        for role, before, after in (
            ("source", old.source, new.source),
            ("target", old.target, new.target),
        ):
            if entity_name(TypeKind.NODE, after) in self.resolution.problems:
                continue
            if self._origin(after) != before:
                yield _refuse(
                    entity,
                    f"changing the {role} of edge '{new.name}' from '{before}' to '{after}' is not "
                    "supported; declare a new edge type, or give a renamed node type its "
                    "@rename_from",
                )
        if old.cardinality != new.cardinality:
            yield ChangeCardinality(
                type_kind=TypeKind.EDGE,
                type_name=new.name,
                old=old.cardinality,
                new=new.cardinality,
            )

    def _origin(self, node: str) -> str | None:
        """Return the node type that a desired one continues, None if it is new."""
        if node in self.accepted.nodes:
            return node
        return self.resolution.origins.types.get((TypeKind.NODE, node))

    def _carried(self, old: Entity, name: str, column: str) -> str | None:
        if column not in old.properties:
            return column
        return self.resolution.carried[(old.kind, name)].get(column)

    def _key(self, old: NodeType, new: NodeType) -> Iterator[Step]:
        names = [self._carried(old, new.name, column) for column in old.key]
        if any(self._is_contested(old.kind, old.name, column) for column in old.key):
            return
        same = sorted(name or "" for name in names) == list(new.key)
        if same or self._has_problem(new, new.key):
            return
        before, after = (", ".join(key) or "no key" for key in (old.key, new.key))
        yield _refuse(
            entity_name(old.kind, new.name),
            f"changing @key of node '{new.name}' from {before} to {after} is not supported: ids "
            f"derive from the key; {REBUILD}",
        )

    def _rules(self, old: Entity, new: Entity) -> Iterator[Step]:
        before: list[Constraint] = []
        for rule in _rules_of(old):
            names = {column: self._carried(old, new.name, column) for column in _columns_of(rule)}
            # A rule over a dropped property goes with it.
            if all(names.values()):
                before.append(_under(rule, {old: name or "" for old, name in names.items()}))
        after = _rules_of(new)
        for rule in before:
            if rule not in after and not self._has_problem(new, _columns_of(rule)):
                yield DropConstraint(type_kind=new.kind, type_name=new.name, constraint=rule)
        for rule in after:
            if rule not in before and not self._has_problem(new, _columns_of(rule)):
                yield AddConstraint(type_kind=new.kind, type_name=new.name, constraint=rule)


def _rules_of(item: Entity) -> list[Constraint]:
    return [*item.uniques, *item.indexes, *item.ranges, *item.checks]


def _columns_of(rule: Constraint) -> tuple[str, ...]:
    if isinstance(rule, UniqueConstraint | IndexConstraint):
        return rule.columns
    return (rule.property,)


def _under(rule: Constraint, names: Mapping[str, str]) -> Constraint:
    """Return a rule with its columns under other names."""
    if isinstance(rule, UniqueConstraint | IndexConstraint):
        return replace(rule, columns=tuple(sorted(names[column] for column in rule.columns)))
    return replace(rule, property=names[rule.property])


def _refuse(entity: str, reason: str, *, code: str | None = None) -> UnsupportedChange:
    return UnsupportedChange(entity=entity, reason=reason, code=code)


def _refuse_annotations(entity: str) -> UnsupportedChange:
    return _refuse(
        entity,
        "changing annotations beyond @description/@instruction is not supported; keep the ones the "
        "accepted schema has",
    )


def _implements(old: NodeType, new: NodeType) -> Iterator[Step]:
    if old.implements != new.implements:
        before, after = (", ".join(names) or "none" for names in (old.implements, new.implements))
        yield _refuse(
            entity_name(TypeKind.NODE, new.name),
            f"changing the interfaces of node '{new.name}' from {before} to {after} is not "
            "supported; keep the list as it was",
        )


def _type_metadata(old: Entity, new: Entity) -> Iterator[Step]:
    if _other(old.annotations) != _other(new.annotations):
        yield _refuse_annotations(entity_name(new.kind, new.name))
    if _metadata(old.annotations) != (wanted := _metadata(new.annotations)):
        yield UpdateTypeMetadata(type_kind=new.kind, name=new.name, annotations=wanted)


def _metadata(annotations: Iterable[Annotation]) -> tuple[Annotation, ...]:
    return tuple(item for item in annotations if item.name in _METADATA)


def _other(annotations: Iterable[Annotation], *known: str) -> tuple[Annotation, ...]:
    return tuple(item for item in annotations if item.name not in (*_METADATA, *known))


def _is_respelled(old: Property, new: Property) -> bool:
    before, after = (
        [item for item in side.annotations if item.name == "language"] for side in (old, new)
    )
    return before != after


def _added_property(kind: TypeKind, owner: str, new: Property) -> Step:
    if not new.required or new.has_default:
        return AddProperty.of(kind, owner, new)
    remedy = (
        "make it nullable"
        if new.type.scalar in (Scalar.VECTOR, Scalar.BLOB)
        else "add a @default or make it nullable"
    )
    return _refuse(
        entity_name(kind, owner, new.name),
        f"adding required property '{owner}.{new.name}' leaves existing rows without a value; "
        f"{remedy}",
        code=REQUIRED_WITHOUT_BACKFILL,
    )


def _changed_type(
    kind: TypeKind, owner: str, old: PropertyType, new: Property, *, is_key: bool
) -> Iterator[Step]:
    before, after = old.as_nullable(), new.type.as_nullable()
    if before != after:
        if added := _added_values(before, after):
            yield ExtendEnum(
                type_kind=kind, type_name=owner, property_name=new.name, added_values=added
            )
        elif _is_wider(before, after) and not (is_key and after.scalar in FLOATS):
            yield WidenProperty(
                type_kind=kind, type_name=owner, property_name=new.name, old=old, new=new.type
            )
        else:
            yield _refuse_type(kind, owner, old, new, is_key=is_key)
            return
    if old.nullable != new.type.nullable:
        yield ChangeNullability(
            type_kind=kind,
            type_name=owner,
            property_name=new.name,
            required=new.required,
            default=new.default,
            has_default=new.has_default,
        )


def _refuse_type(
    kind: TypeKind, owner: str, old: PropertyType, new: Property, *, is_key: bool
) -> UnsupportedChange:
    reason = (
        f"changing the type of '{owner}.{new.name}' from {old} to {new.type} is not supported; "
    )
    if is_key:
        reason += f"ids derive from the key; {REBUILD}"
    else:
        reason += (
            "keep the type, or add a property of the new type under another name, copy the values "
            "and drop this one"
        )
    return _refuse(entity_name(kind, owner, new.name), reason, code=PROPERTY_TYPE_CHANGE)


def _is_wider(old: PropertyType, new: PropertyType) -> bool:
    """Whether the new type differs only by holding more, and every old value exactly."""
    same_form = replace(old, scalar=new.scalar) == new
    return same_form and new.scalar in _WIDER.get(old.scalar, frozenset())


def _added_values(old: PropertyType, new: PropertyType) -> tuple[str, ...]:
    """Return the values an enum gains, empty unless gaining values is all that changed."""
    if not old.enum_values or replace(old, enum_values=new.enum_values) != new:
        return ()
    if not set(old.enum_values) <= set(new.enum_values):
        return ()
    return tuple(value for value in new.enum_values if value not in old.enum_values)
