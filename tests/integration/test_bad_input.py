"""Input that cannot be loaded: what the caller is told, and that nothing changes.

Every case is tried through Python and through the command line. The messages are the ones
`docs/loading.md` shows.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.intake import envelopes
from omnigraph.rows import problems as problems_module
from tests.integration.conftest import Cli
from tests.integration.helpers import NewGraph, edge, files, head, jsonl, load, messages, node

SCHEMA = """\
node Person {
    name: String @key
    age: I32?
    level: U32?
    score: F64?
    ratio: F32?
    born: Date?
    seen: DateTime?
    tags: [String]?
    team: enum(red, blue)?
    photo: Blob?
    face: Vector(2)?
    code: String?
    active: Bool?
    mail: String? @unique
    @range(age, 0..150)
    @check(code, "^[A-Z]+$")
}
node Team {
    title: String
    note: String?
}
edge Member: Person -> Team @card(0..1) {
    since: Date?
}
"""
GOOD = '{"type":"Team","data":{"id":"t","title":"T"}}'
PERSON = '{"type":"Person","data":{"name":"p"%s}}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A line that is refused: what is said about it, and which field is blamed."""

    name: str
    line: str | bytes
    message: str
    field: str | None = None
    type_name: str | None = None


def person(name: str, value: str, message: str, field: str) -> Case:
    """A case about one property of a Person."""
    line = PERSON % f',"{field}":{value}'
    return Case(name=name, line=line, message=message, field=field, type_name="Person")


FRAMING = [
    Case(
        name="malformed JSON",
        line='{"type":"Person","data":{"name":"p"}',
        message="not valid JSON: Input data was truncated",
    ),
    Case(
        name="two objects in a line",
        line=f"{GOOD} {GOOD}",
        message="not valid JSON: trailing characters",
    ),
    Case(name="a comment", line="// people", message="not valid JSON: invalid character"),
    Case(
        name="a raw NUL byte",
        line=b'{"type":"Person","data":{"name":"p\x00"}}',
        message="not valid JSON: invalid character",
    ),
    Case(
        name="invalid UTF-8 in the envelope",
        line=b'{"type":"P\xff","data":{}}',
        message="not valid JSON: not valid UTF-8 (invalid start byte)",
    ),
    Case(name="not an object", line="[1]", message="expected a JSON object"),
    Case(name="neither type nor edge", line="{}", message="expected 'type' or 'edge' field"),
    Case(
        name="both type and edge",
        line='{"type":"Person","edge":"Member"}',
        message="has both 'type' and 'edge'",
    ),
    Case(
        name="unknown top-level field",
        line='{"type":"Person","data":{"name":"p"},"x":1}',
        message="unknown top-level graph batch field 'x'",
    ),
    Case(name="type is not a string", line='{"type":1}', message="'type' must be a string"),
    Case(
        name="unknown node type",
        line='{"type":"Persn","data":{}}',
        message="unknown node type 'Persn'; did you mean 'Person'?",
        type_name="Persn",
    ),
    Case(
        name="node type in another case",
        line='{"type":"person","data":{}}',
        message="unknown node type 'person'; did you mean 'Person'?",
        type_name="person",
    ),
    Case(
        name="unknown edge type",
        line='{"edge":"Likes","from":"p","to":"t"}',
        message="unknown edge type 'Likes'",
        type_name="Likes",
    ),
    Case(
        name="a node with ends",
        line='{"type":"Person","from":"p","data":{"name":"p"}}',
        message="a node has no 'from' or 'to'",
        type_name="Person",
    ),
    Case(
        name="an edge without an end",
        line='{"edge":"Member","from":"p"}',
        message="edge Member needs 'to'",
        field="to",
    ),
    Case(
        name="an end that is not a string",
        line='{"edge":"Member","from":1,"to":"t"}',
        message="'from' must be a string",
    ),
    Case(
        name="data is not an object",
        line='{"type":"Person","data":[1]}',
        message="data: expected an object",
        field="data",
        type_name="Person",
    ),
    Case(
        name="id is not a string",
        line='{"type":"Team","data":{"id":7,"title":"x"}}',
        message="data: 'id' must be a string",
        field="id",
        type_name="Team",
    ),
    Case(
        name="id does not match the key",
        line='{"type":"Person","data":{"id":"q","name":"p"}}',
        message="id 'q' does not match the key: expected 'p'",
        field="id",
        type_name="Person",
    ),
    Case(
        name="a member twice in data",
        line='{"type":"Person","data":{"name":"p","age":1,"age":2}}',
        message="member 'age' appears twice",
        field="age",
    ),
    Case(
        name="a member twice in the envelope",
        line='{"type":"Person","type":"Person","data":{"name":"p"}}',
        message="member 'type' appears twice",
        field="type",
    ),
    Case(
        name="unknown field",
        line='{"type":"Person","data":{"name":"p","size":1}}',
        message="unknown input field 'size' for 'node:Person'",
        field="size",
        type_name="Person",
    ),
    Case(
        name="reserved field",
        line='{"type":"Person","data":{"name":"p","_rowid":1}}',
        message="reserved input field '_rowid' for 'node:Person'",
        field="_rowid",
        type_name="Person",
    ),
    Case(
        name="an end inside data",
        line='{"edge":"Member","from":"p","to":"t","data":{"src":"p"}}',
        message="reserved input field 'src' for 'edge:Member'",
        field="src",
        type_name="Member",
    ),
]

