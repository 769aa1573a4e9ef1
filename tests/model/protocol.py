"""The commit protocol as processes of the model: writers, recovery, cleanup, tags, branches.

One step is one request to storage, together with what its caller decides from the answer. Of
several outcomes of one request the undisturbed one comes first. A pause needs no step of its own:
a process that is paused is one that takes no step. A crash is a pause without an end; where locks
tell the dead from the living it is a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tests.model.explorer import Step
from tests.model.storage import (
    DELETED,
    GONE,
    KEPT,
    LIVE,
    NO_OWNER,
    PENDING,
    UNSTAGED,
    Intent,
    Line,
    Shared,
    Slot,
    View,
    add_table_version,
    create_version,
    delete_slot,
    has_version,
    head_of,
    ids,
    latest,
    new_line,
    pins_at,
    put_slot,
    restored,
    slot_at,
    table_version,
    with_line,
)

FOLD_COMMIT = 90
FENCE_COMMIT = 91
RESTORES_MAX = 2


@dataclass(frozen=True, slots=True)
class Rules:
    """What the processes keep to. The defaults are the protocol; a test breaks one rule each."""

    leases: bool = True
    """An owner may lose its slot while it lives; otherwise a lock tells the dead."""
    lost_answers: bool = True
    attempts_max: int = 3
    look_when_late: bool = True
    """Look for the commit in the newest manifest before it is acknowledged late."""
    late_by_time: bool = True
    """A publish is late also when a cleanup may have removed what was newest since."""
    verify_by_listing: bool = True
    plans_anew: bool = True
    """An attempt moves tables from what it captured itself, not from what the first one did."""
    outcome_by_lineage: bool = True
    recovery_minds_head: bool = True
    recovery_by_transaction: bool = True
    check_before_delete: bool = True
    floor_before_refs: bool = True
    floor_grows: bool = True
    tag_reads_floor: bool = True
    retire: bool = False
    """A deleted branch gets a last commit and keeps its versions; otherwise they are removed."""
    incarnations: bool = True


class Recover(NamedTuple):
    """A recovery under way: what was seized, and what was found."""

    at: str
    head: int
    intent: Intent
    view: View = ()
    found: tuple[tuple[bool, bool], ...] = ()
    """Per table of the intent: whether it moved, and whether its next version is the planned."""
    pins: tuple[tuple[int, int], ...] = ()


class Writing(NamedTuple):
    """Where a writer is."""

    at: str
    line: int
    attempt: int = 0
    stage: int = 0
    view: View = ()
    landed: tuple[int, ...] = ()
    parent: int = 0
    restores: int = 0
    blind: bool = False
    recover: Recover | None = None
    life: int = 0
    """The life of the branch it captured."""
    planned: tuple[int, ...] = ()
    """The versions that the first attempt moved tables from, if a later one still does."""


DONE = "done"


class Actor:
    """What every process that takes slots has in common."""

    def __init__(self, name: str, number: int, rules: Rules) -> None:
        self.name = name
        self.number = number
        self.bit = 1 << number
        self.rules = rules

    def may_be_good(self, shared: Shared) -> bool:
        """Whether a look at the own lease may find it good."""
        return not self.rules.leases or not shared.lost & self.bit

    def seizable(self, shared: Shared, slot: Slot) -> bool:
        """Whether a slot may be taken over: any owner may be taken for dead with leases."""
        if self.rules.leases or slot.owner == NO_OWNER:
            return True
        return bool(shared.dead >> slot.owner & 1)

    def own(self, shared: Shared, at: int, slot: Slot, before: Slot | None = None) -> Shared:
        """Put a slot; who owned it before has lost its lease."""
        lost = shared.lost & ~self.bit
        if before is not None and before.owner not in (NO_OWNER, self.number):
            lost |= 1 << before.owner
        line = put_slot(shared.lines[at], slot)
        return with_line(shared, at, line)._replace(lost=lost)

    def leave(self, shared: Shared, at: int, head: int) -> Shared:
        """Stop owning a slot and leave it. Bookkeeping of the model, not a request."""
        shared = shared._replace(lost=shared.lost & ~self.bit)
        slot = slot_at(shared.lines[at], head)
        if slot is None or slot.owner != self.number:
            return shared
        line = put_slot(shared.lines[at], slot._replace(owner=NO_OWNER))
        return with_line(shared, at, line)

    def drop(self, shared: Shared, at: int, head: int) -> Shared:
        """Delete a slot: the request does not know whose it is."""
        slot = slot_at(shared.lines[at], head)
        if not self.rules.leases and (slot is None or slot.owner != self.number):
            # With a lock the file itself is compared.
            return shared
        shared = shared._replace(lost=shared.lost & ~self.bit)
        return with_line(shared, at, delete_slot(shared.lines[at], head))

    # ---- recovery -------------------------------------------------------------------------

    def recovery_steps(self, recover: Recover, shared: Shared, at: int) -> list[Step]:
        """Return the next steps of a recovery; its state is None when it has ended."""
        if recover.at == "capture":
            return self._judge(recover, shared, at)
        if recover.at == "tables":
            return self._evidence(recover, shared, at)
        if recover.at == "restore":
            return self._undo(recover, shared, at)
        if recover.at == "publish":
            return self._finish(recover, shared, at)
        if recover.at == "look":
            return self._look_after(recover, shared, at)
        assert recover.at == "delete"
        return [("deletes the slot", None, self.drop(shared, at, recover.head))]

    def _end(self, recover: Recover, shared: Shared, at: int, label: str) -> list[Step]:
        """Remove the slot if the lease is good, else leave it."""
        found: list[Step] = []
        if self.may_be_good(shared) or not self.rules.check_before_delete:
            found.append((label, Recover("delete", recover.head, _NOTHING), shared))
        if self.rules.leases and self.rules.check_before_delete:
            left = self.leave(shared, at, recover.head)
            found.append((f"{label}; its lease has lapsed, it leaves the slot", None, left))
        return found

    def _judge(self, recover: Recover, shared: Shared, at: int) -> list[Step]:
        line, intent = shared.lines[at], recover.intent
        if not line.files or line.state == DELETED:
            return self._end(recover, shared, at, "finds the branch deleted")
        view = latest(line)
        lineage = ids(view)
        if not intent.tables:
            return self._end(recover, shared, at, "finds a slot that was never armed")
        if intent.commit in lineage or intent.rollback in lineage:
            return self._end(recover, shared, at, "finds the commit decided")
        if view[-1][0] != recover.head and self.rules.recovery_minds_head:
            return self._end(recover, shared, at, "finds another head")
        seen = recover._replace(at="tables", view=view)
        return [(f"captures version {len(view)}", seen, shared)]

    def _evidence(self, recover: Recover, shared: Shared, at: int) -> list[Step]:
        line = shared.lines[at]
        table, expected, transaction = recover.intent.tables[len(recover.found)]
        following = table_version(line, table, expected + 1)
        moved = head_of(line, table) > expected
        ours = following is not None and (
            following[1] == transaction or not self.rules.recovery_by_transaction
        )
        found = (*recover.found, (moved, ours))
        label = f"looks at table {table}: moved {moved}, as planned {ours}"
        if len(found) < len(recover.intent.tables):
            return [(label, recover._replace(found=found), shared)]
        if all(ours for _moved, ours in found):
            pins = tuple((item[0], item[1] + 1) for item in recover.intent.tables)
            return [(label, recover._replace(at="publish", found=found, pins=pins), shared)]
        if any(moved for moved, _ours in found):
            return [(label, recover._replace(at="restore", found=found), shared)]
        return self._end(recover, shared, at, label)

    def _undo(self, recover: Recover, shared: Shared, at: int) -> list[Step]:
        moved = [
            item
            for item, (moved, _ours) in zip(recover.intent.tables, recover.found, strict=True)
            if moved
        ]
        table, expected, _transaction = moved[len(recover.pins)]
        line = restored(shared.lines[at], table, expected)
        if line is None:
            left = self.leave(shared, at, recover.head)
            return [(f"cannot restore table {table}: version {expected} is gone", None, left)]
        pins = (*recover.pins, (table, head_of(line, table)))
        following = "publish" if len(pins) == len(moved) else "restore"
        after = recover._replace(at=following, pins=pins)
        label = f"restores table {table} to version {expected}, as {pins[-1][1]}"
        return [(label, after, with_line(shared, at, line))]

    def _finish(self, recover: Recover, shared: Shared, at: int) -> list[Step]:
        forward = all(ours for _moved, ours in recover.found)
        commit = recover.intent.commit if forward else recover.intent.rollback
        view = successor(recover.view, commit, recover.pins)
        name = f"version {len(view)} as {'commit' if forward else 'rollback'} {commit}"
        line = create_version(shared.lines[at], view)
        look = recover._replace(at="look")
        if line is None:
            return [(f"cannot publish {name}: it exists", look, shared)]
        after = with_line(shared, at, line)
        found = self._end(recover, after, at, f"publishes {name}")
        if self.rules.lost_answers:
            found.append((f"publishes {name}, the answer is lost", look, after))
        return found

    def _look_after(self, recover: Recover, shared: Shared, at: int) -> list[Step]:
        if not shared.lines[at].files:
            return self._end(recover, shared, at, "finds the branch deleted")
        view = latest(shared.lines[at])
        forward = all(ours for _moved, ours in recover.found)
        commit = recover.intent.commit if forward else recover.intent.rollback
        if commit not in ids(view) and view[-1][0] == recover.view[-1][0]:
            again = recover._replace(at="publish", view=view)
            return [(f"looks again: version {len(view)}", again, shared)]
        return self._end(recover, shared, at, "looks again: it is decided")


_NOTHING = Intent(0, 0, ())


def successor(view: View, commit: int, pins: tuple[tuple[int, int], ...]) -> View:
    """Return the manifest version after a view, with a commit that moves some tables."""
    moved = list(view[-1][1])
    for table, version in pins:
        moved[table] = version
    return (*view, (commit, tuple(moved)))


class Writer(Actor):
    """One write of some tables, from its first capture to its answer."""

    def __init__(
        self,
        number: int,
        tables: tuple[int, ...],
        rules: Rules,
        *,
        attempts: int = 0,
        by_name: bool = False,
        fold: bool = False,
    ) -> None:
        name = "fold" if fold else f"writer {number + 1}"
        super().__init__(name, number, rules)
        self.tables = tables
        self.fold = fold
        self.commit = FOLD_COMMIT if fold else number + 1
        self.change = 0 if fold else 1 << 2 * number
        self.attempts = 1 if fold else attempts or rules.attempts_max
        self.start = Writing("open" if by_name else "capture", 0)
        self._does = {
            "open": self._open,
            "capture": self._capture,
            "slot": self._take,
            "exists": self._exists,
            "verify": self._verify,
            "table": self._commit_table,
            "restore": self._restore,
            "publish": self._publish,
            "look": self._look,
            "late": self._late,
            "late exists": self._late_exists,
            "drop": self._drop_lost,
            "release": self._release,
        }

    def steps(self, local: Writing, shared: Shared) -> list[Step]:
        """Return the possible next steps."""
        if local.at == DONE or shared.dead & self.bit:
            return []
        if local.recover is None:
            found = self._does[local.at](local, shared)
        else:
            found = [
                (f"(recovers) {label}", self._recovered(local, after), result)
                for label, after, result in self.recovery_steps(local.recover, shared, local.line)
            ]
        if not self.rules.leases:
            found = [*found, *self._crash(local, shared)]
        return found

    def _recovered(self, local: Writing, recover: Recover | None) -> Writing:
        return self._again(local) if recover is None else local._replace(recover=recover)

    def _crash(self, local: Writing, shared: Shared) -> list[Step]:
        owns = any(slot.owner == self.number for slot in shared.lines[local.line].slots)
        if not owns:
            return []
        dead = shared._replace(dead=shared.dead | self.bit)
        return [("dies", Writing(DONE, local.line), dead)]

    def _again(self, local: Writing) -> Writing:
        """Return where the next attempt begins: nothing is kept of this one."""
        if local.attempt + 1 >= self.attempts:
            return Writing(DONE, local.line)
        tried = bool(local.landed) or local.parent > 0 or local.at in ("table", "restore")
        after = Writing("capture", local.line, local.attempt + 1, local.stage + tried)
        return after._replace(planned=local.planned)

    def _lost(self, local: Writing, shared: Shared, label: str) -> list[Step]:
        """Give the attempt up; the slot goes only while the lease is good."""
        head = local.view[-1][0]
        found: list[Step] = []
        if self.may_be_good(shared) or not self.rules.check_before_delete:
            tried = self._again(local)
            found.append((label, tried._replace(at="drop", view=local.view[-1:]), shared))
        if self.rules.leases and self.rules.check_before_delete:
            left = self.leave(shared, local.line, head)
            found.append((f"{label}; its lease has lapsed", self._again(local), left))
        return found

    def _drop_lost(self, local: Writing, shared: Shared) -> list[Step]:
        dropped = self.drop(shared, local.line, local.view[-1][0])
        ended = local.attempt == 0
        after = local._replace(at=DONE if ended else "capture", view=())
        return [("deletes its slot", after, dropped)]

    def _go_on(self, local: Writing, after: Writing, shared: Shared, label: str) -> list[Step]:
        """Go on if the lease is good; otherwise begin again and leave the slot."""
        found: list[Step] = []
        if self.may_be_good(shared):
            found.append((label, after, shared))
        if self.rules.leases:
            left = self.leave(shared, local.line, local.view[-1][0])
            found.append((f"{label}; its lease has lapsed", self._again(after), left))
        return found

    def _acknowledged(self, local: Writing, shared: Shared) -> Shared:
        if self.fold:
            return shared
        acks = list(shared.acks)
        acks[self.number] = local.line + 1
        return shared._replace(acks=tuple(acks))

    def _open(self, local: Writing, shared: Shared) -> list[Step]:
        live = [at for at, line in enumerate(shared.lines) if line.state == LIVE]
        if not live:
            return [("finds no such branch", Writing(DONE, local.line), shared)]
        return [(f"opens the branch, life {live[-1]}", Writing("capture", live[-1]), shared)]

    def _capture(self, local: Writing, shared: Shared) -> list[Step]:
        line = shared.lines[local.line]
        if not line.files:
            return [("finds the branch deleted", Writing(DONE, local.line), shared)]
        view = latest(line)
        label = f"captures version {len(view)}"
        if self.commit in ids(view) and self.rules.outcome_by_lineage:
            acked = self._acknowledged(local, shared)
            return [(f"{label}: the commit is there", Writing(DONE, local.line), acked)]
        after = local._replace(at="slot", view=view, life=line.life)
        if not self.rules.plans_anew:
            after = after._replace(planned=local.planned or view[-1][1])
        return [(label, after, shared)]

    def _planned(self, local: Writing) -> tuple[int, ...]:
        """Return the versions that an attempt moves its tables from."""
        return local.planned or local.view[-1][1]

    def _transaction(self, local: Writing, place: int) -> int:
        return UNSTAGED if self.fold else (self.number + 1) * 64 + local.stage * 8 + place

    def _take(self, local: Writing, shared: Shared) -> list[Step]:
        head, pins = local.view[-1][0], self._planned(local)
        slot = slot_at(shared.lines[local.line], head)
        if slot is None:
            tables = tuple(
                (table, pins[table], self._transaction(local, place))
                for place, table in enumerate(self.tables)
            )
            rollback = (self.number + 1) * 100 + local.attempt
            taken = Slot(head, self.number, Intent(self.commit, rollback, tables))
            after = local._replace(at="exists" if len(shared.lines) > 1 else "verify")
            return [(f"takes the slot of head {head}", after, self.own(shared, local.line, taken))]
        if self.fold:
            return [("finds the slot taken", Writing(DONE, local.line), shared)]
        if not self.seizable(shared, slot):
            return []
        seized = self.own(shared, local.line, slot._replace(owner=self.number), slot)
        recover = Recover("capture", head, slot.intent)
        after = local._replace(recover=recover, view=())
        return [(f"seizes the slot of head {head}", after, seized)]

    def _exists(self, local: Writing, shared: Shared) -> list[Step]:
        if shared.lines[local.line].state == LIVE:
            return [("sees that the branch exists", local._replace(at="verify"), shared)]
        # The last attempt: after it there is no other.
        last = local._replace(attempt=self.attempts)
        return self._lost(last, shared, "finds the branch deleted")

    def _verify(self, local: Writing, shared: Shared) -> list[Step]:
        line = shared.lines[local.line]
        number = len(local.view)
        if self.rules.verify_by_listing:
            same = bool(line.files) and len(latest(line)) == number
        else:
            same = not has_version(line, number + 1)
        if not same:
            return self._lost(local, shared, f"verifies: version {number} is not the newest")
        # What was removed before this look does not make the publish late.
        after = local._replace(at="table", blind=line.removed > number)
        return self._go_on(local, after, shared, f"verifies: version {number} is the newest")

    def _commit_table(self, local: Writing, shared: Shared) -> list[Step]:
        line = shared.lines[local.line]
        place = len(local.landed)
        table = self.tables[place]
        parent = local.parent or self._planned(local)[table]
        transaction = self._transaction(local, place + (4 if local.parent else 0))
        found: list[Step] = []
        numbers = [head_of(line, table) + 1]
        if numbers[0] > parent + 1 and table_version(line, table, parent + 1) is None:
            # The version was removed: a commit that had listed before creates it anew.
            numbers.append(parent + 1)
        for number in numbers:
            below = table_version(line, table, parent if number == parent + 1 else number - 1)
            content = GONE if below is None else below[2] + self.change
            moved = add_table_version(line, table, (number, transaction, content))
            result = with_line(shared, local.line, moved)
            label = f"commits version {number} of table {table}"
            if number != parent + 1:
                after = local._replace(at="restore")
                found.append((f"{label}, which is not exact", after, result))
                continue
            landed = (*local.landed, number)
            at = "table" if len(landed) < len(self.tables) else "publish"
            after = local._replace(at=at, landed=landed, parent=0, restores=0)
            found += self._go_on(local, after, result, label)
        return found

    def _restore(self, local: Writing, shared: Shared) -> list[Step]:
        table = self.tables[len(local.landed)]
        pin = self._planned(local)[table]
        line = restored(shared.lines[local.line], table, pin)
        if line is None or local.restores >= RESTORES_MAX or self.fold:
            left = self.leave(shared, local.line, local.view[-1][0])
            return [(f"cannot restore table {table}: refused", Writing(DONE, local.line), left)]
        number = head_of(line, table)
        after = local._replace(at="table", parent=number, restores=local.restores + 1)
        label = f"restores table {table} to version {pin}, as {number}"
        return self._go_on(local, after, with_line(shared, local.line, line), label)

    def _publish(self, local: Writing, shared: Shared) -> list[Step]:
        pins = tuple(zip(self.tables, local.landed, strict=True))
        view = successor(local.view, self.commit, pins)
        line = create_version(shared.lines[local.line], view, local.life)
        name = f"version {len(view)} as commit {self.commit}"
        look = local._replace(at="look")
        if line is None:
            return [(f"cannot publish {name}: it exists", look, shared)]
        after = with_line(shared, local.line, line)
        found: list[Step] = []
        label = f"publishes {name}"
        late = (
            self.rules.leases
            and self.rules.late_by_time
            and line.removed > len(local.view)
            and not local.blind
        )
        if not self.rules.look_when_late or (self.may_be_good(after) and not late):
            found += self._succeeded(local, after, label)
        if self.rules.leases and self.rules.look_when_late:
            left = self.leave(after, local.line, local.view[-1][0])
            found.append((f"{label}, late", local._replace(at="late"), left))
        if self.rules.lost_answers:
            found.append((f"{label}, the answer is lost", look, after))
        return found

    def _succeeded(self, local: Writing, shared: Shared, label: str) -> list[Step]:
        """Delete the slot while the lease is good, then acknowledge."""
        found: list[Step] = []
        head = local.view[-1:]
        if self.may_be_good(shared) or not self.rules.check_before_delete:
            found.append((label, Writing("release", local.line, view=head), shared))
        if self.rules.leases and self.rules.check_before_delete:
            left = self.leave(self._acknowledged(local, shared), local.line, head[0][0])
            label = f"{label}, acknowledges; its lease has lapsed"
            found.append((label, Writing(DONE, local.line), left))
        return found

    def _release(self, local: Writing, shared: Shared) -> list[Step]:
        dropped = self.drop(shared, local.line, local.view[-1][0])
        acked = self._acknowledged(local, dropped)
        return [("deletes its slot, acknowledges", Writing(DONE, local.line), acked)]

    def _look(self, local: Writing, shared: Shared) -> list[Step]:
        line = shared.lines[local.line]
        if not line.files or line.state == DELETED:
            left = self.leave(shared, local.line, local.view[-1][0])
            return [("finds the branch deleted", Writing(DONE, local.line), left)]
        view = latest(line)
        label = f"looks again: version {len(view)}"
        if self.commit in ids(view):
            return self._succeeded(local, shared, f"{label}, the commit is there")
        if view[-1][0] == local.view[-1][0]:
            return [(label, local._replace(at="publish", view=view), shared)]
        return self._lost(local, shared, f"{label}, the head moved")

    def _late(self, local: Writing, shared: Shared) -> list[Step]:
        line = shared.lines[local.line]
        if not line.files or self.commit not in ids(latest(line)):
            after = self._again(local)
            return [("looks late: the commit is not there", after, shared)]
        if len(shared.lines) > 1:
            after = Writing("late exists", local.line)
            return [("looks late: the commit is there", after, shared)]
        acked = self._acknowledged(local, shared)
        label = "looks late: the commit is there, acknowledges"
        return [(label, Writing(DONE, local.line), acked)]

    def _late_exists(self, local: Writing, shared: Shared) -> list[Step]:
        ended = Writing(DONE, local.line)
        if shared.lines[local.line].state != LIVE:
            return [("finds the branch deleted", ended, shared)]
        acked = self._acknowledged(local, shared)
        return [("sees that the branch exists, acknowledges", ended, acked)]


class Recoverer(Actor):
    """Resolves one slot, whichever it finds."""

    def __init__(self, number: int, rules: Rules) -> None:
        super().__init__("recoverer", number, rules)
        self.start: Recover | str = "start"

    def steps(self, local: Recover | str, shared: Shared) -> list[Step]:
        """Return the possible next steps."""
        if shared.dead & self.bit:
            return []
        if isinstance(local, Recover):
            found = [
                (label, DONE if after is None else after, result)
                for label, after, result in self.recovery_steps(local, shared, 0)
            ]
            if not self.rules.leases:
                dead = shared._replace(dead=shared.dead | self.bit)
                found.append(("dies", DONE, dead))
            return found
        if local == DONE:
            return []
        return [
            (
                f"seizes the slot of head {slot.head}",
                Recover("capture", slot.head, slot.intent),
                self.own(shared, 0, slot._replace(owner=self.number), slot),
            )
            for slot in shared.lines[0].slots
            if self.seizable(shared, slot)
        ]


class Cleaning(NamedTuple):
    """Where a cleanup is: what it captured, the tag it found."""

    at: str
    view: View = ()
    tag: int = 0


class Cleaner:
    """Keeps the newest version and what a tag names.

    No lease keeps it from running beside tag makers or other cleaners: a paused one would.
    """

    def __init__(self, number: int, rules: Rules, *, from_version: int = 2) -> None:
        self.name = f"cleaner {number + 1}"
        self.rules = rules
        self.from_version = from_version
        self.start = Cleaning("capture")

    def steps(self, local: Cleaning, shared: Shared) -> list[Step]:
        """Return the possible next steps."""
        line = shared.lines[0]
        if local.at == "capture" and line.state == LIVE:
            following = "floor" if self.rules.floor_before_refs else "refs"
            view = latest(line)
            if len(view) < self.from_version:
                return []
            return [(f"captures version {len(view)}", Cleaning(following, view), shared)]
        if local.at == "floor":
            floor = len(local.view)
            if self.rules.floor_grows:
                floor = max(line.floor, floor)
            following = "refs" if self.rules.floor_before_refs else "remove"
            result = with_line(shared, 0, line._replace(floor=floor))
            return [(f"writes the floor {floor}", local._replace(at=following), result)]
        if local.at == "refs":
            following = "remove" if self.rules.floor_before_refs else "floor"
            seen = local._replace(at=following, tag=shared.tag[0])
            return [(f"lists the tags: {shared.tag[0] or 'none'}", seen, shared)]
        if local.at == "remove":
            return self._remove(local, shared, line)
        return []

    def _remove(self, local: Cleaning, shared: Shared, line: Line) -> list[Step]:
        kept = pins_at(local.view, local.tag) if 0 < local.tag <= len(local.view) else ()
        for table, versions in enumerate(line.tables):
            floor = local.view[-1][1][table]
            left = tuple(
                item for item in versions if item[0] >= floor or (kept and kept[table] == item[0])
            )
            if left != versions:
                tables = (*line.tables[:table], left, *line.tables[table + 1 :])
                result = with_line(shared, 0, line._replace(tables=tables))
                return [(f"removes old versions of table {table}", local, result)]
        for view in line.files:
            if len(view) < len(local.view) and len(view) != local.tag:
                files = tuple(other for other in line.files if other != view)
                removed = max(line.removed, len(view))
                result = with_line(shared, 0, line._replace(files=files, removed=removed))
                return [(f"removes manifest version {len(view)}", local, result)]
        return [("is done", Cleaning(DONE), shared)]


class Tagger:
    """Names an old version: makes the tag, then reads the floor."""

    def __init__(self, rules: Rules) -> None:
        self.name = "tagger"
        self.rules = rules
        self.start = ("capture", 0)

    def steps(self, local: tuple[str, int], shared: Shared) -> list[Step]:
        """Return the possible next steps."""
        at, number = local
        line = shared.lines[0]
        if at == "capture":
            return [
                (f"wants version {wanted}", ("tag", wanted), shared)
                for wanted in range(max(line.floor, 1), len(latest(line)) + 1)
            ]
        if at == "tag":
            state, following = PENDING, "floor"
            if not self.rules.tag_reads_floor:
                state, following = KEPT, DONE
            made = shared._replace(tag=(number, state))
            return [(f"makes the tag of version {number}", (following, number), made)]
        if at == "floor":
            if number < line.floor:
                return [("reads the floor, which is above", ("undo", 0), shared)]
            made = shared._replace(tag=(number, KEPT))
            return [("reads the floor: the version is kept", (DONE, 0), made)]
        if at == "undo":
            return [("removes the tag: reclaimed", (DONE, 0), shared._replace(tag=(0, 0)))]
        return []


class Deleter(Actor):
    """Deletes a branch under its slot, and makes one of the same name again."""

    def __init__(self, number: int, rules: Rules) -> None:
        super().__init__("deleter", number, rules)
        self.start = Writing("capture", 0)

    def steps(self, local: Writing, shared: Shared) -> list[Step]:
        """Return the possible next steps."""
        if local.recover is not None:
            again = Writing("capture" if local.attempt == 0 else DONE, 0, local.attempt + 1)
            return [
                (f"(recovers) {label}", again if at is None else local._replace(recover=at), result)
                for label, at, result in self.recovery_steps(local.recover, shared, 0)
            ]
        if local.at == "slot":
            return self._take(local, shared)
        if local.at in ("capture", "verify", "fence"):
            return self._look(local, shared)
        if local.at in ("ref", "files", "drop", "create"):
            return self._delete(local, shared)
        return []

    def _take(self, local: Writing, shared: Shared) -> list[Step]:
        head = local.view[-1][0]
        slot = slot_at(shared.lines[0], head)
        if slot is None:
            taken = Slot(head, self.number, Intent(FENCE_COMMIT, FENCE_COMMIT, ()))
            after = local._replace(at="verify")
            return [(f"takes the slot of head {head}", after, self.own(shared, 0, taken))]
        if not self.seizable(shared, slot):
            return []
        seized = self.own(shared, 0, slot._replace(owner=self.number), slot)
        recover = Recover("capture", head, slot.intent)
        after = local._replace(recover=recover, view=())
        return [(f"seizes the slot of head {head}", after, seized)]

    def _look(self, local: Writing, shared: Shared) -> list[Step]:
        line = shared.lines[0]
        if local.at == "capture":
            view = latest(line)
            after = local._replace(at="slot", view=view)
            return [(f"captures version {len(view)}", after, shared)]
        if local.at == "verify":
            if latest(line) != local.view:
                left = self.leave(shared, 0, local.view[-1][0])
                return [("finds the head moved", Writing(DONE, 0), left)]
            following = "fence" if self.rules.retire else "ref"
            return [("verifies", local._replace(at=following), shared)]
        fenced = create_version(line, successor(local.view, FENCE_COMMIT, ()))
        if fenced is None:
            left = self.leave(shared, 0, local.view[-1][0])
            return [("cannot publish its last commit", Writing(DONE, 0), left)]
        after = local._replace(at="ref")
        return [("publishes a last commit", after, with_line(shared, 0, fenced))]

    def _delete(self, local: Writing, shared: Shared) -> list[Step]:
        line = shared.lines[0]
        head = local.view[-1:]
        if local.at == "ref":
            gone = with_line(shared, 0, line._replace(state=DELETED))
            following = "drop" if self.rules.retire else "files"
            return [("deletes the branch", Writing(following, 0, view=head), gone)]
        if local.at == "files":
            gone = with_line(shared, 0, line._replace(files=()))
            return [("deletes its versions", Writing("drop", 0, view=head), gone)]
        if local.at == "drop":
            after = Writing("create", 0)
            return [("deletes its slot", after, self.drop(shared, 0, head[0][0]))]
        place = 1 if self.rules.incarnations else 0
        made = new_line(LIVE, len(line.tables))._replace(life=line.life + 1, slots=line.slots)
        result = with_line(shared, place, made)
        if place == 0:
            # What was acknowledged went with the first life.
            result = result._replace(acks=(0,) * len(shared.acks))
        return [("makes the branch again", Writing(DONE, 0), result)]
