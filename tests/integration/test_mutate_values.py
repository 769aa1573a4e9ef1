"""Values and constraints of mutations: what is stored, what is refused, and in which words."""

from __future__ import annotations

import datetime

import pytest

import omnigraph as og
from omnigraph.rows import convert
from tests.integration.helpers import NewGraph, edge, files, load, messages, node, rows, run

VALUES = """\
node Value {
    name: String @key
    kind: enum(red, green)?
    flag: Bool?
    i32: I32?
    i64: I64?
    u32: U32?
    u64: U64?
    f32: F32?
    f64: F64?
    day: Date?
    moment: DateTime?
    vector: Vector(2)?
    blob: Blob?
    texts: [String]?
    numbers: [I64]?
    days: [Date]?
}
"""

RULES = """\
node Room {
    code: String @key
    level: I32?
    size: F64?
    state: enum(open, shut) @default(open)
    label: String
    host: String?
    slot: I32?
    opened: Date? @unique
    @unique(host, slot)
    @range(level, 0..10)
    @range(size, 0.5..)
    @check(label, "^[a-z]+$")
}
edge Next: Room -> Room @card(0..1) {
    kind: enum(door, hall)?
}
"""

NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture
def values(new_graph: NewGraph) -> og.Graph:
    return new_graph(VALUES)


@pytest.fixture
def rooms(new_graph: NewGraph) -> og.Graph:
    return new_graph(RULES)


# ---- values -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "kind", "given", "stored"),
    [
        ("kind", "String", "red", "red"),
        ("flag", "Bool", False, False),
        ("i32", "I32", -(2**31), -(2**31)),
        ("i64", "I64", 2**63 - 1, 2**63 - 1),
        ("i64", "I64", "-9223372036854775808", -(2**63)),
        ("u32", "U32", 2**32 - 1, 2**32 - 1),
        ("u64", "U64", 2**63 - 1, 2**63 - 1),
        ("f32", "F32", 0.1, 0.10000000149011612),
        ("f64", "F64", 0.1, 0.1),
        ("day", "Date", "2025-03-01", 20148),
        ("day", "Date", datetime.date(2025, 3, 1), 20148),
        ("moment", "DateTime", "2025-03-01T01:00:00.1239+01:00", 1740787200123),
        ("moment", "DateTime", datetime.datetime(1969, 12, 31, tzinfo=datetime.UTC), -86400000),
        ("vector", "Vector(2)", [1, 0.5], [1.0, 0.5]),
        ("blob", "Blob", "base64:AAH/", "base64:AAH/"),
        ("blob", "String", "base64:", "base64:"),
        ("texts", "[String]", ["a", "", "é"], ["a", "", "é"]),
        ("texts", "[String]", [], []),
        ("numbers", "[I64]", [2**63 - 1], [2**63 - 1]),
        ("days", "[Date]", ["2025-03-01"], [20148]),
        # A number of another width is taken when its value fits.
        ("f64", "I64", 3, 3.0),
        ("f32", "I32", 3, 3.0),
        ("i32", "F64", 3.0, 3),
        ("i64", "F64", -0.0, 0),
        ("u32", "I64", 7, 7),
        ("i32", "I64", -7, -7),
    ],
)
def test_a_value_is_stored_exactly(
    values: og.Graph, field: str, kind: str, given: object, stored: object
) -> None:
    run(values, f'insert Value {{ name: "a", {field}: $x }}', x=(kind, given))
    assert rows(values, "Value")["a"][field] == stored
    run(values, f'update Value set {{ {field}: null }} where name = "a"')
    assert rows(values, "Value") == {"a": {"name": "a"}}
    run(values, f'upsert Value {{ name: "a", {field}: $x }}', x=(kind, given))
    run(values, 'upsert Value { name: "a", flag: true }')
    assert rows(values, "Value")["a"][field] in (stored, True)


def test_now_is_one_instant_per_mutation(values: og.Graph) -> None:
    run(values, 'insert Value {name: "a", moment: now()} insert Value {name: "b", moment: now()}')
    found = rows(values, "Value")
    assert found["a"]["moment"] == found["b"]["moment"]
    assert found["a"]["moment"] >= int(NOW.timestamp() * 1000)


