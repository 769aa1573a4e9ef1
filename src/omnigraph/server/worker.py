"""One of several processes that serve the same graphs on the same socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping

from omnigraph.identity import Tokens, tokens_from
from omnigraph.limits import WORKER_LOOK_S, WORKER_TICKS_BETWEEN_NOTES
from omnigraph.server.handed_over import HandedOver, private_socket
from omnigraph.server.logs import log
from omnigraph.server.metrics import Metrics
from omnigraph.server.orders import Orders, counts_path
from omnigraph.server.peers import Peers, socket_path
from omnigraph.server.run import Server, publish_soon, reload_on_hangup, server_config
from omnigraph.server.service import Service, open_service
from omnigraph.server.settings import UPKEEP_WORKER
from omnigraph.server.sharing import Acceptor, Counts


class WorkerServer(Server):
    """A server that shares its socket, takes requests from other workers, and tells them things."""

    def __init__(self, service: Service, orders: Orders, ready: Callable[[], None]) -> None:
        super().__init__(server_config(service), service)
        self._orders = orders
        self._ready = ready
        self._peers = service.peers = Peers(
            orders.folder, worker=orders.worker, workers=orders.settings.workers
        )
        self._handed_over = HandedOver(
            self.config.app,  # type: ignore[arg-type]  # not the name of one
            self.server_state.tasks,
            worker=orders.worker,
            reload=lambda: service.reload(service.serving.tokens),
            noted=lambda message: service.note(message.commits),
        )
        self._acceptor: Acceptor | None = None
        self._taking: set[asyncio.Task[None]] = set()
        self._beating: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen for the other workers, then for clients."""
        await super().startup(sockets=[])
        orders = self._orders
        await self._handed_over.listen(private_socket(socket_path(orders.folder, orders.worker)))
        counts = Counts(counts_path(orders.folder), orders.settings.workers)
        place = socket.socket(fileno=orders.listener)
        self._acceptor = Acceptor(place, counts, orders.worker, self._begin_connection)
        self._acceptor.start()
        self._beating = asyncio.ensure_future(self._beat(counts))
        self._ready()

    async def _beat(self, counts: Counts) -> None:
        """Tell the supervisor that the loop runs, also while this worker finishes."""
        while True:
            counts.beat(self._orders.worker)
            await asyncio.sleep(WORKER_LOOK_S / 2)

    def _begin_connection(self, connection: socket.socket) -> None:
        task = asyncio.ensure_future(self._connect(connection))
        self._taking.add(task)
        task.add_done_callback(self._taking.discard)

    async def _connect(self, connection: socket.socket) -> None:
        config, loop = self.config, asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            return config.http_protocol_class(  # type: ignore[call-arg]  # as uvicorn makes it
                config=config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
                _loop=loop,
            )

        try:
            await loop.connect_accepted_socket(protocol, connection, ssl=config.ssl)
        except OSError:
            connection.close()  # It hung up, or does not speak TLS.

    async def on_tick(self, counter: int) -> bool:
        """Tell how things are; whether to stop."""
        if self._acceptor is not None:
            self._acceptor.update(len(self.server_state.connections))
        if counter % WORKER_TICKS_BETWEEN_NOTES == 0:
            self._service.metrics.refresh()
            await self._note()
        return await super().on_tick(counter)

    async def _note(self) -> None:
        commits = self._service.take_noted()
        if commits and not await self._peers.note(commits, UPKEEP_WORKER):
            self._service.keep_noted(commits)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more, finish what was begun, and tell the others."""
        if self._acceptor is not None:
            self._acceptor.stop()
        await super().shutdown(sockets)
        await self._handed_over.leave()
        self._peers.close()
        if self._beating is not None:
            self._beating.cancel()


def work(orders: Orders, env: Mapping[str, str], ready: Callable[[], None]) -> None:
    """Serve until told to stop. `ready` is called once clients can come."""
    settings = orders.settings.of_worker(orders.worker)

    def read_tokens() -> Tokens:
        return tokens_from(env, settings.tokens, settings.issuers)

    metrics = Metrics(shared_in=orders.folder)
    service = open_service(settings, read_tokens(), env, metrics=metrics)
    service.tells_commits = orders.settings.upkeep and not settings.upkeep
    try:
        server = WorkerServer(service, orders, ready)
        reload_on_hangup(server, service, read_tokens)
        publish_soon(service)
        server.run(sockets=[])
    finally:
        service.close()
        log("worker stopped")
