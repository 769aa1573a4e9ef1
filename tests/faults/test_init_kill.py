"""An init killed anywhere leaves a graph, or nothing that the next init does not heal."""

from __future__ import annotations

from collections import Counter

import pytest

import omnigraph as og
from omnigraph import failpoints
from tests.faults.matrix import check_settled, drawn
from tests.faults.rig import SCHEMA
from tests.faults.victim import Zygote
from tests.places import AnyPath, names_in, remove_tree

OTHER = "node Person { slug: String @key  name: String? }\nnode Place { slug: String @key }\n"
CASES_ON_S3 = 2


def kills(zygote: Zygote, place: AnyPath) -> list[dict[str, object]]:
    """Return every way to kill an init: at both sides of each call, and at each boundary."""
    steps = zygote.run("init", place / "counted")["answer"]["steps"]
    assert steps["publish"] == 1
    assert steps["commit"] == 4
    found: list[dict[str, object]] = [
        {"call": call, "number": number, "side": side}
        for call, count in sorted(steps.items())
        for number in range(count)
        for side in ("before", "after")
    ]
    with failpoints.recorded() as passed:
        og.init(place / "recorded", SCHEMA, durability="none").close()
    seen: Counter[str] = Counter()
    for point in passed:
        seen[point] += 1
        found.append({"point": str(point), "number": seen[point]})
    return found


def exists(root: AnyPath) -> bool:
    try:
        og.open(root, mode="ro").close()
    except og.NotFoundError:
        return False
    return True


@pytest.mark.full_only
@pytest.mark.parametrize("repeated", [SCHEMA, OTHER], ids=["same", "other"])
def test_a_killed_init_is_healed_by_the_next(
    backend: str, place: AnyPath, zygote: Zygote, repeated: str
) -> None:
    ends: set[bool] = set()
    cases = kills(zygote, place)
    for number, case in enumerate(cases if backend == "local" else drawn(cases, CASES_ON_S3)):
        root = place / f"g{number}"
        assert zygote.run("init", root, **case)["killed"], case  # type: ignore[arg-type]
        made = exists(root)
        ends.add(made)
        if made:
            with pytest.raises(og.AlreadyInitializedError):
                og.init(root, repeated, durability="none")
        else:
            og.init(root, repeated, durability="none").close()
        with og.open(root, mode="ro") as graph:
            assert graph.schema_source == (SCHEMA if made else repeated), case
        assert "__init_claim.json" not in names_in(root), case
        check_settled(root, {}, [], str(case))
        remove_tree(root)
    if backend == "local":
        assert ends == {True, False}


def test_an_init_that_heals_can_be_killed_too(place: AnyPath, zygote: Zygote) -> None:
    for point in ("init.after_claim", "init.after_tables", "init.after_contract"):
        root = place / point.replace(".", "-")
        for again in ("init.after_contract", point, "init.after_tables"):
            assert zygote.run("init", root, point=again, number=1)["killed"]
            assert not exists(root)
        og.init(root, OTHER, durability="none").close()
        check_settled(root, {}, [], point)
        remove_tree(root)


def test_an_init_is_repeated_by_its_operation_id(place: AnyPath) -> None:
    root = place / "g"
    with og.init(root, SCHEMA, durability="none", operation_id="mine") as graph:
        first = graph.commits.head()
    assert first.operation_id == "mine"
    with og.init(root, SCHEMA, durability="none", operation_id="mine") as graph:
        assert graph.commits.head() == first
        graph.mutate("query a() { insert Firm { slug: 'f' } }".replace("'", '"'))
    with og.init(root, OTHER, durability="none", operation_id="mine") as graph:
        assert graph.schema_source == SCHEMA, "it answers with what the first one made"
        assert len(graph.commits.list()) == 2
    for other in ("yours", None):
        with pytest.raises(og.AlreadyInitializedError):
            og.init(root, SCHEMA, durability="none", operation_id=other)
    for wrong in (" ", "\ud800"):
        with pytest.raises(og.BadRequestError, match="operation_id"):
            og.init(place / "h", SCHEMA, operation_id=wrong)
    assert not exists(place / "h")


def test_an_init_with_an_id_that_was_killed_is_finished_by_its_repetition(
    place: AnyPath,
) -> None:
    root = place / "g"
    with (
        failpoints.armed(failpoints.Failpoint.INIT_AFTER_TABLES, failpoints.error),
        pytest.raises(og.StorageError),
    ):
        og.init(root, SCHEMA, durability="none", operation_id="mine")
    with og.init(root, SCHEMA, durability="none", operation_id="mine") as graph:
        assert graph.commits.head().operation_id == "mine"
