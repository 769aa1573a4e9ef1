"""A small graph for fault tests, and an audit that reads it without the engine.

The audit opens the Lance datasets itself, so a mistake in the engine's own reading code cannot
hide a mistake in what it wrote.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from lance import LanceDataset

import omnigraph as og
from omnigraph.store import locate
from omnigraph.store.slots.leases import slot_body
from tests.places import AnyPath, S3Path, dataset, names_in

SCHEMA = """
node Person { slug: String @key  name: String?  level: I64? }
node Firm { slug: String @key  name: String? }
edge Knows: Person -> Person { weight: F64? }
edge Works: Person -> Firm @card(0..2) { role: String?  @unique(src, dst) }
"""

ADD = "query add($s: String) { insert Person { slug: $s } }"
NAME = "query name($s: String, $n: String) { update Person set { name: $n } where slug = $s }"
DROP = "query drop($s: String) { delete Person where slug = $s }"
ADD_FIRM = "query add($s: String) { insert Firm { slug: $s } }"
HIRE = (
    "query hire($i: String, $p: String, $f: String) { insert Works { id: $i, from: $p, to: $f } }"
)
MEET = (
    "query meet($i: String, $a: String, $b: String) { insert Knows { id: $i, from: $a, to: $b } }"
)

SEED: tuple[Mapping[str, object], ...] = (
    *({"type": "Person", "data": {"slug": f"p{i}", "level": i}} for i in range(6)),
    *({"type": "Firm", "data": {"slug": f"f{i}"}} for i in range(3)),
    *({"edge": "Knows", "from": "p0", "to": f"p{i}", "data": {"id": f"k{i}"}} for i in range(1, 5)),
    {"edge": "Works", "from": "p0", "to": "f0", "data": {"id": "w0"}},
    {"edge": "Works", "from": "p1", "to": "f0", "data": {"id": "w1"}},
)

State = dict[tuple[str, str], str]


def new_graph(root: AnyPath, *, seed: Iterable[Mapping[str, object]] = SEED) -> None:
    """Create a graph with a few rows in every table."""
    with og.init(root, SCHEMA, durability="none") as graph:
        graph.load(seed, mode="append")


def state_of(graph: og.Graph, **at: Any) -> State:
    """Return every entity, by type and id, as canonical text."""
    rows = graph.export(**at)
    assert not isinstance(rows, int)
    found: State = {}
    for row in rows:
        data = row["data"]
        assert isinstance(data, dict)
        key = (str(row.get("type") or row.get("edge")), str(data["id"]))
        assert key not in found, f"{key} is defined twice"
        found[key] = json.dumps(row, sort_keys=True)
    return found


@contextlib.contextmanager
def publishing(
    *, before: Callable[[], object] | None = None, after: Callable[[], object] | None = None
) -> Iterator[list[int]]:
    """Run something before and after every manifest commit; the list counts them.

    What is raised takes the place of the commit's answer. A commit made inside is left alone.
    """
    inner, inside, made = LanceDataset.commit, list[bool](), list[int]()

    def commit(target: Any, *args: Any, **kwargs: Any) -> Any:
        name = target if isinstance(target, str) else str(target.uri)
        if "__manifest" not in name or inside:
            return inner(target, *args, **kwargs)
        made.append(len(made))
        inside.append(True)
        try:
            if before is not None:
                before()
            found = inner(target, *args, **kwargs)
            if after is not None:
                after()
        finally:
            inside.pop()
        return found

    with mock.patch.object(LanceDataset, "commit", staticmethod(commit)):
        yield made


def no_answer() -> None:
    """Stand for a storage call that fails, or whose answer is lost."""
    raise OSError("no answer")


def slots_of(root: AnyPath) -> list[str]:
    """Return the slots in a graph's recovery folder; unfinished temporary files do not count."""
    return names_in(root / "__recovery")


def put_slot(root: AnyPath, name: str, body: bytes) -> None:
    """Leave a slot behind, as a dead owner does."""
    head = b'{"nonce": "dead"}\n' if isinstance(root, S3Path) else b""
    location = locate(root)
    location.files.replace(location.path("__recovery", name), head + body, sync=False)


def intent_of(root: AnyPath, slot: str) -> dict[str, Any]:
    """Return what a slot says."""
    content = (root / "__recovery" / slot).read_bytes()
    found = json.loads(slot_body(content) if isinstance(root, S3Path) else content)
    assert isinstance(found, dict)
    return found


@dataclass(slots=True)
class Audit:
    """What the disk holds, and everything that is wrong with it."""

    problems: list[str] = field(default_factory=list)
    commits: list[dict[str, Any]] = field(default_factory=list)
    pins: dict[str, dict[str, Any]] = field(default_factory=dict)
    ids: dict[str, list[str]] = field(default_factory=dict)
    ends: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)
    recoveries: list[dict[str, Any]] = field(default_factory=list)

    def by_operation(self, operation_id: str) -> list[dict[str, Any]]:
        """Return the commits an operation made."""
        return [c for c in self.commits if c["operation_id"] == operation_id]


