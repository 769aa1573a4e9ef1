"""Settings and fixtures every test shares.

HYPOTHESIS_PROFILE selects how long the property tests search: "ci" is the budget of the gate,
"dev" answers quickly while code is being written. A failure prints the blob that replays it.

OMNIGRAPH_S3 selects which tests also run on a real S3 server: "some" is the budget of the gate,
"full" means all that can, "off" none. OMNIGRAPH_FAULTS=full means all fault tests there, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.places import AnyPath, new_prefix
from tests.servers.seaweed import Seaweed, find_weed

# A wall-clock verdict would fail on a busy machine, so neither the deadline nor the health check
# that measures generation time is used; pytest-timeout stops a test that hangs.
# The gate tries the same inputs every time, so that a change is what turns it red;
# `make test-property` looks for new ones.
settings.register_profile(
    "ci",
    max_examples=80,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("dev", settings.get_profile("ci"), max_examples=25, derandomize=False)
settings.register_profile("full", settings.get_profile("ci"), max_examples=400, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

S3 = os.environ.get("OMNIGRAPH_S3", "some")
FAULTS = os.environ.get("OMNIGRAPH_FAULTS", "")
LONGEST_FIRST = (
    "docs",
    "faults",
    "studio",
    "soak",
    "server",
    "property",
    "cost",
    "concurrency",
    "cluster",
    "model",
    "integration",
)
"""Folders of tests by how long their longest file takes."""
S3_ONLY_IN_FULL = {
    # About values, texts and rows: where their files lie makes little difference to them, and
    # `test_stories_in_a_bucket` compares the same kinds of work on a disk and in a bucket.
    "test_bad_input",
    "test_blobs",
    "test_branches",
    "test_cli_query",
    "test_cli_schema",
    "test_edge_unions",
    "test_export",
    "test_history",
    "test_load",
    "test_merge_history",
    "test_merge_options",
    "test_merge_rows",
    "test_merge_values",
    "test_paths",
    "test_mutate",
    "test_mutate_values",
    "test_predicates",
    "test_query",
    "test_query_corners",
    "test_query_result",
    "test_query_values",
    "test_query_ways",
    "test_readonly",
    "test_resolve",
    "integration.test_schema_apply",
    "test_search",
    "test_stale_handles",
    # Long.
    "test_drift",
    "test_merge_crossing",
    "test_merge_same_edges",
    "test_upkeep",
    "test_upkeep_of_branches",
    "test_indexes",
    "test_large_load",
    "test_maintenance",
    "test_maintenance_fold",
    "test_moved_graphs",
    "test_random_history",
    "test_recovery",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that puts a graph somewhere on each backend."""
    if "backend" not in metafunc.fixturenames:
        return
    never = S3 == "off" or metafunc.definition.get_closest_marker("local")
    backends = ["local"] if never else ["local", "s3"]
    metafunc.parametrize("backend", backends, indirect=True, scope="module")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what runs on S3 only in full; begin with what takes long."""
    left_out = [item for item in items if _is_for_full_runs(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
    if hasattr(config, "workerinput"):
        # Of several processes none is left with a long file when the others have nothing to do.
        items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    """Return when the folder of a test is taken by several processes: the longest come first."""
    folders = item.path.relative_to(item.config.rootpath).parts
    turns = [turn for turn, name in enumerate(LONGEST_FIRST) if name in folders]
    return turns[0] if turns else len(LONGEST_FIRST)


def _is_for_full_runs(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function):
        return False
    where = item.callspec.params.get("backend") if hasattr(item, "callspec") else None
    if where != "s3" and "s3" not in item.fixturenames:
        return False
    if S3 in ("full", "off"):
        return S3 == "off"
    if FAULTS == "full" and "tests.faults" in item.module.__name__:
        return False
    long = item.module.__name__.endswith(tuple(f".{name}" for name in S3_ONLY_IN_FULL))
    return long or item.get_closest_marker("full_only") is not None


@pytest.fixture(scope="session")
def s3() -> Iterator[Seaweed]:
    """A running S3 server; the environment says how to reach it."""
    if find_weed() is None:
        pytest.skip("the S3 server is not installed")
    with Seaweed() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment().items():
            patch.setenv(name, value)
        yield server


@pytest.fixture(scope="module")
def backend(request: pytest.FixtureRequest) -> str:
    """Where the graphs of a test live: `local` or `s3`."""
    found = str(request.param)
    if found == "s3":
        request.getfixturevalue("s3")
    return found


@pytest.fixture
def place(backend: str, request: pytest.FixtureRequest) -> AnyPath:
    """An empty place for graphs."""
    if backend == "s3":
        return new_prefix(request.getfixturevalue("s3").bucket)
    found = request.getfixturevalue("tmp_path")
    assert isinstance(found, Path)
    return found


@pytest.fixture(scope="module")
def module_place(backend: str, request: pytest.FixtureRequest) -> AnyPath:
    """An empty place for graphs that the tests of a module share."""
    if backend == "s3":
        return new_prefix(request.getfixturevalue("s3").bucket)
    found = request.getfixturevalue("tmp_path_factory").mktemp("module")
    assert isinstance(found, Path)
    return found
