"""Search in queries: what each predicate and ranking means, on any variable of a pattern."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import omnigraph as og
from tests.integration.helpers import Envelope, edge, node
from tests.places import AnyPath

SCHEMA = """\
node Person { name: String @key  motto: String? }
node Doc {
    slug: String @key
    body: String? @index
    title: String?
    vec: Vector(2)? @index
    kind: I32
}
edge Wrote: Person -> Doc
edge Cites: Doc -> Doc
"""

DOCS: list[Envelope] = [
    node("Doc", slug="d1", body="The quick brown fox jumps", title="Foxes", vec=[0, 0], kind=1),
    node("Doc", slug="d2", body="brown quick fox", title="Order", vec=[3, 4], kind=1),
    node("Doc", slug="d3", body="a naïve Café; state-of-the-art", title="Art", vec=[0, 1], kind=2),
    node("Doc", slug="d4", body="quick quick quick", vec=[0, 1], kind=2),
    node("Doc", slug="d5", kind=1),
    node("Doc", slug="d6", body="to be or not to be", title="Hamlet", vec=[9, 9], kind=2),
]
REST: list[Envelope] = [
    node("Person", name="ann", motto="Be quick"),
    node("Person", name="bob", motto="slow and steady"),
    node("Person", name="cy"),
    edge("Wrote", "ann", "d1"),
    edge("Wrote", "ann", "d4"),
    edge("Wrote", "bob", "d4"),
    edge("Wrote", "bob", "d2"),
    edge("Cites", "d1", "d2"),
    edge("Cites", "d4", "d3"),
]


@pytest.fixture(scope="module", params=["none", "partial", "full"])
def graph(module_place: AnyPath, request: pytest.FixtureRequest) -> Iterator[og.Graph]:
    """The graph with no index, with indexes that miss later rows, and with all of them."""
    with og.init(module_place / request.param, SCHEMA, durability="none") as found:
        found.load(DOCS, mode="append")
        if request.param == "partial":
            found.maintenance.ensure_indices()
        found.load(REST, mode="append")
        if request.param == "full":
            found.maintenance.ensure_indices()
        yield found


def ask(graph: og.Graph, body: str, signature: str = "", **params: object) -> list[tuple[Any, ...]]:
    result = graph.query(f"query q({signature}) {{ {body} }}", params)
    return list(zip(*(c.to_pylist() for c in result.to_arrow().columns), strict=True))


def docs(graph: og.Graph, condition: str, **params: object) -> list[str]:
    """Return the slugs of the documents a condition keeps, sorted."""
    signature = ", ".join(
        f"${name}: {'I64' if isinstance(value, int) else 'String?'}"
        for name, value in params.items()
    )
    found = ask(graph, f"match {{ $d: Doc {condition} }} return {{ $d }}", signature, **params)
    return sorted(row[0] for row in found)


# ---- text predicates ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("fox", ["d1", "d2"]),
        ("FOX!", ["d1", "d2"]),
        ("foxes", ["d1", "d2"]),
        ("jumping", ["d1"]),
        ("naive", ["d3"]),
        ("CAFÉ", ["d3"]),
        ("fox naive", ["d1", "d2", "d3"]),
        ("the fox", ["d1", "d2"]),
        ("the", ["d1", "d3"]),
        ("art", ["d3"]),
        ("elephant", []),
    ],
)
def test_search_finds_any_word_of_the_query(graph: og.Graph, query: str, found: list[str]) -> None:
    assert docs(graph, "search($d.body, $q)", q=query) == found


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("quick brown", ["d1"]),
        ("brown quick", ["d2"]),
        ("quick fox", ["d2"]),
        ("Quick, brown... FOXES", ["d1"]),
        ("state of the art", ["d3"]),
        ("of the", ["d3"]),
        ("quick quick", ["d4"]),
        ("quick quick quick quick", []),
        ("not to be", ["d6"]),
        ("be to", []),
    ],
)
def test_match_text_finds_a_phrase(graph: og.Graph, query: str, found: list[str]) -> None:
    assert docs(graph, "match_text($d.body, $q)", q=query) == found


@pytest.mark.parametrize(
    ("query", "edits", "found"),
    [
        ("qiuck", 2, ["d1", "d2", "d4"]),
        ("qiuck", 1, []),
        ("quik", 1, ["d1", "d2", "d4"]),
        ("quick", 0, ["d1", "d2", "d4"]),
        ("fax", 1, ["d1", "d2"]),
        ("cafe", 0, ["d3"]),
        ("elephant", 2, []),
    ],
)
def test_fuzzy_allows_edits(graph: og.Graph, query: str, edits: int, found: list[str]) -> None:
    assert docs(graph, "fuzzy($d.body, $q, $n)", q=query, n=edits) == found


def test_fuzzy_allows_two_edits_unless_told(graph: og.Graph) -> None:
    assert docs(graph, "fuzzy($d.body, $q)", q="qiuck") == ["d1", "d2", "d4"]


def test_null_matches_nothing(graph: og.Graph) -> None:
    assert docs(graph, "search($d.body, $q)", q=None) == []
    assert "d5" not in docs(graph, 'fuzzy($d.body, "quick", 9)')
    assert docs(graph, 'not (search($d.body, "quick"))') == ["d3", "d5", "d6"]
    assert docs(graph, 'search($d.body, "quick") = false') == ["d3", "d5", "d6"]


def test_predicates_combine(graph: og.Graph) -> None:
    both = 'search($d.body, "quick") search($d.title, "order")'
    assert docs(graph, both) == ["d2"]
    either = 'search($d.body, "jump") or match_text($d.title, "hamlet")'
    assert docs(graph, either) == ["d1", "d6"]
    assert docs(graph, 'search($d.body, "quick") not (search($d.body, "fox"))') == ["d4"]
    assert docs(graph, "search($d.body, $q?)", q=None) == ["d1", "d2", "d3", "d4", "d5", "d6"]


def test_search_on_any_variable(graph: og.Graph) -> None:
    pattern = (
        '$p: Person search($p.motto, "quick") $p wrote $d $d cites $e search($e.body, "naive")'
    )
    assert ask(graph, f"match {{ {pattern} }} return {{ $p, $d, $e }}") == [("ann", "d4", "d3")]
    outside = '$p: Person not { $p wrote $d search($d.body, "fox") }'
    assert ask(graph, f"match {{ {outside} }} return {{ $p }}") == [("cy",)]


def test_search_inside_optional(graph: og.Graph) -> None:
    pattern = '$p: Person optional { $p wrote $d search($d.body, "jump") }'
    columns = '$p, $d.slug, search($d.body, "jump") as hit'
    body = f"match {{ {pattern} }} return {{ {columns} }} order {{ $p.name }}"
    assert ask(graph, body) == [("ann", "d1", True), ("bob", None, False), ("cy", None, False)]


# ---- ranking ------------------------------------------------------------------------------


def test_nearest_orders_by_distance_and_leaves_out_null(graph: og.Graph) -> None:
    body = (
        "match { $d: Doc } return { $d, nearest($d.vec, [0, 0]) as far } "
        "order { nearest($d.vec, [0, 0]) } limit 10"
    )
    found = ask(graph, body)
    assert [row[0] for row in found] == ["d1", "d3", "d4", "d2", "d6"]
    assert [row[1] for row in found] == pytest.approx([0, 1, 1, 5, 162**0.5])


def test_nearest_ranks_what_the_whole_pattern_leaves(graph: og.Graph) -> None:
    body = "{} return {{ $d }} order {{ nearest($d.vec, $v) }} limit 2"
    written = 'match { $p: Person { name: "bob" } $p wrote $d }'
    assert ask(graph, body.format(written), "$v: Vector(2)", v=[0, 0]) == [("d4",), ("d2",)]
    filtered = "match { $d: Doc { kind: 1 } }"
    assert ask(graph, body.format(filtered), "$v: Vector(2)", v=[0, 0]) == [("d1",), ("d2",)]
    without = "match { $d: Doc not { $d cites $e } }"
    assert ask(graph, body.format(without), "$v: Vector(2)", v=[0, 0]) == [("d3",), ("d2",)]


def test_later_keys_break_ties(graph: og.Graph) -> None:
    body = "match { $d: Doc } return { $d } order { nearest($d.vec, [0, 0]), $d.slug desc } limit 3"
    assert ask(graph, body) == [("d1",), ("d4",), ("d3",)]


def test_offset_continues_a_ranking(graph: og.Graph) -> None:
    body = (
        "match {{ $d: Doc }} return {{ $d }} order {{ nearest($d.vec, [0, 0]) }} limit 2 offset {}"
    )
    pages = [ask(graph, body.format(start)) for start in (0, 2, 4, 6)]
    assert pages == [[("d1",), ("d3",)], [("d4",), ("d2",)], [("d6",)], []]


def test_bm25_orders_by_score_and_needs_a_word(graph: og.Graph) -> None:
    body = (
        'match { $d: Doc } return { $d, bm25($d.body, "quick fox") as s } '
        'order { bm25($d.body, "quick fox") }'
    )
    found = ask(graph, body)
    assert [row[0] for row in found] == ["d2", "d1", "d4"]
    assert [row[1] for row in found] == sorted((row[1] for row in found), reverse=True)


def test_scores_are_columns(graph: og.Graph) -> None:
    body = (
        "match { $d: Doc } return { $d, bm25($d.body, $q) as s, nearest($d.vec, $v) as far } "
        "order { s desc, $d.slug }"
    )
    found = ask(graph, body, "$q: String, $v: Vector(2)", q="naive", v=[0, 0])
    assert [row[0] for row in found] == ["d3", "d1", "d2", "d4", "d5", "d6"]
    assert [row[1] is None for row in found] == [False, True, True, True, True, True]
    assert found[4][2] is None
    total = (
        'match { $d: Doc } return { $d.kind, count(bm25($d.body, "quick")) as n } order { n desc }'
    )
    assert ask(graph, total) == [(1, 2), (2, 1)]


def test_statistics_are_those_of_the_whole_type(graph: og.Graph) -> None:
    def score(pattern: str) -> float:
        body = f'match {{ {pattern} }} return {{ bm25($d.body, "quick") as s }}'
        return float(ask(graph, body)[0][0])

    assert score('$d: Doc { slug: "d1" }') == score(
        '$p: Person { name: "ann" } $p wrote $d $d.slug = "d1"'
    )


def test_rrf_fuses_two_rankings(graph: og.Graph) -> None:
    ranking = 'rrf(nearest($d.vec, [0, 0]), bm25($d.body, "quick fox"))'
    body = f"match {{ $d: Doc }} return {{ $d, {ranking} as s }} order {{ {ranking} }} limit 10"
    found = ask(graph, body)
    # By distance d1 d3 d4 d2 d6, by words d2 d1 d4.
    wanted = {
        "d1": 1 / 61 + 1 / 62,
        "d2": 1 / 64 + 1 / 61,
        "d4": 1 / 63 + 1 / 63,
        "d3": 1 / 62,
        "d6": 1 / 65,
    }
    assert dict(found) == pytest.approx(wanted)
    assert [row[0] for row in found] == ["d1", "d2", "d4", "d3", "d6"]


def test_the_nearest_arm_reaches_as_far_as_the_limit(graph: og.Graph) -> None:
    ranking = 'rrf(nearest($d.vec, [0, 0]), bm25($d.body, "quick fox"), 1)'
    body = f"match {{ $d: Doc }} return {{ $d, {ranking} as s }} order {{ {ranking} }} limit 2"
    assert dict(ask(graph, body)) == pytest.approx({"d1": 1 / 2 + 1 / 3, "d2": 1 / 2})


def test_rrf_ranks_nodes_not_rows(graph: og.Graph) -> None:
    ranking = 'rrf(bm25($d.body, "quick"), bm25($d.body, "fox"))'
    body = (
        f"match {{ $p: Person $p wrote $d }} return {{ $p, $d, {ranking} as s }} "
        f"order {{ {ranking} }} limit 10"
    )
    found = ask(graph, body)
    both = [row for row in found if row[1] == "d4"]
    assert [row[0] for row in both] == ["ann", "bob"]
    assert both[0][2] == both[1][2]


def test_the_limit_of_groups_does_not_cut_a_ranking(graph: og.Graph) -> None:
    ranking = 'rrf(nearest($d.vec, [0, 0]), bm25($d.body, "elephant"))'
    body = f"match {{ $d: Doc }} return {{ count({ranking}) as n }} limit 1"
    assert ask(graph, body) == [(5,)]


def test_limit_zero_ranks_nothing(graph: og.Graph) -> None:
    body = "match { $d: Doc } return { $d } order { nearest($d.vec, [0, 0]) } limit 0"
    assert ask(graph, body) == []


def test_a_null_query_ranks_nothing(graph: og.Graph) -> None:
    body = "match { $d: Doc } return { $d } order { nearest($d.vec, $v) } limit 3"
    assert ask(graph, body, "$v: Vector(2)?", v=None) == []
    body = "match { $d: Doc } return { $d } order { bm25($d.body, $q) }"
    assert ask(graph, body, "$q: String?", q=None) == []


# ---- versions -----------------------------------------------------------------------------


def test_each_version_answers_for_itself(place: AnyPath) -> None:
    root = place / "g"
    with og.init(root, SCHEMA, durability="none") as graph:
        graph.load(
            [node("Doc", slug=f"x{i}", body=f"word{i} same", kind=0) for i in range(50)],
            mode="append",
        )
        assert len(docs(graph, 'search($d.body, "same")')) == 50
        first = graph.commits.head().graph_commit_id
        graph.mutate('query q() { delete Doc where slug = "x7" }')
        graph.mutate('query q() { update Doc set { body: "other" } where slug = "x8" }')
        assert len(docs(graph, 'search($d.body, "same")')) == 48
        assert docs(graph, 'search($d.body, "word7 word8 other")') == ["x8"]
        old = graph.query(
            'query q() { match { $d: Doc search($d.body, "word7 word8") } return { $d } }',
            commit=first,
        )
        assert len(old) == 2
        assert docs(graph, 'search($d.body, "word7 word8 other")') == ["x8"]


def test_an_empty_type_has_no_matches(place: AnyPath) -> None:
    root = place / "g"
    with og.init(root, SCHEMA, durability="none") as graph:
        assert (
            docs(graph, 'search($d.body, "x") fuzzy($d.body, "x") match_text($d.body, "x")') == []
        )
        ranking = 'rrf(nearest($d.vec, [0, 0]), bm25($d.body, "x"))'
        body = f"match {{ $d: Doc }} return {{ $d, {ranking} as s }} order {{ {ranking} }} limit 3"
        assert ask(graph, body) == []


# ---- refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["search", "match_text", "fuzzy"])
@pytest.mark.parametrize("text", ["", "  ", "?!", "x" * 41])
def test_a_query_needs_a_word(graph: og.Graph, function: str, text: str) -> None:
    with pytest.raises(og.QueryError, match=f"the query of `{function}` holds no word"):
        docs(graph, f"{function}($d.body, $q)", q=text)


def test_bad_arguments_are_refused(graph: og.Graph) -> None:
    with pytest.raises(og.QueryError, match="max_edits of `fuzzy` must not be negative, got -1"):
        docs(graph, "fuzzy($d.body, $q, $n)", q="x", n=-1)
    ranked = "match {{ $d: Doc }} return {{ $d }} order {{ {} }} limit 3"
    with pytest.raises(og.QueryError, match="the query of `bm25` holds no word"):
        ask(graph, ranked.format("bm25($d.body, $q)"), "$q: String", q="")
    fused = 'rrf(bm25($d.body, "x"), bm25($d.title, "x"), $k)'
    with pytest.raises(og.QueryError, match="k of `rrf` must be greater than 0, got 0"):
        ask(graph, ranked.format(fused), "$k: I64", k=0)
    with pytest.raises(og.BadRequestError, match=r"expected 2 values for Vector\(2\), got 3"):
        ask(graph, ranked.format("nearest($d.vec, $v)"), "$v: Vector(2)", v=[1, 2, 3])
    with pytest.raises(og.QueryError, match="finite 32-bit numbers"):
        ask(graph, ranked.format(f"nearest($d.vec, [4{'0' * 38}.0, 0.0])"))
    with pytest.raises(og.QueryError, match="needs an embedder"):
        ask(graph, ranked.format('nearest($d.vec, "text")'))
