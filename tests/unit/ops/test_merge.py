"""What a merge starts from, table by table, and rows that somebody decided on."""

from __future__ import annotations

from typing import Any

import pytest

from omnigraph.catalog import accept_initial
from omnigraph.errors import BadRequestError, DataError
from omnigraph.ops.merge.operation import Origin, decided_row
from omnigraph.rows.virtual_base import Join
from omnigraph.store import Pin
from tests.unit.rows.arrow_rows import catalog_of, rows_in

CATALOG = catalog_of("""
node City { name: String @key  people: I32? }
node Note { text: String? }
edge Road: City -> City { km: I32? }
""")
SCHEMA = accept_initial(CATALOG, domain="TEST")
KEY = "node:City"


def pin(version: int) -> Pin:
    return Pin(
        table_key=KEY,
        incarnation=1,
        path="nodes/city",
        version=version,
        row_count=1,
        transaction_uuid=f"t{version}",
        seq=version,
    )


def states(*versions: int | None) -> list[dict[str, Pin]]:
    return [{} if version is None else {KEY: pin(version)} for version in versions]


def test_one_state_is_its_own_base() -> None:
    assert Origin(states=states(4)).of(KEY) == (0, {0: pin(4)})


def test_a_table_equal_in_all_states_needs_no_merging() -> None:
    origin = Origin(states=states(4, 4, 4), tree=Join(0, 1, 2))
    assert origin.of(KEY) == (0, {0: pin(4)})


def test_a_table_that_one_state_left_alone_is_that_of_the_other() -> None:
    origin = Origin(states=states(4, 5, 4), tree=Join(0, 1, 2))
    assert origin.of(KEY) == (1, {1: pin(5)})


def test_each_version_is_named_once_and_the_first_is_compared_with() -> None:
    origin = Origin(states=states(4, 5, None, 5), tree=Join(Join(0, 1, 2), 3, None))
    assert origin.of(KEY) == (
        Join(Join(0, 1, 2), 1, None),
        {0: pin(4), 1: pin(5), 2: None},
    )


def decided(kind: str, image: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return rows_in(decided_row(SCHEMA, CATALOG.entity_named(kind), image))


def test_a_key_makes_the_id_of_decided_values() -> None:
    assert decided("City", {"data": {"name": "Rome", "people": 3}}) == {
        "Rome": {"name": "Rome", "people": 3}
    }
    assert decided("City", {"data": {"id": "Rome", "name": "Rome"}}).keys() == {"Rome"}
    with pytest.raises(BadRequestError, match="must keep its key"):
        decided("City", {"data": {"id": "Rome", "name": "Oslo"}})


def test_without_a_key_decided_values_carry_the_id() -> None:
    assert decided("Note", {"data": {"id": "n", "text": "x"}}) == {"n": {"text": "x"}}
    with pytest.raises(BadRequestError, match="must carry its id"):
        decided("Note", {"data": {"text": "x"}})


def test_decided_edges_carry_their_ends() -> None:
    image = {"from": "a", "to": "b", "data": {"id": "r", "km": 2}}
    assert decided("Road", image) == {"r": {"src": "a", "dst": "b", "km": 2}}


def test_values_that_fit_no_property_are_refused() -> None:
    with pytest.raises(DataError, match="the resolution"):
        decided("Note", {"data": {"id": "n", "text": 5}})
