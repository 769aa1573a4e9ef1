"""Reading schemas of which declarations are known gives what compiling them gives."""

from __future__ import annotations

from collections import Counter

import pytest

from omnigraph.catalog import Catalog, accept_initial
from omnigraph.errors import CompileError
from omnigraph.lang import schema_reader
from omnigraph.lang.schema import compile_schema
from omnigraph.lang.schema_reader import SchemaReader, pieces_of
from omnigraph.lang.source import Diagnostic
from omnigraph.limits import SOURCE_CHARS_MAX
from tests.golden.loader import Case, load_cases

CASES = load_cases("pg")
TEXT = """
// People } and {
interface Named { name: String @key }
node Person implements Named { age: I32? @description("up to } 150") }
edge Knows: Person -> Person
edge Likes: Person -> City { since: Date? } /* } */
node City { code: String @key  @check(code, "^[A-Z]{2}$") }
edge In: City -> City // the end }
"""


def outcome(catalog: Catalog | CompileError) -> tuple[object, ...]:
    """Return everything that is to be seen of a catalog, or of what is wrong with a text."""
    if isinstance(catalog, CompileError):
        found = [item for item in catalog.diagnostics if isinstance(item, Diagnostic)]
        return (str(catalog), [(item.to_json(), item.render()) for item in found])
    return catalog, accept_initial(catalog, domain="D").ir_text()


def read(reader: SchemaReader, text: str, *, stored: bool = False) -> Catalog | CompileError:
    try:
        return reader.catalog(text, name="a.pg", stored=stored)
    except CompileError as error:
        return error


def compiled(text: str, *, stored: bool = False) -> Catalog | CompileError:
    try:
        return compile_schema(text, name="a.pg", stored=stored).catalog
    except CompileError as error:
        return error


@pytest.fixture
def pieces_read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts how often each piece of text is compiled."""
    counts: Counter[str] = Counter()
    original = schema_reader._read

    def counting(text: str) -> object:
        counts[text] += 1
        return original(text)

    monkeypatch.setattr(schema_reader, "_read", counting)
    return counts


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_a_text_reads_as_it_compiles(case: Case) -> None:
    reader = SchemaReader()
    for stored in (False, True, False):
        expected = outcome(compiled(case.source, stored=stored))
        assert outcome(read(reader, case.source, stored=stored)) == expected


def test_a_piece_ends_with_a_body_and_nothing_gets_lost() -> None:
    found = pieces_of(TEXT)
    assert "".join(found) == TEXT
    assert [piece.rsplit(maxsplit=2)[1:] for piece in found[:-1]] == [
        ["@key", "}"],
        ['150")', "}"],
        ["Date?", "}"],
        ['"^[A-Z]{2}$")', "}"],
    ]
    assert found[-1] == "\nedge In: City -> City // the end }\n"


@pytest.mark.parametrize("text", ["", " ", "}", "}}", '"', "/*", "/", "node A {", 'node A { "} '])
def test_any_text_is_cut(text: str) -> None:
    assert "".join(pieces_of(text)) == text
    assert outcome(read(SchemaReader(), text)) == outcome(compiled(text))


def test_only_what_was_not_read_before_is_compiled(pieces_read: Counter[str]) -> None:
    reader = SchemaReader()
    before = reader.catalog(TEXT)
    assert len(pieces_read) == 5
    pieces_read.clear()
    after = reader.catalog(TEXT.replace("since: Date?", "since: Date?  until: Date?"))
    assert [text for text in pieces_read if "until" not in text] == []
    assert after.edges["Likes"] != before.edges["Likes"]
    for kind in ("nodes", "edges", "interfaces"):
        old, new = getattr(before, kind), getattr(after, kind)
        assert {name for name in new if new[name] is not old[name]} <= {"Likes", "Knows"}


def test_a_node_follows_the_interfaces_of_its_text(pieces_read: Counter[str]) -> None:
    reader = SchemaReader()
    wider = TEXT.replace("name: String @key }", "name: String @key  nick: String? }")
    for text in (TEXT, wider, TEXT):
        assert outcome(read(reader, text)) == outcome(compiled(text))
    assert sum(pieces_read.values()) == 6
    assert "nick" in reader.catalog(wider).nodes["Person"].properties
    assert reader.catalog(wider).nodes["City"] is reader.catalog(TEXT).nodes["City"]


@pytest.mark.parametrize(
    "wrong",
    [
        TEXT + TEXT.split("\n")[2],
        TEXT.replace("node City", "node Town"),
        TEXT.replace("interface Named", "interface Titled"),
        TEXT.replace("edge In", "edge KNOWS"),
        TEXT.replace("name: String @key", "age: String"),
        TEXT.replace("age: I32?", "age: I32"[:-1]),
        TEXT.replace("edge In: City -> City", "edge In: City -> City }"),
        TEXT.replace("/* } */", "/* }"),
        TEXT.replace("150", '150"'),
        TEXT.replace("since: Date?", "src: Date?"),
        TEXT.replace("since: Date?", "null: Date?"),
    ],
)
def test_what_is_wrong_is_told_as_the_compiler_tells_it(wrong: str) -> None:
    reader = SchemaReader()
    reader.catalog(TEXT)
    found = read(reader, wrong)
    assert isinstance(found, CompileError)
    assert outcome(found) == outcome(compiled(wrong))


def test_rules_for_new_texts_do_not_hold_for_stored_ones() -> None:
    text, reader = "node A { null: I32? }", SchemaReader()
    for stored in (True, False, True):
        assert outcome(read(reader, text, stored=stored)) == outcome(compiled(text, stored=stored))


def test_a_text_that_is_too_long_is_refused_though_its_parts_are_known() -> None:
    reader = SchemaReader()
    reader.catalog("node A {}")
    text = "node A {}" + " " * SOURCE_CHARS_MAX
    assert outcome(read(reader, text)) == outcome(compiled(text))


def test_no_more_is_kept_than_the_limit(pieces_read: Counter[str]) -> None:
    reader = SchemaReader(chars_max=60)
    texts = [f"node Type{number:02} {{ a: I32 }}" for number in range(10)]
    for text in texts:
        reader.catalog(text)
    assert reader.chars_kept <= 60
    reader.catalog(texts[-1])
    reader.catalog(texts[0])
    assert pieces_read[texts[-1]] == 1
    assert pieces_read[texts[0]] == 2
