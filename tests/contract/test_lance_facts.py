"""Facts about Lance that the engine stands on; a release that changes one fails here first."""

from __future__ import annotations

import ast
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.dataset import Index
from lance.fragment import write_fragments
from lance.optimize import Compaction

from tests.arch.project import PACKAGE, files_under, place, report, tree_of

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64())])


def rows(*ids: str, n: int = 0) -> Any:
    return pa.table({"id": list(ids), "n": [n] * len(ids)}, schema=SCHEMA)


@pytest.fixture
def empty(tmp_path: Path) -> LanceDataset:
    return LanceDataset.commit(
        str(tmp_path / "t.lance"),
        LanceOperation.Overwrite(SCHEMA, []),
        enable_stable_row_ids=True,
        enable_v2_manifest_paths=True,
    )


def stage(dataset: LanceDataset, data: Any) -> Any:
    return write_fragments(data, dataset, mode="append", return_transaction=True)


def commit(dataset: LanceDataset, transaction: Any) -> LanceDataset:
    return LanceDataset.commit(dataset, transaction, max_retries=0)


def overwrite(dataset: LanceDataset, fragments: list[Any], **properties: str) -> Any:
    operation = LanceOperation.Overwrite(dataset.lance_schema, fragments)
    return lance.Transaction(dataset.version, operation, transaction_properties=properties)


@pytest.fixture
def table(empty: LanceDataset) -> LanceDataset:
    return commit(empty, stage(empty, rows("a", "b")))


def ids(dataset: LanceDataset) -> list[str]:
    return sorted(dataset.to_table()["id"].to_pylist())


def latest(dataset: LanceDataset) -> LanceDataset:
    return lance.dataset(str(dataset.uri))


def metadata_of(dataset: LanceDataset) -> list[Any]:
    return [fragment.metadata for fragment in dataset.get_fragments()]


# ---- the publish --------------------------------------------------------------------------


def test_a_strict_overwrite_has_one_winner(table: LanceDataset) -> None:
    crowd = 8
    barrier = threading.Barrier(crowd)

    def publish(number: int) -> bool:
        mine = latest(table)
        fragments = stage(mine, rows(f"w{number}")).operation.fragments
        transaction = overwrite(mine, [*metadata_of(mine), *fragments])
        barrier.wait(30)
        try:
            return commit(mine, transaction).version == table.version + 1
        except OSError:
            return False

    with ThreadPoolExecutor(crowd) as threads:
        won = list(threads.map(publish, range(crowd)))
    assert sum(won) == 1
    assert latest(table).version == table.version + 1
    assert ids(latest(table)) == ["a", "b", f"w{won.index(True)}"]


def test_a_strict_overwrite_from_an_older_version_is_refused(table: LanceDataset) -> None:
    stale = overwrite(table, metadata_of(table))
    commit(table, stage(table, rows("c")))
    with pytest.raises(OSError, match="retries"):
        commit(table, stale)
    assert ids(latest(table)) == ["a", "b", "c"]


def test_an_overwrite_with_old_and_new_fragments_keeps_rows_and_row_ids(
    table: LanceDataset,
) -> None:
    before = table.to_table(columns=["id"], with_row_id=True).to_pylist()
    fragments = stage(table, rows("c")).operation.fragments
    after = commit(table, overwrite(table, [*metadata_of(table), *fragments]))
    assert ids(after) == ["a", "b", "c"]
    assert after.to_table(columns=["id"], with_row_id=True).to_pylist()[:2] == before
    assert after.has_stable_row_ids


def test_an_overwrite_with_the_datasets_own_schema_keeps_its_metadata(tmp_path: Path) -> None:
    stamped = SCHEMA.with_metadata({b"stamp": b"4"})
    dataset = LanceDataset.commit(str(tmp_path / "j.lance"), LanceOperation.Overwrite(stamped, []))
    for number in range(3):
        fragments = stage(dataset, rows(f"r{number}")).operation.fragments
        dataset = commit(dataset, overwrite(dataset, [*metadata_of(dataset), *fragments]))
        assert dataset.schema.metadata == {b"stamp": b"4"}
    assert ids(dataset) == ["r0", "r1", "r2"]


