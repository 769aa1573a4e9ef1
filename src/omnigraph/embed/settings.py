"""Chooses an embedder by settings such as environment variables hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from omnigraph.embed.hashed import HashEmbedder
from omnigraph.embed.local import DEFAULT_MODEL, LocalEmbedder
from omnigraph.embed.protocol import Embedder
from omnigraph.errors import BadRequestError

if TYPE_CHECKING:
    from omnigraph.embed.http import Patience

_PREFIX = "OMNIGRAPH_EMBED_"
_OFF = ("", "0", "false")


class _Provider(Struct, frozen=True, kw_only=True):
    """A server to ask unless the settings name another."""

    base_url: str
    model: str
    key: str


_PROVIDERS = {
    "openai-compatible": _Provider(
        base_url="https://openrouter.ai/api/v1",
        model="openai/text-embedding-3-large",
        key="OPENROUTER_API_KEY",
    ),
    "openai": _Provider(
        base_url="https://api.openai.com/v1", model="text-embedding-3-large", key="OPENAI_API_KEY"
    ),
    "gemini": _Provider(
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        model="gemini-embedding-001",
        key="GEMINI_API_KEY",
    ),
}
KINDS = (*_PROVIDERS, "local", "mock")


def embedder_from(settings: Mapping[str, str]) -> Embedder | None:
    """Return the embedder some settings ask for, None when they ask for none.

    >>> og.embedder_from({}) is None
    True

    Settings are `OMNIGRAPH_EMBED_PROVIDER` (`openai-compatible`, `openai`, `gemini`, `local` or
    `mock`), `_BASE_URL`, `_MODEL`, `_TIMEOUT_MS`, `_DEADLINE_MS`, `_RETRY_ATTEMPTS`,
    `_RETRY_BACKOFF_MS`, and the key of the provider. `OMNIGRAPH_EMBEDDINGS_MOCK` forces `mock`.
    Raises `BadRequestError` for a bad setting or a missing key.
    """
    asked = {name: settings.get(_PREFIX + name) for name in ("PROVIDER", "BASE_URL", "MODEL")}
    if not any(asked.values()) and not _mocked(settings):
        return None
    return named_embedder(
        asked["PROVIDER"] or "openai-compatible",
        settings,
        base_url=asked["BASE_URL"],
        model=asked["MODEL"],
    )


def named_embedder(
    kind: str,
    settings: Mapping[str, str],
    *,
    base_url: str | None = None,
    model: str | None = None,
    api_key: str | None = None,
) -> Embedder:
    """Return an embedder of a kind; its key is the usual variable's unless one is given.

    Raises `BadRequestError` for an unknown kind and a missing key.
    """
    if kind == "mock" or _mocked(settings):
        return HashEmbedder(model or "mock")
    if kind == "local":
        return LocalEmbedder(model or DEFAULT_MODEL)
    provider = _PROVIDERS.get(kind)
    if provider is None:
        listed = ", ".join(KINDS)
        raise BadRequestError(f"{_PREFIX}PROVIDER must be one of {listed}, not {kind!r}")
    key = api_key or settings.get(provider.key)
    if not key and not base_url:
        raise BadRequestError(f"{provider.key} is not set", hint=f"provider {kind} needs it")
    from omnigraph.embed.http import HttpEmbedder

    return HttpEmbedder(
        model or provider.model,
        base_url=base_url or provider.base_url,
        api_key=key,
        patience=_patience(settings),
    )


def _mocked(settings: Mapping[str, str]) -> bool:
    return settings.get("OMNIGRAPH_EMBEDDINGS_MOCK", "").lower() not in _OFF


def _patience(settings: Mapping[str, str]) -> Patience:
    from omnigraph.embed.http import Patience

    usual = Patience()
    return Patience(
        timeout_s=_number(settings, "TIMEOUT_MS", usual.timeout_s * 1000, least=1) / 1000,
        deadline_s=_number(settings, "DEADLINE_MS", usual.deadline_s * 1000, least=1) / 1000,
        attempts=int(_number(settings, "RETRY_ATTEMPTS", usual.attempts, least=1)),
        backoff_s=_number(settings, "RETRY_BACKOFF_MS", usual.backoff_s * 1000, least=0) / 1000,
    )


def _number(settings: Mapping[str, str], name: str, usual: float, *, least: int) -> float:
    text = settings.get(_PREFIX + name)
    if not text:
        return usual
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < least:
        raise BadRequestError(
            f"{_PREFIX}{name} must be a whole number from {least} on, not {text!r}"
        )
    return value
