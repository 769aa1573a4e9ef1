"""What can be said of the text before a cursor, which seldom parses while it is being typed."""

from __future__ import annotations

from msgspec import Struct, field

from omnigraph.catalog import Catalog
from omnigraph.lang.gq_parser import VERBS
from omnigraph.lang.lexer import Kind, Token, tokens_so_far
from omnigraph.lang.source import Span

_PATTERNS = ("match", "not", "optional", "exists", "count")
_AROUND_EDGES = ("<", ">", "(", ")", "|")
WINDOW_TOKENS = 16
"""So many tokens of a traversal are looked at."""
NO_TOKEN = Token(Kind.END, "", 0, 0)


class Frame(Struct, kw_only=True):
    """A bracket that is open at the cursor: what it belongs to, and what was closed inside last.

    `type_name` is the type whose properties are named in it.
    """

    opener: str
    head: str
    type_name: str | None = None
    closed: str = ""

    @property
    def is_pattern(self) -> bool:
        """Whether clauses stand in it."""
        return self.opener == "{" and self.head in (*_PATTERNS, "subquery")


class Cursor(Struct, kw_only=True):
    """The text before a cursor: the word that is typed, the tokens before it, what is open.

    The tokens are those of the query or declaration it stands in, `following` those after it.
    """

    word: str
    span: Span
    before: list[Token]
    following: list[Token]
    frames: list[Frame] = field(default_factory=list)

    def back(self, distance: int) -> Token:
        """Return a token before the word that is typed; 1 is the last."""
        return self.before[-distance] if distance <= len(self.before) else NO_TOKEN

    @property
    def frame(self) -> Frame:
        """The innermost bracket that is open."""
        return self.frames[-1] if self.frames else Frame(opener="", head="")


def _word_start(text: str, offset: int) -> int:
    """Return where the word before an offset begins, with the `$` of a variable."""
    start = offset
    while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    return start - 1 if start and text[start - 1] == "$" else start


def cursor_at(text: str, offset: int, starts: tuple[str, ...]) -> Cursor | None:
    """Return what stands before an offset; None inside a comment or a string.

    Args:
        text: The whole text.
        offset: Where the cursor stands.
        starts: The words that begin a query or a declaration.
    """
    tokens, blind = tokens_so_far(text)
    if any(_inside(text, span, offset) for span in blind):
        return None
    start = _word_start(text, offset)
    before = [token for token in tokens if token.end <= start]
    following = [token for token in tokens if token.start >= start]
    first = max((n for n in range(len(before)) if _begins(before, n, starts)), default=0)
    last = next(
        (n for n in range(1, len(following)) if _begins(following, n, starts)), len(following)
    )
    return Cursor(
        word=text[start:offset],
        span=Span(start, offset),
        before=before[first:],
        following=following[:last],
        frames=open_frames(before[first:]),
    )


def _inside(text: str, span: Span, offset: int) -> bool:
    if text.startswith("//", span.start):
        return span.start < offset <= span.end
    closed = text[span.start] == "/" or (
        span.end - span.start > 1 and text[span.end - 1] == text[span.start]
    )
    return span.start < offset < span.end + (not closed)


def _begins(tokens: list[Token], index: int, starts: tuple[str, ...]) -> bool:
    token = tokens[index]
    if token.kind is not Kind.IDENT or token.text not in starts:
        return False
    following = tokens[index + 1] if index + 1 < len(tokens) else NO_TOKEN
    return following.kind is (Kind.IDENT if token.text == "query" else Kind.TYPE_NAME)


def open_frames(tokens: list[Token]) -> list[Frame]:
    """Return the brackets that are open behind some tokens, outermost first."""
    frames: list[Frame] = []
    for index, token in enumerate(tokens):
        if token.kind is not Kind.PUNCT:
            continue
        if token.text in "{([":
            frames.append(_frame(tokens, index, frames))
        elif token.text in "})]" and frames:
            closed = frames.pop()
            if frames:
                frames[-1].closed = closed.head
    return frames


def _frame(tokens: list[Token], index: int, frames: list[Frame]) -> Frame:
    def back(distance: int) -> Token:
        return tokens[index - distance] if distance <= index else NO_TOKEN

    opener = tokens[index].text
    before = back(1)
    if opener != "{":
        head = "parameters" if back(2).text == "query" else before.text
        return Frame(opener=opener, head=head, type_name=frames[-1].type_name if frames else None)
    if not frames:
        return Frame(opener=opener, head="body", type_name=_declared(tokens[:index]))
    if before.kind is Kind.TYPE_NAME:
        return Frame(opener=opener, head="values", type_name=before.text)
    if before.text == "set":
        return Frame(opener=opener, head="values", type_name=back(2).text)
    if before.text == "distinct":
        return Frame(opener=opener, head="return")
    if before.text == ")":
        return Frame(opener=opener, head="subquery")
    return Frame(opener=opener, head=before.text)


def _declared(tokens: list[Token]) -> str | None:
    """Return the type a declaration is about."""
    return next((token.text for token in tokens if token.kind is Kind.TYPE_NAME), None)


def written_type(tokens: list[Token]) -> str | None:
    """Return the type of the last statement that writes."""
    for index in range(len(tokens) - 1, 0, -1):
        verb = tokens[index - 1].text
        if tokens[index].kind is Kind.TYPE_NAME and verb in (*VERBS, "new"):
            return tokens[index].text
    return None


def guessed_types(tokens: list[Token], catalog: Catalog) -> dict[str, str]:
    """Return the types of variables, as far as bindings and traversals among tokens tell them."""
    types: dict[str, str] = {}
    for index, token in enumerate(tokens):
        rest = [*tokens[index + 1 : index + 4], NO_TOKEN, NO_TOKEN, NO_TOKEN]
        if token.kind is not Kind.VARIABLE or not token.text:
            continue
        if rest[0].text == ":" and rest[1].text in catalog.nodes:
            types[token.text] = rest[1].text
        else:
            _guess_traversal(tokens, index, catalog, types)
    return types


def _guess_traversal(
    tokens: list[Token], index: int, catalog: Catalog, types: dict[str, str]
) -> None:
    left, position = tokens[index], index + 1
    variable: str | None = None
    following = [*tokens[position : position + 2], NO_TOKEN, NO_TOKEN]
    if following[0].kind is Kind.VARIABLE and following[1].text == ":":
        variable, position = following[0].text, position + 2
    window = tokens[position : position + WINDOW_TOKENS]
    words = [token for token in window if token.text not in _AROUND_EDGES]
    edge = catalog.edge_by_word(words[0].text) if words and words[0].kind is Kind.IDENT else None
    if edge is None:
        return
    right = next((token for token in words[1:] if token.kind is Kind.VARIABLE), None)
    until = window.index(right) if right is not None else len(window)
    if variable and not {"|", "{"} & {token.text for token in window[:until]}:
        # Several types have no single one, and over several hops it is a path.
        types.setdefault(variable, edge.name)
    ends = (edge.source, edge.target)
    if edge.source != edge.target and types.get(left.text) == edge.target:
        ends = (edge.target, edge.source)
    types.setdefault(left.text, ends[0])
    if right is not None and right.text:
        types.setdefault(right.text, ends[1])
