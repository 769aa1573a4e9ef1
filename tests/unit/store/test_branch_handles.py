"""Making a branch does not get in the way of those who read the same table."""

from __future__ import annotations

import threading
from pathlib import Path

import lance
import pyarrow as pa

from omnigraph.store.tables.branches import make_branch


def test_a_shared_handle_can_be_read_while_a_branch_is_made(tmp_path: Path) -> None:
    dataset = lance.write_dataset(pa.table({"a": [1]}), tmp_path / "t")
    failures: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            try:
                assert dataset.version == 1
            except RuntimeError as error:
                failures.append(error)
                return

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(10):
        make_branch(dataset, f"b{number}", 1)
    done.set()
    for reader in readers:
        reader.join()
    assert not failures
