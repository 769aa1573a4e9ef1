"""The graph people open: a session that owns what it uses."""

from __future__ import annotations

import os
from collections.abc import Mapping

from omnigraph.commits.grouping import GroupWrites
from omnigraph.embed import Embedder
from omnigraph.graph.acting import Caller, SessionBase
from omnigraph.graph.engine import Engine, Mode
from omnigraph.graph.session import Session
from omnigraph.graph.upkeep import Upkeep
from omnigraph.policy import Policy, check_actor
from omnigraph.store import Durability
from omnigraph.values.words import DurabilityWord


class Graph(Session):
    """One open graph. Threads may share it; close it when done, or use it in a `with` block.

    >>> with og.open("tasks.omni", actor="ann") as mine:
    ...     mine.get("Task", "t1")["title"]
    'Dig'
    """

    def __init__(
        self,
        uri: str | os.PathLike[str],
        *,
        mode: Mode = "rw",
        actor: str | None = None,
        durability: Durability | DurabilityWord = Durability.FULL,
        embedder: Embedder | None = None,
        policy: Policy | None = None,
        storage_options: Mapping[str, str] | None = None,
        upkeep: Upkeep | bool = True,
        group_writes: GroupWrites | bool = True,
    ) -> None:
        check_actor(actor)
        engine = Engine(
            uri,
            mode=mode,
            durability=durability,
            embedder=embedder,
            storage_options=storage_options,
            upkeep=upkeep,
            group_writes=group_writes,
        )
        base = SessionBase()
        base.look(engine.lines.main, engine.lines.main.manifest.capture(fresh=False))
        super().__init__(engine, Caller(actor=actor, policy=policy, base=base))

    def close(self) -> None:
        """Release threads and handles; no session of it writes from here on. Twice is fine.

        >>> graph.close()
        """
        super().close()
        self._engine.close()
