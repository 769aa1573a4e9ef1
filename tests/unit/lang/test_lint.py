"""Lint: findings, their order, the JSON report, and what it says about each operation."""

from __future__ import annotations

import json

import pytest

from omnigraph.lang.lint import LintReport, describe_operation, describe_type, lint_queries
from omnigraph.lang.queries import compile_query
from omnigraph.lang.schema import compile_schema
from omnigraph.lang.source import Severity

CATALOG = compile_schema(
    """
    node Person {
        slug: String @key
        name: String
        age: I32?
        rank: U32?
        wins: I64?
        hits: U64?
        rate: F32?
        size: F64?
        active: Bool
        born: Date?
        seen: DateTime?
        mood: enum(glad, sad)?
        tags: [String]?
        marks: [I64]
        vec: Vector(3)? @embed(name)
        photo: Blob?
    }
    node Company { name: String @key  note: String?  code: String? }
    node Doc { text: String  vec: Vector(2) @embed(text) }
    edge Knows: Person -> Person { since: I32? }
    edge WorksAt: Person -> Company
    edge Wrote: Person -> Doc
    edge Cites: Doc -> Doc
    """
).catalog


def lint(*queries: str) -> LintReport:
    return lint_queries("\n".join(queries), CATALOG, name="f.gq")


def found(*queries: str) -> list[tuple[str, str | None, str | None, str | None]]:
    return [
        (item.severity.value, item.code, item.type_name, item.property)
        for item in lint(*queries).findings
    ]


READ = "query read($x: I32) { match { $p: Person { age: $x } } return { $p.name } }"
ADD = "query add($n: String) { insert new Company { name: $n } }"
SET = "query set_note($n: String, $t: String?) { update Company set { note: $t } where name = $n }"
SET_ALL = "query set_all($n: String) { update Company set { note: $n, code: $n } where name = $n }"


# ---- findings -------------------------------------------------------------------------------


def test_a_clean_file_has_no_findings() -> None:
    report = lint(READ, ADD)
    assert report.ok
    assert report.findings == ()
    assert report.to_json()["status"] == "ok"


def test_an_empty_file_is_clean() -> None:
    report = lint("// nothing")
    assert report.ok
    assert report.to_json()["queries_processed"] == 0


def test_a_file_that_does_not_parse_reports_only_that() -> None:
    hardcoded = 'query hard() { insert Company { name: "a" } }'
    report = lint(hardcoded, "query a() { match { } }", "query b( { }")
    assert [item.code for item in report.findings] == ["Q000", "Q000"]
    assert [item.message[:10] for item in report.findings] == ["f.gq:2:21:", "f.gq:3:10:"]
    assert report.queries == ()
    assert [item.position for item in report.parse_errors] == [(2, 21), (3, 10)]
    body = report.to_json()
    assert (body["status"], body["errors"], body["queries_processed"]) == ("error", 2, 0)
    assert body["results"] == []


def test_each_query_is_checked_on_its_own() -> None:
    broken = "query broken() { match { $p: Persn } return { $q.name } }"
    report = lint(broken, READ)
    assert not report.ok
    first, second = report.queries
    assert [item.code for item in first.errors] == ["T1", "T6"]
    assert first.compiled is None
    assert second.errors == ()
    assert second.compiled is not None
    body = first.to_json()
    assert body["status"] == "error"
    assert "operation" not in body
    text = body["error"]
    assert isinstance(text, str)
    assert text.startswith("type error: T1: ")
    assert "type error: T6: " in text
    assert "line 1, column 30" in text
    assert report.to_json()["errors"] == 2


def test_mixed_mutations_are_reported_at_lint_time() -> None:
    mixed = 'query mix($n: String) { insert Company { name: $n } delete Company where name = "a" }'
    (query,) = lint(mixed).queries
    assert [item.code for item in query.errors] == ["D2"]
    assert query.errors[0].message.startswith(
        "mutation 'mix' on the same query mixes inserts/updates and deletes; "
        "split into separate mutations"
    )


def test_a_nullable_property_no_update_sets() -> None:
    report = lint(SET)
    (item,) = report.findings
    assert (item.severity, item.code) == (Severity.WARNING, "L201")
    assert (item.type_name, item.property) == ("Company", "code")
    assert item.message == "Company.code exists in schema but no update query sets it"
    assert item.query_names == ("set_note",)
    assert report.ok


def test_a_property_set_by_any_update_of_the_file_is_fine() -> None:
    assert found(SET, SET_ALL) == []
    assert found(SET_ALL) == []


def test_required_key_and_embedding_properties_are_not_asked_for() -> None:
    update = "query u($n: String) { update Person set { name: $n } where slug = $n }"
    asked = [name for _, _, _, name in found(update)]
    assert asked == [
        "age",
        "born",
        "hits",
        "mood",
        "photo",
        "rank",
        "rate",
        "seen",
        "size",
        "tags",
        "wins",
    ]


def test_inserts_and_edge_updates_ask_for_nothing() -> None:
    edge = "query e($a: String) { update Knows set { since: 3 } where from = $a }"
    upsert = "query up($n: String) { upsert Company { name: $n } }"
    assert found(ADD, edge, upsert) == []


