"""The branching benchmark's steps in DoltLite, run by its own interpreter; prints milliseconds.

python benchmarks/_doltlite.py ROWS ROUNDS
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from statistics import median


def measure(rows: int, rounds: int) -> dict[str, float]:
    """Time a branch, a committed insert on it, its diff, a merge of 1,000 rows against others."""
    import sqlite3

    times: dict[str, list[float]] = {"branch": [], "commit": [], "diff": [], "merge": []}

    def timed(name: str, *statements: str) -> None:
        start = time.perf_counter()
        for text in statements:
            connection.execute(text).fetchall()
        times[name].append((time.perf_counter() - start) * 1e3)

    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(os.path.join(folder, "db"), isolation_level=None)
        run = connection.execute
        run("CREATE TABLE person(name TEXT PRIMARY KEY, age INT)")
        run("BEGIN")
        names = ((f"p{number:09d}",) for number in range(rows))
        connection.executemany("INSERT INTO person VALUES (?, 0)", names)
        run("COMMIT")
        run("SELECT dolt_commit('-A', '-m', 'load')").fetchall()
        change = "UPDATE person SET age = age + 1 WHERE name BETWEEN '{}' AND '{}'"
        commit = "SELECT dolt_commit('-A', '-m', 'change')"
        for number in range(rounds):
            branch = f"b{number}"
            timed("branch", f"SELECT dolt_branch('{branch}')")
            run(f"SELECT dolt_checkout('{branch}')").fetchall()
            timed("commit", f"INSERT INTO person VALUES ('new{number}', 1)", commit)
            timed("diff", "SELECT * FROM dolt_diff_person('HEAD~1', 'HEAD')")
            run(change.format("p000002000", "p000002999"))
            run(commit).fetchall()
            run("SELECT dolt_checkout('main')").fetchall()
            run(change.format("p000006000", "p000006999"))
            run(commit).fetchall()
            timed("merge", f"SELECT dolt_merge('{branch}')")
        connection.close()
    return {name: median(found) for name, found in times.items()}


if __name__ == "__main__" and len(sys.argv) == 3:
    import doltlite  # type: ignore[import-not-found]  # noqa: F401 - swaps the SQLite library

    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
