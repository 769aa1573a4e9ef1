"""HTTP by the standard library: what is kept between requests."""

from __future__ import annotations

import http.client
import os

import pytest

from omnigraph.http_client import HttpClient, retry_after_s
from tests.servers.scripted import Peer

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"


def test_a_forked_process_leaves_the_connections_of_its_parent_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both would read whichever answer comes first."""
    peer = Peer(((OK,), (OK,)))
    client = HttpClient(peer.url, {}, 10.0)
    try:
        client.request("GET", "/one")
        (kept,) = client._idle
        monkeypatch.setattr(os, "getpid", lambda: -1)
        client.request("GET", "/two")
        assert kept not in client._idle
    finally:
        client.close()
        kept.close()
        peer.end()


@pytest.mark.parametrize("text", ["7", "9" * 400])
def test_a_wait_is_a_number_however_long_it_is_written(text: str) -> None:
    headers = http.client.HTTPMessage()
    headers["Retry-After"] = text
    found = retry_after_s(headers)
    assert found is not None
    assert 7 <= found < 1e12
