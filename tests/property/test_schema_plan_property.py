"""Planning and formatting hold for any schema, not only for the ones we thought of."""

from __future__ import annotations

from hypothesis import given
from msgspec.structs import replace

from omnigraph.catalog import AcceptedSchema, Catalog, accept_initial, shape_hash
from omnigraph.lang.pg_format import format_schema
from omnigraph.lang.schema import compile_schema
from omnigraph.lang.schema_plan import plan_schema
from tests.property.schema_strategies import migrations, schemas

DOMAIN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def _catalog(text: str) -> Catalog:
    return compile_schema(text).catalog


def _accepted(text: str) -> AcceptedSchema:
    return accept_initial(_catalog(text), domain=DOMAIN)


@given(schemas())
def test_a_schema_needs_no_change_to_become_itself(text: str) -> None:
    plan = plan_schema(_accepted(text), _catalog(text))
    assert plan.supported
    assert plan.is_empty
    assert plan.desired.identities == _accepted(text).identities


@given(schemas())
def test_formatting_is_idempotent_and_keeps_the_shape(text: str) -> None:
    once = format_schema(text)
    assert format_schema(once) == once
    assert shape_hash(_catalog(once)) == shape_hash(_catalog(text))
    assert plan_schema(_accepted(text), _catalog(once)).is_empty


@given(schemas())
def test_formatting_keeps_every_comment(text: str) -> None:
    once = format_schema(text)
    for mark in ("// why", "/* what */", "/* a"):
        assert once.count(mark) == text.count(mark)


@given(schemas(), schemas())
def test_planning_is_deterministic_and_spends_ids_once(first: str, second: str) -> None:
    accepted = _accepted(first)
    plan = plan_schema(accepted, _catalog(second))
    again = plan_schema(_accepted(first), _catalog(format_schema(second)))
    assert plan.to_json() == again.to_json()
    assert plan.desired.identities == again.desired.identities
    ids = plan.desired.identities
    # A copy knows nothing of how it came about, and is looked at in full.
    assert replace(plan.desired).identity_problem is None
    assert ids.next_identity_id >= accepted.identities.next_identity_id


@given(schemas(), schemas())
def test_an_empty_plan_means_the_same_shape(first: str, second: str) -> None:
    plan = plan_schema(_accepted(first), _catalog(second))
    same = shape_hash(_catalog(first)) == shape_hash(_catalog(second))
    assert plan.is_empty == same


@given(migrations())
def test_a_supported_plan_arrives_where_it_should(texts: tuple[str, str]) -> None:
    before, after = texts
    plan = plan_schema(_accepted(before), _catalog(after))
    assert plan.supported, plan.render()
    assert plan.desired.catalog == _catalog(after)
    again = plan_schema(plan.desired, _catalog(after))
    assert again.is_empty, again.render()
    assert again.desired == plan.desired
