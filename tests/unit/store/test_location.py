"""Where a graph may lie, and how the options that reach it are found. Nothing is contacted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import lance
import pytest

import omnigraph as og
from omnigraph.store import locate
from omnigraph.store.files.object_files import ObjectFiles

SECRET = "a very secret key"  # noqa: S105 - nobody's
KEYS = {"AWS_ACCESS_KEY_ID": "who", "AWS_SECRET_ACCESS_KEY": SECRET}


def options(given: dict[str, str] | None = None, /, **environment: str) -> dict[str, str]:
    found = locate("s3://bucket/graph", given, environment=environment).lance_options
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("s3://bucket/graph", "s3://bucket/graph"),
        ("s3://bucket/graph/", "s3://bucket/graph"),
        ("s3://bucket//a///b/", "s3://bucket/a/b"),
        ("s3://bucket/é and more", "s3://bucket/é and more"),
        ("s3://bucket/50% of %zz", "s3://bucket/50% of %zz"),
        ("gs://bucket/graph", "gs://bucket/graph"),
        ("az://container/graph", "az://container/graph"),
    ],
)
def test_one_place_has_one_name(text: str, root: str) -> None:
    given = {"account_name": "account"} if text.startswith("az") else None
    found = locate(text, given, environment={})
    assert (found.root, found.uri) == (root, root)
    assert found.path("nodes", "x") == f"{root}/nodes/x"
    assert isinstance(found.files, ObjectFiles)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s3://", "names no bucket"),
        ("s3:///graph", "names no bucket"),
        ("s3://bucket", "names a whole bucket"),
        ("s3://bucket/", "names a whole bucket"),
        ("s3://bucket/a/../b", "not a plain place"),
        ("s3://bucket/a?b=c", "not a plain place"),
        ("s3://bucket/a#b", "not a plain place"),
        ("s3://bucket/a%20b", "holds an encoded character"),
        ("s3://bucket/a\nb", "holds a control character"),
        ("ftp://host/graph", "not supported"),
        ("https://host/graph", "names a server"),
        ("", "empty"),
    ],
)
def test_what_is_no_place_is_refused(text: str, message: str) -> None:
    with pytest.raises(og.BadRequestError, match=message):
        locate(text, environment={})


def test_a_local_path_takes_no_options(tmp_path: Path) -> None:
    with pytest.raises(og.BadRequestError, match="local path"):
        locate(tmp_path, {"aws_region": "x"})
    assert locate(tmp_path).lance_options is None


def test_the_environment_says_how_to_reach_s3() -> None:
    found = options(
        **KEYS,
        AWS_SESSION_TOKEN="token",  # noqa: S106 - no token of anybody
        AWS_REGION="eu-central-1",
        AWS_ENDPOINT_URL="https://one",
        AWS_ENDPOINT_URL_S3="https://two",
        AWS_S3_FORCE_PATH_STYLE="true",
    )
    assert found["aws_access_key_id"] == "who"
    assert found["aws_secret_access_key"] == SECRET
    assert found["aws_session_token"] == "token"  # noqa: S105 - the same
    assert found["aws_region"] == "eu-central-1"
    assert found["aws_endpoint"] == "https://two"
    assert found["aws_virtual_hosted_style_request"] == "false"


def test_the_caller_wins_over_the_environment() -> None:
    found = options({"region": "here", "endpoint_url": "https://mine"}, AWS_REGION="there", **KEYS)
    assert (found["aws_region"], found["aws_endpoint"]) == ("here", "https://mine")


def test_the_endpoint_of_the_caller_reaches_both_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both clients read the environment themselves, and prefer the variable of S3 to an option."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    given = {
        "aws_endpoint": "http://127.0.0.1:2",
        "aws_access_key_id": "who",
        "aws_secret_access_key": SECRET,
        "client_max_retries": "0",
    }
    found = locate("s3://bucket/graph", given)
    with pytest.raises(og.StorageError, match=r"127\.0\.0\.1:2"):
        found.files.exists(found.path("x"))
    with pytest.raises(ValueError, match=r"127\.0\.0\.1:2"):
        lance.dataset(found.path("x"), storage_options=found.lance_options)


def test_only_s3_reads_the_variables_of_s3() -> None:
    found = locate("gs://bucket/graph", environment=KEYS).lance_options
    assert found is not None
    assert not [name for name in found if name.startswith("aws_")]


@pytest.mark.parametrize("allowed", [None, "false", "0", ""])
def test_plain_http_must_be_allowed(allowed: str | None) -> None:
    environment = {} if allowed is None else {"AWS_ALLOW_HTTP": allowed}
    with pytest.raises(og.BadRequestError, match="not encrypted") as refused:
        options(None, AWS_ENDPOINT_URL="http://127.0.0.1:9000", **environment)
    assert "AWS_ALLOW_HTTP" in str(refused.value.hint)
    assert options(AWS_ENDPOINT_URL="http://127.0.0.1:9000", AWS_ALLOW_HTTP="1")


def test_retries_and_timeouts_are_bounded_and_can_be_set() -> None:
    found = options()
    assert (found["client_max_retries"], found["client_retry_timeout"]) == ("8", "60")
    assert (found["timeout"], found["connect_timeout"]) == ("30s", "5s")
    assert options({"client_max_retries": "2"})["client_max_retries"] == "2"
    with pytest.raises(og.BadRequestError, match="whole number"):
        options({"client_max_retries": "many"})


@pytest.mark.parametrize("value", [None, 1.5, b"x", ["x"]])
def test_an_option_that_is_no_text_is_refused_without_being_shown(value: Any) -> None:
    with pytest.raises(og.BadRequestError) as refused:
        options({"aws_secret_access_key": value})
    assert refused.value.message == "storage option 'aws_secret_access_key' must be text"


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(og.StorageError, match="cannot be reached"):
        locate("s3://bucket/graph", {"no_such_option": "x"}, environment={})


def test_credentials_are_never_shown() -> None:
    found = locate(
        "s3://bucket/graph",
        {"aws_access_key_id": "me", "aws_secret_access_key": SECRET},
        environment={},
    )
    for text in (repr(found), str(found), repr(found._options), repr(found.files)):
        assert SECRET not in text
    with pytest.raises(og.StorageError) as refused:
        locate("s3://bucket/graph", {"secret_access_key": SECRET, "nonsense": SECRET})
    assert SECRET not in str(refused.value)


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_REGION", "from-the-process")
    found = locate("s3://bucket/graph").lance_options
    assert found is not None
    assert found["aws_region"] == "from-the-process"
