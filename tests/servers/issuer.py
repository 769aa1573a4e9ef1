"""An issuer of tokens on this machine: real keys, a real server that shows the public ones."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "omnigraph"
NOW_S = 1_800_000_000


@functools.cache
def private_key(algorithm: str, name: str) -> Any:
    """Return a key by its name; making one takes a while."""
    if algorithm == "RS256":
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)
    if algorithm == "RS256-weak":
        return rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505
    if algorithm == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    return ed25519.Ed25519PrivateKey.generate()


def public_jwk(algorithm: str, name: str, **more: object) -> dict[str, Any]:
    """Return the public half of a key, as an issuer shows it."""
    key = private_key(algorithm, name).public_key()
    kinds: Mapping[str, Any] = {"ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}
    found: dict[str, Any] = kinds.get(algorithm, RSAAlgorithm).to_jwk(key, as_dict=True)
    return found | {"kid": name, "use": "sig"} | more


def public_pem(algorithm: str, name: str) -> bytes:
    """Return the public half of a key as text."""
    found: bytes = (
        private_key(algorithm, name)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return found


class Issuer:
    """Signs tokens, and shows its keys at an address."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys: list[dict[str, Any]] = [
            public_jwk(algorithm, algorithm) for algorithm in ("RS256", "ES256", "EdDSA")
        ]
        self.asked = 0
        self.status = 200
        self.about: dict[str, object] = {"issuer": url, "jwks_uri": f"{url}/keys"}

    def claims(self, **changed: object) -> dict[str, object]:
        """Return the claims of a good token, with some changed, or taken out by None."""
        found = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "lena",
            "iat": NOW_S - 10,
            "exp": NOW_S + 600,
            **changed,
        }
        return {name: value for name, value in found.items() if value is not None}

    def sign(
        self,
        algorithm: str = "RS256",
        key: str | None = None,
        headers: dict[str, Any] | None = None,
        **changed: object,
    ) -> str:
        """Return a token."""
        name = key or algorithm
        sent = {"kid": name, **(headers or {})}
        sent = {k: v for k, v in sent.items() if v is not None}
        return jwt.encode(
            self.claims(**changed), private_key(algorithm, name), algorithm=algorithm, headers=sent
        )


@contextmanager
def issuing() -> Iterator[Issuer]:
    """Run an issuer while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked += 1
            shown = {"/keys": {"keys": issuer.keys}}
            shown["/.well-known/openid-configuration"] = issuer.about  # type: ignore[assignment]
            body = json.dumps(shown.get(self.path)).encode()
            self.send_response(issuer.status if self.path in shown else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    issuer = Issuer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
