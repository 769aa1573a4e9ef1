"""Writes the TextMate grammars of both languages from the words of the compiler.

`make editors` runs it. A test fails when the committed grammars are not what it writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from omnigraph.lang import words

FOLDER = Path(__file__).parent / "vscode" / "syntaxes"
WORD_OPERATORS = ("and", "contains", "in", "is", "not", "or", "starts_with")
LOWER_NAME = "[a-z_][A-Za-z0-9_]*"
TYPE_NAME = "[A-Z][A-Za-z0-9_]*"


def one_of(names: Iterable[str]) -> str:
    """Return a pattern for whole words."""
    return rf"\b(?:{'|'.join(sorted(names))})\b"


def rule(scope: str, match: str) -> dict[str, object]:
    """Return a rule that gives what it matches a scope."""
    return {"name": f"{scope}.omnigraph", "match": match}


def captures(match: str, *scopes: str) -> dict[str, object]:
    """Return a rule that gives the groups of a match a scope each."""
    named = {str(n): {"name": f"{scope}.omnigraph"} for n, scope in enumerate(scopes, start=1)}
    return {"match": match, "captures": named}


COMMON: dict[str, object] = {
    "comment": {
        "patterns": [
            rule("comment.line.double-slash", "//.*$"),
            {"name": "comment.block.omnigraph", "begin": r"/\*", "end": r"\*/"},
        ]
    },
    "string": {
        "name": "string.quoted.double.omnigraph",
        "begin": '"',
        "end": '"',
        "patterns": [
            rule("constant.character.escape", r"\\[\"\\nrt]"),
            rule("invalid.illegal.escape", r"\\."),
        ],
    },
    "number": rule("constant.numeric", r"\b[0-9]+(?:\.[0-9]+)?\b"),
    "scalar": rule("support.type", one_of(words.SCALARS)),
    "type": rule("entity.name.type", rf"\b{TYPE_NAME}\b"),
}
QUERY: dict[str, object] = {
    "variable": rule("variable.other", rf"\${LOWER_NAME}"),
    "annotation": rule("storage.modifier.annotation", rf"@\s*{one_of(words.QUERY_ANNOTATIONS)}"),
    "declaration": captures(
        rf"\b(query)\s+({LOWER_NAME})", "keyword.control", "entity.name.function"
    ),
    # A property may have the name of a keyword, so it comes first.
    "property": rule("variable.other.property", rf"(?<=\.){LOWER_NAME}|\b{LOWER_NAME}(?=\s*:)"),
    "word-operator": rule("keyword.operator.word", one_of(WORD_OPERATORS)),
    "keyword": rule("keyword.control", one_of(set(words.QUERY_KEYWORDS) - set(WORD_OPERATORS))),
    "constant": rule("constant.language", one_of(words.QUERY_CONSTANTS)),
    "function": rule("support.function", rf"{one_of(words.QUERY_FUNCTIONS)}(?=\s*[({{])"),
    "operator": rule("keyword.operator", r"->|[=!<>]=?|[-+*/%?|]"),
}
SCHEMA: dict[str, object] = {
    "annotation": {
        "patterns": [
            rule(
                "storage.modifier.annotation",
                rf"@\s*{one_of(words.SCHEMA_ANNOTATIONS | words.SCHEMA_CONSTRAINTS)}",
            ),
            rule("storage.modifier.annotation.other", rf"@\s*{LOWER_NAME}"),
        ]
    },
    "declaration": captures(
        rf"\b(node|edge|interface)\s+({TYPE_NAME})", "keyword.declaration", "entity.name.type"
    ),
    "property": rule("variable.other.property", rf"\b{LOWER_NAME}(?=\s*:)"),
    "keyword": rule("keyword.declaration", one_of(words.SCHEMA_KEYWORDS)),
    "constant": rule("constant.language", one_of(("true", "false"))),
    "operator": rule("keyword.operator", r"->|\.\.|[?=-]"),
}


def grammar(name: str, suffix: str, rules: dict[str, object]) -> dict[str, object]:
    """Return a grammar: comments and strings first, then the rules in order, then the rest."""
    *first, operator = rules
    order = ["comment", "string", *first, "scalar", "type", "number", operator]
    return {
        "name": f"OmniGraph {name}",
        "scopeName": f"source.omnigraph.{name}",
        "fileTypes": [suffix],
        "patterns": [{"include": f"#{item}"} for item in order],
        "repository": COMMON | rules,
    }


def grammars() -> dict[Path, str]:
    """Return the text of each grammar under the path it belongs to."""
    both = {"schema": grammar("schema", "pg", SCHEMA), "query": grammar("query", "gq", QUERY)}
    return {
        FOLDER / f"omnigraph-{name}.tmLanguage.json": json.dumps(found, indent=2) + "\n"
        for name, found in both.items()
    }


def main() -> None:
    """Write the grammars."""
    for path, text in grammars().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
