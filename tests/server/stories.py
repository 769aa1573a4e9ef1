"""What people do with a graph, told once and lived twice: embedded and over HTTP.

A story gets a graph and notes what it sees. `Notes` makes what it notes comparable: ids are
numbered in the order they appear, times and places are left out.
"""

from __future__ import annotations

import copy
import datetime
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraph as og
from tests.server.helpers import ADD, ALL, LINES

AnyGraph = Any
Story = Callable[[AnyGraph, "Notes", Path], None]
_ULID = re.compile(r"[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}")
_TIMES = {"created_at", "created_at_s", "authored_at", "ms", "io", "seconds"}
_PLACES = {"uri", "table_path", "dataset_path"}
_OF_THE_GRAPH = {"schema_hash"}
"""Each graph has its own: the hash covers the id the graph was born with."""
_FEED = {"cursor", "resume_cursor", "next_page_token"}
STORIES: list[Story] = []


class Notes:
    """What a story saw."""

    def __init__(self) -> None:
        self.lines: list[Any] = []
        self._ids: dict[str, str] = {}

    def __call__(self, *values: Any) -> None:
        self.lines += [self._plain(value) for value in values]

    def fails(self, work: Callable[[], object]) -> None:
        """Note how something fails: its class, and all it says."""
        try:
            found = work()
            if isinstance(found, Iterator):
                list(found)
        except og.OmniGraphError as error:
            self.lines.append([type(error).__name__, error.retryable, self._plain(error.to_json())])
        else:
            raise AssertionError(f"this should fail, and gave {found!r}")

    def _plain(self, value: Any) -> Any:
        if hasattr(value, "to_json"):
            return self._plain(value.to_json())
        if isinstance(value, Mapping):
            return {
                key: self._field(key, item)
                for key, item in value.items()
                if key not in ("entity_kind", "type_name") or "table_key" not in value
            }
        if isinstance(value, list | tuple):
            return [self._plain(item) for item in value]
        if isinstance(value, str):
            return _ULID.sub(lambda found: self._number(found[0]), value)
        if isinstance(value, pa.Schema):
            return str(value)
        return value

    def _field(self, key: str, value: Any) -> Any:
        if key in _TIMES | _PLACES | _OF_THE_GRAPH | _FEED:
            return None if value is None else f"<{key}>"
        return self._plain(value)

    def _number(self, text: str) -> str:
        return self._ids.setdefault(text.upper(), f"#{len(self._ids)}")


def story(work: Story) -> Story:
    STORIES.append(work)
    return work


@story
def queries(graph: AnyGraph, note: Notes, _folder: Path) -> None:
    graph.load(LINES.encode(), mode="append")
    values = {
        "born": datetime.date(1999, 12, 31),
        "seen": "2026-01-02T03:04:05.678Z",
        "score": 0.1,
        "big": 2**62 + 1,
        "tags": ["x", "ÿ", ""],
    }
    graph.mutate(
        "query more($born: Date, $seen: DateTime, $score: F64, $big: I64, $tags: [String]) {"
        ' insert Person { name: "cy", born: $born, seen: $seen, score: $score, big: $big,'
        " tags: $tags } }",
        values,
    )
    text = (
        "query wide() { match { $p: Person } return { $p.name, $p.age, $p.born, $p.seen,"
        " $p.score, $p.big, $p.tags } order { $p.name asc } }"
    )
    result = graph.query(text)
    note(result, result.schema, result.to_pylist(), len(result), result.columns)
    note(result.to_json(ints="string"), result.to_arrow().to_pylist())
    note(graph.query("query n() { match { $p: Person } return { count($p) as n } }").scalar())
    note(graph.query("query none() { match { $p: Paper } return { $p.title } }"))
    two = f"{ALL} query old($a: I32) {{ match {{ $p: Person  $p.age > $a }} return {{ $p.name }} }}"
    note(graph.query(two, {"a": 30}, name="old"))
    explained = graph.explain(ALL)
    note(explained.plan, explained.rows, [item.text for item in explained.stages])
    first = graph.commits.list()[-1].graph_commit_id
    note(graph.explain(ALL, commit=first).rows, graph.explain(ALL, version=2).rows)