def audit(root: AnyPath, *, heads: bool = True, slots: bool = True) -> Audit:
    """Read a graph with Lance alone and collect every broken rule."""
    found = Audit()
    rows = dataset(root / "__manifest").to_table().to_pylist()
    pins: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        known = {**row, **json.loads(row["metadata"])}
        if row["object_type"] == "graph_commit":
            found.commits.append(known)
        elif row["object_type"] == "table_version":
            pins.setdefault(row["table_key"], []).append(known)
    _check_lineage(found)
    for key, history in sorted(pins.items()):
        history.sort(key=lambda pin: int(pin["seq"]))
        _check_pins(root, found, key, history, heads=heads)
    _check_rows(found)
    found.recoveries = recoveries_of(root)
    if slots:
        if slots_of(root):
            found.problems.append(f"slots are left: {slots_of(root)}")
        _check_recoveries(found)
    return found


def recoveries_of(root: AnyPath) -> list[dict[str, Any]]:
    """Return the rows of the record of recoveries."""
    path = root / "_graph_commit_recoveries.lance"
    return dataset(path).to_table().to_pylist() if path.exists() else []


def assert_sound(root: AnyPath, *, heads: bool = True, slots: bool = True) -> Audit:
    """Audit a graph and fail on the first sight of any problem."""
    found = audit(root, heads=heads, slots=slots)
    assert not found.problems, "\n".join(found.problems)
    return found


def _check_recoveries(found: Audit) -> None:
    """With no slot left, every commit that recovery made is on record, once."""
    made = [c["object_id"] for c in found.commits if c["actor_id"] == "omnigraph:recovery"]
    noted = [row["graph_commit_id"] for row in found.recoveries]
    if sorted(made) != sorted(noted):
        found.problems.append(f"recovery made the commits {made}, and recorded {noted}")


def _check_lineage(found: Audit) -> None:
    for commit in found.commits:
        commit["position"] = (int(commit["seq"]), int(commit.get("place", 0)))
    found.commits.sort(key=lambda commit: commit["position"])
    parent = None
    for commit in found.commits:
        if commit["parent_commit_id"] != parent:
            found.problems.append(f"commit {commit['object_id']} does not follow {parent}")
        parent = commit["object_id"]
    for name in ("object_id", "operation_id", "position"):
        values = [commit[name] for commit in found.commits]
        if len(set(values)) != len(values):
            found.problems.append(f"two commits share their {name}")


def _check_pins(
    root: AnyPath, found: Audit, key: str, history: list[dict[str, Any]], *, heads: bool
) -> None:
    versions = [int(pin["table_version"]) for pin in history]
    if versions != sorted(set(versions)):
        found.problems.append(f"{key}: published versions do not grow: {versions}")
    path = root / history[-1]["location"]
    for pin in history:
        try:
            count = dataset(path, version=int(pin["table_version"])).count_rows()
        except (OSError, ValueError) as error:
            found.problems.append(f"{key}: version {pin['table_version']} is unreadable: {error}")
            continue
        if count != pin["row_count"]:
            found.problems.append(
                f"{key}: version {pin['table_version']} has {count} rows, "
                f"the manifest says {pin['row_count']}"
            )
    pin = found.pins[key] = history[-1]
    head = dataset(path)
    if heads and head.version != pin["table_version"]:
        found.problems.append(f"{key}: head {head.version}, published {pin['table_version']}")
    table = dataset(path, version=int(pin["table_version"])).to_table()
    if not head.has_stable_row_ids:
        found.problems.append(f"{key}: no stable row ids")
    found.ids[key] = table["id"].to_pylist()
    if key.startswith("edge:"):
        columns = (table[name].to_pylist() for name in ("id", "src", "dst"))
        found.ends[key] = list(zip(*columns, strict=True))


def _check_rows(found: Audit) -> None:
    for key, ids in found.ids.items():
        if len(set(ids)) != len(ids):
            found.problems.append(f"{key}: an id is defined twice")
    nodes = {key: set(ids) for key, ids in found.ids.items() if key.startswith("node:")}
    targets = {
        "edge:Knows": ("node:Person", "node:Person"),
        "edge:Works": ("node:Person", "node:Firm"),
    }
    for key, ends in found.ends.items():
        if key in targets:
            source, target = targets[key]
            for edge_id, src, dst in ends:
                if src not in nodes[source] or dst not in nodes[target]:
                    found.problems.append(f"{key} '{edge_id}' is an orphan: {src} -> {dst}")
