"""Schema apply: what becomes of stored rows, what is refused, and what history still shows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.store import locate
from tests.integration.helpers import NewGraph, edge, files, head, load, messages, node, rows, run
from tests.places import names_in

BASE = """
node Person { slug: String @key  name: String?  age: I32?  nick: String? }
node Firm { slug: String @key }
edge Knows: Person -> Person { weight: F32? }
edge Works: Person -> Firm
"""


@pytest.fixture
def graph(new_graph: NewGraph) -> og.Graph:
    made = new_graph(BASE)
    load(
        made,
        [
            node("Person", slug="ann", name="Ann", age=31),
            node("Person", slug="bob", name="Bob", nick="bo"),
            node("Person", slug="eve", age=200),
            node("Firm", slug="acme"),
            edge("Knows", "ann", "bob", id="k1", weight=0.5),
            edge("Knows", "ann", "eve", id="k2"),
            edge("Works", "ann", "acme", id="w1"),
        ],
    )
    return made


def changed(old: str, new: str, text: str = BASE) -> str:
    assert old in text
    return text.replace(old, new)


def names(graph: og.Graph, query: str = "Person", **at: object) -> list[dict[str, object]]:
    text = f"query q() {{ match {{ $x: {query} }} return {{ $x.id }} order {{ $x.id }} }}"
    return graph.query(text, **at).to_pylist()  # type: ignore[arg-type]


# ---- one step at a time -------------------------------------------------------------------


def test_the_same_schema_is_no_change(graph: og.Graph) -> None:
    before = files(graph.uri)
    done = graph.schema.apply("// a comment\n" + BASE)
    assert (done.supported, done.applied, done.is_empty) == (True, False, True)
    assert done.commit is None
    assert files(graph.uri) == before


def test_one_apply_is_one_commit_that_carries_the_new_schema(graph: og.Graph) -> None:
    before = graph.commits.head()
    done = graph.schema.apply(changed("nick: String?", "mail: String?"), actor="ann")
    commit = graph.commits.head()
    assert done.commit == commit
    assert commit.kind == "schema_apply"
    assert commit.actor_id == "ann"
    assert commit.parent_commit_id == before.graph_commit_id
    assert commit.schema_hash != before.schema_hash
    assert done.manifest_version == commit.manifest_version == graph.snapshot().version
    assert names_in(f"{graph.uri}/__recovery") == []
    assert len(names_in(f"{graph.uri}/_schema_history")) == 2


def test_a_new_property_is_null_and_can_be_written(graph: og.Graph) -> None:
    graph.schema.apply(
        changed(
            "nick: String?",
            "nick: String?  tags: [String]?  near: Vector(2)?  at: DateTime?  photo: Blob?",
        )
    )
    assert rows(graph, "Person")["ann"] == {"slug": "ann", "name": "Ann", "age": 31}
    graph.load(
        [node("Person", slug="new", tags=["x"], near=[1.0, 2.0], photo="base64:AAEC")], mode="merge"
    )
    run(graph, 'update Person set { tags: ["y"] } where slug = "ann"')
    assert rows(graph, "Person")["new"] == {
        "slug": "new",
        "tags": ["x"],
        "near": [1.0, 2.0],
        "photo": "base64:AAEC",
    }
    assert rows(graph, "Person")["ann"]["tags"] == ["y"]


def test_a_new_required_property_gets_its_default(graph: og.Graph) -> None:
    done = graph.schema.apply(
        changed(
            "nick: String?",
            'nick: String?  kind: enum(a, b) @default("a")  tags: [String] @default(["x", "y"])  '
            'born: Date @default("2001-02-03")  size: F32 @default(0.5)',
        )
    )
    assert set(done.rows) == {3}
    found = rows(graph, "Person")["bob"]
    assert (found["kind"], found["tags"], found["size"]) == ("a", ["x", "y"], 0.5)
    assert found["born"] == 11356
    with pytest.raises(og.OmniGraphError, match="kind"):
        run(graph, 'insert Person { slug: "x", kind: "c" }')


def test_a_new_nullable_property_with_a_default_stays_null(graph: og.Graph) -> None:
    graph.schema.apply(changed("nick: String?", "nick: String?  rank: I32? @default(1)"))
    assert "rank" not in rows(graph, "Person")["ann"]
    run(graph, 'insert Person { slug: "new" }')
    assert rows(graph, "Person")["new"]["rank"] == 1


def test_a_renamed_property_keeps_its_values_and_its_index(graph: og.Graph) -> None:
    indexed = changed("name: String?", "name: String? @unique")
    graph.schema.apply(indexed)
    graph.maintenance.ensure_indices()
    graph.schema.apply(
        changed("name: String? @unique", 'title: String? @unique @rename_from("name")', indexed)
    )
    assert rows(graph, "Person")["ann"] == {"slug": "ann", "title": "Ann", "age": 31}
    with pytest.raises(og.DataError, match="unique"):
        run(graph, 'insert Person { slug: "x", title: "Ann" }')
    with pytest.raises(og.CompileError):
        run(graph, 'insert Person { slug: "x", name: "Ann" }')
    graph.maintenance.ensure_indices()
    run(graph, 'update Person set { title: "Anna" } where title = "Ann"')
    assert rows(graph, "Person")["ann"]["title"] == "Anna"


def test_a_name_is_free_once_its_owner_was_renamed(graph: og.Graph) -> None:
    renamed = changed("name: String?", 'full: String? @rename_from("name")')
    graph.schema.apply(renamed)
    graph.schema.apply(
        changed('full: String? @rename_from("name")', "full: String?", renamed).replace(
            "nick: String? }", "name: I32? @default(1) }"
        )
    )
    assert rows(graph, "Person")["bob"] == {"slug": "bob", "full": "Bob"}
    run(graph, 'insert Person { slug: "x", full: "X" }')
    assert rows(graph, "Person")["x"] == {"slug": "x", "full": "X", "name": 1}


def test_a_dropped_property_is_gone_but_not_from_history(graph: og.Graph) -> None:
    version = graph.snapshot().version
    done = graph.schema.apply(changed("  nick: String?", ""))
    assert done.rows == (1,)
    assert rows(graph, "Person")["bob"] == {"slug": "bob", "name": "Bob"}
    assert rows(graph, "Person", version=version)["bob"]["nick"] == "bo"
    # The name is free again, for something else.
    graph.schema.apply(changed("nick: String?", "nick: I64?"))
    run(graph, 'update Person set { nick: 5 } where slug = "bob"')
    assert rows(graph, "Person")["bob"]["nick"] == 5
    assert rows(graph, "Person", version=version)["bob"]["nick"] == "bo"


def test_a_renamed_type_keeps_table_rows_and_edges(graph: og.Graph) -> None:
    path = graph.snapshot().tables["node:Person"].path
    text = changed("node Person", 'node Human @rename_from("Person")').replace(
        "Person -> Person", "Human -> Human"
    )
    graph.schema.apply(text.replace("Person -> Firm", "Human -> Firm"))
    snapshot = graph.snapshot()
    assert snapshot.tables["node:Human"].path == path
    assert "node:Person" not in snapshot.tables
    assert [row["x.id"] for row in names(graph, "Human")] == ["ann", "bob", "eve"]
    query = 'query q() { match { $a: Human { slug: "ann" }  $a knows $b } return { $b.id } }'
    assert len(graph.query(query)) == 2
    run(graph, 'delete Human where slug = "ann"')
    assert rows(graph, "Knows") == rows(graph, "Works") == {}


def test_a_type_may_take_the_name_another_one_gave_up(new_graph: NewGraph) -> None:
    graph = new_graph("node A { x: I32 }  node B { y: I32 }")
    load(graph, [node("A", id="a", x=1), node("B", id="b", y=2)])
    version = graph.snapshot().version
    graph.schema.apply('node C @rename_from("A") { x: I32 }  node B { y: I32 }')
    graph.schema.apply('node C { x: I32 }  node A @rename_from("B") { y: I32 }')
    assert rows(graph, "A") == {"b": {"y": 2}}
    assert rows(graph, "C") == {"a": {"x": 1}}
    assert rows(graph, "A", version=version) == {"a": {"x": 1}}
    graph.schema.apply("node C { x: I32 }  node A { y: I32 }  node B { z: I32 }")
    run(graph, 'insert B { id: "n", z: 1 }')
    assert (rows(graph, "B"), rows(graph, "A")) == ({"n": {"z": 1}}, {"b": {"y": 2}})


def test_new_types_start_empty(graph: og.Graph) -> None:
    graph.schema.apply(BASE + "node City { name: String }  edge Lives: Person -> City")
    run(graph, 'insert City { id: "rome", name: "Rome" }')
    run(graph, 'insert Lives { from: "ann", to: "rome" }')
    assert rows(graph, "City") == {"rome": {"name": "Rome"}}


def test_a_dropped_type_disappears_and_comes_back_as_another_one(graph: og.Graph) -> None:
    version, path = graph.snapshot().version, graph.snapshot().tables["node:Firm"].path
    without = changed("node Firm { slug: String @key }\n", "").replace(
        "edge Works: Person -> Firm\n", ""
    )
    done = graph.schema.apply(without)
    assert dict(zip([s.kind for s in done.plan.steps], done.rows, strict=True)) == {"drop_type": 1}
    assert set(graph.snapshot().tables) == {"node:Person", "edge:Knows"}
    with pytest.raises(og.CompileError):
        names(graph, "Firm")
    assert [row["x.id"] for row in names(graph, "Firm", version=version)] == ["acme"]
    graph.schema.apply(BASE)
    again = graph.snapshot().tables["node:Firm"]
    assert again.path == f"{path}-2"
    assert rows(graph, "Firm") == {}
    run(graph, 'insert Firm { slug: "new" }')
    assert rows(graph, "Firm") == {"new": {"slug": "new"}}
    assert list(rows(graph, "Firm", version=version)) == ["acme"]


def test_wider_types_keep_every_value(graph: og.Graph) -> None:
    graph.schema.apply(changed("age: I32?", "age: I64?").replace("weight: F32?", "weight: F64?"))
    run(graph, 'update Person set { age: 5000000000 } where slug = "bob"')
    assert rows(graph, "Person")["bob"]["age"] == 5_000_000_000
    assert rows(graph, "Person")["eve"]["age"] == 200
    assert rows(graph, "Knows")["k1"]["weight"] == 0.5


def test_a_property_becomes_required_when_every_row_has_it(graph: og.Graph) -> None:
    with pytest.raises(og.DataError) as refused:
        graph.schema.apply(changed("age: I32?", "age: I32"))
    assert messages(refused.value) == [
        "Person 'bob' has no value for age, which the new schema requires"
    ]
    assert refused.value.problems[0]["id"] == "bob"
    run(graph, 'update Person set { age: 7 } where slug = "bob"')
    graph.schema.apply(changed("age: I32?", "age: I32"))
    with pytest.raises(og.OmniGraphError, match="age"):
        run(graph, 'insert Person { slug: "x" }')


def test_a_default_fills_nulls_of_a_property_that_becomes_required(graph: og.Graph) -> None:
    done = graph.schema.apply(changed("age: I32?", "age: I64 @default(7)"))
    assert max(done.rows) == 2
    assert {key: row["age"] for key, row in rows(graph, "Person").items()} == {
        "ann": 31,
        "bob": 7,
        "eve": 200,
    }


def test_a_required_property_becomes_nullable(graph: og.Graph) -> None:
    graph.schema.apply(changed("age: I32?", "age: I32 @default(0)"))
    graph.schema.apply(changed("age: I32?", "age: I32?"))
    run(graph, 'update Person set { age: null } where slug = "bob"')
    assert "age" not in rows(graph, "Person")["bob"]


@pytest.mark.parametrize(
    ("rule", "fits", "message"),
    [
        ("@range(age, 0..150)", "@range(age, 0..250)", "Person 'eve': @range violation on"),
        ('@check(name, "^A")', '@check(name, "^[AB]")', "Person 'bob': @check violation on"),
        ("@unique(age)", "@unique(name)", "held by 'ann' and 'eve'"),
    ],
)
def test_rules_are_added_when_the_rows_satisfy_them(
    graph: og.Graph, rule: str, fits: str, message: str
) -> None:
    if "unique" in rule:
        run(graph, 'update Person set { age: 31 } where slug = "eve"')
    before = head(graph)
    with pytest.raises(og.DataError) as refused:
        graph.schema.apply(changed("nick: String?", f"nick: String?  {rule}"))
    assert len(refused.value.problems) == 1
    assert message in messages(refused.value)[0]
    assert head(graph) == before
    graph.schema.apply(changed("nick: String?", f"nick: String?  {fits}"))
    wrong = 'name: "Zed"' if "check" in fits else 'name: "Bob", age: 999'
    with pytest.raises(og.DataError):
        run(graph, f'insert Person {{ slug: "x", {wrong} }}')
    graph.schema.apply(BASE)
    run(graph, 'insert Person { slug: "x", name: "Bob", age: 999 }')


def test_a_default_must_not_break_a_rule_that_held(graph: og.Graph) -> None:
    unique = changed("nick: String?", "nick: String? @unique")
    graph.schema.apply(unique)
    with pytest.raises(og.DataError, match="held by 'ann' and 'eve'"):
        graph.schema.apply(changed("nick: String?", 'nick: String @unique @default("n")'))


def test_a_changed_cardinality_is_checked(graph: og.Graph) -> None:
    with pytest.raises(og.DataError, match="source 'ann' has 2 edges \\(max 1\\)") as refused:
        graph.schema.apply(
            changed("Knows: Person -> Person", "Knows: Person -> Person @card(0..1)")
        )
    assert refused.value.problems[0]["id"] == "ann"
    graph.schema.apply(changed("Knows: Person -> Person", "Knows: Person -> Person @card(0..2)"))
    with pytest.raises(og.DataError, match="@card"):
        run(graph, 'insert Knows { from: "ann", to: "ann" }')
    graph.schema.apply(BASE)
    run(graph, 'insert Knows { from: "ann", to: "ann" }')


def test_many_changes_make_one_commit(graph: og.Graph) -> None:
    before = len(graph.commits.list())
    done = graph.schema.apply(
        """
        node Human @rename_from("Person") { slug: String @key  age: I64 @default(1)
            label: String? @rename_from("name") @index  extra: Blob?  @range(age, 0..300) }
        node City { name: String }
        edge Knows: Human -> Human @card(0..5) { weight: F64?  since: Date? }
        """
    )
    assert len(graph.commits.list()) == before + 1
    assert len(done.plan.steps) == len(done.rows) > 8
    assert rows(graph, "Human")["bob"] == {"slug": "bob", "label": "Bob", "age": 1}
    assert set(graph.snapshot().tables) == {"node:Human", "node:City", "edge:Knows"}
    graph.maintenance.ensure_indices()
    graph.optimize()
    assert rows(graph, "Human")["eve"] == {"slug": "eve", "age": 200}


def test_a_hard_drop_takes_the_data_from_history(graph: og.Graph) -> None:
    version = graph.snapshot().version
    person = graph.snapshot().tables["node:Person"].path
    marker = "nobody shall ever read this"
    run(graph, f'update Person set {{ nick: "{marker}" }} where slug = "bob"')
    text = changed("  nick: String?", "").replace("node Firm { slug: String @key }\n", "")
    text = text.replace("edge Works: Person -> Firm\n", "")
    graph.tags.create("keep")
    with pytest.raises(og.ConflictError, match="tags hold what would be lost: keep"):
        graph.schema.apply(text, allow_data_loss=True)
    graph.tags.delete("keep")
    done = graph.schema.apply(text, allow_data_loss=True)
    assert [step.to_json().get("mode") for step in done.plan.steps] == ["hard"] * 3
    assert rows(graph, "Person")["bob"] == {"slug": "bob", "name": "Bob"}
    for kind in ("Person", "Firm"):
        with pytest.raises(og.VersionReclaimedError):
            rows(graph, kind, version=version)
    assert graph.entity_at("edge:Knows", "k1", version=version) is not None
    stored = b"".join(p.read_bytes() for p in Path(graph.uri, person).rglob("*") if p.is_file())
    assert marker.encode() not in stored
    run(graph, 'insert Person { slug: "x" }')
    graph.schema.apply(BASE)
    run(graph, 'insert Firm { slug: "new" }')
    graph.cleanup(keep=1, dry_run=False, grace=0)
    with og.open(graph.uri, durability="none") as again:
        assert again.maintenance.recovered == []
        assert list(rows(again, "Firm")) == ["new"]
        assert list(rows(again, "Person")) == ["ann", "bob", "eve", "x"]


# ---- refusals -----------------------------------------------------------------------------


def test_an_unsupported_change_moves_nothing(graph: og.Graph) -> None:
    before = files(graph.uri)
    with pytest.raises(og.BadRequestError, match=r"\[OG-MF-106\] changing the type of"):
        graph.schema.apply(changed("age: I32?", "age: String?"))
    assert files(graph.uri) == before
    plan = graph.schema.plan(changed("age: I32?", "age: String?"))
    assert not plan.supported


def test_branches_are_listed_and_must_go_first(graph: og.Graph) -> None:
    graph.branches.create("dev")
    graph.branches.create("test/one")
    wanted = changed("nick: String?", "mail: String?")
    with pytest.raises(og.ConflictError, match="non-main branches: dev, test/one") as refused:
        graph.schema.apply(wanted)
    assert "merge or delete them first" in (refused.value.hint or "")
    assert graph.schema.plan(wanted).supported
    for name in ("dev", "test/one"):
        graph.branches.delete(name)
    assert graph.schema.apply(wanted).applied


def test_no_branch_starts_before_the_current_schema(graph: og.Graph) -> None:
    version = graph.snapshot().version
    graph.tags.create("old")
    graph.schema.apply(changed("nick: String?", "mail: String?"))
    for place in (f"main@{version}", "old"):
        with pytest.raises(og.ConflictError, match="the schema has changed since"):
            graph.branches.create("dev", place)
    graph.branches.create("dev")
    graph.branch("dev").mutate('query q() { insert Person { slug: "x", mail: "m" } }')
    graph.branches.merge("dev", delete_source=True)
    assert rows(graph, "Person")["x"]["mail"] == "m"


def test_an_expected_head_and_an_operation_id_hold_for_schemas_too(graph: og.Graph) -> None:
    wanted = changed("nick: String?", "mail: String?")
    with pytest.raises(og.PreconditionFailedError):
        graph.schema.apply(wanted, expected_head="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    first = graph.schema.apply(wanted, expected_head=head(graph), operation_id="mine")
    again = graph.schema.apply(wanted, operation_id="mine")
    assert first.commit == again.commit


def test_a_read_only_handle_plans_and_does_not_apply(graph: og.Graph) -> None:
    with og.open(graph.uri, mode="ro") as reader:
        assert reader.schema.plan(changed("nick: String?", "mail: String?")).supported
        with pytest.raises(og.BadRequestError, match="read-only"):
            reader.schema.apply(BASE)


def test_a_plan_counts_rows_and_names_what_stands_against_it(graph: og.Graph) -> None:
    before = files(graph.uri)
    plan = graph.schema.plan(changed("age: I32?", "age: I32").replace("  nick: String?", ""))
    assert plan.render().split("\n") == [
        "supported: yes",
        "make property 'Person.age' required on node 'Person'",
        "drop property 'Person.nick' (soft mode) on node 'Person' [1 row]",
        "problem: Person 'bob' has no value for age, which the new schema requires",
    ]
    assert plan.to_json()["problems"] == [
        {
            "type": "Person",
            "id": "bob",
            "field": "age",
            "message": "Person 'bob' has no value for age, which the new schema requires",
        }
    ]
    assert not plan.applied
    assert files(graph.uri) == before


@pytest.mark.local
def test_a_foreign_dataset_in_the_way_is_refused(graph: og.Graph, new_graph: NewGraph) -> None:
    other = new_graph("node City { name: String }", name="other")
    load(other, [node("City", name="x")])
    place = other.snapshot().tables["node:City"].path
    Path(graph.uri, place).parent.mkdir(exist_ok=True)
    os.rename(Path(other.uri, place), Path(graph.uri, place))
    with pytest.raises(og.OmniGraphError, match="a dataset exists"):
        graph.schema.apply(BASE + "node City { name: String }")
    with og.open(graph.uri, durability="none") as again:
        assert "City" not in again.catalog.nodes
        assert Path(graph.uri, place).exists()


# ---- history and other handles --------------------------------------------------------------


def test_the_past_is_read_under_its_own_names(graph: og.Graph) -> None:
    commit, version = head(graph), graph.snapshot().version
    graph.tags.create("before")
    moment = graph.commits.head().created_at
    graph.schema.apply(
        changed("name: String?", 'title: String? @rename_from("name")').replace(
            "edge Knows: Person -> Person", 'edge Likes: Person -> Person @rename_from("Knows")'
        )
    )
    old = "query q() { match { $p: Person  $p knows $q } return { $p.name, $q.id } }"
    new = "query q() { match { $p: Person  $p likes $q } return { $p.title, $q.id } }"
    for at in (
        {"commit": commit},
        {"version": version},
        {"tag": "before"},
        {"timestamp": moment},
    ):
        assert len(graph.query(old, **at)) == 2
        with pytest.raises(og.CompileError):
            graph.query(new, **at)
    assert len(graph.query(new)) == 2
    with pytest.raises(og.CompileError):
        graph.query(old)
    assert graph.entity_at("node:Person", "ann", version=version) is not None
    with og.open(graph.uri, mode="ro") as reader:
        assert len(reader.query(old, tag="before")) == 2


def test_open_handles_notice_the_new_schema(graph: og.Graph) -> None:
    text = changed("name: String?", 'title: String? @rename_from("name")')
    with (
        og.open(graph.uri, durability="none") as writer,
        og.open(graph.uri, mode="ro") as reader,
        og.open(graph.uri, durability="none") as loader,
    ):
        graph.schema.apply(text)
        query = 'query q() { match { $p: Person { slug: "ann" } } return { $p.title } }'
        assert reader.query(query).to_pylist() == [{"p.title": "Ann"}]
        run(writer, 'insert Person { slug: "new", title: "New" }')
        loader.load([node("Person", slug="x", title="X")], mode="append")
        with pytest.raises(og.CompileError):
            run(writer, 'insert Person { slug: "y", name: "New" }')
        assert writer.schema_source == reader.schema_source == text
        assert loader.catalog.nodes["Person"].properties.keys() == {"slug", "title", "age", "nick"}


def test_differences_stop_at_a_change_of_schema(graph: og.Graph) -> None:
    version = graph.snapshot().version
    run(graph, 'insert Person { slug: "x" }')
    middle = graph.snapshot().version
    last = graph.commits.head()
    graph.schema.apply(changed("  nick: String?", ""))
    run(graph, 'insert Person { slug: "y" }')
    assert [item.id for item in graph.diff(version, middle)] == ["x"]
    with pytest.raises(og.OmniGraphError, match="schema_boundary"):
        graph.diff(middle, "main")
    assert graph.commits.changes(last.graph_commit_id).changes[0].id == "x"
    with pytest.raises(og.OmniGraphError, match="schema_boundary"):
        graph.branches.revert(last.graph_commit_id)
    blocks = graph.feed.poll("beginning").blocks
    assert [(b.commit.kind, b.schema_boundary) for b in blocks[-2:]] == [
        ("schema_apply", True),
        ("mutation", False),
    ]
    assert blocks[-1].changes[0].id == "y"


def test_blame_follows_a_renamed_type(graph: og.Graph) -> None:
    text = changed("node Firm", 'node Company @rename_from("Firm")').replace(
        "-> Firm", "-> Company"
    )
    graph.schema.apply(text)
    run(graph, 'insert Company { slug: "new" }')
    found = graph.commits.last_change("Company", "new")
    assert found is not None
    assert found.kind == "mutation"
    assert graph.commits.last_change("Company", "acme") is not None


def test_rename_there_and_back_gives_the_first_schema_again(graph: og.Graph) -> None:
    first = graph.commits.head().schema_hash
    graph.schema.apply(changed("name: String?", 'title: String? @rename_from("name")'))
    graph.schema.apply(changed("name: String?", 'name: String? @rename_from("title")'))
    assert graph.commits.head().schema_hash == first
    with og.open(graph.uri, durability="none") as again:
        assert rows(again, "Person")["ann"]["name"] == "Ann"


def test_a_lagging_copy_is_brought_up_to_date(graph: og.Graph) -> None:
    place = locate(graph.uri)
    kept = {
        name: place.files.read(place.path(name)) or b""
        for name in ("_schema.pg", "_schema.ir.json", "__schema_state.json")
    }
    text = changed("nick: String?", "mail: String?")
    graph.schema.apply(text)
    # As if the process had died between the commit and the copies, at each of them.
    for lagging in (["__schema_state.json"], ["_schema.ir.json", "__schema_state.json"], [*kept]):
        for name in lagging:
            place.files.replace(place.path(name), kept[name], sync=False)
        with og.open(graph.uri, mode="ro") as reader:
            before = files(graph.uri)
            assert reader.schema_source == text
            assert files(graph.uri) == before
        with og.open(graph.uri, durability="none") as again:
            assert again.schema_source == text
            assert place.files.read(place.path("_schema.pg")) == text.encode()
        run(graph, f'insert Person {{ slug: "n{len(lagging)}", mail: "m" }}')


def test_a_name_that_moved_to_another_property_reads_that_property(new_graph: NewGraph) -> None:
    graph = new_graph("node Doc { slug: String @key  one: String?  two: String? }")
    row = {"slug": "d", "one": "apple", "two": "cherry"}
    graph.load([{"type": "Doc", "data": row}], mode="append")
    text = 'query q() { match { $d: Doc search($d.one, "cherry") } return { $d.one } }'
    plain = "query q() { match { $d: Doc } return { $d.one } }"
    assert graph.query(text).to_pylist() == []
    assert graph.query(plain).to_pylist() == [{"d.one": "apple"}]
    graph.schema.apply(
        "node Doc { slug: String @key  old: String? @rename_from(one)  two: String? }"
    )
    graph.schema.apply(
        "node Doc { slug: String @key  old: String?  one: String? @rename_from(two) }"
    )
    assert graph.query(text).to_pylist() == [{"d.one": "cherry"}]
    assert graph.query(plain).to_pylist() == [{"d.one": "cherry"}]
