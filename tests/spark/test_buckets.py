"""Graphs, inputs and exports in a bucket of a real S3 server, on both engines.

Spark is started without any credentials, so what workers know they were told by the driver; and
nothing that Spark shows, logs or writes may tell it to anybody else.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.graph.seam import reach
from omnigraph.spark import (
    Tuning,
    diff,
    edges,
    export,
    merge,
    optimize,
    read,
    vertices,
    write,
    write_property,
)
from omnigraph.store import locate
from tests.places import S3Path, new_prefix
from tests.servers.seaweed import SECRET_KEY, Seaweed
from tests.spark.worlds import SCHEMA, content, full_only, outcome

NOTES = pa.table({"id": ["n1", "n2", "n3"], "text": ["x", "y", "z"]})


@pytest.fixture
def given(spark: Any, s3: Seaweed, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The options that reach the server; the environment says nothing of it."""
    for name in s3.environment():
        monkeypatch.delenv(name, raising=False)
    return s3.options()


@pytest.fixture
def place(s3: Seaweed) -> S3Path:
    return new_prefix(s3.bucket)


def _put(place: S3Path, given: dict[str, str], name: str, data: bytes) -> str:
    path = f"{place}/{name}"
    locate(path, given).files.replace(path, data, sync=False)
    return path


def _people(*names: str) -> bytes:
    return "".join(f'{{"type":"Person","data":{{"name":"{name}"}}}}\n' for name in names).encode()


def _fill(place: S3Path, given: dict[str, str]) -> None:
    _put(place, given, "in/a.jsonl", _people("ann", "bob"))
    _put(place, given, "in/b.jsonl", _people(*(f"p{n}" for n in range(200))))
    _put(place, given, "in/.hidden.jsonl", b"no JSON\n")
    _put(place, given, "in/deep/c.jsonl", b"no JSON\n")
    _put(place, given, "csv/1.csv", b"who,age\ncy,3\n")
    _put(place, given, "csv/2.csv", b"who,age\ndi,\n")
    _put(place, given, "csv/bad.csv", b"who,age\nei,old\n")
    found = io.BytesIO()
    pq.write_table(NOTES, found, row_group_size=1)
    _put(place, given, "notes.parquet", found.getvalue())


@full_only
def test_both_engines_read_and_write_in_a_bucket(
    spark: Any, given: dict[str, str], place: S3Path
) -> None:
    _fill(place, given)
    who = {"who": "name"}
    steps: list[Any] = [
        f"{place}/in/[ab].jsonl",
        {
            "Person": og.Rows(data=f"{place}/csv/?.csv", columns=who),
            "Note": [f"{place}/notes.parquet"],
        },
        {"Person": og.Rows(data=f"{place}/csv/", columns=who)},
        f"{place}/in/a.jsonl",
        f"{place}/nothing/*.jsonl",
        f"{place}/in/deep",
        f"{place}/csv",
        {"Note": f"{place}/csv/1.csv"},
    ]
    graphs: dict[Any, og.Graph] = {
        engine: og.init(f"{place}/{engine}", SCHEMA, storage_options=given)
        for engine in ("local", "spark")
    }
    with contextlib.ExitStack() as stack:
        for graph in graphs.values():
            stack.enter_context(graph)
        for number, sources in enumerate(steps):
            tuning = Tuning(piece_bytes=500, merge_rows=number % 2 * 10**6)
            # The first also where workers share no disk.
            scratch = None if number else f"{place}/scratch"
            options: dict[str, Any] = {"session": spark, "tuning": tuning, "scratch": scratch}
            outcomes = [
                outcome(partial(graph.bulk, sources, mode="append", engine=engine, **more))
                for (engine, graph), more in zip(graphs.items(), ({}, options), strict=True)
            ]
            assert outcomes[0] == outcomes[1], (number, outcomes)
            if number == 0:
                assert outcomes[0] == ({"Person": 202}, {}, True)
        assert content(graphs["spark"]) == content(graphs["local"])
        counted = {key: len(rows) for key, rows in content(graphs["spark"]).items()}
        assert counted == {"Note": 3, "Person": 204}
        merged = {"Person": og.Rows(data=f"{place}/csv/[12].csv", columns=who)}
        for engine, graph in graphs.items():
            more = {"session": spark, "tuning": Tuning(merge_rows=0)}
            graph.bulk(merged, mode="merge", engine=engine, **more if engine == "spark" else {})
        assert content(graphs["spark"]) == content(graphs["local"])
        _put(place, given, "dev.jsonl", _people("eva", "ann"))
        for engine, graph in graphs.items():
            graph.branches.create("dev")
            more = {"session": spark} if engine == "spark" else {}
            graph.bulk(f"{place}/dev.jsonl", mode="merge", branch="dev", engine=engine, **more)
        changed = diff(graphs["spark"], "main", "dev", session=spark, types=["Person"])
        assert [(row["op"], row["id"]) for row in changed.collect()] == [("insert", "eva")]
        graphs["local"].branches.merge("dev")
        merge(graphs["spark"], "dev", session=spark, rows_min=0)
        assert optimize(graphs["spark"], session=spark).commit is not None
        assert content(graphs["spark"]) == content(graphs["local"])
    names = [name for name, _data in _files(place, given)]
    assert not [name for name in names if name.startswith("scratch/")]


