"""Turns a bundle into Cedar policies and lets Cedar decide."""

from __future__ import annotations

import functools
import json
import os
from types import ModuleType

from omnigraph.errors import BadRequestError, InternalError
from omnigraph.limits import POLICY_DECISIONS_CACHED
from omnigraph.policy.bundle import Bundle, Rule, parse_bundle, read_bundle
from omnigraph.policy.protocol import Access, Action, Decision


def _names(*, on_server: bool) -> str:
    return ", ".join(f'"{action}"' for action in Action if action.on_server is on_server)


SCHEMA = f"""
entity Group;
entity Actor in [Group];
entity Graph;
entity Server;
type Asked = {{
    has_branch: Bool, branch: String, branch_is_protected: Bool,
    has_target_branch: Bool, target_branch: String, target_branch_is_protected: Bool,
}};
action {_names(on_server=False)}
    appliesTo {{ principal: [Actor], resource: [Graph], context: Asked }};
action {_names(on_server=True)}
    appliesTo {{ principal: [Actor], resource: [Server], context: Asked }};
"""


def load_policy(path: str | os.PathLike[str]) -> CedarPolicy:
    """Read a bundle from a YAML file and make a policy of it.

    >>> policy = og.load_policy("team.yaml")
    >>> with og.open("tasks.omni", actor="ann", policy=policy) as mine:
    ...     len(mine.query(TASKS))
    2

    Raises `NotFoundError`, and `BadRequestError` with everything that is wrong with it.
    """
    return CedarPolicy(read_bundle(path))


def policy_from_text(text: str, *, name: str = "policy") -> CedarPolicy:
    """Make a policy of the text of a bundle."""
    return CedarPolicy(parse_bundle(text, name=name))


