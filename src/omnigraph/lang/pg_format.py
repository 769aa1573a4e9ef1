"""Canonical layout of `.pg` text.

The formatter prints the syntax tree and puts the comments back. A comment before a declaration or
member stays before it, one at the end of its line stays there, and one in the middle of it moves to
whichever of the two it is nearer. Single blank lines inside a body and between comments are kept,
so people can group things. Only layout changes: the formatted text describes the same schema.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from msgspec import Struct, field

from omnigraph.catalog import TypeKind
from omnigraph.lang.comments import comment_lines, gap_comments, shifted_lines
from omnigraph.lang.lexer import Kind, Token, tokenize
from omnigraph.lang.pg_ast import (
    AnnotationSyntax,
    Bounds,
    ConstraintSyntax,
    DeclarationSyntax,
    PropertySyntax,
)
from omnigraph.lang.pg_parser import parse_schema, spell
from omnigraph.lang.source import Diagnostics, SourceText, Span

INDENT = "    "


class _Chunk(Struct, kw_only=True):
    """One line of output, the stretch of source it comes from, and the comments around it.

    `opens` and `closes` mark the lines that hold a body's braces, `ends` the last line of a
    declaration and `bare` an edge without a body.
    """

    span: Span
    text: str
    indent: str = ""
    comment_indent: str = ""
    opens: bool = False
    closes: bool = False
    ends: bool = False
    bare: bool = False
    leading: list[Span] = field(default_factory=list)
    inner: list[Span] = field(default_factory=list)
    trailing: list[Span] = field(default_factory=list)


def format_schema(text: str, *, name: str = "<schema>") -> str:
    """Return schema text in canonical layout; formatting it again changes nothing.

    Only the syntax has to be right. Raises `CompileError` with every syntax error.

    Args:
        text: Schema source.
        name: What messages call it, usually its path.
    """
    source = SourceText(name, text)
    diagnostics = Diagnostics(source)
    syntax = parse_schema(source, diagnostics)
    diagnostics.raise_errors()
    printer = _Printer(source)
    chunks = [chunk for item in syntax.declarations for chunk in printer.declaration(item)]
    rest = _attach(printer.comments, chunks, text)
    rows = _layout(chunks, rest, text)
    return "".join(f"{row}\n" for row in rows)


class _Printer:
    """Prints pieces of syntax on one line each."""

    def __init__(self, source: SourceText) -> None:
        self._tokens = tokenize(source)
        self._starts = [token.start for token in self._tokens]
        self.comments = [span for _, span in gap_comments(source.text, self._tokens)]

    def _within(self, span: Span) -> list[Token]:
        first = bisect_left(self._starts, span.start)
        return self._tokens[first : bisect_left(self._starts, span.end)]

    def declaration(self, item: DeclarationSyntax) -> Iterator[_Chunk]:
        """Yield the lines of a declaration: its head, its members and the closing brace."""
        head = self._head(item)
        tokens = self._within(item.span)
        opening = next((t for t in tokens if t.kind is Kind.PUNCT and t.text == "{"), None)
        if opening is None:
            yield _Chunk(span=item.span, text=head, ends=True, bare=True)
            return
        closing = tokens[-1]
        if not item.members and not self._has_comment(opening.end, closing.start):
            bare = item.kind is TypeKind.EDGE
            text = head if bare else f"{head} {{}}"
            yield _Chunk(span=item.span, text=text, ends=True, bare=bare)
            return
        yield _Chunk(span=Span(item.span.start, opening.end), text=f"{head} {{", opens=True)
        for member in item.members:
            text = (
                self._property(member)
                if isinstance(member, PropertySyntax)
                else self._constraint(member)
            )
            span = self._with_comma(_member_span(member))
            yield _Chunk(span=span, text=text, indent=INDENT, comment_indent=INDENT)
        yield _Chunk(span=closing.span, text="}", comment_indent=INDENT, closes=True, ends=True)

    def _has_comment(self, start: int, end: int) -> bool:
        first = bisect_left(self.comments, start, key=lambda comment: comment.start)
        return first < len(self.comments) and self.comments[first].start < end

    def _with_comma(self, span: Span) -> Span:
        following = self._tokens[bisect_left(self._starts, span.end)]
        is_comma = following.kind is Kind.PUNCT and following.text == ","
        return span.to(following.span) if is_comma else span

    def _head(self, item: DeclarationSyntax) -> str:
        parts = [f"{item.kind} {item.name.text}"]
        if item.source is not None and item.target is not None:
            parts = [f"{item.kind} {item.name.text}: {item.source.text} -> {item.target.text}"]
        if item.implements:
            parts.append(f"implements {', '.join(name.text for name in item.implements)}")
        if item.cardinality is not None:
            high = "" if item.cardinality.high is None else item.cardinality.high
            parts.append(f"@card({item.cardinality.low}..{high})")
        parts.extend(self._annotation(annotation) for annotation in item.annotations)
        return " ".join(parts)

    def _property(self, item: PropertySyntax) -> str:
        declared = str(item.type)
        if item.enum_order:
            mark = "?" if item.type.nullable else ""
            declared = f"enum({', '.join(item.enum_order)}){mark}"
        annotations = (self._annotation(annotation) for annotation in item.annotations)
        return " ".join((f"{item.name.text}: {declared}", *annotations))

    def _constraint(self, item: ConstraintSyntax) -> str:
        arguments = (
            "".join(token.text for token in self._within(argument.span))
            if isinstance(argument, Bounds)
            else spell(self._within(argument.span))
            for argument in item.arguments
        )
        return f"@{item.name.text}({', '.join(arguments)})"

    def _annotation(self, item: AnnotationSyntax) -> str:
        if item.argument is None:
            return f"@{item.name.text}"
        arguments = [spell(self._within(item.argument.span))]
        for key, argument in item.keywords:
            arguments.append(f"{key.text}={spell(self._within(argument.span))}")
        return f"@{item.name.text}({', '.join(arguments)})"


def _member_span(member: PropertySyntax | ConstraintSyntax) -> Span:
    if isinstance(member, ConstraintSyntax):
        return member.span
    last = member.annotations[-1].span if member.annotations else member.type_span
    return member.name.span.to(last)


def _attach(comments: list[Span], chunks: list[_Chunk], text: str) -> list[Span]:
    """Give every comment to the chunk it belongs to; return those after the last chunk."""
    waiting = iter(comments)
    comment = next(waiting, None)
    for index, chunk in enumerate(chunks):
        while comment is not None and comment.start < chunk.span.start:
            chunk.leading.append(comment)
            comment = next(waiting, None)
        while comment is not None and comment.start < chunk.span.end:
            on_last_line = text.find("\n", comment.end, chunk.span.end) < 0
            (chunk.trailing if on_last_line else chunk.inner).append(comment)
            comment = next(waiting, None)
        limit = chunks[index + 1].span.start if index + 1 < len(chunks) else len(text)
        end = chunk.span.end
        while comment is not None and comment.start < limit:
            if text.find("\n", end, comment.start) >= 0:
                break
            chunk.trailing.append(comment)
            end = comment.end
            comment = next(waiting, None)
    return [] if comment is None else [comment, *waiting]


def _layout(chunks: list[_Chunk], rest: list[Span], text: str) -> list[str]:
    rows: list[str] = []
    previous: _Chunk | None = None
    end = 0
    for chunk in chunks:
        elements = [(span, _own_line(span, text, chunk.comment_indent)) for span in chunk.leading]
        here = Span(chunk.span.start, chunk.span.start)
        elements += [(here, _own_line(span, text, chunk.comment_indent)) for span in chunk.inner]
        elements.append((chunk.span, chunk.indent + chunk.text + _line_end(chunk, text)))
        blanks: list[bool] = []
        for span, _ in elements:
            blanks.append(text.count("\n", end, span.start) > 1)
            end = span.end
        if previous is None or previous.opens:
            blanks[0] = False
        elif previous.ends:
            blanks[0] = any(blanks) or not (previous.bare and chunk.bare)
        if chunk.closes:
            blanks[-1] = False
        for blank, (_, row) in zip(blanks, elements, strict=True):
            rows.extend(["", row] if blank else [row])
        end = max([chunk.span.end, *(span.end for span in chunk.trailing)])
        previous = chunk
    for span in rest:
        if rows and text.count("\n", end, span.start) > 1:
            rows.append("")
        rows.append(_own_line(span, text, ""))
        end = span.end
    return rows


def _line_end(chunk: _Chunk, text: str) -> str:
    return "".join(" " + "\n".join(comment_lines(span, text)) for span in chunk.trailing)


def _own_line(span: Span, text: str, indent: str) -> str:
    """Return a comment for a line of its own, its further lines shifted along with the first."""
    return "\n".join(indent + line if line else "" for line in shifted_lines(span, text))
