"""A schema read with its declarations known is the schema that is compiled from scratch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from omnigraph.catalog import Catalog, accept_initial
from omnigraph.lang.schema_plan import plan_schema
from omnigraph.lang.schema_reader import SchemaReader, pieces_of
from tests.property import schema_strategies
from tests.property.test_pg_property import assemblies, extremes, mutants, soups, splices
from tests.unit.lang.test_schema_reader import compiled, outcome, read

DECLARATIONS = (
    "interface Tagged { tag: String? @index }\n",
    '// { a comment }\ninterface Noted { note: String? @rename_from("remark") }\n',
    *(f"node Thing{n} implements Tagged {{ code: String @key  size: I32? }}\n" for n in range(6)),
    *(f"node Other{n} implements Noted, Tagged {{ code: String @key }}\n" for n in range(6)),
    *(
        f'node Plain{n} @mood("}}") {{ a: I32  b: enum(x, y-z)  @range(a, 0..{n}) }}\n'
        for n in range(8)
    ),
    *(f"edge Bare{n}: Thing{n} -> Other{n}\n" for n in range(5)),
    *(
        f"edge Full{n}: Plain{n} -> Thing{n} @card(0..1) {{ since: Date? /* }} */ }}\n"
        for n in range(6)
    ),
)
SNIPPETS = (
    *("}", "{", '"', "/*", "*/", "//", "\n", " ", "@", "\\", "é", "\ud800", ",", "?", ":"),
    *("node", "edge New: Plain0 -> Plain1", "node New {}", "null: I32?", "x: I64?", "tag: I32"),
    *("@key", '@rename_from("Plain0")', '@description("d }")', "@unknown", "@language(klingon)"),
    *("implements Tagged", "interface Tagged {}", "edge BARE0: Plain0 -> Plain1", "Thing0"),
)
"""What is typed by mistake, breaks a text in two, or means something elsewhere."""

WARM = SchemaReader()
"""It has read the texts before, broken ones among them."""

numbers = st.integers(0, 10_000)
edits = st.lists(st.tuples(st.integers(0, 6), numbers, numbers), min_size=1, max_size=6)


def edited(text: str, edit: tuple[int, int, int]) -> str:
    """Return a text after one edit: typed, cut, or with declarations moved about."""
    kind, first, second = edit
    place = first % (len(text) + 1)
    pieces = pieces_of(text) or [""]
    one, two = first % len(pieces), second % len(pieces)
    match kind:
        case 0 | 1:
            return text[:place] + SNIPPETS[second % len(SNIPPETS)] + text[place:]
        case 2:
            return text[:place] + text[place + 1 + second % 30 :]
        case 3:
            return "".join([*pieces[:one], *pieces[one + 1 :]])
        case 4:
            return text + pieces[one]
        case 5:
            pieces[one], pieces[two] = pieces[two], pieces[one]
            return "".join(pieces)
        case _:
            return text.replace("size: I32?", f"size: I32?  more{second}: I32?", 1 + first % 3)


@given(edits, st.booleans())
def test_edits_of_a_large_schema_read_as_they_compile(
    steps: list[tuple[int, int, int]], stored: bool
) -> None:
    text = "".join(DECLARATIONS)
    warm, small = SchemaReader(), SchemaReader(chars_max=300)
    accepted = accept_initial(warm.catalog(text), domain="D")
    for step in steps:
        before, text = text, edited(text, step)
        expected = compiled(text, stored=stored)
        for reader in (warm, small, SchemaReader()):
            assert outcome(read(reader, text, stored=stored)) == outcome(expected)
        if not isinstance(expected, Catalog):
            # A mistake is mended, and its neighbours are known by then.
            text = before
            continue
        plan = plan_schema(accepted, warm.catalog(text, stored=True))
        apart = plan_schema(replace(accepted), expected)
        assert plan.to_json() == apart.to_json()
        assert plan.desired.ir_text() == apart.desired.ir_text()
        assert replace(plan.desired).identity_problem is None
        accepted = plan.desired


@given(st.one_of(soups(), mutants(), splices(), assemblies(), extremes()), st.booleans())
def test_any_text_reads_as_it_compiles(text: str, stored: bool) -> None:
    assert outcome(read(WARM, text, stored=stored)) == outcome(compiled(text, stored=stored))


@given(schema_strategies.migrations())
def test_types_that_stay_have_no_part_in_a_plan(texts: tuple[str, str]) -> None:
    """Whatever stays beside a change, the steps and notes of the change are the same."""
    before, after = texts
    others = "".join(f"\nnode Beside{n} {{ a: I32? @index }}" for n in range(5))
    reader = SchemaReader()
    alone = plan_schema(accept_initial(reader.catalog(before), domain="D"), reader.catalog(after))
    wide = plan_schema(
        accept_initial(reader.catalog(before + others), domain="D"), reader.catalog(after + others)
    )
    assert wide.to_json() == alone.to_json()
