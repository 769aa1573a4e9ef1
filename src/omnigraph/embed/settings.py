"""Chooses an embedder by settings such as environment variables hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.embed.hashed import HashEmbedder
from omnigraph.embed.http import HttpEmbedder, Patience
from omnigraph.embed.local import DEFAULT_MODEL, LocalEmbedder
from omnigraph.embed.protocol import Embedder
from omnigraph.errors import BadRequestError

_PREFIX = "OMNIGRAPH_EMBED_"
_OFF = ("", "0", "false")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Provider:
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
_NAMES = (*_PROVIDERS, "local", "mock")


def embedder_from(settings: Mapping[str, str]) -> Embedder | None:
    """Return the embedder some settings ask for, None when they ask for none.

    Settings are `OMNIGRAPH_EMBED_PROVIDER` (`openai-compatible`, `openai`, `gemini`, `local` or
    `mock`), `_BASE_URL`, `_MODEL`, `_TIMEOUT_MS`, `_DEADLINE_MS`, `_RETRY_ATTEMPTS`,
    `_RETRY_BACKOFF_MS`, and the key of the provider. `OMNIGRAPH_EMBEDDINGS_MOCK` forces `mock`.
    Raises `BadRequestError` for a bad setting or a missing key.
    """
    model = settings.get(f"{_PREFIX}MODEL") or None
    if settings.get("OMNIGRAPH_EMBEDDINGS_MOCK", "").lower() not in _OFF:
        return HashEmbedder(model or "mock")
    asked = [name for name in ("PROVIDER", "BASE_URL", "MODEL") if settings.get(_PREFIX + name)]
    if not asked:
        return None
    name = settings.get(f"{_PREFIX}PROVIDER") or "openai-compatible"
    if name == "mock":
        return HashEmbedder(model or "mock")
    if name == "local":
        return LocalEmbedder(model or DEFAULT_MODEL)
    provider = _PROVIDERS.get(name)
    if provider is None:
        listed = ", ".join(_NAMES)
        raise BadRequestError(f"{_PREFIX}PROVIDER must be one of {listed}, not {name!r}")
    base_url = settings.get(f"{_PREFIX}BASE_URL")
    key = settings.get(provider.key)
    if not key and not base_url:
        raise BadRequestError(f"{provider.key} is not set", hint=f"provider {name} needs it")
    return HttpEmbedder(
        model or provider.model,
        base_url=base_url or provider.base_url,
        api_key=key,
        patience=_patience(settings),
    )


def _patience(settings: Mapping[str, str]) -> Patience:
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
