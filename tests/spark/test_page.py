"""The examples of the pages about Spark run as they stand, in order, on one session."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark.worlds import full_only
from tests.unit.docs.examples import examples_of, run

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["bulk-load.md", "spark-queries.md", "tutorial-data-engineer.md"])
def test_examples_run(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    page = ROOT / "docs" / name
    monkeypatch.chdir(tmp_path)
    spark.range(1).collect()
    ran = 0
    for example in examples_of(page):
        block = example.block
        if (file := block.options.get("file")) is not None:
            (tmp_path / file).write_text(block.text, encoding="utf-8")
        if block.tag != "run":
            continue
        ran += 1
        if block.language == "sh":
            run(example, tmp_path)
            continue
        # Keep the page's line numbers, so that a failure points into it.
        tree = ast.increment_lineno(ast.parse(block.text), block.line)
        exec(compile(tree, str(page), "exec"), {"__name__": "example"})  # noqa: S102 - our own page
    assert ran


@full_only
def test_the_social_example_runs_to_its_end() -> None:
    bin_folder = str(Path(sys.executable).parent)
    done = subprocess.run(  # noqa: S603 - our own script
        [str(ROOT / "examples" / "social.sh"), "2000", "9000"],
        env={**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "2000 nodes, 9000 edges" in done.stdout
    assert "Lisbon" in done.stdout
