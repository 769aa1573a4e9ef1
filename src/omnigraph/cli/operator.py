"""A person's own configuration: servers, profiles, aliases and tokens.

It lives in `$OMNIGRAPH_HOME` (`~/.omnigraph`): `config.yaml`, which never holds a token, and
`credentials`, which holds nothing else and which only its owner may read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from omnigraph.errors import BadRequestError, StorageError

if TYPE_CHECKING:
    from configparser import ConfigParser

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SECTIONS = {"operator", "servers", "clusters", "defaults", "profiles", "aliases"}
_FALLBACK = "OMNIGRAPH_BEARER_TOKEN"
Table = Mapping[str, Any]


class Operator(Struct, frozen=True, kw_only=True):
    """The configuration, as far as it was written."""

    home: str
    env: Mapping[str, str]
    actor: str | None = None
    servers: Mapping[str, str] = field(default_factory=dict)
    clusters: Mapping[str, str] = field(default_factory=dict)
    defaults: Table = field(default_factory=dict)
    profiles: Mapping[str, Table] = field(default_factory=dict)
    aliases: Mapping[str, Table] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def credentials_path(self) -> str:
        """Where tokens are kept."""
        return os.path.join(self.home, "credentials")

    def server_url(self, name: str) -> str:
        """Return the address of a server, given its name or its address."""
        if "://" in name:
            return name.rstrip("/")
        if name not in self.servers:
            known = ", ".join(sorted(self.servers)) or "none"
            raise BadRequestError(
                f"no server '{name}' is configured", hint=f"known: {known}; or give its address"
            )
        return self.servers[name].rstrip("/")

    def cluster_place(self, name: str) -> str:
        """Return where a cluster is, given its configured name or the place itself."""
        return self.clusters.get(name, name)

    def profile(self, name: str) -> tuple[str, str]:
        """Return the kind and value of a profile's one binding."""
        if name not in self.profiles:
            known = ", ".join(sorted(self.profiles)) or "none"
            raise BadRequestError(f"no profile '{name}' is configured", hint=f"known: {known}")
        bound = [kind for kind in ("server", "cluster", "store") if kind in self.profiles[name]]
        if len(bound) != 1:
            raise BadRequestError(
                f"profile '{name}' must name one of server, cluster and store, not {len(bound)}"
            )
        return bound[0], str(self.profiles[name][bound[0]])

    def token_for(self, url: str) -> str | None:
        """Return the token for an address.

        The server is the one whose own address is the longest beginning of it; a token of a
        server goes to no other host.
        """
        for name in self._servers_of(url):
            variable = f"OMNIGRAPH_TOKEN_{name.replace('-', '_').upper()}"
            token = self.env.get(variable) or self.stored_tokens().get(name)
            if token:
                return token
        return self.env.get(_FALLBACK) or None

    def login_hint(self, url: str) -> str:
        """Return how a user whose token a server refuses gets on."""
        for name in self._servers_of(url):
            return f"run: omnigraph login {name}"
        return f"name the server in {self.home}/config.yaml, then run: omnigraph login NAME"

    def _servers_of(self, url: str) -> list[str]:
        names = [name for name, base in self.servers.items() if _begins(url, base)]
        return sorted(names, key=lambda item: len(self.servers[item]), reverse=True)

    def stored_tokens(self) -> dict[str, str]:
        """Return the tokens of the credentials file. Raises when others may read it."""
        return {
            name: section["token"]
            for name, section in self._credentials().items()
            if "token" in section
        }

    def _credentials(self) -> ConfigParser:
        import configparser

        credentials = configparser.ConfigParser(interpolation=None, default_section="\0")
        path = self.credentials_path
        try:
            mode = os.stat(path).st_mode
            if stat.S_IMODE(mode) & 0o077:
                raise BadRequestError(
                    f"{path} can be read by others", hint=f"run: chmod 600 {path}"
                )
            with open(path, encoding="utf-8") as handle:
                credentials.read_file(handle)
        except FileNotFoundError:
            pass
        except (PermissionError, NotADirectoryError) as error:
            if not _out_of_reach(path, self.env):
                raise BadRequestError(f"cannot read {path}: {type(error).__name__}") from None
        except (OSError, configparser.Error, UnicodeDecodeError) as error:
            # The text holds tokens: no part of it goes into a message.
            raise BadRequestError(f"cannot read {path}: {type(error).__name__}") from None
        return credentials

    def store_token(self, name: str, token: str | None) -> None:
        """Keep a server's token, or forget it for None. The file is replaced as a whole."""
        if not _NAME.fullmatch(name):
            raise BadRequestError(f"{name!r} cannot be the name of a server")
        credentials = self._credentials()
        credentials.remove_section(name)
        if token is not None:
            credentials[name] = {"token": token}
        elif not os.path.exists(self.credentials_path):
            return
        temporary = f"{self.credentials_path}.{os.getpid()}"
        try:
            os.makedirs(self.home, mode=0o700, exist_ok=True)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
                credentials.write(handle)
            os.replace(temporary, self.credentials_path)
        except OSError as error:
            raise StorageError(f"cannot write {self.credentials_path}: {error.strerror}") from error


