"""A read query that is run many times."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph.graph import Result
    from omnigraph.graph.api import Params


class AsyncPreparedQuery:
    """A read query that was checked before it is run; await it with parameters."""

    def __init__(
        self, query: Callable[..., Awaitable[Result]], source: str, name: str | None
    ) -> None:
        self.source = source
        self.name = name
        self._query = partial(query, source, name=name)

    async def __call__(self, params: Params = None, **options: Any) -> Result:
        """Run it; `options` are those of `query`: a state, `timeout`."""
        return await self._query(params, **options)

    def __repr__(self) -> str:
        return f"AsyncPreparedQuery({self.source!r}, name={self.name!r})"
