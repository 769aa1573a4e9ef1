"""One of several processes that serve the same graphs on the same socket.

Run as a module by the supervisor, which writes the orders to standard input as one line and keeps
it open: when it ends, the supervisor is gone, and the worker stops. On standard output the worker
says that it is ready, or why it cannot be.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable

import msgspec

from omnigraph.errors import OmniGraphError
from omnigraph.identity import Tokens, tokens_from
from omnigraph.limits import WORKER_TICKS_BETWEEN_NOTES
from omnigraph.server.handed_over import HandedOver, private_socket
from omnigraph.server.logs import configure, log
from omnigraph.server.memory import save_memory
from omnigraph.server.metrics import Metrics
from omnigraph.server.orders import Orders, Refusal, counts_path
from omnigraph.server.peers import Peers, socket_path
from omnigraph.server.run import Server, publish_soon, reload_on_hangup, server_config
from omnigraph.server.service import Service, open_service
from omnigraph.server.sharing import Acceptor, Counts

UPKEEP_WORKER = 0


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

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen for the other workers, then for clients."""
        await super().startup(sockets=[])
        orders = self._orders
        await self._handed_over.listen(private_socket(socket_path(orders.folder, orders.worker)))
        counts = Counts(counts_path(orders.folder), orders.settings.workers)
        place = socket.socket(fileno=orders.listener)
        self._acceptor = Acceptor(place, counts, orders.worker, self._take)
        self._acceptor.start()
        self._ready()

    def _take(self, found: socket.socket) -> None:
        task = asyncio.ensure_future(self._connect(found))
        self._taking.add(task)
        task.add_done_callback(self._taking.discard)

    async def _connect(self, found: socket.socket) -> None:
        config, loop = self.config, asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            return config.http_protocol_class(  # type: ignore[call-arg]  # as uvicorn makes it
                config=config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
                _loop=loop,
            )

        try:
            await loop.connect_accepted_socket(protocol, found, ssl=config.ssl)
        except OSError:
            found.close()  # It hung up, or does not speak TLS.

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
            log("upkeep not told", commits=sum(number for *_where, number in commits))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more, finish what was begun, and tell the others."""
        if self._acceptor is not None:
            self._acceptor.stop()
        await super().shutdown(sockets)
        await self._handed_over.leave()
        self._peers.close()


def work(orders: Orders, say: Callable[[str], None]) -> None:
    """Serve until told to stop."""
    settings = orders.settings.of_worker(orders.worker)

    def read_tokens() -> Tokens:
        return tokens_from(os.environ, settings.tokens, settings.issuers)

    metrics = Metrics(shared_in=orders.folder)
    service = open_service(settings, read_tokens(), os.environ, metrics=metrics)
    try:
        server = WorkerServer(service, orders, lambda: say("ready"))
        reload_on_hangup(server, service, read_tokens)
        publish_soon(service)
        server.run(sockets=[])
    finally:
        service.close()
        log("worker stopped")


def main() -> None:
    """Read the orders and follow them."""
    # Without a buffer: a thread that waits at one when the program ends would keep it locked.
    told = open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115
    orders = msgspec.json.decode(told.readline(), type=Orders)
    configure(orders.settings.log_level, worker=orders.worker)
    save_memory(os.environ)

    def say(text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def stop_with_supervisor() -> None:
        told.read(1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop_with_supervisor, name="supervisor", daemon=True).start()
    try:
        work(orders, say)
    except OmniGraphError as error:
        say(msgspec.json.encode(Refusal.of(error)).decode())
        sys.exit(1)


if __name__ == "__main__":
    main()