INTEGERS = "property 'age' expects I32?, got "
VALUES = [
    person("text for an integer", '"1"', INTEGERS + "a string", "age"),
    person("fraction for an integer", "1.5", INTEGERS + "a float", "age"),
    person("boolean for an integer", "true", INTEGERS + "a boolean", "age"),
    person("list for an integer", "[1]", INTEGERS + "array", "age"),
    person(
        "integer above the range",
        "2147483648",
        "property 'age': 2147483648 is outside the range of I32 (-2147483648 to 2147483647)",
        "age",
    ),
    person(
        "negative unsigned integer",
        "-1",
        "property 'level': -1 is outside the range of U32 (0 to 4294967295)",
        "level",
    ),
    person("text for a float", '"1"', "property 'score' expects F64?, got a string", "score"),
    person("number beyond a double", "1e400", "property 'score' expects F64?, got ", "score"),
    person("number beyond an F32", "1e39", "property 'ratio': expected a finite number", "ratio"),
    Case(name="NaN", line=PERSON % ',"score":NaN', message="not valid JSON: invalid character"),
    person(
        "text for a boolean", '"yes"', "property 'active' expects Bool?, got a string", "active"
    ),
    person("number for a string", "1", "property 'code' expects String?, got an integer", "code"),
    person("impossible date", '"2025-02-30"', "property 'born': ", "born"),
    person(
        "text that is not a date", '"soon"', "property 'born': 'soon' is not of the form", "born"
    ),
    person("fraction for a date", "1.5", "property 'born' expects Date?, got a float", "born"),
    person(
        "day after the year 9999",
        "2932897",
        "property 'born': 2932897 is outside the years 1 to 9999 (-719162 to 2932896 days ",
        "born",
    ),
    person(
        "day before the year 1",
        "-719163",
        "property 'born': -719163 is outside the years 1 to 9999",
        "born",
    ),
    person("day far away", "99999999999", "property 'born': 99999999999 is outside ", "born"),
    person(
        "instant after the year 9999",
        "253402300800000",
        "property 'seen': 253402300800000 is outside the years 1 to 9999",
        "seen",
    ),
    person("instant far away", "9007199254740992", "property 'seen': 9007199254740992 is", "seen"),
    person("impossible hour", '"2025-03-01T25:00:00Z"', "property 'seen': ", "seen"),
    person("scalar for a list", '"a"', "property 'tags' expects [String]?, got a string", "tags"),
    person("null in a list", '["a",null]', "property 'tags' expects [String]?, got null", "tags"),
    person("bad base64", '"base64:!!"', "property 'photo': not valid base64: Only ", "photo"),
    person("unpadded base64", '"base64:YQ"', "property 'photo': not valid base64: Inc", "photo"),
    person(
        "external blob",
        '"s3://bucket/key"',
        "property 'photo': external blob 's3://bucket/key' is not admitted",
        "photo",
    ),
    person(
        "wrong vector length",
        "[1,2,3]",
        "property 'face': expected 2 values for Vector(2), got 3",
        "face",
    ),
    person("null in a vector", "[1,null]", "property 'face' expects Vector(2)?, got null", "face"),
    person("huge vector element", "[1,1e39]", "property 'face': a vector must hold", "face"),
    Case(
        name="missing key",
        line='{"type":"Person","data":{"age":1}}',
        message="missing required property 'name'",
        field="name",
        type_name="Person",
    ),
    Case(
        name="missing required property",
        line='{"type":"Team","data":{"id":"u"}}',
        message="missing required property 'title'",
        field="title",
        type_name="Team",
    ),
    Case(
        name="null for a required property",
        line='{"type":"Team","data":{"id":"u","title":null}}',
        message="property 'title' expects String, got null",
        field="title",
        type_name="Team",
    ),
]

