"""How an object store is reached: endpoint, credentials, retries. Never shown, never written.

Options come from the caller and, for S3, from the usual environment variables; the caller wins.
Lance and the control files are given the same ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

from omnigraph.errors import BadRequestError
from omnigraph.limits import (
    STORE_CONNECT_TIMEOUT_S,
    STORE_REQUEST_TIMEOUT_S,
    STORE_RETRIES_MAX,
    STORE_RETRY_TIMEOUT_S,
)

SCHEMES = ("s3", "gs", "az")
_S3_VARIABLES = {
    "AWS_ACCESS_KEY_ID": "aws_access_key_id",
    "AWS_SECRET_ACCESS_KEY": "aws_secret_access_key",
    "AWS_SESSION_TOKEN": "aws_session_token",
    "AWS_DEFAULT_REGION": "aws_region",
    "AWS_REGION": "aws_region",
    "AWS_ENDPOINT_URL": "aws_endpoint",
    "AWS_ENDPOINT_URL_S3": "aws_endpoint",
    "AWS_ALLOW_HTTP": "allow_http",
    "AWS_S3_FORCE_PATH_STYLE": "force_path_style",
}
"""Later ones win over earlier ones of the same meaning."""
_SAME = {
    "access_key_id": "aws_access_key_id",
    "secret_access_key": "aws_secret_access_key",
    "session_token": "aws_session_token",
    "token": "aws_session_token",
    "aws_token": "aws_session_token",
    "region": "aws_region",
    "default_region": "aws_region",
    "aws_default_region": "aws_region",
    "endpoint": "aws_endpoint",
    "endpoint_url": "aws_endpoint",
    "aws_endpoint_url": "aws_endpoint",
    "aws_endpoint_url_s3": "aws_endpoint",
    "aws_allow_http": "allow_http",
    "aws_s3_force_path_style": "force_path_style",
    "aws_force_path_style": "force_path_style",
}
_CLIENT = {
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "timeout",
    "proxy_url",
    "proxy_ca_certificate",
    "proxy_excludes",
    "user_agent",
}
_RETRIES, _RETRY_TIMEOUT = "client_max_retries", "client_retry_timeout"
_LANCE_ONLY = {_RETRIES, _RETRY_TIMEOUT, "download_retry_count"}
_TRUE = {"1", "true", "yes", "on"}


class StorageOptions(Mapping[str, str]):
    """Options as Lance takes them. Printing them shows their names only."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(sorted(self._values))})"

    def for_lance(self) -> dict[str, str]:
        """Return what every Lance call is given."""
        return dict(self._values)

    def for_obstore(self) -> dict[str, Any]:
        """Return the keyword arguments that make a client of the same store."""
        client: dict[str, Any] = {k: v for k, v in self._values.items() if k in _CLIENT}
        for flag in ("allow_http", "allow_invalid_certificates"):
            if flag in client:
                client[flag] = _is_true(client[flag])
        config = {
            name: value
            for name, value in self._values.items()
            if name not in _CLIENT and name not in _LANCE_ONLY
        }
        retry = {
            "max_retries": int(self._values[_RETRIES]),
            "retry_timeout": timedelta(seconds=int(self._values[_RETRY_TIMEOUT])),
        }
        return {"config": config, "client_options": client, "retry_config": retry}


class GivenOptions(StorageOptions):
    """What a caller said of one kind of store; the environment is not in it.

    This is all that is ever handed to another process. What the environment says it says there.
    """

    def __init__(self, scheme: str, values: Mapping[str, str]) -> None:
        super().__init__(values)
        self.scheme = scheme


_GIVEN: ContextVar[GivenOptions | None] = ContextVar("given_options", default=None)


@contextlib.contextmanager
def reaching(given: GivenOptions | None) -> Iterator[None]:
    """Reach stores of one kind with these options while the block runs."""
    token = _GIVEN.set(given)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            # A generator may be closed in another context than it began in.
            _GIVEN.reset(token)


def reached() -> GivenOptions | None:
    """Return what `reaching` says here, for a thread that has not heard of it."""
    return _GIVEN.get()


def given_for(scheme: str) -> GivenOptions | None:
    """Return the options that `reaching` says for a kind of store."""
    given = _GIVEN.get()
    return given if given is not None and given.scheme == scheme else None


def storage_options(
    scheme: str, given: Mapping[str, str] | None, environment: Mapping[str, str]
) -> StorageOptions:
    """Return the options of a store from what a caller says and from the environment."""
    options: dict[str, str] = {
        "connect_timeout": f"{STORE_CONNECT_TIMEOUT_S:g}s",
        "timeout": f"{STORE_REQUEST_TIMEOUT_S:g}s",
        _RETRIES: str(STORE_RETRIES_MAX),
        _RETRY_TIMEOUT: str(int(STORE_RETRY_TIMEOUT_S)),
    }
    if scheme == "s3":
        for variable, name in _S3_VARIABLES.items():
            if environment.get(variable):
                options[name] = environment[variable]
    for key, value in (given or {}).items():
        name = key.lower()
        options[_SAME.get(name, name) if scheme == "s3" else name] = _text(key, value)
    for name in (_RETRIES, _RETRY_TIMEOUT):
        if not options[name].isdigit():
            raise BadRequestError(f"storage option {name!r} must be a whole number")
    if scheme == "s3":
        _settle_s3(options)
    return StorageOptions(options)


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int):
        # The value is not shown: it may be a secret.
        raise BadRequestError(f"storage option {name!r} must be text")
    return str(value)


def _settle_s3(options: dict[str, str]) -> None:
    """Say things the way the clients know them, and refuse what they would explain badly."""
    forced = options.pop("force_path_style", None)
    if forced is not None and _is_true(forced):
        # Not forced means the client's own choice.
        options["aws_virtual_hosted_style_request"] = "false"
    if "allow_http" in options:
        options["allow_http"] = "true" if _is_true(options["allow_http"]) else "false"
    endpoint = options.get("aws_endpoint", "")
    if endpoint:
        # Stores other than Amazon's accept any region, but it is part of every signature.
        options.setdefault("aws_region", "us-east-1")
        # The clients read the environment too, and would prefer what it says under this name.
        options["aws_endpoint_url_s3"] = endpoint
    if endpoint.startswith("http://") and options.get("allow_http") != "true":
        raise BadRequestError(
            f"the endpoint {endpoint} is not encrypted",
            hint="use https, or say that it may be so: AWS_ALLOW_HTTP=true",
        )


def _is_true(text: str) -> bool:
    return text.strip().lower() in _TRUE
