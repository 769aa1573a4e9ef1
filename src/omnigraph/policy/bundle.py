"""A bundle of rules as people write it: YAML into checked data, every mistake named at once."""

from __future__ import annotations

import os
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.policy.actors import ROLE_PREFIX, actor_problem
from omnigraph.policy.protocol import Action
from omnigraph.yaml_text import YamlError, parse_yaml

Scope = Literal["any", "protected", "unprotected"]
Kind = Literal["graph", "server"]
T = TypeVar("T")


class _Actors(msgspec.Struct, forbid_unknown_fields=True):
    group: str


class _Allow(msgspec.Struct, forbid_unknown_fields=True):
    actors: _Actors
    actions: list[str]
    branch_scope: Scope | None = None
    target_branch_scope: Scope | None = None


class _Rule(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    allow: _Allow


class _File(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    groups: dict[str, list[str]]
    rules: list[_Rule]
    protected_branches: list[str] = []


class Rule(Struct, frozen=True, kw_only=True):
    """Allows the actors of one group some actions, perhaps on one kind of branch only."""

    id: str
    group: str
    actions: tuple[Action, ...]
    scope_key: str | None = None
    scope: Scope = "any"

    def where(self) -> str:
        """Return the branches it is about, as words."""
        return "any branch" if self.scope == "any" else f"{self.scope} branches"


class Bundle(Struct, frozen=True, kw_only=True):
    """The rules of one graph, or of a server."""

    name: str
    kind: Kind
    groups: dict[str, frozenset[str]]
    rules: tuple[Rule, ...]
    protected_branches: frozenset[str]

    @property
    def actors(self) -> tuple[str, ...]:
        """All actors a group names, sorted."""
        return tuple(sorted(set[str]().union(*self.groups.values())))

    def groups_of(self, actor: str, roles: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return the groups that name an actor, or one of its roles."""
        names = {actor, *(f"{ROLE_PREFIX}{role}" for role in roles)}
        return tuple(group for group, members in self.groups.items() if names & members)

    def rules_of(self, actor: str, roles: tuple[str, ...] = ()) -> tuple[Rule, ...]:
        """Return the rules whose group names an actor, or one of its roles."""
        groups = self.groups_of(actor, roles)
        return tuple(rule for rule in self.rules if rule.group in groups)


def read_bundle(path: str | os.PathLike[str]) -> Bundle:
    """Read a bundle from a file. Raises `NotFoundError` and `BadRequestError`."""
    return parse_bundle(read_policy_text(path), name=os.path.basename(os.fspath(path)))


def read_policy_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a file of this room."""
    try:
        with open(path, encoding="utf-8") as handle:
            return handle.read()
    except FileNotFoundError:
        raise NotFoundError(f"policy file not found: {os.fspath(path)}") from None
    except (UnicodeDecodeError, OSError) as error:
        raise BadRequestError(f"cannot read {os.fspath(path)}: {error}") from error


def parse_bundle(text: str, *, name: str = "policy") -> Bundle:
    """Return the bundle a YAML text describes. Raises `BadRequestError` with every problem."""
    file = decode(text, _File, name=name)
    problems = list(_problems(file))
    if problems:
        raise BadRequestError("\n".join(f"{name}: {problem}" for problem in problems))
    rules = tuple(_rule(rule) for rule in file.rules)
    return Bundle(
        name=name,
        kind="server" if rules[0].actions[0].on_server else "graph",
        groups={group: frozenset(actors) for group, actors in file.groups.items()},
        rules=rules,
        protected_branches=frozenset(file.protected_branches),
    )


def copies_unread(bundle: Bundle) -> list[str]:
    """Return a warning for each rule whose actors may not read what they could fork or merge.

    A fork or a merge carries the content of its source, so it is refused without `read` of it.
    """
    warnings: list[str] = []
    for rule in bundle.rules:
        copying = [a for a in rule.actions if a in (Action.BRANCH_CREATE, Action.BRANCH_MERGE)]
        for actor in sorted(bundle.groups[rule.group]) if copying else ():
            scopes = {r.scope for r in bundle.rules_of(actor) if Action.READ in r.actions}
            if "any" in scopes or scopes >= {"protected", "unprotected"}:
                continue
            hidden = {"protected", "unprotected"} - scopes
            kinds = " and ".join(sorted(hidden))
            warnings.append(
                f"rule '{rule.id}' does not let '{actor}' {copying[0]} from {kinds} branches, "
                "which it may not read"
            )
    return warnings


def decode(text: str, shape: type[T], *, name: str) -> T:
    """Return a YAML text as data of one shape; an unknown key is an error."""
    try:
        return msgspec.convert(parse_yaml(text), shape)
    except (YamlError, msgspec.ValidationError) as error:
        raise BadRequestError(f"{name}: {error}") from error


def _rule(rule: _Rule) -> Rule:
    allow = rule.allow
    actions = tuple(Action(action) for action in dict.fromkeys(allow.actions))
    key = next((key for key, scope in _scopes(allow).items() if scope is not None), None)
    if key is None:
        return Rule(id=rule.id, group=allow.actors.group, actions=actions)
    return Rule(
        id=rule.id,
        group=allow.actors.group,
        actions=actions,
        scope_key=key,
        scope=_scopes(allow)[key] or "any",
    )


def _scopes(allow: _Allow) -> dict[str, Scope | None]:
    return {
        "branch_scope": allow.branch_scope,
        "target_branch_scope": allow.target_branch_scope,
    }


def _problems(file: _File) -> list[str]:
    problems: list[str] = []
    if file.version != 1:
        problems.append(f"version {file.version} is not known; write version: 1")
    if not file.groups:
        problems.append("there are no groups")
    if not file.rules:
        problems.append("there are no rules")
    for group, actors in file.groups.items():
        if not actors:
            problems.append(f"group {group!r} has no actors")
        named = [actor.removeprefix(ROLE_PREFIX) for actor in actors]
        unfit = [actor for actor in named if not _is_valid_name(actor) or actor_problem(actor)]
        problems += [f"{actor!r} is not a valid actor name" for actor in unfit]
    problems += [
        f"{group!r} is not a valid group name" for group in file.groups if not _is_valid_name(group)
    ]
    problems += [
        f"{b!r} is not a valid branch name"
        for b in file.protected_branches
        if not _is_valid_name(b)
    ]
    seen: set[str] = set()
    for rule in file.rules:
        where = f"rule '{rule.id}'"
        if not _is_valid_name(rule.id):
            problems.append(f"{rule.id!r} is not a valid rule id")
        if rule.id in seen:
            problems.append(f"{where} is defined twice")
        seen.add(rule.id)
        problems += [f"{where}: {problem}" for problem in _rule_problems(rule.allow, file.groups)]
    known = {a for rule in file.rules for a in rule.allow.actions if a in set(Action)}
    if len({Action(action).on_server for action in known}) > 1:
        problems.append(
            "graph_list and config_manage are about the server: they need a file of their own"
        )
    return problems


def _is_valid_name(text: str) -> bool:
    return bool(text.strip()) and text.isprintable()


def _rule_problems(allow: _Allow, groups: dict[str, list[str]]) -> list[str]:
    problems: list[str] = []
    if allow.actors.group not in groups:
        problems.append(f"unknown group '{allow.actors.group}'")
    if not allow.actions:
        problems.append("no actions")
    known = [Action(action) for action in allow.actions if action in set(Action)]
    problems += [
        f"unknown action '{action}'; there are {', '.join(Action)}"
        for action in allow.actions
        if action not in set(Action)
    ]
    given = [key for key, scope in _scopes(allow).items() if scope is not None]
    if len(given) > 1:
        problems.append("give branch_scope or target_branch_scope, not both")
    for key in given:
        unfit = [action for action in known if action.scope_key != key]
        problems += [f"{key} does not apply to {action}" for action in unfit]
    return problems
