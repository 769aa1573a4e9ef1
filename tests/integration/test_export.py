"""Export: its order, its selection, its time travel, and that loading it gives the same graph."""

from __future__ import annotations

import json
import math
import string
import struct
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.catalog.temporal import DAYS_MAX, DAYS_MIN, MILLIS_MAX, MILLIS_MIN
from tests.integration.helpers import (
    Envelope,
    NewGraph,
    edge,
    exported,
    ids,
    load,
    node,
    rows,
    run,
)

EVERYTHING = """\
node Item {
    key: String @key
    text: String?
    kind: enum(red, green)?
    flag: Bool?
    i32: I32?
    i64: I64?
    u32: U32?
    u64: U64?
    f32: F32?
    f64: F64?
    day: Date?
    moment: DateTime?
    vector: Vector(3)?
    blob: Blob?
    texts: [String]?
    flags: [Bool]?
    numbers: [I64]?
    floats: [F64]?
    days: [Date]?
    moments: [DateTime]?
}
node Free { note: String? }
edge Links: Item -> Item { weight: F64?  blob: Blob?  moment: DateTime? }
edge Points: Free -> Item
"""


def single(value: float) -> float:
    """Return a number as 32 bits hold it."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
doubles = st.floats(allow_nan=False, allow_infinity=False)
singles = st.floats(width=32, allow_nan=False, allow_infinity=False)
days = st.integers(DAYS_MIN, DAYS_MAX)
moments = st.integers(MILLIS_MIN, MILLIS_MAX)
longs = st.integers(-(2**63), 2**63 - 1)
base64 = string.ascii_letters + string.digits + "+/"
blobs = st.text(base64, max_size=5).map(lambda text: f"base64:{text * 4}")
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "text": texts,
    "kind": st.sampled_from(["red", "green"]),
    "flag": st.booleans(),
    "i32": st.integers(-(2**31), 2**31 - 1),
    "i64": longs,
    "u32": st.integers(0, 2**32 - 1),
    "u64": st.integers(0, 2**64 - 1),
    "f32": singles,
    "f64": doubles,
    "day": days,
    "moment": moments,
    "vector": st.lists(singles, min_size=3, max_size=3),
    "blob": blobs,
    "texts": st.lists(texts, max_size=3),
    "flags": st.lists(st.booleans(), max_size=3),
    "numbers": st.lists(longs, max_size=3),
    "floats": st.lists(doubles, max_size=3),
    "days": st.lists(days, max_size=3),
    "moments": st.lists(moments, max_size=3),
}
items = st.dictionaries(
    texts,
    st.fixed_dictionaries({}, optional={k: st.none() | v for k, v in VALUES.items()}),
    min_size=1,
    max_size=6,
)
links = st.dictionaries(
    texts,
    st.tuples(
        st.integers(0, 100),
        st.integers(0, 100),
        st.fixed_dictionaries(
            {}, optional={"weight": st.none() | doubles, "blob": blobs, "moment": moments}
        ),
    ),
    max_size=4,
)


def full(envelope: Envelope, names: list[str]) -> Envelope:
    """Return an envelope as export writes it: every property present, by name."""
    data = envelope["data"]
    wanted = {"id": data["id"], **{name: data.get(name) for name in sorted(names)}}
    return {**envelope, "data": wanted}


@settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(items=items, links=links)
def test_loading_an_export_reproduces_every_entity(
    items: dict[str, dict[str, Any]], links: dict[str, tuple[int, int, dict[str, Any]]]
) -> None:
    names = sorted(items)
    given_rows = [node("Item", id=key, key=key, **items[key]) for key in names]
    given_rows += [
        edge("Links", names[a % len(names)], names[b % len(names)], id=key, **data)
        for key, (a, b, data) in sorted(links.items())
    ]
    expected = [
        full(row, [*VALUES, "key"] if "type" in row else ["blob", "moment", "weight"])
        for row in given_rows
    ]
    expected.sort(key=lambda row: ("edge" in row, row["data"]["id"].encode()))
    with tempfile.TemporaryDirectory() as folder:
        with og.init(f"{folder}/a", EVERYTHING, durability="none") as first:
            load(first, given_rows)
            assert same(exported(first), expected)
            assert first.export(f"{folder}/a.jsonl") == len(expected)
        with og.init(f"{folder}/b", EVERYTHING, durability="none") as second:
            second.load(f"{folder}/a.jsonl", mode="overwrite")
            assert same(exported(second), expected)
            second.export(f"{folder}/b.jsonl")
        assert Path(f"{folder}/a.jsonl").read_bytes() == Path(f"{folder}/b.jsonl").read_bytes()


def same(found: object, expected: object) -> bool:
    """Compare values and their types: -0.0 is not 0.0, and 1 is not 1.0."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return list(found) == list(expected) and all(same(found[k], expected[k]) for k in found)
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(found, float) and isinstance(expected, float):
        return found == expected and math.copysign(1, found) == math.copysign(1, expected)
    return type(found) is type(expected) and found == expected


