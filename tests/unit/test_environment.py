"""Variables come from outside: nothing below the outermost layer looks at the process itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from omnigraph import environment
from omnigraph.limits import INDEX_SORT_BYTES_MAX
from omnigraph.store import locate
from omnigraph.store.files.bucket import Bucket

KEYS = {"AWS_ACCESS_KEY_ID": "some", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "here"}


@pytest.fixture
def variables() -> Iterator[dict[str, str]]:
    """Variables of this test alone."""
    known, given = environment.variables(), dict(KEYS)
    environment.use(given)
    yield given
    environment.use(known)


def test_the_variables_of_the_process_are_used_unless_others_are_given() -> None:
    assert environment.variables() is os.environ


def test_a_store_is_reached_as_the_variables_say_now(variables: dict[str, str]) -> None:
    options = locate("s3://bucket/graph").lance_options
    assert options is not None
    assert options["aws_access_key_id"] == "some"
    variables["AWS_ENDPOINT_URL"] = "http://127.0.0.1:1"
    with pytest.raises(Exception, match="not encrypted"):
        locate("s3://bucket/graph")
    with pytest.raises(Exception, match="not encrypted"):
        Bucket.of("s3://bucket/file")


def test_libraries_are_told_unless_the_user_has_said_it() -> None:
    found: dict[str, str] = {}
    environment.tell_libraries(found)
    assert found == {"LANCE_MEM_POOL_SIZE": str(INDEX_SORT_BYTES_MAX)}
    said = {"LANCE_MEM_POOL_SIZE": "5"}
    environment.tell_libraries(said)
    assert said == {"LANCE_MEM_POOL_SIZE": "5"}


def test_lance_is_told_how_much_memory_it_may_sort_in_before_it_is_loaded() -> None:
    code = (
        "import sys, os, omnigraph\n"
        "print(os.environ['LANCE_MEM_POOL_SIZE'], 'lance' in sys.modules)"
    )
    found = subprocess.run(  # noqa: S603 - this interpreter, on text of ours
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == [os.environ["LANCE_MEM_POOL_SIZE"], "False"]
