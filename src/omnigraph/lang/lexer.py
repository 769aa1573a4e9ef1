"""One lexer for both languages.

It knows characters, not grammar: keywords are ordinary identifiers, and whether a hyphenated word
is an enum value is the parser's business (`TokenStream.scan`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple, NoReturn

from omnigraph.errors import CompileError
from omnigraph.lang.habits import habit_hint
from omnigraph.lang.source import Diagnostic, SourceText, Span, did_you_mean
from omnigraph.limits import I64_MAX, NESTING_DEPTH_MAX, SOURCE_CHARS_MAX

PARSE_CODE = "P00"
CURLY_QUOTES = frozenset("\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb")


class Kind(Enum):
    """Kind of a token."""

    IDENT = auto()
    TYPE_NAME = auto()
    VARIABLE = auto()
    STRING = auto()
    INTEGER = auto()
    FLOAT = auto()
    PUNCT = auto()
    END = auto()


class Token(NamedTuple):
    """A token; `text` is its source spelling, without quotes and with escapes decoded for strings.

    A variable's text is its name without the dollar sign.
    """

    kind: Kind
    text: str
    start: int
    end: int

    @property
    def span(self) -> Span:
        """Where the token stands."""
        return Span(self.start, self.end)

    def describe(self) -> str:
        """Name the token for an error message."""
        if self.kind is Kind.END:
            return "end of file"
        if self.kind is Kind.STRING:
            return "a string"
        if self.kind is Kind.VARIABLE:
            return f"`${self.text}`"
        return f"`{self.text}`"


_TOKEN = re.compile(
    r"""
      (?P<skip>[ \t\r\n]+ | //[^\n]* | /\*.*?\*/)
    | (?P<ident>[a-z_][A-Za-z0-9_]*)
    | (?P<type>[A-Z][A-Za-z0-9_]*)
    | \$(?P<var>[a-z_][A-Za-z0-9_]*)
    | "(?P<string>[^"\\]*+(?:\\.[^"\\]*+)*+)"
    | (?P<float>[0-9]+\.[0-9]+)
    | (?P<int>[0-9]+)
    | (?P<punct>->|\.\.|>=|<=|!=|/(?!\*)|[@(){}\[\],:?.=<>|+\-*%])
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = {
    "ident": Kind.IDENT,
    "type": Kind.TYPE_NAME,
    "var": Kind.VARIABLE,
    "string": Kind.STRING,
    "float": Kind.FLOAT,
    "int": Kind.INTEGER,
    "punct": Kind.PUNCT,
}
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_QUOTED = str.maketrans({char: f"\\{letter}" for letter, char in _ESCAPES.items()})
ESCAPE_TEXT = r"\" \\ \n \r \t"


def fail(source: SourceText, span: Span, message: str, hint: str | None = None) -> NoReturn:
    """Raise a parse error at a place."""
    raise CompileError(
        [Diagnostic(code=PARSE_CODE, message=message, source=source, span=span, hint=hint)]
    )


def tokenize(source: SourceText) -> list[Token]:
    """Split a text into tokens, ending with one `END` token. Raises `CompileError`."""
    text = source.text
    if len(text) > SOURCE_CHARS_MAX:
        fail(source, Span(0, 0), f"file is longer than {SOURCE_CHARS_MAX} characters")
    if (half := _SURROGATE.search(text)) is not None:
        fail(source, Span(half.start(), half.end()), "text is not valid Unicode")
    tokens: list[Token] = []
    position, size, match = 0, len(text), _TOKEN.match
    while position < size:
        piece = match(text, position)
        if piece is None:
            _fail_at(source, position)
        group = piece.lastgroup
        end = piece.end()
        if group != "skip" and group is not None:
            value = piece.group(group)
            if group == "string" and "\\" in value:
                value = _unescape(source, value, position + 1)
            tokens.append(Token(_KINDS[group], value, position, end))
        position = end
    tokens.append(Token(Kind.END, "", size, size))
    return tokens


def tokens_so_far(text: str) -> tuple[list[Token], list[Span]]:
    """Split a half-typed text into tokens as far as it goes, and never fail.

    Returns the tokens, without an end token, and the spans of comments and strings. A string that
    is not closed ends with its line, a comment that is not closed with the text; a lone `$` is a
    variable without a name, and other characters that cannot begin a token are passed over.
    """
    tokens: list[Token] = []
    blind: list[Span] = []
    position = 0
    while position < len(text):
        piece = _TOKEN.match(text, position)
        group = None if piece is None else piece.lastgroup
        end = position + 1 if piece is None else piece.end()
        if group == "skip":
            if text[position] == "/":
                blind.append(Span(position, end))
        elif group is not None and piece is not None:
            tokens.append(Token(_KINDS[group], piece.group(group), position, end))
            if group == "string":
                blind.append(Span(position, end))
        elif text[position] == '"':
            line_end = text.find("\n", position)
            end = len(text) if line_end < 0 else line_end
            tokens.append(Token(Kind.STRING, text[position + 1 : end], position, end))
            blind.append(Span(position, end))
        elif text.startswith("/*", position):
            end = len(text)
            blind.append(Span(position, end))
        elif text[position] == "$":
            tokens.append(Token(Kind.VARIABLE, "", position, end))
        position = end
    return tokens, blind


def quote(text: str) -> str:
    """Spell a string as source text: in quotes, with escapes where they are needed."""
    return f'"{text.translate(_QUOTED)}"'


def _unescape(source: SourceText, raw: str, start: int) -> str:
    def decode(escape: re.Match[str]) -> str:
        char = _ESCAPES.get(escape.group(1))
        if char is None:
            at = start + escape.start()
            fail(
                source,
                Span(at, at + 2),
                f"unsupported escape sequence `{escape.group(0)}`",
                f"the escapes are {ESCAPE_TEXT}; write other characters as they are",
            )
        return char

    return _ESCAPE.sub(decode, raw)


def _fail_at(source: SourceText, position: int) -> NoReturn:
    text = source.text
    char = text[position]
    if char == '"':
        fail(source, Span(position, position + 1), "string is not closed", 'add the closing `"`')
    if text.startswith("/*", position):
        fail(source, Span(position, position + 2), "comment is not closed", "add `*/`")
    here = Span(position, position + 1)
    if char in CURLY_QUOTES:
        hint = "it was typed by a word processor: strings use straight quotes"
        fail(source, here, f"unexpected character `{char}`", f'{hint}: "..."')
    if char.isspace():
        import unicodedata

        called = unicodedata.name(char, f"character {char!r}").lower()
        fail(source, here, f"unexpected {called}", "replace it with a plain space")
    if char == ";":
        fail(source, here, "unexpected character `;`", "nothing ends with `;` here: leave it out")
    if text.startswith("&&", position):
        fail(source, here, "unexpected character `&`", "write `and` between conditions")
    if char == "#":
        fail(source, here, "unexpected character `#`", "comments start with `//`")
    if char == "'":
        fail(source, here, "unexpected character `'`", 'strings use double quotes: "..."')
    if char == "$":
        hint = "a variable is `$` and a lower-case name: `$p`"
        fail(source, here, "`$` without a variable name", hint)
    if char == "!":
        fail(source, here, "unexpected character `!`", "write `!=` or `not (...)`")
    fail(source, here, f"unexpected character {char!r}")


class TokenStream:
    """A cursor over tokens with the helpers both parsers use.

    `functions` are those of another language than queries, with the least and the most of
    arguments each takes; words are columns there, in any case.
    """

    def __init__(
        self, source: SourceText, functions: Mapping[str, tuple[int, int]] | None = None
    ) -> None:
        self.source = source
        self.functions = functions
        self.tokens = tokenize(source)
        self.index = 0
        self.depth = 0

    @property
    def current(self) -> Token:
        """The token the cursor stands on."""
        return self.tokens[self.index]

    def peek(self, distance: int = 1) -> Token:
        """Return a later token without moving; the end token past the end."""
        return self.tokens[min(self.index + distance, len(self.tokens) - 1)]

    def advance(self) -> Token:
        """Return the current token and step past it (never past the end token)."""
        token = self.tokens[self.index]
        if token.kind is not Kind.END:
            self.index += 1
        return token

    def at_punct(self, text: str) -> bool:
        """Whether the cursor stands on this punctuation."""
        token = self.tokens[self.index]
        return token.kind is Kind.PUNCT and token.text == text

    def at_word(self, text: str) -> bool:
        """Whether the cursor stands on this keyword."""
        token = self.tokens[self.index]
        return token.kind is Kind.IDENT and token.text == text

    def take_punct(self, text: str) -> Token | None:
        """Step past this punctuation if it is there."""
        return self.advance() if self.at_punct(text) else None

    def take_word(self, text: str) -> Token | None:
        """Step past this keyword if it is there."""
        return self.advance() if self.at_word(text) else None

    def expect_punct(self, text: str, context: str) -> Token:
        """Step past this punctuation or fail, naming what was being read."""
        return self.take_punct(text) or self.unexpected(f"`{text}`", context)

    def expect_word(self, text: str, context: str) -> Token:
        """Step past this keyword or fail, naming what was being read."""
        return self.take_word(text) or self.unexpected(f"`{text}`", context)

    def expect(self, kind: Kind, what: str, context: str) -> Token:
        """Step past a token of a kind or fail."""
        if self.current.kind is kind:
            return self.advance()
        return self.unexpected(what, context)

    def unexpected(
        self,
        expected: str,
        context: str,
        *,
        hint: str | None = None,
        words: tuple[str, ...] = (),
    ) -> NoReturn:
        """Fail at the current token: what was expected, where, and what stands there."""
        token = self.current
        if hint is None and words and token.kind in (Kind.IDENT, Kind.TYPE_NAME):
            hint = did_you_mean(token.text, words)
        hint = hint or habit_hint(self.source.text, token.start)
        where = f" {context}" if context else ""
        fail(self.source, token.span, f"expected {expected}{where}, found {token.describe()}", hint)

    def scan(self, pattern: re.Pattern[str], what: str, context: str) -> Token:
        """Read a word by pattern at the current token, whatever tokens it was split into."""
        start = self.current.start
        match = pattern.match(self.source.text, start)
        if match is None or match.end() == start:
            self.unexpected(what, context)
        while self.current.kind is not Kind.END and self.current.end <= match.end():
            self.index += 1
        if self.current.start < match.end():
            self.unexpected(what, context)
        return Token(Kind.IDENT, match.group(), start, match.end())

    def integer(self, token: Token, *, limit: int = I64_MAX) -> int:
        """Return an integer token's value, or fail when it exceeds the limit."""
        # Digits are counted first: Python refuses to convert extremely long ones, zeros included.
        digits = token.text.lstrip("0") or "0"
        value = int(digits) if len(digits) <= 20 else limit + 1
        if value > limit:
            fail(self.source, token.span, f"integer is larger than {limit}")
        return value

    def decimal(self, token: Token) -> float:
        """Return a float token's value, or fail when no finite double can hold it."""
        value = float(token.text)
        if not math.isfinite(value):
            fail(self.source, token.span, "number is too large for a 64-bit float")
        return value

    def enter(self) -> None:
        """Count one level of nesting; fail when the text nests too deep to parse safely."""
        self.depth += 1
        if self.depth > NESTING_DEPTH_MAX:
            fail(
                self.source,
                self.current.span,
                f"nested deeper than {NESTING_DEPTH_MAX} levels",
                "split the condition or block",
            )

    def leave(self) -> None:
        """Leave one level of nesting."""
        self.depth -= 1
