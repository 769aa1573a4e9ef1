"""Intents: the body of a slot, and what is made of bodies nobody finished or knows."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.commits.intents import (
    MESSAGE_FORMAT,
    NAME_CHARS_MAX,
    Intent,
    IntentTable,
    decode_intent,
    encode_intent,
    newer_format,
    slot_name,
)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
number = st.integers(0, 2**63 - 1)
tables = st.builds(
    IntentTable,
    table_key=text,
    incarnation=number,
    path=text,
    expected_version=number,
    transaction_uuid=text,
)
intents = st.builds(
    Intent,
    operation_id=text,
    commit_id=text,
    rollback_id=text,
    kind=text,
    branch=text,
    head_commit_id=text,
    manifest_version=number,
    actor_id=st.none() | text,
    schema_hash=text,
    created_at_us=number,
    tables=st.lists(tables, max_size=3).map(tuple),
    message=text | st.just(msgspec.UNSET),
)


@given(intent=intents)
def test_an_intent_survives_the_round_trip(intent: Intent) -> None:
    assert decode_intent(encode_intent(intent)) == intent
    assert newer_format(encode_intent(intent)) is None


@given(intent=intents, cut=st.floats(0, 1))
def test_a_torn_body_is_no_intent(intent: Intent, cut: float) -> None:
    body = encode_intent(intent)
    torn = body[: int(cut * (len(body) - 1))]
    assert decode_intent(torn) is None
    assert newer_format(torn) is None


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"null", b"\x00\x00", b'{"format": 1}'])
def test_a_foreign_body_is_no_intent(body: bytes) -> None:
    assert decode_intent(body) is None
    assert newer_format(body) is None


def test_the_intent_of_a_newer_release_is_recognised_whatever_it_holds() -> None:
    body = json.dumps({"format": MESSAGE_FORMAT + 1, "what": "ever"}).encode()
    assert newer_format(body) == MESSAGE_FORMAT + 1
    assert decode_intent(body) is None


def test_a_slot_is_named_by_branch_and_head() -> None:
    assert slot_name("main", "01C") == "main@01C.json"
    assert slot_name("a/b", "01C") == "a%2Fb@01C.json"
    assert slot_name("main", "01C") != slot_name("main", "01D")
    assert slot_name("a", "01C") != slot_name("b", "01C")


def test_a_long_branch_name_still_makes_a_short_file_name() -> None:
    names = {slot_name("x" * n, "0" * 26) for n in (NAME_CHARS_MAX, NAME_CHARS_MAX + 1, 5000)}
    assert len(names) == 3
    assert all(len(name) < 255 for name in names)


def test_two_branches_never_share_a_slot() -> None:
    assert slot_name("a%2Fb", "01C") != slot_name("a/b", "01C")