def _files(place: S3Path, given: dict[str, str]) -> list[tuple[str, bytes]]:
    location = locate(str(place), given)
    return [
        (path.removeprefix(f"{location.root}/"), location.files.read(path) or b"")
        for path in location.files.below(location.root)
    ]


def test_no_secret_is_shown_logged_or_written(
    spark: Any, given: dict[str, str], place: S3Path, tmp_path: Path
) -> None:
    path = _put(place, given, "a.jsonl", _people("ann", "bob"))
    uri = f"{place}/g"
    with og.init(uri, SCHEMA, storage_options=given) as graph:
        graph.bulk(path, mode="append", engine="spark", session=spark)
        assert SECRET_KEY not in repr(reach(graph))
        frame = read(spark, uri, "Person", columns=["id", "age"], storage_options=given)
        assert sorted(row["id"] for row in frame.collect()) == ["ann", "bob"]
        assert vertices(spark, uri, storage_options=given).count() == 2
        knows = spark.createDataFrame([("ann", "bob")], "from string, to string")
        made = write(knows, uri, "Knows", mode="append", storage_options=given)
        assert made.edges == {"Knows": 1}
        assert edges(spark, uri, storage_options=given).count() == 1
        ages = spark.createDataFrame([("ann", 7)], "id string, value int")
        graph.refresh("main")
        write_property(graph, ages, "Person", "age")
        counts = export(graph, f"{place}/out", form="parquet", session=spark, types=["Person"])
        assert counts == {"Person": 2}
        with pytest.raises(og.AlreadyExistsError):
            export(graph, f"{place}/out", session=spark)
        with og.init(tmp_path / "back", SCHEMA) as back, pytest.raises(og.StorageError):
            # Of a local graph nobody said how to reach a bucket.
            back.bulk({"Person": f"{place}/out/Person"}, mode="append", engine="local")
        with og.init(f"{place}/back", SCHEMA, storage_options=given) as back:
            back.bulk({"Person": f"{place}/out/Person"}, mode="append", engine="local")
            assert content(back)["Person"] == content(graph)["Person"]
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            frame.explain("extended")
    names = [name for name, _data in _files(place, given)]
    assert [name for name in names if name.startswith("out/")] == [
        "out/Person/part-00000.parquet",
        "out/_SUCCESS",
    ]
    assert "MapInArrow" in shown.getvalue()
    secret = SECRET_KEY.encode()
    assert secret not in shown.getvalue().encode()
    for name, data in _files(place, given):
        assert secret not in data, name
    folder = Path(spark.conf.get("spark.local.dir"))
    logs = [item for item in folder.rglob("*") if item.is_file()]
    assert any("eventlog" in str(item).lower() or "events" in str(item) for item in logs)
    for item in logs:
        assert secret not in item.read_bytes(), item


@full_only
def test_an_option_of_the_format_is_no_place_for_secrets(spark: Any) -> None:
    source = spark.read.format("omnigraph").option("type", "Person")
    with pytest.raises(Exception, match="Spark shows options in plans and logs"):
        source.option("aws_secret_access_key", "x").load("s3://b/g").count()


_PROGRAM = """
import sys
import omnigraph as og
from omnigraph.cli.main import main
from omnigraph.spark import start_session

place, schema = sys.argv[1:]
spark = start_session(
    "local[1,2]",
    spark__sql__shuffle__partitions="1",
    spark__driver__memory="512m",
    spark__driver__extraJavaOptions="-XX:TieredStopAtLevel=1",
)
og.init(f"{place}/g", schema).close()
try:
    main(["load", f"{place}/g", "--quiet", "--mode", "append", "--engine", "spark",
          "--data", f"{place}/in/*.jsonl"])
except SystemExit as left:
    assert not left.code, left.code
frame = spark.read.format("omnigraph").option("type", "Person").load(f"{place}/g")
print(sorted(row["id"] for row in frame.where("id >= 'b'").collect()))
spark.stop()
"""


@full_only
def test_the_environment_is_enough(s3: Seaweed, place: S3Path) -> None:
    """Workers and the data source find in their own environment how to reach the bucket."""
    _put(place, s3.options(), "in/a.jsonl", _people("ann", "bob"))
    command = [sys.executable, "-c", _PROGRAM, str(place), SCHEMA]
    found = subprocess.run(  # noqa: S603
        command,
        env={**os.environ, **s3.environment()},
        timeout=300,
        check=False,
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines()[-1] == "['bob']"
    assert SECRET_KEY not in found.stdout + found.stderr
