"""Bundles: what is accepted, and how mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.policy import Action, copies_unread, parse_bundle, read_bundle
from omnigraph.yaml_text import YamlError, parse_yaml
from tests.policy.bundles import BUNDLE, SERVER

ONE = """\
version: 1
groups: {g: [a]}
rules:
  - id: r
    allow: {actors: {group: g}, actions: [read]}
"""


def test_a_bundle_is_read_as_it_is_written() -> None:
    bundle = parse_bundle(BUNDLE, name="team.yaml")
    assert (bundle.name, bundle.kind) == ("team.yaml", "graph")
    assert bundle.actors == ("act-guest", "act-lena", "act-omar", "agent-7")
    assert bundle.protected_branches == {"main", "release"}
    merge = next(rule for rule in bundle.rules if rule.id == "curators-merge")
    assert (merge.scope_key, merge.scope) == ("target_branch_scope", "protected")
    assert merge.actions == (Action.BRANCH_MERGE,)


def test_the_kind_of_a_bundle_follows_its_actions() -> None:
    assert parse_bundle(SERVER).kind == "server"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version: 1", "version: 2", "version 2 is not known"),
        ("{g: [a]}", "{}", "there are no groups"),
        ("{g: [a]}", "{g: []}", "group 'g' has no actors"),
        ("{g: [a]}", "{g: [' ']}", "' ' is not a valid actor name"),
        ("{g: [a]}", '{g: ["a\\nb"]}', "is not a valid actor name"),
        ("{group: g}", "{group: h}", "unknown group 'h'"),
        ("[read]", "[]", "no actions"),
        ("[read]", "[reed]", "unknown action 'reed'; there are read, export"),
        ("[read]", "[read, graph_list]", "need a file of their own"),
        ("[read]", "[read], target_branch_scope: any", "does not apply to read"),
        ("[read]", "[branch_merge], branch_scope: any", "does not apply to branch_merge"),
        ("[read]", "[invoke_query], branch_scope: any", "does not apply to invoke_query"),
        ("[read]", "[read], branch_scope: any, target_branch_scope: any", "not both"),
        ("[read]", "[read], branch_scope: some", "Invalid enum value 'some'"),
        ("[read]", "[read], extra: 1", "unknown field `extra`"),
        ("actors: {group: g}", "actors: {actor: a}", "unknown field `actor`"),
        ("rules:", "more: 1\nrules:", "unknown field `more`"),
        ("rules:", "version: 1\nrules:", "line 3: the key 'version' is repeated"),
        ("{g: [a]}", "{g: [1]}", "Expected `str`, got `int`"),
        ("[read]", "*x", "aliases are not read here"),
        ("[read]", "[read", "line "),
    ],
)
def test_every_mistake_is_named(old: str, new: str, message: str) -> None:
    assert parse_bundle(ONE).rules[0].id == "r"
    with pytest.raises(BadRequestError) as caught:
        parse_bundle(ONE.replace(old, new), name="x.yaml")
    assert message in caught.value.message
    assert caught.value.message.startswith("x.yaml: ")


def test_all_mistakes_are_told_at_once() -> None:
    text = ONE.replace("{group: g}", "{group: h}").replace("version: 1", "version: 3")
    with pytest.raises(BadRequestError) as caught:
        parse_bundle(text + "  - {id: r, allow: {actors: {group: g}, actions: [read]}}\n")
    assert len(caught.value.message.splitlines()) == 3


def test_words_of_other_yaml_dialects_stay_words() -> None:
    bundle = parse_bundle(ONE.replace("[a]", "[no, on, 2026-01-01, 0x1f]"))
    assert bundle.groups["g"] == {"no", "on", "2026-01-01", "0x1f"}


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="policy file not found"):
        read_bundle(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadRequestError, match="cannot read"):
        read_bundle(tmp_path / "bytes.yaml")


def test_copying_what_may_not_be_read_is_warned_about() -> None:
    assert copies_unread(parse_bundle(BUNDLE)) == [
        "rule 'curators-merge' does not let 'act-omar' branch_merge from protected and "
        "unprotected branches, which it may not read"
    ]


@given(st.text(max_size=60))
def test_whatever_the_text_only_a_yaml_error_comes_out(text: str) -> None:
    try:
        parse_yaml(text)
    except YamlError:
        return


DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text("abz- \n'\"", max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(DATA)
def test_what_the_library_writes_is_read_back(value: object) -> None:
    class Plain(yaml.SafeDumper):  # type: ignore[misc]  # the library carries no types
        def ignore_aliases(self, data: object) -> bool:
            return True

    assert parse_yaml(yaml.dump(value, Dumper=Plain)) == value
