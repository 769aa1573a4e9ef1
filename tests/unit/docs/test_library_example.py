"""The example library stays correct, tidy and worth showing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.catalog import accept_initial
from omnigraph.lang import compile_schema, lint_queries
from omnigraph.lang.pg_format import format_schema
from omnigraph.lang.schema_plan import plan_schema

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
LIBRARY = EXAMPLES / "library"
SCHEMAS = ["schema.pg", "schema-v2.pg"]


def _text(name: str) -> str:
    return (LIBRARY / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_compile_without_warning_and_are_formatted(name: str) -> None:
    assert compile_schema(_text(name)).warnings == ()
    assert format_schema(_text(name)) == _text(name)


def test_queries_have_no_findings() -> None:
    report = lint_queries(
        _text("queries.gq"), compile_schema(_text("schema.pg")).catalog, name="queries.gq"
    )
    assert report.ok
    assert report.findings == ()
    assert len(report.queries) >= 8


def test_the_second_schema_can_be_reached_from_the_first() -> None:
    accepted = accept_initial(compile_schema(_text("schema.pg")).catalog, domain="DOCS")
    plan = plan_schema(accepted, compile_schema(_text("schema-v2.pg")).catalog)
    assert plan.supported
    kinds = {step.kind for step in plan.steps}
    assert {"rename_type", "rename_property", "extend_enum", "add_property"} <= kinds


def test_the_demo_runs_to_its_end() -> None:
    bin_folder = str(Path(sys.executable).parent)
    done = subprocess.run(  # noqa: S603 - our own script
        [str(EXAMPLES / "demo.sh")],
        env={**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    # Somebody who tries this out sees an answer first.
    shown = done.stdout
    answer = shown.index("via on_the_shelf")
    assert answer < shown.index("omnigraph lint") < shown.index("error[T4]: unknown edge")
    assert "Reader 'm-2' has no value for mail, which the new schema requires" in done.stdout
    assert done.stdout.rstrip().endswith("import omnigraph as og")
