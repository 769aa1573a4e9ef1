"""Checks the clauses of a `match` block in the order they are written.

Text order decides what names are known and which way an edge is read; it does not decide the
result. The outcome is a list of resolved clauses that lowering puts into an order to run.
"""

from __future__ import annotations

from omnigraph.catalog import PropertyType, Scalar
from omnigraph.lang.gq_ast import (
    BindingNode,
    BlockNode,
    ClauseNode,
    FilterNode,
    LiteralKind,
    LiteralNode,
    MatchNode,
    TraversalNode,
)
from omnigraph.lang.gq_clauses import (
    ANONYMOUS,
    Binding,
    Block,
    Clause,
    Condition,
    ReadTypes,
    direct_variables,
    introduced_names,
    used_variables,
)
from omnigraph.lang.gq_functions import ExpressionChecker
from omnigraph.lang.gq_scope import EdgeVariable, NodeVariable, Scope
from omnigraph.lang.gq_traversals import optional_misuse, resolve_traversal
from omnigraph.lang.source import did_you_mean
from omnigraph.plan.expression import (
    Compare,
    CompareOp,
    Expression,
    IdOf,
    IsNull,
    Member,
    PropertyOf,
)


class PatternChecker:
    """Checks the clauses of one block and of the blocks inside it."""

    def __init__(self, scope: Scope, reads: ReadTypes) -> None:
        self._scope = scope
        self._reads = reads
        self._values = ExpressionChecker(scope, patterns=self.inner)

    def check(self, clauses: tuple[ClauseNode, ...]) -> tuple[Clause, ...]:
        """Resolve clauses; what has an error is left out of the result."""
        resolved: list[Clause] = []
        for node in clauses:
            match node:
                case BindingNode():
                    resolved += self._binding(node)
                case TraversalNode():
                    resolved += self._traversal(node)
                case FilterNode():
                    condition = self._values.condition(node.condition)
                    if condition is not None:
                        resolved.append(Condition(expression=condition))
                case BlockNode():
                    resolved += self._block(node)
            resolved += self._values.take_subqueries()
        return tuple(resolved)

    def inner(self, scope: Scope, clauses: tuple[ClauseNode, ...]) -> tuple[Clause, ...]:
        """Resolve the clauses of a pattern inside this one."""
        return PatternChecker(scope, self._reads).check(clauses)

    # ---- bindings -------------------------------------------------------------------------

    def _binding(self, node: BindingNode) -> list[Clause]:
        scope = self._scope
        declared = scope.catalog.nodes.get(node.type_name)
        if declared is None:
            interface = node.type_name in scope.catalog.interfaces
            scope.error(
                "T1",
                node.type_span,
                f"unknown node type `{node.type_name}`",
                hint="an interface cannot be queried; name a node type"
                if interface
                else did_you_mean(node.type_name, scope.catalog.nodes),
            )
            scope.poison(node.variable)
            return []
        self._reads.nodes.add(declared.name)
        variable = scope.fresh() if node.variable == ANONYMOUS else node.variable
        known = scope.lookup(variable)
        if known is not None and not isinstance(known, NodeVariable):
            kind = "an edge" if isinstance(known, EdgeVariable) else "a path"
            scope.error("T23", node.variable_span, f"`${variable}` is {kind} variable, not a node")
            return []
        if known is not None and known.node.name != declared.name:
            scope.error(
                "T00",
                node.variable_span,
                f"variable `${variable}` is already bound to {known.node.name}",
            )
            return []
        if known is not None and known.optional and not scope.is_outer(variable):
            optional_misuse(scope, variable, node.variable_span)
            return []
        name = known.name if known is not None else scope.bind_node(variable, declared)
        clauses: list[Clause] = [Binding(variable=name, type_name=declared.name)]
        if known is not None and known.optional:
            # Null is a node of no type.
            clauses.append(Condition(expression=IsNull(operand=IdOf(variable=name), negated=True)))
        for item in node.matches:
            condition = self._match(item, name, node.type_name)
            if condition is not None:
                clauses.append(Condition(expression=condition))
        return clauses

    def _match(self, item: MatchNode, variable: str, type_name: str) -> Expression | None:
        node_type = self._scope.catalog.nodes[type_name]
        left: PropertyOf | IdOf
        if item.property == "id":
            left = IdOf(variable=variable)
        elif (declared := node_type.properties.get(item.property)) is None:
            self._scope.error(
                "T2",
                item.property_span,
                f"node type {type_name} has no property `{item.property}`",
                hint=did_you_mean(item.property, [*node_type.properties, "id"]),
            )
            return None
        else:
            left = PropertyOf(variable=variable, property=item.property, type=declared.type)
        place = f"{type_name}.{item.property}"
        if left.type.scalar in (Scalar.BLOB, Scalar.VECTOR):
            self._scope.error(
                "T3", item.property_span, f"{left.type} property {place} cannot be matched"
            )
            return None
        if isinstance(item.value, LiteralNode):
            right = self._match_literal(item.value, left.type, place)
            return None if right is None else _equality(left, right)
        was_condition = self._values.enter_condition(braces=True)
        value = self._values.resolve(item.value)
        condition: Expression | None = None
        if value is not None and self._matches_type(value, left.type, item, place):
            condition = _equality(left, value)
        return self._values.leave_condition(condition, was_condition=was_condition)

    def _matches_type(
        self, value: Expression, declared: PropertyType, item: MatchNode, place: str
    ) -> bool:
        wanted = declared.element if declared.is_list else declared
        if value.type.is_scalar and wanted.compatible_with(value.type):
            return True
        self._scope.error(
            "T7",
            item.value.span,
            f"{place} is {declared}, which cannot equal {value.type}",
            hint="for a list property name one element" if declared.is_list else None,
        )
        return False

    def _match_literal(
        self, node: LiteralNode, declared: PropertyType, place: str
    ) -> Expression | None:
        wanted = declared.element if declared.is_list else declared
        problem: str | None = None
        hint: str | None = None
        if node.kind is LiteralKind.NULL:
            problem = f"{place} cannot be matched with null"
            hint = f"write `$v.{place.rpartition('.')[2]} is null` as a clause"
        elif node.kind is LiteralKind.LIST:
            problem = f"{place} cannot be matched with a list"
            hint = "name one element: it matches lists that hold it" if declared.is_list else None
        if problem is not None:
            self._scope.error("T3", node.span, problem, hint=hint)
            return None
        value = self._values.literal(node)
        if value is None:
            return None
        if not wanted.compatible_with(value.type):
            hint = None
            if wanted.scalar in (Scalar.DATE, Scalar.DATETIME) and value.type.is_text:
                hint = f'write {str(wanted.scalar).lower()}("...")'
            message = f"{place} is {declared}, not {value.type}"
            self._scope.error("T3", node.span, message, hint=hint)
            return None
        if wanted.enum_values and node.value not in wanted.enum_values:
            self._scope.error(
                "T3",
                node.span,
                f"{node.value!r} is not a value of {place}: {', '.join(wanted.enum_values)}",
                hint=did_you_mean(str(node.value), wanted.enum_values),
            )
            return None
        return value

    def _traversal(self, node: TraversalNode) -> list[Clause]:
        traversal = resolve_traversal(node, self._scope, self._reads)
        if traversal is None:
            names = [node.left, node.right, node.edge_variable or ANONYMOUS]
            self._scope.poison(*(name for name in names if name != ANONYMOUS))
            return []
        return [traversal]

    # ---- blocks ---------------------------------------------------------------------------

    def _block(self, node: BlockNode) -> list[Clause]:
        inner = self._scope.child()
        inner.own_names = introduced_names(node.clauses)
        inner.is_optional = node.optional
        before = len(self._scope.diagnostics.items)
        clauses = self.inner(inner, node.clauses)
        visible = inner.outer_names()
        outer = tuple(sorted(used_variables(clauses) & visible))
        failed = len(self._scope.diagnostics.items) > before
        if not direct_variables(clauses) & visible and not failed:
            word = "optional" if node.optional else "not"
            self._scope.error(
                "T25" if node.optional else "T9",
                node.span,
                f"the `{word}` block uses no variable of the enclosing pattern",
                hint="connect it by a traversal or a condition",
            )
            return []
        variables = self._scope.adopt_optional(inner) if node.optional else ()
        return [Block(optional=node.optional, outer=outer, variables=variables, clauses=clauses)]


def _equality(left: PropertyOf | IdOf, right: Expression) -> Expression:
    if left.type.is_list:
        return Member(item=right, container=left)
    return Compare(op=CompareOp.EQ, left=left, right=right)
