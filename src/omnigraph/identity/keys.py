"""The keys by which an issuer signs: of a file or an address, kept, and fetched anew in time."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from omnigraph import clock
from omnigraph.errors import BadRequestError, UnauthorizedError
from omnigraph.extras import needed
from omnigraph.http_client import AnswerLostError, HttpClient, NotSentError
from omnigraph.limits import (
    KEYS_BYTES_MAX,
    KEYS_FRESH_S,
    KEYS_KNOWN_S_MAX,
    KEYS_RETRY_S,
    KEYS_TIMEOUT_S,
)

if TYPE_CHECKING:
    from jwt import PyJWK

# Which kind of key makes which signature. Keys that both sides share are no keys of an issuer:
# taking them would let anyone with a public key sign with it.
ALGORITHMS = {"RS256": ("RSA", None), "ES256": ("EC", "P-256"), "EdDSA": ("OKP", "Ed25519")}
RSA_BITS_MIN = 2048
LOGGER = "omnigraph.server.identity"
"""Below the server's, so that its lines go where those of the server go."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class StaleKeysError(Exception):
    """Keys must be fetched before a token can be judged."""

    def __init__(self, keys: KeySet) -> None:
        super().__init__("keys are to be fetched")
        self.keys = keys


class KeySet:
    """The keys of one issuer. Threads may share it."""

    def __init__(self, source: str, *, issuer: str | None = None) -> None:
        """`source` is a path or an address; with `issuer`, the address of its description."""
        self.source = source
        self._issuer = issuer
        self._keys: dict[tuple[str | None, str], PyJWK] = {}
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._lock = threading.Lock()
        if is_address(source):
            check_address(source)

    def find(self, key_id: str | None, algorithm: str) -> PyJWK:
        """Return the key that a signature names.

        Raises `StaleKeysError` when keys must be fetched first, and `UnauthorizedError`.
        """
        now = clock.elapsed_s()
        key = self._match(key_id, algorithm)
        age = None if self._fetched_at is None else now - self._fetched_at
        if key is not None and age is not None and age < KEYS_FRESH_S:
            return key
        # Who sends made-up key ids does not make the issuer answer for each of them.
        if self._tried_at is None or now - self._tried_at >= KEYS_RETRY_S:
            raise StaleKeysError(self)
        if key is None and self._lock.locked():
            # Another request is fetching them: this one waits for what it finds.
            raise StaleKeysError(self)
        if key is not None and age is not None and age < KEYS_KNOWN_S_MAX:
            return key
        raise UnauthorizedError("the token is signed with a key that its issuer does not show")

    def _match(self, key_id: str | None, algorithm: str) -> PyJWK | None:
        if key_id is not None:
            return self._keys.get((key_id, algorithm))
        fitting = [key for (_id, made), key in self._keys.items() if made == algorithm]
        return fitting[0] if len(fitting) == 1 else None

    def refresh(self) -> str | None:
        """Fetch the keys; return why that failed, if it did. The ones that are known stay then."""
        with self._lock:
            now = clock.elapsed_s()
            if self._tried_at is not None and now - self._tried_at < KEYS_RETRY_S:
                return None  # Another request has just done it.
            self._tried_at = now
            try:
                self._keys = usable_keys(self._read())
            except (BadRequestError, OSError, ValueError) as error:
                fields = {"source": self.source, "reason": str(error)}
                logging.getLogger(LOGGER).warning("keys not fetched", extra={"fields": fields})
                return f"cannot read the keys of {self.source}: {error}"
            self._fetched_at = now
            return None

    def _read(self) -> object:
        if not is_address(self.source):
            with open(self.source, "rb") as handle:
                return json.loads(handle.read(KEYS_BYTES_MAX))
        if self._issuer is None:
            return fetch(self.source)
        about = fetch(self.source)
        if not isinstance(about, dict) or about.get("issuer") != self._issuer:
            raise ValueError("it describes another issuer")
        place = about.get("jwks_uri")
        if not isinstance(place, str) or not is_address(place):
            raise ValueError("it names no keys")
        check_address(place)
        return fetch(place)


def is_address(source: str) -> bool:
    """Whether keys are fetched over the network."""
    return source.startswith(("http://", "https://"))


def check_address(url: str) -> None:
    """Refuse an address whose answers others could change on the way."""
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise BadRequestError(f"keys are fetched over https, not from {url}")


def fetch(url: str) -> object:
    """Return what an address holds, as data. Raises `OSError` and `ValueError`."""
    parts = urlsplit(url)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    client = HttpClient(f"{parts.scheme}://{parts.netloc}", {}, KEYS_TIMEOUT_S)
    try:
        with client.stream("GET", path, headers={"Accept": "application/json"}) as answer:
            if answer.status_code != 200:
                raise ValueError(f"the answer is {answer.status_code}")
            body = b""
            for part in answer.iter_bytes():
                body += part
                if len(body) > KEYS_BYTES_MAX:
                    raise ValueError(f"there are more than {KEYS_BYTES_MAX:,} bytes")
    except (NotSentError, AnswerLostError) as error:
        raise OSError(str(error)) from error
    finally:
        client.close()
    return json.loads(body)


def usable_keys(key_set: object) -> dict[tuple[str | None, str], PyJWK]:
    """Return the keys of a key set that sign as is allowed here, by id and algorithm."""
    jwt = needed("jwt", "checking the tokens of an issuer", extra="server")
    listed = key_set.get("keys") if isinstance(key_set, dict) else None
    if not isinstance(listed, list):
        raise ValueError("it is not a key set: an object with a list 'keys'")
    usable: dict[tuple[str | None, str], PyJWK] = {}
    for item in listed:
        algorithm = _algorithm(item) if isinstance(item, dict) else None
        if algorithm is None:
            continue
        try:
            key = jwt.PyJWK(item, algorithm)
        except jwt.PyJWTError:
            continue
        if algorithm == "RS256" and key.key.key_size < RSA_BITS_MIN:
            continue
        key_id = item.get("kid")
        usable[key_id if isinstance(key_id, str) else None, algorithm] = key
    if not usable:
        raise ValueError(f"it has no public key for {', '.join(ALGORITHMS)}")
    return usable


def _algorithm(item: Mapping[str, object]) -> str | None:
    """Return what a key signs with; None for one that is not for signatures, or not public."""
    if item.get("use", "sig") != "sig" or "d" in item:
        return None
    for name, (kind, curve) in ALGORITHMS.items():
        if item.get("kty") == kind and curve in (None, item.get("crv")):
            return name if item.get("alg", name) == name else None
    return None


def key_source(folder: str, keys: str) -> str:
    """Return where keys are: an address, or a path, which is looked up beside its file."""
    return keys if is_address(keys) else os.path.join(folder, keys)