@story
def snapshots(graph: AnyGraph, note: Notes, _folder: Path) -> None:
    graph.load(LINES.encode(), mode="append")
    graph.branches.create("work")
    fixed = graph.snapshot("work")
    graph.mutate(ADD, {"n": "zoe"}, branch="work")
    note(fixed.query(ALL), fixed.query(f"{ALL} {ADD}", name="all"), graph.query(ALL, branch="work"))
    assert len(fixed.query(ALL)) == len(graph.query(ALL, branch="work")) - 1
    graph.branches.delete("work")
    note(graph.snapshot(commit=fixed.graph_commit_id).query(ALL))
    note.fails(lambda: fixed.query(ALL, branch="work"))
    note.fails(lambda: copy.copy(fixed).query(ALL))


@story
def query_failures(graph: AnyGraph, note: Notes, _folder: Path) -> None:
    note.fails(lambda: graph.query("query q() { match { $p: Nope } return { $p.x } }"))
    note.fails(lambda: graph.query("nonsense"))
    note.fails(lambda: graph.query(ADD, {"n": "x"}))
    note.fails(lambda: graph.query(ALL, name="other"))
    note.fails(lambda: graph.query(ALL, branch="nope"))
    note.fails(lambda: graph.query(ALL, tag="nope"))
    note.fails(lambda: graph.query(ALL, version=99))
    note.fails(lambda: graph.query(ALL, timestamp="never"))
    note.fails(lambda: graph.query(ALL, timestamp="1999-01-01T00:00:00Z"))
    note.fails(lambda: graph.query("query q($n: I32) { match { $p: Person } return { $p.name } }"))
    note.fails(lambda: graph.query(ALL, commit="01ARZ3NDEKTSV4RRFFQ69G5FAV"))
    note.fails(lambda: graph.query(ALL, {"nobody": 1}))
    note.fails(lambda: graph.explain(ALL, {"nobody": 1}))


@story
def mutations(graph: AnyGraph, note: Notes, _folder: Path) -> None:
    note(graph.mutate(ADD, {"n": "ann", "a": 3}))
    note(graph.mutate(ADD, {"n": "bob"}, operation_id="once"))
    note(graph.mutate(ADD, {"n": "bob"}, operation_id="once"))
    note(graph.mutate('query d() { delete Person where name = "zoe" }'))
    head = graph.commits.head()
    note(graph.mutate(ADD, {"n": "cy"}, expected_head=head.graph_commit_id))
    note.fails(lambda: graph.mutate(ADD, {"n": "di"}, expected_head=head.graph_commit_id))
    note(graph.mutate(ADD, {"n": "ann"}))
    note(graph.mutate(ADD, {"n": "tried"}, dry_run=True), graph.query(ALL))
    note.fails(lambda: graph.mutate(ADD, {"n": 3}, dry_run=True))
    note.fails(lambda: graph.mutate(ALL))
    note.fails(lambda: graph.mutate(ADD, {"n": "x", "ag": 3}))
    note.fails(lambda: graph.mutate(ADD, {"n": 3}))
    note.fails(lambda: graph.mutate(ADD, {"n": "x"}, branch="nope"))
    note(graph.query(ALL))


