"""The examples of the page about large inputs run as they stand, in order, on one session."""

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

PAGE = Path(__file__).resolve().parents[2] / "docs" / "bulk-load.md"


def test_examples_run(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spark.range(1).collect()
    ran = 0
    for example in examples_of(PAGE):
        block = example.block
        if (name := block.options.get("file")) is not None:
            (tmp_path / name).write_text(block.text, encoding="utf-8")
        if block.tag != "run":
            continue
        ran += 1
        if block.language == "sh":
            run(example, tmp_path)
            continue
        # Keep the page's line numbers, so that a failure points into it.
        tree = ast.increment_lineno(ast.parse(block.text), block.line)
        exec(compile(tree, str(PAGE), "exec"), {"__name__": "example"})  # noqa: S102 - our own page
    assert ran


@full_only
def test_the_social_example_runs_to_its_end() -> None:
    bin_folder = str(Path(sys.executable).parent)
    done = subprocess.run(  # noqa: S603 - our own script
        [str(PAGE.parents[1] / "examples" / "social.sh"), "2000", "9000"],
        env={**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "2000 nodes, 9000 edges" in done.stdout
    assert "Lisbon" in done.stdout
