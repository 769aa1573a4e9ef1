"""One request as the routes see it: its graph, its actor, and how work is done for it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import Depends
from starlette.requests import Request

from omnigraph.commits import MAIN, GraphCommit
from omnigraph.errors import BadRequestError, NotFoundError, OmniGraphError
from omnigraph.graph import Session
from omnigraph.ids import is_ulid
from omnigraph.policy import Access, Action, check
from omnigraph.server.gate import Passing
from omnigraph.server.graphs import ServedGraph
from omnigraph.server.service import Service
from omnigraph.store import measured
from omnigraph.values.headers import IDEMPOTENCY_KEY, IF_COMMIT

T = TypeVar("T")
OPERATION_ID_CHARS_MAX = 128
_SNAPSHOT = re.compile(r"manifest:(?P<branch>.+):v(?P<version>[0-9]{1,18})(?::etag:.*)?")


class Call:
    """What a route needs of one request."""

    def __init__(self, request: Request) -> None:
        passing: Passing = request.state.passing
        self.request = request
        self.service: Service = request.state.service
        self.serving = passing.serving
        self._served = passing.served
        self._size_bytes = passing.body_bytes
        self._token = passing.token
        self.actor = None if passing.token is None else passing.token.actor

    @property
    def served(self) -> ServedGraph:
        """The graph that was named."""
        if self._served is None:
            raise NotFoundError(
                "this server has several graphs", hint="name one: /graphs/{graph_id}/..."
            )
        return self._served

    @property
    def uri(self) -> str:
        """What the graph is called towards clients; where it is stored is not theirs to know."""
        return f"/graphs/{self.served.graph_id}"

    def opens(self, graph_id: str) -> bool:
        """Whether the caller's token is good for a graph."""
        return self._token is None or self._token.opens(graph_id)

    def allow(
        self, action: Action, *, branch: str | None = None, target_branch: str | None = None
    ) -> None:
        """Return when the graph's policy allows it. Raises `PolicyDeniedError`."""
        access = Access(action=action, actor=self.actor, branch=branch, target_branch=target_branch)
        check(self.served.policy, access)

    def allow_read(self, branch: str | None = None) -> None:
        """Return when reading a branch is allowed."""
        self.allow(Action.READ, branch=branch or MAIN)

    async def read(self, work: Callable[[Session], T]) -> T:
        """Run something that reads the graph."""
        served, session = self.served, self.served.session(self.actor)

        def run() -> T:
            with measured() as io:
                try:
                    return work(session)
                finally:
                    self.service.metrics.storage(graph_id=served.graph_id, work="read", io=io)

        return await self.service.threads.read(run)

    async def cancellable(self, work: Callable[[Session, threading.Event], T]) -> T:
        """Run something that reads the graph; the event is set when the client hangs up."""
        served, session = self.served, self.served.session(self.actor)

        def run(cancel: threading.Event) -> T:
            with measured() as io:
                try:
                    return work(session, cancel)
                finally:
                    self.service.metrics.storage(graph_id=served.graph_id, work="read", io=io)

        return await self.service.threads.cancellable(run, self._gone)

    async def write(self, work: Callable[[Session], T]) -> T:
        """Run something that writes to the graph, if its actor has not too much under way."""
        served, session = self.served, self.served.session(self.actor)
        metrics = self.service.metrics

        def run() -> T:
            with measured() as io:
                try:
                    return work(session)
                except OmniGraphError as error:
                    metrics.failed(graph_id=served.graph_id, error=error)
                    raise
                finally:
                    metrics.storage(graph_id=served.graph_id, work="write", io=io)

        async with self.service.admission.admit(self.actor, self._size_bytes, self._gone):
            return await self.service.threads.write(run)

    def committed(self, commit: GraphCommit | None, *, repeated: bool = False) -> None:
        """Count a commit this request made."""
        if commit is not None and not repeated:
            self.service.metrics.committed(graph_id=self.served.graph_id, kind=commit.kind)

    def if_commit(self, *, required: bool = False) -> str | None:
        """Return the commit the caller expects at the head."""
        values = self.request.headers.getlist(IF_COMMIT)
        if not values and not required:
            return None
        if len(values) != 1 or not is_ulid(values[0]):
            raise BadRequestError(f"the header {IF_COMMIT} must hold one commit id")
        return values[0]

    def operation_id(self) -> str | None:
        """Return the caller's own id for a write."""
        found = self.request.headers.get(IDEMPOTENCY_KEY)
        if found is None:
            return None
        if not found.strip() or len(found) > OPERATION_ID_CHARS_MAX or not found.isascii():
            raise BadRequestError(
                f"the header {IDEMPOTENCY_KEY} must be 1 to {OPERATION_ID_CHARS_MAX} characters"
            )
        return found

    async def _gone(self) -> None:
        """Wait until the client hangs up."""
        while (await self.request.receive())["type"] != "http.disconnect":
            pass


async def current_call(request: Request) -> Call:
    """Return the request for a route."""
    # Not a plain function: the framework would run that in a thread of its own.
    return Call(request)


CallOf = Annotated[Call, Depends(current_call)]


def state_of(branch: str | None, snapshot: str | None) -> tuple[str | None, str | None, int | None]:
    """Return branch, commit and version of what a caller wants to read.

    A snapshot is a commit id, or `manifest:<branch>:v<N>`.
    """
    if branch is not None and snapshot is not None:
        raise BadRequestError("give a branch or a snapshot, not both")
    if snapshot is None:
        return branch, None, None
    if found := _SNAPSHOT.fullmatch(snapshot):
        return found["branch"], None, int(found["version"])
    return None, snapshot, None