def test_properties_and_uuid_of_a_transaction_can_be_read_back(table: LanceDataset) -> None:
    transaction = stage(table, rows("c"))
    transaction.transaction_properties = {"omnigraph.operation_id": "mine"}
    after = commit(table, transaction)
    found: Any = after.read_transaction(after.version)
    assert found.uuid == transaction.uuid
    assert found.read_version == table.version
    assert found.transaction_properties["omnigraph.operation_id"] == "mine"


# ---- table commits ------------------------------------------------------------------------


def test_a_stale_append_is_rebased_and_only_its_number_tells(table: LanceDataset) -> None:
    transaction = stage(table, rows("late"))
    commit(table, stage(table, rows("first")))
    landed = commit(table, transaction)
    assert landed.version == table.version + 2
    assert ids(landed) == ["a", "b", "first", "late"]


def test_a_transaction_committed_twice_is_applied_twice(table: LanceDataset) -> None:
    transaction = stage(table, rows("c"))
    commit(table, transaction)
    again = commit(table, transaction)
    assert ids(again) == ["a", "b", "c", "c"]


def test_two_staged_upserts_of_one_new_key_both_land(table: LanceDataset) -> None:
    """Nothing but the slot and the exact number stands between us and a duplicate key."""

    def staged() -> Any:
        merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        return merge.execute_uncommitted(rows("same"))[0]

    first, second = staged(), staged()
    commit(table, first)
    try:
        landed = commit(table, second)
    except OSError:
        pytest.fail("Lance refuses duplicate keys now: the probe before the stage can go")
    assert landed.version != table.version + 1
    assert ids(landed) == ["a", "b", "same", "same"]


def test_a_staged_delete_by_row_address_removes_exactly_those_rows(table: LanceDataset) -> None:
    found = table.scanner(columns=["id"], filter="id = 'a'", with_row_address=True).to_table()
    (address,) = found["_rowaddr"].to_numpy()
    fragment: Any = table.get_fragment(int(address >> np.uint64(32)))
    changed = fragment.delete_rows([int(address & np.uint64(0xFFFFFFFF))])
    after = commit(
        table, lance.Transaction(table.version, LanceOperation.Delete([changed], [], "x"))
    )
    assert ids(after) == ["b"]


def test_a_restore_equals_the_version_it_names(table: LanceDataset) -> None:
    moved = commit(table, stage(table, rows("c")))
    restored = commit(
        moved, lance.Transaction(moved.version, LanceOperation.Restore(table.version))
    )
    assert restored.version == moved.version + 1
    assert ids(restored) == ["a", "b"]
    assert [m.to_json() for m in metadata_of(restored)] == [m.to_json() for m in metadata_of(table)]


@pytest.mark.parametrize("kind", ["insert", "upsert", "delete", "overwrite"])
def test_a_staged_change_can_be_rebased_by_hand_over_a_restore(
    table: LanceDataset, kind: str
) -> None:
    transaction = _staged(table, kind)
    moved = commit(table, stage(table, rows("stray")))
    restored = commit(
        moved, lance.Transaction(moved.version, LanceOperation.Restore(table.version))
    )
    transaction.read_version = restored.version
    transaction.uuid = str(uuid.uuid4())
    landed = commit(restored, transaction)
    found: Any = landed.read_transaction(landed.version)
    assert landed.version == restored.version + 1
    assert found.uuid == transaction.uuid
    expected = {
        "insert": ["a", "b", "c"],
        "upsert": ["a", "b", "c"],
        "delete": ["b"],
        "overwrite": ["c"],
    }
    assert ids(landed) == expected[kind]


def _staged(table: LanceDataset, kind: str) -> Any:
    match kind:
        case "insert":
            return stage(table, rows("c"))
        case "upsert":
            merge = table.merge_insert("id")
            merge = merge.when_matched_update_all().when_not_matched_insert_all()
            return merge.execute_uncommitted(rows("a", "c", n=1))[0]
        case "delete":
            (fragment,) = table.get_fragments()
            changed: Any = fragment
            return lance.Transaction(
                table.version, LanceOperation.Delete([changed.delete_rows([0])], [], "x")
            )
        case _:
            return overwrite(table, list(stage(table, rows("c")).operation.fragments))


# ---- indexes and compaction ---------------------------------------------------------------


def _index(dataset: LanceDataset, fragment_ids: list[int]) -> LanceDataset:
    segment = dataset.create_index_uncommitted(
        "id", "BTREE", name="id_idx", fragment_ids=fragment_ids, replace=True
    )
    operation = LanceOperation.CreateIndex([segment], [])
    return commit(dataset, lance.Transaction(dataset.version, operation))


