"""Tokens: kinds, text, places, and the cursor both parsers walk with."""

from __future__ import annotations

import re

import pytest

from omnigraph.errors import CompileError
from omnigraph.lang.lexer import Kind, Token, TokenStream, quote, tokenize
from omnigraph.lang.source import Diagnostic, SourceText, Span
from omnigraph.limits import I64_MAX, NESTING_DEPTH_MAX, SOURCE_CHARS_MAX, U64_MAX


def lex(text: str) -> list[tuple[Kind, str]]:
    tokens = tokenize(SourceText("t", text))
    assert tokens[-1] == Token(Kind.END, "", len(text), len(text))
    return [(token.kind, token.text) for token in tokens[:-1]]


def stream(text: str) -> TokenStream:
    return TokenStream(SourceText("t", text))


def failure(error: pytest.ExceptionInfo[CompileError]) -> Diagnostic:
    (found,) = error.value.diagnostics
    assert isinstance(found, Diagnostic)
    assert found.code == "P00"
    return found


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("name", Kind.IDENT, "name"),
        ("_x9", Kind.IDENT, "_x9"),
        ("_", Kind.IDENT, "_"),
        ("camelCase", Kind.IDENT, "camelCase"),
        ("node", Kind.IDENT, "node"),
        ("true", Kind.IDENT, "true"),
        ("Person", Kind.TYPE_NAME, "Person"),
        ("A_1", Kind.TYPE_NAME, "A_1"),
        ("String", Kind.TYPE_NAME, "String"),
        ("$p", Kind.VARIABLE, "p"),
        ("$_p1", Kind.VARIABLE, "_p1"),
        ('""', Kind.STRING, ""),
        ('"a b"', Kind.STRING, "a b"),
        ('"// no comment"', Kind.STRING, "// no comment"),
        ('"two\nlines"', Kind.STRING, "two\nlines"),
        ('"crlf\r\n"', Kind.STRING, "crlf\r\n"),
        (r'"\"\\\n\r\t"', Kind.STRING, '"\\\n\r\t'),
        (r'"\\n"', Kind.STRING, r"\n"),
        (r'"ends in \\"', Kind.STRING, "ends in \\"),
        ('"é漢🙂"', Kind.STRING, "é漢🙂"),
        ("0", Kind.INTEGER, "0"),
        ("007", Kind.INTEGER, "007"),
        ("9" * 30, Kind.INTEGER, "9" * 30),
        ("1.5", Kind.FLOAT, "1.5"),
        ("00.10", Kind.FLOAT, "00.10"),
    ],
)
def test_one_token(text: str, kind: Kind, value: str) -> None:
    assert lex(text) == [(kind, value)]


@pytest.mark.parametrize("text", ["->", "..", ">=", "<=", "!=", *"@(){}[],:?.=<>+-*/%"])
def test_punctuation(text: str) -> None:
    assert lex(text) == [(Kind.PUNCT, text)]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("0..10", ["0", "..", "10"]),
        ("0.5..1.5", ["0.5", "..", "1.5"]),
        ("1.", ["1", "."]),
        (".5", [".", "5"]),
        ("1...2", ["1", "..", ".", "2"]),
        ("-5", ["-", "5"]),
        ("1e5", ["1", "e5"]),
        ("12ab", ["12", "ab"]),
        ("a->b", ["a", "->", "b"]),
        ("a- >b", ["a", "-", ">", "b"]),
        ("vc-firm", ["vc", "-", "firm"]),
        ("a.b.c", ["a", ".", "b", ".", "c"]),
        ("x<=1", ["x", "<=", "1"]),
        ("nodePerson", ["nodePerson"]),
        ("aB:C", ["aB", ":", "C"]),
        ('a"b"c', ["a", "b", "c"]),
        ("$a$b", ["a", "b"]),
    ],
)
def test_tokens_are_as_long_as_possible(text: str, parts: list[str]) -> None:
    assert [value for _, value in lex(text)] == parts


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \t\r\n",
        "// to the end",
        "// a\n// b\r\n",
        "/* block */",
        "/**/",
        "/***/",
        "/* two\nlines */",
        "/* // */",
        "// /*\n",
        "/* * / */",
    ],
)
def test_whitespace_and_comments_are_nothing(text: str) -> None:
    assert lex(text) == []


def test_comments_separate_tokens() -> None:
    assert lex("a/**/b//c\nd") == [(Kind.IDENT, "a"), (Kind.IDENT, "b"), (Kind.IDENT, "d")]


def test_tokens_know_their_place() -> None:
    text = 'node  A\n{ "é\\n" $v }'
    spans = [token.span for token in tokenize(SourceText("t", text))]
    assert [text[span.start : span.end] for span in spans] == [
        "node",
        "A",
        "{",
        '"é\\n"',
        "$v",
        "}",
        "",
    ]
    assert Span(0, 4).to(Span(6, 7)) == Span(0, 7)


