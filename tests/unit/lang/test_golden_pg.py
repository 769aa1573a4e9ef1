"""Runs every `.pg` fixture: what a schema compiles to, or what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from omnigraph.catalog import (
    Annotation,
    Cardinality,
    Catalog,
    EdgeType,
    InterfaceType,
    NodeType,
    Property,
)
from omnigraph.catalog.shape import literal_json
from omnigraph.errors import CompileError
from omnigraph.lang.schema import CompiledSchema, compile_schema
from omnigraph.lang.source import Diagnostic
from tests.golden.loader import Case, assert_diagnostics, load_cases

CASES = load_cases("pg")


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_schema_compiles_as_written_down(case: Case) -> None:
    verdict, _, rest = case.expectation.partition(" ")
    outcome = compile_or_error(case.source)
    if isinstance(outcome, CompileError):
        assert verdict not in ("ok", "warn"), str(outcome)
        found = [item for item in outcome.diagnostics if isinstance(item, Diagnostic)]
        assert_diagnostics(found, case.expectation)
    elif verdict == "warn":
        assert_diagnostics(outcome.warnings, rest)
    else:
        assert verdict == "ok", f"compiled, but should not: {case.expectation}"
        assert not outcome.warnings
        assert not rest or catalog_line(outcome.catalog) == rest


def compile_or_error(text: str) -> CompiledSchema | CompileError:
    try:
        return compile_schema(text)
    except CompileError as error:
        return error


def test_no_two_cases_have_the_same_source() -> None:
    seen: dict[str, str] = {}
    repeats = [
        f"{case.id} repeats {seen[case.source]}"
        for case in CASES
        if seen.setdefault(case.source, case.id) != case.id
    ]
    assert not repeats, "\n".join(repeats)


def catalog_line(catalog: Catalog) -> str:
    """Return a catalog on one line, everything in it, as the fixtures spell it."""
    return " ".join(
        [
            *(_interface(item) for item in catalog.interfaces.values()),
            *(_entity(item) for item in catalog.entities()),
        ]
    )


def _interface(item: InterfaceType) -> str:
    properties = (
        " ".join([_property(found), *(f"@{flag}" for flag in item.flags.get(name, ()))])
        for name, found in item.properties.items()
    )
    return f"interface {item.name}({', '.join(properties)})"


def _entity(item: NodeType | EdgeType) -> str:
    implements = item.implements if isinstance(item, NodeType) else ()
    contracts = f" implements {', '.join(implements)}" if implements else ""
    origin = "" if item.rename_from is None else f" from {item.rename_from}"
    return f"{item.kind} {item.name}{contracts}{origin}({'; '.join(_parts(item))})"


def _parts(item: NodeType | EdgeType) -> Iterator[str]:
    if isinstance(item, EdgeType):
        yield f"{item.source} -> {item.target}"
        if item.cardinality != Cardinality():
            yield f"card {item.cardinality}"
    elif item.key:
        yield f"key={'+'.join(item.key)}"
    if item.annotations:
        yield ", ".join(_annotation(a) for a in item.annotations)
    if item.properties:
        yield ", ".join(_property(p) for p in item.properties.values())
    yield from (f"unique {'+'.join(c.columns)}" for c in item.uniques)
    yield from (f"index {'+'.join(c.columns)}" for c in item.indexes)
    for bounds in item.ranges:
        low = "" if bounds.low is None else bounds.low
        high = "" if bounds.high is None else bounds.high
        yield f"range {bounds.property} {low}..{high}"
    yield from (f"check {c.property} {_json(c.pattern)}" for c in item.checks)


def _property(item: Property) -> str:
    words = [f"{item.name}: {item.type}"]
    if item.has_default:
        words.append(f"= {_json(literal_json(item.default))}")
    if item.embedding is not None:
        words.append(f"embed {item.embedding.source}")
        if item.embedding.model is not None:
            words.append(f"by {item.embedding.model}")
    words += [_annotation(a) for a in item.annotations]
    if item.satisfies:
        words.append(f"{'as' if item.declared_directly else 'via'} {'+'.join(item.satisfies)}")
    if item.rename_from is not None:
        words.append(f"from {item.rename_from}")
    return " ".join(words)


def _annotation(item: Annotation) -> str:
    value = "" if item.value is None else f"={_json(item.value)}"
    keywords = ", ".join(f"{key}={_json(text)}" for key, text in item.arguments)
    return f"@{item.name}{value}" + (f"{{{keywords}}}" if keywords else "")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