def _covered(dataset: LanceDataset) -> set[int]:
    return {
        number
        for item in dataset.describe_indices()
        if item.name == "id_idx"
        for segment in item.segments
        for number in segment.fragment_ids
    }


def test_fast_search_sees_indexed_rows_only(table: LanceDataset) -> None:
    indexed = _index(table, [0])
    grown = commit(indexed, stage(indexed, rows("tail")))
    assert _covered(grown) == {0}

    def search(where: str, *, fast: bool) -> list[str]:
        found = grown.scanner(columns=["id"], filter=where, fast_search=fast).to_table()
        return list(found["id"].to_pylist())

    assert search("id = 'a'", fast=True) == ["a"]
    assert search("id = 'tail'", fast=True) == []
    assert search("id = 'tail'", fast=False) == ["tail"]


def test_a_second_segment_of_one_name_adds_to_the_index(table: LanceDataset) -> None:
    grown = commit(_index(table, [0]), stage(table, rows("c")))
    grown = _index(grown, [1])
    assert _covered(grown) == {0, 1}
    found = grown.scanner(columns=["id"], filter="id IN ('a', 'c')", fast_search=True).to_table()
    assert sorted(found["id"].to_pylist()) == ["a", "c"]


def segment(dataset: LanceDataset, fragments: list[int]) -> Any:
    return dataset.create_index_uncommitted(
        "n", "BTREE", name="n_idx", fragment_ids=fragments, replace=True
    )


def test_segments_can_be_replaced_by_one_in_a_single_commit(table: LanceDataset) -> None:
    for name in ("c", "d"):
        table = commit(table, stage(table, rows(name, n=7)))
    for number in range(3):
        operation = LanceOperation.CreateIndex([segment(table, [number])], [])
        table = commit(table, lance.Transaction(table.version, operation))
    (index,) = table.describe_indices()
    old = [
        Index(
            uuid=item.uuid,
            name=index.name,
            fields=list(index.fields),
            dataset_version=item.dataset_version_at_last_update,
            fragment_ids=item.fragment_ids,
            index_version=item.index_version,
        )
        for item in index.segments
    ]
    assert len(old) == 3
    operation = LanceOperation.CreateIndex([segment(table, [0, 1, 2])], old)
    table = commit(table, lance.Transaction(table.version, operation))
    (index,) = table.describe_indices()
    assert [set(item.fragment_ids) for item in index.segments] == [{0, 1, 2}]
    assert table.count_rows(filter="n = 7") == 2


def test_a_staged_index_fits_a_version_with_more_fragments(table: LanceDataset) -> None:
    built = segment(table, [0])
    table = commit(table, stage(table, rows("c", n=7)))
    operation = LanceOperation.CreateIndex([built], [])
    table = commit(table, lance.Transaction(table.version, operation))
    assert table.count_rows(filter="n = 7") == 1
    assert table.count_rows(filter="n = 0") == 2


def test_a_scan_of_fragments_gives_their_rows_in_order(table: LanceDataset) -> None:
    for name in ("c", "d", "e"):
        table = commit(table, stage(table, rows(f"{name}1", f"{name}2")))
    table.delete("id = 'c1'")
    table = lance.dataset(table.uri)
    whole = table.to_table(columns=["id"])["id"].to_pylist()
    parts: list[str] = []
    for chosen in (table.get_fragments()[:1], table.get_fragments()[1:]):
        scanner = table.scanner(columns=["id"], with_row_address=True, fragments=chosen)
        found = scanner.to_table()
        parts += found["id"].to_pylist()
        addresses = found["_rowaddr"].to_pylist()
        assert addresses == sorted(addresses)
    assert parts == whole == ["a", "b", "c2", "d1", "d2", "e1", "e2"]
    # Places count live rows.
    taken = table.take([6, 0, 2, 3], columns=["id"])["id"].to_pylist()
    assert taken == [whole[place] for place in (6, 0, 2, 3)]


def vectors(*ids: str, value: float) -> Any:
    column = pa.array([[value, 0.0]] * len(ids), pa.list_(pa.float32(), 2))
    return pa.table({"id": list(ids), "v": column})