@pytest.mark.parametrize(
    ("field", "kind", "given", "message"),
    [
        ("i32", "F64", 3.5, "Value.i32: cannot convert 3.5 to I32 without loss"),
        ("i32", "I64", 2**31, "Value.i32: value 2147483648 exceeds I32"),
        ("u32", "I64", -1, "Value.u32: value -1 exceeds U32"),
        ("i64", "F64", 1e300, "Value.i64: value 1"),
        ("f32", "F64", 1e39, "Value.f32: value 1e+39 exceeds F32"),
        ("blob", "Blob", "base64:!", "Value.blob: not valid base64"),
        ("blob", "Blob", "s3://bucket/x", "Value.blob: external blob 's3://bucket/x' is not"),
        ("kind", "String", "pink", "invalid enum value 'pink' for Value.kind (expected: green"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(
    values: og.Graph, field: str, kind: str, given: object, message: str
) -> None:
    before = files(values.uri)
    with pytest.raises(og.DataError) as refused:
        run(values, f'insert Value {{ name: "a", {field}: $x }}', x=(kind, given))
    assert refused.value.message.startswith(message)
    assert refused.value.problems[0]["field"] == field
    assert refused.value.problems[0]["type"] == "Value"
    assert files(values.uri) == before


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("I32", 2**31),
        ("I32", "1.5"),
        ("U32", -1),
        ("F64", float("nan")),
        ("F64", float("inf")),
        ("[F32]", [1e39]),
        ("Vector(2)", [1.0]),
        ("Vector(2)", [1.0, None]),
        ("Date", "2025-02-30"),
        ("DateTime", "yesterday"),
        ("String", 1),
        ("Bool", 1),
        ("[String]", ["a", None]),
    ],
)
def test_a_parameter_of_the_wrong_type_is_refused(
    values: og.Graph, kind: str, given: object
) -> None:
    with pytest.raises(og.BadRequestError, match="parameter 'x'"):
        run(values, "update Value set { flag: true } where $x is not null", x=(kind, given))


def test_an_infinite_result_is_refused_for_an_integer(values: og.Graph) -> None:
    with pytest.raises(og.OmniGraphError):
        run(values, 'insert Value { name: "a", i32: $x * 10.0 }', x=("F64", 1e308))


def test_an_infinite_result_is_refused_for_a_float(values: og.Graph) -> None:
    with pytest.raises(og.DataError, match="finite number"):
        run(values, 'insert Value { name: "a", f64: $x * 10.0 }', x=("F64", 1e308))


@pytest.mark.parametrize("given", [{"day": 10_000_000}, {"moment": 10**15}])
def test_upsert_keeps_a_date_after_the_year_9999(
    values: og.Graph, given: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(convert, "check_days", int)
        older.setattr(convert, "check_millis", int)
        load(values, [node("Value", name="a", **given)])
    run(values, 'upsert Value { name: "a", flag: true }')
    assert rows(values, "Value")["a"] == {"name": "a", "flag": True, **given}


def test_an_update_keeps_blobs_vectors_and_lists_it_does_not_set(values: og.Graph) -> None:
    kept = {"blob": "base64:AAH/", "vector": [1.0, 2.0], "texts": ["a"], "u64": 2**64 - 1}
    load(values, [node("Value", name="a", **kept), node("Value", name="b", blob="base64:")])
    run(values, "update Value set { flag: true } where true = true")
    found = rows(values, "Value")
    assert found["a"] == {"name": "a", "flag": True, **kept}
    assert found["b"] == {"name": "b", "flag": True, "blob": "base64:"}


# ---- constraints --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "field", "message"),
    [
        ({"level": 11}, "level", "@range violation on Room.level: value 11 > max 10"),
        ({"level": -1}, "level", "@range violation on Room.level: value -1 < min 0"),
        ({"size": 0.25}, "size", "@range violation on Room.size: value 0.25 < min 0.5"),
        (
            {"label": "A1"},
            "label",
            "@check violation on Room.label: value 'A1' does not match pattern '^[a-z]+$'",
        ),
    ],
)
def test_a_broken_rule_is_named_on_every_path(
    rooms: og.Graph, data: dict[str, object], field: str, message: str
) -> None:
    load(rooms, [node("Room", code="r", label="ok")])
    ((name, value),) = data.items()
    kind = {"level": "I32", "size": "F64", "label": "String"}[name]
    label = "" if name == "label" else 'label: "x", '
    before = files(rooms.uri)
    for body in (
        f'insert Room {{ code: "n", {label}{name}: $x }}',
        f'update Room set {{ {name}: $x }} where code = "r"',
        f'upsert Room {{ code: "r", {name}: $x }}',
    ):
        with pytest.raises(og.DataError) as refused:
            run(rooms, body, x=(kind, value))
        assert messages(refused.value) == [message]
        assert refused.value.problems[0]["field"] == field
    assert files(rooms.uri) == before


def test_bounds_are_inclusive_and_null_is_exempt(rooms: og.Graph) -> None:
    load(
        rooms,
        [
            node("Room", code="a", label="x", level=0, size=0.5),
            node("Room", code="b", label="x", level=10),
        ],
    )
    assert set(rows(rooms, "Room")) == {"a", "b"}


def test_an_enum_value_of_an_edge_is_checked(rooms: og.Graph) -> None:
    load(rooms, [node("Room", code="a", label="x")])
    with pytest.raises(og.DataError) as refused:
        run(rooms, 'insert Next { from: "a", to: "a", kind: $k }', k=("String", "roof"))
    assert refused.value.message == (
        "invalid enum value 'roof' for Next.kind (expected: door, hall)"
    )


def test_a_unique_value_held_by_a_stored_row_is_refused(rooms: og.Graph) -> None:
    load(rooms, [node("Room", code="a", label="x", opened="2025-03-01")])
    with pytest.raises(og.DataError) as refused:
        run(rooms, 'insert Room { code: "b", label: "x", opened: date("2025-03-01") }')
    assert refused.value.message.startswith("@unique violation on Room.opened: value '")
    assert refused.value.message.endswith("held by 'a' and 'b'")


def test_a_unique_value_twice_in_one_mutation_is_refused(graph: og.Graph) -> None:
    with pytest.raises(og.DataError) as refused:
        run(graph, 'insert Person {name: "a", mail: "m"} insert Person {name: "b", mail: "m"}')
    assert refused.value.message == (
        "@unique violation on Person.mail: value 'm' held by 'a' and 'b'"
    )


def test_composite_uniqueness_compares_tuples_not_joined_text(rooms: og.Graph) -> None:
    load(
        rooms,
        [
            node("Room", code="a", label="x", host="h,1", slot=1),
            node("Room", code="b", label="x", host="h", slot=11),
            node("Room", code="c", label="x", host="h", slot=1),
            node("Room", code="d", label="x", host="h"),
            node("Room", code="e", label="x", host="h"),
        ],
    )
    with pytest.raises(og.DataError) as refused:
        run(rooms, 'insert Room { code: "z", label: "x", host: "h", slot: 11 }')
    assert refused.value.message == (
        "@unique violation on Room.(host, slot): value '(h, 11)' held by 'b' and 'z'"
    )


def test_a_value_may_be_freed_and_used_again_in_one_mutation(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a", mail="m"), node("Person", name="b", mail="n")])
    run(
        graph,
        """update Person set { mail: "o" } where name = "a"
        insert Person { name: "c", mail: "m" }""",
    )
    run(
        graph,
        """update Person set { mail: "x" } where name = "b"
        update Person set { mail: "n" } where name = "c"
        update Person set { mail: "m" } where name = "b\"""",
    )
    found = {name: row["mail"] for name, row in rows(graph, "Person").items()}
    assert found == {"a": "o", "b": "m", "c": "n"}


def test_two_rows_swap_unique_values_in_one_mutation(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a", mail="m"), node("Person", name="b", mail="n")])
    run(graph, 'upsert Person { name: "a", mail: "n" } upsert Person { name: "b", mail: "m" }')
    assert rows(graph, "Person")["a"]["mail"] == "n"


def test_a_second_edge_between_a_pair_is_refused(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a"), edge("Knows", "a", "a", id="e")])
    with pytest.raises(og.DataError, match=r"@unique violation on Knows\.\(dst, src\)"):
        run(graph, 'insert Knows { id: "f", from: "a", to: "a" }')


def test_more_edges_than_the_maximum_are_refused(rooms: og.Graph) -> None:
    load(
        rooms,
        [node("Room", code=c, label="x") for c in "abc"] + [edge("Next", "a", "b")],
    )
    with pytest.raises(og.DataError) as refused:
        run(rooms, 'insert Next { from: "a", to: "c" }')
    assert refused.value.message == ("@card violation on edge Next: source 'a' has 2 edges (max 1)")
    assert refused.value.problems == (
        {
            "type": "Next",
            "id": "a",
            "field": "from",
            "message": "@card violation on edge Next: source 'a' has 2 edges (max 1)",
        },
    )


def test_both_missing_ends_of_an_edge_are_reported(graph: og.Graph) -> None:
    with pytest.raises(og.DataError) as refused:
        run(graph, 'insert Knows { id: "e", from: "x", to: "y" }')
    assert refused.value.problems == (
        {
            "type": "Knows",
            "id": "e",
            "field": "from",
            "message": "Knows: src 'x' not found in Person",
        },
        {
            "type": "Knows",
            "id": "e",
            "field": "to",
            "message": "Knows: dst 'y' not found in Person",
        },
    )


def test_a_required_property_cannot_become_null(graph: og.Graph) -> None:
    load(graph, [node("Paper", id="x", title="t")])
    with pytest.raises(og.DataError, match="missing required property 'title'"):
        run(graph, 'update Paper set { title: $t } where id = "x"', t=("String?", None))
    with pytest.raises(og.DataError, match="key property 'name' must not be null"):
        run(graph, "insert Person { name: $n }", n=("String?", None))


def test_several_problems_of_one_mutation_are_reported_together(rooms: og.Graph) -> None:
    with pytest.raises(og.DataError) as refused:
        run(
            rooms,
            """insert Room { code: "a", label: "A", level: 99 }
            insert Next { from: "a", to: "b" }""",
        )
    assert len(refused.value.problems) == 3
    assert refused.value.message.count("\n") == 2
