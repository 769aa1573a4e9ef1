"""Checks expressions and resolves them to plan expressions.

`resolve` reports every problem it finds and returns None where there is no meaning to go on with,
so one mistake gives one message.
"""

from __future__ import annotations

from msgspec.structs import replace

from omnigraph.catalog import INTEGERS, EdgeUnion, Entity, PropertyType, Scalar, scalar_range
from omnigraph.lang.gq_ast import (
    BinaryNode,
    CallNode,
    ExpressionNode,
    LiteralKind,
    LiteralNode,
    NullTestNode,
    PropertyNode,
    SubqueryNode,
    UnaryNode,
    VariableNode,
    WordNode,
)
from omnigraph.lang.gq_expressions import COMPARISONS, is_condition
from omnigraph.lang.gq_scope import EdgeVariable, NodeVariable, PathVariable, Scope
from omnigraph.lang.habits import word_hint
from omnigraph.lang.source import Span, did_you_mean
from omnigraph.plan.expression import (
    FLOAT,
    INT,
    TEXT,
    And,
    Arithmetic,
    ArithmeticOp,
    Compare,
    CompareOp,
    Constant,
    End,
    EndpointOf,
    Expression,
    IdOf,
    IsNull,
    Member,
    Negate,
    Not,
    Or,
    Parameter,
    PropertyOf,
    Substring,
    Vanishing,
)

_LITERAL_SCALARS = {
    LiteralKind.STRING: Scalar.STRING,
    LiteralKind.INTEGER: Scalar.I64,
    LiteralKind.FLOAT: Scalar.F64,
    LiteralKind.BOOL: Scalar.BOOL,
    LiteralKind.DATE: Scalar.DATE,
    LiteralKind.DATETIME: Scalar.DATETIME,
}