def test_a_vector_search_looks_at_rows_the_index_does_not_have(tmp_path: Path) -> None:
    target = str(tmp_path / "v.lance")
    dataset = lance.write_dataset(vectors("a", "b", value=1), target, enable_stable_row_ids=True)
    built = dataset.create_index_uncommitted(
        "v", "IVF_FLAT", name="v", fragment_ids=[0], metric="L2", num_partitions=1
    )
    operation = LanceOperation.CreateIndex([built], [])
    dataset = commit(dataset, lance.Transaction(dataset.version, operation))
    dataset = lance.write_dataset(vectors("c", value=0), target, mode="append")
    # An update moves a row out of the fragments the index was built from.
    dataset.merge_insert("id").when_matched_update_all().execute(vectors("a", value=9))
    dataset = lance.dataset(target)
    query = {"column": "v", "q": np.zeros(2, dtype=np.float32), "k": 9}
    found = dataset.scanner(columns=["id", "_distance"], nearest=query).to_table()
    assert found["id"].to_pylist() == ["c", "b", "a"]
    assert found["_distance"].to_pylist() == [0, 1, 81]


def test_a_blob_descriptor_tells_external_from_managed(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"abc")
    schema = pa.schema([pa.field("id", pa.string()), lance.blob_field("b", nullable=True)])
    values = [lance.blob_array([b"xy", None]), lance.blob_array([(tmp_path / "x.bin").as_uri()])]
    target = str(tmp_path / "b.lance")
    for names, column in zip((["m", "n"], ["e"]), values, strict=True):
        lance.write_dataset(
            pa.Table.from_arrays([pa.array(names), column], schema=schema),
            target,
            mode="append" if names == ["e"] else "create",
            data_storage_version="2.2",
            allow_external_blob_outside_bases=True,
        )
    managed, null, external = lance.dataset(target).to_table(columns=["b"])["b"].to_pylist()
    assert (managed["size"], managed["kind"] == 3, null) == (2, False, None)
    assert (external["kind"], external["blob_uri"]) == (3, (tmp_path / "x.bin").as_uri())


def test_a_compaction_makes_two_versions_and_keeps_row_ids_and_coverage(
    table: LanceDataset,
) -> None:
    grown = table
    for number in range(4):
        grown = commit(grown, stage(grown, rows(f"c{number}")))
    grown = _index(grown, [fragment.fragment_id for fragment in grown.get_fragments()])
    before = grown.to_table(columns=["id"], with_row_id=True).sort_by("id").to_pylist()
    plan = Compaction.plan(grown, options={"target_rows_per_fragment": 1000})
    results = [task.execute(grown) for task in plan.tasks]
    assert latest(grown).version == grown.version, "executing moved the head"
    Compaction.commit(grown.checkout_version(grown.version), results)
    after = latest(grown)
    assert after.version == grown.version + 2
    assert len(after.get_fragments()) == 1
    assert after.to_table(columns=["id"], with_row_id=True).sort_by("id").to_pylist() == before
    assert _covered(after) == {fragment.fragment_id for fragment in after.get_fragments()}
    assert after.has_stable_row_ids


def test_a_compaction_is_recorded_as_a_reservation_and_a_rewrite(table: LanceDataset) -> None:
    grown = commit(table, stage(table, rows("c")))
    plan = Compaction.plan(grown, options={"target_rows_per_fragment": 1000})
    Compaction.commit(grown, [task.execute(grown) for task in plan.tasks])
    after = latest(grown)
    first: Any = after.read_transaction(after.version - 1)
    second: Any = after.read_transaction(after.version)
    assert type(first.operation).__name__ == "BaseOperation"
    assert type(second.operation).__name__ == "Rewrite"


def test_stable_row_ids_stay_on_through_every_kind_of_commit(table: LanceDataset) -> None:
    moved = commit(table, stage(table, rows("c")))
    moved = commit(moved, _staged(moved, "upsert"))
    moved = commit(moved, overwrite(moved, []))
    restored = commit(
        moved, lance.Transaction(moved.version, LanceOperation.Restore(table.version))
    )
    assert all(item.has_stable_row_ids for item in (table, moved, restored))


def test_new_datasets_clean_nothing_up_by_themselves(table: LanceDataset) -> None:
    assert not any(key.startswith("lance.auto_cleanup") for key in latest(table).config())


