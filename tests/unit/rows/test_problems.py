"""Problems of an input: collected up to a limit, shown in line order, raised together."""

from __future__ import annotations

import pytest

from omnigraph.errors import DataError
from omnigraph.limits import PROBLEMS_MAX
from omnigraph.rows import Problem, Problems
from omnigraph.values.failures import DataErrors
from omnigraph.values.schemas import components


def raised(problems: Problems) -> DataError:
    with pytest.raises(DataError) as found:
        problems.raise_any()
    return found.value


def test_nothing_wrong_raises_nothing() -> None:
    found = Problems(source="x")
    found.raise_any()
    assert not found.items


def test_a_problem_says_only_what_is_known() -> None:
    assert Problem(message="m").to_json() == {"message": "m"}
    full = Problem(message="m", type_name="T", entity_id="i", field="f", line=3)
    assert full.to_json() == {"line": 3, "type": "T", "id": "i", "field": "f", "message": "m"}


def test_one_problem_of_a_source_names_it() -> None:
    problems = Problems(source="a.jsonl")
    problems.add(Problem(message="bad", line=7))
    error = raised(problems)
    assert error.message == "1 problem in a.jsonl; nothing was written:\nline 7: bad"
    assert error.problems == ({"line": 7, "message": "bad"},)


def test_problems_are_sorted_by_line_and_those_without_come_first() -> None:
    problems = Problems(source="a")
    for line in (9, None, 2):
        problems.add(Problem(message=f"m{line}", line=line))
    assert raised(problems).message.splitlines()[1:] == ["mNone", "line 2: m2", "line 9: m9"]


def test_without_a_source_only_the_messages_stand() -> None:
    problems = Problems()
    problems.add(Problem(message="one"))
    assert raised(problems).message == "one"
    problems.add(Problem(message="two"))
    assert raised(problems).message == "one\ntwo"


def test_ten_are_shown_and_the_rest_counted() -> None:
    problems = Problems(source="a")
    for line in range(1, 13):
        problems.add(Problem(message="m", line=line))
    shown = raised(problems).message.splitlines()
    assert shown[0] == "12 problems in a; nothing was written:"
    assert shown[-2:] == ["line 10: m", "... and 2 more"]


def test_the_limit_bounds_what_is_kept_not_what_is_counted() -> None:
    problems = Problems(source="a", limit=2)
    for line in range(1, 6):
        problems.add(Problem(message="m", line=line))
    assert problems.full
    assert (len(problems.items), problems.count) == (2, 5)
    error = raised(problems)
    assert len(error.problems) == 2
    assert error.message.splitlines()[-1] == "... and 3 more"


def test_the_default_limit_is_the_documented_one() -> None:
    problems = Problems()
    for _ in range(PROBLEMS_MAX):
        problems.add(Problem(message="m"))
    assert problems.full


def test_all_that_is_told_of_a_refused_row_is_in_the_published_schema() -> None:
    told = Problem(
        message="m", type_name="P", entity_id="a", field="n", line=3, file="f", element=2
    ).to_json()
    assert list(told) == ["file", "line", "element", "type", "id", "field", "message"]
    assert told.keys() == components([DataErrors])["DataProblem"]["properties"].keys()
    assert Problem(message="m", kind="orphan_edge", table_key="edge:E").to_json() == {
        "message": "m"
    }
