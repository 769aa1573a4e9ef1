from __future__ import annotations

import pytest
from msgspec.structs import replace

from omnigraph.catalog import AcceptedSchema, TypeKind, accept_initial
from omnigraph.catalog.identity import Identities, TypeIdentity
from omnigraph.errors import CompileError, InternalError
from omnigraph.lang.schema import compile_schema
from omnigraph.lang.schema_plan import SchemaPlan, plan_schema
from omnigraph.lang.schema_resolve import inert_hints
from omnigraph.lang.schema_steps import LINT_CODES, Tier, UnsupportedChange
from omnigraph.lang.source import Severity

DOMAIN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
A = TypeIdentity(kind=TypeKind.NODE, name="A", type_id=1, incarnation=3, properties={"x": 2})
SOUND = Identities(next_identity_id=4, types={(TypeKind.NODE, "A"): A})


def accept(text: str) -> AcceptedSchema:
    return accept_initial(compile_schema(text).catalog, domain=DOMAIN)


def evolve(before: AcceptedSchema, after: str) -> SchemaPlan:
    return plan_schema(before, compile_schema(after).catalog)


def plan(before: str, after: str, *, allow_data_loss: bool = False) -> SchemaPlan:
    return plan_schema(
        accept(before), compile_schema(after).catalog, allow_data_loss=allow_data_loss
    )


def steps(before: str, after: str) -> list[dict[str, object]]:
    found = plan(before, after)
    assert found.supported, found.render()
    return [step.to_json() for step in found.steps]


def refusals(before: str, after: str) -> list[UnsupportedChange]:
    found = plan(before, after)
    assert not found.supported
    return [step for step in found.steps if isinstance(step, UnsupportedChange)]


def refusal(before: str, after: str) -> UnsupportedChange:
    found = refusals(before, after)
    assert len(found) == 1, [item.render() for item in found]
    return found[0]


