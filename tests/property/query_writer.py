"""Writes random queries on the random graphs, as text."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.property.query_worlds import (
    DAYS,
    ENDS,
    HALF,
    MOMENTS,
    PROPERTIES,
    TEXTS,
    UNIONS,
    WHOLES,
    WILD,
)

FOLLOWED = {**ENDS, **UNIONS}
WILDCARDS = {
    ("Person", "Person"): "Knows|Likes",
    ("Person", "Thing"): "Owns",
    ("Thing", "Thing"): "Near",
    ("Thing", "Person"): "Held",
}


@dataclass(slots=True)
class Scope:
    """Variables a block may use: nodes, nodes that may be null here, edges."""

    nodes: dict[str, str] = field(default_factory=dict)
    maybe: dict[str, str] = field(default_factory=dict)
    edges: dict[str, str] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)

    def inner(self) -> Scope:
        # Inside a block, an optional variable of the pattern around it can be used like any other.
        return Scope({**self.nodes, **self.maybe}, {}, dict(self.edges), set(self.paths))

    def all(self) -> dict[str, str]:
        return {**self.nodes, **self.maybe, **self.edges}


LITERALS: dict[str, list[str]] = {
    "whole": ["0", "1", "-1", "2", "3", "9007199254740993", "9223372036854775000"],
    "float": ["0.5", "0.1", "2.7", "-1.25", "3.0", "9007199254740992.0"],
    "text": ['""', '"a"', '"ab"', '"b"', '"é"', '"p1"', '"😀"', '"red"'],
    "bool": ["true", "false"],
    "date": ['date("1970-01-01")', 'date("2024-02-29")'],
    "datetime": ['datetime("1970-01-01")', 'datetime("2024-02-29T12:00:00.001Z")', "now()"],
    "texts": ['["a", "b"]', "[]", '["é", "p1", "ab"]'],
    "wholes": ["[1, 2]", "[9007199254740993]", "[]"],
    "floats": ["[2.7, 1.0, 9007199254740992.0]", "[0.0]", "[0.1, 2]", "[]"],
    "dates": ['[date("1970-01-01"), date("2024-02-29")]', "[]"],
}
PARAMETERS: dict[str, list[tuple[str, list[Any]]]] = {
    "whole": [
        ("I64", WHOLES),
        ("I64", WHOLES),
        ("I32", [-1, 0, 1, 2, 3]),
        ("U32", [0, 1, 2, 2**32 - 1]),
        ("U64", [0, 7, 2**63 - 1]),
    ],
    "float": [("F64", WILD), ("F64", WILD), ("F32", HALF)],
    "text": [("String", TEXTS)],
    "bool": [("Bool", [True, False])],
    "date": [("Date", DAYS)],
    "datetime": [("DateTime", MOMENTS)],
    "texts": [("[String]", [["a", "b"], [], TEXTS])],
    "wholes": [("[I64]", [[1, 2], [], WHOLES]), ("[U32]", [[1, 2], [2**32 - 1]])],
    "floats": [("[F64]", [[], WILD]), ("[F32]", [HALF])],
    "dates": [("[Date]", [[], DAYS])],
}
COMPARED = ["whole", "float", "text", "bool", "date", "datetime"]
OPERATORS = ["=", "!=", "<", "<=", ">", ">="]
JOINED_NODES_MAX = 3
"""Nodes beside which another is joined by a value: many unconnected variables multiply."""


SUBQUERIES = ("not {", "exists {", "count {", ") {")


def _has_pattern(clause: str) -> bool:
    return any(start in clause for start in SUBQUERIES)


class Writer:
    """Writes one random query that compiles."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.values: dict[str, Any] = {}
        self._types: dict[str, str] = {}
        self._count = 0
        self._matching = True
        self._depth = 0
        self._written: list[str] = []
        self._bound: dict[str, str] = {}
        self._returned = ""

    def query(self) -> str:
        scope = Scope()
        self._written = self._clauses(scope, least=1, most=self.r.randint(2, 4), depth=0)
        if scope.nodes and self.chance(0.3):
            self._written.insert(0, self._named(scope))
        self._bound = dict(scope.nodes)
        self._matching = False
        self._returned = self._output(scope)
        return self._text(self._written)

    def _named(self, scope: Scope) -> str:
        """Name a node by its key: such queries are fetched by index."""
        name = self.r.choice(sorted(scope.nodes))
        letter = "p" if scope.nodes[name] == "Person" else "t"
        return f'${name}: {scope.nodes[name]} {{ slug: "{letter}{self.r.randint(0, 5)}" }}'

    def shuffled(self) -> str:
        """Return the query with its clauses in another order, which may not compile.

        Text order decides which way an edge is read and which names of a block are its own, so
        all variables are bound first and blocks stay behind.
        """
        clauses = [f"${name}: {kind}" for name, kind in self._bound.items()]
        self.r.shuffle(clauses)
        blocks = [c for c in self._written if c.startswith("optional {") or _has_pattern(c)]
        others = [c for c in self._written if c not in blocks]
        return self._text([*clauses, *self.r.sample(others, len(others)), *blocks])

    def _text(self, clauses: list[str]) -> str:
        signature = ", ".join(f"${name}: {kind}" for name, kind in self._types.items())
        return f"query q({signature}) {{ match {{ {' '.join(clauses)} }} {self._returned} }}"

    def chance(self, share: float) -> bool:
        return self.r.random() < share

    def _fresh(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count:02}"

    # ---- pattern --------------------------------------------------------------------------

    def _clauses(self, scope: Scope, *, least: int, most: int, depth: int) -> list[str]:
        size = self.r.randint(least, most)
        found = [self._clause(scope, depth) for _ in range(size)]
        if not scope.all():
            found.append(self._binding(scope))
        return found

    def _clause(self, scope: Scope, depth: int) -> str:
        kinds = ["binding", "traversal", "traversal", "traversal"]
        if scope.all():
            kinds += ["filter", "filter", "join"]
            if depth < 2:
                kinds += ["not", "optional"]
        match self.r.choice(kinds):
            case "binding":
                return self._binding(scope)
            case "traversal":
                return self._traversal(scope)
            case "filter":
                return self._condition(scope, 2)
            case "join":
                return self._join(scope)
            case kind:
                return self._block(scope, kind, depth)

    def _binding(self, scope: Scope) -> str:
        # Few unconnected bindings: they multiply.
        if scope.nodes and (self.chance(0.6) or len(scope.nodes) > 2):
            name = self.r.choice(sorted(scope.nodes))
            type_name = scope.nodes[name]
        else:
            name, type_name = self._fresh("v"), self.r.choice(["Person", "Thing"])
        before = Scope(dict(scope.nodes), dict(scope.maybe), dict(scope.edges))
        scope.nodes[name] = type_name
        if self.chance(0.6):
            return f"${name}: {type_name}"
        kinds = PROPERTIES[type_name]
        matches: dict[str, str] = {}
        for _ in range(self.r.choice([1, 1, 2])):
            kind = self.r.choice(sorted(kinds.keys() - {"little", "exact"}))
            prop = self.r.choice(kinds[kind])
            wanted = kind.removesuffix("s")
            if prop == "team":
                matches[prop] = self.r.choice(['"red"', '"green"'])
            else:
                matches[prop] = self._operand(before, wanted, vanishing=self.chance(0.5))
        inner = ", ".join(f"{prop}: {value}" for prop, value in matches.items())
        return f"${name}: {type_name} {{ {inner} }}"

    def _join(self, scope: Scope) -> str:
        """Bind a variable that only values connect with another: by `=`, an order or a part."""
        outer = scope.all()
        other = self.r.choice(sorted(outer))
        if len(scope.nodes) > JOINED_NODES_MAX:
            return self._condition(scope, 1)
        name, type_name = self._fresh("v"), self.r.choice(["Person", "Thing"])
        kinds, others = PROPERTIES[type_name], PROPERTIES[outer[other]]
        shared = [kind for kind in COMPARED if kind in kinds and kind in others]
        links = []
        for _ in range(self.r.choice([1, 1, 1, 2])):
            kind = self.r.choice(shared)
            near = self.r.choice([one for one in kinds[kind] if one != "team"])
            far = f"${other}.{self.r.choice([one for one in others[kind] if one != 'team'])}"
            style = self.r.random()
            number = self._any_number(kind)
            if number in others and number in kinds and style < 0.3:
                near = self.r.choice(kinds[number])
            if style < 0.3 and near not in ("id", "from", "to"):
                links.append(f"${name}.{near} = {far}")
            elif style < 0.7:
                links.append(f"{far} = ${name}.{near}")
            elif style < 0.9 or kind != "text":
                links.append(f"${name}.{near} {self.r.choice(OPERATORS)} {far}")
            else:
                word = self.r.choice(["contains", "starts_with"])
                links.append(f"{far} {word} ${name}.{near}")
        scope.nodes[name] = type_name
        return f"${name}: {type_name} ({' and '.join(links)})"

    def _traversal(self, scope: Scope, must: str | None = None) -> str:
        edge = self.r.choice(list(FOLLOWED))
        if must is not None:
            edge = self.r.choice([e for e, ends in FOLLOWED.items() if scope.nodes[must] in ends])
        source, target = FOLLOWED[edge]
        forward = source == target or self.chance(0.6)
        left_type, right_type = (source, target) if forward else (target, source)
        if must is not None and scope.nodes[must] not in (left_type, right_type):
            left_type, right_type = right_type, left_type
        left, right = self._end(scope, left_type), self._end(scope, right_type)
        if must is not None:
            if scope.nodes[must] == left_type and (left_type != right_type or self.chance(0.5)):
                left = must
            elif scope.nodes[must] == right_type:
                right = must
            else:
                left = must
        known = (left in scope.nodes, right in scope.nodes)
        if not any(known) and source != target:
            # With neither end known the edge is read forward.
            left_type, right_type = source, target
        word = edge.lower()
        form = f"({word})" if "|" in edge else word
        first = ""
        if source == target and self.chance(0.3):
            form = f"<{word}>"
        elif "_" not in (left, right) and self.chance(0.15):
            # All types that go from one type to the other.
            first = f"${left}: {left_type} ${right}: {right_type} "
            form, edge = "->", WILDCARDS[left_type, right_type]
        elif not any(known) and source != target and "|" in edge:
            # The types of several edges must agree on their ends.
            if left == "_":
                left = self._fresh("v")
            first = f"${left}: {left_type} "
        style = self.r.random()
        names = [(left, left_type), (right, right_type)]
        if style < 0.25:
            variable = self._fresh("w")
            form = f"${variable}:{form}"
            scope.edges[variable] = edge
        elif style < 0.55:
            low = self.r.choice([1, 1, 2, 3] if source == target else [1, 1, 1, 1, 2])
            form = f"{form}{{{low},{low + self.r.randint(0, 3)}}}"
            if self.chance(0.4):
                variable = self._fresh("w")
                form = f"${variable}:{form}"
                scope.paths.add(variable)
        elif style < 0.6:
            form = f"$_:{form}"
        for name, type_name in names:
            if name != "_":
                scope.nodes[name] = type_name
        return f"{first}${left} {form} ${right}"

    def _end(self, scope: Scope, type_name: str) -> str:
        known = sorted(name for name, kind in scope.nodes.items() if kind == type_name)
        if known and self.chance(0.7):
            return self.r.choice(known)
        return "_" if self.chance(0.15) else self._fresh("v")

    def _block(self, scope: Scope, kind: str, depth: int) -> str:
        inner, text = self._pattern(scope, depth)
        if kind == "optional":
            outer = scope.all()
            for found in (inner.nodes, inner.maybe):
                scope.maybe |= {n: t for n, t in found.items() if n not in outer}
            scope.edges |= {n: t for n, t in inner.edges.items() if n not in outer}
            scope.paths |= inner.paths
        return f"{kind} {text}"

    def _pattern(self, scope: Scope, depth: int) -> tuple[Scope, str]:
        """Return a pattern that uses a variable of the one around it."""
        inner = scope.inner()
        nodes = sorted(inner.nodes)
        style = self.r.random()
        if nodes and style < 0.1:
            name = self.r.choice(nodes)
            first = f"${name}: {inner.nodes[name]}"
        elif style < 0.35 and len(nodes) <= JOINED_NODES_MAX:
            first = self._join(inner)
        elif nodes and style < 0.75:
            first = self._traversal(inner, must=self.r.choice(nodes))
        else:
            first = f"({self._condition_on(inner, self.r.choice(sorted(scope.all())))})"
        clauses = [first, *self._clauses(inner, least=0, most=2, depth=depth + 1)]
        return inner, f"{{ {' '.join(clauses)} }}"

    def _subquery(self, scope: Scope, *, only: str = "") -> str:
        """Return a pattern that stands for a value: a truth or, if asked for, a number."""
        self._depth += 1
        matching, self._matching = self._matching, True
        inner, text = self._pattern(scope, 2)
        if only == "" and self.chance(0.5):
            found = f"exists {text}"
        elif self.chance(0.5):
            found = f"count {text}"
        else:
            self._matching = False
            call = self._aggregate(inner)
            while only and call.startswith(("min", "max")):
                call = self._aggregate(inner)
            found = f"{call} {text}"
        self._matching = matching
        self._depth -= 1
        if only or found.startswith("exists"):
            return found
        word = self.r.choice(["is null", "is not null"])
        if found.startswith(("min", "max")):
            return f"({found} {word})"
        ends = [f"{self.r.choice(OPERATORS)} {self.r.choice(['0', '1', '2', '0.5'])}", word]
        return f"({found} {self.r.choice(ends)})"

    # ---- conditions -----------------------------------------------------------------------

    def _condition(self, scope: Scope, depth: int) -> str:
        # In parentheses, so that the next clause cannot continue it.
        if self.chance(0.5):
            return f"({self._boolean(scope, depth)})"
        text = self._simple(scope)
        if self._depth == 0 and self.chance(0.1):
            text = self._subquery(scope)
        # `true (` is read as the call of a function.
        return f"({text})" if text.endswith(("true", "false")) else text

    def _boolean(self, scope: Scope, depth: int) -> str:
        style = self.r.random()
        if depth == 0 or style < 0.4:
            return self._simple(scope)
        if style < 0.6:
            inner = self._boolean(scope, depth - 1)
            return f"not ({inner})" if self.chance(0.5) else f"not {inner}"
        word = self.r.choice(["and", "or"])
        parts = [f"({self._boolean(scope, depth - 1)})" for _ in range(self.r.randint(2, 3))]
        return f" {word} ".join(parts)

    def _condition_on(self, scope: Scope, variable: str) -> str:
        kinds = PROPERTIES[scope.all()[variable]]
        kind = self.r.choice([kind for kind in COMPARED if kind in kinds])
        prop = self._property(variable, kinds[kind])
        return f"{prop} {self.r.choice(OPERATORS)} {self._operand(scope, kind, prop=prop)}"

    def _simple(self, scope: Scope) -> str:
        variable = self.r.choice(sorted(scope.all()))
        kinds = PROPERTIES[scope.all()[variable]]
        style = self.r.random()
        vanishing = self.chance(0.2)
        if self._depth < 2 and self.chance(0.08):
            return self._subquery(scope)
        if scope.paths and self.chance(0.2):
            return self._on_path(scope, self.r.choice(sorted(scope.paths)))
        if self.chance(0.06):
            names = scope.all()[variable].split("|")
            return f'type(${variable}) {self.r.choice(["=", "!=", "<"])} "{self.r.choice(names)}"'
        if "bool" in kinds and self.chance(0.1):
            # A group key reads a variable.
            if self._matching and self.chance(0.4):
                # In parentheses: a binding may follow, and `$x $v:` starts a traversal.
                return f"({self._operand(scope, 'bool', vanishing=vanishing)})"
            return self._property(variable, kinds["bool"])
        if style < 0.1:
            word = self.r.choice(["is null", "is not null"])
            if self.chance(0.4) and variable not in scope.edges:
                return f"${variable} {word}"
            kind = self.r.choice(sorted(kinds))
            return f"{self._property(variable, kinds[kind])} {word}"
        if style < 0.25:
            prop = self._property(variable, kinds["text"])
            word = self.r.choice(["contains", "starts_with"])
            part = self._operand(scope, "text", vanishing=vanishing, prop=prop)
            if part.startswith('"') and self.chance(0.3):
                return f"{part} {word} {prop}"
            return f"{prop} {word} {part}"
        if style < 0.35:
            found = [kind for kind in ("text", "whole", "float", "date") if kind in kinds]
            kind = self.r.choice(found)
            names = [name for name in kinds[kind] if name != "team"]
            prop = self._property(variable, names)
            kind = self._any_number(kind)
            return f"{prop} in {self._operand(scope, kind + 's', vanishing=vanishing)}"
        lists = [kind for kind in ("texts", "wholes", "floats", "dates") if kind in kinds]
        if style < 0.45 and lists:
            kind = self.r.choice(lists)
            wanted = self._any_number(kind.removesuffix("s"))
            item = self._operand(scope, wanted, vanishing=vanishing)
            return f"{self._property(variable, kinds[kind])} contains {item}"
        if style < 0.5:
            inner = self._condition_on(scope, variable)
            # In parentheses: `true (` would be read as the call of a function.
            return f"(({inner}) {self.r.choice(['=', '!='])} {self._operand(scope, 'bool')})"
        kind = self.r.choice([kind for kind in COMPARED if kind in kinds])
        prop = self._property(variable, kinds[kind])
        kind = self._any_number(kind)
        left, right = prop, self._operand(scope, kind, vanishing=vanishing, prop=prop)
        if self.chance(0.2) and not right.startswith("-"):
            left, right = f"({right})" if right.startswith("$") else right, left
        return f"{left} {self.r.choice(OPERATORS)} {right}"

    def _on_path(self, scope: Scope, path: str) -> str:
        """Return a condition on the length or the nodes of a path."""
        style = self.r.random()
        if style < 0.6:
            op = self.r.choice(OPERATORS)
            return f"length(${path}) {op} {self.r.choice(['0', '1', '2', '3', '1.5'])}"
        if style < 0.8:
            node = self.r.choice(['"p1"', '"t1"', '"p3"'])
            if scope.nodes and self.chance(0.5):
                node = f"${self.r.choice(sorted(scope.nodes))}.id"
            return f"nodes(${path}) contains {node}"
        word = self.r.choice(["is null", "is not null"])
        return f"{self.r.choice(['nodes', 'length'])}(${path}) {word}"

    def _any_number(self, kind: str) -> str:
        """Return a kind that compares with a kind: numbers do so with each other."""
        return self.r.choice(["whole", "float"]) if kind in ("whole", "float") else kind

    def _property(self, variable: str, names: list[str]) -> str:
        return f"${variable}.{self.r.choice(names)}"

    def _operand(self, scope: Scope, kind: str, *, vanishing: bool = False, prop: str = "") -> str:
        """Return a value of a kind: a property, a literal, a parameter or a calculation."""
        style = self.r.random()
        if vanishing and self._matching:
            return f"${self._parameter(kind, nullable=True)}?"
        choices = [
            f"${name}.{item}"
            for name, type_name in sorted(scope.all().items())
            for item in PROPERTIES[type_name].get(kind, [])
        ]
        if choices and style < 0.3:
            return self.r.choice(choices)
        if kind in ("whole", "float") and style < 0.45:
            return f"({self._number(scope)})"
        # An enum compares only with its own values.
        if style < 0.75 or prop.endswith(".team"):
            if prop.endswith(".team"):
                return self.r.choice(['"red"', '"blue"'])
            return self.r.choice(LITERALS[kind])
        return f"${self._parameter(kind, nullable=self.chance(0.5))}"

    def _number(self, scope: Scope, *, only: str = "") -> str:
        """Return a calculation."""
        if only == "":
            only = self.r.choice(["little", "exact", "whole", "float"])
        choices = [
            f"${name}.{item}"
            for name, type_name in sorted(scope.all().items())
            for item in PROPERTIES[type_name].get(only, [])
        ]
        left = self.r.choice(choices) if choices else "5"
        # Now and then something overflows, which is an error and tests nothing else.
        op = self.r.choice("+-*/%" if only != "whole" or self.chance(0.1) else "/%")
        right = self.r.choice(["2", "3", "0.5", "0", "7", *(choices if only != "whole" else [])])
        if self.chance(0.1):
            return f"-{left}"
        if only == "float" and op == "*":
            op = "-"
        return f"{left} {op} {right}"

    def _parameter(self, kind: str, *, nullable: bool) -> str:
        type_text, values = self.r.choice(PARAMETERS[kind])
        name = self._fresh("x")
        self._types[name] = type_text + ("?" if nullable else "")
        if nullable and self.chance(0.5):
            if self.chance(0.5):
                self.values[name] = None
        else:
            self.values[name] = self.r.choice(values)
        return name

    # ---- output ---------------------------------------------------------------------------

    def _output(self, scope: Scope) -> str:
        style = self.r.random()
        if style < 0.35:
            columns, keys = self._groups(scope), ["a", "b"]
            keys = [key for key in keys if any(c.endswith(f" as {key}") for c in columns)]
            if self.chance(0.3):
                keys.append(self._aggregate(scope))
            word = ""
        else:
            word = "distinct " if style < 0.5 else ""
            key = word != "" and self.chance(0.7)
            columns = [self._column(scope, key=key) for _ in range(self.r.randint(1, 4))]
            columns = [f"{text} as {name}" for text, name in zip(columns, "abcd", strict=False)]
            keys = list("abcd"[: len(columns)])
            if self.chance(0.1):
                columns.append(f"${self.r.choice(sorted(scope.all()))}.*")
            if word == "" and self.chance(0.1):
                columns.append(f"object(${self.r.choice(sorted(scope.all()))}) as o")
            if not word:
                keys += [self._sortable(scope) for _ in range(3)]
                keys += [f"({self._number(scope)})", f"({self._boolean(scope, 1)})"]
        keys = [key for key in keys if not self._is_list(key, columns)]
        text = f"return {word}{{ {', '.join(columns)} }}"
        if keys and self.chance(0.6):
            chosen = self.r.sample(keys, self.r.randint(1, min(3, len(keys))))
            chosen = [key + self.r.choice(["", " asc", " desc"]) for key in chosen]
            text += f" order {{ {', '.join(chosen)} }}"
        if self.chance(0.3):
            text += f" limit {self._size([0, 1, 2, 3, 3, 5, 5, 9, 1000])}"
        if self.chance(0.2):
            text += f" offset {self._size([0, 1, 1, 2, 2, 4, 1000])}"
        return text

    def _size(self, sizes: list[int]) -> str:
        size = self.r.choice(sizes)
        if self.chance(0.7):
            return str(size)
        name = self._fresh("x")
        self._types[name], self.values[name] = self.r.choice(["I64", "I32", "U64"]), size
        return f"${name}"

    @staticmethod
    def _is_list(key: str, columns: list[str]) -> bool:
        lists = (".tags", ".nums", ".shares", ".days")
        return any(
            c.endswith(f" as {key}")
            and (c.split(" as ")[0].endswith(lists) or c.startswith("nodes("))
            for c in columns
        )

    def _column(self, scope: Scope, *, key: bool = False) -> str:
        style = self.r.random()
        nodes = sorted({**scope.nodes, **scope.maybe})
        if self.chance(0.08):
            return self._subquery(scope, only="number")
        if scope.paths and self.chance(0.4):
            path = self.r.choice(sorted(scope.paths))
            return f"length(${path})" if key or self.chance(0.3) else f"nodes(${path})"
        if nodes and style < 0.15:
            return f"${self.r.choice(nodes)}"
        if style < 0.3:
            return f"({self._boolean(scope, 1)})"
        if style < 0.45:
            found = self._number(scope)
            return f"({found})" if not key or "$" in found else self._sortable(scope)
        if style < 0.5 and not key:
            choices = ['"lit"', "7", "2.5", "true", 'date("2024-01-01")']
            choices += ["(1 < 2)", '("a" = "b" or 1 = 2)', "(7 is null)"]
            return self.r.choice(choices)
        variable = self.r.choice(sorted(scope.all()))
        type_name = scope.all()[variable]
        if self.chance(0.08) or ("|" in type_name and self.chance(0.3)):
            return f"type(${variable})"
        kind = self.r.choice(sorted(PROPERTIES[type_name]))
        return self._property(variable, PROPERTIES[type_name][kind])

    def _sortable(self, scope: Scope) -> str:
        variable = self.r.choice(sorted(scope.all()))
        kinds = PROPERTIES[scope.all()[variable]]
        kind = self.r.choice([kind for kind in COMPARED if kind in kinds])
        return self._property(variable, kinds[kind])

    def _groups(self, scope: Scope) -> list[str]:
        keys = [self._column(scope, key=True) for _ in range(self.r.randint(0, 2))]
        found = [f"{text} as {name}" for text, name in zip(keys, "kl", strict=False)]
        for name in "ab"[: self.r.randint(1, 2)]:
            text = self._aggregate(scope)
            if self.chance(0.2):
                text = f"{self._count_of(scope)} {self.r.choice('+-*/%')} {self.r.choice('023')}"
            elif self.chance(0.2) and not text.startswith(("min", "max")):
                text = f"({text} {self.r.choice(['is null', '> 1', '= 0.5', '<= 2.0'])})"
            found.append(f"{text} as {name}")
        return found

    def _count_of(self, scope: Scope) -> str:
        variable = self.r.choice(sorted(scope.all()))
        type_name = scope.all()[variable]
        kind = self.r.choice(sorted(PROPERTIES[type_name]))
        prop = self._property(variable, PROPERTIES[type_name][kind])
        choices = [
            "count(*)",
            f"count(distinct type(${variable}))",
            f"count({prop})",
            f"count(distinct {prop})",
        ]
        word = self.r.choice(["", "distinct "])
        choices.append(f"count({word}({self._boolean(scope, 1)}))")
        choices.append(f"count({word}({self._number(scope)}))")
        if variable not in scope.edges:
            choices += [f"count(${variable})", f"count(distinct ${variable})"]
        return self.r.choice(choices)

    def _aggregate(self, scope: Scope) -> str:
        if self.chance(0.4):
            return self._count_of(scope)
        if self._depth == 0 and self.chance(0.1):
            return f"sum({self._subquery(scope, only='number')})"
        word = self.r.choice(["sum", "avg", "min", "max"])
        wanted = ["little", "exact"]
        if self.chance(0.3):
            found = self._number(scope, only=self.r.choice(wanted))
            return f"{word}({found})" if "$" in found else "count(*)"
        if word == "avg":
            wanted = ["whole", "exact"]
        if word in ("min", "max"):
            wanted = ["whole", "float", "text", "date", "datetime"]
        choices = [
            f"${name}.{item}"
            for name, type_name in sorted(scope.all().items())
            for kind in wanted
            for item in PROPERTIES[type_name].get(kind, [])
            # An enum has no least value of its own type to speak of.
            if item != "team"
        ]
        return f"{word}({self.r.choice(choices)})" if choices else "count(*)"
