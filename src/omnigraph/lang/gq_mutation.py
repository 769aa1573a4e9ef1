"""Checks a mutation and builds its plan."""

from __future__ import annotations

from omnigraph.catalog import Catalog, EdgeType, Entity, NodeType, PropertyType, Scalar
from omnigraph.lang.gq_ast import (
    AssignmentNode,
    CallNode,
    ExpressionNode,
    LiteralKind,
    LiteralNode,
    QueryNode,
    StatementNode,
    VariableNode,
    WordNode,
)
from omnigraph.lang.gq_scope import Scope
from omnigraph.lang.gq_values import ValueChecker, literal_fits
from omnigraph.lang.source import Diagnostics, Span, did_you_mean
from omnigraph.plan.expression import (
    ROW,
    TEXT,
    Constant,
    End,
    EndpointOf,
    Expression,
    IdOf,
    Now,
    Parameter,
    PropertyOf,
)
from omnigraph.plan.mutation import (
    Assignment,
    Delete,
    InsertEdge,
    InsertNode,
    MutationPlan,
    Statement,
    Update,
    UpsertEdge,
    UpsertNode,
)


class _InputChecker(ValueChecker):
    """Resolves the values of a mutation: literals, parameters, `now()` and arithmetic on them."""

    def variable(self, node: VariableNode) -> Expression | None:
        if node.name not in self.scope.parameters:
            self.scope.error(
                "T14",
                node.span,
                f"`${node.name}` is not a declared parameter",
                hint=self.scope.suggest_variable(node.name),
            )
            return None
        return super().variable(node)

    def call(self, node: CallNode) -> Expression | None:
        return Now() if node.function == "now" else super().call(node)


class _RowChecker(_InputChecker):
    """Resolves what an update or delete reads of a row: a bare word is one of its properties."""

    def __init__(self, scope: Scope, owner: Entity) -> None:
        super().__init__(scope)
        self._owner = owner

    def word(self, node: WordNode) -> Expression | None:
        owner = self._owner
        if node.name == "id":
            return IdOf(variable=ROW)
        if isinstance(owner, EdgeType) and node.name in ("from", "to"):
            return EndpointOf(variable=ROW, end=End(node.name))
        declared = owner.properties.get(node.name)
        if declared is None:
            known = [*owner.properties, "id"]
            if isinstance(owner, EdgeType):
                known += ["from", "to"]
            self.scope.error(
                "T11",
                node.span,
                f"{owner.kind} type {owner.name} has no property `{node.name}`",
                hint=did_you_mean(node.name, known),
            )
            return None
        if declared.type.scalar is Scalar.BLOB:
            self.scope.error("T11", node.span, f"Blob property `{node.name}` cannot be read here")
            return None
        return PropertyOf(variable=ROW, property=node.name, type=declared.type)


class _PredicateChecker(_RowChecker):
    """Resolves the `where` of a mutation."""

    def literal(self, node: LiteralNode) -> Expression | None:
        """Refuse `true` and `false` where they could mean a property: the row or every row."""
        for item in (node, *node.items):
            word = str(item.value).lower() if item.kind is LiteralKind.BOOL else ""
            if word in self._owner.properties:
                self.scope.error(
                    "T11",
                    item.span,
                    f"`{word}` may mean the literal or the property of {self._owner.name}",
                    hint="use a parameter, or give the property another name with @rename_from",
                )
                return None
        return super().literal(node)


