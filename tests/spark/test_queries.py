"""Queries on Spark as callers use them: states, rights, the choice of the engine, writing."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow.parquet as pq
import pytest

import omnigraph as og
import omnigraph.spark as ogs
from omnigraph.cli.main import main
from omnigraph.graph import querying
from omnigraph.policy import Access, Decision
from omnigraph.read import frame as read_frame
from omnigraph.read.estimates import working_set_bytes
from omnigraph.spark.queries import tables
from tests.spark.two_engines import both, rows_of
from tests.spark.worlds import full_only

pytestmark = pytest.mark.usefixtures("interpreted")

SCHEMA = """\
node Person {
    name: String @key
    age: I64?
    about: String? @index
    motto: String? @language(german)
    face: Vector(2)?
}
node Seen { name: String @key  friends: I64? }
edge Knows: Person -> Person
"""
PEOPLE: list[dict[str, Any]] = [
    {"name": "ann", "age": 30, "about": "sails old boats", "face": [0.0, 1.0]},
    {"name": "bob", "age": 40, "about": "boats and rivers", "face": [0.5, 0.5]},
    {"name": "cay", "about": "reads", "motto": "alte Häuser", "face": [0.5, -0.5]},
    {"name": "dan", "age": 50},
]
KNOWS = [("ann", "bob"), ("bob", "cay"), ("cay", "ann"), ("ann", "cay")]
NAMES = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"
TWO_HOPS = "query q() { match { $a knows $b $b knows $c } return { count(*) as n } }"


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g", SCHEMA, durability="none") as made:
        rows: list[dict[str, Any]] = [{"type": "Person", "data": row} for row in PEOPLE]
        rows += [{"edge": "Knows", "from": a, "to": b} for a, b in KNOWS]
        made.load(rows, mode="append")
        yield made


def add(graph: og.Graph, name: str, branch: str = "main") -> None:
    graph.mutate("query a($n: String) { insert Person { name: $n } }", {"n": name}, branch=branch)


def names(result: og.Result) -> list[str]:
    return [str(row["p.name"]) for row in result]


def test_a_state_is_named_as_for_a_local_query(spark: Any, graph: og.Graph) -> None:
    first = graph.snapshot()
    graph.tags.create("start")
    graph.branches.create("side")
    add(graph, "eve", "side")
    add(graph, "fay")
    states: list[tuple[dict[str, Any], int]] = [
        ({}, 5),
        ({"branch": "side"}, 5),
        ({"commit": first.commit.graph_commit_id}, 4),
        ({"tag": "start"}, 4),
        ({"version": first.version}, 4),
        ({"timestamp": graph.commits.head().created_at}, 5),
    ]
    for state, size in states:
        here = graph.query(NAMES, **state)
        there = graph.query(NAMES, engine="spark", session=spark, **state)
        assert names(there) == names(here)
        assert len(there) == size
        assert (there.commit_id, there.target) == (here.commit_id, here.target)


def test_one_snapshot_while_commits_go_on(spark: Any, graph: og.Graph) -> None:
    result = ogs.query(spark, graph, NAMES)
    frame = result.frame
    for number in range(3):
        add(graph, f"new{number}")
    graph.mutate('query d() { delete Person where name = "ann" }')
    graph.optimize()
    assert [row[0] for row in frame.collect()] == ["ann", "bob", "cay", "dan"]
    assert names(result) == ["ann", "bob", "cay", "dan"]
    assert len(ogs.query(spark, graph.uri, NAMES)) == 6


@full_only
def test_a_killed_worker_changes_nothing(
    spark: Any, graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = str(tmp_path / "killed")
    original = tables._reading

    def reading(*arguments: Any) -> Any:
        read = original(*arguments)

        def dies_once(task: int) -> Any:
            import os
            import signal

            yield from read(task)
            if not os.path.exists(flag):
                open(flag, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)

        return dies_once

    monkeypatch.setattr(tables, "_reading", reading)
    text = "match { $a knows $b } return { $a.name, $b.age } order { $a.name, $b.name }"
    assert len(both(spark, graph, text, broadcast_rows=0)) == len(KNOWS)
    assert Path(flag).exists()


class NoReading:
    """Lets an actor read nothing of main."""

    name = "no reading"

    def decide(self, access: Access) -> Decision:
        return Decision(allowed=False, message=f"{self.name}: {access.describe()}")


def test_the_policy_is_asked_as_for_a_local_query(spark: Any, graph: og.Graph) -> None:
    session = graph.acting_for("mallory", NoReading())
    with pytest.raises(og.PolicyDeniedError):
        session.query(NAMES)
    with pytest.raises(og.PolicyDeniedError):
        session.query(NAMES, engine="spark", session=spark)
    with pytest.raises(og.PolicyDeniedError):
        ogs.query(spark, session, NAMES)


def test_nothing_runs_before_rows_are_asked_for(spark: Any, graph: og.Graph) -> None:
    text = "query q() { match { $p: Person } return { $p.age + 9223372036854775807 as x } }"
    result = ogs.query(spark, graph, text)
    assert result.columns == ["x"]
    assert result.frame.columns == ["x"]
    with pytest.raises(og.QueryError, match="integer overflow"):
        result.to_pylist()


def test_distances_and_text_predicates_are_the_local_ones(spark: Any, graph: og.Graph) -> None:
    near = (
        "match { $p: Person optional { $p knows $q } } return { $p.name, $q.name,"
        " nearest($p.face, [0.4, 0.1]) as d, nearest($p.face, [0.4, 0.1], cosine) as c,"
        " nearest($p.face, [0.4, 0.1], dot) as e } order { nearest($p.face, [0.4, 0.1]) } limit 4"
    )
    here = graph.query(f"query q() {{ {near} }}").to_arrow()
    there = ogs.query(spark, graph, f"query q() {{ {near} }}").to_arrow()
    assert there.equals(here)
    predicates = (
        *('search($p.about, "boat")', 'match_text($p.about, "old boats")'),
        'search($p.motto, "Haus")',
    )
    for predicate in predicates:
        found = both(spark, graph, f"match {{ $p: Person {predicate} }} return {{ $p.name }}")
        assert found
    both(
        spark,
        graph,
        'match { $p: Person not { $p knows $q fuzzy($q.about, "boots", 1) } } return { $p.name }',
    )


def test_a_ranking_by_words_is_refused_by_its_name(spark: Any, graph: og.Graph) -> None:
    text = (
        'query q() { match { $p: Person } return { $p.name } order { bm25($p.about, "boats") desc }'
        " limit 2 }"
    )
    graph.query(text)
    with pytest.raises(og.BadRequestError, match="`bm25`") as refused:
        ogs.query(spark, graph, text)
    assert refused.value.hint == "run it with engine='local'"


def test_a_query_that_takes_too_long_is_stopped(spark: Any, graph: og.Graph) -> None:
    cancel = threading.Event()
    cancel.set()
    # Too many rows to list in a second: 4 to the power of 16.
    parts = " ".join(f"$p{number}: Person" for number in range(16))
    text = f"query q() {{ match {{ {parts} }} return {{ $p0.name, $p5.age, $p15.age }} }}"
    with pytest.raises(og.QueryError, match="cancelled"):
        ogs.query(spark, graph, text, cancel=cancel).to_arrow()
    with pytest.raises(og.ResourceLimitError, match="longer than the 1 second"):
        ogs.query(spark, graph, text, timeout=1).to_arrow()


# ---- the choice of the engine ------------------------------------------------------------


def test_auto_stays_local_while_it_fits(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(graph.query(TWO_HOPS, engine="auto")) is og.Result
    how = graph.explain(TWO_HOPS, engine="auto")
    assert "engine: local, about " in how.plan
    monkeypatch.setattr(querying, "RESIDENT_BYTES_MAX", 100)
    monkeypatch.setattr(ogs, "is_configured", lambda session, master: False)
    with pytest.raises(og.ResourceLimitError, match="estimated to need about") as refused:
        graph.query(TWO_HOPS, engine="auto")
    assert "OMNIGRAPH_SPARK_MASTER" in str(refused.value.hint)


def test_auto_takes_spark_for_what_does_not_fit(
    spark: Any, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(querying, "RESIDENT_BYTES_MAX", 100)
    result = graph.query(TWO_HOPS, engine="auto", session=spark)
    assert isinstance(result, ogs.SparkResult)
    assert result.scalar() == graph.query(TWO_HOPS).scalar()
    how = graph.explain(TWO_HOPS, engine="auto", session=spark)
    assert "engine: spark, about " in how.plan
    assert "ways by $b Knows: broadcast" in how.plan


def test_what_is_refused_here_is_answered_on_spark(
    spark: Any, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "query q() { match { $a: Person $b: Person } return { $a.name, $b.name as b } }"
    expected = Counter(rows_of(graph.query(text)))
    monkeypatch.setattr(read_frame, "QUERY_ROWS_MAX", 10)
    monkeypatch.setattr(querying, "RESIDENT_BYTES_MAX", 100)
    with pytest.raises(og.ResourceLimitError, match="rows"):
        graph.query(text)
    found = graph.query(text, engine="auto", session=spark)
    assert Counter(rows_of(found)) == expected


def test_the_estimate_grows_with_what_is_listed(graph: og.Graph) -> None:
    snapshot = graph.snapshot()
    sizes = []
    for shown in ("count(*) as n", "$a, $c"):
        text = f"query q() {{ match {{ $a <knows> $b $b <knows> $c }} return {{ {shown} }} }}"
        asked = graph._engine.prepare(text, None, None, snapshot.commit.schema_hash)
        sizes.append(working_set_bytes(querying._Sizes(asked.catalog, snapshot.tables), asked.plan))
    assert 0 < sizes[0] < sizes[1]


def test_an_unknown_engine_is_refused(graph: og.Graph) -> None:
    with pytest.raises(og.BadRequestError, match="unknown engine 'quantum'"):
        graph.query(NAMES, engine="quantum")  # type: ignore[arg-type]  # that is the point


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as left:
        main(["query", *arguments])
    found = capsys.readouterr()
    return int(str(left.value.code or 0)), found.out + found.err


def test_the_command_line_takes_an_engine(
    spark: Any, graph: og.Graph, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.range(1).count()
    place = ["--store", graph.uri, "-e", TWO_HOPS]
    code, text = run(capsys, *place, "--engine", "spark", "--format", "csv")
    assert (code, text.split()) == (0, ["n", "5"])
    code, text = run(capsys, *place, "--engine", "spark", "--explain")
    assert code == 0
    assert "engine: spark" in text
    assert "joins:" in text
    code, text = run(capsys, *place, "--master", "local[2]")
    assert (code, "--master needs --engine" in text) == (2, True)


# ---- writing -----------------------------------------------------------------------------


FRIENDS = (
    "query q() { match { $p: Person $p knows $f }"
    " return { $p.name as name, count($f) as friends } }"
)


def test_a_result_becomes_files_or_a_dataset(spark: Any, graph: og.Graph, tmp_path: Path) -> None:
    result = ogs.query(spark, graph, FRIENDS)
    expected = sorted(rows_of(graph.query(FRIENDS)))
    result.write_parquet(tmp_path / "files")
    found = pq.read_table(tmp_path / "files").to_pylist()
    assert sorted((row["name"], row["friends"]) for row in found) == expected
    for mode in ("error", "overwrite"):
        assert result.write_lance(tmp_path / "set.lance", mode=mode) == len(expected)
    stored = lance.dataset(tmp_path / "set.lance").to_table()
    assert stored.schema.equals(result.schema)
    assert sorted((row["name"], row["friends"]) for row in stored.to_pylist()) == expected
    with pytest.raises(og.AlreadyExistsError):
        result.write_lance(tmp_path / "set.lance")


def test_a_result_becomes_a_type_as_one_commit(spark: Any, graph: og.Graph) -> None:
    graph.branches.create("side")
    before = len(graph.commits.list("side"))
    done = ogs.query(spark, graph, FRIENDS).write_type(graph, "Seen", mode="append", branch="side")
    assert done.nodes == {"Seen": 3}
    assert len(graph.commits.list("side")) == before + 1
    text = "query q() { match { $s: Seen } return { $s.name, $s.friends } order { $s.name } }"
    assert rows_of(graph.query(text, branch="side")) == [("ann", 2), ("bob", 1), ("cay", 1)]
    assert len(graph.query(text)) == 0
