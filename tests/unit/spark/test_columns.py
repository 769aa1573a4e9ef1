"""Keys as text: equal exactly when all their values are, and shown as people wrote them."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.spark.columns import _key as key_texts
from omnigraph.spark.columns import image_text, shown
from tests.unit.rows.arrow_rows import catalog_of, table

ENTITY = catalog_of("""
node Item {
    a: String? b: String? flag: Bool? day: Date? at: DateTime? half: F32? whole: F64? n: I64?
}
""").nodes["Item"]


def keys(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> list[str | None]:
    found = table(ENTITY, {str(number): row for number, row in enumerate(rows)})
    batch = found.combine_chunks().to_batches()[0]
    return list(key_texts(ENTITY, columns, batch).to_pylist())


texts = st.one_of(st.none(), st.text(alphabet="a1:", max_size=3))


@settings(max_examples=100)
@given(st.lists(st.tuples(texts, texts), min_size=2, max_size=6))
def test_two_keys_are_one_text_exactly_when_their_values_are_equal(
    pairs: list[tuple[str | None, str | None]],
) -> None:
    found = keys(["a", "b"], [{"a": one, "b": other} for one, other in pairs])
    for text, pair in zip(found, pairs, strict=True):
        assert (text is None) == (None in pair)
        if text is not None:
            assert shown(ENTITY, ["a", "b"], text) == list(pair)
    whole = [pair for pair in pairs if None not in pair]
    assert len({text for text in found if text is not None}) == len(set(whole))


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("a", "x:y", "x:y"),
        ("flag", True, "True"),
        ("flag", False, "False"),
        ("day", datetime.date(2024, 2, 29), "2024-02-29"),
        (
            "at",
            datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC),
            "2024-02-29 12:30:00+00:00",
        ),
        ("half", 0.1, "0.10000000149011612"),
        ("whole", 0.1, "0.1"),
        ("n", -7, "-7"),
    ],
)
def test_a_value_is_shown_as_messages_of_one_process_show_it(
    column: str, value: object, text: str
) -> None:
    (found,) = keys([column], [{column: value}])
    assert found is not None
    assert shown(ENTITY, [column], found) == [text]


def test_zeros_of_both_signs_are_one_key() -> None:
    plus, minus = keys(["whole"], [{"whole": 0.0}, {"whole": -0.0}])
    assert plus == minus


def test_without_columns_nothing_has_a_key() -> None:
    assert keys([], [{"a": "x"}, {"a": "y"}]) == [None, None]


def test_an_id_is_its_own_text() -> None:
    batch = pa.RecordBatch.from_pydict({"id": ["x", None]})
    assert key_texts(ENTITY, ["id"], batch).to_pylist() == ["x", None]


def test_images_are_json_that_keeps_every_letter() -> None:
    assert image_text(None) is None
    assert image_text({"name": "Zoë"}) == '{"name": "Zoë"}'
