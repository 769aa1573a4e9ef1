"""Canonical layout of `.gq` text.

The formatter writes the tokens of a file in their order and changes what stands between them: space
and line breaks, and the commas that may be left out. Each comment stays between the two tokens it
stands between. So only layout can change; the formatted text is read as the same queries.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from omnigraph.lang.comments import comment_lines, gap_comments, shifted_lines
from omnigraph.lang.gq_marks import ItemList, ListKind, Marks
from omnigraph.lang.gq_parser import parse_queries
from omnigraph.lang.layout import Doc, Line, Note, group, indent, render
from omnigraph.lang.lexer import Kind, Token, quote, tokenize
from omnigraph.lang.source import Diagnostics, SourceText

_TOUCHES_LEFT = frozenset({",", ")", "]", "?", ".", ":"})
_TOUCHES_RIGHT = frozenset({"(", "[", ".", "@"})


def format_queries(text: str, *, name: str = "<query>") -> str:
    """Return query text in canonical layout; formatting it again changes nothing.

    Only the syntax has to be right. Raises `CompileError` with every syntax error.

    Args:
        text: Query source.
        name: What messages call it, usually its path.
    """
    source = SourceText(name, text)
    diagnostics = Diagnostics(source)
    queries = parse_queries(source, diagnostics)
    diagnostics.raise_errors()
    tokens = tokenize(source)
    return _Writer(source, tokens, Marks(tokens, queries)).text() if text.strip() else ""


class _Comment(Struct, frozen=True, kw_only=True):
    """A comment: on a line of its own or not, after an empty line or not.

    It has the text it would have on a line of its own beside the one it has behind something.
    """

    behind: tuple[str, ...]
    alone: tuple[str, ...]
    own_line: bool
    blank: bool

    @property
    def note(self) -> Note:
        """What is printed."""
        return Note(lines=self.alone if self.own_line else self.behind, shifted=self.own_line)

    @property
    def ends_line(self) -> bool:
        """Whether what follows has to begin a new line."""
        return self.own_line or self.behind[0].startswith("//")


class _Gap(Struct, frozen=True, kw_only=True):
    """What stands between two tokens: comments, and whether an empty line follows them."""

    comments: tuple[_Comment, ...] = ()
    blank: bool = False

    @property
    def breaks(self) -> bool:
        """Whether what follows has to begin a new line."""
        return any(item.ends_line for item in self.comments)

    @property
    def has_blank(self) -> bool:
        """Whether there is an empty line in it."""
        return self.blank or any(item.blank for item in self.comments)


class _Writer:
    """Turns tokens into a document."""

    def __init__(self, source: SourceText, tokens: list[Token], marks: Marks) -> None:
        self._text = source.text
        self._tokens = tokens
        self._marks = marks
        self._gaps = self._read_gaps()

    def text(self) -> str:
        """Return the whole file."""
        parts: list[Doc] = []
        for number, (first, body) in enumerate(self._marks.queries):
            parts += self._between(first, apart=number > 0)
            parts += self._query(first, body)
        end = len(self._tokens) - 1
        parts += self._comments(self._gaps[end])
        return render(parts)

    # ---- gaps -----------------------------------------------------------------------------

    def _read_gaps(self) -> list[_Gap]:
        gaps: list[list[_Comment]] = [[] for _ in self._tokens]
        ends = [0, *(token.end for token in self._tokens[:-1])]
        for index, span in gap_comments(self._text, self._tokens):
            lines = self._text.count("\n", ends[index], span.start)
            own_line = lines > 0 or ends[index] == 0
            comment = _Comment(
                behind=tuple(comment_lines(span, self._text)),
                alone=tuple(shifted_lines(span, self._text)),
                own_line=own_line,
                blank=lines > 1,
            )
            gaps[index].append(comment)
            ends[index] = span.end
        return [
            _Gap(
                comments=tuple(comments),
                blank=self._text.count("\n", end, token.start) > 1,
            )
            for comments, end, token in zip(gaps, ends, self._tokens, strict=True)
        ]

    def _comments(self, gap: _Gap, *, keep_blanks: bool = True, first: bool = False) -> list[Doc]:
        """Return the comments of a gap; `first` says that no empty line may precede them."""
        parts: list[Doc] = []
        for item in gap.comments:
            if item.own_line:
                parts.append(Line(hard=True, blank=item.blank and keep_blanks and not first))
            else:
                parts.append(" ")
            parts.append(item.note)
            first = first and not item.own_line
        return parts

    def _break(
        self, gap: _Gap, line: Line, *, first: bool = False, last: bool = False
    ) -> list[Doc]:
        """Return a gap that ends with a place to break at."""
        own = any(item.own_line for item in gap.comments)
        blank = gap.blank and not last and (own or not first)
        line = Line(flat=line.flat, hard=line.hard or gap.breaks, blank=blank)
        return [*self._comments(gap, first=first), line]

    def _between(self, first: int, *, apart: bool) -> list[Doc]:
        """Return what stands before a query: at least one empty line after another query."""
        gap = self._gaps[first]
        if not apart:
            return self._break(gap, Line(hard=True))
        own = next((n for n, item in enumerate(gap.comments) if item.own_line), None)
        if gap.has_blank or own is None:
            return self._break(_Gap(comments=gap.comments, blank=gap.blank or own is None), _HARD)
        same = _Gap(comments=gap.comments[:own])
        rest = _Gap(comments=gap.comments[own:], blank=gap.blank)
        after = self._break(rest, _HARD)
        return [*self._comments(same), Line(hard=True, blank=True), *after[1:]]

    def _space(self, index: int) -> list[Doc]:
        """Return the gap before a token in the middle of a line."""
        gap = self._gaps[index]
        if not gap.comments:
            return [self._flat_space(index)]
        comments = self._comments(gap, keep_blanks=False)
        return [indent([*comments, Line(hard=True)])] if gap.breaks else [*comments, " "]

    def _flat_space(self, index: int) -> str:
        before, token = self._tokens[index - 1], self._tokens[index]
        if index in self._marks.tight:
            return ""
        if token.kind is Kind.PUNCT and token.text in _TOUCHES_LEFT:
            return ""
        if before.kind is Kind.PUNCT and before.text in _TOUCHES_RIGHT:
            return ""
        is_vector = before.kind is Kind.TYPE_NAME and token.kind is Kind.PUNCT
        return "" if is_vector and token.text == "(" else " "

    # ---- structure ------------------------------------------------------------------------

    def _query(self, first: int, body: int) -> list[Doc]:
        """Return a query: its head, with notes on lines of their own if they must, and its body."""
        notes: list[Doc] = []
        index = self._marks.closing[first + 2] + 1
        head = self._region(first, index)
        while index < body:
            end = self._marks.closing[index + 2] + 1
            notes.append(indent(self._break(_tidy(self._gaps[index]), Line(flat=" "))))
            notes += self._region(index, end)
            index = end
        opening = self._tokens[body].text
        if not notes:
            head += [*self._space(body), opening]
        else:
            notes += [*self._break(_tidy(self._gaps[body]), Line(flat=" ")), opening]
            head.append(group(notes))
        return [*head, *self._list_body(body)]

    def _region(self, start: int, end: int) -> list[Doc]:
        """Return tokens that belong together, without the gap before the first."""
        cut = next((c for c in self._top_level(start + 1, end) if c in self._marks.cuts), None)
        if cut is not None:
            return [*self._region(start, cut), *self._space(cut), *self._region(cut, end)]
        joints = [index for index in self._top_level(start, end) if index in self._marks.joints]
        loosest = [index for index in joints if self._tokens[index].text == "or"] or joints
        return self._chain(start, end, loosest) if loosest else self._token_docs(start, end)

    def _top_level(self, start: int, end: int) -> Iterable[int]:
        index = start
        while index < end:
            yield index
            index = self._marks.closing.get(index, index) + 1

    def _chain(self, start: int, end: int, joints: list[int]) -> list[Doc]:
        """Return conditions joined by one word, which begins the lines if they break."""
        rows: list[Doc] = []
        for joint, until in zip(joints, [*joints[1:], end], strict=True):
            rows += self._break(_tidy(self._gaps[joint]), Line(flat=" "))
            rows += [self._tokens[joint].text, *self._space(joint + 1)]
            rows += self._region(joint + 1, until)
        return [group([*self._region(start, joints[0]), indent(rows)])]

    def _token_docs(self, start: int, end: int) -> list[Doc]:
        parts: list[Doc] = []
        for index in self._top_level(start, end):
            if index > start:
                parts += self._space(index)
            parts.append(self._spelling(index))
            if index in self._marks.lists:
                parts += self._list(index)
            elif (close := self._marks.closing.get(index)) is not None:
                inner = self._region(index + 1, close) if close > index + 1 else []
                space = self._space(index + 1) if inner else []
                parts += [*space, *inner, *self._space(close), self._spelling(close)]
        return parts

    def _spelling(self, index: int) -> str:
        token = self._tokens[index]
        if token.kind is Kind.STRING:
            return quote(token.text)
        return self._text[token.start : token.end]

    # ---- lists ----------------------------------------------------------------------------

    def _list(self, opening: int) -> list[Doc]:
        item_list = self._marks.lists[opening]
        return [group(self._list_body(opening), broken=item_list.must_break)]

    def _list_body(self, opening: int) -> list[Doc]:
        """Return what follows an opening token, up to the one that closes it."""
        item_list = self._marks.lists[opening]
        closing = self._spelling(item_list.close)
        if not item_list.items:
            return [*self._space(item_list.close), closing]
        edge = Line(
            flat="" if item_list.kind is ListKind.ARGUMENTS else " ", hard=item_list.must_break
        )
        parts = self._break(self._gaps[item_list.items[0]], edge, first=True)
        between = Line(
            flat="  " if item_list.kind is ListKind.CLAUSES else " ", hard=item_list.must_break
        )
        for number, start in enumerate(item_list.items[:-1]):
            end = self._item_end(item_list, number)
            parts += self._region(start, end)
            parts += [] if _is_commaless(item_list) else [","]
            parts += self._break(
                _joined(self._gaps[end : item_list.items[number + 1] + 1]), between
            )
        end = self._item_end(item_list, len(item_list.items) - 1)
        parts += self._region(item_list.items[-1], end)
        *comments, line = self._break(
            _joined(self._gaps[end : item_list.close + 1]), edge, last=True
        )
        return [indent([*parts, *comments]), line, closing]

    def _item_end(self, item_list: ItemList, number: int) -> int:
        """Return the end of an item, without the comma after it."""
        end = [*item_list.items, item_list.close][number + 1]
        before = self._tokens[end - 1]
        return end - 1 if before.kind is Kind.PUNCT and before.text == "," else end


_HARD = Line(hard=True)


def _is_commaless(item_list: ItemList) -> bool:
    return item_list.kind in (ListKind.CLAUSES, ListKind.SECTIONS)


def _tidy(gap: _Gap) -> _Gap:
    """Return a gap that keeps no empty lines."""
    return _Gap(comments=tuple(replace(item, blank=False) for item in gap.comments))


def _joined(gaps: list[_Gap]) -> _Gap:
    """Return the gaps around a comma as one: the comma stands before all of it."""
    comments: list[_Comment] = []
    for item in (item for gap in gaps for item in gap.comments):
        after_line = bool(comments) and comments[-1].behind[0].startswith("//")
        comments.append(replace(item, own_line=True) if after_line else item)
    return _Gap(comments=tuple(comments), blank=gaps[-1].blank)
