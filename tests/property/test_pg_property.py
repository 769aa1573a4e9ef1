"""The schema compiler on texts nobody wrote: it never crashes, and equal schemas stay equal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from zlib import crc32

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from lark import Lark
from lark.exceptions import UnexpectedInput

from omnigraph.catalog import accept_initial
from omnigraph.errors import CompileError
from omnigraph.lang.pg_parser import parse_schema
from omnigraph.lang.schema import compile_schema
from omnigraph.lang.source import Diagnostic, Diagnostics, SourceText
from tests.golden.loader import FOLDER, load_cases

T = TypeVar("T")

EXAMPLES = settings().max_examples

CORPUS = sorted({case.source for case in load_cases("pg")})
GRAMMAR = Lark((FOLDER / "pg.lark").read_text(encoding="utf-8"), parser="lalr")

# What the parser refuses although it fits the grammar.
BEYOND_GRAMMAR = (
    "duplicate enum value",
    "is out of range",
    "integer is larger",
    "number is too large",
    "nested deeper",
)
HALVES = st.sampled_from(["\ud800", "\udbff", "\udc00", "\udfff"])

VOCABULARY = r"""
    node edge interface implements enum Vector String I32 Date Blob A B N I a b id src true null
    { } ( ) [ ] , : -> ? @ = - .. . * / 0 7 42 1.5 007 99999999999999999999 "x" "" "a\\d" $v
    @key @unique @index @range @check @card @embed @default @description @rename_from @foo @Key
    @key(a) @unique(a,b) @index(src) @range(a,0..1) @range(a,-1.5..) @range(a,..9) @check(a,"x")
    @card(0..1) @card(1..) @embed(a,model="m") @default([1,-2]) @default(x) @foo(x,k=1,j="y")
    a:String b:I32? c:[F64] d:enum(x,y-z,3d) e:Vector(4)? vc-firm /*c*/ /* // implements_I nodeA
"""
TOKENS = sorted(set(VOCABULARY.split()))

_PIECE = re.compile(r'\s+|\w+|"[^"]*"|->|\.\.|.', re.DOTALL)

separators = st.sampled_from([" ", "\n", "", " /* c */ ", "// c\n", "\t"])


@st.composite
def soups(draw: st.DrawFn) -> str:
    """Tokens in no order at all."""
    words = draw(st.lists(st.sampled_from(TOKENS), max_size=25))
    return "".join(word + draw(separators) for word in words)


@st.composite
def mutants(draw: st.DrawFn) -> str:
    """A fixture with a few tokens dropped, doubled, moved or replaced."""
    pieces = _PIECE.findall(draw(st.sampled_from(CORPUS)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(pieces)))
        match draw(st.sampled_from(["drop", "double", "swap", "insert", "space"])):
            case "drop":
                del pieces[at : at + draw(st.integers(1, 3))]
            case "double":
                pieces[at:at] = pieces[at : at + draw(st.integers(1, 4))]
            case "swap":
                pieces[at : at + 2] = reversed(pieces[at : at + 2])
            case "insert":
                pieces.insert(at, draw(st.sampled_from(TOKENS)))
            case _:
                pieces.insert(at, draw(separators))
    return "".join(pieces)


@st.composite
def splices(draw: st.DrawFn) -> str:
    """The start of one fixture and the end of another, with any text in between."""
    left, right = draw(st.sampled_from(CORPUS)), draw(st.sampled_from(CORPUS))
    start = draw(st.integers(0, len(left)))
    end = draw(st.integers(0, len(right)))
    return left[:start] + draw(st.text(max_size=5)) + right[end:]


@st.composite
def assemblies(draw: st.DrawFn) -> str:
    """Declarations put together from likely parts; most of them parse."""
    heads = st.sampled_from(["node A", "node B", "interface I", "edge E: A -> B", "edge F:A->A"])
    extras = st.sampled_from(
        ["", "@foo", "@card(0..1)", "implements I", "implements I, J", "@key(a)", '@x("y", k=z)']
    )
    members = st.sampled_from(
        [
            "a: String",
            "b: I32?",
            "node: [Date]",
            "v: Vector(3)",
            "s: enum(a-b, 1c)",
            "@key",
            "@key(a)",
            "@unique (a, b)",
            "@range(b, -1..2.5)",
            "@foo",
            "@foo([1, x,], k=-1)",
            "@card",
            "@/* c */index",
            "@index // c\n(a)",
            ",",
        ]
    )
    parts: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        parts += [draw(heads), draw(extras), draw(extras)]
        parts += ["{", *draw(st.lists(members, max_size=6)), "}"] if draw(st.booleans()) else ["{}"]
    return "".join(part + (draw(separators) or " ") for part in parts)