RULES = [
    person(
        "value outside an enum",
        '"pink"',
        "invalid enum value 'pink' for Person.team (expected: blue, red)",
        "team",
    ),
    person(
        "value above a range",
        "151",
        "@range violation on Person.age: value 151 > max 150",
        "age",
    ),
    person(
        "value that fails a check",
        '"a1"',
        "@check violation on Person.code: value 'a1' does not match pattern '^[A-Z]+$'",
        "code",
    ),
    person(
        "unique value that is taken",
        '"m@x"',
        "@unique violation on Person.mail: value 'm@x' held by 'old' and 'p'",
        "mail",
    ),
    Case(
        name="missing endpoint",
        line='{"edge":"Member","from":"nobody","to":"t"}',
        message="Member: src 'nobody' not found in Person",
        field="from",
        type_name="Member",
    ),
    Case(
        name="duplicate id",
        line=GOOD,
        message="duplicate id 't' of Team (also on line 1)",
        field="id",
        type_name="Team",
    ),
]
CASES = FRAMING + VALUES + RULES


@pytest.fixture
def graph(new_graph: NewGraph) -> og.Graph:
    made = new_graph(SCHEMA)
    load(made, [node("Person", name="old", mail="m@x")])
    return made


def refuse(graph: og.Graph, data: bytes) -> og.DataError:
    """Load what must be refused, and check that the graph is as it was."""
    before, commit = files(graph.uri), head(graph)
    with pytest.raises(og.DataError) as refused:
        graph.load(data, mode="append")
    assert head(graph) == commit
    assert files(graph.uri) == before
    return refused.value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_bad_line_is_refused_with_its_place(graph: og.Graph, case: Case) -> None:
    line = case.line if isinstance(case.line, bytes) else case.line.encode()
    error = refuse(graph, jsonl(GOOD, "") + line + b"\n")
    assert error.message.startswith("1 problem in the input; nothing was written:\nline 3: ")
    (problem,) = error.problems
    assert problem["line"] == 3
    assert str(problem["message"]).startswith(case.message)
    assert problem.get("field") == case.field
    if case.type_name is not None:
        assert problem.get("type") == case.type_name


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_command_line_says_the_same_and_exits_with_1(
    graph: og.Graph, cli: Cli, tmp_path: Path, case: Case
) -> None:
    line = case.line if isinstance(case.line, bytes) else case.line.encode()
    (tmp_path / "in.jsonl").write_bytes(jsonl(GOOD, "") + line + b"\n")
    before = files(graph.uri)
    shown = cli("load", graph.uri, "--data", "in.jsonl", "--mode", "append", "--quiet")
    assert (shown.code, shown.out) == (1, "")
    assert shown.err.startswith("error: 1 problem in in.jsonl; nothing was written:\nline 3: ")
    assert case.message in shown.err
    assert files(graph.uri) == before


ROW = re.compile(r"^\| ([^|`]+) \| `([^`]+)` \|$", re.MULTILINE)


def test_the_documentation_shows_every_case_and_its_message() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "loading.md"
    section = page.read_text(encoding="utf-8").partition("\n## Bad input\n")[2]
    shown = dict(ROW.findall(section))
    assert list(shown) == [case.name for case in CASES]
    for case in CASES:
        text, cut, _rest = shown[case.name].partition("...")
        assert case.message.startswith(text.rstrip() if cut else case.message), case.name
        assert cut or text == case.message, case.name


# ---- several problems ---------------------------------------------------------------------


def test_all_problems_of_a_file_are_collected_in_line_order(graph: og.Graph) -> None:
    error = refuse(
        graph,
        jsonl(
            '{"type":"Nope"}',
            GOOD,
            "{",
            PERSON % ',"age":"x"',
            PERSON % ',"born":"x"',
            PERSON % ',"tags":1',
        ),
    )
    assert [problem["line"] for problem in error.problems] == [1, 3, 4, 5, 6]
    assert error.message.splitlines()[0] == "5 problems in the input; nothing was written:"


def test_broken_rules_of_several_lines_are_collected(graph: og.Graph) -> None:
    error = refuse(
        graph,
        jsonl(
            '{"type":"Person","data":{"name":"a","age":-1,"team":"x"}}',
            '{"type":"Person","data":{"name":"b","code":"c","mail":"m@x"}}',
            '{"edge":"Member","from":"a","to":"none"}',
            '{"edge":"Member","from":"a","to":"none"}',
        ),
    )
    found = messages(error)
    assert len(found) == 7
    assert "@card violation on edge Member: source 'a' has 2 edges (max 1)" in found


def test_ten_problems_are_shown_and_the_rest_counted(graph: og.Graph) -> None:
    error = refuse(graph, jsonl(*(["{"] * 25)))
    shown = error.message.splitlines()
    assert len(shown) == 12
    assert shown[0] == "25 problems in the input; nothing was written:"
    assert shown[-1] == "... and 15 more"
    assert len(error.problems) == 25


def test_reading_stops_when_the_limit_of_problems_is_reached(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = problems_module.Problems.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "limit", 5)
    error = refuse(graph, jsonl(*(["{"] * 50)))
    assert [problem["line"] for problem in error.problems] == [1, 2, 3, 4, 5]