def test_a_version_file_is_named_by_the_inverted_number(table: LanceDataset) -> None:
    folder = Path(str(table.uri)) / "_versions"
    expected = {f"{2**64 - 1 - version:020d}.manifest" for version in (1, 2)}
    found = [path for path in folder.iterdir() if path.suffix == ".manifest"]
    assert {path.name for path in found} == expected
    assert all(path.read_bytes().endswith(b"LANC") for path in found)


@pytest.mark.parametrize("body", ['{"version":1}', '{"version":99}', "", "garbage", None])
def test_the_version_hint_is_not_believed_on_a_local_disk(
    table: LanceDataset, body: str | None
) -> None:
    """Lance keeps a hint of the newest version; a late writer may leave an older one."""
    hint = Path(str(table.uri)) / "_versions" / "latest_version_hint.json"
    moved = commit(table, stage(table, rows("c")))
    if body is None:
        hint.unlink(missing_ok=True)
    else:
        hint.write_text(body)
    assert latest(table).version == moved.version
    assert table.latest_version == moved.version


# ---- what only the store room may call ----------------------------------------------------

COMMITTING = {
    "write_dataset",
    "insert",
    "delete",
    "update",
    "merge_insert",
    "create_index",
    "create_scalar_index",
    "create_index_uncommitted",
    "compact_files",
    "optimize_indices",
    "cleanup_old_versions",
    "create_branch",
    "add_columns",
    "drop_columns",
    "alter_columns",
    "update_config",
    "execute_uncommitted",
    "write_fragments",
}
"""Names that change a dataset. `insert`, `update` and `delete` also mean other things elsewhere:
they count only where `lance` is imported, which the import contracts allow in `store` alone."""
NEVER = {"commit_lock", "commit_batch", "detached", "delete_unverified", "conflict_retries"}
AMBIGUOUS = {"insert", "update", "delete"}


def _calls(path: Path) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else None
            name = node.func.id if isinstance(node.func, ast.Name) else name
            found.append((name or "", node.lineno))
            found += [(word.arg, node.lineno) for word in node.keywords if word.arg]
    return found


def test_w33_only_the_store_room_commits() -> None:
    wanted = COMMITTING - AMBIGUOUS
    problems = [
        f"{place(path, line)}: {name}"
        for path in files_under(PACKAGE, "*.py")
        if PACKAGE / "store" not in path.parents
        for name, line in _calls(path)
        if name in wanted or (name == "commit" and "LanceDataset" in path.read_text())
    ]
    assert not problems, report("committing Lance calls outside the store room", problems)


def _beside(node: ast.Call) -> bool:
    """Whether a commit makes a version for reading only, which no manifest ever names.

    It has no place among the versions, so nothing comes between; with no retries it always fails.
    """
    return {word.arg: ast.unparse(word.value) for word in node.keywords} == {"detached": "True"}


def test_nothing_uses_what_breaks_the_exact_commit() -> None:
    problems = [
        f"{place(path, line)}: {name}"
        for path in files_under(PACKAGE, "*.py")
        for name, line in _calls(path)
        if name in NEVER and line not in _lines_beside(path)
    ]
    assert not problems, report("Lance options that give up the conditional commit", problems)


def _lines_beside(path: Path) -> set[int]:
    """Return where versions beside the others are made; one function does."""
    found = {
        node.lineno
        for item in ast.walk(tree_of(path))
        if isinstance(item, ast.FunctionDef) and item.name == "commit_beside"
        for node in ast.walk(item)
        if isinstance(node, ast.Call) and _beside(node)
    }
    return found if path == PACKAGE / "store" / "tables" / "staging.py" else set()


def test_every_commit_of_an_existing_dataset_forbids_retries() -> None:
    """With retries a strict overwrite would erase what came between."""
    problems = []
    # A dataset of the caller is replaced as a whole, whatever it held, or made.
    of_callers = PACKAGE / "store" / "tables" / "plain_dataset.py"
    for path in files_under(PACKAGE / "store", "*.py"):
        for node in ast.walk(tree_of(path)) if path != of_callers else ():
            if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "LanceDataset.commit"):
                continue
            words = {word.arg: ast.unparse(word.value) for word in node.keywords}
            creates = "enable_stable_row_ids" in words
            if node.lineno in _lines_beside(path):
                continue
            if words.get("max_retries") != "0" and not creates:
                problems.append(place(path, node.lineno))
    assert not problems, report("commits that may be retried inside Lance", problems)