@pytest.mark.parametrize(
    ("text", "span", "message", "hint"),
    [
        ('a "open', (2, 3), "string is not closed", 'add the closing `"`'),
        ('"open\\"', (0, 1), "string is not closed", 'add the closing `"`'),
        ("a # b", (2, 3), "unexpected character `#`", "comments start with `//`"),
        ("'x'", (0, 1), "unexpected character `'`", 'strings use double quotes: "..."'),
        ("$", (0, 1), "`$` without a variable name", "a lower-case name: `$p`"),
        ("$A", (0, 1), "`$` without a variable name", "a lower-case name: `$p`"),
        ("$1", (0, 1), "`$` without a variable name", "a lower-case name: `$p`"),
        ("a ! b", (2, 3), "unexpected character `!`", "write `!=`"),
        ("a;", (1, 2), "unexpected character `;`", "leave it out"),
        ("a & b", (2, 3), "unexpected character '&'", None),
        ("a && b", (2, 3), "unexpected character `&`", "write `and`"),
        ("\u201ca\u201d", (0, 1), "unexpected character `\u201c`", "straight quotes"),
        ("\ufeffnode", (0, 1), r"unexpected character '\ufeff'", None),
        ("a\u00a0b", (1, 2), "unexpected no-break space", "a plain space"),
        ("a\x00", (1, 2), r"unexpected character '\x00'", None),
        ("a\x0cb", (1, 2), r"unexpected character '\x0c'", "a plain space"),
        ("a\u2028b", (1, 2), "unexpected line separator", "a plain space"),
        ("é", (0, 1), "unexpected character 'é'", None),
        ("x²", (1, 2), "unexpected character '²'", None),
        ("٣", (0, 1), "unexpected character '٣'", None),
        ('"ab\\u0041"', (3, 5), r"unsupported escape sequence `\u`", r"\" \\ \n \r \t"),
        ('"a\\\nb"', (2, 4), "unsupported escape sequence", "write other characters as they are"),
        ('x "\\q" "\\z"', (3, 5), r"unsupported escape sequence `\q`", None),
        ("a /* open", (2, 4), "comment is not closed", "add `*/`"),
        ("/*/", (0, 2), "comment is not closed", "add `*/`"),
        ("a / /**/ b /*", (11, 13), "comment is not closed", "add `*/`"),
        ("ab\ud800", (2, 3), "text is not valid Unicode", None),
        ('"\udc41\ud801"', (1, 2), "text is not valid Unicode", None),
        ("// \udfff\n", (3, 4), "text is not valid Unicode", None),
    ],
)
def test_bad_characters_are_reported_where_they_stand(
    text: str, span: tuple[int, int], message: str, hint: str | None
) -> None:
    with pytest.raises(CompileError) as error:
        tokenize(SourceText("t", text))
    found = failure(error)
    assert (found.span.start, found.span.end) == span
    assert message in found.message
    if hint is not None:
        assert found.hint is not None
        assert hint in found.hint


def test_a_refused_text_can_be_printed() -> None:
    with pytest.raises(CompileError) as error:
        tokenize(SourceText("t", 'node A @description("\ud83d") {}'))
    assert b' 1 | node A @description("?") {}' in str(error.value).encode()


def test_characters_beyond_the_first_plane_are_no_surrogates() -> None:
    assert lex('"\U0001f642"') == [(Kind.STRING, "\U0001f642")]


@pytest.mark.parametrize("text", ["", "x", 'q" b\\ n\n r\r t\t', "\\n", "\u00fc \x07 '"])
def test_quoted_text_reads_back_as_itself(text: str) -> None:
    assert lex(quote(text)) == [(Kind.STRING, text)]


def test_a_text_above_the_size_limit_is_refused_unread() -> None:
    with pytest.raises(CompileError) as error:
        tokenize(SourceText("t", " " * (SOURCE_CHARS_MAX + 1)))
    assert f"longer than {SOURCE_CHARS_MAX} characters" in failure(error).message


def test_a_text_at_the_size_limit_is_read() -> None:
    assert len(tokenize(SourceText("t", " " * SOURCE_CHARS_MAX))) == 1


@pytest.mark.parametrize(
    ("text", "described"),
    [
        ("", "end of file"),
        ('"secret"', "a string"),
        ("$v", "`$v`"),
        ("word", "`word`"),
        ("->", "`->`"),
        ("1.50", "`1.50`"),
    ],
)
def test_tokens_describe_themselves(text: str, described: str) -> None:
    assert tokenize(SourceText("t", text))[0].describe() == described