@story
def loads(graph: AnyGraph, note: Notes, folder: Path) -> None:
    file = folder / "people.jsonl"
    file.write_text(LINES, encoding="utf-8")
    note(graph.load(file, mode="append"))
    note.fails(lambda: graph.load(file, mode="append"))
    note(graph.load(file, mode="merge", dry_run=True))
    note(graph.load(LINES.encode(), mode="merge", operation_id="again"))
    note(graph.load(LINES.encode(), mode="merge", operation_id="again"))
    note(graph.load([{"type": "Paper", "data": {"title": "T"}}], mode="overwrite"))
    note(graph.load([{"edge": "Wrote", "from": "ann", "to": "T"}], mode="append"))
    note(graph.load(b"", mode="merge"))
    note(graph.load(LINES.encode(), mode="merge", branch="new", create_from="main"))
    note.fails(lambda: graph.load(LINES.encode(), mode="merge", branch="nope"))
    note.fails(lambda: graph.load(b'{"type":"Nope","data":{}}\n', mode="merge"))
    note.fails(lambda: graph.load(b'{"type":"Person","data":{"name":1,"x":2}}\n{', mode="merge"))
    note.fails(lambda: graph.load([{"edge": "Knows", "from": "ann", "to": "no"}], mode="append"))
    table = pa.table({"name": ["ed", "flo"], "age": pa.array([1, None], pa.int32())})
    note(graph.load_table("Person", table, mode="append"))
    edges = pa.table({"from": ["ed"], "to": ["flo"], "since": [datetime.date(2020, 2, 29)]})
    note(graph.load_table("Knows", edges, mode="append"))
    note.fails(lambda: graph.load([{"type": "Person", "data": {"name": b"raw"}}], mode="merge"))
    note.fails(lambda: graph.load([{"type": "Person", "data": {"name": {1}}}], mode="merge"))
    for column in ({"born": [0, 2_932_897]}, {"score": ["a", "b"]}, {"age": [1, 2**40]}):
        wrong = pa.table({"name": ["x", "y"], **column})
        note.fails(partial(graph.load_table, "Person", wrong, mode="append"))
    ends = pa.table({"from": ["ed", None], "to": ["flo", "ed"]})
    note.fails(lambda: graph.load_table("Knows", ends, mode="append"))
    note.fails(lambda: graph.load_table("Knows", ends.drop(["to"]), mode="append"))
    note.fails(lambda: graph.load_table("Nope", ends, mode="append"))
    note(graph.query(ALL))


@story
def exports(graph: AnyGraph, note: Notes, folder: Path) -> None:
    graph.load(LINES.encode(), mode="append")
    graph.load(
        [{"type": "Person", "data": {"name": "pix", "face": b"\x00\xff" * 40}}], mode="merge"
    )
    note(list(graph.export()), list(graph.export(types=["Knows"])))
    note(list(graph.export(version=1)), list(graph.export(branch="main", version=2)))
    note(graph.export(folder / "out.jsonl"), (folder / "out.jsonl").read_text(encoding="utf-8"))
    people = graph.export_table("Person")
    note(people.schema, people.to_pylist(), graph.export_table("Knows", version=2).to_pylist())
    note.fails(lambda: graph.export(types=["Nope"]))
    note.fails(lambda: graph.export_table("Nope"))
    note(graph.get("Person", "ann"))
    note(graph.get("Person", "pix"))
    note.fails(lambda: graph.get("Nope", "ann"))
    note(graph.entity_at("node:Person", "ann", version=2))
    note(graph.entity_at("node:Person", "pix", version=2))
    note.fails(lambda: graph.entity_at("node:Nope", "ann", version=2))
    note.fails(lambda: graph.entity_at("node:Person", "ann", version=99))
    note.fails(lambda: graph.export(branch="nope"))
    graph.export(folder / "csv", format="csv")
    for path in sorted((folder / "csv").iterdir()):
        note(path.name, path.read_text())
    note(graph.export(folder / "a.graphml", branch="main"), (folder / "a.graphml").read_text())
    network = graph.to_networkx(version=2)
    note(sorted(network.nodes(data=True)), sorted(network.edges(keys=True)))
    note(graph.to_igraph(types=["Person"]).vcount())
    note.fails(lambda: graph.export(folder / "b", format="csv", types=["Nope"]))
    note.fails(lambda: graph.to_networkx(tag="nope"))


