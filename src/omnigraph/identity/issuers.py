"""Tokens that people get by logging in: JSON Web Tokens, signed by an issuer that is trusted."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from omnigraph.errors import BadRequestError, UnauthorizedError
from omnigraph.extras import needed
from omnigraph.identity.keys import ALGORITHMS, KeySet, check_address, is_address, key_source
from omnigraph.identity.tokens import Token
from omnigraph.limits import CLOCK_SKEW_S, JWT_CHARS_MAX
from omnigraph.policy import actor_problem

if TYPE_CHECKING:
    from jwt import PyJWK

DISCOVERY = "/.well-known/openid-configuration"
CLOCK_SKEW_S_MAX = 300.0


class IssuerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is expected of the tokens of one issuer, and what their claims mean."""

    issuer: str
    audience: str | list[str]
    keys: str | None = None
    algorithms: list[str] = msgspec.field(default_factory=lambda: [*ALGORITHMS])
    actor_claim: str = "sub"
    actor_prefix: str = ""
    roles_claim: str | None = None
    roles: dict[str, str] | None = None
    clock_skew_seconds: float = CLOCK_SKEW_S


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    issuers: list[IssuerSettings]


def read_issuers(path: str, text: str) -> Issuers:
    """Return the issuers that a file describes. Raises `BadRequestError` for what is wrong.

    Keys in a file must be there; those of an address are fetched when they are first needed, too.
    """
    try:
        issuers = msgspec.json.decode(text, type=_File).issuers
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise BadRequestError(f"{path}: {error}") from error
    if not issuers:
        raise BadRequestError(f"{path} names no issuer")
    return Issuers([Issuer(item, folder=os.path.dirname(path)) for item in issuers])


class Issuer:
    """One issuer whose tokens are taken."""

    def __init__(self, settings: IssuerSettings, *, folder: str = "") -> None:
        if problem := _problem(settings):
            raise BadRequestError(f"issuer '{settings.issuer}': {problem}")
        self.settings = settings
        if settings.keys is not None:
            self.keys = KeySet(key_source(folder, settings.keys))
        else:
            place = settings.issuer.rstrip("/") + DISCOVERY
            self.keys = KeySet(place, issuer=settings.issuer)
        failure = self.keys.refresh()
        if failure is not None and not is_address(self.keys.source):
            raise BadRequestError(failure)

    def verify(self, text: str, header: Mapping[str, object], now_s: float) -> Token:
        """Return what a token stands for. Raises `UnauthorizedError`, `StaleKeysError`."""
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in self.settings.algorithms:
            raise UnauthorizedError(
                "the token is signed with an algorithm that is not accepted here"
            )
        key_id = header.get("kid")
        if key_id is not None and not isinstance(key_id, str):
            raise UnauthorizedError("the token is not well formed")
        key = self.keys.find(key_id, algorithm)
        claims = self._claims(text, key, algorithm)
        expires = _seconds(claims, "exp")
        skew = self.settings.clock_skew_seconds
        if expires is None or expires <= now_s - skew:
            raise UnauthorizedError("the token has expired", hint="log in again")
        for name in ("nbf", "iat"):
            begins = _seconds(claims, name)
            if begins is not None and begins > now_s + skew:
                raise UnauthorizedError("the token is not valid yet")
        return Token(actor=self._actor(claims), roles=self._roles(claims), expires_at_s=expires)

    def _claims(self, text: str, key: PyJWK, algorithm: str) -> dict[str, object]:
        jwt = needed("jwt", "checking the tokens of an issuer", extra="server")
        options = {"require": ["exp", "iss", "aud"]}
        # The times are looked at by the server's own clock.
        options |= {f"verify_{name}": False for name in ("exp", "nbf", "iat")}  # type: ignore[misc]
        try:
            claims: dict[str, object] = jwt.decode(
                text,
                key,
                algorithms=[algorithm],
                audience=self.settings.audience,
                issuer=self.settings.issuer,
                options=options,
            )
        except jwt.InvalidAudienceError:
            raise UnauthorizedError("the token is for another service") from None
        except jwt.PyJWTError:
            raise UnauthorizedError("the token is not valid") from None
        return claims

    def _actor(self, claims: Mapping[str, object]) -> str:
        subject = claim(claims, self.settings.actor_claim)
        if not isinstance(subject, str) or not subject.strip():
            raise UnauthorizedError("the token names no subject")
        actor = f"{self.settings.actor_prefix}{subject}"
        if actor_problem(actor):
            raise UnauthorizedError("the subject of the token cannot be an actor here")
        return actor

    def _roles(self, claims: Mapping[str, object]) -> tuple[str, ...]:
        if self.settings.roles_claim is None:
            return ()
        roles = claim(claims, self.settings.roles_claim)
        given = roles.split() if isinstance(roles, str) else roles
        names = [item for item in given if isinstance(item, str)] if isinstance(given, list) else []
        known = self.settings.roles
        if known is not None:
            names = [known[name] for name in names if name in known]
        return tuple(sorted(set(names)))


class Issuers:
    """All issuers whose tokens are taken."""

    def __init__(self, issuers: list[Issuer]) -> None:
        self._issuers = {item.settings.issuer: item for item in issuers}
        if len(self._issuers) != len(issuers):
            raise BadRequestError("an issuer is described twice")

    def __len__(self) -> int:
        return len(self._issuers)

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, as tokens have them."""
        return tuple(self._issuers)

    def verify(self, text: str, *, now_s: float) -> Token:
        """Return what a token stands for. Raises `UnauthorizedError`, `StaleKeysError`."""
        unknown = UnauthorizedError("the token is not known")
        if text.count(".") != 2 or len(text) > JWT_CHARS_MAX or not text.isascii():
            raise unknown
        jwt = needed("jwt", "checking the tokens of an issuer", extra="server")
        try:
            header = jwt.get_unverified_header(text)
            said = jwt.decode(text, options={"verify_signature": False})
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise unknown from None
        # A token that asks for more than is known here, or brings its own payload, is not judged.
        if "crit" in header or "b64" in header:
            raise UnauthorizedError(
                "the token is signed with an algorithm that is not accepted here"
            )
        issuer = said.get("iss")
        verifier = self._issuers.get(issuer) if isinstance(issuer, str) else None
        if verifier is None:
            raise unknown
        return verifier.verify(text, header, now_s)


def claim(claims: Mapping[str, object], name: str) -> object:
    """Return a claim: by its name, or by the names on the way to it, with points between."""
    if name in claims:
        return claims[name]
    value: object = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _seconds(claims: Mapping[str, object], name: str) -> float | None:
    time_s = claims.get(name)
    if time_s is None:
        return None
    if isinstance(time_s, bool) or not isinstance(time_s, int | float) or not math.isfinite(time_s):
        raise UnauthorizedError("the token is not valid")
    return float(time_s)


def _problem(settings: IssuerSettings) -> str | None:
    unknown = [name for name in settings.algorithms if name not in ALGORITHMS]
    if unknown or not settings.algorithms:
        return f"algorithms are of {', '.join(ALGORITHMS)}, not {', '.join(unknown) or 'none'}"
    if not settings.audience:
        return "audience must name this service, or others' tokens would be taken"
    if not 0 <= settings.clock_skew_seconds <= CLOCK_SKEW_S_MAX:
        return f"clock_skew_seconds must be 0 to {CLOCK_SKEW_S_MAX:g}"
    if settings.roles is not None and settings.roles_claim is None:
        return "roles need roles_claim, which says where they are"
    if settings.keys is None:
        if not is_address(settings.issuer):
            return "keys are needed when the issuer is not a URL"
        check_address(settings.issuer)
    return None
