"""Reading many lines at once gives what reading them one by one gives, problems included."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.intake import envelopes
from omnigraph.intake.envelope_batch import BatchParser
from omnigraph.intake.envelopes import EnvelopeReader
from omnigraph.lang.schema import compile_schema
from omnigraph.rows.problems import Problems

SCHEMA = """
node P {
  k: String @key
  i: I32?
  u: U64?
  f: F32?
  d: F64 @default(1.5)
  b: Bool?
  day: Date?
  at: DateTime?
  tags: [String]?
  days: [Date]?
  numbers: [I64]?
  v: Vector(2)?
  color: enum(red, green)?
  word: String? @default("w")
}
node Bare { x: I64? }
edge E: P -> P { since: I32? }
"""
CATALOG = compile_schema(SCHEMA).catalog


def read(lines: list[bytes], monkeypatch: pytest.MonkeyPatch, least: int) -> Any:
    """Return rows and lines per type, and every problem."""
    with monkeypatch.context() as patch:
        patch.setattr(envelopes, "BATCH_LINES_MIN", least)
        problems = Problems()
        reader = EnvelopeReader(CATALOG, problems)
        reader.read(lines)
        rows = {
            key: (found.table().to_pylist(), list(found.lines))
            for key, found in reader.types.items()
        }
        return rows, [problem.to_json() for problem in problems.items]


def same(lines: list[bytes], monkeypatch: pytest.MonkeyPatch) -> Any:
    at_once, one_by_one = (read(lines, monkeypatch, least) for least in (1, len(lines) + 1))
    # NaN is no value of any type, so plain equality will do.
    assert at_once == one_by_one
    return at_once


FIELDS = {
    b"k": [b'"a"', b'"\\u00e9"', b'"\xc3\xa9"', b'""', b"null", b"5", b'"\\ud800"', b'"\xff"'],
    b"i": [b"1", b"-0", b"2147483648", b"1.0", b"1e2", b'"1"', b"null", b"true", b"01"],
    b"u": [b"0", b"18446744073709551615", b"9223372036854775807", b"-1"],
    b"f": [b"0.1", b"5", b"1e40", b"1e-400", b"1e999", b"NaN", b"-Infinity", b"16777217"],
    b"d": [b"2.5", b"null", b"9007199254740993"],
    b"b": [b"true", b"false", b"0", b"null"],
    b"day": [b'"2024-02-29"', b'"2024-2-9"', b'"x"', b"19000", b"null"],
    b"at": [b'"2024-01-01T00:00:00Z"', b'"2024-01-01"', b"1700000000000", b'"nope"'],
    b"tags": [b"[]", b'["a","b"]', b'["a",null]', b'"a"', b"null", b'[["a"]]'],
    b"days": [b'["2024-01-01"]', b'["x"]', b"[]", b"[5]"],
    b"numbers": [b"[1,2]", b"[1.5]", b"[9223372036854775808]", b"[1,null]"],
    b"v": [b"[1,2]", b"[1,2,3]", b"[1,null]", b"[1e39,0]", b"null", b"[NaN,1]"],
    b"color": [b'"red"', b'"blue"', b"null"],
    b"word": [b'"x"', b"null", b'"\\u0000"', b'"a\tb"', b'"say \\"word\\": no"'],
    b"id": [b'"a"', b"null", b"7"],
    b"zz": [b"1"],
}
HEADS = [
    b'{"type":"P","data":{%s}}',
    b'{"type": "P", "data": {%s}}',
    b'{"edge":"E","from":"a","to":"b","data":{%s}}',
    b'{"edge":"E","from":null,"to":"b","data":{%s}}',
    b'{"edge":"E","from":"a","data":{%s}}',
    b'{"edge":"E","id":"e","from":"a","to":"b","data":{%s}}',
    b'{"edge":"E","from":"a","to":"b","data":{%s},"id":"f"}',
    b'{"edge":"E","id":null,"from":"a","to":"b","data":{%s}}',
    b'{"edge":"E","id":"e","id":"f","from":"a","to":"b","data":{%s}}',
    b'{"type":"P","id":"e","data":{%s}}',
    b'{"type":"Bare","data":{%s}}',
    b'{"type":"P","from":"a","data":{%s}}',
    b'{"type":"P","data":{%s}} {"type":"P","data":{"k":"z"}}',
    b'{"data":{%s},"type":"P"}',
    b'{"type":"Nobody","data":{%s}}',
    b'{"type":"P","type":"P","data":{%s}}',
    b'{"type":"P","data":[%s]}',
    b'{"type":"P","data":{%s}',
]


@st.composite
def plain_lines(draw: st.DrawFn) -> bytes:
    """Lines nothing is wrong with, of two types."""
    if draw(st.booleans()):
        since = draw(st.sampled_from([b"", b'"since":3', b'"since":null']))
        id = draw(st.sampled_from([b"", b'"id":"e",']))
        return b'{"edge":"E",%s"from":"a","to":"b","data":{%s}}' % (id, since)
    members = [b'"k":"a"', b'"d":1']
    names = draw(st.lists(st.sampled_from(sorted(FIELDS.keys() - {b"zz", b"k", b"d", b"id"}))))
    members += [b'"%s":%s' % (name, FIELDS[name][0]) for name in dict.fromkeys(names)]
    return b'{"type":"P","data":{%s}}' % b",".join(members)


@st.composite
def any_lines(draw: st.DrawFn) -> bytes:
    """Lines of which about half are wrong somewhere."""
    members = [b'"k":"a"'] if draw(st.booleans()) else []
    names = draw(st.lists(st.sampled_from(sorted(FIELDS)), max_size=3))
    members += [b'"%s":%s' % (name, draw(st.sampled_from(FIELDS[name]))) for name in names]
    return draw(st.sampled_from(HEADS)) % b",".join(members)


@settings(max_examples=150, deadline=None)
@given(lines=st.lists(plain_lines(), min_size=1, max_size=8))
def test_plain_lines_mean_the_same_at_once(lines: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        rows, problems = same(lines, patch)
    assert not problems
    assert sum(len(found) for found, _numbers in rows.values()) == len(lines)


@settings(max_examples=300, deadline=None)
@given(lines=st.lists(any_lines() | plain_lines(), min_size=1, max_size=5))
def test_any_lines_mean_the_same_at_once(lines: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        same(lines, patch)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in FIELDS.items() for value in values]
)
def test_every_value_means_the_same_at_once(
    name: bytes, value: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = b"" if name == b"k" else b'"k":"a",'
    line = b'{"type":"P","data":{%s"%s":%s}}' % (key, name, value)
    same([line], monkeypatch)
    same([b'{"type":"P","data":{"k":"b","d":2}}', line], monkeypatch)


@pytest.mark.parametrize("head", HEADS)
def test_every_envelope_means_the_same_at_once(
    head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    same([head % b""], monkeypatch)
    same([b'{"type":"Bare","data":null}', head % b'"k":"a"'], monkeypatch)


def test_plain_lines_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_args: object) -> bool:
        raise AssertionError("read a line by itself")

    monkeypatch.setattr(EnvelopeReader, "_line", refused)
    edges = [b'{"edge":"E","from":"k1","to":"k2","data":{"since":1}}'] * 100
    plain = [json.dumps({"type": "P", "data": {"k": f"k{n}", "i": n}}).encode() for n in range(100)]
    mixed = [line for pair in zip(plain, edges, strict=True) for line in pair]
    rows, problems = read(mixed, monkeypatch, 64)
    assert not problems
    assert rows["edge:E"][1] == list(range(2, 201, 2))
    assert [row["word"] for row in rows["node:P"][0]] == ["w"] * 100


def test_a_parser_refuses_rather_than_guesses() -> None:
    parser = BatchParser(CATALOG.nodes["P"])
    assert parser.parse([b'{"type":"P","data":{"k":"a"}}']) is not None
    assert parser.parse([b'{"type":"P","data":{"k":"a","k":"b"}}']) is None
    assert parser.parse([b'{"type":"P","data":{"k":"a","word":null}}']) is None
    assert parser.parse([b'{"type":"P"}']) is None


def test_the_id_of_an_edge_may_stand_beside_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        b'{"edge":"E","id":"e1","from":"a","to":"b"}',
        b'{"edge":"E","from":"a","to":"b","data":{"id":"e2","since":3}}',
        b'{"edge":"E","from":"a","to":"b","data":{"since":4}}',
        b'{"edge":"E","from":"a","to":"b","id":"e3","data":{"since":5}}',
    ]
    rows, problems = same(lines, monkeypatch)
    assert not problems
    found = [(row["id"], row["since"]) for row in rows["edge:E"][0]]
    assert found == [("e1", None), ("e2", 3), (None, 4), ("e3", 5)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"edge":"E","id":"e","from":"a","to":"b","data":{"id":"e"}}', "given twice"),
        (b'{"edge":"E","id":7,"from":"a","to":"b"}', "'id' must be a string"),
        (b'{"type":"P","id":"e","data":{"k":"a"}}', "stands in 'data'"),
    ],
)
def test_an_id_out_of_place_is_a_problem(
    line: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, problems = same([line], monkeypatch)
    assert not rows
    assert message in problems[0]["message"]
