"""What a shell makes of typed lines: where an input ends, how a word may go on, the history."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING

from omnigraph.errors import OmniGraphError

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog
    from omnigraph.graph import GraphApi

HISTORY_ENTRIES_MAX = 1000
BODY_WORDS = ("match", "insert", "upsert", "update", "delete")
"""How the body of a query begins; such a body may be typed without a query around it."""

# fmt: off
KEYWORDS = (
    "and", "as", "asc", "avg", "count", "date", "datetime", "delete", "desc", "distinct", "exists",
    "false", "in", "insert", "limit", "match", "max", "min", "new", "not", "null", "object",
    "offset", "optional", "or", "order", "query", "return", "set", "sum", "true", "update",
    "upsert", "where",
)
COMMANDS = (
    ".branch", ".branches", ".commits", ".format", ".help", ".param", ".quit", ".schema", ".timing",
)
# fmt: on
FORMS = ("table", "json", "csv", "jsonl", "kv")
PLAIN_WORDS = {"exit": ".quit", "quit": ".quit", "help": ".help", "?": ".help"}
"""What people type who do not know of the dots."""

# Neither `$` nor `.` ends a word: `$p.na` is completed as one.
DELIMITERS = " \t\n{}()[],:<>=+-*/%\"'"
_NO_BRACES = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_FIRST_WORD = re.compile(r"\s*(\w*)")
_VARIABLE = re.compile(r"\$[a-z_]\w*")


def is_complete(text: str) -> bool:
    """Whether typed lines are an input: no line is needed to understand them.

    A query ends with its braces. A body without a query around it, to which more could always be
    added, ends with a semicolon or an empty line, and an empty line ends everything else too.
    """
    before, _, last = text.rpartition("\n")
    if before.strip() and not last.strip():
        return True
    bare = _NO_BRACES.sub("", text).rstrip()
    word = _first_word(bare)
    if not bare.strip() or bare.endswith(";"):
        return bool(bare.strip())
    if word == "query":
        return "{" in bare and bare.count("{") <= bare.count("}")
    return word not in BODY_WORDS


def as_query(text: str) -> str:
    """Return an input as the query it stands for: a body gets a query around it.

    No line is added, so that errors point to the lines as they were typed.
    """
    from omnigraph.lang.habits import is_foreign

    text = text.strip()
    bare = _NO_BRACES.sub("", text).rstrip()
    if bare.endswith(";"):
        text = text[::-1].replace(";", "", 1)[::-1]
    if _first_word(bare) not in BODY_WORDS or is_foreign(text):
        return text
    return f"query shell() {{ {text}\n}}"


def _first_word(text: str) -> str:
    match = _FIRST_WORD.match(text)
    return "" if match is None else match.group(1)


class Completer:
    """Says how a word may go on. What it knows of the graph is looked up once, and on `forget`."""

    def __init__(self, graph: GraphApi) -> None:
        self._graph = graph
        self._catalog: Catalog | None = None
        self._branches: list[str] | None = None

    def forget(self) -> None:
        """Look up types and branches again when they are needed next."""
        self._catalog = self._branches = None

    def candidates(self, word: str, line: str, before: str = "") -> list[str]:
        """Return how a word may go on, given its line up to it and the lines before."""
        command, separator, _rest = line.partition(" ")
        if separator and command.startswith("."):
            return _beginning(word, self._arguments(command))
        if not line.strip() and word.startswith("."):
            return _beginning(word, COMMANDS)
        variable, dot, part = word.rpartition(".")
        if dot:
            return [f"{variable}.{name}" for name in _beginning(part, self._properties())]
        if word.startswith("$"):
            return _beginning(word, set(_VARIABLE.findall(before + line)))
        return _beginning(word, {*KEYWORDS, *self._types(), *self._properties()})

    def _arguments(self, command: str) -> Iterable[str]:
        if command == ".branch":
            if self._branches is None:
                self._branches = self._graph.branches.list()
            return self._branches
        fixed = {".timing": ("on", "off"), ".format": FORMS, ".schema": self._types(words=False)}
        return fixed.get(command, ())

    def _known(self) -> Catalog:
        if self._catalog is None:
            self._catalog = self._graph.catalog
        return self._catalog

    def _types(self, *, words: bool = True) -> set[str]:
        catalog = self._known()
        # An edge is a word in a pattern, and a type where edges are inserted.
        edge_words = {name[:1].lower() + name[1:] for name in catalog.edges if words}
        return {*catalog.nodes, *catalog.edges, *edge_words}

    def _properties(self) -> set[str]:
        entities = self._known().entities()
        return {name for item in entities for name in (*item.properties, *item.implicit_columns)}


def _beginning(word: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(word))


class LineReader:
    """Reads lines with the editing, completion and history of `readline`, where there is one."""

    def __init__(self, completer: Completer, env: Mapping[str, str], *, edits: bool) -> None:
        self._completer = completer
        self._found: list[str] = []
        self._pending = ""
        self._readline = _readline() if edits else None
        home = env.get("OMNIGRAPH_HOME") or os.path.expanduser("~/.omnigraph")
        self._history = os.path.join(home, "history")
        if self._readline is not None:
            self._set_up(self._readline)

    def _set_up(self, readline: ModuleType) -> None:
        readline.set_completer(self._complete)
        readline.set_completer_delims(DELIMITERS)
        is_editline = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if is_editline else "tab: complete")
        readline.set_auto_history(False)
        readline.set_history_length(HISTORY_ENTRIES_MAX)
        with contextlib.suppress(OSError):
            readline.read_history_file(self._history)
            if readline.get_current_history_length() >= HISTORY_ENTRIES_MAX:
                readline.write_history_file(self._history)

    def read(self, prompt: str, pending: str) -> str:
        """Read one line. Raises `EOFError` at the end and `KeyboardInterrupt` at Ctrl-C."""
        self._pending = pending
        return input(prompt)

    def remember(self, text: str) -> None:
        """Put an input into the history: as one line, unless a comment needs its end of line."""
        if self._readline is None or not text.strip():
            return
        lines = text.split("\n") if "//" in text else [" ".join(text.split("\n"))]
        entries = [line.rstrip() for line in lines if line.strip()]
        for entry in entries:
            self._readline.add_history(entry)
        # A history that cannot be kept is no reason to stop: the disk may be full or read-only.
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(self._history), mode=0o700, exist_ok=True)
            # What was typed may be confidential.
            os.close(os.open(self._history, os.O_CREAT | os.O_WRONLY, 0o600))
            self._readline.append_history_file(len(entries), self._history)

    def _complete(self, word: str, number: int) -> str | None:
        if number == 0:
            self._found = [] if self._readline is None else self._look(self._readline, word)
        return self._found[number] if number < len(self._found) else None

    def _look(self, readline: ModuleType, word: str) -> list[str]:
        line = readline.get_line_buffer()[: readline.get_begidx()]
        try:
            return self._completer.candidates(word, line, self._pending)
        except OmniGraphError:
            # The graph does not answer just now: there is nothing to offer.
            return []


def _readline() -> ModuleType | None:
    """Return the module, None where Python was built without it."""
    try:
        import readline
    except ImportError:
        return None
    return readline


def split_command(line: str) -> tuple[str, str] | None:
    """Return a dot command and its argument; None for a line that is none."""
    line = PLAIN_WORDS.get(line.strip().lower().removesuffix(";"), line).strip()
    if not line.startswith("."):
        return None
    name, _, argument = line.partition(" ")
    return name, argument.strip()
