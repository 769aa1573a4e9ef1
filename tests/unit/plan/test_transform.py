"""One way to rewrite an expression: parents first, and what does not change is kept."""

from __future__ import annotations

from omnigraph.plan.expression import (
    INT,
    TEXT,
    And,
    Compare,
    CompareOp,
    Constant,
    Expression,
    IdOf,
    Not,
    Parameter,
    transform,
)

IS_ONE = Compare(op=CompareOp.EQ, left=IdOf(variable="a"), right=Parameter(name="one", type=TEXT))
IS_TWO = Compare(op=CompareOp.EQ, left=IdOf(variable="a"), right=Parameter(name="two", type=TEXT))


def _renamed(part: Expression) -> Expression | None:
    return IdOf(variable="b") if part == IdOf(variable="a") else None


def test_every_part_that_has_an_answer_is_replaced_wherever_it_stands() -> None:
    found = transform(And(operands=(IS_ONE, Not(operand=IS_TWO))), _renamed)
    expected = [
        Compare(op=CompareOp.EQ, left=IdOf(variable="b"), right=part.right)
        for part in (IS_ONE, IS_TWO)
    ]
    assert found == And(operands=(expected[0], Not(operand=expected[1])))


def test_parents_are_asked_first_and_a_replacement_is_not_looked_into() -> None:
    asked: list[Expression] = []

    def change(part: Expression) -> Expression | None:
        asked.append(part)
        return IS_TWO if part == IS_ONE else None

    whole = Not(operand=IS_ONE)
    assert transform(whole, change) == Not(operand=IS_TWO)
    assert asked == [whole, IS_ONE]


def test_what_does_not_change_is_the_same_object() -> None:
    whole = And(operands=(IS_ONE, Not(operand=Constant(value=(1, 2), type=INT))))
    assert transform(whole, lambda _part: None) is whole
    changed = transform(whole, _renamed)
    assert isinstance(changed, And)
    assert changed.operands[1] is whole.operands[1]
