"""Values are shown on one line, as people write them."""

from __future__ import annotations

import base64

import pytest

from omnigraph.catalog import PropertyType, Scalar
from omnigraph.cli.value_text import value_text


@pytest.mark.parametrize(
    ("value", "scalar", "shown"),
    [
        (None, Scalar.STRING, "<null>"),
        ("tea", Scalar.STRING, '"tea"'),
        (7, Scalar.I64, "7"),
        (0, Scalar.DATE, "1970-01-01"),
        (20000, Scalar.DATE, "2024-10-04"),
        (10**9, Scalar.DATE, "1000000000"),
        (1500, Scalar.DATETIME, "1970-01-01T00:00:01.500+00:00"),
        ("base64:" + base64.b64encode(b"abcd").decode(), Scalar.BLOB, "<4 bytes>"),
        ("base64:" + base64.b64encode(b"a").decode(), Scalar.BLOB, "<1 byte>"),
        ("base64:", Scalar.BLOB, "<0 bytes>"),
        ("s3://b/k", Scalar.BLOB, '"s3://b/k"'),
        ([0.25, 0.5], Scalar.VECTOR, "[0.25, 0.5]"),
        ([1 / 3] * 300, Scalar.VECTOR, "[0.3333, 0.3333, 0.3333, … 300 numbers]"),
    ],
)
def test_a_value_is_shown_as_people_write_it(value: object, scalar: Scalar, shown: str) -> None:
    assert value_text(value, PropertyType(scalar=scalar)) == shown


def test_lists_show_dates_and_their_first_values() -> None:
    days = PropertyType(scalar=Scalar.DATE, is_list=True)
    assert value_text([0, None, 1], days) == "[1970-01-01, <null>, 1970-01-02]"
    numbers = PropertyType(scalar=Scalar.I64, is_list=True)
    assert value_text(list(range(9)), numbers) == "[0, 1, 2, 3, 4, 5, 6, 7, … 9 values]"


def test_a_long_text_is_cut_and_its_length_told() -> None:
    shown = value_text("x" * 5000, PropertyType(scalar=Scalar.STRING))
    assert shown.endswith("x… (5,000 characters)")
    assert len(shown) < 230