def test_an_insert_that_may_replace_a_node_is_named_with_what_it_resets() -> None:
    first = "query one($n: String) { insert Company { name: $n, note: $n } }"
    second = "query two($n: String) { insert Company { name: $n, note: $n } }"
    whole = "query all($n: String) { insert Company { name: $n, note: $n, code: $n } }"
    (item,) = lint(first, second, whole, ADD).findings
    assert (item.severity, item.code, item.type_name) == (Severity.WARNING, "L204", "Company")
    assert item.query_names == ("one", "two")
    assert "resets code of a node" in item.message


def test_a_mutation_without_parameters_is_hardcoded() -> None:
    report = lint('query wipe() { delete Company where name = "a" }')
    (item,) = report.findings
    assert (item.severity, item.code) == (Severity.WARNING, None)
    assert "wipe" in item.message
    assert "hardcoded mutation" in item.message
    assert report.queries[0].warnings == (item.message,)
    assert "code" in item.to_json()
    # Reads may do without parameters.
    assert found("query all() { match { $p: Person } return { $p.name } }") == []


def test_columns_and_queries_of_one_name() -> None:
    twice = "query read() { match { $p: Person } return { $p.name, $p.slug as x, $p.name } }"
    codes = [item.code for item in lint(READ, twice).findings]
    assert codes == ["L203"]
    assert [error.code for report in lint(twice).queries for error in report.errors] == ["T29"]


def test_findings_are_sorted_by_severity_type_property_and_message() -> None:
    people = "query p($n: I32) { update Person set { age: $n, born: null } where rank = 3 }"
    hard = 'query z() { delete Company where name = "a" }'
    hard_too = 'query y() { delete Company where name = "b" }'
    items = found(people, SET, hard, hard_too)
    assert items[:3] == [
        ("warning", None, None, None),
        ("warning", None, None, None),
        ("warning", "L201", "Company", "code"),
    ]
    assert all(item[2] == "Person" for item in items[3:])
    assert items == sorted(items, key=lambda item: (item[2] or "", item[3] or ""))
    assert [item.query_names for item in lint(hard, hard_too).findings] == [("y",), ("z",)]


# ---- report ---------------------------------------------------------------------------------


def test_the_report_is_plain_json() -> None:
    hard = 'query hard() { insert new Company { name: "a" } }'
    broken = "query broken() { match { $p: Persn } return { 1 } }"
    body = json.loads(json.dumps(lint(READ, hard, broken, SET).to_json()))
    assert {key: body[key] for key in ("status", "query_path", "queries_processed")} == {
        "status": "error",
        "query_path": "f.gq",
        "queries_processed": 4,
    }
    assert (body["errors"], body["warnings"], body["infos"]) == (1, 2, 0)
    assert [(item["name"], item["kind"], item["status"]) for item in body["results"]] == [
        ("read", "read", "ok"),
        ("hard", "mutation", "ok"),
        ("broken", "read", "error"),
        ("set_note", "mutation", "ok"),
    ]
    read, hardcoded, bad, _ = body["results"]
    assert set(read) == {"name", "kind", "status", "operation"}
    assert set(hardcoded) == {"name", "kind", "status", "warnings", "operation"}
    assert set(bad) == {"name", "kind", "status", "error", "diagnostics"}
    assert bad["diagnostics"][0]["line"] == 3
    assert set(read["operation"]) >= {"result", "reads", "writes"}
    assert body["findings"][1] == {
        "severity": "warning",
        "code": "L201",
        "message": "Company.code exists in schema but no update query sets it",
        "type_name": "Company",
        "property": "code",
        "query_names": ["set_note"],
    }


# ---- operations -----------------------------------------------------------------------------


def operation(text: str) -> dict[str, object]:
    return describe_operation(compile_query(text, CATALOG).plan)


def types(text: str, side: str) -> list[tuple[str, str]]:
    listed = operation(text)[side]
    assert isinstance(listed, list)
    return [(item["kind"], item["type_name"]) for item in listed]


def returned(columns: str) -> list[dict[str, object]]:
    clauses = "$p: Person $p $w:knows $f optional { $f worksAt $c }"
    listed = operation(f"query q($x: I32?) {{ match {{ {clauses} }} return {{ {columns} }} }}")
    assert isinstance(listed["result"], list)
    return listed["result"]