@story
def branches(graph: AnyGraph, note: Notes, _folder: Path) -> None:
    graph.load(LINES.encode(), mode="append")
    graph.branches.create("work/a")
    note(graph.branches.list(), graph.branches.exists("work/a"), graph.branches.exists("nope"))
    note.fails(lambda: graph.branches.create("work/a"))
    note.fails(lambda: graph.branches.create("work"))
    note.fails(lambda: graph.branches.create("../x"))
    note.fails(lambda: graph.branches.create("y", "nope"))
    note.fails(lambda: graph.branches.delete("nope"))
    note.fails(lambda: graph.branches.delete("main"))
    view = graph.branch("work/b", from_="main")
    note(view.mutate(ADD, {"n": "eve"}), view.query(ALL), view.head(), view.snapshot())
    note(view.diff(), view.merge_plan(), view.merge(delete_source=True))
    note(graph.query(ALL), graph.branches.list())
    with graph.transaction() as work:
        work.mutate(ADD, {"n": "in-a-transaction"})
        note(graph.query(ALL))
    note(graph.query(ALL), graph.branches.list() == ["main", "work/a"])
    graph.branches.delete("work/a")
    note(graph.branches.list())


@story
def merges(graph: AnyGraph, note: Notes, _folder: Path) -> None:
    graph.load(LINES.encode(), mode="append")
    graph.branches.create("work")
    note(graph.branches.merge("work"))
    for branch, age in (("main", 40), ("work", 50)):
        text = f'query q() {{ update Person set {{ age: {age} }} where name = "ann" }}'
        graph.mutate(text, branch=branch)
    note(graph.branches.merge_plan("work"))
    note.fails(lambda: graph.branches.merge("work"))
    note.fails(lambda: graph.branches.merge("nope"))
    note.fails(lambda: graph.branches.merge("work", resolve="mine"))
    check = "query young() { match { $p: Person  $p.age > 45 } return { $p.name } }"
    note.fails(lambda: graph.branches.merge("work", resolve="theirs", checks=[check]))
    note(graph.branches.merge("work", resolve={"Person/ann": "theirs"}, operation_id="m"))
    note(graph.query(ALL))


@story
def history(graph: AnyGraph, note: Notes, _folder: Path) -> None:
    graph.load(LINES.encode(), mode="append")
    first = graph.mutate(ADD, {"n": "eve"}).commit
    graph.mutate('query q() { update Person set { age: 7 } where name = "eve" }')
    note(graph.commits.list(), graph.commits.list(limit=1), graph.commits.list(limit=0))
    note(graph.commits.list(actor="nobody"), graph.commits.list(since=first.created_at))
    note(graph.commits.get(first.graph_commit_id), graph.commits.head())
    note(graph.commits.changes(first.graph_commit_id))
    note(
        graph.commits.changes(graph.commits.head().graph_commit_id, kinds=["node"], ops=["update"])
    )
    note(graph.commits.last_change("Person", "eve"), graph.commits.last_change("Person", "no"))
    note.fails(lambda: graph.commits.get("01ARZ3NDEKTSV4RRFFQ69G5FAV"))
    note.fails(lambda: graph.commits.list("nope"))
    note.fails(lambda: graph.commits.changes(graph.commits.list()[-1].graph_commit_id))
    note.fails(lambda: graph.commits.last_change("Nope", "x"))
    note(graph.snapshot(), graph.snapshot(version=2), graph.snapshot(commit=first.graph_commit_id))
    note.fails(lambda: graph.snapshot("nope"))
    note(graph.query(ALL, version=2), graph.query(ALL, commit=first.graph_commit_id))
    note(graph.query(ALL, timestamp=first.created_at))
    note(graph.diff(1, "main"), graph.diff("main@2", "main", types=["Person"]).counts())
    note.fails(lambda: graph.diff("nope", "main"))
    note(graph.branches.revert(first.graph_commit_id, resolve="theirs"), graph.query(ALL))
    note(graph.branches.cherry_pick(first.graph_commit_id), graph.query(ALL))
    note(graph.maintenance.recoveries(), graph.maintenance.pending_writes())
    note(graph.maintenance.recover())


