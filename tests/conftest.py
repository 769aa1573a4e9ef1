"""Settings and fixtures every test shares.

HYPOTHESIS_PROFILE selects how long the property tests search: "ci" is the budget of the gate,
"dev" answers quickly while code is being written. A failure prints the blob that replays it.

OMNIGRAPH_S3 selects which tests also run on a real S3 server: "some" is the budget of the gate,
"full" means all that can, "off" none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from omnigraph.testing import Seaweed, find_weed
from tests.places import AnyPath, new_prefix

# A wall-clock verdict would fail on a busy machine, so neither the deadline nor the health check
# that measures generation time is used; pytest-timeout stops a test that hangs.
settings.register_profile(
    "ci",
    max_examples=200,
    deadline=None,
    derandomize=False,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("dev", settings.get_profile("ci"), max_examples=25)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

S3 = os.environ.get("OMNIGRAPH_S3", "some")
S3_ONLY_IN_FULL = {
    # About values, texts and rows: where their files lie makes no difference to them.
    "test_bad_input",
    "test_export",
    "test_load",
    "test_merge_options",
    "test_merge_rows",
    "test_merge_values",
    "test_mutate_values",
    "test_predicates",
    "test_query_result",
    # Long.
    "test_indexes",
    "test_large_load",
    "test_random_history",
    "test_recovery",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that puts a graph somewhere on each backend."""
    if "backend" not in metafunc.fixturenames:
        return
    backends = ["local"]
    module = metafunc.module.__name__.rpartition(".")[2]
    long = module in S3_ONLY_IN_FULL or metafunc.definition.get_closest_marker("full_only")
    never = metafunc.definition.get_closest_marker("local")
    if S3 == "full" or (S3 == "some" and not long):
        backends += [] if never else ["s3"]
    metafunc.parametrize("backend", backends, indirect=True, scope="module")


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