@pytest.fixture
def filled(new_graph: NewGraph) -> og.Graph:
    graph = new_graph(EVERYTHING)
    load(
        graph,
        [
            edge("Links", "b", "a", id="l2"),
            edge("Links", "a", "b", id="l1", weight=0.5),
            node("Item", key="b"),
            node("Item", key="a", f32=0.1),
            node("Free", id="f"),
            edge("Points", "f", "a", id="p"),
        ],
    )
    return graph


def test_nodes_come_before_edges_and_rows_by_id(filled: og.Graph) -> None:
    order = [
        (item.get("type") or item.get("edge"), item["data"]["id"]) for item in exported(filled)
    ]
    assert order == [
        ("Free", "f"),
        ("Item", "a"),
        ("Item", "b"),
        ("Links", "l1"),
        ("Links", "l2"),
        ("Points", "p"),
    ]


def test_every_property_is_present_id_first_then_by_name(filled: og.Graph) -> None:
    item = next(row for row in exported(filled, "Item"))
    assert list(item) == ["type", "data"]
    assert list(item["data"]) == ["id", *sorted([*VALUES, "key"])]
    link = exported(filled, "Links")[0]
    assert link == {
        "edge": "Links",
        "from": "a",
        "to": "b",
        "data": {"id": "l1", "blob": None, "moment": None, "weight": 0.5},
    }


def test_a_32_bit_number_is_widened_exactly(filled: og.Graph) -> None:
    assert rows(filled, "Item")["a"]["f32"] == single(0.1) == 0.10000000149011612


def test_types_select_node_and_edge_types(filled: og.Graph) -> None:
    assert ids(exported(filled, "Free")) == ["f"]
    assert ids(exported(filled, "Points", "Free")) == ["f", "p"]


def test_an_unknown_type_is_refused_at_once(filled: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(og.NotFoundError, match="unknown export type 'Nope'"):
        filled.export(types=["Item", "Nope"])
    with pytest.raises(og.NotFoundError):
        filled.export(tmp_path / "out.jsonl", types=["Nope"])
    assert not (tmp_path / "out.jsonl").exists()


def test_a_file_holds_one_object_per_line(filled: og.Graph, tmp_path: Path) -> None:
    count = filled.export(tmp_path / "out.jsonl", types=["Links"])
    text = (tmp_path / "out.jsonl").read_text(encoding="utf-8")
    assert text.endswith("}\n")
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines == exported(filled, "Links")
    assert count == len(lines) == 2
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == ["out.jsonl"]


def test_an_unwritable_target_is_a_storage_error(filled: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(og.StorageError):
        filled.export(tmp_path / "none" / "out.jsonl")


def test_an_old_version_or_commit_is_exported_as_it_was(filled: og.Graph) -> None:
    before = exported(filled)
    commit, version = filled.commits.head().graph_commit_id, filled.snapshot().version
    run(filled, 'delete Item where key = "a"')
    run(filled, 'insert Item { key: "c" }')
    assert exported(filled, version=version) == before
    at_commit = filled.export(commit=commit)
    assert not isinstance(at_commit, int)
    assert list(at_commit) == before
    assert exported(filled, version=1) == []
    assert ids(exported(filled)) == ["f", "b", "c"]


def test_an_export_is_one_snapshot_while_the_graph_moves(filled: og.Graph) -> None:
    found = filled.export()
    assert not isinstance(found, int)
    first = next(found)
    run(filled, 'delete Item where key = "a"')
    rest = list(found)
    assert ids([first, *rest]) == ["f", "a", "b", "l1", "l2", "p"]


def test_an_unknown_version_commit_or_branch_is_not_found(filled: og.Graph) -> None:
    with pytest.raises(og.NotFoundError, match="graph version 99 does not exist"):
        filled.export(version=99)
    with pytest.raises(og.NotFoundError, match="'x' is not a branch, tag, commit id or version"):
        filled.export(commit="x")
    with pytest.raises(og.NotFoundError, match="branch 'x' does not exist"):
        filled.export(branch="x")
    with pytest.raises(og.BadRequestError, match="not both"):
        filled.export(commit="x", version=1)


def test_an_export_of_an_empty_graph_is_empty(new_graph: NewGraph, tmp_path: Path) -> None:
    graph = new_graph(EVERYTHING)
    assert exported(graph) == []
    assert graph.export(tmp_path / "out.jsonl") == 0
    assert (tmp_path / "out.jsonl").read_bytes() == b""