@story
def tags(graph: AnyGraph, note: Notes, _folder: Path) -> None:
    note(graph.tags.create("v1"), graph.tags.list())
    then = graph.commits.head().created_at
    graph.mutate(ADD, {"n": "ann"})
    note(graph.tags.create("then", timestamp=then))
    graph.tags.delete("then")
    note(graph.query(ALL, tag="v1"), graph.snapshot(tag="v1"), graph.diff("v1", "main"))
    note.fails(lambda: graph.tags.create("v1"))
    note.fails(lambda: graph.tags.create("v2", branch="nope"))
    graph.tags.delete("v1")
    note(graph.tags.list())
    note.fails(lambda: graph.tags.delete("v1"))


@story
def feeds(graph: AnyGraph, note: Notes, folder: Path) -> None:
    note(graph.feed.poll())
    graph.load(LINES.encode(), mode="append")
    graph.mutate(ADD, {"n": "eve"})
    page = graph.feed.poll("beginning", limit=2)
    note(page)
    while page.next_page_token or not page.caught_up:
        page = graph.feed.poll(
            "beginning", cursor=page.cursor, page_token=page.next_page_token, limit=2
        )
        note(page)
    note(graph.feed.poll("beginning", kinds=["edge"], types=["Knows"], ops=["insert"]))
    note.fails(lambda: graph.feed.poll(cursor="AAAA"))
    note.fails(lambda: graph.feed.poll("later"))
    note.fails(lambda: graph.feed.poll("beginning", types=["Nope"]))
    note.fails(lambda: graph.feed.poll(branch="nope"))
    base = graph.feed.baseline(folder / "base.jsonl")
    note(base.entities, len((folder / "base.jsonl").read_text(encoding="utf-8").splitlines()))
    some = {"kinds": ["node"], "types": ["Person"], "ops": ["insert"]}
    part = graph.feed.baseline(folder / "part.jsonl", **some)
    note(part.entities)
    graph.mutate(ADD, {"n": "zoe"})
    note(graph.feed.poll(cursor=base.resume_cursor))
    note(graph.feed.poll(cursor=part.resume_cursor, **some))
    note.fails(lambda: graph.feed.poll(cursor=part.resume_cursor))
    note.fails(lambda: graph.feed.baseline(folder / "no.jsonl", types=["Nope"]))


@story
def schemas(graph: AnyGraph, note: Notes, _folder: Path) -> None:
    graph.load(LINES.encode(), mode="append")
    source = graph.schema_source
    note(source, sorted(graph.catalog.nodes), sorted(graph.catalog.edges))
    wider = source.replace("title: String @key", "title: String @key\n    year: I32?")
    note(graph.schema.plan(wider), graph.schema.plan(wider).render(), graph.schema.plan(source))
    note.fails(lambda: graph.schema.plan("node {"))
    strict = source.replace("age: I32?", "age: I32")
    note(graph.schema.plan(strict).problems)
    note.fails(lambda: graph.schema.apply(strict))
    done = graph.schema.apply(wider, operation_id="s1")
    note(done, done.applied, done.is_empty, done.drops, done.supported, done.manifest_version)
    note(graph.schema_source == wider)
    graph.branches.create("work")
    note.fails(lambda: graph.schema.apply(source))


@story
def blobs(graph: AnyGraph, note: Notes, _folder: Path) -> None:
    face = bytes(range(256)) * 1000
    graph.load([{"type": "Person", "data": {"name": "pix", "face": face}}], mode="append")
    found = graph.blobs.stat("node", "Person", "pix", "face")
    note(found.size, found.kind, found.uri, found.branch, found.to_json()["selector"])
    with graph.blobs.open("node", "Person", "pix", "face") as file:
        note(file.read() == face)
    note.fails(lambda: graph.blobs.stat("node", "Person", "nobody", "face"))
    note.fails(lambda: graph.blobs.stat("node", "Person", "pix", "name"))
    note.fails(lambda: graph.blobs.stat("node", "Nope", "pix", "face"))


