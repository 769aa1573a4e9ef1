"""Manifest rows: what is written is what is read."""

from __future__ import annotations

import datetime

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.commits import GraphCommit, TableRecord, encode, manifest_schema
from omnigraph.commits.records import STAMP_KEY, Record, decode
from omnigraph.errors import FormatError
from omnigraph.store import Pin

SCHEMA = manifest_schema(4)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
maybe = st.none() | text
number = st.integers(0, 2**63 - 1)
records: st.SearchStrategy[Record] = st.one_of(
    st.builds(TableRecord, table_key=text, incarnation=number, path=text, seq=number),
    st.builds(
        Pin,
        table_key=text,
        incarnation=number,
        path=text,
        version=st.integers(0, 2**64 - 1),
        row_count=st.integers(0, 2**64 - 1),
        transaction_uuid=text,
        seq=number,
    ),
    st.builds(
        GraphCommit,
        graph_commit_id=text,
        manifest_version=number,
        parent_commit_id=maybe,
        merged_parent_commit_id=maybe,
        actor_id=maybe,
        created_at_us=number,
        operation_id=text,
        kind=text,
        schema_hash=text,
        recovery_for_actor=maybe,
        message=maybe,
    ),
)


@given(items=st.lists(records, max_size=5))
def test_records_survive_the_round_trip(items: list[Record]) -> None:
    rows = encode(items, SCHEMA)
    assert rows.schema.equals(SCHEMA, check_metadata=True)
    assert list(decode(rows)) == items


def test_object_ids_name_what_they_are() -> None:
    rows = encode(
        [
            TableRecord(table_key="node:A", incarnation=2, path="nodes/x-2", seq=7),
            Pin(
                table_key="node:A",
                incarnation=2,
                path="nodes/x-2",
                version=31,
                row_count=5,
                transaction_uuid="u",
                seq=7,
            ),
            GraphCommit(graph_commit_id="01C", manifest_version=7, parent_commit_id="01B"),
        ],
        SCHEMA,
    )
    assert rows["object_id"].to_pylist() == [
        "table:node:A:2.7",
        "node:A$main$00000000000000000031$2.7",
        "01C",
    ]
    assert rows["object_type"].to_pylist() == ["table", "table_version", "graph_commit"]
    assert rows["table_key"].to_pylist() == ["node:A", "node:A", ""]
    assert rows["table_version"].to_pylist() == [None, 31, 7]
    assert rows["row_count"].to_pylist() == [None, 5, None]


def test_the_schema_has_the_columns_and_the_stamp_of_the_format() -> None:
    assert SCHEMA.names == [
        "object_id",
        "object_type",
        "location",
        "metadata",
        "base_objects",
        "table_key",
        "table_version",
        "table_branch",
        "row_count",
    ]
    assert SCHEMA.metadata[STAMP_KEY] == b"4"
    required = {field.name for field in SCHEMA if not field.nullable}
    assert required == {"object_id", "object_type", "table_key"}


def test_an_unknown_row_type_is_refused_not_skipped() -> None:
    rows = encode([TableRecord(table_key="node:A", incarnation=1, path="p", seq=1)], SCHEMA)
    changed = rows.set_column(1, SCHEMA.field(1), pa.array(["view"], pa.string()))
    with pytest.raises(FormatError, match="unknown row type 'view'") as refused:
        list(decode(changed))
    assert refused.value.hint == "upgrade omnigraph first"


def test_a_commit_has_its_time_in_utc_to_the_microsecond() -> None:
    made = GraphCommit(
        graph_commit_id="c", manifest_version=1, parent_commit_id=None, created_at_us=1_500_001
    )
    assert made.created_at == datetime.datetime(1970, 1, 1, 0, 0, 1, 500001, datetime.UTC)


def test_a_commit_without_a_message_is_stored_as_before_there_were_messages() -> None:
    commit = GraphCommit(
        graph_commit_id="c2",
        manifest_version=2,
        parent_commit_id="c1",
        actor_id="ada",
        created_at_us=7,
        kind="load",
        operation_id="o",
        schema_hash="s",
    )
    stored = (
        '{"seq":2,"parent_commit_id":"c1","merged_parent_commit_id":null,"merged_branch":null,'
        '"actor_id":"ada","created_at":7,"operation_id":"o","kind":"load","schema_hash":"s",'
        '"recovery_for_actor":null}'
    )
    assert encode([commit], SCHEMA)["metadata"].to_pylist() == [stored]
    said = encode([msgspec.structs.replace(commit, message="why")], SCHEMA)
    assert said["metadata"].to_pylist() == [stored[:-1] + ',"message":"why"}']