@st.composite
def extremes(draw: st.DrawFn) -> str:
    """Deep nesting, endless numbers, long words and long files."""
    many = draw(st.integers(1, 6000))
    digits = str(draw(st.integers(1, 9))) * many
    return draw(
        st.sampled_from(
            [
                f"node A {{ a: [I32] @default({'[' * many}1{']' * many}) }}",
                f"node A {{ a: String @foo({'[' * many}",
                f"node A {{ v: Vector({digits}) }}",
                f"node A {{ v: Vector({'0' * many}4) a: F64 @range(a, {'0' * many}.5..) }}",
                f"node A {{ a: F64 @range(a, -{digits}.{digits}..{digits}) }}",
                f"node A {{ a: F64 @default({digits}.0) b: U64 @default({digits}) }}",
                f"node A {{}} edge E: A -> A @card(0..{digits})",
                f"node A{digits} {{ a{digits}: String @rename_from(b{digits}) }}",
                f"node A {{ s: enum({digits}, x{'-' * many}) }}",
                f'node A {{ a: String @check(a, "{"(" * many}x{")" * many}") }}',
                f'node A {{ a: String @check(a, "(x{{1000}}){{{digits[:4]}}}") }}',
                "node A { " * many,
                "}" * many,
                "@" * many,
                "/*" * many,
                '"' * many,
                f"node A {{ {'a: String @foo ' * (many // 20)} }}",
            ]
        )
    )


def findings(text: str) -> tuple[object, ...]:
    """Compile a text and return what was reported; a schema that compiles can be accepted."""
    try:
        compiled = compile_schema(text)
    except CompileError as error:
        return error.diagnostics or ("an error without a reason",)
    assert json.loads(accept_initial(compiled.catalog, domain="D").ir_text())
    return compiled.warnings


def check_never_crashes(text: str) -> None:
    for found in findings(text):
        assert isinstance(found, Diagnostic)
        assert 0 <= found.span.start <= found.span.end <= len(text)
        assert found.render().encode()
        assert json.dumps(found.to_json())


@given(st.text())
def test_any_text_compiles_or_is_refused(text: str) -> None:
    check_never_crashes(text)


@given(st.sampled_from(CORPUS), HALVES, st.integers(0, 200))
def test_half_a_character_is_refused_wherever_it_stands(text: str, half: str, at: int) -> None:
    broken = text[:at] + half + text[at:]
    (found,) = findings(broken)
    assert isinstance(found, Diagnostic)
    assert found.message == "text is not valid Unicode"
    assert broken[found.span.start : found.span.end] == half
    check_never_crashes(broken)


@given(st.text(alphabet='nodeAI{}()[]@:,?->.."\\/*#$ \t\r\n0129_', max_size=60))
def test_any_text_of_the_language_s_characters_compiles_or_is_refused(text: str) -> None:
    check_never_crashes(text)


@given(st.one_of(soups(), mutants(), splices(), assemblies()))
def test_any_broken_schema_compiles_or_is_refused(text: str) -> None:
    check_never_crashes(text)


