"""Tokens of an issuer: which are taken, for whom, and by which keys."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from omnigraph import clock
from omnigraph.errors import BadRequestError, UnauthorizedError
from omnigraph.identity import Token, Tokens, tokens_from
from omnigraph.identity.issuers import read_issuers
from omnigraph.limits import JWT_CHARS_MAX, KEYS_FRESH_S, KEYS_KNOWN_S_MAX, KEYS_RETRY_S
from tests.movable_clock import MovableClock
from tests.servers.issuer import AUDIENCE, NOW_S, Issuer, issuing, private_key, public_jwk
from tests.servers.issuer import public_pem as pem


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as found:
        yield found


@pytest.fixture
def moving() -> Iterator[MovableClock]:
    found = MovableClock()
    with clock.using(found):
        yield found


def known(issuer: Issuer, *tokens: Token, folder: Path | None = None, **settings: object) -> Tokens:
    described = {"issuer": issuer.url, "audience": AUDIENCE, "keys": f"{issuer.url}/keys"}
    text = json.dumps({"issuers": [{**described, **settings}]})
    path = str((folder or Path()) / "issuers.json")
    return Tokens(tokens, issuers=read_issuers(path, text), clock=lambda: NOW_S)


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_token_with_a_good_signature_says_who_asks(issuer: Issuer, algorithm: str) -> None:
    found = known(issuer).identify(f"Bearer {issuer.sign(algorithm)}")
    assert (found.actor, found.roles, found.expires_at_s) == ("lena", (), NOW_S + 600)


def test_tokens_of_a_file_are_taken_beside_those_of_an_issuer(issuer: Issuer) -> None:
    tokens = known(issuer, Token.of("omar", "a.b.c"))
    assert tokens.identify("Bearer a.b.c").actor == "omar"
    assert tokens.identify(f"Bearer {issuer.sign()}").actor == "lena"
    assert (len(tokens), tokens.issuers) == (2, (issuer.url,))


def _signed_by_hmac(issuer: Issuer, secret: bytes, algorithm: str) -> str:
    head = part({"alg": algorithm, "typ": "JWT", "kid": "RS256"})
    signed = f"{head}.{part(issuer.claims())}"
    mac = hmac.digest(secret, signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def _other_payload(issuer: Issuer) -> str:
    head, _, signature = issuer.sign().split(".")
    return f"{head}.{part(issuer.claims(sub='root'))}.{signature}"


def _other_algorithm(issuer: Issuer) -> str:
    _, payload, signature = issuer.sign("RS256").split(".")
    return f"{part({'alg': 'ES256', 'kid': 'RS256'})}.{payload}.{signature}"


def _with_any_claims(claims: dict[str, object]) -> str:
    payload, key = json.dumps(claims).encode(), private_key("RS256", "RS256")
    return jwt.PyJWS().encode(payload, key, algorithm="RS256", headers={"kid": "RS256"})


HOSTILE: dict[str, Callable[[Issuer], str]] = {
    "no signature": lambda i: f"{part({'alg': 'none'})}.{part(i.claims())}.",
    "no signature, other case": lambda i: f"{part({'alg': 'NoNe'})}.{part(i.claims())}.",
    "signature taken off": lambda i: i.sign().rpartition(".")[0] + ".",
    "public key as a secret": lambda i: _signed_by_hmac(i, pem("RS256", "RS256"), "HS256"),
    "public key as a secret, called RS256": lambda i: _signed_by_hmac(
        i, pem("RS256", "RS256"), "RS256"
    ),
    "empty secret": lambda i: _signed_by_hmac(i, b"", "HS256"),
    "other payload": _other_payload,
    "other algorithm": _other_algorithm,
    "key of somebody else": lambda i: i.sign("RS256", "elsewhere", {"kid": "RS256"}),
    "unknown key": lambda i: i.sign("RS256", "elsewhere"),
    "key in the token": lambda i: i.sign(
        "RS256", "elsewhere", {"jwk": public_jwk("RS256", "elsewhere")}
    ),
    "address of keys in the token": lambda i: i.sign(
        "RS256", "elsewhere", {"jku": f"{i.url}/mine", "x5u": f"{i.url}/mine"}
    ),
    "path as a key": lambda i: i.sign("RS256", "elsewhere", {"kid": "../../../etc/passwd"}),
    "a longer hash": lambda i: jwt.encode(
        i.claims(), private_key("RS256", "RS256"), algorithm="RS512", headers={"kid": "RS256"}
    ),
    "expired": lambda i: i.sign(exp=NOW_S - 61),
    "for ever": lambda i: i.sign(exp=None),
    "until a text": lambda i: i.sign(exp="never"),
    "until infinity": lambda i: i.sign(exp=float("inf")),
    "not yet": lambda i: i.sign(nbf=NOW_S + 61),
    "from the future": lambda i: i.sign(iat=NOW_S + 61),
    "of another issuer": lambda i: i.sign(iss="https://evil.example"),
    "of nearly this issuer": lambda i: i.sign(iss=f"{i.url}/"),
    "of no issuer": lambda i: i.sign(iss=None),
    "of a list of issuers": lambda i: _with_any_claims(i.claims(iss=[i.url])),
    "for another service": lambda i: i.sign(aud="billing"),
    "for nobody": lambda i: i.sign(aud=None),
    "of nobody": lambda i: i.sign(sub=None),
    "of a blank": lambda i: i.sign(sub=" "),
    "of the engine": lambda i: i.sign(sub="omnigraph:recovery"),
    "of a role": lambda i: i.sign(sub="role:admins"),
    "with critical extensions": lambda i: i.sign(headers={"crit": ["exp"], "b64": True}),
    "too long": lambda i: i.sign(filler="x" * JWT_CHARS_MAX),
    "four parts": lambda i: i.sign() + ".x",
    "five parts": lambda i: "a.b.c.d.e",
    "not encoded": lambda i: "a.b.c",
    "no objects": lambda i: f"{part([1])}.{part([2])}.x",
    "deeply nested": lambda i: f"{part({'alg': 'RS256'})}.{_deep()}.x",
    "not text": lambda i: "é.é.é",
    "empty": lambda i: "",
}


def _deep() -> str:
    return base64.urlsafe_b64encode(b"[" * 6000 + b"]" * 6000).rstrip(b"=").decode()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_token_that_is_not_in_order_is_refused(issuer: Issuer, name: str) -> None:
    tokens = known(issuer, Token.of("omar", "secret"))
    with pytest.raises(UnauthorizedError):
        tokens.identify(f"Bearer {HOSTILE[name](issuer)}")


def test_clocks_may_differ_a_little(issuer: Issuer) -> None:
    tokens = known(issuer)
    assert tokens.identify(f"Bearer {issuer.sign(exp=NOW_S - 59, iat=NOW_S + 59)}").actor == "lena"
    exact = known(issuer, clock_skew_seconds=0)
    with pytest.raises(UnauthorizedError, match="expired"):
        exact.identify(f"Bearer {issuer.sign(exp=NOW_S)}")


def test_claims_say_who_somebody_is_and_which_roles_that_one_has(issuer: Issuer) -> None:
    sent: dict[str, Any] = {
        "email": "lena@example.org",
        "realm": {"roles": ["dev", "ops", "dev", 7]},
    }
    token = f"Bearer {issuer.sign(**sent)}"
    meant: dict[str, Any] = {
        "actor_claim": "email",
        "actor_prefix": "oidc:",
        "roles_claim": "realm.roles",
    }
    found = known(issuer, **meant).identify(token)
    assert (found.actor, found.roles) == ("oidc:lena@example.org", ("dev", "ops"))
    mapped = known(issuer, **meant, roles={"dev": "writers"}).identify(token)
    assert mapped.roles == ("writers",)
    text = known(issuer, roles_claim="scope").identify(f"Bearer {issuer.sign(scope='a b')}")
    assert text.roles == ("a", "b")
    assert known(issuer, roles_claim="none.there").identify(token).roles == ()


def test_an_audience_may_be_one_of_several(issuer: Issuer) -> None:
    token = f"Bearer {issuer.sign(aud=['billing', AUDIENCE])}"
    assert known(issuer).identify(token).actor == "lena"
    assert known(issuer, audience=["x", "billing"]).identify(token).actor == "lena"


def test_an_algorithm_that_is_not_named_is_not_taken(issuer: Issuer) -> None:
    tokens = known(issuer, algorithms=["EdDSA"])
    assert tokens.identify(f"Bearer {issuer.sign('EdDSA')}").actor == "lena"
    with pytest.raises(UnauthorizedError, match="signed with an algorithm"):
        tokens.identify(f"Bearer {issuer.sign('RS256')}")


def test_a_token_without_a_key_id_is_judged_by_the_only_key(issuer: Issuer) -> None:
    token = f"Bearer {issuer.sign(headers={'kid': None})}"
    assert known(issuer).identify(token).actor == "lena"
    issuer.keys.append(public_jwk("RS256", "another"))
    with pytest.raises(UnauthorizedError):
        known(issuer).identify(token)


def test_keys_of_other_kinds_are_left_aside(issuer: Issuer) -> None:
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "RS256", "alg": "HS256"}
    private = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(private_key("RS256", "RS256")))
    issuer.keys = [secret, {**private, "kid": "RS256"}, public_jwk("ES256", "ES256", use="enc")]
    issuer.keys += [public_jwk("RS256-weak", "weak"), public_jwk("RS256", "named", alg="PS256")]
    issuer.keys += [{"kty": "RSA", "kid": "broken"}, {}, public_jwk("EdDSA", "EdDSA")]
    tokens = known(issuer)
    assert tokens.identify(f"Bearer {issuer.sign('EdDSA')}").actor == "lena"
    refused = [issuer.sign("RS256"), issuer.sign("ES256"), issuer.sign("RS256", "named")]
    weak = private_key("RS256-weak", "weak")
    with pytest.warns(jwt.warnings.InsecureKeyLengthWarning):
        refused.append(
            jwt.encode(issuer.claims(), weak, algorithm="RS256", headers={"kid": "weak"})
        )
    for token in refused:
        with pytest.raises(UnauthorizedError):
            tokens.identify(f"Bearer {token}")


# ---- keys come and go -----------------------------------------------------------------------


def test_a_new_key_is_found_when_a_token_names_it(issuer: Issuer, moving: MovableClock) -> None:
    tokens = known(issuer)
    token = f"Bearer {issuer.sign('ES256', 'next')}"
    issuer.keys.append(public_jwk("ES256", "next"))
    with pytest.raises(UnauthorizedError):
        tokens.identify(token)  # the keys were just fetched
    moving.advance(KEYS_RETRY_S)
    assert tokens.identify(token).actor == "lena"


def test_made_up_keys_do_not_make_the_issuer_work(issuer: Issuer, moving: MovableClock) -> None:
    tokens = known(issuer)
    moving.advance(KEYS_RETRY_S)
    for number in range(50):
        with pytest.raises(UnauthorizedError):
            tokens.identify(f"Bearer {issuer.sign(headers={'kid': f'k{number}'})}")
    assert issuer.asked == 2


def test_a_key_that_is_taken_back_ends_in_time(issuer: Issuer, moving: MovableClock) -> None:
    tokens = known(issuer)
    token = f"Bearer {issuer.sign()}"
    issuer.keys = [public_jwk("RS256", "next")]
    assert tokens.identify(token).actor == "lena"
    moving.advance(KEYS_FRESH_S)
    with pytest.raises(UnauthorizedError):
        tokens.identify(token)


def test_known_keys_outlast_an_issuer_that_is_away(issuer: Issuer, moving: MovableClock) -> None:
    tokens = known(issuer)
    token = f"Bearer {issuer.sign()}"
    issuer.status = 503
    moving.advance(KEYS_FRESH_S)
    assert tokens.identify(token).actor == "lena"
    moving.advance(KEYS_KNOWN_S_MAX)
    with pytest.raises(UnauthorizedError):
        tokens.identify(token)


def test_an_issuer_that_is_away_at_the_start_is_asked_later(
    issuer: Issuer, moving: MovableClock, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.status = 503
    tokens = known(issuer)
    assert [(item.getMessage(), item.__dict__["fields"]["reason"]) for item in caplog.records] == [
        ("keys not fetched", "the answer is 503")
    ]
    with pytest.raises(UnauthorizedError):
        tokens.identify(f"Bearer {issuer.sign()}")
    issuer.status = 200
    moving.advance(KEYS_RETRY_S)
    assert tokens.identify(f"Bearer {issuer.sign()}").actor == "lena"


def test_an_issuer_tells_where_its_keys_are(issuer: Issuer, moving: MovableClock) -> None:
    tokens = known(issuer, keys=None)
    assert tokens.identify(f"Bearer {issuer.sign()}").actor == "lena"
    issuer.about["issuer"] = "https://evil.example"
    other = known(issuer, keys=None)
    with pytest.raises(UnauthorizedError):
        other.identify(f"Bearer {issuer.sign()}")


def test_keys_may_lie_in_a_file_beside_the_description(issuer: Issuer, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(json.dumps({"keys": issuer.keys}))
    tokens = known(issuer, folder=tmp_path, keys="keys.json")
    assert tokens.identify(f"Bearer {issuer.sign()}").actor == "lena"
    assert issuer.asked == 0


# ---- the description ------------------------------------------------------------------------

GOOD: dict[str, Any] = {"issuer": "https://i.example", "audience": "me", "keys": "keys.json"}


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ({"issuers": []}, "names no issuer"),
        ({"issuers": [{"issuer": "x"}]}, "audience"),
        ({"issuers": [{**GOOD, "secret": "x"}]}, "secret"),
        ({"issuers": [{**GOOD, "audience": ""}]}, "audience must name this service"),
        ({"issuers": [{**GOOD, "audience": []}]}, "audience must name this service"),
        ({"issuers": [{**GOOD, "algorithms": ["HS256"]}]}, "not HS256"),
        ({"issuers": [{**GOOD, "algorithms": []}]}, "not none"),
        ({"issuers": [{**GOOD, "clock_skew_seconds": 301}]}, "0 to 300"),
        ({"issuers": [{**GOOD, "roles": {"a": "b"}}]}, "roles_claim"),
        ({"issuers": [{**GOOD, "keys": "http://i.example/keys"}]}, "over https"),
        ({"issuers": [{**GOOD, "keys": "absent.json"}]}, "cannot read the keys"),
        ({"issuers": [{**GOOD, "keys": "empty.json"}]}, "no public key"),
        ({"issuers": [{"issuer": "i", "audience": "me"}]}, "keys are needed"),
        ({"issuers": [GOOD, GOOD]}, "described twice"),
        ([], "object"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(
    tmp_path: Path, described: object, message: str
) -> None:
    path = tmp_path / "issuers.json"
    path.write_text(json.dumps(described))
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [public_jwk("EdDSA", "EdDSA")]}))
    (tmp_path / "empty.json").write_text('{"keys": []}')
    with pytest.raises(BadRequestError, match=message):
        tokens_from({}, None, str(path))
