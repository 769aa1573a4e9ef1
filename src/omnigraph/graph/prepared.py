"""A read query that is run many times."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from omnigraph.errors import BadRequestError
from omnigraph.graph.api import Params
from omnigraph.graph.result import Result
from omnigraph.lang import CompiledQuery
from omnigraph.plan import ReadPlan


def check_reads(compiled: CompiledQuery) -> ReadPlan:
    """Return the plan of a query that reads. Raises `BadRequestError` for one that writes."""
    if not isinstance(compiled.plan, ReadPlan):
        raise BadRequestError(
            f"query '{compiled.name}' writes; use it as a mutation",
            hint="graph.mutate in Python, `omnigraph mutate` on the command line",
        )
    return compiled.plan


class PreparedQuery:
    """A read query that was checked before it is run; call it with parameters.

    It follows the schema: when that changes, the text is compiled for the new one by itself.
    """

    def __init__(self, query: Callable[..., Result], source: str, name: str | None) -> None:
        self.source = source
        self.name = name
        self._query = partial(query, source, name=name)

    def __call__(self, params: Params = None, **options: object) -> Result:
        """Run it; `options` are those of `query`: a state, `timeout`, `max_staleness_s`."""
        return self._query(params, **options)

    def __repr__(self) -> str:
        return f"PreparedQuery({self.source!r}, name={self.name!r})"
