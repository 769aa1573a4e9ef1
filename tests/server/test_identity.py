"""Logins of an issuer and certificates, on a real server."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

import omnigraph as og
from omnigraph.identity.certificates import load_certificate, tls_context
from omnigraph.mcp import Toolbox
from omnigraph.policy import policy_from_text
from omnigraph.server import Settings, Tokens, open_service, running, tokens_from
from tests.integration.conftest import Cli, cli
from tests.server.helpers import ADD, ALL, SCHEMA
from tests.servers.issuer import AUDIENCE, Issuer, issuing, private_key

__all__ = ["cli"]

POLICY = """\
version: 1
groups: {readers: [act-guest, "role:staff"], writers: ["role:curators"]}
protected_branches: [main]
rules:
  - {id: read, allow: {actors: {group: readers}, actions: [read]}}
  - {id: write, allow: {actors: {group: writers}, actions: [read, change, branch_create]}}
"""


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as found:
        yield found


@pytest.fixture
def issuers(issuer: Issuer, tmp_path: Path) -> str:
    path = tmp_path / "issuers.json"
    described = {"issuer": issuer.url, "audience": AUDIENCE, "roles_claim": "groups"}
    path.write_text(json.dumps({"issuers": [described]}), encoding="utf-8")
    return str(path)


@pytest.fixture
def store(tmp_path: Path) -> str:
    og.init(tmp_path / "g", SCHEMA, durability="none").close()
    return str(tmp_path / "g")


def login(issuer: Issuer, name: str, *roles: str) -> str:
    now = int(time.time())
    return issuer.sign("ES256", sub=name, groups=[*roles], iat=now, exp=now + 600)


def test_roles_of_a_login_decide_what_it_may_do(issuer: Issuer, issuers: str, store: str) -> None:
    settings = Settings(store=store, issuers=issuers)
    service = open_service(
        settings, tokens_from({}, None, issuers), {}, policy=policy_from_text(POLICY)
    )
    with running(service) as url:
        with og.connect(url, token=login(issuer, "lena", "curators")) as lena:
            lena.mutate(ADD, {"n": "ann"})
            assert lena.commits.head().actor_id == "lena"
        with og.connect(url, token=login(issuer, "omar", "staff")) as omar:
            assert len(omar.query(ALL)) == 1
            with pytest.raises(og.PolicyDeniedError, match="'omar' may not change"):
                omar.mutate(ADD, {"n": "bob"})
        eve = og.connect(url, token=login(issuer, "eve", "Staff", "admins"))
        with eve, pytest.raises(og.PolicyDeniedError):
            eve.query(ALL)
        nobody = og.connect(url, token=login(issuer, "role:staff"))
        with nobody, pytest.raises(og.UnauthorizedError):
            nobody.query(ALL)
        with og.connect(url, token=login(issuer, "act-guest")) as guest:
            assert len(guest.query(ALL)) == 1
    service.close()


def test_clients_are_told_where_to_log_in(issuers: str, issuer: Issuer, store: str) -> None:
    service = open_service(Settings(store=store), tokens_from({}, None, issuers), {})
    with running(service) as url, og.connect(url) as graph:
        about = graph._connection.get("/.well-known/oauth-protected-resource")
        assert about["authorization_servers"] == [issuer.url]
    service.close()


def test_an_agent_has_the_roles_of_its_login(issuers: str, issuer: Issuer, store: str) -> None:
    tokens = tokens_from({}, None, issuers)
    with og.open(store, policy=policy_from_text(POLICY), durability="none") as graph:
        box = Toolbox(graph)
        for name, roles, allowed in (("bot", ("curators",), True), ("bot", ("staff",), False)):
            token = tokens.identify(f"Bearer {login(issuer, name, *roles)}")
            call = {"query": ADD, "params": {"n": "x"}}
            if allowed:
                assert box.call("graph_mutate", call, actor=token.actor, roles=token.roles)
            else:
                with pytest.raises(og.PolicyDeniedError):
                    box.call("graph_mutate", call, actor=token.actor, roles=token.roles)


# ---- TLS ------------------------------------------------------------------------------------


def write_certificate(folder: Path, name: str, key: str) -> tuple[str, str]:
    """Write a certificate for this machine, signed by itself; return it and its key."""
    signing = private_key("ES256", key)
    called = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(called)
        .issuer_name(called)
        .public_key(signing.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .sign(signing, hashes.SHA256())
    )
    cert, secret = folder / f"{name}.pem", folder / f"{name}.key"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        signing.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(cert), str(secret)


def test_a_server_with_a_certificate_speaks_tls(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = write_certificate(tmp_path, "one", "tls-one")
    settings = Settings(store=store, unauthenticated=True, tls_cert=cert, tls_key=key)
    service = open_service(settings, Tokens(), {})
    with running(service) as url:
        assert url.startswith("https://")
        with (
            og.connect(url) as stranger,
            pytest.raises(og.StorageError, match="SSLCertVerificationError"),
        ):
            stranger.branches.list()
        monkeypatch.setenv("SSL_CERT_FILE", cert)
        with og.connect(url) as graph:
            graph.load([{"type": "Person", "data": {"name": "ann"}}], mode="append")
            assert len(graph.query(ALL)) == 1
            assert graph.export(tmp_path / "all.jsonl") == 1

        async def ask() -> int:
            async with og.AsyncRemoteGraph(url) as graph:
                return len(await graph.query(ALL))

        assert asyncio.run(ask()) == 1
        plain = url.replace("https", "http")
        with og.connect(plain, retries=0) as graph, pytest.raises(og.StorageError):
            graph.branches.list()
    service.close()


def test_a_renewed_certificate_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    files = write_certificate(tmp_path, "one", "tls-one")
    context = tls_context(*files)
    write_certificate(tmp_path, "one", "tls-two")
    load_certificate(context, *files)
    Path(files[0]).write_text("nonsense")
    with pytest.raises(og.BadRequestError, match="cannot use the certificate"):
        load_certificate(context, *files)


def test_certificates_that_cannot_be_used_stop_the_start(store: str, tmp_path: Path) -> None:
    cert, key = write_certificate(tmp_path, "one", "tls-one")
    _other, other_key = write_certificate(tmp_path, "two", "tls-two")
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        private_key("ES256", "tls-one").private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    assert tls_context(cert, key)
    for unfit in (other_key, str(tmp_path / "absent"), str(locked)):
        with pytest.raises(og.BadRequestError, match="cannot use the certificate"):
            tls_context(cert, unfit)
    with pytest.raises(og.BadRequestError, match="both"):
        Settings(store=store, tls_cert=cert)


def test_agents_are_not_served_with_a_certificate_that_cannot_be_used(
    store: str, cli: Cli, tmp_path: Path
) -> None:
    cert, key = write_certificate(tmp_path, "one", "tls-one")
    started = ("mcp", store, "--http", "127.0.0.1:0", "--unauthenticated", "--tls-cert", cert)
    assert cli(*started).code == 2
    shown = cli(*started, "--tls-key", f"{key}.absent")
    assert shown.code == 1
    assert "cannot use the certificate" in shown.err
    assert cli("mcp", store, "--tls-cert", cert, "--tls-key", key).code == 2
