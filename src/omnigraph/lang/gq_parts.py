"""The parts of a pattern that only conditions connect, and the order to join them in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from omnigraph.lang.gq_clauses import Binding, Traversal
from omnigraph.plan.expression import (
    Compare,
    CompareOp,
    Expression,
    Vanishing,
    can_overflow,
    variables_of,
)


class Parts:
    """Variables joined by traversals are one part; those known from outside belong to the first.

    A part that an equality connects with what is there comes before one that another condition
    does, and that before one that is not connected at all: fewer rows are made on the way.
    """

    def __init__(
        self,
        bindings: Iterable[Binding],
        traversals: Sequence[Traversal],
        conditions: Iterable[Expression],
        outer: Iterable[str],
    ) -> None:
        self._parent: dict[str, str] = {}
        self._outer = frozenset(outer)
        for item in traversals:
            self._unite(item.left, item.right)
            for named in (item.edge_variable, item.path_variable):
                if named is not None:
                    self._unite(item.left, named)
        self._starts = self._ordered(list(bindings), traversals)
        self._there = {self._part(name) for name in self._outer}
        self._links: dict[str, list[tuple[bool, frozenset[str]]]] = {}
        for condition in conditions:
            self._link(condition)

    def _ordered(
        self, bindings: list[Binding], traversals: Sequence[Traversal]
    ) -> dict[str, tuple[str, str]]:
        """Return the variable each part starts with: those with traversals come first."""
        walked = {end for item in traversals for end in (item.left, item.right)}
        starts = [(b.variable, b.type_name) for b in bindings if b.variable in walked]
        starts += [(item.left, item.left_type) for item in traversals]
        starts += [(b.variable, b.type_name) for b in bindings]
        parts: dict[str, tuple[str, str]] = {}
        for start in starts:
            parts.setdefault(self._part(start[0]), start)
        return parts

    def _link(self, condition: Expression) -> None:
        parts = frozenset(self._part(name) for name in variables_of(condition))
        if len(parts) < 2:
            return
        inner = condition.condition if isinstance(condition, Vanishing) else condition
        equal = isinstance(inner, Compare) and inner.op is CompareOp.EQ
        for part in parts:
            link = (equal and not can_overflow(condition), parts - {part})
            self._links.setdefault(part, []).append(link)

    def next(self) -> tuple[str, str] | None:
        """Return variable and type the next part starts with; None when all are there."""
        left = [part for part in self._starts if part not in self._there]
        if not left:
            return None
        # The first of the least: text order decides between equals.
        part = min(left, key=self._rank)
        self._there.add(part)
        return self._starts[part]

    def _rank(self, part: str) -> int:
        linked = [equal for equal, others in self._links.get(part, ()) if others <= self._there]
        return 2 if not linked else 0 if any(linked) else 1

    def _part(self, name: str) -> str:
        if name in self._outer:
            # All of them are there together.
            return ""
        while (above := self._parent.get(name, name)) != name:
            # Halving the way keeps later ones short.
            self._parent[name] = name = self._parent.get(above, above)
        return name

    def _unite(self, one: str, other: str) -> None:
        first, second = self._part(one), self._part(other)
        if first == second:
            return
        # The part of the variables outside stays the root.
        if second == "":
            first, second = second, first
        self._parent[second] = first