@pytest.mark.parametrize(
    ("column", "kind", "nullable"),
    [
        ("$p.name", "string", False),
        ("$p.mood", "string", True),
        ("$p", "string", False),
        ("$c", "string", True),
        ("$c.name", "string", True),
        ("$p.active", "bool", False),
        ("$p.age", "int", True),
        ("$p.rank", "int", True),
        ("$p.wins", "bigint", True),
        ("$p.hits", "bigint", True),
        ("$p.rate", "float", True),
        ("$p.size", "float", True),
        ("$p.born", "date", True),
        ("$p.seen", "datetime", True),
        ("$w.since", "int", True),
        ("$w.from", "string", False),
        ("$x", "int", True),
        ("7", "bigint", False),
        ("now()", "datetime", False),
        ("$p.age + 1", "bigint", True),
        ("$p.age > 1", "bool", True),
        ("$p.age is null", "bool", False),
        ("count($p)", "bigint", False),
        ("sum($p.age)", "bigint", True),
        ("avg($p.age)", "float", True),
        ("max($p.born)", "date", True),
        ('bm25($p.name, "x")', "float", True),
    ],
)
def test_kinds_of_columns(column: str, kind: str, *, nullable: bool) -> None:
    (described,) = returned(f"{column} as c")
    assert described == {"name": "c", "kind": kind, "nullable": nullable}


def test_lists_and_vectors_say_what_they_hold() -> None:
    assert returned("$p.tags, $p.marks, $p.vec, [1.5]") == [
        {"name": "p.tags", "kind": "list", "item_kind": "string", "nullable": True},
        {"name": "p.marks", "kind": "list", "item_kind": "bigint", "nullable": False},
        {"name": "p.vec", "kind": "vector", "vector_dim": 3, "nullable": True},
        {"name": "literal", "kind": "list", "item_kind": "float", "nullable": False},
    ]


def test_columns_have_the_names_of_the_result_and_hidden_ones_are_left_out() -> None:
    text = (
        "query q() { match { $p: Person $p knows $f } "
        "return { $p.name, $p, count($f) } order { max($f.age) } }"
    )
    result = operation(text)["result"]
    assert isinstance(result, list)
    assert [item["name"] for item in result] == ["p.name", "p", "f"]


def test_parameters_are_described_like_columns() -> None:
    text = (
        "query q($a: String, $b: [U32]?, $c: Vector(4), $d: Blob?) "
        "{ match { $p: Person } return { $p.name } }"
    )
    assert operation(text)["parameters"] == [
        {"name": "a", "kind": "string", "nullable": False},
        {"name": "b", "kind": "list", "item_kind": "int", "nullable": True},
        {"name": "c", "kind": "vector", "vector_dim": 4, "nullable": False},
        {"name": "d", "kind": "blob", "nullable": True},
    ]


def test_blobs_have_a_kind_of_their_own() -> None:
    photo = CATALOG.nodes["Person"].properties["photo"].type
    assert describe_type(photo) == {"kind": "blob", "nullable": True}


@pytest.mark.parametrize(
    ("clauses", "nodes", "edges"),
    [
        ("$p: Person", "Person", ""),
        ("$p: Person $c: Company", "Company Person", ""),
        ("$p: Person $p knows $_", "Person", "Knows"),
        ("$p: Person $p worksAt $_", "Company Person", "WorksAt"),
        ("$p: Person not { $p wrote $d $d cites $e }", "Doc Person", "Cites Wrote"),
        ("$p: Person optional { $p worksAt $c }", "Company Person", "WorksAt"),
        ("$p: Person not { $p knows $f not { $f wrote $d } }", "Doc Person", "Knows Wrote"),
    ],
)
def test_a_read_reads_every_type_it_inspects(clauses: str, nodes: str, edges: str) -> None:
    text = f"query q() {{ match {{ {clauses} }} return {{ 1 as one }} }}"
    expected = [("node", name) for name in nodes.split()] + [("edge", n) for n in edges.split()]
    assert types(text, "reads") == expected
    assert types(text, "writes") == []
    assert operation(text)["result"] != []


@pytest.mark.parametrize(
    ("statement", "reads", "writes"),
    [
        ('insert Company { name: "a" }', "Company", "Company"),
        ('upsert Company { name: "a" }', "Company", "Company"),
        ('update Company set { note: "a" } where name = "a"', "Company", "Company"),
        ('delete Company where name = "a"', "Company WorksAt", "Company WorksAt"),
        (
            "delete Person where age = 1",
            "Person Knows WorksAt Wrote",
            "Person Knows WorksAt Wrote",
        ),
        ('delete Doc where text = "a"', "Doc Cites Wrote", "Doc Cites Wrote"),
        ('insert WorksAt { from: "a", to: "b" }', "Company Person WorksAt", "WorksAt"),
        ('insert Knows { from: "a", to: "b" }', "Person Knows", "Knows"),
        ('upsert Knows { id: "i", from: "a", to: "b" }', "Person Knows", "Knows"),
        ("update Knows set { since: 1 } where since = 2", "Knows", "Knows"),
        ('delete Wrote where from = "a"', "Wrote", "Wrote"),
        (
            'delete Wrote where from = "a" delete Company where name = "b"',
            "Company WorksAt Wrote",
            "Company WorksAt Wrote",
        ),
    ],
)
def test_a_mutation_names_what_it_reads_and_writes(statement: str, reads: str, writes: str) -> None:
    text = f"query m() {{ {statement} }}"

    def split(names: str) -> list[tuple[str, str]]:
        return [("node" if n in CATALOG.nodes else "edge", n) for n in names.split()]

    assert types(text, "reads") == split(reads)
    assert types(text, "writes") == split(writes)
    assert operation(text)["result"] == []