@settings(max_examples=EXAMPLES // 2)
@given(extremes())
def test_any_extreme_compiles_or_is_refused(text: str) -> None:
    check_never_crashes(text)


def parses(text: str) -> bool:
    """Whether our parser accepts a text; not a fair question when only a limit is in the way."""
    diagnostics = Diagnostics(SourceText("t", text))
    parse_schema(diagnostics.source, diagnostics)
    assume(not any(limit in d.message for d in diagnostics.items for limit in BEYOND_GRAMMAR))
    return not diagnostics.items


def fits_the_grammar(text: str) -> bool:
    try:
        GRAMMAR.parse(text)
    except UnexpectedInput:
        return False
    return True


@given(st.one_of(soups(), mutants(), splices(), assemblies()))
@settings(max_examples=EXAMPLES * 4)
@example("node A { a: String @key/**/(a) @/*x*/foo /* y */ @ // z\nkey }")
@example("interface I { a: String @key(a) }")
@example("nodeA {}")
def test_parser_and_grammar_accept_the_same_texts(text: str) -> None:
    assert parses(text) == fits_the_grammar(text)


@pytest.mark.parametrize("text", CORPUS)
def test_parser_and_grammar_accept_the_same_fixtures(text: str) -> None:
    diagnostics = Diagnostics(SourceText("t", text))
    parse_schema(diagnostics.source, diagnostics)
    if any(limit in d.message for d in diagnostics.items for limit in BEYOND_GRAMMAR):
        assert fits_the_grammar(text)
    else:
        assert fits_the_grammar(text) == (not diagnostics.items)


@dataclass(frozen=True)
class Parts:
    """One declaration in pieces whose order means nothing."""

    opening: str
    head: tuple[str, ...]
    members: tuple[str, ...]

    def write(self, head: Iterable[str], members: Iterable[str], between: str) -> str:
        return f"{self.opening} {' '.join(head)} {{ {between.join(members)} }}"


PROPERTIES = (
    ("flag", "Bool"),
    ("size", "I32"),
    ("rate", "F64?"),
    ("label", "String"),
    ("state", "enum(on, off, idle)"),
    ("born", "Date"),
    ("tags", "[String]"),
    ("face", "Vector(3)?"),
    ("data", "Blob?"),
)
SCALARS = ("born", "flag", "label", "rate", "size", "state")
ANNOTATIONS = (
    "",
    "@tag(x)",
    '@description("d") @tag(1, k=2) @tag',
    '@rename_from("r") @tag',
    '@tag(1, j=2) @tag("1", k=3) @tag([ 1,- 2 ])',
)
FLAGS = ("", "@unique", "@index", "@index @unique")
HEADS = (
    (),
    ("@mark",),
    ('@description("n")', "@mark(2)", "@mark", '@mark("")', "@mark(2, k=1)", "@mark(2, j=1)"),
    ('@instruction("i")',),
)

property_choices = st.lists(
    st.tuples(st.sampled_from(PROPERTIES), st.sampled_from(ANNOTATIONS), st.sampled_from(FLAGS)),
    unique_by=lambda choice: choice[0],
    max_size=6,
)
constraint_choices = st.lists(
    st.tuples(
        st.sampled_from(["@unique", "@index"]),
        st.lists(st.sampled_from([*SCALARS, "src", "dst"]), min_size=1, max_size=3),
    ),
    max_size=3,
)
head_choices = st.sampled_from(HEADS)


@st.composite
def properties(draw: st.DrawFn, prefix: str = "") -> list[str]:
    """Properties with annotations."""
    return [
        f"{prefix}{name}: {declared} {annotations} {flags if name in SCALARS else ''}"
        for (name, declared), annotations, flags in draw(property_choices)
    ]


@st.composite
def constraints(draw: st.DrawFn, members: list[str], *columns: str) -> list[str]:
    """Constraints over the scalar properties among `members`, and over `columns`."""
    known = {*columns, *(item.split(":")[0] for item in members)}
    return [
        f"{word}({', '.join(names)})"
        for word, names in draw(constraint_choices)
        if known.issuperset(names)
    ]


@st.composite
def schemas(draw: st.DrawFn) -> list[Parts]:
    """A schema that compiles, in pieces."""
    found: list[Parts] = []
    interfaces = [f"I{number}" for number in range(draw(st.integers(0, 2)))]
    for name in interfaces:
        members = draw(properties(prefix=f"{name.lower()}_"))
        found.append(Parts(f"interface {name}", (), tuple(members)))
    for number in range(draw(st.integers(1, 3))):
        members = draw(properties())
        names = {item.split(":")[0] for item in members}
        members += draw(constraints(members))
        if "label" in names:
            members += ['@check(label, "x")', '@check(label, "y")', "@key(label)"]
        if "size" in names:
            members += ["@range(size, 0..9)", "@range(size, ..12)", "@range(size, -0.0..9.0)"]
        head = draw(head_choices)
        if interfaces:
            head += (f"implements {', '.join(reversed(interfaces))}",)
        found.append(Parts(f"node N{number}", head, tuple(members)))
    for number in range(draw(st.integers(0, 2))):
        members = draw(properties())
        members += draw(constraints(members, "src", "dst"))
        head = (*draw(head_choices), *draw(st.sampled_from([(), ("@card(0..2)",)])))
        found.append(Parts(f"edge E{number}: N0 -> N0", head, tuple(members)))
    return found


def shuffle(items: Iterable[T], seed: int, name: Callable[[T], str] = str) -> list[T]:
    return sorted(items, key=lambda item: crc32(f"{seed} {name(item)}".encode()))


@given(
    schemas(), st.integers(0, 2**32 - 1), st.sampled_from([" ", ", ", "\n", " // c\n", " /**/ "])
)
def test_order_changes_nothing(parts: list[Parts], seed: int, between: str) -> None:
    plain = "\n".join(item.write(item.head, item.members, " ") for item in parts)
    shuffled = "\n".join(
        item.write(shuffle(item.head, seed), shuffle(item.members, seed), between)
        for item in shuffle(parts, seed, lambda item: item.opening)
    )
    one, two = (
        accept_initial(compile_schema(text).catalog, domain="D") for text in (plain, shuffled)
    )
    assert one.shape_hash == two.shape_hash
    assert one.ir_text() == two.ir_text()
    assert one.catalog == two.catalog


COMPILE_FILES = """
import sys
from omnigraph.catalog import accept_initial
from omnigraph.errors import CompileError
from omnigraph.lang.schema import compile_schema

for text in open(sys.argv[1], encoding="utf-8").read().split("\\x00"):
    try:
        compiled = compile_schema(text)
    except CompileError as error:
        sys.stdout.write(str(error))
    else:
        sys.stdout.write(accept_initial(compiled.catalog, domain="D").ir_text())
        sys.stdout.write("".join(item.render() for item in compiled.warnings))
"""


def test_output_does_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.write_text("\x00".join(CORPUS), encoding="utf-8")
    outputs = []
    for seed in ("1", "2"):
        command = [sys.executable, "-c", COMPILE_FILES, str(corpus)]
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"}
        done = subprocess.run(  # noqa: S603 -- our own interpreter and a constant script
            command, env=environment, capture_output=True, check=True
        )
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > len("".join(CORPUS))
