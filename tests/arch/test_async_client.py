"""The client for asyncio is made from the one that waits."""

from __future__ import annotations

import pytest

from tests.arch.async_client import AIO, SOURCES, written


def test_the_client_for_asyncio_is_what_its_sources_make() -> None:
    old = [path.name for path, text in written().items() if path.read_text("utf-8") != text]
    assert not old, f"run `make client`: {', '.join(old)}"


@pytest.mark.parametrize("name", [path.name for path in sorted(AIO.glob("*.py"))])
def test_every_file_says_whether_it_is_made(name: str) -> None:
    is_made = "by `make client`" in (AIO / name).read_text(encoding="utf-8")
    assert is_made == (name in {source.rpartition("/")[2] for source in SOURCES})
