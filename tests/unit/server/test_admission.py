"""How much an actor may have in flight, to the byte."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from omnigraph.errors import TooManyRequestsError
from omnigraph.server.admission import Admission


def refused(admission: Admission, actor: str | None, size_bytes: int) -> str:
    with pytest.raises(TooManyRequestsError) as caught, admission.admit(actor, size_bytes):
        pass
    assert caught.value.retry_after_s > 0
    return caught.value.message


def test_an_actor_has_so_many_writes_in_flight_and_no_more() -> None:
    admission = Admission(writes_max=2, bytes_max=100)
    with admission.admit("a", 1), admission.admit("a", 1):
        assert refused(admission, "a", 1) == "2 writes of 'a' are in flight"
    with admission.admit("a", 1), admission.admit("a", 1):
        pass


def test_the_last_byte_fits_and_the_next_does_not() -> None:
    admission = Admission(writes_max=9, bytes_max=10)
    assert "too many bytes" in refused(admission, "a", 11)
    with admission.admit("a", 4):
        assert "too many bytes" in refused(admission, "a", 7)
        with admission.admit("a", 6):
            pass
    with admission.admit("a", 10):
        pass


def test_actors_do_not_use_up_each_others_room() -> None:
    admission = Admission(writes_max=1, bytes_max=10)
    with admission.admit("a", 10), admission.admit("b", 10), admission.admit(None, 10):
        assert "'a'" in refused(admission, "a", 0)
        assert "'anonymous'" in refused(admission, None, 0)


def test_a_write_that_fails_gives_its_room_back() -> None:
    admission = Admission(writes_max=1, bytes_max=10)
    for _attempt in range(3):
        with pytest.raises(ZeroDivisionError), admission.admit("a", 10):
            raise ZeroDivisionError


def test_a_refusal_takes_no_room() -> None:
    admission = Admission(writes_max=2, bytes_max=10)
    with ExitStack() as stack:
        stack.enter_context(admission.admit("a", 5))
        refused(admission, "a", 6)
        stack.enter_context(admission.admit("a", 5))
        refused(admission, "a", 0)
    with admission.admit("a", 10):
        pass
