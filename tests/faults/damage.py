"""A small graph of everything, one damaged file, and every way to use it.

Run as a program it makes one trial after the other in a process of its own, as damage may be of a
kind that ends a process; see `test_damage`.
"""

from __future__ import annotations

import random
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import omnigraph as og
from omnigraph.graph.engine import Mode

SCHEMA = """\
node Person {
    name: String @key
    age: I32? @index
    bio: String? @index
    born: Date?
    photo: Blob?
    face: Vector(4)? @index
}
edge Knows: Person -> Person { since: Date? }
"""
OLD = "query q($a: I32) { match { $p: Person  $p.age >= $a } return { $p.name, $p.born, $p.face } }"
NEAR = """\
query q() { match { $p: Person { name: "p1" }  $p knows $f  search($f.bio, "word") }
            return { $f.name } }
"""
ADD = "query q($n: String) { insert Person { name: $n, age: 1 } }"
AGE = "query q() { update Person set { age: 7 } where age > 30 }"
GONE = 'query q() { delete Person where name = "p3" }'
Work = Callable[[og.Graph], object]
WORK: dict[str, Work] = {
    "query": lambda graph: graph.query(OLD, {"a": 5}).rows_json(),
    "traverse": lambda graph: graph.query(NEAR).to_pylist(),
    "export": lambda graph: list(_rows(graph)),
    "table": lambda graph: graph.export_table("Person").num_rows,
    "blob": lambda graph: graph.blobs.open("node", "Person", "p1", "photo").read(),
    "history": lambda graph: [item.to_json() for item in graph.commits.list()],
    "changes": lambda graph: graph.commits.changes(graph.commits.list()[0].graph_commit_id),
    "older": lambda graph: graph.query(OLD, {"a": 5}, version=2).to_pylist(),
    "branches": lambda graph: graph.branches.details(),
    "branch": lambda graph: graph.query(OLD, {"a": 5}, branch="dev").to_pylist(),
    "diff": lambda graph: graph.diff("main", "dev").to_json(),
    "tags": lambda graph: graph.tags.list(),
    "recoveries": lambda graph: (
        graph.maintenance.recoveries(),
        graph.maintenance.pending_writes(),
    ),
    "mutate": lambda graph: graph.mutate(ADD, {"n": "new"}),
    "update": lambda graph: graph.mutate(AGE),
    "load": lambda graph: graph.load(
        [{"type": "Person", "data": {"name": "p2", "age": 3}}], mode="merge"
    ),
    "merge": lambda graph: graph.branches.merge("dev"),
    "delete": lambda graph: graph.mutate(GONE),
    "indexes": lambda graph: graph.maintenance.ensure_indices(),
    "optimize": lambda graph: graph.optimize(),
    "repair": lambda graph: graph.repair(),
    "schema": lambda graph: graph.schema.plan(f"{SCHEMA}node More {{ k: String @key }}"),
    "create": lambda graph: graph.branches.create("more"),
    "cleanup": lambda graph: graph.cleanup(keep=1, grace=0, dry_run=False),
    "recover": lambda graph: graph.maintenance.recover(),
}


def _rows(graph: og.Graph) -> Iterator[object]:
    found = graph.export()
    return iter(()) if isinstance(found, int) else iter(found)


def make(root: Path) -> None:
    """Make the graph that is damaged."""
    with og.init(root, SCHEMA, durability="none") as graph:
        people = [
            {
                "type": "Person",
                "data": {
                    "name": f"p{n}",
                    "age": n,
                    "bio": f"a word or {n} more",
                    "born": n,
                    "photo": bytes([n % 256]) * 40,
                    "face": [n, 1, 2, 3],
                },
            }
            for n in range(300)
        ]
        edges = [{"edge": "Knows", "from": f"p{n}", "to": f"p{n + 1}"} for n in range(200)]
        graph.load([*people, *edges], mode="append")
        graph.mutate(ADD, {"n": "one"})
        graph.optimize()
        graph.branches.create("dev")
        graph.mutate(ADD, {"n": "two"}, branch="dev")
        graph.tags.create("v1")
        graph.mutate(ADD, {"n": "three"})


def damage(root: Path, draw: random.Random) -> str:
    """Damage one file; return what was done to it."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    path = draw.choice(files)
    body = path.read_bytes()
    how = draw.choice(["flip", "flip", "flip", "cut", "zeroes", "garbage", "empty", "gone", "swap"])
    if how == "flip" and body:
        changed = bytearray(body)
        for _time in range(draw.choice([1, 1, 4, 32])):
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        path.write_bytes(changed)
    elif how == "cut":
        path.write_bytes(body[: draw.randrange(len(body) + 1)])
    elif how == "zeroes":
        path.write_bytes(bytes(len(body)))
    elif how == "garbage":
        path.write_bytes(draw.randbytes(max(len(body), 1)))
    elif how == "swap":
        path.write_bytes(draw.choice(files).read_bytes())
    elif how == "gone":
        path.unlink()
    else:
        path.write_bytes(b"")
    return f"{how} {path.relative_to(root)}"


def trial(template: Path, root: Path, seed: int) -> list[str]:
    """Damage a copy and use it; return what escaped that is no error of ours."""
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(template, root)
    draw = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
    done = damage(root, draw)
    escaped: list[str] = []

    def attempt(name: str, work: Callable[[], object]) -> object:
        try:
            return work()
        except og.OmniGraphError:
            return None
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            trace = "".join(traceback.format_exception(error)[-4:])
            kind = f"{type(error).__module__}.{type(error).__name__}"
            escaped.append(f"seed {seed} ({done}): {name} raised {kind}: {error}\n{trace}")
            return None

    work = list(WORK.items())
    draw.shuffle(work)
    modes: tuple[Mode, ...] = ("ro", "rw")
    for mode in modes:
        graph = attempt(f"open {mode}", partial(og.open, root, mode=mode, durability="none"))
        if not isinstance(graph, og.Graph):
            continue
        for name, call in work:
            attempt(f"{name} {mode}", partial(call, graph))
        attempt("close", graph.close)
    return escaped


def main(place: Path, first: int, count: int) -> int:
    """Make some trials; print what escaped. The exit code tells whether anything did."""
    template = place / "template"
    if not template.exists():
        make(template)
    found = False
    for seed in range(first, first + count):
        print(f"seed {seed}", flush=True)  # noqa: T201 - tells where a process ended
        for text in trial(template, place / "graph", seed):
            found = True
            print(text, flush=True)  # noqa: T201 - read by the test
    return int(found)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