def check_mutation(
    query: QueryNode,
    catalog: Catalog,
    parameters: dict[str, PropertyType],
    diagnostics: Diagnostics,
) -> MutationPlan | None:
    """Check a mutation; None when an error was reported."""
    before = len(diagnostics.errors)
    checker = _MutationChecker(
        Scope(catalog=catalog, parameters=parameters, diagnostics=diagnostics)
    )
    statements = [checker.statement(item) for item in query.statements]
    if len(diagnostics.errors) > before:
        return None
    deletes = [s for s in query.statements if s.verb == "delete"]
    if deletes and len(deletes) < len(query.statements):
        diagnostics.error(
            "D2",
            query.name_span,
            f"mutation '{query.name}' on the same query mixes inserts/updates and deletes; "
            "split into separate mutations",
        )
        return None
    return MutationPlan(
        name=query.name,
        parameters=tuple(Parameter(name=n, type=t) for n, t in parameters.items()),
        statements=tuple(s for s in statements if s is not None),
        reads_nodes=tuple(sorted(checker.reads_nodes)),
        reads_edges=tuple(sorted(checker.reads_edges)),
        writes_nodes=tuple(sorted(checker.writes_nodes)),
        writes_edges=tuple(sorted(checker.writes_edges)),
    )


class _MutationChecker:
    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._inputs = _InputChecker(scope)
        self.reads_nodes: set[str] = set()
        self.reads_edges: set[str] = set()
        self.writes_nodes: set[str] = set()
        self.writes_edges: set[str] = set()

    def statement(self, node: StatementNode) -> Statement | None:
        """Check one statement."""
        owner = self._owner(node)
        if owner is None:
            return None
        self._note_types(owner, node.verb)
        if node.verb == "delete":
            predicate = self._predicate(node, owner)
            if predicate is None:
                return None
            is_edge = isinstance(owner, EdgeType)
            return Delete(type_name=owner.name, is_edge=is_edge, predicate=predicate)
        values = self._assignments(node, owner)
        if node.verb == "update":
            return self._update(node, owner, values)
        if isinstance(owner, EdgeType):
            return self._put_edge(node, owner, values)
        return self._put_node(node, owner, values)

    def _owner(self, node: StatementNode) -> Entity | None:
        catalog = self._scope.catalog
        owner = catalog.find_entity(node.type_name)
        if owner is None:
            self._scope.error(
                "T10",
                node.type_span,
                f"unknown type `{node.type_name}`",
                hint="an interface has no rows of its own"
                if node.type_name in catalog.interfaces
                else did_you_mean(node.type_name, [*catalog.nodes, *catalog.edges]),
            )
        return owner

    def _note_types(self, owner: Entity, verb: str) -> None:
        if isinstance(owner, EdgeType):
            self.reads_edges.add(owner.name)
            self.writes_edges.add(owner.name)
            if verb in ("insert", "upsert"):
                self.reads_nodes |= {owner.source, owner.target}
            return
        self.reads_nodes.add(owner.name)
        self.writes_nodes.add(owner.name)
        if verb == "delete":
            incident = {edge.name for edge in self._scope.catalog.incident_edges(owner.name)}
            self.reads_edges |= incident
            self.writes_edges |= incident

    def _predicate(self, node: StatementNode, owner: Entity) -> Expression | None:
        if node.predicate is None:
            return None
        # Not as a pattern condition: one that vanished would select every row.
        return _PredicateChecker(self._scope, owner).truth(node.predicate)

    # ---- values ---------------------------------------------------------------------------

    def _assignments(
        self, node: StatementNode, owner: Entity
    ) -> dict[str, tuple[AssignmentNode, Expression | None]]:
        assignments: dict[str, tuple[AssignmentNode, Expression | None]] = {}
        for item in node.assignments:
            if item.property in assignments:
                self._scope.error("T13", item.property_span, f"`{item.property}` is assigned twice")
                continue
            declared = self._assignable(item, owner, node.verb)
            if declared is None:
                assignments[item.property] = (item, None)
                continue
            place = f"{owner.name}.{item.property}"
            # Only an update has a row to read.
            values = _RowChecker(self._scope, owner) if node.verb == "update" else self._inputs
            assignments[item.property] = (item, self._value(values, item.value, declared, place))
        return assignments

    def _assignable(self, item: AssignmentNode, owner: Entity, verb: str) -> PropertyType | None:
        name, span = item.property, item.property_span
        implicit = ("id", "from", "to") if isinstance(owner, EdgeType) else ("id",)
        if name in implicit:
            if verb == "update":
                self._refuse(span, f"`{name}` of {owner.name} cannot be changed")
                return None
            if name == "id" and isinstance(owner, NodeType) and owner.key:
                self._refuse(span, f"the id of {owner.name} is its key: {', '.join(owner.key)}")
                return None
            return TEXT
        declared = owner.properties.get(name)
        if declared is None:
            self._scope.error(
                "T11",
                span,
                f"{owner.kind} type {owner.name} has no property `{name}`",
                hint=did_you_mean(name, [*owner.properties, *implicit]),
            )
            return None
        if verb == "update" and isinstance(owner, NodeType) and name in owner.key:
            self._refuse(
                span,
                f"cannot update @key property '{name}'",
                hint="delete and re-insert the node instead",
            )
            return None
        return declared.type

    def _refuse(self, span: Span, message: str, *, hint: str | None = None) -> None:
        self._scope.error("T16", span, message, hint=hint)

    def _value(
        self, values: _InputChecker, node: ExpressionNode, declared: PropertyType, place: str
    ) -> Expression | None:
        if isinstance(node, LiteralNode) and node.kind is LiteralKind.NULL:
            if not declared.nullable:
                self._scope.error("T3", node.span, f"{place} is required and cannot be null")
                return None
            return Constant(value=None, type=declared)
        if isinstance(node, VariableNode) and declared.scalar is Scalar.BLOB:
            return self._blob_parameter(node, declared, place)
        value = values.resolve(node)
        if value is None:
            return None
        if isinstance(value, Constant):
            return self._constant(value, node, declared, place)
        text_blob = declared.scalar is Scalar.BLOB and value.type.is_text
        if not text_blob and not declared.compatible_with(value.type):
            self._scope.error(
                "T7", node.span, f"{place} is {declared}, which cannot hold {value.type}"
            )
            return None
        return value

    def _blob_parameter(
        self, node: VariableNode, declared: PropertyType, place: str
    ) -> Expression | None:
        parameter_type = self._scope.parameters.get(node.name)
        if (
            parameter_type is not None
            and parameter_type.scalar is Scalar.BLOB
            and not parameter_type.is_list
        ):
            return Parameter(name=node.name, type=parameter_type)
        value = self._inputs.resolve(node)
        if value is not None and not value.type.is_text:
            self._scope.error(
                "T7", node.span, f"{place} is {declared}, which cannot hold {value.type}"
            )
            return None
        return value

    def _constant(
        self, value: Constant, node: ExpressionNode, declared: PropertyType, place: str
    ) -> Expression | None:
        items = value.value if isinstance(value.value, tuple) else (value.value,)
        problem: str | None = None
        hint: str | None = None
        if declared.scalar is Scalar.VECTOR and value.type.is_list:
            if items and not value.type.element.is_numeric:
                problem = f"{place} holds numbers, not {value.type.element}"
            elif len(items) != declared.vector_dim:
                problem = f"expected {declared.vector_dim} values for {declared}, got {len(items)}"
        elif _takes_anything(declared, value.type, items):
            pass
        elif not declared.compatible_with(value.type):
            problem = f"{place} is {declared}, not {value.type}"
            if value.type.is_text and declared.scalar in (Scalar.DATE, Scalar.DATETIME):
                hint = f'write {str(declared.scalar).lower()}("...")'
        elif declared.enum_values and (bad := _not_in(items, declared.enum_values)):
            problem = f"{bad[0]!r} is not a value of {place}: {', '.join(declared.enum_values)}"
            hint = did_you_mean(str(bad[0]), declared.enum_values)
        else:
            reasons = (literal_fits(item, declared) for item in items)
            problem = next((f"{place}: {reason}" for reason in reasons if reason), None)
        if problem is not None:
            self._scope.error("T3", node.span, problem, hint=hint)
            return None
        return Constant(value=value.value, type=declared.as_nullable(nullable=False))

    # ---- statements -----------------------------------------------------------------------

    def _update(
        self,
        node: StatementNode,
        owner: Entity,
        values: dict[str, tuple[AssignmentNode, Expression | None]],
    ) -> Statement | None:
        predicate = self._predicate(node, owner)
        if predicate is None:
            return None
        return Update(
            type_name=owner.name,
            is_edge=isinstance(owner, EdgeType),
            assignments=_resolved(values),
            predicate=predicate,
        )

    def _put_node(
        self,
        node: StatementNode,
        owner: NodeType,
        values: dict[str, tuple[AssignmentNode, Expression | None]],
    ) -> Statement | None:
        missing = _missing_required(owner, values)
        assignments = _resolved(values)
        if node.verb == "insert":
            if missing:
                self._report_missing(node, owner, missing)
            return InsertNode(
                type_name=owner.name, assignments=assignments, must_be_new=node.must_be_new
            )
        identity = owner.key or ("id",)
        absent = [name for name in identity if name not in values]
        if absent:
            self._report_missing(node, owner, tuple(absent))
        return UpsertNode(type_name=owner.name, assignments=assignments, missing_required=missing)

    def _put_edge(
        self,
        node: StatementNode,
        owner: EdgeType,
        values: dict[str, tuple[AssignmentNode, Expression | None]],
    ) -> Statement | None:
        missing = _missing_required(owner, values)
        absent = tuple(name for name in ("from", "to") if name not in values)
        if node.verb == "upsert" and not owner.unique_pair and "id" not in values:
            self._scope.error(
                "T12",
                node.span,
                f"`upsert {owner.name}` cannot tell which edge it means",
                hint="assign `id`, or declare `@unique(src, dst)` on the edge type",
            )
        if absent or (node.verb == "insert" and missing):
            shown = absent + (missing if node.verb == "insert" else ())
            self._report_missing(node, owner, shown)
        source, target = values.pop("from", (None, None))[1], values.pop("to", (None, None))[1]
        if source is None or target is None:
            return None
        assignments = _resolved(values)
        if node.verb == "insert":
            return InsertEdge(
                type_name=owner.name, source=source, target=target, assignments=assignments
            )
        return UpsertEdge(
            type_name=owner.name,
            source=source,
            target=target,
            assignments=assignments,
            missing_required=missing,
        )

    def _report_missing(self, node: StatementNode, owner: Entity, names: tuple[str, ...]) -> None:
        listed = ", ".join(f"`{name}`" for name in names)
        self._scope.error(
            "T12", node.type_span, f"{node.verb} of {owner.name} does not assign {listed}"
        )


def _missing_required(owner: Entity, assigned: object) -> tuple[str, ...]:
    names = assigned if isinstance(assigned, dict) else {}
    missing: list[str] = []
    for name, declared in owner.properties.items():
        embedded = declared.embedding is not None and declared.embedding.source in names
        if declared.required and not declared.has_default and name not in names and not embedded:
            missing.append(name)
    return tuple(missing)


def _resolved(
    values: dict[str, tuple[AssignmentNode, Expression | None]],
) -> tuple[Assignment, ...]:
    return tuple(
        Assignment(property=name, value=value)
        for name, (_node, value) in values.items()
        if value is not None
    )


def _not_in(items: tuple[object, ...], allowed: tuple[str, ...]) -> list[object]:
    return [item for item in items if item not in allowed]


def _takes_anything(declared: PropertyType, given: PropertyType, items: tuple[object, ...]) -> bool:
    """Whether a literal needs no type check: text for a Blob, an empty list for a list."""
    text_blob = declared.scalar is Scalar.BLOB and given.is_text
    return text_blob or (items == () and declared.is_list)
