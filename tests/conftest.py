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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that puts a graph somewhere on each backend."""
    if "backend" not in metafunc.fixturenames:
        return
    backends = ["local"]
    if S3 != "off" and metafunc.definition.get_closest_marker("local") is None:
        backends.append("s3")
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
