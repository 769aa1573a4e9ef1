"""Identifiers: no two are the same, whoever asks."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from omnigraph.ids import UlidSource, is_ulid


def test_ids_grow_and_differ_across_threads() -> None:
    source = UlidSource()

    def some() -> list[str]:
        return [source.next() for _number in range(500)]

    with ThreadPoolExecutor(8) as pool:
        drawn = [item.result() for item in [pool.submit(some) for _thread in range(8)]]
    assert len({name for names in drawn for name in names}) == 4_000
    assert all(names == sorted(names) and all(map(is_ulid, names)) for names in drawn)


FORKS = """
import os
from omnigraph.ids import UlidSource

# With one clock both would go on alike but for the randomness.
source = UlidSource(clock=lambda: 1.0)
source.next()
child = os.fork()
if child:
    os.waitpid(child, 0)
print(*(source.next()[-16:] for _number in range(100)), flush=True)
"""


def test_a_forked_process_hands_out_other_ids_than_its_parent() -> None:
    """In a process of its own: the libraries of this one do not survive a fork."""
    asked = [sys.executable, "-c", FORKS]
    done = subprocess.run(asked, capture_output=True, check=True)  # noqa: S603 - a test
    theirs, ours = (set(line.split()) for line in done.stdout.decode().splitlines())
    assert len(theirs) == len(ours) == 100
    assert not theirs & ours
