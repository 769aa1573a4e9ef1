"""States as people write them: `HEAD`, `main~2`, `dev^`, a commit prefix, `main@{5 minutes ago}`.

    revision = anchor { step }
    anchor   = branch [ "@" version | "@{" moment "}" ] | tag | commit | version | moment
    step     = "^" [ "1" | "2" ] | "~" [ number ]

A commit is its id, or how only its id begins. `HEAD` is the newest state of the branch that is
asked about, main if none is. A step leads to the parent: `^2` to the one a merge took in, `~3`
three first parents back. A moment is an ISO date or instant, UTC unless it names a zone, or such as
`yesterday` and `5 minutes ago`.
"""

from __future__ import annotations

import datetime
import re

from msgspec import Struct

from omnigraph import clock
from omnigraph.commits import MAIN, BranchState, GraphCommit, Tag
from omnigraph.commits.branch_ids import HEAD as HEAD
from omnigraph.commits.branch_ids import BranchName
from omnigraph.commits.open_branches import OpenBranch
from omnigraph.errors import NotFoundError, PolicyDeniedError
from omnigraph.graph.permits import Reachable
from omnigraph.ids import is_ulid
from omnigraph.wording import resembling

PREFIX_CHARS_MIN = 4
CANDIDATES_MAX = 8

_ALL_STEPS = re.compile(r"(?:\^[12]?|~\d{0,9})*")
_STEP = re.compile(r"\^[12]?|~\d*")
_AT_MOMENT = re.compile(r"(?P<branch>.*)@\{(?P<moment>[^{}]*)\}", re.DOTALL)
_AT_VERSION = re.compile(r"(?P<branch>.+)@(?P<version>\d{1,18})", re.DOTALL)
_AGO = re.compile(r"(?P<count>\d{1,9}|an?|one)\s+(?P<unit>second|minute|hour|day|week)s?\s+ago")
_PREFIX = re.compile(r"[0-9A-HJKMNP-TV-Z]+", re.IGNORECASE)
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}


class Revision(Struct, frozen=True, kw_only=True):
    """A name of a state, taken apart: where to begin, and the parents to go to from there."""

    anchor: str
    moment: str | None = None
    version: int | None = None
    steps: tuple[tuple[int, int], ...] = ()
    """Which parent, 1 or the one a merge took in, 2; and how many times."""


def parse_revision(text: str) -> Revision:
    """Take a name apart; what it means is found out by looking."""
    anchor = text.rstrip("^~0123456789")
    steps = text[len(anchor) :]
    if not steps.startswith(("^", "~")):
        cut = min((n for n in (steps.find("^"), steps.find("~")) if n >= 0), default=len(steps))
        anchor, steps = anchor + steps[:cut], steps[cut:]
    if not _ALL_STEPS.fullmatch(steps):
        return Revision(anchor=text)
    parents: list[tuple[int, int]] = []
    for step in _STEP.findall(steps):
        number = int(step[1:] or 1)
        parents.append((number, 1) if step[0] == "^" else (1, number))
    if (moment := _AT_MOMENT.fullmatch(anchor)) is not None:
        return Revision(anchor=moment["branch"], moment=moment["moment"], steps=tuple(parents))
    if (version := _AT_VERSION.fullmatch(anchor)) is not None:
        number = int(version["version"])
        return Revision(anchor=version["branch"], version=number, steps=tuple(parents))
    return Revision(anchor=anchor, steps=tuple(parents))


def parse_moment(text: str) -> datetime.datetime | None:
    """Return the instant a text means, None if it means none."""
    word = " ".join(text.lower().split())
    now = datetime.datetime.fromtimestamp(clock.now_s(), datetime.UTC)
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if word in ("now", "today", "yesterday"):
        return {"now": now, "today": day, "yesterday": day - datetime.timedelta(days=1)}[word]
    if (ago := _AGO.fullmatch(word)) is not None:
        count = int(ago["count"]) if ago["count"].isdigit() else 1
        seconds = min(count * _UNITS[ago["unit"]], int(now.timestamp()))
        return now - datetime.timedelta(seconds=seconds)
    try:
        moment = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)


def resolve_revision(
    lines: Reachable, name: str | int, *, branch: str = MAIN
) -> tuple[OpenBranch, BranchState]:
    """Return the state a name means; `branch` is where `HEAD`, versions and moments are.

    A branch wins over a tag of the same name, and both over a prefix of a commit id.
    """
    if isinstance(name, int):
        line = lines.get(branch)
        line.manifest.capture()
        return line, lines.state(line, name)
    if isinstance(name, BranchName):
        # One life of a branch, which its name alone would not tell from a namesake.
        line = lines.get(name)
        return line, line.manifest.capture()
    revision = parse_revision(name)
    place = _anchored(lines, revision, branch)
    if place is None:
        raise _unknown(lines, name, revision)
    line, state = place
    if not revision.steps:
        return line, state
    line, commit = _walk(lines, line, state.head, revision)
    return line, lines.state_of(line, commit)


def resolve_commit(lines: Reachable, name: str) -> tuple[OpenBranch, GraphCommit]:
    """Return the commit that made the state a name means, and a branch that has it."""
    if is_ulid(name):
        return lines.containing(name)
    line, state = resolve_revision(lines, name)
    return line, state.head


def has_branch(lines: Reachable, name: str) -> bool:
    """Whether there is a branch of this name."""
    return name == MAIN or any(branch.name == name for branch in lines.directory.ids())