class CedarPolicy:
    """The rules of one bundle, decided by Cedar."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self._engine = _engine()
        self.cedar = cedar_text(bundle)
        checked = self._engine.validate_policies(self.cedar, SCHEMA)
        if not checked.validation_passed:
            raise InternalError(f"{bundle.name}: {'; '.join(str(e) for e in checked.errors)}")
        self._policies = self._engine.PolicySet.from_str(self.cedar)
        self._schema = self._engine.Schema.from_str(SCHEMA)
        self._entities = self._engine.Entities.from_json_str(json.dumps(_entities(bundle)))
        # Answers depend on nothing but the question, so asking again costs nothing.
        self._decide = functools.lru_cache(POLICY_DECISIONS_CACHED)(self._evaluate)

    @property
    def name(self) -> str:
        """What messages call the policy."""
        return self.bundle.name

    def decide(self, access: Access) -> Decision:
        """Answer one question."""
        return self._decide(access)

    def _evaluate(self, access: Access) -> Decision:
        on_server = self.bundle.kind == "server"
        if access.actor is None or access.action.on_server is not on_server:
            return self._refusal(access)
        request = {
            "principal": {"type": "Actor", "id": access.actor},
            "action": {"type": "Action", "id": str(access.action)},
            "resource": {"type": "Server" if on_server else "Graph", "id": "root"},
            "context": self._context(access),
        }
        entities = self._entities if not access.roles else self._with_roles(access)
        answer = self._engine.is_authorized(request, self._policies, entities, self._schema)
        if answer.diagnostics.errors:
            # A rule Cedar could not evaluate decides nothing; saying yes without it is no option.
            raise InternalError(f"{self.name}: {'; '.join(answer.diagnostics.errors)}")
        if not answer.allowed:
            return self._refusal(access)
        named = set(answer.diagnostics.id_annotations_by_reason.values())
        rule = next(rule for rule in self.bundle.rules if rule.id in named)
        return Decision(
            allowed=True,
            matched_rule_id=rule.id,
            message=f"rule '{rule.id}' allows '{access.actor}' to {access.describe()}",
        )

    def _with_roles(self, access: Access) -> object:
        """Return the groups, and the one who asks as a member of those that name a role of it."""
        groups = self.bundle.groups_of(str(access.actor), access.roles)
        entities = [*_group_entities(self.bundle), _actor_entity(str(access.actor), groups)]
        return self._engine.Entities.from_json_str(json.dumps(entities))

    def _context(self, access: Access) -> dict[str, object]:
        protected = self.bundle.protected_branches
        return {
            "has_branch": access.branch is not None,
            "branch": access.branch or "",
            "branch_is_protected": access.branch in protected,
            "has_target_branch": access.target_branch is not None,
            "target_branch": access.target_branch or "",
            "target_branch_is_protected": access.target_branch in protected,
        }

    def _refusal(self, access: Access) -> Decision:
        if access.actor is None:
            return Decision(
                allowed=False,
                message=f"no actor is named, so the policy denies {access.describe()}",
                hint="name an actor",
            )
        rules = self.bundle.rules_of(access.actor, access.roles)
        near = tuple(rule for rule in rules if access.action in rule.actions)
        return Decision(
            allowed=False,
            message=f"'{access.actor}' may not {access.describe()}: {self._reason(access)}",
            near_rule_ids=tuple(rule.id for rule in near),
            hint=_hint(access, rules, near),
        )

    def _reason(self, access: Access) -> str:
        if access.action.on_server is not (self.bundle.kind == "server"):
            return f"{self.name} is a policy for a {self.bundle.kind}"
        key = access.action.scope_key
        branch = access.branch if key == "branch_scope" else access.target_branch
        if key is None or branch is None:
            return f"no rule of {self.name} allows it"
        kind = "protected" if branch in self.bundle.protected_branches else "unprotected"
        return f"'{branch}' is {kind} and no rule of {self.name} allows it there"


def _hint(access: Access, rules: tuple[Rule, ...], near: tuple[Rule, ...]) -> str:
    if near:
        places = ", ".join(f"'{rule.id}' on {rule.where()}" for rule in near)
        return f"{access.action} is allowed by {places}"
    if not rules:
        return f"no rule is about '{access.actor}'; check the name, or ask for a rule"
    allowed = sorted({str(action) for rule in rules for action in rule.actions})
    return f"'{access.actor}' may {', '.join(allowed)}; ask for a rule that allows {access.action}"


def cedar_text(bundle: Bundle) -> str:
    """Return a bundle as Cedar policies, one for each rule, in order."""
    return "\n".join(_policy(rule) for rule in bundle.rules)


def _policy(rule: Rule) -> str:
    actions = ", ".join(f"Action::{_quoted(action)}" for action in rule.actions)
    resource = "Server" if rule.actions[0].on_server else "Graph"
    text = (
        f"@id({_quoted(rule.id)})\n"
        f"permit (principal in Group::{_quoted(rule.group)}, action in [{actions}], "
        f"resource is {resource})"
    )
    if rule.scope == "any":
        return f"{text};"
    side = "branch" if rule.scope_key == "branch_scope" else "target_branch"
    wanted = "" if rule.scope == "protected" else "!"
    return f"{text}\nwhen {{ context.has_{side} && {wanted}context.{side}_is_protected }};"


def _quoted(text: str) -> str:
    """Return a text as Cedar writes it: whatever is not plain goes by its number."""
    plain = "".join(c if c.isalnum() or c in " _-.:/@" else f"\\u{{{ord(c):x}}}" for c in text)
    return f'"{plain}"'


def _entities(bundle: Bundle) -> list[dict[str, object]]:
    actors = (_actor_entity(actor, bundle.groups_of(actor)) for actor in bundle.actors)
    return [*_group_entities(bundle), *actors]


def _group_entities(bundle: Bundle) -> list[dict[str, object]]:
    return [
        {"uid": {"type": "Group", "id": group}, "attrs": {}, "parents": []}
        for group in bundle.groups
    ]


def _actor_entity(actor: str, groups: tuple[str, ...]) -> dict[str, object]:
    parents = [{"type": "Group", "id": group} for group in groups]
    return {"uid": {"type": "Actor", "id": actor}, "attrs": {}, "parents": parents}


def _engine() -> ModuleType:
    try:
        import cedarpy
    except ImportError as error:
        raise BadRequestError(
            "policies need the package cedarpy", hint="pip install 'omnigraph[policy]'"
        ) from error
    return cedarpy
