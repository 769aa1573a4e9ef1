"""Worker processes shared by the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.concurrency.worker import Pool


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    with Pool() as found:
        yield found
