"""All journals of a run, read together: what was asked, what was answered, what was seen."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.soak.client import TOLERATED
from tests.soak.journal import Entry, entries
from tests.soak.lineage import Life, life_from_json


@dataclass(slots=True)
class Operation:
    """One write under one operation id, with everything that was answered to it."""

    id: str
    branch: str
    op: dict[str, Any]
    head: str | None
    worker: str
    begun: float
    tries: int = 0
    answers: list[Entry] = field(default_factory=list)

    @property
    def commits(self) -> dict[str, float]:
        """Return the commits it was acknowledged with, and when each was first."""
        found: dict[str, float] = {}
        for answer in self.answers:
            name = answer.get("commit")
            if name is not None:
                found.setdefault(name, answer["at"])
        return found

    @property
    def is_open(self) -> bool:
        """Whether some attempt was not answered, or not with what became of it."""
        errors = [answer.get("error") or "" for answer in self.answers]
        unknown = any(e == "OutcomeUnknownError" or e.startswith(TOLERATED) for e in errors)
        return unknown or self.tries > len(self.answers)


@dataclass(slots=True)
class Book:
    """What the journals of a run hold."""

    operations: dict[str, Operation] = field(default_factory=dict)
    seen: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    looks: list[Entry] = field(default_factory=list)
    calls: list[Entry] = field(default_factory=list)
    done: list[Entry] = field(default_factory=list)
    purged: dict[str, Life] = field(default_factory=dict)
    _last_calls: dict[str, Entry] = field(default_factory=dict)

    def take(self, entry: Entry, worker: str) -> None:
        """Take in one line of a worker's journal."""
        match entry["t"]:
            case "intent":
                known = self.operations.get(entry["id"])
                if known is None:
                    known = self.operations[entry["id"]] = Operation(
                        id=entry["id"],
                        branch=entry["branch"],
                        op=entry["op"],
                        head=entry["head"],
                        worker=worker,
                        begun=entry["at"],
                    )
                known.tries += 1
            case "answer":
                self.operations[entry["id"]].answers.append(entry)
            case "call":
                self.calls.append(entry)
                self._last_calls[worker] = entry
            case "done":
                self.done.append(entry)
                call = self._last_calls[worker]
                call["ended"] = entry["at"]
                entry["began_call"] = call["at"]
                self._take_sight(entry)
            case "purged":
                life = life_from_json(entry["life"])
                self.purged[life.incarnation] = life

    def _take_sight(self, entry: Entry) -> None:
        if "digest" not in entry:
            return
        if "head" in entry:
            self.looks.append(entry)
        self.seen[entry.get("head") or entry["commit"]].add(entry["digest"])


def read_book(folder: Path) -> Book:
    """Read the journals of a run."""
    found = Book()
    for path in sorted(folder.glob("*.journal")):
        for entry in entries(path):
            found.take(entry, path.stem)
    return found