def test_the_cursor_stays_on_the_end() -> None:
    cursor = stream("a")
    assert cursor.peek().kind is Kind.END
    assert cursor.peek(99).kind is Kind.END
    assert cursor.advance().text == "a"
    assert cursor.advance().kind is Kind.END
    assert cursor.advance().kind is Kind.END
    assert cursor.current.kind is Kind.END
    assert cursor.peek(-1).text == "a"


def test_take_steps_only_when_it_matches() -> None:
    cursor = stream("node (")
    assert cursor.take_punct("(") is None
    assert cursor.take_word("edge") is None
    assert cursor.take_word("node") is not None
    assert cursor.at_punct("(")
    assert not cursor.at_word("(")
    assert cursor.take_punct("(") is not None


def test_strings_are_neither_words_nor_punctuation() -> None:
    cursor = stream('"node" "("')
    assert not cursor.at_word("node")
    cursor.advance()
    assert not cursor.at_punct("(")


def test_expect_names_what_was_read_and_what_stands_there() -> None:
    cursor = stream("x")
    with pytest.raises(CompileError) as error:
        cursor.expect_punct("{", "after `node A`")
    assert failure(error).message == "expected `{` after `node A`, found `x`"
    with pytest.raises(CompileError) as error:
        cursor.expect_word("by", "")
    assert failure(error).message == "expected `by`, found `x`"
    with pytest.raises(CompileError) as error:
        cursor.expect(Kind.INTEGER, "a number", "in `limit`")
    assert failure(error).message == "expected a number in `limit`, found `x`"
    assert cursor.expect(Kind.IDENT, "a name", "").text == "x"


def test_unexpected_words_get_a_suggestion() -> None:
    with pytest.raises(CompileError) as error:
        stream("returns").unexpected("`return`", "", words=("match", "return"))
    assert failure(error).hint == "did you mean `return`?"
    with pytest.raises(CompileError) as error:
        stream("(").unexpected("`return`", "", words=("match", "return"))
    assert failure(error).hint is None


WORD = re.compile(r"[A-Za-z0-9_-]+")


@pytest.mark.parametrize("text", ["vc-firm", "3d", "-", "a--b", "2024-01-01", "_x", "A"])
def test_scan_reads_a_word_whatever_its_tokens(text: str) -> None:
    cursor = stream(f"( {text} , z")
    cursor.advance()
    token = cursor.scan(WORD, "a value", "here")
    assert (token.kind, token.text, token.span) == (Kind.IDENT, text, Span(2, 2 + len(text)))
    assert cursor.at_punct(",")


@pytest.mark.parametrize("text", ["", ")", '"a"', "1.5", "a->b", "$a"])
def test_scan_refuses_what_is_no_word_of_its_own(text: str) -> None:
    with pytest.raises(CompileError) as error:
        stream(text).scan(WORD, "a value", "here")
    assert failure(error).message.startswith("expected a value here, found ")


def test_integers_are_limited() -> None:
    cursor = stream(f"{I64_MAX} {I64_MAX + 1} 00{U64_MAX} {'9' * 9999}")
    exact, above, padded, endless, _ = cursor.tokens
    assert cursor.integer(exact) == I64_MAX
    assert cursor.integer(padded, limit=U64_MAX) == U64_MAX
    for token in (above, padded, endless):
        with pytest.raises(CompileError) as error:
            cursor.integer(token)
        assert failure(error).message == f"integer is larger than {I64_MAX}"
        assert failure(error).span == token.span


def test_leading_zeros_mean_nothing() -> None:
    zeros = "0" * 5000
    cursor = stream(f"{zeros} {zeros}7 {zeros}{U64_MAX} {zeros}1.5{zeros} {zeros}{I64_MAX + 1}")
    none, few, many, decimal, above, _ = cursor.tokens
    assert cursor.integer(none) == 0
    assert cursor.integer(few) == 7
    assert cursor.integer(many, limit=U64_MAX) == U64_MAX
    assert cursor.decimal(decimal) == 1.5
    with pytest.raises(CompileError):
        cursor.integer(above)


def test_decimals_are_finite() -> None:
    cursor = stream(f"1.5 {'9' * 400}.0")
    small, endless, _ = cursor.tokens
    assert cursor.decimal(small) == 1.5
    with pytest.raises(CompileError) as error:
        cursor.decimal(endless)
    assert failure(error).message == "number is too large for a 64-bit float"


def test_nesting_is_limited() -> None:
    cursor = stream("x")
    for _ in range(NESTING_DEPTH_MAX):
        cursor.enter()
    with pytest.raises(CompileError) as error:
        cursor.enter()
    assert f"deeper than {NESTING_DEPTH_MAX} levels" in failure(error).message
    cursor.leave()
    cursor.leave()
    cursor.enter()
