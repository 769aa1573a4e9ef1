"""Decides which accepted declaration each desired one continues.

A name that stays is the same thing. A new name continues an old one only where `@rename_from` says
so, within one kind of type or one owner. What no desired declaration continues is dropped;
what continues nothing is new and gets a new identity.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import Struct, field

from omnigraph.catalog import AcceptedSchema, Catalog, InterfaceType, Property, TypeKind
from omnigraph.catalog.identity import Differences, Origins, TypeName, declared_types, differences
from omnigraph.catalog.model import DeclaredType
from omnigraph.lang.schema_steps import entity_name

PropertyName = tuple[TypeKind, str, str]


class Resolution(Struct, frozen=True, kw_only=True):
    """The outcome for a whole schema.

    `problems` gives, by entity, why a rename hint cannot be followed. Accepted declarations that
    such hints name, and no other one continues, are contested: they are neither kept nor dropped.
    `carried` lists, by desired type, its continued properties: accepted name to desired name. Of
    types that are the same in both nothing is said here: they continue themselves.
    """

    differ: Differences
    origins: Origins
    carried: Mapping[TypeName, Mapping[str, str]]
    problems: Mapping[str, str]
    contested_types: frozenset[TypeName]
    contested_properties: frozenset[PropertyName]
    notes: tuple[str, ...]


class _Draft(Struct):
    types: dict[TypeName, str] = field(default_factory=dict)
    properties: dict[PropertyName, str] = field(default_factory=dict)
    carried: dict[TypeName, Mapping[str, str]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    contested_types: set[TypeName] = field(default_factory=set)
    contested_properties: set[PropertyName] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


class _Match(Struct, frozen=True, kw_only=True):
    origins: Mapping[str, str]
    disputed: Mapping[str, str]
    missing: Mapping[str, str]
    ignored: Mapping[str, str]
    contested: frozenset[str]


def resolve(accepted: AcceptedSchema, desired: Catalog) -> Resolution:
    """Match a desired catalog to the accepted one. Hints that cannot hold become problems."""
    draft, differ = _Draft(), differences(accepted.catalog, desired)
    if accepted.identities.next_identity_id == 1:
        # No declaration was ever accepted, so this is the first schema and hints mean nothing.
        draft.notes.extend(inert_hints(desired))
    else:
        for kind in TypeKind:
            changed = [name for type_kind, name in differ.changed if type_kind is kind]
            _resolve_types(kind, changed, accepted.catalog, desired, draft)
        for kind, name in differ.changed:
            if entity_name(kind, name) not in draft.problems:
                _resolve_properties(kind, name, accepted.catalog, desired, draft)
    return Resolution(
        differ=differ,
        origins=Origins(types=draft.types, properties=draft.properties),
        carried=draft.carried,
        problems=draft.problems,
        contested_types=frozenset(draft.contested_types),
        contested_properties=frozenset(draft.contested_properties),
        notes=tuple(draft.notes),
    )


def inert_hints(catalog: Catalog) -> tuple[str, ...]:
    """Return one note for each rename hint of a first schema, which has nothing to rename."""
    return tuple(
        _ignored(entity, hint, "the graph has no earlier schema")
        for entity, hint in _hints(catalog)
    )


def properties_in(catalog: Catalog, kind: TypeKind, name: str) -> Mapping[str, Property]:
    """Return the properties of a type, by name."""
    return catalog.types(kind)[name].properties


def _resolve_types(
    kind: TypeKind, changed: Iterable[str], accepted: Catalog, desired: Catalog, draft: _Draft
) -> None:
    known, wanted = accepted.types(kind), desired.types(kind)
    match = _match({name: _type_hint(wanted[name]) for name in changed}, known, wanted)
    draft.types.update({(kind, name): origin for name, origin in match.origins.items()})
    draft.contested_types.update((kind, name) for name in match.contested)
    for name, hint in match.missing.items():
        problem = (
            f"it names another kind of type, and no rename goes across declaration kinds; "
            f"remove the hint to add a new {kind} type"
            if any(hint in accepted.types(other) for other in TypeKind if other is not kind)
            else "no accepted declaration has that name; correct the hint, or remove it to add a "
            f"new {kind} type"
        )
        draft.problems[entity_name(kind, name)] = _refused(hint, problem)
    for name, hint in match.disputed.items():
        draft.problems[entity_name(kind, name)] = _refused(
            hint, f"'{hint}' is consumed by more than one desired declaration; keep one of them"
        )
    for name, hint in match.ignored.items():
        why = _ignored_reason(name, hint, known)
        draft.notes.append(_ignored(entity_name(kind, name), hint, why))


def _resolve_properties(
    kind: TypeKind, owner: str, accepted: Catalog, desired: Catalog, draft: _Draft
) -> None:
    wanted = properties_in(desired, kind, owner)
    origin = draft.types.get((kind, owner))
    known = {} if origin is None else properties_in(accepted, kind, origin)
    match = _match({name: item.rename_from for name, item in wanted.items()}, known, wanted)
    for name, before in match.origins.items():
        draft.properties[(kind, owner, name)] = before
    draft.carried[(kind, owner)] = {before: name for name, before in match.origins.items()}
    if origin is not None:
        draft.contested_properties.update((kind, origin, name) for name in match.contested)
    for name, hint in match.missing.items():
        # An injected property repeats its interface's hint, which the interface answers for.
        if wanted[name].declared_directly:
            problem = _missing_property(hint, accepted, owner=owner, is_new=origin is None)
            draft.problems[entity_name(kind, owner, name)] = _refused(hint, problem)
    for name, hint in match.disputed.items():
        draft.problems[entity_name(kind, owner, name)] = _refused(
            hint, f"'{hint}' is consumed by more than one desired declaration; keep one of them"
        )
    for name, hint in match.ignored.items():
        if wanted[name].declared_directly:
            why = _ignored_reason(name, hint, known)
            draft.notes.append(_ignored(entity_name(kind, owner, name), hint, why))


def _missing_property(hint: str, accepted: Catalog, *, owner: str, is_new: bool) -> str:
    if is_new:
        return (
            f"'{owner}' is a new type and cannot import a property: property moves across stable "
            "owners are not supported; remove the hint"
        )
    elsewhere = any(
        hint in properties_in(accepted, kind, name) for kind, name in declared_types(accepted)
    )
    if elsewhere:
        return (
            "it names a property of another type, and property moves across stable owners are not "
            "supported; remove the hint to add a new property"
        )
    return (
        f"no accepted declaration has that name in '{owner}'; correct the hint, or remove it to "
        "add a new property"
    )


def _match(
    hints: Mapping[str, str | None], known: Collection[str], wanted: Collection[str]
) -> _Match:
    """Match desired names (with their hints) to accepted names of one scope.

    `known` and `wanted` are all names of the scope. Those without a hint that are in both need not
    be among the `hints`.
    """
    origins = {name: name for name in hints if name in known}
    ignored: dict[str, str] = {}
    missing: dict[str, str] = {}
    claims: dict[str, list[str]] = {}
    for name, hint in hints.items():
        if hint is None:
            continue
        if name in origins or hint == name:
            ignored[name] = hint
        elif hint not in known:
            missing[name] = hint
        else:
            claims.setdefault(hint, []).append(name)
    disputed: dict[str, str] = {}
    contested: set[str] = set()
    for hint, names in claims.items():
        if len(names) == 1 and hint not in wanted:
            origins[names[0]] = hint
            continue
        disputed.update(dict.fromkeys(names, hint))
        if hint not in wanted:
            contested.add(hint)
    return _Match(
        origins=origins,
        disputed=disputed,
        missing=missing,
        ignored=ignored,
        contested=frozenset(contested),
    )


def _type_hint(item: DeclaredType) -> str | None:
    return None if isinstance(item, InterfaceType) else item.rename_from


def _hints(catalog: Catalog) -> Iterator[tuple[str, str]]:
    for kind in TypeKind:
        for name, item in catalog.types(kind).items():
            if (hint := _type_hint(item)) is not None:
                yield entity_name(kind, name), hint
            for prop in item.properties.values():
                if prop.rename_from is not None and prop.declared_directly:
                    yield entity_name(kind, name, prop.name), prop.rename_from


def _refused(hint: str, problem: str) -> str:
    return f'@rename_from("{hint}") cannot be followed: {problem}'


def _ignored(entity: str, hint: str, why: str) -> str:
    return f'{entity}: @rename_from("{hint}") is ignored: {why}'


def _ignored_reason(name: str, hint: str, known: Collection[str]) -> str:
    return f"'{name}' already exists" if name in known else f"'{hint}' is its own name"
