"""Gates of a graph in an object store: requests and round trips, counted by a proxy in front of it.

A request is what is paid for, a round trip what is waited for. Neither may grow with history.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import omnigraph as og
from tests.cost.measure import SCHEMA, add_knows, add_person, is_plain, three_table_rows
from tests.places import S3Path, new_prefix
from tests.servers.proxy import Proxy, Traffic
from tests.servers.seaweed import Seaweed

FULL = os.environ.get("OMNIGRAPH_S3") == "full"
DEPTHS = (10, 100, 1_000) if FULL else (10, 60)
SIZES = (10_000, 10_000_000) if FULL else (10_000, 200_000)
BY_KEY = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age } }"
PEOPLE = "query q() { match { $p: Person } return { count($p) as n } }"


@pytest.fixture(scope="module")
def proxy(s3: Seaweed) -> Iterator[Proxy]:
    with Proxy(s3.endpoint) as found:
        yield found


@pytest.fixture
def root(s3: Seaweed) -> S3Path:
    return new_prefix(s3.bucket)


@pytest.fixture
def reach(s3: Seaweed, proxy: Proxy) -> dict[str, str]:
    return s3.options(proxy.endpoint)


@pytest.fixture
def graph(root: S3Path, reach: dict[str, str]) -> Iterator[og.Graph]:
    """A graph with a few rows in every table, and a handle that has written before."""
    with og.init(root, SCHEMA, storage_options=reach, upkeep=False) as found:
        found.load(three_table_rows("old"), mode="append")
        add_knows(found, source="old0", target="old1")
        add_person(found, "warm")
        yield found


def inserted(graph: og.Graph, proxy: Proxy, name: str) -> Traffic:
    """Return the traffic of one insert that did nothing beside itself."""
    for attempt in range(4):
        with proxy.watched() as found:
            io = add_person(graph, f"{name}-{attempt}").io
        if is_plain(io):
            return found
    raise AssertionError("every write folded")


def shape(traffic: Traffic) -> dict[str, int]:
    return dict(sorted(traffic.kinds().items()))


# ---- one write ----------------------------------------------------------------------------


def test_a_warm_insert_costs_a_dozen_requests(graph: og.Graph, proxy: Proxy) -> None:
    found = inserted(graph, proxy, "x")
    assert len(found) <= 14, f"\n{found}"
    # Capture, verify, and the one Lance makes for the table.
    assert len(found.of("LIST", "_versions/")) <= 3, f"\n{found}"
    assert len(found.of("LIST")) - len(found.of("LIST", "_versions/")) == 1, "the schema listing"
    assert not found.of("GET", "__manifest/"), "the manifest was read"
    assert not found.of("HEAD"), f"\n{found}"
    assert shape(found) == {"DELETE": 1, "LIST": 4, "PUT": 4, "PUT-IF": 3}


def test_a_warm_insert_waits_for_eleven_round_trips(graph: og.Graph, proxy: Proxy) -> None:
    with proxy.slow(0.05):
        found = inserted(graph, proxy, "x")
    assert found.round_trips <= 11, f"\n{found}"


def test_four_tables_cost_the_round_trips_of_one(graph: og.Graph, proxy: Proxy) -> None:
    rows = three_table_rows("new", people=1)
    rows.append({"edge": "Knows", "from": "new0", "to": "warm", "data": {}})
    with proxy.slow(0.05):
        one = inserted(graph, proxy, "x")
        with proxy.watched() as four:
            graph.load(rows, mode="append")
    assert four.round_trips <= one.round_trips + 1, f"\n{four}"
    # Each table more: a data file, its listing, its transaction and its version.
    assert len(four) <= len(one) + 3 * 4, f"\n{four}"


def test_a_write_under_a_limit_of_requests_at_once_is_the_same(
    graph: og.Graph, proxy: Proxy
) -> None:
    before = shape(inserted(graph, proxy, "x"))
    proxy.limit(1)
    try:
        assert shape(inserted(graph, proxy, "y")) == before
    finally:
        proxy.limit(None)


def test_the_schema_is_looked_at_once_per_write_and_read_only_when_it_changed(
    graph: og.Graph,
) -> None:
    for number in range(2):
        io = add_person(graph, f"n{number}").io
        assert (io["schema_listings"], io.get("schema_text_reads", 0)) == (1, 0)
    changed = graph.schema.apply(SCHEMA.replace("age: I32?", "age: I32? nick: String?"))
    assert changed.applied
    add_person(graph, "later")
    io = add_person(graph, "last").io
    assert (io["schema_listings"], io.get("schema_text_reads", 0)) == (1, 0)


def test_the_cost_of_a_write_does_not_grow_with_history(
    graph: og.Graph, proxy: Proxy, root: S3Path, s3: Seaweed
) -> None:
    costs: dict[int, Traffic] = {}
    for depth in DEPTHS:
        with og.open(root, storage_options=s3.options(), upkeep=False) as direct:
            while direct.snapshot().version < depth:
                add_person(direct, f"p{direct.snapshot().version}")
        inserted(graph, proxy, f"warm{depth}")
        costs[depth] = inserted(graph, proxy, f"at{depth}")
    shapes = {depth: shape(found) for depth, found in costs.items()}
    # Once the tail was folded there is an index, and a key is looked for in one page of it.
    assert all(found.pop("GET", 0) <= 1 for found in shapes.values()), shapes
    first = shapes[DEPTHS[0]]
    assert all(found == first for found in shapes.values()), shapes
    assert max(len(found) for found in costs.values()) <= 14


def in_page(number: int) -> str:
    """Return a name in the middle of a page of the key index, as Lance divides it."""
    return str((number * 4096 + 2048) * 10).rjust(12, "0")


def test_the_bytes_read_by_a_write_do_not_grow_with_the_table(
    proxy: Proxy, s3: Seaweed, reach: dict[str, str]
) -> None:
    read: list[int] = []
    for rows in SIZES:
        names = pc.utf8_lpad(pa.array(np.arange(rows) * 10).cast(pa.string()), 12, "0")
        root = new_prefix(s3.bucket)
        with og.init(root, SCHEMA, storage_options=s3.options(), upkeep=False) as graph:
            graph.load_table("Person", pa.table({"name": names}), mode="append")
            graph.maintenance.ensure_indices()
        with og.open(root, storage_options=reach) as graph:
            inserted(graph, proxy, in_page(0))
            first = inserted(graph, proxy, f"{in_page(1)}-first")
            again = inserted(graph, proxy, f"{in_page(1)}-again")
        assert len(first) <= 14, f"\n{first}"
        # A key is looked for in one page of the index, which is read once, whatever the size.
        read.append(sum(request.answered_bytes for request in first.of("GET")))
        assert not again.of("GET"), f"\n{again}"
    assert 0 < read[1] <= 1.2 * read[0], read


# ---- reading ------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [PEOPLE, BY_KEY])
def test_a_warm_read_is_one_listing(graph: og.Graph, proxy: Proxy, text: str) -> None:
    params = {"n": "warm"} if text == BY_KEY else None
    graph.query(text, params)
    with proxy.watched() as found:
        assert len(graph.query(text, params)) == 1
    assert shape(found) == {"LIST": 1}, f"\n{found}"
    assert len(found.of("LIST", "__manifest/_versions/")) == 1


def test_a_warm_read_that_may_be_stale_asks_nothing(graph: og.Graph, proxy: Proxy) -> None:
    graph.query(BY_KEY, {"n": "warm"})
    with proxy.watched() as found:
        assert len(graph.query(BY_KEY, {"n": "warm"}, max_staleness_s=3600)) == 1
    assert len(found) == 0, f"\n{found}"


def test_a_cold_open_and_a_first_query_do_not_grow_with_history(
    graph: og.Graph, proxy: Proxy, root: S3Path, s3: Seaweed, reach: dict[str, str]
) -> None:
    opens: list[int] = []
    queries: list[int] = []
    for depth in DEPTHS:
        with og.open(root, storage_options=s3.options(), upkeep=False) as direct:
            while direct.snapshot().version < depth:
                add_person(direct, f"p{direct.snapshot().version}")
            direct.optimize()
        with proxy.slow(0.05), proxy.watched() as opening:
            cold = og.open(root, mode="ro", storage_options=reach)
        with cold, proxy.watched() as asking:
            cold.query(PEOPLE)
        # The manifest's fragments are read side by side; they are few, whatever the history.
        assert opening.round_trips <= 8, f"\n{opening}"
        opens.append(len(opening))
        queries.append(len(asking))
    assert max(opens) <= 30, opens
    assert max(queries) <= 20, queries


def test_an_open_for_writing_costs_a_few_requests_more(
    graph: og.Graph, proxy: Proxy, root: S3Path, reach: dict[str, str]
) -> None:
    with proxy.watched() as reading, og.open(root, mode="ro", storage_options=reach):
        pass
    with proxy.watched() as writing, og.open(root, storage_options=reach):
        pass
    # Two probes of conditions, the slots, a probe of the manifest, and one of each table.
    assert len(writing) <= len(reading) + 4 + 4, f"\n{writing}"


# ---- listings over history ----------------------------------------------------------------


def listed_bytes(graph: og.Graph, proxy: Proxy, name: str) -> int:
    """Return the bytes that the listings of versions of one insert brought."""
    found = inserted(graph, proxy, name)
    return sum(request.answered_bytes for request in found.of("LIST", "_versions/"))


@pytest.mark.parametrize("kept_up", [True, False] if FULL else [True])
def test_listings_stay_short_over_history_because_of_the_upkeep(
    root: S3Path, reach: dict[str, str], proxy: Proxy, kept_up: bool
) -> None:
    """Names of versions are most of what a write reads; only a cleanup makes them fewer."""
    soon = og.Upkeep(every_commits=20, keep=10, older_than_s=0, grace_s=0)
    with og.init(root, SCHEMA, storage_options=reach, upkeep=kept_up and soon) as graph:
        sizes: list[int] = []
        for depth in range(3 * (10 if FULL else 1)):
            for number in range(40):
                add_person(graph, f"p{depth}-{number}")
            # The least of a few: the upkeep runs beside the writers, every so many commits.
            sizes.append(min(listed_bytes(graph, proxy, f"x{depth}-{n}") for n in range(25)))
    if kept_up:
        assert max(sizes) <= 1.5 * sizes[0], sizes
    else:
        assert sizes[-1] > 2 * sizes[0], sizes
