"""What the processes of a soak do: writers, a maintainer and a reader."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.soak.client import BRANCHES, TAGS, Client, Setup, now
from tests.soak.lineage import watch_purges
from tests.soak.model import (
    broken_rules,
    by_entity,
    digest,
    random_schema,
    random_write,
)

Action = Callable[[Client], None]


def prepare(setup: Setup, dice: random.Random) -> None:
    """Make rare things happen often in this process: folds, short leases, deaths at boundaries."""
    from omnigraph import failpoints
    from omnigraph.ops import compact_tail as fold
    from omnigraph.store.tables import compaction as maintenance

    # Writers fold on whatever branch they write to.
    vars(fold)["TAIL_FRAGMENTS"] = 5 if setup.has("branch-optimize") else 10**9
    vars(maintenance)["TIER_FRAGMENTS_MIN"] = 3
    shorten_leases(setup)
    if setup.has("failpoints") and setup.has("kills"):
        points = [point for point in failpoints.Failpoint if not point.startswith("init.")]
        if dice.random() < 0.3:
            hit = dice.choice((1, 1, 2, 3, 5, 8))
            failpoints.arm(dice.choice(points), failpoints.crash, hit=hit)


def shorten_leases(setup: Setup) -> None:
    """Give the slots of an object store the lease of this run; every process must do it."""
    from omnigraph.store.slots import leases

    if setup.lease_s is not None:
        vars(leases)["LEASE_S"] = setup.lease_s
        vars(leases)["LEASE_MARGIN_S"] = setup.lease_s / 5


# ---- writers ------------------------------------------------------------------------------


def writer(client: Client) -> None:
    """Write for ever: rows, branches, tags, merges, and now and then the schema."""
    _settle_the_past(client)
    while True:
        _choose(client, QUIET_ACTIONS if client.setup.quiet else ACTIONS)(client)


def _choose(client: Client, actions: dict[str, tuple[float, str | None, Action]]) -> Action:
    has = client.setup.has
    known = [(weight, do) for weight, needs, do in actions.values() if needs is None or has(needs)]
    return client.dice.choices([do for _, do in known], [weight for weight, _ in known])[0]


def _settle_the_past(client: Client) -> None:
    """Repeat, or leave, what the worker before this one was killed in."""
    last = client.past[-1] if client.past else None
    if last is not None and last["t"] == "intent" and client.dice.random() < 0.6:
        _again(client, last)


def _again(client: Client, asked: dict[str, Any]) -> None:
    client.write(
        asked["branch"],
        asked["op"],
        kind=asked["kind"],
        operation_id=asked["id"],
        expected_head=asked["head"],
    )


def _write(client: Client) -> None:
    dice, branch = client.dice, _branch(client)
    extras = _extras(client)
    op = random_write(dice, f"{client.name}{dice.randrange(10**9)}", extras)
    if _needs(op) and not client.setup.has(_needs(op)):
        return
    head = None
    kind = "set_extra" if op["op"] == "set_extra" else "write"
    if dice.random() < 0.05:
        with client.expecting("read", branch):
            head = client.graph.commits.head(branch).graph_commit_id
    error = client.write(branch, op, kind=kind, expected_head=head)
    if error == "VersionConflictError":
        with client.expecting("read", branch):
            client.graph.refresh(branch)


def _burst(client: Client) -> None:
    """Let several threads write to one branch at once: small writes are published together."""
    dice, branch, extras = client.dice, _branch(client), _extras(client)
    asked: list[tuple[Any, str]] = []
    for _number in range(dice.randint(3, client.setup.threads)):
        op = random_write(dice, f"{client.name}{dice.randrange(10**9)}", extras)
        if op["op"] != "set_extra" and not (_needs(op) and not client.setup.has(_needs(op))):
            asked.append((op, client.new_id()))
    # Opened here: the threads share one handle.
    graph = client.graph
    with ThreadPoolExecutor(max(1, len(asked))) as pool:
        writing = [pool.submit(client.write, branch, op, operation_id=name) for op, name in asked]
        errors = {item.result() for item in writing}
    if "VersionConflictError" in errors:
        with client.expecting("read", branch):
            graph.refresh(branch)


def _needs(op: Any) -> str:
    """Return the feature that a write belongs to, or nothing."""
    if op["op"] == "load":
        return "loads"
    return "edges" if op["op"] in ("knows", "works", "person_and_edge", "delete_knows") else ""


def _extras(client: Client) -> tuple[str, ...]:
    firm = client.graph.catalog.nodes["Firm"]
    # The order of declaration does not matter to anybody.
    return tuple(sorted(name for name in firm.properties if name.startswith("x_")))


def _branch(client: Client) -> str:
    """Choose a branch, mostly main or one that was there a moment ago."""
    dice = client.dice
    if not client.setup.has("branches") or dice.random() < 0.5:
        return "main"
    if dice.random() < 0.15:
        _living(client)
    if dice.random() < 0.05:
        return dice.choice(BRANCHES)
    return dice.choice(client.known or ["main"])


def _living(client: Client) -> list[str]:
    found: list[str] = []
    with client.expecting("read"):
        found = client.known = [name for name in client.graph.branches.list() if name != "main"]
    return found


def _repeat(client: Client) -> None:
    """Repeat something that was answered: it must not happen twice."""
    asked = [e for e in client.past if e["t"] == "intent" and e["op"]["op"] != "schema"]
    if asked:
        _again(client, client.dice.choice(asked[-10:]))


def _recent(client: Client, branch: str) -> str | None:
    """Return the id of a recent commit of a branch."""
    kept: list[str] = []
    with client.expecting("read", branch):
        commits = client.graph.commits.list(branch, limit=12)
        changed = [c for c in commits if c.parent_commit_id and c.kind != "schema_apply"]
        kept = [commit.graph_commit_id for commit in changed]
    return client.dice.choice(kept) if kept else None


def _create(client: Client) -> None:
    dice, name = client.dice, client.dice.choice(BRANCHES)
    nested = client.setup.has("nested-branches")
    source, kind = dice.choice(["main", "main", *(client.known if nested else ())]), "create"
    if dice.random() < 0.2:
        found = _recent(client, source)
        if found is None:
            return
        source, kind = found, "create_old"
    elif source != "main":
        # The source may be gone by now.
        kind = "create_old"
    with client.expecting(kind, name, source=source) as answer:
        made = client.graph.branches.create(name, source)
        client.known = [*client.known, name]
        answer |= {"incarnation": made.id.uid, "forked_at": made.forked_at}


def _delete(client: Client) -> None:
    names = _living(client)
    if names:
        name = client.dice.choice(names)
        with client.expecting("delete", name):
            client.graph.branches.delete(name)


def _merge(client: Client) -> None:
    dice = client.dice
    names = _living(client)
    if not names:
        return
    source, target = dice.choice(names), "main"
    if dice.random() < 0.4:
        source, target = "main", source
    kind = "merge"
    if client.setup.has("crossing-merges") and len(names) > 1 and dice.random() < 0.3:
        source, target = dice.sample(names, 2)
        kind = "far_merge"
    elif not client.setup.has("crossing-merges") and target != "main":
        return
    op = {
        "op": "merge",
        "source": source,
        "resolve": dice.choice([None, "ours", "theirs"]),
        "by_property": dice.random() < 0.3,
        "drop": source != "main" and dice.random() < 0.3,
    }
    client.write(target, op, kind=kind)


def _tag(client: Client) -> None:
    name, branch = client.dice.choice(TAGS), _branch(client)
    commit = _recent(client, branch) if client.dice.random() < 0.5 else None
    with client.expecting("tag" if commit is None else "tag_old", branch, tag=name) as answer:
        if commit is None:
            made = client.graph.tags.create(name, branch=branch)
        else:
            made = client.graph.tags.create(name, commit=commit)
        answer |= {"life": made.branch.uid, "seq": made.version}


def _untag(client: Client) -> None:
    name = client.dice.choice(TAGS)
    with client.expecting("untag", tag=name):
        client.graph.tags.delete(name)


def _revert(client: Client) -> None:
    _copy(client, "revert", _branch(client))


def _pick(client: Client) -> None:
    _copy(client, "pick", _branch(client))


def _copy(client: Client, kind: str, target: str) -> None:
    source = target if kind == "revert" else _branch(client)
    commit = _recent(client, source)
    if commit is not None:
        resolve = client.dice.choice([None, "ours", "theirs"])
        client.write(target, {"op": kind, "commit": commit, "resolve": resolve}, kind=kind)


def _schema(client: Client) -> None:
    if client.setup.quiet and _living(client):
        _delete(client)
        _untag(client)
        return
    name = f"{client.name}_{client.dice.randrange(10**9)}"
    client.write("main", random_schema(client.dice, name, _extras(client)), kind="schema")


def _reopen(client: Client) -> None:
    client.reopen()


ACTIONS: dict[str, tuple[float, str | None, Action]] = {
    "write": (100, None, _write),
    "burst": (30, None, _burst),
    "repeat": (2, None, _repeat),
    "create": (6, "branches", _create),
    "merge": (7, "branches", _merge),
    "delete": (3, "branches", _delete),
    "tag": (2, "tags", _tag),
    "untag": (1.5, "tags", _untag),
    "revert": (2, "picks", _revert),
    "pick": (2, "picks", _pick),
    "schema": (0.2, "schema", _schema),
    "reopen": (1, None, _reopen),
}
QUIET_ACTIONS: dict[str, tuple[float, str | None, Action]] = {
    "write": (40, None, _write),
    "merge": (5, "branches", _merge),
    "delete": (10, "branches", _delete),
    "untag": (5, "tags", _untag),
    "schema": (10, "schema", _schema),
}


# ---- maintainer ---------------------------------------------------------------------------


def maintainer(client: Client) -> None:
    """Optimize, index and clean up for ever, main and the branches."""
    dice = client.dice
    watch_purges(client.setup.place, lambda life: client.journal.add(t="purged", life=life))
    while True:
        if client.setup.has("cleanup"):
            _cleanup(client)
        names = ["main"] if client.setup.has("main-optimize") else []
        if client.setup.has("branches") and client.setup.has("branch-optimize"):
            names += _living(client)
        for name in dice.sample(names, min(len(names), 2)):
            with client.expecting("optimize", name) as answer:
                report = client.graph.optimize(name)
                answer["commit"] = report.commit and report.commit.graph_commit_id
        if "main" in names and dice.random() < 0.2:
            with client.expecting("optimize", "main", what="indices"):
                client.graph.maintenance.ensure_indices()
        if dice.random() < 0.1:
            client.reopen()
        time.sleep(dice.uniform(0.0, 0.3))


def _cleanup(client: Client) -> None:
    keep, grace = client.dice.randint(3, 10), client.dice.choice([0.0, 0.5, 2.0])
    with client.expecting("cleanup", keep=keep, grace=grace) as answer:
        report = client.graph.cleanup(keep=keep, grace=grace, dry_run=False)
        errors = [f"{item.table_key}: {item.error}" for item in report.tables if item.error]
        answer["versions"] = report.versions
        assert not errors, errors


# ---- reader -------------------------------------------------------------------------------


def reader(client: Client) -> None:
    """Look at heads, old states and the feed; what it saw is compared with the replay later."""
    follower = Follower(client)
    while True:
        client.dice.choice([_look, _look, _look_back, _compare, follower.poll])(client)
        if client.dice.random() < 0.02:
            client.reopen()
        time.sleep(0.005)


def _state(client: Client, **at: Any) -> dict[tuple[str, str], dict[str, Any]]:
    rows = client.graph.export(**at)
    assert not isinstance(rows, int)
    found = by_entity(rows)
    problems = broken_rules(found)
    assert not problems, problems
    return found


def _look(client: Client) -> None:
    """Read the newest state of a branch, and ask a query on the same state."""
    branch, began = _branch(client), now()
    with client.expecting("look", branch) as answer:
        seen = client.graph.snapshot(branch)
        commit = seen.commit.graph_commit_id
        answer |= {"head": commit, "seq": seen.version, "began": began}
        found = _state(client, commit=commit)
        answer["digest"] = digest(found)
        text = "query q() { match { $p: Person } return { $p.slug, $p.level } }"
        rows = client.graph.query(text, commit=commit)
        people = {row["p.slug"]: row["p.level"] for row in rows}
        wanted = {i: row["data"]["level"] for (n, i), row in found.items() if n == "Person"}
        assert people == wanted, f"the query found {people}, the export {wanted}"


def _look_back(client: Client) -> None:
    """Read an older state of a branch."""
    branch = _branch(client)
    commit = _recent(client, branch)
    if commit is not None:
        with client.expecting("read_old", branch, commit=commit) as answer:
            answer["digest"] = digest(_state(client, commit=commit))


def _compare(client: Client) -> None:
    """Compare two states by a diff and by hand."""
    branch = _branch(client)
    a, b = _recent(client, branch), _recent(client, branch)
    if a is None or b is None:
        return
    with client.expecting("diff", branch, diff=[a, b]):
        found = client.graph.diff(a, b)
        before, after = _state(client, commit=a), _state(client, commit=b)
        made = {(item.type_name, item.id): item.op for item in found}
        assert made == operations(before, after), f"diff of {a} and {b}"


def operations(before: dict[Any, Any], after: dict[Any, Any]) -> dict[Any, str]:
    """Return what turns one state into another, by entity."""
    found = dict.fromkeys(after.keys() - before.keys(), "insert")
    found |= dict.fromkeys(before.keys() - after.keys(), "delete")
    found |= {key: "update" for key in before.keys() & after.keys() if before[key] != after[key]}
    return found


class Follower:
    """Follows the feed of main and keeps a copy of the graph by it."""

    def __init__(self, client: Client) -> None:
        self._cursor: str | None = None
        self._copy: dict[tuple[str, str], dict[str, Any]] = {}
        self._path = client.setup.folder / f"{client.name}.baseline"

    def poll(self, client: Client) -> None:
        """Take a baseline at first and after a gap; otherwise go on from the cursor."""
        if self._cursor is None:
            self._begin(client)
            return
        cursor, self._cursor = self._cursor, None
        with client.expecting("feed") as answer:
            page = client.graph.feed.poll(cursor=cursor, limit=8000)
            if any(block.schema_boundary for block in page.blocks):
                return
            for block in page.blocks:
                for change in block.changes:
                    self._take(change)
            self._cursor = page.cursor
            if page.blocks:
                answer["commit"] = page.blocks[-1].commit.graph_commit_id
                answer["digest"] = digest(self._copy)

    def _begin(self, client: Client) -> None:
        with client.expecting("baseline") as answer:
            made = client.graph.feed.baseline(self._path)
            lines = self._path.read_text().splitlines()[:-1]
            self._copy = by_entity(map(_loaded, lines))
            self._cursor = made.resume_cursor
            answer |= {"commit": made.snapshot_commit_id, "digest": digest(self._copy)}

    def _take(self, change: Any) -> None:
        key = (change.type_name, change.id)
        if change.op == "delete":
            del self._copy[key]
            return
        assert (key in self._copy) == (change.op == "update"), f"{change.op} of {key}"
        self._copy[key] = envelope(change)


def envelope(change: Any) -> dict[str, Any]:
    """Return the entity a change leaves, as an export shows it."""
    image = change.after
    data = {"id": change.id, **image["properties"]}
    if change.kind == "node":
        return {"type": change.type_name, "data": data}
    return {"edge": change.type_name, **image["endpoints"], "data": data}


def _loaded(line: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line)
    return found


ROLES: dict[str, Action] = {"writer": writer, "maintainer": maintainer, "reader": reader}
