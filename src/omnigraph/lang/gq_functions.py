"""Checks function calls: text predicates, rankings, aggregates and `now()`."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from omnigraph.catalog import NUMERICS, TEMPORALS, Property, PropertyType, Scalar, members_of
from omnigraph.catalog.languages import ENGLISH
from omnigraph.lang.gq_ast import (
    CallNode,
    ClauseNode,
    ExpressionNode,
    PropertyNode,
    SubqueryNode,
    VariableNode,
    WordNode,
)
from omnigraph.lang.gq_clauses import (
    Clause,
    Subquery,
    direct_variables,
    introduced_names,
    used_variables,
)
from omnigraph.lang.gq_expressions import AGGREGATES, RANKINGS, TEXT_PREDICATES
from omnigraph.lang.gq_scope import EdgeVariable, MatchVariable, NodeVariable, PathVariable, Scope
from omnigraph.lang.gq_values import ValueChecker
from omnigraph.lang.source import did_you_mean
from omnigraph.limits import RRF_K_DEFAULT
from omnigraph.plan.expression import (
    BOOL,
    FLOAT,
    INT,
    TEXT,
    Aggregate,
    AggregateFunction,
    Bm25,
    Constant,
    End,
    EndpointOf,
    Expression,
    IdOf,
    Metric,
    Nearest,
    Now,
    ObjectOf,
    Parameter,
    PathOf,
    PathPart,
    PropertyOf,
    Ranking,
    Rrf,
    SubqueryValue,
    TextMatch,
    TextOp,
    TypeOf,
    variables_of,
)

_CODES = {"search": "T19", "fuzzy": "T19", "match_text": "T20", "bm25": "T20"}


Patterns = Callable[[Scope, tuple[ClauseNode, ...]], tuple[Clause, ...]]
"""Resolves the clauses of a pattern in a scope."""


class ExpressionChecker(ValueChecker):
    """Resolves every expression of a read query."""

    def __init__(
        self,
        scope: Scope,
        *,
        patterns: Patterns,
        aggregates: bool = False,
        rankings: bool = False,
    ) -> None:
        super().__init__(scope)
        self._patterns = patterns
        self._aggregates = aggregates
        self._rankings = rankings
        self._subqueries: list[Subquery] = []

    def call(self, node: CallNode) -> Expression | None:
        """Resolve a function call."""
        if node.function == "now":
            return Now()
        if node.function in TEXT_PREDICATES:
            was_condition = self.enter_condition()
            condition = self._text_match(node)
            return self.leave_condition(condition, was_condition=was_condition)
        if node.function == "type":
            return self._type(node)
        if node.function in ("length", "nodes"):
            return self._path(node)
        if node.function in RANKINGS or node.function == "object":
            if not self._rankings:
                self.scope.error(
                    "T7",
                    node.span,
                    f"`{node.function}` cannot be used in `match`",
                    hint="return it as a column"
                    if node.function == "object"
                    else "use it in `order`, or return it as a column",
                )
                return None
            return self._object(node) if node.function == "object" else self.ranking(node)
        if node.function in AGGREGATES and not self._aggregates:
            self.scope.error(
                "T8",
                node.span,
                f"aggregate `{node.function}` cannot be used here",
                hint="aggregates belong to `return`, `order` or a pattern: "
                f"`{node.function}(...) {{ ... }}`; they do not nest",
            )
            return None
        return self._aggregate(node)

    # ---- subqueries -----------------------------------------------------------------------

    def take_subqueries(self) -> list[Subquery]:
        """Return the subqueries of what was resolved since this was last asked."""
        subqueries, self._subqueries = self._subqueries, []
        return subqueries

    def subquery(self, node: SubqueryNode) -> Expression | None:
        """Resolve a pattern that stands for a value; its own names are local."""
        before = len(self.scope.diagnostics.items)
        inner = self.scope.child()
        inner.own_names = introduced_names(node.clauses)
        clauses = self._patterns(inner, node.clauses)
        aggregate: Expression | None = None
        if node.call is not None:
            values = ExpressionChecker(inner, patterns=self._patterns, aggregates=True)
            aggregate = values.call(node.call)
            clauses += tuple(values.take_subqueries())
        elif node.function == "count":
            aggregate = Aggregate(function=AggregateFunction.COUNT, argument=None, type=INT)
        if len(self.scope.diagnostics.items) > before:
            return None
        visible = inner.outer_names()
        if not direct_variables(clauses) & visible:
            self.scope.error(
                "T9",
                node.span,
                f"the `{node.function}` block uses no variable of the enclosing pattern",
                hint="connect it by a traversal or a condition",
            )
            return None
        used = used_variables(clauses)
        if isinstance(aggregate, Aggregate):
            used |= variables_of(aggregate)
        subquery = Subquery(
            variable=self.scope.fresh(),
            outer=used & visible,
            clauses=clauses,
            aggregate=aggregate if isinstance(aggregate, Aggregate) else None,
        )
        self._subqueries.append(subquery)
        return SubqueryValue(
            variable=subquery.variable, type=BOOL if aggregate is None else aggregate.type
        )

    # ---- types and objects ----------------------------------------------------------------

    def _variable(self, node: CallNode, wanted: str) -> MatchVariable | None:
        """Return the variable a function is about; one that is no such variable is reported."""
        argument = node.arguments[0]
        variable = self.scope.lookup(argument.name) if isinstance(argument, VariableNode) else None
        if variable is not None and isinstance(variable, PathVariable) == wanted.startswith("path"):
            return variable
        if not isinstance(argument, VariableNode) or argument.name not in self.scope.poisoned:
            message = f"`{node.function}` needs a {wanted}"
            self.scope.error("T7", argument.span, message)
        return None

    def _entity(self, node: CallNode) -> NodeVariable | EdgeVariable | None:
        """Resolve the node or edge variable a function is about."""
        variable = self._variable(node, "node or edge variable such as `$p`")
        return None if isinstance(variable, PathVariable) else variable

    def _path(self, node: CallNode) -> Expression | None:
        """Resolve `length($w)` or `nodes($w)`."""
        variable = self._variable(node, "path variable: `$w` in `$a $w:edge{1,5} $b`")
        if variable is None:
            return None
        part = PathPart(node.function)
        kind = INT if part is PathPart.LENGTH else replace(TEXT, is_list=True)
        kind = kind.as_nullable(nullable=variable.optional)
        return PathOf(variable=variable.name, part=part, type=kind)

    def _type(self, node: CallNode) -> Expression | None:
        """Resolve `type($v)`: the name of the type, one of those the variable may have."""
        variable = self._entity(node)
        if variable is None:
            return None
        types = (
            members_of(variable.edge) if isinstance(variable, EdgeVariable) else (variable.node,)
        )
        names = [item.name for item in types]
        kind = PropertyType(
            scalar=Scalar.STRING, nullable=variable.optional, enum_values=tuple(sorted(names))
        )
        return TypeOf(variable=variable.name, type=kind)

    def _object(self, node: CallNode) -> Expression | None:
        """Resolve `object($v)`: everything of a node or edge that can be read, as one value."""
        variable = self._entity(node)
        if variable is None:
            return None
        owner = variable.edge if isinstance(variable, EdgeVariable) else variable.node
        text = TEXT.as_nullable(nullable=variable.optional)
        parts: dict[str, Expression] = {"id": IdOf(variable=variable.name, type=text)}
        if isinstance(variable, EdgeVariable):
            for end in End:
                parts[str(end)] = EndpointOf(variable=variable.name, end=end, type=text)
        for name, declared in owner.properties.items():
            if declared.type.scalar is not Scalar.BLOB:
                kind = declared.type.as_nullable() if variable.optional else declared.type
                parts[name] = PropertyOf(variable=variable.name, property=name, type=kind)
        fields = tuple((name, part.type) for name, part in parts.items())
        return ObjectOf(
            parts=tuple(parts.values()),
            type=PropertyType(scalar=Scalar.OBJECT, nullable=variable.optional, fields=fields),
        )

    # ---- text and ranking -----------------------------------------------------------------

    def _target(self, node: ExpressionNode, code: str, function: str) -> PropertyOf | None:
        """Resolve the `$v.property` a search or ranking works on."""
        if not isinstance(node, PropertyNode):
            self.scope.error(code, node.span, f"`{function}` needs a property such as `$d.body`")
            return None
        if isinstance(self.scope.lookup(node.variable), EdgeVariable):
            self.scope.error(
                "T23",
                node.span,
                f"`{function}` cannot be used on edge variable `${node.variable}`",
            )
            return None
        target = self.property_ref(node)
        if target is not None and not isinstance(target, PropertyOf):
            self.scope.error(code, node.span, f"`{function}` cannot be used on an id")
            return None
        return target

    def _text_target(self, node: ExpressionNode, code: str, function: str) -> PropertyOf | None:
        target = self._target(node, code, function)
        if target is not None and not target.type.is_text:
            self.scope.error(
                code, node.span, f"`{function}` needs a String property, got {target.type}"
            )
            return None
        return target

    def _text_query(self, node: ExpressionNode, code: str, function: str) -> Expression | None:
        query = self.resolve(node)
        if query is None:
            return None
        if not isinstance(query, Constant | Parameter) or not query.type.is_text:
            self.scope.error(
                code,
                node.span,
                f"the query of `{function}` must be a String literal or parameter, "
                f"got {query.type}",
            )
            return None
        return query

    def _text_match(self, node: CallNode) -> Expression | None:
        code = _CODES[node.function]
        target = self._text_target(node.arguments[0], code, node.function)
        query = self._text_query(node.arguments[1], code, node.function)
        edits: Expression | None = None
        if len(node.arguments) == 3:
            edits = self.resolve(node.arguments[2])
            if edits is None:
                return None
            if not edits.type.is_integer or not isinstance(edits, Constant | Parameter):
                self.scope.error(code, node.arguments[2].span, "max_edits must be an integer")
                return None
        if target is None or query is None:
            return None
        return TextMatch(
            op=TextOp(node.function),
            variable=target.variable,
            property=target.property,
            query=query,
            max_edits=edits,
            language=self._language(node.arguments[0], target),
        )

    def ranking(self, node: CallNode) -> Ranking | None:
        """Resolve `nearest`, `bm25` or `rrf`."""
        if node.function == "nearest":
            return self._nearest(node)
        if node.function == "bm25":
            return self._bm25(node)
        arms: list[Nearest | Bm25 | None] = []
        for argument in node.arguments[:2]:
            if not isinstance(argument, CallNode) or argument.function not in ("nearest", "bm25"):
                self.scope.error(
                    "T21", argument.span, "`rrf` fuses two of `nearest(...)` and `bm25(...)`"
                )
                arms.append(None)
            elif argument.function == "nearest":
                arms.append(self._nearest(argument))
            else:
                arms.append(self._bm25(argument))
        k = self._rrf_k(node)
        first, second = arms
        if first is None or second is None or k is None:
            return None
        if first.variable != second.variable:
            self.scope.error("T21", node.span, "both rankings of `rrf` must rank the same variable")
            return None
        return Rrf(first=first, second=second, k=k)

    def _rrf_k(self, node: CallNode) -> Expression | None:
        if len(node.arguments) < 3:
            return Constant(value=RRF_K_DEFAULT, type=INT)
        k = self.resolve(node.arguments[2])
        if k is None:
            return None
        span = node.arguments[2].span
        if not isinstance(k, Constant | Parameter) or not k.type.is_integer:
            self.scope.error("T21", span, f"k of `rrf` must be an integer, got {k.type}")
            return None
        if isinstance(k, Constant) and isinstance(k.value, int) and k.value <= 0:
            self.scope.error("T21", span, "k of `rrf` must be greater than 0")
            return None
        return k

    def _bm25(self, node: CallNode) -> Bm25 | None:
        target = self._text_target(node.arguments[0], "T20", "bm25")
        query = self._text_query(node.arguments[1], "T20", "bm25")
        if target is None or query is None:
            return None
        return Bm25(
            variable=target.variable,
            property=target.property,
            query=query,
            language=self._language(node.arguments[0], target),
        )

    def _nearest(self, node: CallNode) -> Nearest | None:
        target = self._target(node.arguments[0], "T15", "nearest")
        query = self.resolve(node.arguments[1])
        metric = self._metric(node)
        if target is None or query is None or metric is None:
            return None
        if target.type.scalar is not Scalar.VECTOR:
            self.scope.error(
                "T15",
                node.arguments[0].span,
                f"`nearest` needs a Vector property, got {target.type}",
            )
            return None
        problem = _vector_problem(query, target.type)
        if problem is not None:
            self.scope.error("T15", node.arguments[1].span, problem)
            return None
        return Nearest(
            variable=target.variable,
            property=target.property,
            query=query,
            model=self._embedding_model(node.arguments[0], target),
            metric=metric,
        )

    def _metric(self, node: CallNode) -> Metric | None:
        """Return how `nearest` measures: its third argument, a bare word."""
        if len(node.arguments) < 3:
            return Metric.L2
        word = node.arguments[2]
        name = word.name if isinstance(word, WordNode) else ""
        if name in tuple(Metric):
            return Metric(name)
        self.scope.error(
            "T15",
            word.span,
            f"`nearest` measures by {', '.join(Metric)}, not by this",
            hint=did_you_mean(name, Metric) or "write `nearest($d.vector, $q, cosine)`",
        )
        return None

    def _declared(self, node: ExpressionNode, target: PropertyOf) -> Property | None:
        variable = self.scope.lookup(node.variable) if isinstance(node, PropertyNode) else None
        return (
            variable.node.properties[target.property]
            if isinstance(variable, NodeVariable)
            else None
        )

    def _embedding_model(self, node: ExpressionNode, target: PropertyOf) -> str | None:
        declared = self._declared(node, target)
        return declared.embedding.model if declared and declared.embedding else None

    def _language(self, node: ExpressionNode, target: PropertyOf) -> str:
        declared = self._declared(node, target)
        return ENGLISH if declared is None else declared.language

    # ---- aggregates -----------------------------------------------------------------------

    def _aggregate(self, node: CallNode) -> Expression | None:
        function = AggregateFunction(node.function)
        if node.star:
            return Aggregate(function=function, argument=None, type=INT)
        argument_node = node.arguments[0]
        self._aggregates = False
        argument = (
            self.entity(argument_node)
            if isinstance(argument_node, VariableNode) and function is AggregateFunction.COUNT
            else self.resolve(argument_node)
        )
        self._aggregates = True
        if argument is None:
            return None
        if function is AggregateFunction.COUNT:
            return Aggregate(function=function, argument=argument, type=INT, distinct=node.distinct)
        argument_type = argument.type
        allowed = NUMERICS
        if function in (AggregateFunction.MIN, AggregateFunction.MAX):
            allowed = NUMERICS | TEMPORALS | {Scalar.STRING}
        if argument_type.is_list or argument_type.scalar not in allowed:
            wanted = "a number" if allowed is NUMERICS else "a number, string, date or datetime"
            self.scope.error(
                "T8", argument_node.span, f"`{function}` needs {wanted}, got {argument_type}"
            )
            return None
        return Aggregate(
            function=function,
            argument=argument,
            type=_aggregate_type(function, argument_type).as_nullable(),
        )


def _aggregate_type(function: AggregateFunction, argument: PropertyType) -> PropertyType:
    if function is AggregateFunction.AVG:
        return FLOAT
    if function is AggregateFunction.SUM:
        if argument.scalar is Scalar.U64:
            return argument
        return INT if argument.is_integer else FLOAT
    return argument


def _vector_problem(query: Expression, target: PropertyType) -> str | None:
    query_type = query.type
    if isinstance(query, Constant) and query_type.is_list:
        size = len(query.value) if isinstance(query.value, tuple) else 0
        if size and query_type.scalar not in NUMERICS:
            return f"a query vector must hold numbers, got {query_type}"
        if size != target.vector_dim:
            return f"expected {target.vector_dim} values for {target}, got {size}"
        return None
    if not isinstance(query, Constant | Parameter):
        return "the query of `nearest` must be a literal or a parameter"
    if query_type.is_text:
        return None
    if query_type.scalar is Scalar.VECTOR and not query_type.is_list:
        if query_type.vector_dim != target.vector_dim:
            return f"{query_type} cannot be compared with {target}"
        return None
    return f"the query of `nearest` must be a vector or a text, got {query_type}"