class TestPlan:
    def test_the_same_schema_needs_no_steps(self) -> None:
        text = "node A { x: String @key }\nedge E: A -> A"
        found = plan(text, text)
        assert found.supported
        assert found.is_empty
        assert found.refusal is None
        assert found.to_json() == {"supported": True, "steps": [], "notes": []}
        assert found.render() == "supported: yes\nno changes"

    def test_order_comments_and_constraint_form_do_not_count(self) -> None:
        before = "node A { x: String @unique  y: I32 @index  e: enum(a, b) }  node B {}"
        after = """
            node B {} // moved
            node A { y: I32  e: enum(b, a)  x: String  @unique(x)  @index(y) }
        """
        assert plan(before, after).is_empty
        assert plan(after, before).is_empty

    def test_equal_bounds_in_another_spelling_are_no_change(self) -> None:
        before = "node A { x: F64?  @range(x, 0..1) }"
        assert plan(before, before.replace("0..1", "0.0..1.0")).is_empty
        assert plan(before, before.replace("0..1", "-0.0..01")).is_empty
        changed = plan(before, before.replace("0..1", "0..1.5")).steps[0].render()
        assert changed == "drop constraint @range(x, 0..1) on node 'A'"

    def test_equal_annotations_in_another_layout_are_no_change(self) -> None:
        before = "node A { x: I32 @foo([1, -2], k=-5) }"
        assert plan(before, before.replace("[1, -2], k=-5", "[ 1,- 2, ],k= - 5 /* c */")).is_empty

    def test_render_gives_one_line_per_step_and_note(self) -> None:
        found = plan(
            "node A { x: I32? }",
            'node A { x: I32? @rename_from("w")  y: I32? }\nnode B {}',
        )
        assert found.render().split("\n") == [
            "supported: yes",
            "add property 'A.y' (I32?) on node 'A'",
            "add node type 'B'",
            "note: node:A.x: @rename_from(\"w\") is ignored: 'x' already exists",
        ]

    def test_an_unsupported_plan_says_so_and_names_the_first_refusal(self) -> None:
        found = plan("node A { x: I64 }", "node A { x: I32  y: I32 }")
        assert found.render().startswith("supported: no\nunsupported change on node:A.x [OG-MF-106")
        assert found.refusal is not None
        assert found.refusal.message.startswith("[OG-MF-106] changing the type of 'A.x'")
        assert found.to_json()["supported"] is False

    def test_steps_come_by_kind_then_desired_name_with_drops_last(self) -> None:
        before = """
            interface I { i: I32? }
            node A { a: I32?  gone: I32?  name: String }
            node Dropped {}
            node Old {}
            edge E: A -> A { x: I32?  out: I32? }
            edge Lost: A -> A
        """
        after = """
            edge E: A -> A { x: I32? @index }
            edge F: A -> New
            node New @rename_from("Old") @description("new") { n: I32? @index }
            node A @description("a") { b: I32? @rename_from("a")  name: String @index  z: I32? }
            interface I { i: I32?  j: I32? }
            interface J {}
        """
        assert [step.render() for step in plan(before, after).steps] == [
            "add property 'I.j' (I32?) on interface 'I'",
            "add interface type 'J'",
            "update metadata of node type 'A'",
            "rename property 'A.a' -> 'A.b' on node 'A'",
            "add property 'A.z' (I32?) on node 'A'",
            "add constraint @index(name) on node 'A'",
            "drop property 'A.gone' (soft mode) on node 'A'",
            "rename node type 'Old' -> 'New'",
            "update metadata of node type 'New'",
            "add property 'New.n' (I32?) on node 'New'",
            "add constraint @index(n) on node 'New'",
            "drop node type 'Dropped' (soft mode)",
            "add constraint @index(x) on edge 'E'",
            "drop property 'E.out' (soft mode) on edge 'E'",
            "add edge type 'F'",
            "drop edge type 'Lost' (soft mode)",
        ]

    def test_a_difference_without_a_step_is_refused_not_ignored(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("omnigraph.lang.schema_plan.Comparison.steps", lambda self: iter(()))
        found = refusal("node A {}", "node B {}")
        assert found.entity == "schema"


class TestResolution:
    def test_the_same_name_wins_over_a_hint(self) -> None:
        found = plan("node A {}  node B {}", 'node A @rename_from("B") {}  node B {}')
        assert found.is_empty
        assert found.notes == ("node:A: @rename_from(\"B\") is ignored: 'A' already exists",)

    def test_a_hint_left_in_the_source_is_inert_afterwards(self) -> None:
        after = 'node B @rename_from("A") { y: I32 @rename_from("x") }'
        first = evolve(accept("node A { x: I32 }"), after)
        again = evolve(first.desired, after)
        assert again.is_empty
        assert [note.partition(":")[0] for note in again.notes] == ["node", "node"]

    def test_a_hint_continues_type_and_property_identities(self) -> None:
        before = accept("node A { x: I32  y: I32 }  edge E: A -> A { w: I32 }")
        found = evolve(
            before,
            """
            node B @rename_from("A") { x: I32  z: I32 @rename_from("y") }
            edge F: B -> B @rename_from("E") { w: I32 }
            """,
        )
        assert found.supported
        old, new = before.identities, found.desired.identities
        node, edge = old.of(TypeKind.NODE, "A"), old.of(TypeKind.EDGE, "E")
        numbers = {"x": node.properties["x"], "z": node.properties["y"]}
        assert new.of(TypeKind.NODE, "B") == replace(node, name="B", properties=numbers)
        assert new.of(TypeKind.EDGE, "F") == replace(edge, name="F")
        assert new.next_identity_id == old.next_identity_id

    @pytest.mark.parametrize(
        ("before", "after", "entity", "fragment"),
        [
            (
                "node A {}",
                'node A {}  node B @rename_from("X") {}',
                "node:B",
                "no accepted declaration has that name",
            ),
            (
                "node A {}  edge X: A -> A",
                'node A {}  node B @rename_from("X") {}  edge X: A -> A',
                "node:B",
                "across declaration kinds",
            ),
            (
                "interface X {}  node A {}",
                'interface X {}  node A {}  edge E: A -> A @rename_from("X")',
                "edge:E",
                "across declaration kinds",
            ),
            (
                "node A {}",
                'node A {}  node B @rename_from("A") {}',
                "node:B",
                "consumed by more than one desired declaration",
            ),
            (
                "node A { x: I32? }",
                'node A { y: I32? @rename_from("w") }',
                "node:A.y",
                "no accepted declaration has that name",
            ),
            (
                "node A {}  node B { w: I32? }",
                'node A { y: I32? @rename_from("w") }  node B { w: I32? }',
                "node:A.y",
                "property moves across stable owners are not supported",
            ),
            (
                "node A { x: I32? }",
                'node A { x: I32?  y: I32? @rename_from("x") }',
                "node:A.y",
                "consumed by more than one desired declaration",
            ),
            (
                "node A { x: I32? }",
                'node A { x: I32? }  node B { y: I32? @rename_from("x") }',
                "node:B.y",
                "property moves across stable owners are not supported",
            ),
        ],
    )
    def test_a_hint_that_cannot_be_followed_is_refused(
        self, before: str, after: str, entity: str, fragment: str
    ) -> None:
        found = refusal(before, after)
        assert found.entity == entity
        assert fragment in found.reason
        assert found.code is None

    def test_two_claims_on_one_name_refuse_both_and_drop_nothing(self) -> None:
        found = plan(
            "node A { x: I32? }  edge E: A -> A",
            """
            node B @rename_from("A") { x: I32? }
            node C @rename_from("A") { x: I32? }
            edge E: B -> C
            """,
        )
        assert [step.kind for step in found.steps] == ["unsupported_change"] * 2
        assert {step.to_json()["entity"] for step in found.steps} == {"node:B", "node:C"}

    def test_two_claims_on_one_property_leave_its_constraints_alone(self) -> None:
        before = "node A { x: String @key  y: String @unique  v: Vector(2)? @embed(y) }"
        after = """
            node A {
                x1: String @key @rename_from("x")
                x2: String @rename_from("x")
                y1: String @unique @rename_from("y")
                y2: String @rename_from("y")
                v: Vector(2)? @embed(y1)
            }
        """
        found = refusals(before, after)
        assert [item.entity for item in found] == [f"node:A.{n}" for n in ("x1", "x2", "y1", "y2")]
        assert all("consumed by more than one" in item.reason for item in found)

    def test_a_wrong_hint_on_a_key_column_is_reported_once(self) -> None:
        found = refusal("node A { x: String @key }", 'node A { y: String @key @rename_from("xx") }')
        assert found.entity == "node:A.y"

    def test_a_hint_with_its_own_name_is_inert(self) -> None:
        found = plan(
            "node A {}", 'node A {}  node B @rename_from("B") { x: I32 @rename_from("x") }'
        )
        assert [step.kind for step in found.steps] == ["add_type"]
        assert found.notes == (
            "node:B: @rename_from(\"B\") is ignored: 'B' is its own name",
            "node:B.x: @rename_from(\"x\") is ignored: 'x' is its own name",
        )

    def test_hints_are_inert_in_a_first_schema(self) -> None:
        after = """
            interface I { i: I32 @rename_from("h") }
            node A @rename_from("B") implements I { x: I32 @rename_from("w") }
            edge E: A -> A @rename_from("F")
        """
        notes = (
            'interface:I.i: @rename_from("h") is ignored: the graph has no earlier schema',
            'node:A: @rename_from("B") is ignored: the graph has no earlier schema',
            'node:A.x: @rename_from("w") is ignored: the graph has no earlier schema',
            'edge:E: @rename_from("F") is ignored: the graph has no earlier schema',
        )
        assert inert_hints(compile_schema(after).catalog) == notes
        found = plan("", after)
        assert found.supported
        assert [step.kind for step in found.steps] == ["add_type"] * 3
        assert found.notes == notes

    def test_an_injected_property_follows_its_interface_through_a_rename(self) -> None:
        before = accept("interface I { a: I32? }  node N implements I {}")
        after = 'interface I { b: I32? @rename_from("a") }  node N implements I {}'
        found = evolve(before, after)
        assert [step.render() for step in found.steps] == [
            "rename property 'I.a' -> 'I.b' on interface 'I'",
            "rename property 'N.a' -> 'N.b' on node 'N'",
        ]
        assert found.notes == ()

    def test_a_new_node_may_implement_an_interface_that_carries_a_hint(self) -> None:
        before = accept("interface I { a: I32? }")
        after = """
            interface I { b: I32? @rename_from("a") }
            node N implements I {}
        """
        assert [step.kind for step in evolve(before, after).steps] == [
            "rename_property",
            "add_type",
        ]

    def test_type_names_live_in_three_namespaces(self) -> None:
        before = "node Link {}  edge Link: Link -> Link"
        found = steps(before, 'node Link {}  edge Tie: Link -> Link @rename_from("Link")')
        assert found == [{"kind": "rename_type", "type_kind": "edge", "from": "Link", "to": "Tie"}]


class TestIdentities:
    def test_new_things_get_new_ids_and_old_ones_keep_theirs(self) -> None:
        before = accept("node A { x: I32 }")
        found = evolve(before, "node A { x: I32  y: I32? }  node B { z: I32 }").desired
        assert before.identities == SOUND
        assert found.domain == DOMAIN
        assert found.identities == Identities(
            next_identity_id=8,
            types={
                (TypeKind.NODE, "A"): replace(A, properties={"x": 2, "y": 5}),
                (TypeKind.NODE, "B"): TypeIdentity(
                    kind=TypeKind.NODE, name="B", type_id=4, incarnation=7, properties={"z": 6}
                ),
            },
        )

    def test_dropping_and_adding_a_name_again_gives_a_new_identity(self) -> None:
        text = "node A { x: I32? }  node B {}"
        first = accept(text)
        without = evolve(first, "node B {}").desired
        again = evolve(without, text)
        assert [step.kind for step in again.steps] == ["add_type"]
        old = first.table_identity(TypeKind.NODE, "A")
        new = again.desired.table_identity(TypeKind.NODE, "A")
        assert not set(old) & set(new)
        assert min(new) >= first.identities.next_identity_id

    def test_a_dropped_property_comes_back_as_another_one(self) -> None:
        first = accept("node A { x: I32? }")
        without = evolve(first, "node A {}").desired
        again = evolve(without, "node A { x: I32? }").desired
        number = again.identities.of(TypeKind.NODE, "A").properties["x"]
        assert number == first.identities.next_identity_id

    def test_ids_are_never_used_again(self) -> None:
        current = accept("")
        seen: set[int] = set()
        for number in range(5):
            current = evolve(current, f"node A{number} {{ x: I32? }}").desired
            spent = set(current.identities.spent())
            assert not spent & seen
            seen |= spent
        assert current.identities.next_identity_id == max(seen) + 1

    @pytest.mark.parametrize(
        "broken",
        [
            replace(SOUND, types={}),
            replace(SOUND, types={(TypeKind.NODE, "A"): replace(A, properties={})}),
            replace(SOUND, types={(TypeKind.NODE, "A"): replace(A, incarnation=None)}),
            replace(SOUND, types={(TypeKind.NODE, "A"): replace(A, incarnation=1)}),
            replace(SOUND, next_identity_id=2),
        ],
    )
    def test_unsound_accepted_identities_stop_planning(self, broken: Identities) -> None:
        accepted = accept("node A { x: I32 }")
        with pytest.raises(InternalError):
            plan_schema(replace(accepted, identities=broken), accepted.catalog)


class TestSupportedChanges:
    def test_new_types(self) -> None:
        found = steps("node A {}", "interface I { x: I32 }  node A {}  node B {}  edge E: A -> B")
        assert found == [
            {"kind": "add_type", "type_kind": "interface", "name": "I"},
            {"kind": "add_type", "type_kind": "node", "name": "B"},
            {"kind": "add_type", "type_kind": "edge", "name": "E"},
        ]

    def test_renamed_type(self) -> None:
        found = steps("node A {}", 'node B @rename_from("A") {}')
        assert found == [{"kind": "rename_type", "type_kind": "node", "from": "A", "to": "B"}]

    def test_new_nullable_property(self) -> None:
        assert steps("edge E: A -> A  node A {}", "edge E: A -> A { x: [String]? }  node A {}") == [
            {
                "kind": "add_property",
                "type_kind": "edge",
                "type_name": "E",
                "property_name": "x",
                "property_type": {"scalar": "String", "nullable": True, "list": True},
            }
        ]

    def test_new_required_property_with_a_default_is_backfilled(self) -> None:
        found = plan("node A {}", 'node A { x: Date @default("2024-02-29") }')
        assert found.supported
        assert found.to_json()["steps"] == [
            {
                "kind": "add_property",
                "type_kind": "node",
                "type_name": "A",
                "property_name": "x",
                "property_type": {"scalar": "Date", "nullable": False},
                "default": {"date": "2024-02-29"},
            }
        ]
        assert found.steps[0].render() == (
            "add property 'A.x' (Date, existing rows get \"2024-02-29\") on node 'A'"
        )

    def test_new_nullable_property_with_a_default_leaves_existing_rows_null(self) -> None:
        found = plan("node A {}", "node A { x: I32? @default(5) }")
        assert found.steps[0].to_json()["default"] == 5
        assert found.steps[0].render() == (
            "add property 'A.x' (I32?, default 5; existing rows get null) on node 'A'"
        )

    def test_new_indexed_property(self) -> None:
        found = steps("node A {}", "node A { x: I32? @index  @index(x) }")
        assert [item["kind"] for item in found] == ["add_property", "add_constraint"]

    def test_renamed_property_comes_before_other_steps_on_it(self) -> None:
        before = "node A { s: enum(a, b) }"
        after = 'node A { t: enum(c, a, b, d) @rename_from("s") @index @description("x") }'
        assert steps(before, after) == [
            {"kind": "rename_property", "type_kind": "node", "type_name": "A"}
            | {"from": "s", "to": "t"},
            {"kind": "extend_enum", "type_kind": "node", "type_name": "A"}
            | {"property_name": "t", "added_values": ["c", "d"]},
            {
                "kind": "update_property_metadata",
                "type_kind": "node",
                "type_name": "A",
                "property_name": "t",
                "annotations": [{"name": "description", "value": "x", "arguments": {}}],
            },
            {"kind": "add_constraint", "type_kind": "node", "type_name": "A"}
            | {"constraint": {"Index": ["t"]}},
        ]
        assert plan(before, after).steps[1].render() == "extend enum 'A.t' (+c, +d) on node 'A'"

    def test_a_renamed_property_takes_everything_that_names_it_along(self) -> None:
        before = """
            node A {
                k: String @key
                a: String @unique
                n: I32
                v: Vector(2)? @embed("a", model="m")
                @unique(a, n)  @index(n)  @range(n, 0..9)  @check(a, "^x")
            }
            edge E: A -> A { w: I32  @unique(src, w) }
        """
        after = """
            node B @rename_from("A") {
                zk: String @key @rename_from("k")
                z: String @unique @rename_from("a")
                m: I32 @rename_from("n")
                v: Vector(2)? @embed("z", model="m")
                @unique(m, z)  @index(m)  @range(m, 0..9)  @check(z, "^x")
            }
            edge E: B -> B { aw: I32 @rename_from("w")  @unique(aw, src) }
        """
        found = steps(before, after)
        assert {item["kind"] for item in found} == {"rename_type", "rename_property"}
        assert len(found) == 5

    def test_added_index(self) -> None:
        before = "node A { x: I32  y: I32 }  edge E: A -> A { w: I32 }"
        after = "node A { x: I32 @index  y: I32  @index(y, x) }  edge E: A -> A { w: I32 @index }"
        assert [item["constraint"] for item in steps(before, after)] == [
            {"Index": ["x"]},
            {"Index": ["x", "y"]},
            {"Index": ["w"]},
        ]
        assert plan(before, after).steps[1].render() == ("add constraint @index(x, y) on node 'A'")

    def test_changed_metadata(self) -> None:
        before = 'node A @description("old") { x: I32 @description("p") }'
        after = 'node A @instruction("use") @description("new") { x: I32 }'
        assert steps(before, after) == [
            {
                "kind": "update_type_metadata",
                "type_kind": "node",
                "name": "A",
                "annotations": [
                    {"name": "description", "value": "new", "arguments": {}},
                    {"name": "instruction", "value": "use", "arguments": {}},
                ],
            },
            {
                "kind": "update_property_metadata",
                "type_kind": "node",
                "type_name": "A",
                "property_name": "x",
                "annotations": [],
            },
        ]
        assert plan(before, after).steps[1].render() == (
            "update metadata of property 'A.x' on node 'A'"
        )

    @pytest.mark.parametrize(
        ("before", "after", "ends", "shown"),
        [
            ("x: I32", "x: I32 @default(1)", {"to": 1}, "none -> 1"),
            ("x: I32 @default(1)", "x: I32 @default(2)", {"from": 1, "to": 2}, "1 -> 2"),
            ('x: String? @default("a")', "x: String?", {"from": "a"}, '"a" -> none'),
            ("x: [I32]", "x: [I32] @default([1, 2])", {"to": [1, 2]}, "none -> [1, 2]"),
        ],
    )
    def test_changed_default(
        self, before: str, after: str, ends: dict[str, object], shown: str
    ) -> None:
        old, new = f"node A {{ {before} }}", f"node A {{ {after} }}"
        head = {"kind": "change_default", "type_kind": "node", "type_name": "A"}
        assert steps(old, new) == [head | {"property_name": "x"} | ends]
        assert plan(old, new).steps[0].render() == f"change default of 'A.x' ({shown}) on node 'A'"

    @pytest.mark.parametrize(
        ("before", "after", "ends"),
        [
            ("x: String", "x: String @language(german)", ("english", "german")),
            ("x: String @language(german)", "x: String", ("german", "english")),
            ("x: String @language(none)", 'x: String @language("dutch")', ("none", "dutch")),
        ],
    )
    def test_changed_language(self, before: str, after: str, ends: tuple[str, str]) -> None:
        old, new = f"node A {{ {before} }}", f"node A {{ {after} }}"
        head = {"kind": "change_language", "type_kind": "node", "type_name": "A"}
        sides = dict(zip(("from", "to"), ends, strict=True))
        assert steps(old, new) == [head | {"property_name": "x"} | sides]
        shown = " -> ".join(ends)
        assert plan(old, new).steps[0].render() == f"change language of 'A.x' ({shown}) on node 'A'"

    def test_a_language_that_was_meant_anyway(self) -> None:
        found = steps("node A { x: String }", "node A { x: String @language(english) }")
        assert [item["kind"] for item in found] == ["update_property_metadata"]

    def test_a_language_of_an_earlier_release_has_no_effect(self) -> None:
        stored = 'node A { x: String @language("klingon") }'
        assert compile_schema(stored, stored=True).catalog.nodes["A"].properties["x"].language == (
            "english"
        )
        with pytest.raises(CompileError):
            compile_schema(stored)

    @pytest.mark.parametrize(("allow_data_loss", "mode"), [(False, "soft"), (True, "hard")])
    def test_drops(self, allow_data_loss: bool, mode: str) -> None:
        before = "node A { x: I32  y: I32 }  node B {}  edge E: A -> B"
        found = plan(before, "node A { x: I32 }", allow_data_loss=allow_data_loss)
        assert found.supported
        assert found.to_json()["steps"] == [
            {"kind": "drop_property", "type_kind": "node", "type_name": "A"}
            | {"property_name": "y", "mode": mode},
            {"kind": "drop_type", "type_kind": "node", "name": "B", "mode": mode},
            {"kind": "drop_type", "type_kind": "edge", "name": "E", "mode": mode},
        ]
        assert found.steps[2].render() == f"drop edge type 'E' ({mode} mode)"

    def test_a_dropped_property_takes_its_constraints_along(self) -> None:
        before = """
            node A { x: I32 @index @unique  s: String  y: I32
                     @unique(x, y)  @range(x, 0..9)  @check(s, "a") }
        """
        found = steps(before, "node A { y: I32 }")
        assert [item["kind"] for item in found] == ["drop_property", "drop_property"]

    def test_an_index_on_an_interface_property_reaches_the_nodes_that_take_it(self) -> None:
        before = "interface I { x: I32?, y: I32? @unique }  node N implements I {}"
        direct = "  node M implements I { x: I32?, y: I32? }"
        after = before.replace("x: I32?", "x: I32? @index")
        assert [step.render() for step in plan(before + direct, after + direct).steps] == [
            "add constraint @index(x) on interface 'I'",
            "add constraint @index(x) on node 'N'",
        ]

    def test_a_new_interface_property_comes_with_its_constraints(self) -> None:
        found = steps("interface I {}", "interface I { x: I32? @unique @index }")
        assert [item["kind"] for item in found] == ["add_property"]

    def test_a_dropped_interface_property_takes_its_constraints_along(self) -> None:
        found = steps("interface I { x: I32? @unique @index }", "interface I {}")
        assert [item["kind"] for item in found] == ["drop_property"]

    def test_interface_changes_reach_the_nodes_that_implement_it(self) -> None:
        before = "interface I { e: enum(a), gone: I32? }  node N implements I {}"
        after = 'interface I { e: enum(a, b) @description("e"), n: I32? }  node N implements I {}'
        for kind, name in (("interface", "I"), ("node", "N")):
            own = [step for step in steps(before, after) if step.get("type_name") == name]
            assert [step["kind"] for step in own] == [
                "extend_enum",
                "update_property_metadata",
                "add_property",
                "drop_property",
            ]
            assert {step["type_kind"] for step in own} == {kind}

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("I32", "I64"),
            ("U32", "U64"),
            ("U32", "I64"),
            ("F32", "F64"),
            ("[I32]", "[I64]"),
            ("I32?", "I64?"),
        ],
    )
    def test_a_type_that_holds_every_old_value(self, before: str, after: str) -> None:
        (found,) = steps(f"node A {{ x: {before} }}", f"node A {{ x: {after} }}")
        assert found["kind"] == "widen_property"
        assert found["property_name"] == "x"
        rendered = plan(f"node A {{ x: {before} }}", f"node A {{ x: {after} }}").render()
        assert f"widen property 'A.x' ({before} -> {after}) on node 'A'" in rendered

    def test_an_integer_key_may_grow(self) -> None:
        assert steps("node A { x: I32 @key }", "node A { x: I64 @key }")

    def test_nullability_changes_both_ways(self) -> None:
        assert steps("node A { x: I32? }", "node A { x: I32 }") == [
            {
                "kind": "change_nullability",
                "type_kind": "node",
                "type_name": "A",
                "property_name": "x",
                "required": True,
            }
        ]
        found = plan("node A { x: I32 }", "node A { x: I32? }").steps
        assert [s.render() for s in found] == ["make property 'A.x' nullable on node 'A'"]

    def test_a_default_fills_what_becomes_required(self) -> None:
        before, after = "node A { x: I32? }", "node A { x: I32 @default(7) }"
        assert steps(before, after)[0]["default"] == 7
        lines = [step.render() for step in plan(before, after).steps]
        assert lines == [
            "make property 'A.x' required (nulls become 7) on node 'A'",
            "change default of 'A.x' (none -> 7) on node 'A'",
        ]

    def test_one_property_may_change_in_several_ways(self) -> None:
        found = steps("node A { x: enum(a) }", "node A { x: enum(a, b)? }")
        assert [step["kind"] for step in found] == ["extend_enum", "change_nullability"]
        found = steps("node A { x: I32? }", 'node A { y: I64 @rename_from("x") }')
        kinds = [step["kind"] for step in found]
        assert kinds == ["rename_property", "widen_property", "change_nullability"]

    @pytest.mark.parametrize(
        ("declared", "rule", "spelled"),
        [
            ("x: I32", {"Unique": ["x"]}, "@unique(x)"),
            ("x: I32", {"Range": {"property": "x", "low": None, "high": 5.5}}, "@range(x, ..5.5)"),
            ("x: I32", {"Range": {"property": "x", "low": -1, "high": None}}, "@range(x, -1..)"),
            ("x: String", {"Check": {"property": "x", "pattern": "^a"}}, '@check(x, "^a")'),
            ("x: String", {"Index": ["x"]}, "@index(x)"),
        ],
    )
    def test_rules_come_and_go(self, declared: str, rule: dict[str, object], spelled: str) -> None:
        without, having = f"node A {{ {declared} }}", f"node A {{ {declared}  {spelled} }}"
        for kind, old, new in (
            ("add_constraint", without, having),
            ("drop_constraint", having, without),
        ):
            (found,) = steps(old, new)
            assert (found["kind"], found["constraint"]) == (kind, rule)
            verb = kind.partition("_")[0]
            expected = f"{verb} constraint {spelled} on node 'A'"
            assert plan(old, new).steps[0].render() == expected

    def test_changed_bounds_are_one_removal_and_one_addition(self) -> None:
        before = "node A { x: I32  @range(x, 0..9) }"
        found = steps(before, before.replace("9", "10"))
        assert [step["kind"] for step in found] == ["drop_constraint", "add_constraint"]

    def test_an_interface_rule_reaches_the_nodes_that_take_it(self) -> None:
        before = "interface I { x: I32 }  node N implements I {}"
        found = steps(before, before.replace("I32", "I32 @unique"))
        assert [(step["kind"], step["type_kind"]) for step in found] == [
            ("add_constraint", "interface"),
            ("add_constraint", "node"),
        ]

    def test_changed_cardinality(self) -> None:
        before = "node A {}  edge E: A -> A @card(0..1)"
        (found,) = steps(before, before.replace("0..1", "0.."))
        assert (found["kind"], found["from"], found["to"]) == ("change_cardinality", "0..1", "0..")
        rendered = plan(before, before.replace("0..1", "0..")).render()
        assert "change @card from 0..1 to 0.. on edge 'E'" in rendered


