"""Checks a read query and builds its plan: pattern, columns, grouping, order, cut."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.catalog import Catalog, PropertyType, Scalar
from omnigraph.lang.gq_ast import (
    AllPropertiesNode,
    CallNode,
    ExpressionNode,
    LiteralNode,
    OrderNode,
    ProjectionNode,
    PropertyNode,
    QueryNode,
    ReadNode,
    SubqueryNode,
    VariableNode,
    WordNode,
)
from omnigraph.lang.gq_clauses import ReadTypes, Subquery, introduced_names
from omnigraph.lang.gq_expressions import AGGREGATES, RANKINGS
from omnigraph.lang.gq_functions import ExpressionChecker
from omnigraph.lang.gq_lower import lower
from omnigraph.lang.gq_patterns import PatternChecker
from omnigraph.lang.gq_scope import EdgeVariable, NodeVariable, PathVariable, Scope
from omnigraph.lang.source import Diagnostics, did_you_mean
from omnigraph.plan.explain import expression_text
from omnigraph.plan.expression import (
    TEXT,
    Aggregate,
    ColumnOf,
    Expression,
    IdOf,
    Nearest,
    ObjectOf,
    Parameter,
    Ranking,
    Rrf,
    children,
    variables_of,
    walk,
)
from omnigraph.plan.read import OutputColumn, ReadPlan, SortKey


class _Projector(ExpressionChecker):
    """Resolves output expressions, where a node variable stands for its id."""

    def variable(self, node: VariableNode) -> Expression | None:
        variable = self.scope.lookup(node.name)
        known = isinstance(variable, NodeVariable) and not node.vanishing
        if (
            not isinstance(variable, NodeVariable)
            or not known
            or node.name in self.scope.parameters
        ):
            return super().variable(node)
        return IdOf(variable=variable.name, type=TEXT.as_nullable(nullable=variable.optional))


def column_name(node: ProjectionNode, expression: Expression) -> str:
    """Return the name of an output column: one rule for lint, execution and explain.

    The alias if there is one; `v.p` and `v` for properties, variables and objects; an aggregate
    takes its argument's name and `count(*)` is `count`; other functions and subqueries their own; a
    literal `literal`; anything else its text without dollar signs.
    """
    if node.alias is not None:
        return node.alias
    return _implicit_name(node.expression, expression)


def _implicit_name(node: ExpressionNode, expression: Expression) -> str:
    if isinstance(node, PropertyNode):
        return f"{node.variable}.{node.property}"
    if isinstance(node, VariableNode):
        return node.name
    if isinstance(node, LiteralNode):
        return "literal"
    if isinstance(node, SubqueryNode):
        return node.function
    if isinstance(node, CallNode):
        if node.function in AGGREGATES and not node.star:
            argument = next(children(expression))
            return _implicit_name(node.arguments[0], argument)
        if node.function == "object" and isinstance(node.arguments[0], VariableNode):
            return node.arguments[0].name
        return node.function
    text = expression_text(expression).replace("$", "")
    return text[1:-1] if text.startswith("(") and text.endswith(")") else text


def _entities(scope: Scope) -> tuple[str, ...]:
    """Return the variables that have an id: nodes and edges."""
    names = (n for n, item in scope.variables.items() if not isinstance(item, PathVariable))
    return tuple(sorted(name for name in names if not name.startswith("#")))


def has_aggregate(expression: Expression) -> bool:
    """Whether an expression aggregates."""
    return any(isinstance(part, Aggregate) for part in walk(expression))


def check_read(
    query: QueryNode,
    read: ReadNode,
    catalog: Catalog,
    parameters: dict[str, PropertyType],
    diagnostics: Diagnostics,
) -> ReadPlan | None:
    """Check a read query; None when an error was reported."""
    before = len(diagnostics.errors)
    scope = Scope(
        catalog=catalog,
        parameters=parameters,
        diagnostics=diagnostics,
        own_names=introduced_names(read.clauses),
    )
    reads = ReadTypes(nodes=set(), edges=set())
    pattern = PatternChecker(scope, reads)
    clauses = pattern.check(read.clauses)
    output = _Output(scope, read, pattern)
    output.check()
    if len(diagnostics.errors) > before:
        return None
    return ReadPlan(
        name=query.name,
        parameters=tuple(Parameter(name=n, type=t) for n, t in parameters.items()),
        steps=lower((*clauses, *output.subqueries)),
        variables=_entities(scope),
        columns=tuple(output.columns),
        grouped=output.grouped,
        distinct=read.distinct,
        ranking=output.ranking,
        sort_keys=tuple(output.sort_keys),
        limit=output.limit,
        offset=output.offset,
        reads_nodes=tuple(sorted(reads.nodes)),
        reads_edges=tuple(sorted(reads.edges)),
    )


class _Output:
    """Everything after the pattern."""

    def __init__(self, scope: Scope, read: ReadNode, pattern: PatternChecker) -> None:
        self._scope = scope
        self._read = read
        self._values = _Projector(scope, patterns=pattern.inner, aggregates=True, rankings=True)
        self._projections: list[ProjectionNode] = []
        self.subqueries: list[Subquery] = []
        self.columns: list[OutputColumn] = []
        self.sort_keys: list[SortKey] = []
        self.ranking: Ranking | None = None
        self.grouped = False
        self.limit: Expression | None = None
        self.offset: Expression | None = None

    def check(self) -> None:
        self._projections = self._listed()
        resolved = [(p, self._values.resolve(p.expression)) for p in self._projections]
        self.grouped = any(
            expression is not None and has_aggregate(expression) for _, expression in resolved
        )
        for node, expression in resolved:
            if expression is None:
                continue
            if self.grouped:
                self._check_grouping(node, expression)
            self._check_objects(node, expression)
            name = column_name(node, expression)
            if any(column.name == name for column in self.columns):
                self._scope.error(
                    "T29",
                    node.span,
                    f"two columns are named `{name}`",
                    hint="name them apart with `as`",
                )
            self.columns.append(
                OutputColumn(name=name, expression=expression, type=expression.type)
            )
        complete = len(self.columns) == len(self._projections)
        self.limit = self._cut(self._read.limit, "limit")
        self.offset = self._cut(self._read.offset, "offset")
        for position, item in enumerate(self._read.order):
            self._order(item, position, complete=complete)
        self._check_ranking_limit()
        self.subqueries = self._values.take_subqueries()

    # ---- columns --------------------------------------------------------------------------

    def _listed(self) -> list[ProjectionNode]:
        """Return the columns one by one: `$v.*` stands for all that can be read of `$v`."""
        projections: list[ProjectionNode] = []
        for item in self._read.projections:
            if isinstance(item, ProjectionNode):
                projections.append(item)
                continue
            variable = self._scope.lookup(item.variable)
            if variable is None:
                if item.variable not in self._scope.poisoned:
                    self._scope.error(
                        "T6",
                        item.span,
                        f"unbound variable `${item.variable}`",
                        hint=self._scope.suggest_variable(item.variable),
                    )
                continue
            if isinstance(variable, PathVariable):
                self._scope.error(
                    "T6",
                    item.span,
                    f"path variable `${item.variable}` has no properties",
                    hint=f"read `length(${item.variable})` or `nodes(${item.variable})`",
                )
                continue
            owner = variable.edge if isinstance(variable, EdgeVariable) else variable.node
            for name, declared in owner.properties.items():
                if declared.type.scalar is not Scalar.BLOB:
                    projections.append(_property_column(item, name))
        return projections

    def _check_objects(self, node: ProjectionNode, expression: Expression) -> None:
        merged = self.grouped or self._read.distinct
        if merged and any(isinstance(part, ObjectOf) for part in walk(expression)):
            self._scope.error(
                "T7",
                node.expression.span,
                "rows cannot be grouped or merged by an object",
                hint="return the properties it is about, or the id",
            )

    def _check_grouping(self, node: ProjectionNode, expression: Expression) -> None:
        if has_aggregate(expression):
            self._check_unmixed(node.expression, expression)
        elif not variables_of(expression):
            self._scope.error(
                "T9",
                node.expression.span,
                "beside an aggregate, a column must be a variable or property to group by",
            )

    def _check_unmixed(self, node: ExpressionNode, expression: Expression) -> bool:
        if not frozenset().union(*(variables_of(part) for part in _outside(expression))):
            return True
        self._scope.error(
            "T9",
            node.span,
            "an expression cannot mix an aggregate with values of single rows",
            hint="return the row value as a column of its own",
        )
        return False

    def _cut(self, node: ExpressionNode | None, word: str) -> Expression | None:
        if node is None:
            return None
        bound = isinstance(node, VariableNode) and self._scope.lookup(node.name) is not None
        if isinstance(node, VariableNode) and bound and node.name not in self._scope.parameters:
            self._scope.error(
                "T27", node.span, f"`{word}` needs a number or a parameter, not `${node.name}`"
            )
            return None
        number = self._values.resolve(node)
        if number is None:
            return None
        if not isinstance(number, Parameter):
            return number
        if not number.type.is_integer or number.type.nullable:
            self._scope.error(
                "T27",
                node.span,
                f"`{word}` needs an integer that is never null, got {number.type}",
                hint=f"declare it as `${number.name}: I64`",
            )
            return None
        return number

    # ---- order ----------------------------------------------------------------------------

    def _order(self, item: OrderNode, position: int, *, complete: bool) -> None:
        node = item.expression
        if isinstance(node, CallNode) and node.function in RANKINGS:
            self._rank(node, position)
            return
        if isinstance(node, WordNode):
            expression = self._alias(node, complete=complete)
        else:
            expression = self._values.resolve(node)
            if expression is not None:
                expression = self._output_expression(node, expression)
        if expression is None:
            return
        if not expression.type.is_scalar:
            self._scope.error("T7", node.span, f"cannot order by {expression.type}")
            return
        self.sort_keys.append(SortKey(expression=expression, descending=item.direction == "desc"))

    def _rank(self, node: CallNode, position: int) -> None:
        ranking = self._values.ranking(node)
        if position > 0:
            self._scope.error(
                "T18", node.span, f"`{node.function}` must be the first item of `order`"
            )
        elif self.grouped or self._read.distinct:
            word = "aggregates" if self.grouped else "`distinct`"
            self._scope.error(
                "T18", node.span, f"`{node.function}` cannot order a result of {word}"
            )
        else:
            self.ranking = ranking

    def _alias(self, node: WordNode, *, complete: bool) -> Expression | None:
        names = {p.alias: index for index, p in enumerate(self._projections) if p.alias is not None}
        index = names.get(node.name)
        if index is None:
            self._scope.error(
                "T00",
                node.span,
                f"`{node.name}` is not a column of `return`",
                hint=did_you_mean(node.name, names) or f"name a column with `as {node.name}`",
            )
            return None
        if not complete:
            return None
        column = self.columns[index]
        if isinstance(self.ranking, Nearest) or isinstance(column.expression, Nearest):
            self._scope.error(
                "T18",
                node.span,
                f"`{node.name}` cannot be combined with ranking by `nearest`",
                hint="write `order { nearest(...) }`; the column keeps the distance",
            )
            return None
        if isinstance(column.expression, Rrf) and self._read.limit is None:
            self._scope.error("T21", node.span, "`rrf` ordering needs a `limit`")
            return None
        return ColumnOf(index=index, type=column.type)

    def _output_expression(self, node: ExpressionNode, expression: Expression) -> Expression | None:
        if not self.grouped and not self._read.distinct and not has_aggregate(expression):
            return expression
        for index, column in enumerate(self.columns):
            if column.expression == expression:
                return ColumnOf(index=index, type=column.type)
        if self.grouped and has_aggregate(expression) and not self._read.distinct:
            if not self._check_unmixed(node, expression):
                return None
            index = len(self.columns)
            self.columns.append(
                OutputColumn(
                    name=expression_text(expression),
                    expression=expression,
                    type=expression.type,
                    hidden=True,
                )
            )
            return ColumnOf(index=index, type=expression.type)
        if self._read.distinct:
            self._scope.error("T28", node.span, "with `distinct`, order only by what is returned")
        else:
            self._scope.error(
                "T9",
                node.span,
                "with aggregates, order only by returned columns or aggregates",
                hint=None if self.grouped else "return an aggregate to group the rows",
            )
        return None

    def _check_ranking_limit(self) -> None:
        if self._read.limit is not None:
            return
        codes: dict[type, str] = {Nearest: "T17", Rrf: "T21"}
        code = codes.get(type(self.ranking))
        if code is not None:
            self._scope.error(
                code,
                self._read.order[0].span,
                f"`{'nearest' if code == 'T17' else 'rrf'}` ordering needs a `limit`",
            )


def _property_column(item: AllPropertiesNode, name: str) -> ProjectionNode:
    place = PropertyNode(
        variable=item.variable, property=name, span=item.span, property_span=item.span
    )
    return ProjectionNode(expression=place, alias=None, span=item.span)


def _outside(expression: Expression) -> Iterator[Expression]:
    """Yield the parts of an expression that lie outside its aggregates."""
    if isinstance(expression, Aggregate):
        return
    if not has_aggregate(expression):
        yield expression
        return
    for child in children(expression):
        yield from _outside(child)