@story
def looking_around(graph: AnyGraph, note: Notes, _folder: Path) -> None:
    graph.load(LINES.encode(), mode="append")
    graph.branches.create("work")
    graph.mutate(ADD, {"n": "cy", "a": 1}, branch="work")
    graph.mutate(ADD, {"n": "di"})
    graph.mutate('query u() { update Person set { age: 7 } where name = "cy" }', branch="work")
    graph.tags.create("first", version=2)
    note(graph.branches.heads(), graph.branches.heads("work"), graph.branches.history())
    page = graph.branches.history(limit=2)
    note(page, graph.branches.history(limit=2, page_token=page.next_page_token))
    note.fails(lambda: graph.branches.heads("nope"))
    damaged = {"page_token": "x"}
    note.fails(lambda: graph.branches.history(**damaged))
    note(graph.schema.describe(), graph.schema.describe(tag="first"))
    note(graph.schema.lint(ALL), graph.schema.lint(f"{ADD} query b() {{ match {{ $x: No }}"))
    note(graph.schema.lint("query q() { match { $p: Persn } return { $p.nme } }", branch="work"))
    note(graph.schema.lint("node A { x: Nope }", language="pg"))
    note(graph.schema.lint("node A { x: String }", language="pg"))
    note.fails(lambda: graph.schema.lint(ALL, language="sql"))
    note.fails(lambda: graph.schema.lint(ALL, branch="nope"))
    note(graph.entities.history("Person", "cy", "work"))
    note(graph.entities.history("Person", "cy", "work", limit=1))
    note(graph.entities.history("Person", "nobody"))
    note.fails(lambda: graph.entities.history("Nope", "x"))
    note(graph.entity_at("node:Person", "ann"), graph.entity_at("node:Person", "cy", branch="work"))
    note(graph.entity_at("node:Person", "ann", tag="first"))
    note(graph.branches.allowed().branch)


@story
def neighbourhoods(graph: AnyGraph, note: Notes, _folder: Path) -> None:
    graph.load(LINES.encode(), mode="append")
    first = graph.commits.head().graph_commit_id
    link = "query l($a: String, $b: String) { insert Knows { from: $a, to: $b } }"
    for name in ("cy", "di", "ed"):
        graph.mutate(ADD, {"n": name})
        graph.mutate(link, {"a": "ann", "b": name})
    graph.mutate(link, {"a": "ed", "b": "ann"})
    around = graph.entities.neighbours("Person", "ann")
    note(around, graph.entities.neighbours("Person", "ann", limit=0))
    note(graph.entities.neighbours("Person", "ann", edge="Knows", direction="in"))
    note(graph.entities.neighbours("Person", "ann", commit=first))
    token, seen = None, []
    while True:
        page = graph.entities.neighbours("Person", "ann", limit=2, page_token=token)
        seen += [(item.direction, item.id) for item in page.neighbours]
        token = page.next_page_token
        if token is None:
            break
    note(seen)
    assert seen == [(item.direction, item.id) for item in around.neighbours]
    note(graph.entities.subgraph([("Person", "ann"), ("Person", "ed"), ("Person", "nobody")]))
    result = graph.query("query q() { match { $p: Person  $p knows $q } return { $p, $q.age } }")
    note(result.column_types, graph.entities.subgraph(result))
    note.fails(lambda: graph.entities.neighbours("Person", "nobody"))
    note.fails(lambda: graph.entities.neighbours("Nope", "x"))
    note.fails(lambda: graph.entities.neighbours("Person", "ann", edge="Wrongly"))
    note.fails(lambda: graph.entities.neighbours("Person", "ann", limit=-1))
    note.fails(lambda: graph.entities.neighbours("Person", "ann", direction="up"))
    damaged = {"page_token": "x"}
    note.fails(lambda: graph.entities.neighbours("Person", "ann", **damaged))
    note.fails(lambda: graph.entities.subgraph([("Nope", "x")]))