def at_moment(
    lines: Reachable, branch: str, moment: datetime.datetime
) -> tuple[OpenBranch, BranchState]:
    """Return the state a branch had at an instant."""
    line = lines.get(branch)
    newest = line.manifest.capture()
    microseconds = int(moment.timestamp() * 1e6)
    commits = line.manifest.history.newest_first(newest.version, until_us=microseconds)
    last = next(commits, None)
    if last is None:
        raise NotFoundError(
            f"the graph did not exist at {moment.isoformat()}",
            hint="name a later moment; `omnigraph commit list` shows when commits were made",
        )
    return line, lines.state_of(line, last)


def at_tag(lines: Reachable, tag: Tag) -> tuple[OpenBranch, BranchState]:
    """Return the state a tag names; of commits published together it names one."""
    line, state = lines.at(tag.branch, tag.version)
    if tag.commit_id is not None:
        state = lines.state_of(line, line.manifest.history.commits[tag.commit_id])
    return line, state


def _anchored(
    lines: Reachable, revision: Revision, branch: str
) -> tuple[OpenBranch, BranchState] | None:
    name = revision.anchor
    if revision.moment is not None:
        moment = parse_moment(revision.moment)
        if moment is None:
            raise NotFoundError(
                f"'{revision.moment}' is not a point in time",
                hint="write an ISO date or instant, yesterday, or such as 5 minutes ago",
            )
        return at_moment(lines, branch if name in ("", HEAD) else name, moment)
    if revision.version is not None:
        line = lines.get(branch if name == HEAD else name)
        line.manifest.capture()
        return line, lines.state(line, revision.version)
    if has_branch(lines, name) or name == HEAD:
        line = lines.get(name if has_branch(lines, name) else branch)
        return line, line.manifest.capture()
    return _other(lines, name, branch)


def _other(lines: Reachable, name: str, branch: str) -> tuple[OpenBranch, BranchState] | None:
    """Return the state of a name that is no branch's."""
    if is_ulid(name):
        line, commit = lines.containing(name)
        return line, lines.state_of(line, commit)
    tag = next((item for item in lines.directory.tags() if item.name == name), None)
    if tag is not None:
        return at_tag(lines, tag)
    if name.isdigit() and len(name) <= 18:
        line = lines.get(branch)
        line.manifest.capture()
        return line, lines.state(line, int(name))
    if (match := _by_prefix(lines, name)) is not None:
        line, commit = match
        return line, lines.state_of(line, commit)
    moment = parse_moment(name)
    return None if moment is None else at_moment(lines, branch, moment)


def _by_prefix(lines: Reachable, prefix: str) -> tuple[OpenBranch, GraphCommit] | None:
    if len(prefix) < PREFIX_CHARS_MIN or _PREFIX.fullmatch(prefix) is None:
        return None
    wanted = prefix.upper()
    matches: dict[str, tuple[OpenBranch, GraphCommit]] = {}
    for line in _readable(lines, [item.name for item in lines.directory.ids()]):
        line.manifest.capture()
        for commit in line.manifest.history.starting_with(wanted):
            matches.setdefault(commit.graph_commit_id, (line, commit))
    if len(matches) > 1:
        shown = [_described(commit) for _line, commit in list(matches.values())[-CANDIDATES_MAX:]]
        raise NotFoundError(
            f"{len(matches)} commits begin with '{prefix}'", hint="it may be " + "; ".join(shown)
        )
    return next(iter(matches.values()), None)


def _described(commit: GraphCommit) -> str:
    moment = commit.created_at.strftime("%Y-%m-%d %H:%M:%S")
    said = f" {(commit.message or '').splitlines()[0][:40]!r}" if commit.message else ""
    return f"{commit.graph_commit_id} ({commit.kind}, {moment}{said})"


def _readable(lines: Reachable, names: list[str]) -> list[OpenBranch]:
    """Return branches as far as the caller may look at them."""
    branches: list[OpenBranch] = []
    for name in names:
        try:
            branches.append(lines.get(name))
        except (PolicyDeniedError, NotFoundError):
            continue
    return branches


def _walk(
    lines: Reachable, line: OpenBranch, commit: GraphCommit, revision: Revision
) -> tuple[OpenBranch, GraphCommit]:
    for which, count in revision.steps:
        for taken in range(count):
            parent = commit.parent_commit_id if which == 1 else commit.merged_parent_commit_id
            if parent is None:
                what = "is not a merge" if which == 2 else "is the first one"
                raise NotFoundError(
                    f"commit {commit.graph_commit_id} {what}: it has no such parent",
                    hint=f"{taken} of {count} steps could be taken",
                )
            known = line.manifest.history.commits.get(parent)
            line, commit = (line, known) if known is not None else lines.containing(parent)
    return line, commit


def _unknown(lines: Reachable, name: str, revision: Revision) -> NotFoundError:
    """Return the error for a name of nothing, with the names that may have been meant."""
    owners = {tag.name: tag.branch.name for tag in lines.directory.tags()}
    owners |= {item.name: item.name for item in lines.directory.ids()}
    close = resembling(revision.anchor, owners)
    # The caller must be allowed to know of it.
    if close is not None and not _readable(lines, [owners[close]]):
        close = None
    message = f"'{name}' is not a branch, tag, commit id or version"
    if ".." in name:
        return NotFoundError(message, hint="name two states one after the other, without `..`")
    if close is not None:
        return NotFoundError(message, hint=f"did you mean '{close}'?")
    return NotFoundError(message, hint="use branch@version for a version of a branch")
