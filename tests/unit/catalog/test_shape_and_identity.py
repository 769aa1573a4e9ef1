"""What the shape hash sees, which numbers identities get, and what temporal text means."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from itertools import permutations

import pytest
from msgspec.structs import astuple

from omnigraph.catalog import (
    AcceptedSchema,
    Annotation,
    TypeKind,
    accept_initial,
    shape_hash,
)
from omnigraph.catalog.accepted import IR_VERSION, identities_from_json
from omnigraph.catalog.identity import Identities, Origins, TypeIdentity, differences
from omnigraph.catalog.temporal import parse_date, parse_datetime
from omnigraph.lang.schema import compile_schema

DOMAIN = "01JABCDEFGHJKMNPQRSTVWXYZ0"

BASE = """
interface Stamped { created: DateTime @index  updated: DateTime? }
interface Named { name: String }
node Person @description("a human") implements Named, Stamped {
    email: String @key
    age: I32?
    mood: enum(good, bad) @default(good)
    bio: String?
    face: Vector(4)? @embed(bio, model="m") @index
    @range(age, 0..150)
    @check(email, "@")
    @unique(name, age)
}
node City { name: String @unique  area: F64  @key(name) }
edge LivesIn: Person -> City @card(0..1) { since: Date?  @unique(src, dst) }
edge Knows: Person -> Person @instruction("ask first")
"""


def digest(text: str) -> str:
    return shape_hash(compile_schema(text).catalog)


def changed(old: str, new: str) -> str:
    assert BASE.count(old) == 1, f"{old!r} must occur once"
    return digest(BASE.replace(old, new))


def accepted(text: str) -> AcceptedSchema:
    return accept_initial(compile_schema(text).catalog, domain=DOMAIN)


def test_the_hash_names_its_algorithm() -> None:
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", digest(BASE))
    assert digest("") == digest("// nothing")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("node City", "/* comment */ node City // another\n"),
        ("age: I32?\n", "\n\n age :\tI32 ?\r\n"),
        ("Named, Stamped", "Stamped, Named, Stamped"),
        ("enum(good, bad)", "enum(bad, good)"),
        ("@embed(bio, model", '@embed("bio", model'),
        ('@embed(bio, model="m") @index', '@index @embed(bio, model="m")'),
        ("@unique(name, age)", "@unique(age, name, age)"),
        ("@unique(name, age)", "@unique(name, age) @unique(age, name)"),
        ("@unique(src, dst)", "@unique(dst, src)"),
        ("email: String @key", "email: String @key(email)"),
        ("name: String @unique  area", "name: String @unique(name)  area"),
        ("name: String @unique  area", "name: String @unique @unique(name)  area"),
        ('model="m") @index', 'model="m") @index(face)'),
        ("@default(good)", '@default("good")'),
        ("age: I32?", 'age: I32? @rename_from("years")'),
        ("edge Knows:", "edge Knows:\n"),
        ("Person -> Person @instruction", 'Person -> Person @rename_from("K") @instruction'),
        ("node City {", 'node City @rename_from("Town") {'),
        ("created: DateTime @index", 'created: DateTime @rename_from("made") @index'),
        ("Person -> Person @instruction", "Person -> Person @card(0..) @instruction"),
        ('@instruction("ask first")', '@instruction("ask first") {}'),
        ("since: Date?  @unique(src, dst)", "@unique(src, dst),  since: Date?,"),
        (
            'node Person @description("a human") implements Named, Stamped {',
            'node Person implements Named, Stamped @description("a human") {',
        ),
        ("@range(age, 0..150)", "@range(age, 0..150) @range(age, 0..150)"),
        ("@range(age, 0..150)", "@range(age, 0.0..150)"),
        ("@range(age, 0..150)", "@range(age, -0.0..150.00) @range(age, 0..150)"),
    ],
)
def test_the_hash_ignores_how_a_schema_is_written(old: str, new: str) -> None:
    assert changed(old, new) == digest(BASE)


def test_the_hash_ignores_the_order_of_declarations() -> None:
    parts = re.split(r"\n(?=interface|node|edge)", BASE.strip())
    assert len(parts) == 6
    assert digest("\n".join(reversed(parts))) == digest(BASE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("age: I32?", "years: I32? age: I32?"),
        ("area: F64", "size: F64"),
        ("area: F64", "area: F32"),
        ("area: F64", "area: F64?"),
        ("area: F64", "area: [F64]"),
        ("area: F64", "area: F64 @index"),
        ("area: F64", "area: F64 @unique"),
        ("area: F64", 'area: F64 @description("km2")'),
        ("area: F64", "area: F64 @default(1)"),
        ("area: F64", "area: F64 @unit"),
        ("enum(good, bad)", "enum(good, bad, mixed)"),
        ("@default(good)", "@default(bad)"),
        (" @default(good)", ""),
        ("Vector(4)", "Vector(5)"),
        ('@embed(bio, model="m")', "@embed(bio)"),
        ('@embed(bio, model="m")', '@embed(email, model="m")'),
        ('model="m"', 'model="n"'),
        ('model="m") @index', 'model="m")'),
        ("@range(age, 0..150)", "@range(age, 0..151)"),
        ("@range(age, 0..150)", "@range(age, 0..150.5)"),
        ("updated: DateTime?", "updated: DateTime? @index"),
        ("updated: DateTime?", "updated: DateTime? @unique"),
        ("@range(age, 0..150)", "@range(age, 0..)"),
        ("@range(age, 0..150)", ""),
        ('@check(email, "@")', '@check(email, "@.")'),
        ('@check(email, "@")', '@check(bio, "@")'),
        ("@unique(name, age)", "@unique(name)"),
        ("@unique(name, age)", "@index(name, age)"),
        ("email: String @key", "email: String @unique"),
        ("@key(name)", "@key(name, area)"),
        ("Named, Stamped", "Named"),
        ("implements Named, Stamped {", "implements Named, Stamped { name: String "),
        ("updated: DateTime?", "updated: DateTime? note: String?"),
        ("{ created: DateTime @index", "{ created: DateTime"),
        ("@card(0..1)", "@card(1..1)"),
        (" @card(0..1)", ""),
        ("LivesIn: Person -> City", "LivesIn: City -> Person"),
        ("LivesIn: Person -> City", "Inhabits: Person -> City"),
        ("since: Date?", "since: DateTime?"),
        ("@unique(src, dst)", "@unique(src)"),
        ("@unique(src, dst)", ""),
        ('"a human"', '"a person"'),
        (' @description("a human")', ""),
        ("ask first", "ask later"),
        ("edge Knows", "node Extra {} edge Knows"),
        ("edge Knows", "interface Extra {} edge Knows"),
        ("edge Knows", "edge Extra: City -> City edge Knows"),
        ("node City {", "node City @foo {"),
        ("node City {", 'node City @foo("1") {'),
    ],
)
def test_the_hash_sees_every_other_change(old: str, new: str) -> None:
    assert changed(old, new) != digest(BASE)


@pytest.mark.parametrize(
    "texts",
    [
        ["@foo", '@foo("x")', '@foo("x", k="v")', '@foo("x", k="w")', '@foo("x", j="v")'],
        ["@foo(1)", "@foo(1.0)", "@foo(01)", "@foo(true)"],
        ["@foo @foo", "@foo", "@foo @bar"],
    ],
)
def test_the_hash_sees_unknown_annotations_as_spelled(texts: list[str]) -> None:
    assert len({digest(f"node A {{ a: String {text} }}") for text in texts}) == len(texts)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (
            'node A @foo(1) @bar @description("d") { a: String @foo(2) @foo(1, k="v", j="w") }',
            'node A @bar @description("d") @foo(1) { a: String @foo(1, j="w", k="v") @foo(2) }',
        ),
        ("node A @foo(1, a=1) @foo(1, b=2) {}", "node A @foo(1, b=2) @foo(1, a=1) {}"),
        ('node A @foo @foo("") @foo("", k=1) {}', 'node A @foo("", k=1) @foo("") @foo {}'),
        (
            "node A {} edge E: A -> A @foo(1, a=1) @foo(1) { w: I32 @x(1, b=2) @x(1, a=3) }",
            "node A {} edge E: A -> A @foo(1) @foo(1, a=1) { w: I32 @x(1, a=3) @x(1, b=2) }",
        ),
    ],
)
def test_the_hash_ignores_the_order_of_annotations(one: str, two: str) -> None:
    assert digest(one) == digest(two)
    assert compile_schema(one).catalog == compile_schema(two).catalog


@pytest.mark.parametrize(
    "members",
    [
        ["x: F64", "@range(x, 0..1)", "@range(x, 0.0..1.0)"],
        ["x: F64", "@range(x, 0..)", "@range(x, ..1)", "@range(x, 0..1)", "@range(x, 0.5..)"],
        ["x: F64", "@range(x, 1.0..)", "@range(x, 1..)", "@range(x, -0.0..)", "@range(x, 0..)"],
        ["x: F64", "@range(x, 18446744073709551616.0..)", "@range(x, ..18446744073709551615)"],
    ],
)
def test_the_hash_ignores_the_order_of_members(members: list[str]) -> None:
    hashes = {digest(f"node A {{ {' '.join(order)} }}") for order in permutations(members)}
    assert len(hashes) == 1


def test_whole_bounds_are_integers_where_an_integer_can_be_written() -> None:
    text = "node A { x: F64 @range(x, -5.0..18446744073709551616.0) @range(x, 0.5..9.0) }"
    bounds = [(item.low, item.high) for item in compile_schema(text).catalog.nodes["A"].ranges]
    assert [repr(pair) for pair in bounds] == ["(-5, 1.8446744073709552e+19)", "(0.5, 9)"]


def test_the_hash_ignores_the_order_of_interfaces_that_spell_a_default_differently() -> None:
    text = (
        "interface I { x: F64 @default(0) } interface J { x: F64 @default(-0.0) } "
        "interface K { x: [F32] @default([0.0]) } node A implements %s {}"
    )
    assert digest(text % "I, J") == digest(text % "J, I")


def test_an_interface_keeps_the_constraints_of_its_properties() -> None:
    text = "interface I { a: I32 @unique @index b: I32 @key c: I32 } node N { a: I32 @index }"
    catalog = compile_schema(text).catalog
    assert catalog.interfaces["I"].flags == {"a": ("index", "unique"), "b": ("key",)}
    shape = json.loads(accept_initial(catalog, domain=DOMAIN).ir_text())["shape"]
    (interface,) = shape["interfaces"]
    assert [item.get("constraints") for item in interface["properties"]] == [
        ["index", "unique"],
        ["key"],
        None,
    ]
    # A node has no such thing: both spellings of a constraint are one there.
    assert "constraints" not in shape["nodes"][0]["properties"][0]


def test_unknown_annotations_are_kept_as_spelled() -> None:
    text = 'node A @a @b("x\\n") @c(1.50) @d(word) @e(Type, k="v", b=true, n=007) {}'
    assert compile_schema(text).catalog.nodes["A"].annotations == (
        Annotation(name="a"),
        Annotation(name="b", value="x\n"),
        Annotation(name="c", value="1.50"),
        Annotation(name="d", value="word"),
        Annotation(name="e", value="Type", arguments=(("b", "true"), ("k", "v"), ("n", "007"))),
    )


def test_layout_is_no_part_of_an_annotation() -> None:
    text = 'node A @a([ 1,02 /* c */, - 3.50,\n[ ], x, null, "b\\n", ]) @b(- 5, k=[true,]) {}'
    assert compile_schema(text).catalog.nodes["A"].annotations == (
        Annotation(name="a", value='[1, 02, -3.50, [], x, null, "b\\n"]'),
        Annotation(name="b", value="-5", arguments=(("k", "[true]"),)),
    )


def test_equal_shapes_are_equal_catalogs() -> None:
    one = compile_schema("node A { b: I32 a: I32 @unique(b, a) @index(b) }").catalog
    two = compile_schema("node A { a: I32 b: I32 @index @unique(a, b) }").catalog
    assert one == two


def test_identities_are_given_to_types_then_properties_then_tables() -> None:
    found = accepted(
        """
        edge Y: B -> A { w: I32 v: I32 }
        node B { z: String a: String }
        node A implements J, I {}
        interface J { j: String }
        interface I { i: String }
        edge X: A -> B
        """
    ).identities
    assert [astuple(item) for item in found.by_number()] == [
        (TypeKind.INTERFACE, "I", 1, None, {"i": 7}),
        (TypeKind.INTERFACE, "J", 2, None, {"j": 8}),
        (TypeKind.NODE, "A", 3, 15, {"i": 9, "j": 10}),
        (TypeKind.NODE, "B", 4, 16, {"a": 11, "z": 12}),
        (TypeKind.EDGE, "X", 5, 17, {}),
        (TypeKind.EDGE, "Y", 6, 18, {"v": 13, "w": 14}),
    ]
    assert found.next_identity_id == 19


def test_an_empty_schema_takes_no_identity() -> None:
    assert accepted("").identities == Identities(next_identity_id=1)


def test_identities_do_not_depend_on_source_order() -> None:
    one = accepted("node A { a: I32 b: I32 } node B {} edge E: A -> B")
    two = accepted("edge E: A -> B node B {} node A { b: I32 a: I32 }")
    assert one.identities == two.identities
    assert one.ir_text() == two.ir_text()
    assert one.ir_hash() == two.ir_hash()


def test_a_declaration_that_continues_keeps_its_identity() -> None:
    schema = accepted("node A { a: I32 b: I32 } node B {}")
    before = schema.identities.of(TypeKind.NODE, "A")
    after = schema.succeeded_by(
        catalog := compile_schema("node C { b: I32 z: I32 } node D {}").catalog,
        differences(schema.catalog, catalog),
        Origins(types={(TypeKind.NODE, "C"): "A"}, properties={(TypeKind.NODE, "C", "z"): "a"}),
    ).identities
    assert schema.identities.next_identity_id == 7
    # D, then C.b (dropped and declared anew), then the table of D.
    assert [astuple(item) for item in after.by_number()] == [
        (TypeKind.NODE, "C", 1, before.incarnation, {"b": 8, "z": before.properties["a"]}),
        (TypeKind.NODE, "D", 7, 9, {}),
    ]
    assert after.next_identity_id == 10


def test_a_type_that_does_not_change_keeps_its_identity_as_the_same_value() -> None:
    schema = accepted("interface I { i: I32 } node A { a: I32 } node B {} edge E: A -> A")
    catalog = compile_schema("interface I { i: I32 } node A { a: I32 b: I32? } edge E: A -> A")
    differ = differences(schema.catalog, catalog.catalog)
    assert differ.changed == ((TypeKind.NODE, "A"),)
    assert differ.gone == ((TypeKind.NODE, "B"),)
    same = Origins(types={(TypeKind.NODE, "A"): "A"}, properties={(TypeKind.NODE, "A", "a"): "a"})
    after = schema.succeeded_by(catalog.catalog, differ, same).identities
    for name in ((TypeKind.INTERFACE, "I"), (TypeKind.EDGE, "E")):
        assert after.types[name] is schema.identities.types[name]
    assert (TypeKind.NODE, "B") not in after.types


def test_a_type_with_a_hint_counts_as_changed() -> None:
    text = 'node A @rename_from("Z") {} node B { b: I32 @rename_from("a") } node C {}'
    schema = accepted(text)
    found = differences(schema.catalog, schema.catalog)
    assert found.changed == ((TypeKind.NODE, "A"), (TypeKind.NODE, "B"))


def test_a_number_is_never_given_twice() -> None:
    full = accepted("node A { a: I32 } node B { b: I32 }")
    nothing, one = compile_schema("").catalog, compile_schema("node A { a: I32 }").catalog
    empty = full.succeeded_by(nothing, differences(full.catalog, nothing), Origins())
    again = empty.succeeded_by(one, differences(nothing, one), Origins())
    assert empty.identities.next_identity_id == full.identities.next_identity_id
    assert not empty.identities.types
    assert min(again.identities.spent()) == full.identities.next_identity_id


def test_tables_are_named_by_type_and_incarnation() -> None:
    schema = accepted("node A { a: I32 } edge E: A -> A")
    assert schema.table_identity(TypeKind.NODE, "A") == (1, 4)
    assert schema.table_identity(TypeKind.EDGE, "E") == (2, 5)


def test_composite_keys_are_ordered_by_property_identity() -> None:
    schema = accepted("node A { b: I32 a: I32 c: I32 @key(c, a, b) }")
    assert schema.key_order(schema.catalog.nodes["A"]) == ("a", "b", "c")
    renamed = AcceptedSchema(
        domain=DOMAIN,
        catalog=compile_schema("node A { z: I32 b: I32 c: I32 @key(z, b, c) }").catalog,
        identities=Identities(
            next_identity_id=6,
            types={
                (TypeKind.NODE, "A"): TypeIdentity(
                    kind=TypeKind.NODE,
                    name="A",
                    type_id=1,
                    incarnation=5,
                    properties={"z": 2, "b": 3, "c": 4},
                )
            },
        ),
    )
    assert renamed.key_order(renamed.catalog.nodes["A"]) == ("z", "b", "c")


def test_the_durable_form_round_trips() -> None:
    schema = accepted(BASE)
    found = json.loads(schema.ir_text())
    assert found["ir_version"] == IR_VERSION == 2
    assert found["domain"] == DOMAIN
    assert found["shape_hash"] == schema.shape_hash == digest(BASE)
    assert identities_from_json(found) == schema.identities


@pytest.mark.parametrize("text", ["", "node A {}", "interface I {} node A {} edge E: A -> A", BASE])
def test_the_durable_form_is_one_json_text_however_it_was_put_together(text: str) -> None:
    schema = accepted(text + ' node Umlaut @description("Stra\u00dfe \\n\\"x\\"") {}')
    found = json.loads(schema.ir_text())
    assert schema.ir_text() == json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    shape = json.dumps(found["shape"], separators=(",", ":"), ensure_ascii=False)
    assert schema.shape_hash == "sha256:" + hashlib.sha256(shape.encode()).hexdigest()
    assert list(found["shape"]) == ["interfaces", "nodes", "edges"]


def test_the_durable_form_lists_every_declaration_by_identity() -> None:
    found = json.loads(accepted("interface I { i: I32 } node A implements I {}").ir_text())
    assert found["next_identity_id"] == 6
    assert found["identities"] == [
        {
            "kind": "interface",
            "name": "I",
            "type_id": 1,
            "incarnation": None,
            "properties": {"i": 3},
        },
        {"kind": "node", "name": "A", "type_id": 2, "incarnation": 5, "properties": {"i": 4}},
    ]


def test_the_durable_hash_sees_the_domain() -> None:
    catalog = compile_schema(BASE).catalog
    one = accept_initial(catalog, domain="A")
    two = accept_initial(catalog, domain="B")
    assert one.shape_hash == two.shape_hash
    assert one.ir_hash() != two.ir_hash()


@pytest.mark.parametrize(
    "damaged",
    [
        {"identities": {}, "next_identity_id": 1},
        {"identities": [], "next_identity_id": "1"},
    ],
)
def test_a_damaged_durable_form_is_refused(damaged: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must be"):
        identities_from_json(damaged)


def utc(*parts: int, ms: int = 0) -> datetime.datetime:
    year, month, day, hour, minute, second = parts
    return datetime.datetime(year, month, day, hour, minute, second, ms * 1000, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2025-03-01", utc(2025, 3, 1, 0, 0, 0)),
        ("2025-03-01T10:20:30", utc(2025, 3, 1, 10, 20, 30)),
        ("2025-03-01 10:20:30", utc(2025, 3, 1, 10, 20, 30)),
        ("2025-03-01T10:20", utc(2025, 3, 1, 10, 20, 0)),
        ("2025-03-01T10:20:30Z", utc(2025, 3, 1, 10, 20, 30)),
        ("2025-03-01T10:20:30z", utc(2025, 3, 1, 10, 20, 30)),
        ("2025-03-01T10:20Z", utc(2025, 3, 1, 10, 20, 0)),
        ("2025-03-01T10:20:30+00:00", utc(2025, 3, 1, 10, 20, 30)),
        ("2025-03-01T10:20:30-00:00", utc(2025, 3, 1, 10, 20, 30)),
        ("2025-03-01T10:20:30+01:30", utc(2025, 3, 1, 8, 50, 30)),
        ("2025-03-01T10:20:30+0130", utc(2025, 3, 1, 8, 50, 30)),
        ("2025-03-01T20:20:30-05:00", utc(2025, 3, 2, 1, 20, 30)),
        ("2025-01-01T00:00:00+00:01", utc(2024, 12, 31, 23, 59, 0)),
        ("2025-03-01T10:20:30.5", utc(2025, 3, 1, 10, 20, 30, ms=500)),
        ("2025-03-01T10:20:30.05Z", utc(2025, 3, 1, 10, 20, 30, ms=50)),
        ("2025-03-01T10:20:30.123", utc(2025, 3, 1, 10, 20, 30, ms=123)),
        ("2025-03-01T10:20:30.1239999Z", utc(2025, 3, 1, 10, 20, 30, ms=123)),
        ("2025-03-01T10:20:30.999999999+00:00", utc(2025, 3, 1, 10, 20, 30, ms=999)),
        ("1969-12-31T23:59:59.999Z", utc(1969, 12, 31, 23, 59, 59, ms=999)),
        ("0001-01-01T00:00:00Z", utc(1, 1, 1, 0, 0, 0)),
        ("9999-12-31T23:59:59.999Z", utc(9999, 12, 31, 23, 59, 59, ms=999)),
        ("2024-02-29", utc(2024, 2, 29, 0, 0, 0)),
        ("2025-03-01T00:00:00+23:59", utc(2025, 2, 28, 0, 1, 0)),
    ],
)
def test_instants_are_read_in_utc_to_the_millisecond(text: str, value: datetime.datetime) -> None:
    found = parse_datetime(text)
    assert found == value
    assert found.tzinfo is datetime.UTC
    assert parse_date(text) == value.date()
    assert type(parse_date(text)) is datetime.date


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "now",
        "2025",
        "2025-03",
        "2025-3-1",
        "25-03-01",
        "20250301",
        "2025/03/01",
        "01.03.2025",
        "2025-W09-6",
        "2025-060",
        "2025-00-01",
        "2025-13-01",
        "2025-02-29",
        "2025-02-30",
        "2025-04-31",
        "0000-01-01",
        "-2025-03-01",
        "+12025-03-01",
        "2025-03-01T",
        "2025-03-01Z",
        "2025-03-01T10",
        "2025-03-01T10Z",
        "2025-03-01T1020",
        "2025-03-01T24:00:00",
        "2025-03-01T10:60:00",
        "2025-03-01T10:20:60",
        "2025-03-01T10:20:30.",
        "2025-03-01T10:20:30,5",
        "2025-03-01T10:20:30+1",
        "2025-03-01T10:20:30+01",
        "2025-03-01T10:20:30+24:00",
        "2025-03-01T10:20:30+01:60",
        "2025-03-01T10:20:30 Z",
        "2025-03-01T10:20:30 UTC",
        "2025-03-01T10:20:30ZZ",
        "2025-03-01  10:20:30",
        "2025-03-01t10:20:30",
        "2025-03-01_10:20:30",
        " 2025-03-01",
        "2025-03-01 ",
        "2025-03-01\n",
        "2025-03-01T10:20:30\n",
        "\u0662\u0660\u0662\u0665-03-01",
        "2025-03-01T\u06610:20:30",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "1740823230000",
        "2025-03-01T10:20.5",
        "2025-03-01T10:20.5Z",
        "2025-03-01 10:20.123+01:00",
    ],
)
def test_text_that_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_datetime(text)
    with pytest.raises(ValueError, match=r"."):
        parse_date(text)
