"""An object store that answers late, wrongly or not at all: a write happens once or not.

A proxy in front of a real S3 server breaks one request after the other. What an exception leaves
open is decided by looking, so every case ends in one of two states, and repeating the operation
under its id makes it one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

import omnigraph as og
from omnigraph.store import locate
from omnigraph.store.slots import leases
from tests.faults.matrix import Stage, drawn, final_state, full_only
from tests.faults.rig import ADD, DROP, State, assert_sound, new_graph, state_of
from tests.faults.victim import OPERATION, write
from tests.places import S3Path, new_prefix, remove_tree
from tests.servers.proxy import Fault, Proxy, Request
from tests.servers.seaweed import Seaweed

pytestmark = pytest.mark.usefixtures("s3")
CASES_DRAWN = 2
PUTS_MIN = {"insert": 7, "delete": 7, "load": 16, "branch_create": 4, "merge": 16}
"""How many puts a write makes at least, each of which is broken."""
BROKEN_BY_DEFAULT = {("insert", Fault.LOST), ("load", Fault.LOST), ("branch_create", Fault.CUT)}


@pytest.fixture(scope="module")
def proxy(s3: Seaweed) -> Iterator[Proxy]:
    with Proxy(s3.endpoint) as found:
        yield found


@pytest.fixture(scope="module")
def stage(s3: Seaweed) -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leases, "LEASE_S", 0.6)
        patch.setattr(leases, "LEASE_MARGIN_S", 0.1)
        yield Stage(new_prefix(s3.bucket))


@pytest.fixture
def root(s3: Seaweed) -> S3Path:
    found = new_prefix(s3.bucket)
    new_graph(found)
    return found


@pytest.fixture
def reach(s3: Seaweed, proxy: Proxy) -> dict[str, str]:
    """Options of a client that does not wait for long."""
    return {
        **s3.options(proxy.endpoint),
        "timeout": "2s",
        "client_max_retries": "3",
        "client_retry_timeout": "10",
    }


class Nth:
    """Breaks the n-th request of some kinds, and the tries that follow it for a while."""

    def __init__(
        self, number: int, fault: Fault, *, kinds: tuple[str, ...], times: int = 1
    ) -> None:
        self._left = number
        self._fault = fault
        self._kinds = kinds
        self._times = times
        self.hit: Request | None = None

    def __call__(self, request: Request) -> Fault | None:
        if request.kind not in self._kinds:
            return None
        if self.hit is not None:
            same = (request.kind, request.target) == (self.hit.kind, self.hit.target)
            if same and self._times > 1:
                self._times -= 1
                return self._fault
            return None
        if self._left:
            self._left -= 1
            return None
        self.hit = request
        return self._fault


PUTS = ("PUT", "PUT-IF")


def broken_write(
    stage: Stage, proxy: Proxy, reach: dict[str, str], action: str, rule: Nth
) -> tuple[S3Path, og.OmniGraphError | None]:
    """Run a write while a rule breaks one of its requests; return where, and what it said."""
    root = stage.fresh(action)
    assert isinstance(root, S3Path)
    error = None
    with og.open(root, storage_options=reach) as graph:
        try:
            with proxy.rule(rule):
                write(graph, action)
        except og.OmniGraphError as caught:
            error = caught
    return root, error


def check_once(
    root: S3Path, ends: dict[str, State], error: object, action: str, place: str
) -> None:
    """The write is there, or it is not and was said not to be; repeating it makes it one."""
    with og.open(root) as graph:
        found = state_of(graph)
        assert found in ends.values(), place
        if error is None:
            assert found == ends["after"], f"acknowledged and lost: {place}"
        elif not isinstance(error, og.OutcomeUnknownError):
            assert found == ends["before"], f"refused but there: {place}, {error}"
        write(graph, action)
        assert state_of(graph) == ends["after"], place
    assert len(assert_sound(root).by_operation(OPERATION)) == 1, place


class Once:
    """One kind of write, made again and again under ids of its own; `done` tells whether it is."""

    def __init__(self, graph: og.Graph, kind: str) -> None:
        self._graph = graph
        self._kind = kind
        if kind == "delete":
            graph.load([person(n) for n in range(30)], mode="append")

    def prepare(self, number: int) -> None:
        if self._kind == "merge":
            branch = f"b{number}"
            self._graph.branches.create(branch)
            self._graph.load(four_tables(number), mode="append", branch=branch)

    def make(self, number: int) -> None:
        graph, name = self._graph, f"n{number}"
        match self._kind:
            case "insert":
                graph.mutate(ADD, {"s": name}, operation_id=f"op{number}")
            case "delete":
                graph.mutate(DROP, {"s": name}, operation_id=f"op{number}")
            case "load":
                graph.load(four_tables(number), mode="append", operation_id=f"op{number}")
            case "merge":
                graph.branches.merge(f"b{number}", operation_id=f"op{number}")
            case _:
                graph.branches.create(f"b{number}")

    def done(self, number: int) -> bool:
        name = f"n{number}"
        if self._kind == "branch_create":
            # Made once: its name is taken, and it can be written to.
            self._graph.mutate(ADD, {"s": "on it"}, branch=f"b{number}")
            return self._graph.branches.list().count(f"b{number}") == 1
        found = state_of(self._graph)
        if self._kind in ("load", "merge"):
            keys = [("Firm", name), ("Knows", f"k-{name}"), ("Works", f"w-{name}")]
            assert len({key in found for key in [("Person", name), *keys]}) == 1, "a part of it"
        return (("Person", name) in found) == (self._kind != "delete")


def person(number: int) -> dict[str, object]:
    return {"type": "Person", "data": {"slug": f"n{number}"}}


def four_tables(number: int) -> list[dict[str, object]]:
    name = f"n{number}"
    return [
        person(number),
        {"type": "Firm", "data": {"slug": name}},
        {"edge": "Knows", "from": name, "to": "p0", "data": {"id": f"k-{name}"}},
        {"edge": "Works", "from": name, "to": name, "data": {"id": f"w-{name}"}},
    ]


@pytest.mark.parametrize(
    ("action", "fault"),
    [
        full_only(action, fault, unless=(action, fault) in BROKEN_BY_DEFAULT)
        for action in PUTS_MIN
        for fault in (Fault.LOST, Fault.CUT, Fault.ERROR)
    ],
)
def test_every_put_that_fails_once_is_made_good(
    root: S3Path, proxy: Proxy, reach: dict[str, str], action: str, fault: Fault
) -> None:
    """A put whose answer is lost, that never arrives, or that is refused once: nobody notices."""
    number = 0
    with og.open(root, storage_options=reach) as graph:
        once = Once(graph, action)
        while True:
            once.prepare(number)
            rule = Nth(number, fault, kinds=PUTS)
            with proxy.rule(rule):
                once.make(number)
            told = f"{action}: {fault} at put {number}, {rule.hit and rule.hit.target}"
            assert once.done(number), told
            if rule.hit is None:
                break
            number += 1
    assert number >= PUTS_MIN[action]
    found = assert_sound(root)
    if action != "branch_create":
        for index in range(number):
            assert len(found.by_operation(f"op{index}")) == 1


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.ERROR])
def test_every_put_that_fails_for_good_leaves_all_or_nothing(
    stage: Stage, proxy: Proxy, reach: dict[str, str], fault: Fault
) -> None:
    """The server does it, or not, and never answers: what is left is decided by looking."""
    ends = stage.ends("delete")
    count = len(_puts(stage, proxy, reach, "delete"))
    for number in drawn(list(range(count)), CASES_DRAWN):
        rule = Nth(number, fault, kinds=PUTS, times=50)
        root, error = broken_write(stage, proxy, reach, "delete", rule)
        assert rule.hit is not None
        place = f"delete: {fault} for good at put {number}, {rule.hit.target}"
        check_once(root, ends, error, "delete", place)
        remove_tree(root)


def _puts(stage: Stage, proxy: Proxy, reach: dict[str, str], action: str) -> list[Request]:
    root = stage.fresh(action)
    with og.open(root, storage_options=reach) as graph, proxy.watched() as traffic:
        write(graph, action)
    return [request for request in traffic.requests if request.kind in PUTS]


def test_an_answer_that_does_not_come_is_not_waited_for_without_end(
    root: S3Path, proxy: Proxy, reach: dict[str, str]
) -> None:
    def hang(request: Request) -> Fault | None:
        return Fault.HANG if "__recovery/" in request.target else None

    with og.open(root, storage_options=reach) as graph:
        begun = time.monotonic()
        with proxy.rule(hang), pytest.raises(og.StorageError) as failed:
            graph.mutate(ADD, {"s": "new"})
        assert time.monotonic() - begun < 60
        assert failed.value.retryable


# ---- throttling ---------------------------------------------------------------------------


def test_a_busy_server_is_asked_again_later(
    root: S3Path, proxy: Proxy, reach: dict[str, str]
) -> None:
    """503 SlowDown at the first try of every request: each is repeated after a pause."""
    refused_once: set[tuple[str, str]] = set()

    def busy(request: Request) -> Fault | None:
        # For each target: counted over all, renewals of the lease would take the other turns.
        tried = (request.kind, request.target)
        if tried in refused_once:
            refused_once.remove(tried)
            return None
        refused_once.add(tried)
        return Fault.BUSY

    with og.open(root, storage_options=reach) as graph:
        with proxy.rule(busy), proxy.watched() as traffic:
            graph.mutate(ADD, {"s": "new"})
        assert ("Person", "new") in state_of(graph)
    refused = [request for request in traffic.requests if request.fault is Fault.BUSY]
    assert len(refused) >= 10
    # It may have taken longer than a lease; then the next one who opens takes the slot away.
    og.open(root).close()
    assert_sound(root)


def test_a_server_that_stays_busy_is_reported_in_bounded_time(
    root: S3Path, proxy: Proxy, reach: dict[str, str]
) -> None:
    with og.open(root, storage_options=reach) as graph:
        before = state_of(graph)
        begun = time.monotonic()
        with (
            proxy.rule(lambda _request: Fault.BUSY),
            proxy.watched() as traffic,
            pytest.raises(og.StorageError) as failed,
        ):
            graph.mutate(ADD, {"s": "new"})
        assert time.monotonic() - begun < 60
        assert failed.value.retryable
        # One request and its repetitions, further and further apart.
        assert len(traffic) == 4
        assert state_of(graph) == before


# ---- stores that are not good enough ------------------------------------------------------


def test_a_store_that_ignores_conditions_is_refused_for_writing(
    root: S3Path, reach: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from omnigraph.store.files.object_files import ObjectFiles

    inner: Callable[..., object] = ObjectFiles._send

    def careless(self: ObjectFiles, path: str, data: bytes, mode: object) -> object:
        return inner(self, path, data, "overwrite")

    monkeypatch.setattr(ObjectFiles, "_send", careless)
    attempts: list[Callable[[], object]] = [
        lambda: og.open(root, storage_options=reach),
        lambda: og.init(root / "new", "node N { k: String @key }", storage_options=reach),
    ]
    for attempt in attempts:
        with pytest.raises(og.StorageError, match="ignores the conditions") as refused:
            attempt()
        assert not refused.value.retryable
        assert "mode='ro'" in str(refused.value.hint)
    with og.open(root, mode="ro", storage_options=reach) as reader:
        assert state_of(reader)


def test_wrong_credentials_are_told_and_not_shown(root: S3Path, reach: dict[str, str]) -> None:
    wrong = {**reach, "aws_secret_access_key": "not-the-secret"}
    for mode in ("rw", "ro"):
        with pytest.raises(og.StorageError, match=r"denied|privileges") as refused:
            og.open(root, mode="ro" if mode == "ro" else "rw", storage_options=wrong)
        assert "not-the-secret" not in f"{refused.value} {refused.value.to_json()}"
        assert not refused.value.retryable


def test_a_missing_bucket_holds_no_graph(reach: dict[str, str]) -> None:
    with pytest.raises(og.NotFoundError, match="no graph at"):
        og.open("s3://there-is-no-such-bucket/g", storage_options=reach)


def test_credentials_are_written_nowhere(root: S3Path, reach: dict[str, str]) -> None:
    with og.open(root, storage_options=reach) as graph:
        graph.branches.create("dev")
        graph.mutate(ADD, {"s": "new"}, branch="dev")
        graph.branches.merge("dev")
    files = locate(root).files
    secrets = [reach[name].encode() for name in ("aws_secret_access_key", "aws_endpoint")]
    for path in files.below(str(root)):
        content = files.read(path) or b""
        assert not [secret for secret in secrets if secret in content], path


# ---- leases -------------------------------------------------------------------------------


def test_a_writer_that_sleeps_through_its_lease_loses_and_repeats(
    root: S3Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A parked owner is taken for dead; another writes; the parked one notices and repeats."""
    from omnigraph import failpoints
    from omnigraph.failpoints import Failpoint

    monkeypatch.setattr(leases, "LEASE_S", 0.6)
    monkeypatch.setattr(leases, "LEASE_MARGIN_S", 0.1)
    # A process that sleeps renews nothing.
    monkeypatch.setattr(leases.LeasedSlot, "_renew", lambda self: None)
    pause = failpoints.Pause(60)
    with og.open(root) as late, og.open(root) as other:
        thread = threading.Thread(target=late.mutate, args=(ADD, {"s": "late"}))
        with failpoints.armed(Failpoint.PUBLISH_POST_SLOT_PRE_EFFECT, pause):
            thread.start()
            assert pause.reached.wait(30)
        other.mutate(ADD, {"s": "other"})
        pause.released.set()
        thread.join()
        assert {("Person", "late"), ("Person", "other")} <= set(state_of(other))
    og.open(root).close()
    assert final_state(root)
    assert_sound(root)
