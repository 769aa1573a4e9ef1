"""Canonical key text: one value, one id, made from what is stored."""

from __future__ import annotations

import datetime
import json
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from omnigraph.catalog import PropertyType, Scalar
from omnigraph.compute.types import arrow_type
from omnigraph.ids import UlidSource
from omnigraph.rows import canonical_texts, key_ids, keys
from omnigraph.rows.keys import ulid_column


def canonical(value: object, scalar: Scalar) -> str | None:
    declared = PropertyType(scalar=scalar)
    found = canonical_texts(pa.array([value], arrow_type(declared)), declared)[0].as_py()
    assert found is None or isinstance(found, str)
    return found


@pytest.mark.parametrize(
    ("scalar", "value", "expected"),
    [
        (Scalar.STRING, "as is ", "as is "),
        (Scalar.STRING, "", ""),
        (Scalar.BOOL, True, "true"),
        (Scalar.BOOL, False, "false"),
        (Scalar.I32, -(2**31), "-2147483648"),
        (Scalar.I64, 2**63 - 1, "9223372036854775807"),
        (Scalar.U32, 2**32 - 1, "4294967295"),
        (Scalar.U64, 2**64 - 1, "18446744073709551615"),
        (Scalar.DATE, datetime.date(2025, 2, 1), "20120"),
        (Scalar.DATE, datetime.date(1969, 12, 31), "-1"),
        (Scalar.DATETIME, datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC), "1000"),
        (Scalar.DATETIME, datetime.datetime(1969, 12, 31, tzinfo=datetime.UTC), "-86400000"),
        (Scalar.F64, 1.0, "1"),
        (Scalar.F64, 2.5, "2.5"),
        (Scalar.F64, 1e21, "1000000000000000000000"),
        (Scalar.F64, 1e-7, "0.0000001"),
        (Scalar.F64, 0.1, "0.1"),
        (Scalar.F64, 0.0, "0"),
        (Scalar.F64, -0.0, "0"),
        (Scalar.F64, -1.5, "-1.5"),
        (Scalar.F64, 2.0**53, "9007199254740992"),
        (Scalar.F32, 0.1, "0.1"),
        (Scalar.F32, -0.0, "0"),
        (Scalar.F32, 16777216.0, "16777216"),
        (Scalar.F32, 1e20, "100000000000000000000"),
        (Scalar.F32, 1e-10, "0.0000000001"),
    ],
)
def test_a_value_has_one_canonical_text(scalar: Scalar, value: object, expected: str) -> None:
    assert canonical(value, scalar) == expected


@pytest.mark.parametrize(
    "scalar", [s for s in Scalar if s not in (Scalar.VECTOR, Scalar.BLOB, Scalar.OBJECT)]
)
def test_null_stays_null(scalar: Scalar) -> None:
    assert canonical(None, scalar) is None


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_reads_back_from_its_text(value: float) -> None:
    text = canonical(value, Scalar.F64)
    assert text is not None
    assert float(text) == value
    assert "e" not in text.lower()
    assert not text.endswith(".0")


@given(value=st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_single_reads_back_from_its_text(value: float) -> None:
    text = canonical(value, Scalar.F32)
    assert text is not None
    assert struct.unpack("<f", struct.pack("<f", float(text)))[0] == value
    assert set(text) <= set("-0123456789.")
    assert len(Decimal(text).normalize().as_tuple().digits) <= 9


def composite(*columns: tuple[object, Scalar]) -> str:
    types = [PropertyType(scalar=scalar) for _value, scalar in columns]
    arrays = [
        pa.array([value], arrow_type(declared))
        for (value, _scalar), declared in zip(columns, types, strict=True)
    ]
    return str(key_ids(arrays, types)[0].as_py())


def test_a_composite_key_is_a_compact_json_array_of_texts() -> None:
    assert composite((3, Scalar.I32), (7, Scalar.I64)) == '["3","7"]'
    assert composite(('a"b', Scalar.STRING), ("é", Scalar.STRING)) == '["a\\"b","é"]'
    assert composite((True, Scalar.BOOL), (datetime.date(2025, 2, 1), Scalar.DATE)) == (
        '["true","20120"]'
    )


def test_one_column_is_its_plain_text() -> None:
    assert composite(("a", Scalar.STRING)) == "a"


@given(left=st.tuples(st.text(), st.text()), right=st.tuples(st.text(), st.text()))
def test_different_tuples_never_share_an_id(left: tuple[str, str], right: tuple[str, str]) -> None:
    def made(values: tuple[str, str]) -> Any:
        return composite(*((value, Scalar.STRING) for value in values))

    assert (made(left) == made(right)) == (left == right)
    assert tuple(json.loads(made(left))) == left


def test_a_long_run_of_ids_counts_up_through_all_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "ULID_CHUNK_ROWS", 1_000)
    first = (1 << 20) - 1_500
    source = UlidSource()
    prefix, start = source.run(1)
    ids = ulid_column((prefix, first), 2_500).to_pylist()
    assert len(ids) == 2_500
    assert [int(ULID.from_str(item)) - int(ULID.from_str(ids[0])) for item in ids] == list(
        range(2_500)
    )
    made = ULID.from_str(ulid_column((prefix, start), 1)[0].as_py())
    assert str(made).startswith(prefix)
    assert int(made) & ((1 << 40) - 1) == start