def test_a_line_beyond_the_limit_is_refused(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(envelopes, "LINE_BYTES_MAX", 60)
    error = refuse(graph, jsonl(GOOD, PERSON % f',"code":"{"A" * 40}"'))
    assert [(p["line"], p["message"]) for p in error.problems] == [
        (2, "the line has more than 60 bytes")
    ]


def test_problems_are_json_on_the_wire(graph: og.Graph, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(jsonl(PERSON % ',"age":"x"'))
    shown = cli("load", graph.uri, "--data", "in.jsonl", "--mode", "merge", "--json")
    assert shown.code == 1
    assert shown.json["type"] == "data"
    assert shown.json["data_errors"] == {
        "problems": [
            {
                "line": 1,
                "type": "Person",
                "field": "age",
                "message": "property 'age' expects I32?, got a string",
            }
        ]
    }


def test_overwrite_and_merge_refuse_the_same_input(graph: og.Graph) -> None:
    for mode in ("merge", "overwrite"):
        with pytest.raises(og.DataError, match="@range violation"):
            graph.load([node("Person", name="p", age=151)], mode=mode)


def test_cardinality_over_stored_and_new_edges_is_refused(graph: og.Graph) -> None:
    load(graph, [node("Team", id="t", title="T"), edge("Member", "old", "t")])
    error = refuse(graph, jsonl('{"edge":"Member","from":"old","to":"t"}'))
    assert messages(error) == ["@card violation on edge Member: source 'old' has 2 edges (max 1)"]


def test_a_key_twice_in_a_file_is_refused_with_both_lines(graph: og.Graph) -> None:
    error = refuse(graph, jsonl(PERSON % "", GOOD, PERSON % ',"age":1'))
    assert messages(error) == ["duplicate id 'p' of Person (also on line 1)"]
    assert error.problems[0]["line"] == 3


def test_a_file_of_the_wrong_kind_is_refused_at_its_first_lines(graph: og.Graph) -> None:
    error = refuse(graph, bytes(range(256)) * 4)
    assert error.problems[0]["line"] == 1
    table = json.dumps([{"name": "a"}], indent=1).encode()
    assert refuse(graph, table).problems[0]["message"] == "expected a JSON object"


# ---- input that is easily overlooked ------------------------------------------------------


def test_invalid_utf8_inside_data_is_refused(graph: og.Graph) -> None:
    found = messages(refuse(graph, b'{"type":"Person","data":{"name":"\xff\xfe"}}'))
    assert found == ["not valid JSON: not valid UTF-8 (invalid start byte)"]


def test_deep_nesting_is_refused(graph: og.Graph) -> None:
    found = messages(refuse(graph, (PERSON % f',"tags":{"[" * 3000}{"]" * 3000}').encode()))
    assert found == ["not valid JSON: nested too deeply"]


@pytest.mark.parametrize(
    "line",
    [
        '{"type":"Team","data":{"id":"u","title":"a","title":"b"}}',
        '{"type":"Team","data":{"title":"a","title":"b"},"data":{"title":"c"}}',
        '{"type":"Person","data":{"name":"p","age" :1,"age":2}}',
    ],
)
def test_a_member_twice_is_refused_however_it_is_written(graph: og.Graph, line: str) -> None:
    assert "appears twice" in messages(refuse(graph, jsonl(line)))[0]


def test_a_node_with_one_end_is_refused_wherever_it_stands(graph: og.Graph) -> None:
    lines = [
        '{"type":"Team","data":{"title":"a"}}',
        '{"type":"Team","from":"x","data":{"title":"b"}}',
    ]
    assert messages(refuse(graph, jsonl(*lines))) == ["a node has no 'from' or 'to'"]


def test_rows_without_a_key_are_reported_once_each(graph: og.Graph) -> None:
    error = refuse(graph, jsonl(*(['{"type":"Person","data":{"age":1}}'] * 2)))
    assert messages(error) == ["missing required property 'name'"] * 2


def test_an_infinite_list_element_is_refused(new_graph: NewGraph) -> None:
    graph = new_graph("node Item { k: String @key  l: [F32]? }", name="lists")
    found = messages(refuse(graph, jsonl('{"type":"Item","data":{"k":"a","l":[1e39]}}')))
    assert found == ["property 'l': expected a finite number, got [inf]"]


def test_nan_in_an_envelope_is_refused(graph: og.Graph) -> None:
    with pytest.raises(og.DataError):
        load(graph, [node("Person", name="p", score=float("nan"))])


def test_a_foreign_object_in_an_envelope_is_refused(graph: og.Graph) -> None:
    with pytest.raises(og.OmniGraphError):
        load(graph, [node("Person", name=object())])