class ValueChecker:
    """Resolves expressions over match variables and parameters; calls are added by a subclass."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        # Parameters marked `?` inside the condition being resolved, innermost last; None where
        # a condition is only a value and cannot vanish.
        self._vanishing: list[list[str] | None] = []
        self._is_condition = False

    def resolve(self, node: ExpressionNode) -> Expression | None:
        """Resolve a value or condition."""
        match node:
            case LiteralNode():
                return self.literal(node)
            case VariableNode():
                return self.variable(node)
            case PropertyNode():
                return self.property_value(node)
            case WordNode():
                return self.word(node)
            case CallNode():
                return self.call(node)
            case UnaryNode():
                return self._unary(node)
            case BinaryNode():
                return self._binary(node)
            case NullTestNode():
                return self._null_test(node)
            case SubqueryNode():
                return self.subquery(node)

    def condition(self, node: ExpressionNode) -> Expression | None:
        """Resolve a condition of a pattern, where `$x?` may make it vanish."""
        self._is_condition = True
        condition = self.truth(node)
        self._is_condition = False
        return condition

    def truth(self, node: ExpressionNode) -> Expression | None:
        """Resolve what must be true or false: a condition, or a Bool that stands alone."""
        if is_condition(node):
            return self.resolve(node)
        was_condition = self.enter_condition()
        condition = self.resolve(node)
        if condition is not None and (
            condition.type.is_list or condition.type.scalar is not Scalar.BOOL
        ):
            self.scope.error(
                "T7",
                node.span,
                f"a condition must be Bool, got {condition.type}",
                hint="compare it: = != < <= > >= contains starts_with in, `is null`",
            )
            condition = None
        return self.leave_condition(condition, was_condition=was_condition)

    def word(self, node: WordNode) -> Expression | None:
        """Resolve a bare word; match conditions have none."""
        hint = f'a variable starts with `$`; a string is written "{node.name}"'
        hint = word_hint(node.name) or hint
        if node.name in ("and", "or"):
            hint = f"`{node.name}` joins conditions; clauses follow each other without a word"
        self.scope.error("T00", node.span, f"`{node.name}` has no meaning here", hint=hint)
        return None

    def call(self, node: CallNode) -> Expression | None:
        """Resolve a function call; overridden where functions exist."""
        self.scope.error("T7", node.span, f"`{node.function}` cannot be used here")
        return None

    def subquery(self, node: SubqueryNode) -> Expression | None:
        """Resolve a pattern in an expression; overridden where there are patterns."""
        self.scope.error("T7", node.span, f"`{node.function} {{ ... }}` cannot be used here")
        return None

    # ---- leaves ---------------------------------------------------------------------------

    def literal(self, node: LiteralNode) -> Expression | None:
        """Resolve a literal; lists must hold scalars of one type."""
        if node.kind is LiteralKind.NULL:
            self.scope.error(
                "T7", node.span, "null cannot be used as a value here", hint="use `is null`"
            )
            return None
        problems = [item for item in (node, *node.items) if item.problem is not None]
        for item in problems:
            self.scope.error("T3", item.span, f"not a valid {item.kind}: {item.problem}")
        if problems:
            return None
        if node.kind is not LiteralKind.LIST:
            return Constant(value=node.value, type=PropertyType(scalar=_LITERAL_SCALARS[node.kind]))
        kinds = {item.kind for item in node.items}
        if LiteralKind.LIST in kinds:
            self.scope.error("T00", node.span, "lists cannot be nested")
            return None
        if LiteralKind.NULL in kinds:
            self.scope.error("T00", node.span, "a list literal cannot hold null")
            return None
        if kinds == {LiteralKind.INTEGER, LiteralKind.FLOAT}:
            kinds = {LiteralKind.FLOAT}
        if len(kinds) > 1:
            self.scope.error("T00", node.span, "list items must have one type")
            return None
        scalar = _LITERAL_SCALARS[next(iter(kinds))] if kinds else Scalar.STRING
        return Constant(value=node.value, type=PropertyType(scalar=scalar, is_list=True))

    def variable(self, node: VariableNode) -> Expression | None:
        """Resolve `$x` as a value: a parameter. Nodes and edges are no values in conditions."""
        declared = self.scope.parameters.get(node.name)
        if declared is not None:
            return self._parameter(node, declared)
        if node.vanishing:
            self.scope.error("T26", node.span, f"`${node.name}?` is not a declared parameter")
            return None
        variable = self.scope.lookup(node.name)
        if variable is None:
            if node.name not in self.scope.poisoned:
                self._unbound(node)
        elif isinstance(variable, PathVariable):
            self.scope.error(
                "T23",
                node.span,
                f"path variable `${node.name}` cannot be used alone",
                hint=f"read `length(${node.name})` or `nodes(${node.name})`",
            )
        elif isinstance(variable, EdgeVariable):
            self.scope.error(
                "T23",
                node.span,
                f"edge variable `${node.name}` cannot be used alone",
                hint=f"use one of its properties, or `${node.name}.id`",
            )
        else:
            self.scope.error(
                "T7",
                node.span,
                f"node variable `${node.name}` is not a scalar value",
                hint=f"compare `${node.name}.id`",
            )
        return None

    def _parameter(self, node: VariableNode, declared: PropertyType) -> Expression | None:
        if declared.scalar is Scalar.BLOB:
            self.scope.error("T24", node.span, f"Blob parameter `${node.name}` cannot be read")
            return None
        if node.vanishing:
            names = self._vanishing[-1] if self._vanishing else None
            if names is None:
                self.scope.error(
                    "T26",
                    node.span,
                    f"`${node.name}?` must stand in a condition of `match`",
                    hint="only such a condition can vanish when its parameter is null",
                )
                return None
            if not declared.nullable:
                self.scope.error(
                    "T26",
                    node.span,
                    f"`${node.name}?` never vanishes: the parameter is not nullable",
                    hint=f"declare it as `${node.name}: {declared}?`",
                )
                return None
            names.append(node.name)
        return Parameter(name=node.name, type=declared)

    def _unbound(self, node: VariableNode) -> None:
        self.scope.error(
            "T00",
            node.span,
            f"unbound variable `${node.name}`",
            hint=self.scope.suggest_variable(node.name)
            or "declare it as a parameter, or bind it above",
        )

    def entity(self, node: VariableNode) -> Expression | None:
        """Resolve `$x` where a node or edge may stand for its id; parameters come first."""
        variable = self.scope.lookup(node.name)
        known = isinstance(variable, NodeVariable) and not node.vanishing
        if variable is None or not known or node.name in self.scope.parameters:
            return self.variable(node)
        return IdOf(variable=variable.name, type=TEXT.as_nullable(nullable=variable.optional))

    def property_value(self, node: PropertyNode) -> Expression | None:
        """Resolve `$v.p` to a readable value."""
        value = self.property_ref(node)
        if value is not None and value.type.scalar is Scalar.BLOB:
            self.scope.error(
                "T24",
                node.span,
                f"Blob property `${node.variable}.{node.property}` cannot be read in a query",
                hint="read it with `blob get`",
            )
            return None
        return value

    def property_ref(self, node: PropertyNode) -> PropertyOf | IdOf | EndpointOf | None:
        """Resolve `$v.p` to a place, whatever its type."""
        variable = self.scope.lookup(node.variable)
        if variable is None and node.variable in self.scope.poisoned:
            return None
        if variable is None:
            parameter = node.variable in self.scope.parameters
            self.scope.error(
                "T6",
                node.span,
                f"parameter `${node.variable}` has no properties"
                if parameter
                else f"unbound variable `${node.variable}`",
                hint=None if parameter else self.scope.suggest_variable(node.variable),
            )
            return None
        if isinstance(variable, PathVariable):
            self.scope.error(
                "T6",
                node.span,
                f"path variable `${node.variable}` has no properties",
                hint=f"read `length(${node.variable})` or `nodes(${node.variable})`",
            )
            return None
        edge = isinstance(variable, EdgeVariable)
        owner = variable.edge if isinstance(variable, EdgeVariable) else variable.node
        id_type = TEXT.as_nullable(nullable=variable.optional)
        if node.property == "id":
            return IdOf(variable=variable.name, type=id_type)
        if edge and node.property in ("from", "to"):
            return EndpointOf(variable=variable.name, end=End(node.property), type=id_type)
        declared = owner.properties.get(node.property)
        if declared is None:
            known = [*owner.properties, "id", *(("from", "to") if edge else ())]
            endpoint = {"src": "from", "dst": "to"}.get(node.property) if edge else None
            self.scope.error(
                "T6",
                node.property_span,
                _without_property(owner, node.property),
                hint=f"did you mean `{endpoint}`?"
                if endpoint
                else did_you_mean(node.property, known),
            )
            return None
        property_type = declared.type.as_nullable() if variable.optional else declared.type
        return PropertyOf(variable=variable.name, property=node.property, type=property_type)

    # ---- operators ------------------------------------------------------------------------

    def _unary(self, node: UnaryNode) -> Expression | None:
        if node.op == "not":
            denied = self.truth(node.operand)
            return None if denied is None else Not(operand=denied)
        operand = self.resolve(node.operand)
        if operand is None:
            return None
        if not operand.type.is_numeric:
            self.scope.error("T7", node.span, f"`-` needs a number, got {operand.type}")
            return None
        base = INT if operand.type.is_integer else FLOAT
        return Negate(operand=operand, type=base.as_nullable(nullable=operand.type.nullable))

    def _binary(self, node: BinaryNode) -> Expression | None:
        if node.op in ("and", "or"):
            return self._logical(node)
        if node.op in COMPARISONS or node.op in ("contains", "starts_with", "in"):
            return self._vanishable(node)
        left, right = self.resolve(node.left), self.resolve(node.right)
        if left is None or right is None:
            return None
        for side, operand in ((node.left, left), (node.right, right)):
            if not operand.type.is_numeric:
                self.scope.error("T7", side.span, f"`{node.op}` needs numbers, got {operand.type}")
                return None
        op = ArithmeticOp(node.op)
        exact = left.type.is_integer and right.type.is_integer and op is not ArithmeticOp.DIV
        nullable = (
            left.type.nullable or right.type.nullable or op in (ArithmeticOp.DIV, ArithmeticOp.MOD)
        )
        base = INT if exact else FLOAT
        return Arithmetic(op=op, left=left, right=right, type=base.as_nullable(nullable=nullable))

    def _logical(self, node: BinaryNode) -> Expression | None:
        # A chain of one operator becomes one flat operand list; the loop keeps deep chains cheap.
        parts: list[ExpressionNode] = []
        pending: ExpressionNode = node
        while isinstance(pending, BinaryNode) and pending.op == node.op:
            parts.append(pending.right)
            pending = pending.left
        parts.append(pending)
        resolved = [self.truth(part) for part in reversed(parts)]
        operands = tuple(item for item in resolved if item is not None)
        if len(operands) < len(parts):
            return None
        return And(operands=operands) if node.op == "and" else Or(operands=operands)

    def _vanishable(self, node: BinaryNode) -> Expression | None:
        was_condition = self.enter_condition()
        if node.op in COMPARISONS:
            condition = self._compare(node)
        elif node.op == "in":
            condition = self._member(node, item=node.left, container=node.right)
        else:
            condition = self._contains(node)
        return self.leave_condition(condition, was_condition=was_condition)

    def enter_condition(self, *, braces: bool = False) -> bool:
        """Start resolving the operands of a condition; they are values, not conditions.

        Returns whether the condition itself stands where it may vanish (braces always do).
        """
        was_condition = self._is_condition or braces
        self._vanishing.append([] if was_condition else None)
        self._is_condition = False
        return was_condition

    def leave_condition(
        self, condition: Expression | None, *, was_condition: bool
    ) -> Expression | None:
        """Finish a condition: wrap it if some `$x?` in it may make it vanish."""
        names = self._vanishing.pop()
        self._is_condition = was_condition
        if condition is None or not names:
            return condition
        return Vanishing(condition=condition, parameters=tuple(sorted(set(names))))

    def _operands(self, node: BinaryNode) -> tuple[Expression, Expression] | None:
        nulls = [
            side
            for side in (node.left, node.right)
            if isinstance(side, LiteralNode) and side.kind is LiteralKind.NULL
        ]
        if nulls:
            word = "is not null" if node.op == "!=" else "is null"
            self.scope.error(
                "T7",
                nulls[0].span,
                f"`{node.op} null` matches nothing",
                hint=f"write `{word}`",
            )
            return None
        left, right = self._operand(node.left), self._operand(node.right)
        return None if left is None or right is None else (left, right)

    def _operand(self, node: ExpressionNode) -> Expression | None:
        """Resolve one side of a comparison; a Blob is refused there as any other non-scalar."""
        if isinstance(node, VariableNode):
            declared = self.scope.parameters.get(node.name)
            if declared is not None and declared.scalar is Scalar.BLOB:
                self.scope.error("T7", node.span, f"Blob parameter `${node.name}` has no order")
                return None
        return self.property_ref(node) if isinstance(node, PropertyNode) else self.resolve(node)

    def _compare(self, node: BinaryNode) -> Expression | None:
        sides = self._operands(node)
        if sides is None:
            return None
        left, right = sides
        for side, operand in ((node.left, left), (node.right, right)):
            if not operand.type.is_scalar:
                self.scope.error(
                    "T7",
                    side.span,
                    f"`{node.op}` compares scalars, got {operand.type}",
                    hint="test a list with `contains`" if operand.type.is_list else None,
                )
                return None
        if not left.type.compatible_with(right.type):
            self.scope.error(
                "T7",
                node.span,
                f"cannot compare {left.type} with {right.type}",
                hint=_temporal_hint(left, right),
            )
            return None
        if node.op in ("=", "!="):
            self._check_enum(left.type, right, node.right.span)
            self._check_enum(right.type, left, node.left.span)
        return Compare(op=CompareOp(node.op), left=left, right=right)

    def _check_enum(self, declared: PropertyType, value: Expression, span: Span) -> None:
        """Report a literal that an enum can never hold."""
        if not declared.enum_values or not isinstance(value, Constant):
            return
        values = value.value if isinstance(value.value, tuple) else (value.value,)
        for item in values:
            if item not in declared.enum_values:
                self.scope.error(
                    "T3",
                    span,
                    f"{item!r} is not a value of {declared.as_nullable(nullable=False)}",
                    hint=did_you_mean(str(item), declared.enum_values),
                )

    def _contains(self, node: BinaryNode) -> Expression | None:
        sides = self._operands(node)
        if sides is None:
            return None
        left, right = sides
        if left.type.is_list and node.op == "contains":
            return self._membership(node, item=right, container=left, item_span=node.right.span)
        for side, operand in ((node.left, left), (node.right, right)):
            if not operand.type.is_text:
                wanted = "a String or a list" if side is node.left else "a String"
                if node.op == "starts_with":
                    wanted = "a String"
                self.scope.error("T7", side.span, f"`{node.op}` needs {wanted}, got {operand.type}")
                return None
        return Substring(text=left, part=right, prefix=node.op == "starts_with")

    def _member(
        self, node: BinaryNode, *, item: ExpressionNode, container: ExpressionNode
    ) -> Expression | None:
        sides = self._operands(node)
        if sides is None:
            return None
        if not sides[1].type.is_list:
            self.scope.error(
                "T7",
                container.span,
                f"`in` needs a list, got {sides[1].type}",
                hint="a list literal is written [a, b]; a list parameter `$xs: [String]`",
            )
            return None
        return self._membership(node, item=sides[0], container=sides[1], item_span=item.span)

    def _membership(
        self, node: BinaryNode, *, item: Expression, container: Expression, item_span: Span
    ) -> Expression | None:
        if isinstance(container, Constant) and container.value == ():
            container = replace(container, type=replace(item.type, is_list=True, nullable=False))
        if not item.type.is_scalar or not item.type.compatible_with(container.type.element):
            self.scope.error(
                "T7",
                node.span,
                f"a list of {container.type.element} cannot hold {item.type}",
                hint=_temporal_hint(item, container),
            )
            return None
        self._check_enum(item.type, container, node.right.span)
        self._check_enum(container.type.element, item, item_span)
        return Member(item=item, container=container)

    def _null_test(self, node: NullTestNode) -> Expression | None:
        operand: Expression | None
        if isinstance(node.operand, VariableNode):
            operand = self.entity(node.operand)
        elif isinstance(node.operand, PropertyNode):
            operand = self.property_ref(node.operand)
        else:
            operand = self.resolve(node.operand)
        return None if operand is None else IsNull(operand=operand, negated=node.negated)


def _without_property(owner: Entity, name: str) -> str:
    """Say that a type has no such property; of several types, which one has not."""
    if not isinstance(owner, EdgeUnion):
        return f"{owner.kind} type {owner.name} has no property `{name}`"
    lacking = [edge.name for edge in owner.members if name not in edge.properties]
    if lacking:
        return f"edge type {lacking[0]} has no property `{name}`, and the edge may be one of it"
    return f"`{name}` has different types in {', '.join(edge.name for edge in owner.members)}"


def _temporal_hint(left: Expression, right: Expression) -> str | None:
    scalars = {left.type.scalar, right.type.scalar}
    if Scalar.STRING in scalars and Scalar.DATE in scalars:
        return 'write a date as date("2025-03-01")'
    if Scalar.STRING in scalars and Scalar.DATETIME in scalars:
        return 'write an instant as datetime("2025-03-01T10:00:00Z")'
    return None


def literal_fits(value: object, declared: PropertyType) -> str | None:
    """Return why a number literal cannot be stored in a numeric property, or None if it can."""
    if declared.scalar in INTEGERS and not isinstance(value, bool):
        low, high = scalar_range(declared.scalar)
        if isinstance(value, float):
            return f"{value} is not an integer"
        if isinstance(value, int) and not low <= value <= high:
            return f"{value} is outside the range of {declared.scalar}"
    return None
