"""The client for `asyncio`: the same calls, each to be awaited.

Most modules are made from those of the client that waits; `tests/arch/async_client.py` says how.
"""

from omnigraph.remote.aio.graph import AsyncRemoteGraph

__all__ = ["AsyncRemoteGraph"]
