"""The grammar of names of states, without any graph."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph import clock
from omnigraph.graph.revisions import Revision, parse_moment, parse_revision
from tests.movable_clock import MovableClock


@pytest.mark.parametrize(
    ("text", "revision"),
    [
        ("main", Revision(anchor="main")),
        ("HEAD", Revision(anchor="HEAD")),
        ("main~2", Revision(anchor="main", steps=((1, 2),))),
        ("main~", Revision(anchor="main", steps=((1, 1),))),
        ("b^", Revision(anchor="b", steps=((1, 1),))),
        ("b^2~3^", Revision(anchor="b", steps=((2, 1), (1, 3), (1, 1)))),
        ("v1.2", Revision(anchor="v1.2")),
        ("v1.2~1", Revision(anchor="v1.2", steps=((1, 1),))),
        ("42", Revision(anchor="42")),
        ("main@7", Revision(anchor="main", version=7)),
        ("main@7~1", Revision(anchor="main", version=7, steps=((1, 1),))),
        ("main@{5 minutes ago}", Revision(anchor="main", moment="5 minutes ago")),
        ("@{yesterday}^", Revision(anchor="", moment="yesterday", steps=((1, 1),))),
        ("a/b-c_d~10", Revision(anchor="a/b-c_d", steps=((1, 10),))),
        ("main^3", Revision(anchor="main^3")),
        ("main~x", Revision(anchor="main~x")),
        ("", Revision(anchor="")),
    ],
)
def test_a_name_is_taken_apart(text: str, revision: Revision) -> None:
    assert parse_revision(text) == revision


@given(text=st.text(max_size=30))
def test_any_text_has_a_reading_and_none_is_lost(text: str) -> None:
    found = parse_revision(text)
    assert text.startswith(found.anchor)
    assert all(count >= 0 and which in (1, 2) for which, count in found.steps)


def test_moments_are_read_as_people_write_them() -> None:
    now = datetime.datetime(2026, 5, 3, 10, 30, tzinfo=datetime.UTC)

    class Fixed(MovableClock):
        def now_us(self) -> int:
            return int(now.timestamp() * 1e6)

    with clock.using(Fixed()):
        assert parse_moment("now") == now
        assert parse_moment("5 minutes ago") == now - datetime.timedelta(minutes=5)
        assert parse_moment("an hour ago") == now - datetime.timedelta(hours=1)
        assert parse_moment("2 weeks ago") == now - datetime.timedelta(weeks=2)
        assert parse_moment("yesterday") == datetime.datetime(2026, 5, 2, tzinfo=datetime.UTC)
        assert parse_moment("today") == datetime.datetime(2026, 5, 3, tzinfo=datetime.UTC)
        assert parse_moment("999999999 weeks ago") is not None
    assert parse_moment("2026-05-01") == datetime.datetime(2026, 5, 1, tzinfo=datetime.UTC)
    zoned = parse_moment("2026-05-01T12:00:00+02:00")
    assert zoned == datetime.datetime(2026, 5, 1, 10, tzinfo=datetime.UTC)
    assert parse_moment("soon") is None
    assert parse_moment("5 minutes") is None
