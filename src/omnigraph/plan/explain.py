"""Plans as text, for people and for golden tests. One step per line, nested patterns indented."""

from __future__ import annotations

import datetime
import json

from omnigraph.catalog.languages import ENGLISH
from omnigraph.catalog.model import LiteralValue
from omnigraph.plan.expression import (
    ROW,
    Aggregate,
    And,
    Arithmetic,
    Bm25,
    ColumnOf,
    Compare,
    Constant,
    EndpointOf,
    Expression,
    IdOf,
    IsNull,
    Member,
    Metric,
    Nearest,
    Negate,
    Not,
    Now,
    ObjectOf,
    Or,
    Parameter,
    PathOf,
    PropertyOf,
    Rrf,
    SubqueryValue,
    Substring,
    TextMatch,
    TypeOf,
    Vanishing,
    variables_of,
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
from omnigraph.plan.read import (
    AntiJoin,
    Apply,
    Direction,
    Expand,
    ExpandInto,
    Filter,
    Join,
    NodeScan,
    OptionalJoin,
    ReadPlan,
    Step,
)


def explain(plan: ReadPlan | MutationPlan) -> str:
    """Return a plan as indented text."""
    return "\n".join(_read(plan) if isinstance(plan, ReadPlan) else _mutation(plan))


def _signature(name: str, parameters: tuple[Parameter, ...]) -> str:
    return f"{name}({', '.join(f'${item.name}: {item.type}' for item in parameters)})"


def _read(plan: ReadPlan) -> list[str]:
    rows = [f"read {_signature(plan.name, plan.parameters)}"]
    rows += _steps(plan.steps, 1)
    shown = ", ".join(
        f"{expression_text(column.expression)} as {column.name}: {column.type}"
        + (" (hidden)" if column.hidden else "")
        for column in plan.columns
    )
    verb = "group" if plan.grouped else "distinct" if plan.distinct else "project"
    rows.append(f"  {verb} {shown}")
    if plan.grouped and plan.distinct:
        rows.append("  distinct")
    if plan.ranking is not None:
        rows.append(f"  rank {expression_text(plan.ranking)}")
    if plan.sort_keys:
        keys = ", ".join(
            f"{expression_text(key.expression)} {'desc' if key.descending else 'asc'}"
            for key in plan.sort_keys
        )
        rows.append(f"  sort {keys}")
    if plan.offset is not None:
        rows.append(f"  offset {expression_text(plan.offset)}")
    if plan.limit is not None:
        rows.append(f"  limit {expression_text(plan.limit)}")
    return rows


def _steps(steps: tuple[Step, ...], depth: int) -> list[str]:
    pad = "  " * depth
    rows: list[str] = []
    for step in steps:
        rows.append(pad + _step(step))
        if isinstance(step, AntiJoin | OptionalJoin | Join | Apply):
            rows += _steps(step.steps, depth + 1)
    return rows


def step_text(step: Step) -> str:
    """Return one step of a pattern as a line."""
    return _step(step)


def _where(label: str, condition: Expression | None) -> str:
    return "" if condition is None else f" {label} {expression_text(condition)}"


def _arrow(step: Expand | ExpandInto) -> str:
    edges = "|".join(step.edges)
    variable = step.edge_variable or step.path_variable
    name = edges if variable is None else f"${variable}:{edges}"
    single = (step.min_hops, step.max_hops) == (1, 1)
    hops = "" if single else f"{{{step.min_hops},{step.max_hops}}}"
    left = "<-" if step.direction is Direction.IN else "-"
    right = "->" if step.direction is Direction.OUT else "-"
    return f"${step.source} {left}{name}{hops}{right} ${step.target}"


def _step(step: Step) -> str:
    match step:
        case NodeScan():
            return f"scan ${step.variable}: {step.type_name}{_where('where', step.condition)}"
        case Expand():
            return (
                f"expand {_arrow(step)}: {step.target_type}"
                + _where("edge where", step.edge_condition)
                + _where("where", step.target_condition)
            )
        case ExpandInto():
            return f"expand into {_arrow(step)}{_where('edge where', step.edge_condition)}"
        case Filter():
            return f"filter {expression_text(step.condition)}"
        case AntiJoin():
            return f"not exists ({_variables(step.outer)})"
        case OptionalJoin():
            added = f" adds {_variables(step.variables)}" if step.variables else ""
            return f"optional ({_variables(step.outer)}){added}"
        case Join():
            return f"join{_where('on', step.condition)}" if step.condition else "join every row"
        case Apply():
            value = "exists" if step.aggregate is None else expression_text(step.aggregate)
            return f"apply ({_variables(step.outer)}) as {step.variable}: {value}"


def _variables(names: tuple[str, ...]) -> str:
    return ", ".join(f"${name}" for name in names)


def _mutation(plan: MutationPlan) -> list[str]:
    rows = [f"mutation {_signature(plan.name, plan.parameters)}"]
    return rows + [f"  {_statement(item)}" for item in plan.statements]


def _assignments(items: tuple[Assignment, ...]) -> str:
    return ", ".join(f"{item.property}: {expression_text(item.value)}" for item in items)


def _statement(item: Statement) -> str:
    match item:
        case InsertNode():
            kind = "new node" if item.must_be_new else "node"
            return f"insert {kind} {item.type_name} {{{_assignments(item.assignments)}}}"
        case UpsertNode():
            text = f"upsert node {item.type_name} {{{_assignments(item.assignments)}}}"
            return text + _missing(item.missing_required)
        case InsertEdge() | UpsertEdge():
            verb = "insert" if isinstance(item, InsertEdge) else "upsert"
            ends = f"{expression_text(item.source)} -> {expression_text(item.target)}"
            text = f"{verb} edge {item.type_name} {ends} {{{_assignments(item.assignments)}}}"
            return text + (_missing(item.missing_required) if isinstance(item, UpsertEdge) else "")
        case Update():
            kind = "edge" if item.is_edge else "node"
            return (
                f"update {kind} {item.type_name} set {{{_assignments(item.assignments)}}} "
                f"where {expression_text(item.predicate)}"
            )
        case Delete():
            kind = "edge" if item.is_edge else "node"
            return f"delete {kind} {item.type_name} where {expression_text(item.predicate)}"


def _missing(names: tuple[str, ...]) -> str:
    return f" (adding needs {', '.join(names)})" if names else ""


def literal_text(value: LiteralValue) -> str:
    """Return a literal as it is written in source text."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, datetime.datetime):
        text = value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return f'datetime("{text}")'
    if isinstance(value, datetime.date):
        return f'date("{value.isoformat()}")'
    if isinstance(value, tuple):
        return f"[{', '.join(literal_text(item) for item in value)}]"
    return repr(value)


def _dotted(variable: str, name: str) -> str:
    return name if variable == ROW else f"${variable}.{name}"


def expression_text(item: Expression) -> str:
    """Return an expression as text, close to how it is written."""
    match item:
        case PropertyOf() | IdOf() | EndpointOf() | SubqueryValue():
            return _place_text(item)
        case Parameter() | Constant() | Now() | ColumnOf():
            return _leaf_text(item)
        case TypeOf():
            return f"type(${item.variable})"
        case PathOf():
            return f"{item.part}(${item.variable})"
        case ObjectOf():
            return f"object({_variables(tuple(sorted(variables_of(item))))})"
        case Arithmetic() | Compare():
            return f"({expression_text(item.left)} {item.op} {expression_text(item.right)})"
        case Negate():
            return f"-{expression_text(item.operand)}"
        case Member():
            return f"({expression_text(item.item)} in {expression_text(item.container)})"
        case Substring():
            word = "starts_with" if item.prefix else "contains"
            return f"({expression_text(item.text)} {word} {expression_text(item.part)})"
        case IsNull():
            word = "is not null" if item.negated else "is null"
            return f"({expression_text(item.operand)} {word})"
        case And() | Or():
            word = " and " if isinstance(item, And) else " or "
            return f"({word.join(expression_text(part) for part in item.operands)})"
        case Not():
            return f"not {expression_text(item.operand)}"
        case Vanishing():
            names = ", ".join(f"${name}" for name in item.parameters)
            return f"({expression_text(item.condition)} unless {names} is null)"
        case _:
            return _function_text(item)


def _place_text(item: PropertyOf | IdOf | EndpointOf | SubqueryValue) -> str:
    match item:
        case PropertyOf():
            return _dotted(item.variable, item.property)
        case IdOf():
            return _dotted(item.variable, "id")
        case EndpointOf():
            return _dotted(item.variable, str(item.end))
        case SubqueryValue():
            return item.variable


def _leaf_text(item: Parameter | Constant | Now | ColumnOf) -> str:
    match item:
        case Parameter():
            return f"${item.name}"
        case Constant():
            return literal_text(item.value)
        case Now():
            return "now()"
        case ColumnOf():
            return f"column {item.index + 1}"


def _language(item: TextMatch | Bm25) -> str:
    return "" if item.language == ENGLISH else f" in {item.language}"


def _function_text(item: TextMatch | Nearest | Bm25 | Rrf | Aggregate) -> str:
    match item:
        case TextMatch():
            edits = "" if item.max_edits is None else f", {expression_text(item.max_edits)}"
            place = _dotted(item.variable, item.property)
            return f"{item.op}({place}, {expression_text(item.query)}{edits}){_language(item)}"
        case Nearest():
            place = _dotted(item.variable, item.property)
            metric = "" if item.metric is Metric.L2 else f", {item.metric}"
            return f"nearest({place}, {expression_text(item.query)}{metric})"
        case Bm25():
            place = _dotted(item.variable, item.property)
            return f"bm25({place}, {expression_text(item.query)}){_language(item)}"
        case Rrf():
            first, second = expression_text(item.first), expression_text(item.second)
            return f"rrf({first}, {second}, {expression_text(item.k)})"
        case Aggregate():
            argument = "*" if item.argument is None else expression_text(item.argument)
            return f"{item.function}({'distinct ' if item.distinct else ''}{argument})"
