"""Turns `.pg` syntax into a catalog, reporting every static problem of the schema."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from msgspec.structs import replace

from omnigraph.catalog import (
    Annotation,
    Cardinality,
    Catalog,
    EdgeType,
    InterfaceType,
    NodeType,
    Property,
    TypeKind,
)
from omnigraph.lang.pg_ast import (
    AnnotationSyntax,
    DeclarationSyntax,
    Name,
    SchemaSyntax,
)
from omnigraph.lang.pg_constraints import ConstraintChecker
from omnigraph.lang.pg_properties import (
    TYPE_ANNOTATIONS,
    DraftProperty,
    canonical,
    check_keywords,
    check_property,
    keep_verbatim,
    single_text,
    warn_unknown,
)
from omnigraph.lang.source import Diagnostics, did_you_mean

Drafts = dict[str, DraftProperty]
T = TypeVar("T")


def check_schema(syntax: SchemaSyntax, diagnostics: Diagnostics) -> Catalog:
    """Build the catalog. It is only meaningful when no error was reported."""
    by_kind: dict[TypeKind, dict[str, DeclarationSyntax]] = {kind: {} for kind in TypeKind}
    for item in syntax.declarations:
        known = by_kind[item.kind]
        if item.name.text in known:
            diagnostics.error(
                "S01", item.name.span, f"duplicate {item.kind} type: {item.name.text}"
            )
        else:
            known[item.name.text] = item
    interfaces = {
        name: check_properties(item, diagnostics)
        for name, item in by_kind[TypeKind.INTERFACE].items()
    }
    nodes = {
        name: check_node(item, interfaces, diagnostics)
        for name, item in by_kind[TypeKind.NODE].items()
    }
    _check_edge_words(by_kind[TypeKind.EDGE], diagnostics)
    edges = {
        name: check_edge(item, nodes, diagnostics) for name, item in by_kind[TypeKind.EDGE].items()
    }
    return Catalog(
        interfaces=by_name(
            {name: interface_type(name, drafts) for name, drafts in interfaces.items()}
        ),
        nodes=by_name(nodes),
        edges=by_name(edges),
    )


def by_name(items: Mapping[str, T]) -> Mapping[str, T]:
    """Return types or properties in the order of a catalog."""
    return {name: items[name] for name in sorted(items)}


def interface_type(name: str, drafts: Drafts) -> InterfaceType:
    """Return an interface whose properties were checked."""
    return InterfaceType(name=name, properties=_checked_properties(drafts), flags=_flags(drafts))


def _checked_properties(drafts: Drafts) -> Mapping[str, Property]:
    return by_name({name: draft.checked for name, draft in drafts.items()})


def _flags(drafts: Drafts) -> Mapping[str, tuple[str, ...]]:
    return by_name({name: tuple(sorted(d.flags)) for name, d in drafts.items() if d.flags})


def check_properties(item: DeclarationSyntax, diagnostics: Diagnostics) -> Drafts:
    """Check the properties of a declaration, each by itself."""
    drafts: Drafts = {}
    for syntax in item.properties:
        draft = check_property(syntax, item.kind, item.name.text, diagnostics)
        if draft.checked.name in drafts:
            diagnostics.error(
                "S02",
                draft.span,
                f"duplicate property '{draft.checked.name}' on {item.kind} {item.name.text}",
            )
        else:
            drafts[draft.checked.name] = draft
    return drafts


def _type_annotations(
    item: DeclarationSyntax, diagnostics: Diagnostics
) -> tuple[tuple[Annotation, ...], str | None]:
    kept: list[Annotation] = []
    rename_from: str | None = None
    seen: set[str] = set()
    for syntax in item.annotations:
        word = syntax.name.text
        if word in seen and word in TYPE_ANNOTATIONS:
            diagnostics.error(
                "S14", syntax.span, f"{item.name.text} declares @{word} multiple times"
            )
            continue
        seen.add(word)
        check_keywords(syntax, diagnostics)
        if word == "rename_from":
            rename_from = single_text(syntax, diagnostics)
        elif word in ("description", "instruction"):
            if (text := single_text(syntax, diagnostics)) is not None:
                kept.append(Annotation(name=word, value=text))
        elif word in ("key", "unique", "index", "embed", "default", "range", "check", "card"):
            _refuse_on_type(item, syntax, diagnostics)
        else:
            warn_unknown(syntax, TYPE_ANNOTATIONS, diagnostics)
            kept.append(keep_verbatim(syntax))
    return canonical(kept), rename_from


def _refuse_on_type(
    item: DeclarationSyntax, syntax: AnnotationSyntax, diagnostics: Diagnostics
) -> None:
    word = syntax.name.text
    if item.kind is TypeKind.EDGE and word in ("key", "unique", "index", "embed"):
        message = f"@{word} is not supported on edges at type level"
    elif word == "card":
        message = "@card is only supported on edges"
    elif word == "default":
        message = "@default is only supported on properties"
    else:
        message = f"@{word} is only supported on node properties or as body constraint"
    diagnostics.error("S14", syntax.span, message)


def check_node(
    item: DeclarationSyntax, interfaces: Mapping[str, Drafts], diagnostics: Diagnostics
) -> NodeType:
    """Check a node type, with what it takes from interfaces."""
    name = item.name.text
    drafts = check_properties(item, diagnostics)
    implements: list[str] = []
    for wanted in item.implements:
        if wanted.text in implements:
            continue
        contract = interfaces.get(wanted.text)
        if contract is None:
            diagnostics.error(
                "S05",
                wanted.span,
                f"node {name} implements unknown interface '{wanted.text}'",
                hint=did_you_mean(wanted.text, interfaces),
            )
            continue
        implements.append(wanted.text)
        _inject(name, wanted, contract, drafts, diagnostics)
    constraints = ConstraintChecker(TypeKind.NODE, name, drafts, diagnostics).check(
        item.constraints
    )
    _check_embeddings(name, drafts, diagnostics)
    annotations, rename_from = _type_annotations(item, diagnostics)
    return NodeType(
        name=name,
        properties=_checked_properties(drafts),
        key=constraints.keys[0] if constraints.keys else (),
        implements=tuple(sorted(implements)),
        uniques=constraints.sorted_uniques(),
        indexes=constraints.sorted_indexes(),
        ranges=constraints.sorted_ranges(),
        checks=constraints.sorted_checks(),
        annotations=annotations,
        rename_from=rename_from,
    )


def _inject(
    node: str, interface: Name, contract: Drafts, drafts: Drafts, diagnostics: Diagnostics
) -> None:
    for prop, wanted in contract.items():
        link = f"{interface.text}.{prop}"
        present = drafts.get(prop)
        if present is None:
            injected = replace(wanted.checked, declared_directly=False, satisfies=(link,))
            drafts[prop] = replace(wanted, checked=injected)
            continue
        same_type = present.checked.type == wanted.checked.type
        if present.checked.declared_directly:
            if not same_type:
                diagnostics.error(
                    "S06",
                    present.span,
                    f"node {node} property '{prop}' has type {present.checked.type} but interface "
                    f"{interface.text} declares it as {wanted.checked.type}",
                )
                continue
        elif not _same_declaration(present, wanted):
            diagnostics.error(
                "S06",
                interface.span,
                f"node {node} property '{prop}' has incompatible property semantics in "
                f"{present.checked.satisfies[0]} and {link}",
                hint=f"declare '{prop}' in node {node} itself"
                if same_type
                else f"give '{prop}' one type in both interfaces",
            )
            continue
        links = tuple(sorted({*present.checked.satisfies, link}))
        drafts[prop] = replace(present, checked=replace(present.checked, satisfies=links))


def _same_declaration(left: DraftProperty, right: DraftProperty) -> bool:
    return left.flags == right.flags and replace(
        left.checked, declared_directly=True, satisfies=()
    ) == replace(right.checked, declared_directly=True, satisfies=())


def _check_embeddings(node: str, drafts: Drafts, diagnostics: Diagnostics) -> None:
    for name, draft in drafts.items():
        if draft.checked.embedding is None:
            continue
        wanted = draft.checked.embedding.source
        source = drafts.get(wanted)
        if source is None:
            diagnostics.error(
                "S13",
                draft.span,
                f"@embed on {node}.{name} references unknown property '{wanted}'",
                hint=did_you_mean(wanted, drafts),
            )
        elif not source.checked.type.is_text:
            diagnostics.error(
                "S13",
                draft.span,
                f"@embed on {node}.{name}: source '{wanted}' must be a String property, "
                f"got {source.checked.type}",
            )


def _check_edge_words(edges: Mapping[str, DeclarationSyntax], diagnostics: Diagnostics) -> None:
    folded: dict[str, str] = {}
    for name, item in edges.items():
        other = folded.setdefault(name.lower(), name)
        if other != name:
            diagnostics.error(
                "S01",
                item.name.span,
                f"edge name collision after case folding: {name} and {other}",
                hint="traversals name edges whatever their case, so the names must differ by more",
            )


def check_edge(
    item: DeclarationSyntax, nodes: Collection[str], diagnostics: Diagnostics
) -> EdgeType:
    """Check an edge type; `nodes` are the names of the node types."""
    name = item.name.text
    ends: dict[str, str] = {}
    for role, end in (("source", item.source), ("target", item.target)):
        if end is None:
            continue
        ends[role] = end.text
        if end.text not in nodes:
            diagnostics.error(
                "S04",
                end.span,
                f"edge {name} references unknown {role} type: {end.text}",
                hint=did_you_mean(end.text, nodes),
            )
    cardinality = Cardinality()
    if item.cardinality is not None:
        low, high = item.cardinality.low, item.cardinality.high
        if high is not None and low is not None and low > high:
            diagnostics.error(
                "S12", item.cardinality.span, f"@card on {name}: {low} is above {high}"
            )
        cardinality = Cardinality(
            minimum=int(low or 0), maximum=None if high is None else int(high)
        )
    drafts = check_properties(item, diagnostics)
    constraints = ConstraintChecker(TypeKind.EDGE, name, drafts, diagnostics).check(
        item.constraints
    )
    annotations, rename_from = _type_annotations(item, diagnostics)
    return EdgeType(
        name=name,
        source=ends["source"],
        target=ends["target"],
        cardinality=cardinality,
        properties=_checked_properties(drafts),
        uniques=constraints.sorted_uniques(),
        indexes=constraints.sorted_indexes(),
        annotations=annotations,
        rename_from=rename_from,
    )
