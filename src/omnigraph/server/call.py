"""One request as the routes see it: its graph, its actor, and how work is done for it."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, TypeVar, cast

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.clock import elapsed_s
from omnigraph.commits import MAIN, GraphCommit
from omnigraph.errors import BadRequestError, NotFoundError, OmniGraphError, ResourceLimitError
from omnigraph.graph import Result, Session
from omnigraph.graph.seam import embedder_of, reach
from omnigraph.ids import is_ulid
from omnigraph.limits import SERVER_QUERY_GRACE_S, SERVER_QUICK_S
from omnigraph.policy import Access, Action, check
from omnigraph.read import QueryControl, out_of_time
from omnigraph.server.admission import ANONYMOUS
from omnigraph.server.connections import hung_up
from omnigraph.server.gate import Passing
from omnigraph.server.graphs import ServedGraph
from omnigraph.server.idempotency import Json, keyed, once
from omnigraph.server.json_routes import JsonRoute
from omnigraph.server.large_jobs import Job
from omnigraph.server.negotiation import Chosen, choose
from omnigraph.server.responses import begin, streamed
from omnigraph.server.service import Service
from omnigraph.store import Claim, measured
from omnigraph.values.headers import IF_COMMIT, MESSAGE, decode_message
from omnigraph.values.requests import QueryRequest
from omnigraph.values.results import Explanation

T = TypeVar("T")
A = TypeVar("A", Result, Explanation)
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
        access = self.access(action, branch=branch, target_branch=target_branch)
        check(self.served.policy, access)

    def access(
        self, action: Action, *, branch: str | None = None, target_branch: str | None = None
    ) -> Access:
        """Return the question whether the caller may do something."""
        roles = () if self._token is None else self._token.roles
        return Access(
            action=action,
            actor=self.actor,
            branch=branch,
            target_branch=target_branch,
            roles=roles,
        )

    def allow_read(self, branch: str | None = None) -> None:
        """Return when reading a branch is allowed."""
        self.allow(Action.READ, branch=branch or MAIN)

    def _measured(self, work: Callable[[], T]) -> Callable[[], T]:
        served, metrics = self.served, self.service.metrics

        def run() -> T:
            with measured() as io:
                try:
                    return work()
                finally:
                    metrics.storage(graph_id=served.graph_id, work="read", io=io)

        return run

    async def read(self, work: Callable[[Session], T]) -> T:
        """Run something that reads the graph, if its actor has not too much under way."""
        session = self.served.session(self._token)
        async with self.service.reading.admit(self.actor, self._size_bytes, self._gone):
            return await self.service.threads.read(self._measured(lambda: work(session)))

    async def query(
        self,
        ask: Callable[[Session, QueryControl], A],
        job: Job,
        form: Callable[[A, QueryControl], T],
        *,
        timeout_s: float | None = None,
    ) -> T:
        """Run a query and give its answer a form, here or, if it needs much memory, apart.

        It may take so long at most; it is told to stop then, and when the client hangs up.
        """
        most = self.service.settings.query_seconds_max
        limit_s = most if timeout_s is None else min(timeout_s, most)
        session, begun = self.served.session(self._token), elapsed_s()

        def here(cancel: threading.Event) -> asyncio.Future[T]:
            def run() -> T:
                running = QueryControl(timeout_s=limit_s, cancel=cancel)
                return form(ask(session, running), running)

            return self.service.threads.begin_read(self._measured(run))

        try:
            return await self._ended(here, limit_s)
        except ResourceLimitError as error:
            large = self.service.large
            if large is None or not large.takes(error):
                raise
        left_s = max(0.1, limit_s - (elapsed_s() - begun))

        async def answered(cancel: threading.Event) -> T:
            answer = await large.run(job, self.actor or ANONYMOUS, cancel, left_s)
            running = QueryControl(timeout_s=limit_s, cancel=cancel)
            # Both ways give the same kind of answer.
            return await self.service.threads.read(lambda: form(cast("A", answer), running))

        return await self._ended(lambda cancel: asyncio.ensure_future(answered(cancel)), left_s)

    def job(
        self, asked: QueryRequest, state: Mapping[str, object], *, explain: bool = False
    ) -> Job:
        """Return a query as another process is told it."""
        graph = self.served.graph
        return Job(
            uri=graph.uri,
            reach=reach(graph),
            embedder=embedder_of(graph),
            source=asked.query,
            params=asked.params,
            name=asked.name,
            state=state,
            explain=explain,
        )

    async def _ended(
        self, begin: Callable[[threading.Event], asyncio.Future[T]], limit_s: float
    ) -> T:
        """Return what comes of some work; it is told to stop after a time and on a hang-up.

        What cannot be stopped at once is not waited for, but keeps its place until it has ended.
        """
        cancel = threading.Event()
        leave = await self.service.reading.enter(self.actor, self._size_bytes, self._gone)
        ended = begin(cancel)
        ended.add_done_callback(lambda _ended: leave())
        ended.add_done_callback(_looked_at)
        try:
            # Most have ended by then, and the call need not look whether the client hangs up.
            await asyncio.wait({ended}, timeout=min(limit_s, SERVER_QUICK_S))
            if not ended.done():
                await self._watched(ended, cancel, limit_s + SERVER_QUERY_GRACE_S)
            if ended.done():
                return ended.result()
            raise out_of_time(limit_s, limit_s + SERVER_QUERY_GRACE_S)
        finally:
            cancel.set()

    async def _watched(
        self, work: asyncio.Future[T], cancel: threading.Event, timeout_s: float
    ) -> None:
        """Wait for some work, and tell it to stop when the client hangs up."""
        watcher = asyncio.ensure_future(self._gone())
        watcher.add_done_callback(lambda _ended: cancel.set())
        try:
            await asyncio.wait({work}, timeout=timeout_s)
        finally:
            watcher.cancel()

    async def stream(
        self,
        make: Callable[[Session], Iterator[bytes]],
        *,
        media_type: str,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Return a streamed answer that has begun already, so that refusals have a status."""
        begun = await self.read(lambda graph: begin(make(graph)))
        return streamed(self.service.threads, begun, media_type=media_type, headers=headers)

    async def write(
        self,
        work: Callable[[Session, str | None], T],
        tell: Callable[[T], Json],
        *,
        trial: bool = False,
        lasting: bool = False,
        landed: Callable[[Session, OmniGraphError, Claim], T | None] | None = None,
    ) -> Json:
        """Run something that writes to the graph, once for each key, and return its answer.

        Work gets the id of its operation, if the caller named one. A trial writes nothing, so it
        takes no key; what no commit remembers is `lasting`, and `landed` finds it after a crash.
        """
        served, session = self.served, self.served.session(self._token)
        metrics = self.service.metrics
        asked = keyed(self.request, self.actor, await self.request.body())

        def run() -> Json:
            with measured() as io:
                try:
                    if asked is None or trial:
                        return tell(work(session, None))
                    return once(
                        served.keys,
                        asked,
                        lambda operation_id: work(session, operation_id),
                        tell,
                        lasting=lasting,
                        landed=None if landed is None else partial(landed, session),
                    )
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
            self.service.committed(self.served.graph_id, commit)

    def accepted(self, *forms: str) -> Chosen:
        """Return the form of the answer the caller likes best."""
        return choose(self.request.headers.getlist("accept"), forms)

    def if_commit(self, *, required: bool = False) -> str | None:
        """Return the commit the caller expects at the head."""
        values = self.request.headers.getlist(IF_COMMIT)
        if not values and not required:
            return None
        if len(values) != 1 or not is_ulid(values[0]):
            raise BadRequestError(f"the header {IF_COMMIT} must hold one commit id")
        return values[0]

    def message(self) -> str | None:
        """Return the message of the commit; the graph checks it."""
        values = self.request.headers.getlist(MESSAGE)
        if len(values) > 1:
            raise BadRequestError(f"the header {MESSAGE} was given {len(values)} times")
        try:
            return decode_message(values[0]) if values else None
        except UnicodeDecodeError:
            raise BadRequestError(
                f"the header {MESSAGE} is not valid percent-encoded UTF-8"
            ) from None

    async def _gone(self) -> None:
        """Wait until the client hangs up."""
        await hung_up(self.request.receive)


def _looked_at(task: asyncio.Future[T]) -> None:
    """Take note of how something ended that may not be waited for any more."""
    if not task.cancelled():
        task.exception()


async def current_call(request: Request) -> Call:
    """Return the request for a route."""
    # Not a plain function: the framework would run that in a thread of its own.
    route = request.scope["route"]
    if isinstance(route, JsonRoute):
        await route.check_sent(request)
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
    if match := _SNAPSHOT.fullmatch(snapshot):
        return match["branch"], None, int(match["version"])
    return None, snapshot, None
