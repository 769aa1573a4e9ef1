"""Expressions of a mapping: one record in, one value out."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Iterator
from typing import Any

import pytest

from omnigraph.errors import CompileError
from omnigraph.intake.expressions import UnfitValueError, computing
from omnigraph.lang.column_expressions import columns_in, compile_column_expression

RECORD: dict[str, Any] = {
    "name": "  Ann ",
    "n": 7,
    "x": 2.5,
    "t": "41",
    "yes": True,
    "nothing": None,
    "tags": ["a", "b"],
    "day": datetime.date(2026, 1, 2),
    "at": datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC),
    "City name": "Bonn",
    "nan": math.nan,
    "inf": math.inf,
    "long": "9" * 5000,
    "local": datetime.datetime(2026, 1, 2, 3),
}


def _value(text: str) -> Any:
    return computing(text)(lambda name: RECORD[name])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("lower(trim(name))", "ann"),
        ("upper(trim(name))", "ANN"),
        ('concat(n, "-", x, "-", yes)', "7-2.5-true"),
        ('concat(name, "x", nothing)', None),
        ('coalesce(nothing, "z")', "z"),
        ("integer(t) + n * 2", 55),
        ("-n / 2", -3),
        ("n % 4", 3),
        ("-n % 4", -3),
        ("n % 2.5", 2.0),
        ("x % 2", 0.5),
        ("x / 2", 1.25),
        ("round(x * 1.3, 1)", 3.2),
        ("round(2.6)", 3),
        ("abs(-n)", 7),
        ("float(t)", 41.0),
        ('boolean("No")', False),
        ("string(x)", "2.5"),
        ("string(at)", "2026-01-02T03:00:00Z"),
        ('date("2026-03-04")', datetime.date(2026, 3, 4)),
        ('date("04.03.2026", "%d.%m.%Y")', datetime.date(2026, 3, 4)),
        ("date(at)", datetime.date(2026, 1, 2)),
        (
            'datetime("2026-03-04T05:06:07Z")',
            datetime.datetime(2026, 3, 4, 5, 6, 7, tzinfo=datetime.UTC),
        ),
        ("key(n)", "7"),
        ('key(n, "a\\"b")', '["7","a\\"b"]'),
        ("key(day)", "20455"),
        ("length(tags)", 2),
        ('split("a;b", ";")', ["a", "b"]),
        ('part("a/b/c", "/", 2)', "b"),
        ('part("a/b/c", "/", 9)', None),
        ('replace("a-b", "-", "")', "ab"),
        ('substring("abcdef", 2, 3)', "bcd"),
        ('substring("abcdef", 4)', "def"),
        ('null_if(t, "41", "n/a")', None),
        ("try(integer(name))", None),
        ("try(x % 0.0)", None),
        ("try(round(nan))", None),
        ("try(date(t, 5))", None),
        ('if(n > 5 and not (t = "x"), "big", "small")', "big"),
        ("nothing is null and n is not null", True),
        ("nothing or yes", True),
        ("nothing and yes", None),
        ('n in [1, 7] and tags contains "b"', True),
        ('trim(name) starts_with "A"', True),
        ('col("City name")', "Bonn"),
        ("length(hash(n, t))", 32),
    ],
)
def test_a_value_is_computed(text: str, value: Any) -> None:
    found = _value(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("integer(name)", "'  Ann ' is not an integer"),
        ("integer(x)", "2.5 is not an integer"),
        ("t + 1", "expected a number, got '41': use integer"),
        ("n / 0", "cannot calculate with 7 and 0"),
        ("n % 0", "cannot calculate with 7 and 0"),
        ("x % 0.0", "cannot calculate with 2.5 and 0.0"),
        ("inf % 2", "cannot calculate with inf and 2"),
        ("round(nan)", "nan cannot be rounded"),
        ("round(inf, 1)", "inf cannot be rounded"),
        ("integer(long)", "5000 digits are too many for an integer"),
        ("date(t, 5)", "expected a text, got 5"),
        ("n < t", "cannot compare 7 with '41'"),
        ("n = t", "cannot compare 7 with '41'"),
        ("lower(n)", "expected a text, got 7"),
        ("if(n, 1, 2)", "expected true or false, got 7"),
        ('date("soon")', "'soon' is not of the form"),
        ('float("nan")', "'nan' is not a number"),
        ('boolean("maybe")', "neither true nor false"),
        ("n in t", "expected a list after `in`"),
        ('split(t, "")', "cannot be split at nothing"),
    ],
)
def test_a_value_that_does_not_fit_is_told(text: str, message: str) -> None:
    with pytest.raises(UnfitValueError, match=message):
        _value(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lowr(name)", "unknown function `lowr`"),
        ("concat()", "`concat` takes 1 to 64 arguments, got 0"),
        ("a b", "expected the end of the expression"),
        ("$p.name", "variables and patterns are for queries"),
        ("col(a)", "`col` takes the name of a column"),
        ("count { $p: Person }", "variables and patterns are for queries"),
    ],
)
def test_wrong_text_is_refused_at_its_place(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        compile_column_expression(text, "crew.toml: Person.name")


def test_the_columns_of_an_expression_are_known() -> None:
    node = compile_column_expression('if(A > b, col("c.d"), lower(A))', "m")
    assert columns_in(node) == ["A", "b", "c.d"]


@pytest.fixture(params=["UTC", "America/New_York"])
def _zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_zone")
def test_a_time_without_a_zone_is_utc_on_every_machine() -> None:
    assert _value("string(local)") == "2026-01-02T03:00:00Z"
    assert _value("key(local)") == _value("key(at)")
    assert _value("hash(local)") == _value("hash(at)")
    assert _value("datetime(local) = at") is True
