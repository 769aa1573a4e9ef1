"""The grammars and the extension in `editors/`."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import omnigraph
from omnigraph.cli.commands import COMMANDS
from omnigraph.errors import CompileError
from omnigraph.lang.comments import gap_comments
from omnigraph.lang.formatting import Language, format_text
from omnigraph.lang.lexer import Kind, tokenize
from omnigraph.lang.source import SourceText
from tests.arch.project import ROOT
from tests.golden.loader import load_cases

EXTENSION = ROOT / "editors" / "vscode"
LANGUAGE_IDS = {"omnigraph-schema": Language.SCHEMA, "omnigraph-query": Language.QUERY}
GRAMMARS = {
    Language.SCHEMA: EXTENSION / "syntaxes" / "omnigraph-schema.tmLanguage.json",
    Language.QUERY: EXTENSION / "syntaxes" / "omnigraph-query.tmLanguage.json",
}


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("grammars", ROOT / "editors" / "grammars.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- grammars -----------------------------------------------------------------------------


def test_the_grammars_are_written_from_the_words_of_the_compiler() -> None:
    found = generator().grammars()
    assert sorted(found) == sorted(GRAMMARS.values())
    for path, text in found.items():
        assert path.read_text(encoding="utf-8") == text, "run `make editors`"


class Grammar:
    """A reader of TextMate grammars, as far as ours go: it scopes a text piece by piece."""

    def __init__(self, data: dict[str, Any]) -> None:
        repository = data["repository"]
        names = [item["include"].removeprefix("#") for item in data["patterns"]]
        assert sorted(names) == sorted(repository)
        rules: list[dict[str, Any]] = []
        for name in names:
            entry = repository[name]
            rules += [entry] if {"match", "begin"} & set(entry) else entry["patterns"]
        self._rules = [
            (re.compile(rule.get("match") or rule["begin"], re.MULTILINE), rule) for rule in rules
        ]

    def scopes(self, text: str) -> Iterator[tuple[int, int, str]]:
        position = 0
        while position < len(text):
            found = [
                (match.start(), number, match, rule)
                for number, (pattern, rule) in enumerate(self._rules)
                if (match := pattern.search(text, position)) is not None
            ]
            if not found:
                return
            start, _, match, rule = min(found, key=lambda item: item[:2])
            end = match.end() if "match" in rule else self._end(text, match.end(), rule)
            for group, named in rule.get("captures", {}).items():
                yield match.start(int(group)), match.end(int(group)), named["name"]
            if "captures" not in rule:
                yield start, end, rule["name"]
            position = end

    def _end(self, text: str, position: int, rule: dict[str, Any]) -> int:
        skipped = "|".join(inner["match"] for inner in rule.get("patterns", ()))
        pattern = re.compile(
            f"({skipped})|({rule['end']})" if skipped else f"(?!)()|({rule['end']})"
        )
        while True:
            found = pattern.search(text, position)
            assert found is not None, "a string or comment has no end"
            position = found.end()
            if found.group(2) is not None:
                return position


SCOPES = {
    Kind.VARIABLE: ("variable.other.omnigraph",),
    Kind.STRING: ("string.quoted.double.omnigraph",),
    Kind.INTEGER: ("constant.numeric.omnigraph",),
    Kind.FLOAT: ("constant.numeric.omnigraph",),
    Kind.TYPE_NAME: ("entity.name.type.omnigraph", "support.type.omnigraph"),
}


@pytest.mark.parametrize("language", list(Language))
def test_every_token_of_the_compiler_has_its_scope(language: Language) -> None:
    grammar = Grammar(read(GRAMMARS[language]))
    checked = 0
    for text in sorted({case.source for case in load_cases(str(language))}):
        try:
            format_text(text, language, name="t")
        except CompileError:
            continue
        tokens = tokenize(SourceText("t", text))
        found = {(start, end): name for start, end, name in grammar.scopes(text)}
        for _, span in gap_comments(text, tokens):
            assert found[span.start, span.end].startswith("comment."), text
        for token in tokens:
            # Values of an enum may look like several tokens.
            if token.kind in SCOPES and "enum" not in text:
                assert found.get((token.start, token.end)) in SCOPES[token.kind], (token, text)
                checked += 1
    assert checked > 100


# ---- the extension ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    found = read(EXTENSION / "package.json")
    assert isinstance(found, dict)
    return found


def test_the_extension_has_the_files_it_names(manifest: dict[str, Any]) -> None:
    contributed = manifest["contributes"]
    named = [manifest["main"]]
    named += [item["configuration"] for item in contributed["languages"]]
    named += [item["path"] for item in contributed["grammars"]]
    for name in named:
        assert (EXTENSION / name).is_file(), name
    for grammar in contributed["grammars"]:
        assert read(EXTENSION / grammar["path"])["scopeName"] == grammar["scopeName"]


def test_the_extension_knows_both_languages(manifest: dict[str, Any]) -> None:
    languages = {item["id"]: item["extensions"] for item in manifest["contributes"]["languages"]}
    assert languages == {name: [item.suffix] for name, item in LANGUAGE_IDS.items()}
    assert manifest["activationEvents"] == [f"onLanguage:{name}" for name in languages]
    assert [item["language"] for item in manifest["contributes"]["grammars"]] == list(languages)
    source = (EXTENSION / manifest["main"]).read_text(encoding="utf-8")
    assert f"const LANGUAGES = {json.dumps(list(languages))};" in source


def test_the_extension_starts_a_command_there_is(manifest: dict[str, Any]) -> None:
    settings = manifest["contributes"]["configuration"]["properties"]
    program, command = settings["omnigraph.command"]["default"]
    assert program == "omnigraph"
    assert command in COMMANDS
    assert set(settings) == {"omnigraph.command", "omnigraph.schema"}


def test_the_extension_has_the_version_of_the_package(manifest: dict[str, Any]) -> None:
    assert manifest["version"] == omnigraph.__version__
    assert manifest["license"] == "MIT"


def test_a_word_of_the_editor_is_a_token_of_the_language() -> None:
    pattern = re.compile(read(EXTENSION / "language-configuration.json")["wordPattern"])
    found = pattern.findall("query q($a: String) { match { $p.first_name } }")
    assert found == ["query", "q", "$a", "String", "match", "$p", "first_name"]


def test_the_lock_holds_names_versions_and_hashes_only(manifest: dict[str, Any]) -> None:
    lock = (EXTENSION / "package-lock.json").read_text(encoding="utf-8")
    assert "://" not in lock
    assert "registry" not in lock
    packages = json.loads(lock)["packages"]
    assert all("integrity" in item for name, item in packages.items() if name)
    for name, version in (manifest["dependencies"] | manifest["devDependencies"]).items():
        assert packages[f"node_modules/{name}"]["version"] == version
