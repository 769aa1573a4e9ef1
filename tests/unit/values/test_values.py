"""A value is declared once: its JSON form, its decoder and its schema agree."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest

from omnigraph.errors import BadRequestError, StorageError
from omnigraph.values.answers import (
    BranchList,
    ClusterDiagnostic,
    ClusterReport,
    CommitList,
    QueryEntry,
    QueryParam,
    RecoveryList,
)
from omnigraph.values.changes import ChangeBlock, Diff, EntityChange, FeedPage, TypeRef
from omnigraph.values.commits import BranchInfo, GraphCommit, PublishedTable, Snapshot, Tag
from omnigraph.values.failures import Problem
from omnigraph.values.merges import Conflict, ConflictKind, MergePlan, MergeResult
from omnigraph.values.recoveries import PendingWrite, RecoveryKind, RecoveryRecord, TableOutcome
from omnigraph.values.reports import (
    Classification,
    CleanedTable,
    CleanupReport,
    DumpReport,
    OptimizedTable,
    OptimizeReport,
    RepairedTable,
    RepairReport,
)
from omnigraph.values.requests import BranchRequest, ChangeRequest, InvokeRequest, QueryRequest
from omnigraph.values.results import Explanation, LoadResult, MutationResult, Stage
from omnigraph.values.schema_changes import SchemaChange
from omnigraph.values.schemas import components, ref, shape
from omnigraph.values.value import Value, decode

COMMIT = GraphCommit(
    graph_commit_id="01C",
    branch="work",
    manifest_version=7,
    parent_commit_id="01B",
    merged_parent_commit_id="01A",
    actor_id="act",
    created_at_us=1_700_000_000_000_001,
    kind="merge",
    recovery_for_actor="other",
    operation_id="op",
    schema_hash="sha256:1",
    merged_branch="side.01X",
)
TABLE = PublishedTable(
    table_key="node:P", path="t/p", version=3, table_branch="work.01X", row_count=5
)
CHANGE = EntityChange(
    kind="node",
    type=TypeRef(id="4", name="P"),
    id="a",
    op="update",
    before={"properties": {"n": 1}},
    after={"properties": {"n": 2}},
)
BLOCK = ChangeBlock(commit=COMMIT, changes=(CHANGE,), schema_boundary=True)
CONFLICT = Conflict(
    table_key="node:P",
    entity_id="a",
    kind=ConflictKind.DIVERGENT_UPDATE,
    message="both",
    base={"data": {"n": 0}},
    ours={"data": {"n": 1}},
)
RECOVERY = RecoveryRecord(
    graph_commit_id="01C",
    recovery_kind=RecoveryKind.ROLLED_BACK,
    recovery_for_actor=None,
    operation_id="op",
    writer_kind="load",
    tables=(TableOutcome(table_key="node:P", from_version=1, to_version=2),),
    created_at_us=5,
)
PENDING = PendingWrite(
    slot="s",
    alive=True,
    operation_id="op",
    writer_kind="load",
    actor_id=None,
    branch="main",
    tables=("node:P",),
)
VALUES: list[Value] = [
    COMMIT,
    BranchInfo(name="work", branch_uid="work.01X", parent="main", forked_at=3, created_at_s=9),
    Tag(name="v1", branch_name="work", branch_uid="work.01X", version=3, created_at_us=4),
    Snapshot(version=7, commit=COMMIT, tables={"node:P": TABLE}, internal_schema_version=1),
    MutationResult(affected_nodes=1, affected_edges=None, commit=COMMIT, dry_run=True),
    LoadResult(mode="append", nodes={"P": 2}, edges={"K": 1}, commit=None, rejected=3),
    MergeResult(outcome="merged", source="a", target="b", branch_delete_error="busy"),
    MergePlan(
        source="a",
        target="b",
        outcome="merged",
        base_commit_ids=("01A",),
        changes=({"table_key": "node:P", "id": "a", "op": "insert"},),
        conflicts=(CONFLICT,),
    ),
    Diff(before="a", after="b", changes=(CHANGE,)),
    BLOCK,
    FeedPage(blocks=(BLOCK,), cursor="c", caught_up=True),
    FeedPage(blocks=(), next_page_token="t"),  # noqa: S106  # no secret
    RECOVERY,
    PENDING,
    RecoveryList(recoveries=(RECOVERY,), pending=(PENDING,)),
    CommitList(commits=(COMMIT,)),
    BranchList(branches=["main"], details=(BranchInfo(name="main", branch_uid="main"),)),
    CleanupReport(
        uri="u",
        keep=1,
        older_than_s=None,
        dry_run=False,
        tables=(CleanedTable(table_key="node:P", error="no"),),
    ),
    DumpReport(uri="u", archive="a", heads={"main": "01C"}, files=1, bytes=2),
    RepairedTable(
        table_key="node:P",
        published_version=1,
        head_version=2,
        classification=Classification.SUSPICIOUS,
    ),
    OptimizeReport(
        uri="u", branch="main", commit=COMMIT, tables=(OptimizedTable(table_key="node:P"),)
    ),
    Explanation(
        plan="read\n  scan",
        stages=(Stage(text="scan", rows=1, estimated_rows=None, seconds=0.25),),
        rows=1,
        seconds=0.5,
        io={"reads": 1},
    ),
    SchemaChange(
        uri="u",
        supported=True,
        steps=({"kind": "drop_type", "affected_rows": 2},),
        commit=COMMIT,
        manifest_version=3,
    ),
    Problem(message="m", type_name="P", entity_id="a", field="n", line=3, file="f", element=2),
    QueryEntry(
        name="near",
        tool_name="near",
        mutation=False,
        description="d",
        params=(
            QueryParam(name="v", kind="vector", vector_dim=4, nullable=False),
            QueryParam(name="l", kind="list", item_kind="date", nullable=True),
        ),
    ),
    ClusterReport(
        ok=True,
        diagnostics=(ClusterDiagnostic(code="c", message="m", path="p", severity="warning"),),
    ),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_comes_back_from_its_json_form(value: Value) -> None:
    assert type(value).from_json(value.to_json()) == value


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_the_json_form_fits_the_published_schema(value: Value) -> None:
    body: Any = value.to_json()
    assert msgspec.convert(body, shape(type(value))) is not None
    schema = components([type(value)])[ref(type(value))["$ref"].rpartition("/")[2]]
    assert body.keys() <= schema["properties"].keys()
    assert set(schema["required"]) <= body.keys()


def test_twins_and_what_says_nothing() -> None:
    commit = COMMIT.to_json()
    assert commit["graph_branch"] == commit["manifest_branch"] == "work"
    assert commit["graph_manifest_version"] == commit["manifest_version"] == 7
    quiet = MutationResult(affected_nodes=0, affected_edges=0, commit=None).to_json()
    assert "dry_run" not in quiet
    assert "io" not in quiet
    assert FeedPage(blocks=()).to_json() == {"blocks": []}
    assert FeedPage(blocks=(), cursor="c").to_json() == {
        "blocks": [],
        "cursor": "c",
        "caught_up": False,
    }
    assert set(CONFLICT.to_review()) - set(CONFLICT.to_json()) == {"base", "ours", "theirs"}


def test_members_that_are_not_known_are_ignored_and_missing_ones_are_told() -> None:
    assert GraphCommit.from_json({**COMMIT.to_json(), "later": 1}) == COMMIT
    with pytest.raises(StorageError, match="graph_commit_id"):
        GraphCommit.from_json({"manifest_version": 1})
    with pytest.raises(StorageError, match="not of the expected form"):
        decode([1], list[GraphCommit])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"query": 3}', "query: Expected `str`, got `int`"),
        (b"{}", "Object missing required field `query`"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"query": "q", "version": "1"}', "version: Expected `int | null`, got `str`"),
        (b'{"query": "q", "timeout": 0}', "timeout: Expected `float` > 0.0"),
        (b'{"query": "q", "explain": 1}', "explain: Expected `bool`, got `int`"),
    ],
)
def test_a_wrong_request_names_the_member(content: bytes, told: str) -> None:
    with pytest.raises(BadRequestError) as error:
        QueryRequest.read(content)
    assert error.value.message == told


@pytest.mark.parametrize(
    "content", [b"{", b"nothing", b'{"query": NaN}', b'{"query": "\\ud800"}', b"\xff", b"[" * 9999]
)
def test_a_body_that_is_no_json_is_refused(content: bytes) -> None:
    with pytest.raises(BadRequestError, match="not valid JSON"):
        QueryRequest.read(content)


def test_older_names_are_understood_and_today_s_come_first() -> None:
    older = ChangeRequest.read(b'{"query_source": "a", "query_name": "b"}')
    assert (older.query, older.name) == ("a", "b")
    both = ChangeRequest.read(b'{"query": "a", "query_source": "b"}')
    assert both.query == "a"
    for name in (b"from", b"from_"):
        assert BranchRequest.read(b'{"name": "x", "%s": "y"}' % name).from_ == "y"


def test_only_some_requests_may_be_empty() -> None:
    assert InvokeRequest.read(b"") == InvokeRequest.read(b"null") == InvokeRequest()
    with pytest.raises(BadRequestError):
        BranchRequest.read(b"")


def test_the_room_loads_no_engine() -> None:
    code = (
        "import pkgutil, sys, omnigraph.values as room\n"
        "for item in pkgutil.iter_modules(room.__path__):\n"
        "    __import__(f'omnigraph.values.{item.name}')\n"
        "heavy = {'pyarrow', 'lance', 'numpy', 'obstore', 'pydantic', 'fastapi', 'httpx'}\n"
        "found = sorted(heavy & set(sys.modules))\n"
        "assert not found, found\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603  # our own code


def test_reports_of_upkeep_have_the_newer_names_beside_the_older_ones() -> None:
    pending = ({"column": "name", "reason": "small"},)
    done = OptimizedTable(
        table_key="node:P",
        skipped="drift_needs_repair",
        published_version=3,
        head_version=4,
        pending_indexes=pending,
    )
    body: Any = OptimizeReport(uri="u", branch="main", commit=None, tables=(done,)).to_json()
    assert body["datasets"] == body["tables"]
    first = body["datasets"][0]
    assert first["type_key"] == first["table_key"] == "node:P"
    assert first["published_dataset_version"] == first["manifest_version"] == 3
    assert first["pending_indexes"] == [{"column": "name", "property": "name", "reason": "small"}]
    assert OptimizeReport.from_json(body).tables[0].pending_indexes == pending

    found = RepairedTable(
        table_key="node:P",
        published_version=1,
        head_version=2,
        classification=Classification.SUSPICIOUS,
    )
    body = RepairReport(uri="u", confirm=True, force=True, commit=COMMIT, tables=(found,)).to_json()
    assert body["graph_manifest_version"] == body["manifest_version"] == 7
    assert body["datasets"] == body["tables"]
    assert body["datasets"][0]["published_dataset_version"] == 1

    cleaned = CleanedTable(table_key="node:P", bytes_removed=5)
    body = CleanupReport(
        uri="u", keep=1, older_than_s=None, dry_run=False, tables=(cleaned,)
    ).to_json()
    assert body["datasets"] == body["tables"]
    assert body["datasets"][0]["type_key"] == "node:P"