class TestRefusals:
    def test_new_required_property(self) -> None:
        found = refusal("node A {}", "node A { x: I32 }")
        assert (found.entity, found.code) == ("node:A.x", "OG-MF-103")
        assert "add a @default or make it nullable" in found.reason
        assert found.to_json() == {
            "kind": "unsupported_change",
            "entity": "node:A.x",
            "reason": found.reason,
            "code": "OG-MF-103",
        }
        assert found.render() == (
            f"unsupported change on node:A.x [OG-MF-103, validated]: {found.reason}"
        )

    def test_new_required_vector_cannot_have_a_default(self) -> None:
        found = refusal("node A {}", "node A { x: Vector(3) }")
        assert found.code == "OG-MF-103"
        assert "@default" not in found.reason

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("I64", "I32"),
            ("I64", "I32?"),
            ("I64", "U64"),
            ("I32", "U64"),
            ("I32", "F64"),
            ("I64", "F64"),
            ("U64", "I64"),
            ("F64", "F32"),
            ("I32", "[I64]"),
            ("Date", "DateTime"),
            ("String", "[String]"),
            ("[String]", "String"),
            ("enum(a, b)", "enum(a)"),
            ("enum(a, b)", "enum(a, c)"),
            ("enum(a, b)", "String"),
            ("String", "enum(a, b)"),
            ("Vector(2)", "Vector(3)"),
        ],
    )
    def test_changed_type(self, before: str, after: str) -> None:
        found = refusal(f"node A {{ x: {before} }}", f"node A {{ x: {after} }}")
        assert (found.entity, found.code) == ("node:A.x", "OG-MF-106")
        assert f"from {before} to {after}" in found.reason
        assert "[OG-MF-106, destructive]" in found.render()

    @pytest.mark.parametrize(
        ("before", "after", "fragment"),
        [
            ("x: I32", "x: I32 @key", "changing @key of node 'A' from no key to x"),
            ("x: I32 @key", "x: I32", "changing @key of node 'A' from x to no key"),
            ("x: I32  y: I32 @key", "x: I32 @key  y: I32", "from y to x"),
            ("x: I32  y: I32  @key(x, y)", "x: I32 @key", "from x, y to x"),
            ("x: I32 @key", "", "from x to no key"),
        ],
    )
    def test_changed_key(self, before: str, after: str, fragment: str) -> None:
        found = refusal(f"node A {{ {before} }}", f"node A {{ {after} }}")
        assert (found.entity, found.code) == ("node:A", None)
        assert fragment in found.reason

    def test_a_wider_float_key_would_change_ids(self) -> None:
        found = refusal("node A { x: F32 @key }", "node A { x: F64 @key }")
        assert (found.entity, found.code) == ("node:A.x", "OG-MF-106")
        assert "ids derive from the key" in found.reason

    def test_changed_edge_endpoints(self) -> None:
        before = "node A {}  node B {}  edge E: A -> B"
        found = refusals(before, before.replace("A -> B", "B -> A"))
        assert [item.entity for item in found] == ["edge:E", "edge:E"]
        assert "source of edge 'E' from 'A' to 'B'" in found[0].reason
        assert "target of edge 'E' from 'B' to 'A'" in found[1].reason

    def test_an_edge_to_a_new_type_of_the_old_role_is_another_edge(self) -> None:
        found = plan("node A {}  edge E: A -> A", "node B {}  edge E: B -> B")
        assert not found.supported
        assert [step.kind for step in found.steps] == [
            "add_type",
            "drop_type",
            "unsupported_change",
            "unsupported_change",
        ]

    def test_changed_implements(self) -> None:
        before = "interface I { x: I32? }  node N { x: I32? }"
        found = refusal(before, before.replace("node N", "node N implements I"))
        assert found.entity == "node:N"
        assert "from none to I" in found.reason

    @pytest.mark.parametrize(
        ("before", "after"), [("", "x: I32?"), ("x: I32?", "")], ids=["direct", "injected"]
    )
    def test_changed_provenance(self, before: str, after: str) -> None:
        text = "interface I { x: I32? }  node N implements I { %s }"
        found = refusal(text % before, text % after)
        assert found.entity == "node:N.x"
        assert ("declared directly" in found.reason) == bool(after)

    def test_changed_satisfaction_links(self) -> None:
        before = "interface I {}  node N implements I { x: I32? }"
        after = "interface I { x: I32? }  node N implements I { x: I32? }"
        for old, new in ((before, after), (after, before)):
            found = refusal(old, new)
            assert found.entity == "node:N.x"
            assert "(I.x)" in found.reason

    @pytest.mark.parametrize(
        ("before", "after"), [("@key", ""), ("", "@key"), ("@key @unique", "")]
    )
    def test_changed_interface_key(self, before: str, after: str) -> None:
        text = "interface I { x: I32 %s }"
        found = refusal(text % before, text % after)
        assert found.entity == "interface:I.x"
        assert "changing @key of 'I.x'" in found.reason
        node = "  node N implements I {}"
        entities = [item.entity for item in refusals(text % before + node, text % after + node)]
        assert entities[0] == "interface:I.x"
        assert set(entities[1:]) == {"node:N"}

    def test_changed_interface_constraint_under_a_new_name(self) -> None:
        before = "interface I { x: I32 @unique @index }"
        kept = 'interface I { y: I32 @rename_from("x") @unique @index }'
        assert [step["kind"] for step in steps(before, kept)] == ["rename_property"]
        lost = 'interface I { y: I32 @rename_from("x") @index }'
        assert steps(before, lost)[1]["constraint"] == {"Unique": ["y"]}

    def test_removed_interface(self) -> None:
        found = refusal("interface I { x: I32 }", "")
        assert found.entity == "interface:I"

    def test_renamed_interface(self) -> None:
        found = plan("interface I { x: I32 }", "interface J { x: I32 }")
        assert [step.kind for step in found.steps] == ["add_type", "unsupported_change"]

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("@embed(a)", "@embed(b)"),
            ("@embed(a)", '@embed(a, model="m")'),
            ('@embed(a, model="m")', '@embed(a, model="n")'),
            ("@embed(a)", ""),
            ("", "@embed(a)"),
        ],
    )
    def test_changed_embedding(self, before: str, after: str) -> None:
        text = "node A { a: String  b: String  v: Vector(2) %s }"
        found = refusal(text % before, text % after)
        assert (found.entity, found.code) == ("node:A.v", None)
        assert "@embed" in found.reason

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("", "@foo"),
            ("@foo", ""),
            ("@foo", "@foo(1)"),
            ("@foo(1)", "@foo(2)"),
            ("@foo(1)", "@foo(1, a=2)"),
        ],
    )
    def test_changed_other_annotation(self, before: str, after: str) -> None:
        on_type = refusal(f"node A {before} {{}}", f"node A {after} {{}}")
        assert on_type.entity == "node:A"
        assert "beyond @description/@instruction" in on_type.reason
        on_edge = "node A {}  edge E: A -> A { x: I32 %s }"
        assert refusal(on_edge % before, on_edge % after).entity == "edge:E.x"

    def test_the_order_of_repeated_annotations_does_not_count(self) -> None:
        before = "node A { x: I32 @foo(1, a=1) @foo(1, b=2) }"
        after = "node A { x: I32 @foo(1, b=2) @foo(1, a=1) }"
        assert plan(before, after).is_empty

    def test_every_refusal_of_one_plan_is_listed(self) -> None:
        found = refusals("node A { x: I64 }", "node A { x: I32 @key  y: I32 }")
        assert [item.code for item in found] == ["OG-MF-106", "OG-MF-103", None]


class TestLintCodes:
    def test_registry(self) -> None:
        emitted = {code for code, item in LINT_CODES.items() if not item.reserved}
        assert emitted == {"OG-MF-103", "OG-MF-106"}
        assert set(LINT_CODES) - emitted == {
            *(f"OG-DS-{number}" for number in range(101, 106)),
            "OG-MF-104",
        }
        assert LINT_CODES["OG-MF-103"].tier is Tier.VALIDATED
        assert LINT_CODES["OG-MF-106"].tier is Tier.DESTRUCTIVE
        assert all(item.code == code for code, item in LINT_CODES.items())
        assert {item.severity for item in LINT_CODES.values()} == {Severity.ERROR}
