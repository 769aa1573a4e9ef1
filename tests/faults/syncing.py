"""The child of `fsync_watch`: runs one write when it is told to, and says how it went."""

from __future__ import annotations

import base64
import json
import os
import sys
from typing import Any

import omnigraph as og
from tests.faults.rig import ADD, ADD_FIRM, SCHEMA, no_answer, publishing
from tests.faults.victim import FOLD_AT, act

BLOB_SCHEMA = "node Picture { slug: String @key  pixels: Blob? }"
BLOB_SIZES = (10, 100_000, 5_000_000)


def blobs() -> list[dict[str, Any]]:
    """Return rows with a blob inside the data file, one packed beside it, and one on its own."""
    return [
        {
            "type": "Picture",
            "data": {
                "slug": f"b{size}",
                "pixels": "base64:" + base64.b64encode(bytes([size % 251]) * size).decode(),
            },
        }
        for size in BLOB_SIZES
    ]


def _run(root: str, action: str, durability: Any) -> None:
    match action:
        case "init":
            _ready()
            og.init(os.path.join(root, "graph"), SCHEMA, durability=durability).close()
        case "blobs":
            with og.open(root, durability=durability) as graph:
                _ready()
                graph.load(blobs(), mode="append")
        case "lost_answer":
            with og.open(root, durability=durability) as graph:
                _ready()
                with publishing(after=no_answer):
                    graph.mutate(ADD, {"s": "new"})
                graph.mutate(ADD_FIRM, {"s": "next"})
        case "recover":
            _ready()
            og.open(root, durability=durability).close()
        case "cold_insert":
            with og.open(root, durability=durability) as graph:
                _ready()
                graph.mutate(ADD, {"s": "new"})
        case "fold":
            with og.open(root, durability=durability) as graph:
                for number in range(FOLD_AT - 1):
                    graph.mutate(ADD, {"s": f"tail{number}"})
                _ready()
                for number in range(4):
                    graph.mutate(ADD, {"s": f"last{number}"})
        case _:
            act(action, root, durability, arm=_ready)


def _ready() -> None:
    _say({"ready": True})
    sys.stdin.readline()


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run the action named on the command line."""
    try:
        _run(*sys.argv[1:4])
        answer: dict[str, Any] = {"error": None}
    except og.OmniGraphError as error:
        answer = {"error": type(error).__name__, "message": error.message}
    _say(answer)
    # Quiet from here on: what follows would not belong to the write.
    sys.stdin.readline()
