"""Programs that meet a full disk, and files they may not touch; each prints what it met as JSON.

They run in processes of their own: one needs a small disk mounted where only it can see it, the
other must not be the superuser, who may touch everything.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.values.words import DurabilityWord
from tests.faults.rig import ADD, SCHEMA, audit, new_graph, state_of
from tests.faults.victim import OPERATION, write

NOBODY = 65534
# Imported before the rights to read the library's own files may be gone.
LAZY = ("lance.optimize", "omnigraph.graph", "omnigraph.cli.data", "omnigraph.cli.recover")
ADD_ONE = 'query q() { insert Firm { slug: "cli" } }'
ACTIONS = ("insert", "load")
# A write takes about a dozen pages, more or fewer by the order in which Lance writes its
# files; with this many it always gets through.
PAGES_ENOUGH = 40


def attempt(root: Path, action: str, *, durability: DurabilityWord = "none") -> dict[str, Any]:
    """Try a write; tell the error, whatever it is."""
    try:
        with og.open(root, durability=durability) as graph:
            write(graph, action)
    except Exception as error:
        known = isinstance(error, og.OmniGraphError)
        hint = error.hint if isinstance(error, og.OmniGraphError) else None
        return {
            "error": type(error).__name__,
            "typed": known,
            "message": str(error),
            "hint": hint,
        }
    return {"error": None, "typed": True, "message": "", "hint": None}


def command(*arguments: str) -> tuple[int, str]:
    """Run the command line here; return its exit code and what it said on stderr."""
    from omnigraph.cli.main import main

    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            main(list(arguments))
        except SystemExit as left:
            return int(left.code or 0), said.getvalue()
    return -1, said.getvalue()


def look(root: Path, states: list[dict[tuple[str, str], str]]) -> dict[str, Any]:
    """Open the graph when the trouble is over; say whether it is whole, sound and writable."""
    with og.open(root, durability="none") as graph:
        state = state_of(graph)
        done = graph.commits.list()
    problems = audit(root).problems
    with og.open(root, durability="none") as graph:
        graph.mutate(ADD, {"s": f"later{len(done)}"})
    return {"whole": state in states, "problems": problems + audit(root).problems}


# ---- a full disk --------------------------------------------------------------------------


@contextlib.contextmanager
def ballast(folder: Path, *, leave_bytes: int) -> Iterator[None]:
    """Fill the disk up to the last few bytes."""
    place = folder / "ballast"
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    with open(place, "wb") as handle:
        handle.write(b"x" * max(free - leave_bytes, 0))
    try:
        yield
    finally:
        place.unlink()


def full(folder: Path) -> list[dict[str, Any]]:
    """Write with less and less room, and look at the graph after each try."""
    found: list[dict[str, Any]] = []
    for action in ACTIONS:
        root = folder / action
        new_graph(root)
        with og.open(root, mode="ro") as graph:
            before = state_of(graph)
        for pages in range(PAGES_ENOUGH):
            with ballast(folder, leave_bytes=pages * 4096):
                outcome = attempt(root, action)
                code, said = command("mutate", "--store", str(root), "-e", ADD_ONE)
                with og.open(root, mode="ro") as graph:
                    readable = state_of(graph)
            with og.open(root, durability="none") as graph:
                made = [c for c in graph.commits.list() if c.operation_id == OPERATION]
                state = state_of(graph)
            outcome |= {
                "action": action,
                "pages": pages,
                "made": len(made),
                "readable": bool(readable),
                "exit": code,
                "said": said,
                "problems": audit(root).problems,
                "kept": bool(made) or before.keys() <= state.keys(),
            }
            found.append(outcome)
            if made:
                break
        found[-1] |= {"last": True}
    return found


def full_init(folder: Path) -> list[dict[str, Any]]:
    """Create a graph with more and more room, until it can be."""
    found: list[dict[str, Any]] = []
    root = folder / "made"
    for pages in range(0, 200, 4):
        outcome: dict[str, Any] = {"pages": pages, "error": None}
        with ballast(folder, leave_bytes=pages * 4096):
            try:
                og.init(root, SCHEMA, durability="none").close()
            except Exception as error:
                outcome["error"] = type(error).__name__
        found.append(outcome)
        if outcome["error"] in (None, "AlreadyInitializedError"):
            break
    with og.open(root, durability="none") as graph:
        graph.mutate(ADD, {"s": "x"})
    found.append({"error": None, "problems": audit(root).problems})
    return found


# ---- files one may not touch --------------------------------------------------------------


def denied(folder: Path) -> list[dict[str, Any]]:
    """Take rights away part by part, try, give them back, and look."""
    found: list[dict[str, Any]] = []
    if os.getuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    whole = folder / "whole"
    new_graph(whole)
    with og.open(whole, durability="none") as graph:
        states = [state_of(graph)]
        write(graph, "delete")
        states.append(state_of(graph))
    for part in ("all", "tables", "manifest", "slots", "versions", "hidden"):
        root = folder / part
        new_graph(root)
        with forbidden(root, part):
            outcome = attempt(root, "delete")
            code, said = command("recover", str(root))
            shown, _ = command("snapshot", str(root))
        found.append(
            {"part": part, "exit": code, "said": said, "shown": shown}
            | outcome
            | look(root, states)
        )
    return found


@contextlib.contextmanager
def forbidden(root: Path, part: str) -> Iterator[None]:
    """Make a part of a graph unwritable, or invisible."""
    folders = [Path(parent) for parent, _folders, _names in os.walk(root)]
    chosen = {
        "all": folders,
        "tables": [f for f in folders if f.relative_to(root).parts[:1] in (("nodes",), ("edges",))],
        "manifest": [f for f in folders if "__manifest" in f.parts],
        "slots": [root / "__recovery"],
        "versions": [f for f in folders if f.name == "_versions" and "__manifest" not in f.parts],
        "hidden": [root / "__manifest" / "_versions"],
    }[part]
    mode = 0o000 if part == "hidden" else 0o555
    for folder in chosen:
        folder.chmod(mode)
    try:
        yield
    finally:
        for folder in chosen:
            folder.chmod(0o755)


def main() -> None:
    """Run the named program in a folder."""
    warnings.simplefilter("ignore")
    for name in LAZY:
        importlib.import_module(name)
    programs = {"full": full, "full_init": full_init, "denied": denied}
    os.environ["OMNIGRAPH_DURABILITY"] = "none"
    sys.stdout.write(json.dumps(programs[sys.argv[1]](Path(sys.argv[2]))))


if __name__ == "__main__":
    main()
