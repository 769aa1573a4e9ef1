"""Values of parameters: what each declared type accepts, and every problem in one report."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from typing import cast

import numpy
import pytest

from omnigraph.catalog import Catalog, PropertyType, Scalar
from omnigraph.errors import BadRequestError
from omnigraph.lang.parameters import bind_parameters
from omnigraph.lang.queries import compile_query
from omnigraph.lang.schema import compile_schema
from omnigraph.plan import Parameter

UTC = datetime.UTC
TWO_HOURS_EAST = datetime.timezone(datetime.timedelta(hours=2))
CATALOG: Catalog = compile_schema("node A { a: String @key }").catalog


def declare(types: str) -> tuple[Parameter, ...]:
    """Declare `$a`, `$b` ... with the types named, as a query does."""
    names = [f"${name}: {text}" for name, text in zip("abcdef", types.split("; "), strict=False)]
    text = f"query q({', '.join(names)}) {{ match {{ $x: A }} return {{ $x.a }} }}"
    return compile_query(text, CATALOG).plan.parameters


def bind(declared: str, value: object) -> object:
    return bind_parameters(declare(declared), {"a": value})["a"]


def refusal(declared: str, value: object) -> str:
    with pytest.raises(BadRequestError) as error:
        bind(declared, value)
    return error.value.message


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        ("String", "Zoë", "Zoë"),
        ("String", "", ""),
        ("Bool", True, True),
        ("Bool", False, False),
        ("I32", 2**31 - 1, 2**31 - 1),
        ("I32", -(2**31), -(2**31)),
        ("I64", 2**63 - 1, 2**63 - 1),
        ("I64", -(2**63), -(2**63)),
        ("U32", 2**32 - 1, 2**32 - 1),
        ("U64", 2**64 - 1, 2**64 - 1),
        ("[U64]", [2**63, 1], (2**63, 1)),
        ("U64", 0, 0),
        ("I64", "9223372036854775807", 2**63 - 1),
        ("I64", "-9223372036854775808", -(2**63)),
        ("I32", "+7", 7),
        ("U32", "007", 7),
        ("F64", 1.5, 1.5),
        ("F64", 3, 3.0),
        ("F64", -(2**53), -float(2**53)),
        ("F32", 0.5, 0.5),
        ("F32", 0.1, 0.10000000149011612),
        ("Date", "2025-03-01", datetime.date(2025, 3, 1)),
        ("Date", datetime.date(2025, 3, 1), datetime.date(2025, 3, 1)),
        ("Date", "2025-03-01T23:30:00-01:00", datetime.date(2025, 3, 2)),
        ("Date", datetime.datetime(2025, 3, 1, 9, tzinfo=UTC), datetime.date(2025, 3, 1)),
        (
            "DateTime",
            "2025-03-01T10:00:00Z",
            datetime.datetime(2025, 3, 1, 10, tzinfo=UTC),
        ),
        (
            "DateTime",
            "2025-03-01T10:00:00.123456+02:00",
            datetime.datetime(2025, 3, 1, 8, 0, 0, 123000, tzinfo=UTC),
        ),
        ("DateTime", "2025-03-01", datetime.datetime(2025, 3, 1, tzinfo=UTC)),
        (
            "DateTime",
            datetime.datetime(2025, 3, 1, 10, 0, 0, 123456, tzinfo=UTC),
            datetime.datetime(2025, 3, 1, 10, 0, 0, 123000, tzinfo=UTC),
        ),
        (
            "DateTime",
            datetime.datetime(2025, 3, 1, 10, tzinfo=TWO_HOURS_EAST),
            datetime.datetime(2025, 3, 1, 8, tzinfo=UTC),
        ),
        (
            "DateTime",
            datetime.datetime(2025, 3, 1, 10),
            datetime.datetime(2025, 3, 1, 10, tzinfo=UTC),
        ),
        ("Blob", "base64:AAAA", "base64:AAAA"),
        ("Blob", "s3://bucket/key", "s3://bucket/key"),
        ("[String]", ["a", "b"], ("a", "b")),
        ("[String]", [], ()),
        ("[I32]", (1, "2"), (1, 2)),
        ("[Date]", ["2025-03-01"], (datetime.date(2025, 3, 1),)),
        ("[I64]", numpy.array([1, 2]), (1, 2)),
        ("Vector(3)", [1, 2.5, -3], (1.0, 2.5, -3.0)),
        ("Vector(2)", (0.5, 0.25), (0.5, 0.25)),
        ("Vector(2)", numpy.array([0.5, 0.25], dtype=numpy.float32), (0.5, 0.25)),
        ("Vector(2)", numpy.array([1, 2]), (1.0, 2.0)),
    ],
)
def test_accepted_values(declared: str, value: object, expected: object) -> None:
    found = bind(declared, value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("declared", "value", "fragment"),
    [
        ("String", 3, "expected String, got an integer"),
        ("String", ["a"], "expected String, got a list"),
        ("String", b"a", "expected String, got a bytes"),
        ("Bool", 1, "expected Bool"),
        ("Bool", "true", "expected Bool, got a string"),
        ("I32", 2**31, f"value {2**31} exceeds I32"),
        ("I32", -(2**31) - 1, "exceeds I32"),
        ("I64", 2**63, "exceeds I64"),
        ("I64", "9223372036854775808", "exceeds I64"),
        ("U32", -1, "value -1 exceeds U32"),
        ("U32", "-1", "exceeds U32"),
        ("U64", 2**64, "exceeds U64"),
        ("I32", 1.0, "expected I32, got a float"),
        ("I32", True, "expected I32, got a boolean"),
        ("I32", "1.0", "expected I32"),
        ("I32", "", "expected I32"),
        ("I32", "-", "expected I32"),
        ("I32", " 1", "expected I32"),
        ("I32", "1_000", "expected I32"),
        ("I32", "１", "expected I32"),  # noqa: RUF001 -- a digit, but not a decimal one
        ("I64", "9" * 5000, "expected I64"),
        ("F64", "1.5", "expected F64, got a string"),
        ("F64", True, "expected F64, got a boolean"),
        ("F64", float("nan"), "finite"),
        ("F64", float("inf"), "finite"),
        ("F64", 10**400, "exceeds F64"),
        ("F32", 1e39, "exceeds F32"),
        ("Date", "2025-13-01", "month"),
        ("Date", "1.3.2025", "1.3.2025"),
        ("Date", 20250301, "expected a Date"),
        ("DateTime", "yesterday", "yesterday"),
        ("DateTime", "2025-03-01T25:00:00Z", "hour"),
        ("DateTime", 1740823200, "expected a DateTime"),
        ("DateTime", datetime.date(2025, 3, 1), "expected a DateTime"),
        ("Blob", 3, "expected Blob"),
        ("[String]", "abc", "expected a list for [String]"),
        ("[String]", {"a": 1}, "expected a list"),
        ("[String]", ["a", 3], "item 2: expected String"),
        ("[String]", ["a", None], "item 2: expected String, got null"),
        ("[I32]", [2**31], "item 1: value 2147483648 exceeds I32"),
        ("Vector(3)", [1.0, 2.0], "expected 3 values for Vector(3), got 2"),
        ("Vector(3)", [], "expected 3 values for Vector(3), got 0"),
        ("Vector(2)", numpy.zeros(3), "expected 2 values for Vector(2), got 3"),
        ("Vector(2)", numpy.zeros((2, 2)), "item 1"),
        ("Vector(1)", numpy.float32(1.0), "expected a list for Vector(1)"),
        ("Vector(2)", [1.0, "x"], "item 2: expected F32"),
        ("Vector(2)", [1.0, float("nan")], "item 2: expected a finite number"),
    ],
)
def test_refused_values(declared: str, value: object, fragment: str) -> None:
    message = refusal(declared, value)
    assert message.startswith("parameter 'a': ")
    assert fragment in message


def test_a_huge_value_is_not_repeated_in_full() -> None:
    assert len(refusal("I64", "9" * 100_000)) < 200


@pytest.mark.parametrize("declared", ["String?", "I32?", "[String]?", "Vector(3)?", "Blob?"])
def test_a_nullable_parameter_is_null_when_left_out_or_null(declared: str) -> None:
    parameters = declare(declared)
    assert bind_parameters(parameters, {}) == {"a": None}
    assert bind_parameters(parameters, None) == {"a": None}
    assert bind_parameters(parameters, {"a": None}) == {"a": None}


def test_null_for_a_required_parameter_is_refused() -> None:
    assert "null is not accepted for non-nullable parameter" in refusal("String", None)


def test_a_missing_required_parameter_is_refused_before_anything_runs() -> None:
    nothing: list[dict[str, object] | None] = [{}, None]
    for values in nothing:
        with pytest.raises(BadRequestError, match=r"parameter 'a': not provided.*Vector\(3\)"):
            bind_parameters(declare("Vector(3)"), values)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mx", "parameter 'mx': the query declares no such parameter; did you mean `max`?"),
        ("$max", "parameter '$max': the query declares no such parameter; did you mean `max`?"),
        ("z", "parameter 'z': the query declares no such parameter; it declares min, max"),
    ],
)
def test_a_name_the_query_does_not_declare_is_refused(name: str, message: str) -> None:
    kind = PropertyType(scalar=Scalar.I32, nullable=True)
    declared = tuple(Parameter(name=item, type=kind) for item in ("min", "max"))
    with pytest.raises(BadRequestError) as error:
        bind_parameters(declared, {name: 1})
    assert error.value.message == message


def test_a_query_without_parameters_takes_none() -> None:
    with pytest.raises(BadRequestError, match=r"'z': .*; it declares no parameters"):
        bind_parameters((), {"z": None})
    assert bind_parameters((), {}) == {}


def test_values_come_in_the_order_of_declaration() -> None:
    found = bind_parameters(declare("I32; String?; Bool"), {"c": True, "a": 1})
    assert list(found.items()) == [("a", 1), ("b", None), ("c", True)]


def test_every_problem_is_reported_at_once() -> None:
    values = {"a": "x", "b": None, "d": [1.0], "e": ["2025-01-01", 3], "f": 7}
    with pytest.raises(BadRequestError) as error:
        bind_parameters(declare("I32; String; Bool; Vector(2); [Date]; I64"), values)
    problems = error.value.message.split("; ")
    assert [item.split(":")[0] for item in problems] == [f"parameter '{name}'" for name in "abcde"]
    assert error.value.http_status == 400


@pytest.mark.parametrize("values", [["a"], "a", 3, [("a", 1)]])
def test_values_must_be_an_object(values: object) -> None:
    with pytest.raises(BadRequestError, match="must be an object"):
        bind_parameters(declare("I32?"), cast("Mapping[str, object]", values))


def test_the_given_values_are_not_changed() -> None:
    given = {"a": ["1", "2"]}
    assert bind_parameters(declare("[I32]"), given) == {"a": (1, 2)}
    assert given == {"a": ["1", "2"]}


@pytest.mark.parametrize(
    ("declared", "values"),
    [
        ("[I64]", list(range(300_000))),
        ("[F64]", [number / 2 for number in range(300_000)]),
        ("[String]", [str(number) for number in range(300_000)]),
    ],
)
def test_a_long_list_is_bound_as_a_whole(declared: str, values: list[object]) -> None:
    parameters = declare(declared)
    begun = time.process_time()
    found = bind_parameters(parameters, {"a": values})
    # One by one it takes more than a microsecond for each.
    assert time.process_time() - begun < 0.2
    assert found["a"] == tuple(values)
    assert "item 300001" in refusal(declared, [*values, None])