def _begins(url: str, base: str) -> bool:
    """Whether an address lies below another one: same scheme and host, path on a boundary."""
    whole, part = urlsplit(url), urlsplit(base)
    if (whole.scheme, whole.netloc.lower()) != (part.scheme, part.netloc.lower()):
        return False
    prefix = part.path.rstrip("/")
    return not prefix or whole.path == prefix or whole.path.startswith(f"{prefix}/")


def _out_of_reach(path: str, env: Mapping[str, str]) -> bool:
    """Whether a file of the default home cannot even be looked for.

    A service that gave up its rights often keeps the home folder of the user who started it.
    What lies there is not its configuration; a folder it was told of, or a file it sees, is.
    """
    if env.get("OMNIGRAPH_HOME"):
        return False
    try:
        os.stat(path)
    except (PermissionError, NotADirectoryError):
        return True
    return False


def load_operator(env: Mapping[str, str]) -> Operator:
    """Return the configuration; an absent file is an empty one. Raises for a malformed one."""
    home = env.get("OMNIGRAPH_HOME") or os.path.expanduser("~/.omnigraph")
    path = os.path.join(home, "config.yaml")
    try:
        with open(path, encoding="utf-8") as handle:
            text = handle.read()
    except FileNotFoundError:
        return Operator(home=home, env=env)
    except (OSError, UnicodeDecodeError) as error:
        if _out_of_reach(path, env):
            return Operator(home=home, env=env)
        raise BadRequestError(f"cannot read {path}: {error}") from error
    return _parse(text, home, env, path)


def _parse(text: str, home: str, env: Mapping[str, str], path: str) -> Operator:
    from omnigraph.yaml_text import YamlError, parse_yaml

    try:
        config = parse_yaml(text) or {}
    except YamlError as error:
        raise BadRequestError(f"{path}: {error}") from error
    if not isinstance(config, dict):
        raise BadRequestError(f"{path} must hold an object")
    tables = {name: _table(config, name, path) for name in _SECTIONS}
    defaults = tables["defaults"]
    if "server" in defaults and "store" in defaults:
        raise BadRequestError(f"{path}: defaults name a server or a store, not both")
    if "store" in defaults and "default_graph" in defaults:
        raise BadRequestError(f"{path}: a default store has no default_graph")
    actor = tables["operator"].get("actor")
    return Operator(
        home=home,
        env=env,
        actor=None if actor is None else str(actor),
        servers={name: _url(name, value, path) for name, value in tables["servers"].items()},
        clusters={name: _root(name, value, path) for name, value in tables["clusters"].items()},
        defaults=defaults,
        profiles={name: _table(tables["profiles"], name, path) for name in tables["profiles"]},
        aliases={name: _table(tables["aliases"], name, path) for name in tables["aliases"]},
        warnings=tuple(f"{path}: unknown key '{key}'" for key in config if key not in _SECTIONS),
    )


def _table(parent: Table, name: str, path: str) -> Table:
    value = parent.get(name) or {}
    if not isinstance(value, dict):
        raise BadRequestError(f"{path}: {name} must be an object")
    return value


def _url(name: str, value: object, path: str) -> str:
    url = value.get("url") if isinstance(value, dict) else None
    if not isinstance(url, str) or urlsplit(url).scheme not in ("http", "https"):
        raise BadRequestError(f"{path}: server '{name}' needs a url")
    if isinstance(value, dict) and "token" in value:
        raise BadRequestError(
            f"{path}: tokens do not belong here", hint=f"run: omnigraph login {name}"
        )
    return url


def _root(name: str, value: object, path: str) -> str:
    root = value.get("root") if isinstance(value, dict) else None
    if not isinstance(root, str):
        raise BadRequestError(f"{path}: cluster '{name}' needs a root")
    return root
