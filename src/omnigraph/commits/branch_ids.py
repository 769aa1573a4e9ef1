"""Names of branches, and which life of a name is meant."""

from __future__ import annotations

import re
from urllib.parse import quote

from omnigraph.errors import BadRequestError
from omnigraph.values.commits import MAIN
from omnigraph.values.commits import MANIFEST as MANIFEST
from omnigraph.values.commits import BranchId as BranchId

HEAD = "HEAD"
NAME_MAX = 128
ENCODED_MAX = 160
"""Longest name as it appears, percent-encoded, in the name of a file, which has a limit."""
_PART = re.compile(r"[^\W_][\w.-]*")
_ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


class BranchName(str):
    """A name that stands for one life of a branch, and for no namesake made after it."""

    uid: str

    def __new__(cls, branch: BranchId) -> BranchName:
        """Name a branch."""
        name = super().__new__(cls, branch.name)
        name.uid = branch.uid
        return name


MAIN_BRANCH = BranchId(MAIN, MAIN)


def new_branch(name: str, ulid: str) -> BranchId:
    """Return a new life of a name."""
    return BranchId(name, f"{name}.{ulid}")


def parse_branch_uid(text: str) -> BranchId | None:
    """Return the branch a line of manifest versions belongs to; None for a foreign one."""
    if text == MAIN:
        return MAIN_BRANCH
    name, separator, ulid = text.rpartition(".")
    return BranchId(name, text) if separator and _ULID.fullmatch(ulid) else None


def check_branch_name(name: str) -> None:
    """Refuse names a branch cannot have. Raises `BadRequestError`."""
    if name == MAIN:
        raise BadRequestError("the main branch is always there", hint="choose another name")
    check_name(name, "branch")


def check_name(name: str, what: str) -> None:
    """Refuse what neither a branch nor a tag can be called. Raises `BadRequestError`."""
    if name == HEAD:
        raise BadRequestError(
            "HEAD is the newest state of a branch, so nothing else is called that",
            hint="choose another name",
        )
    parts = name.split("/")
    wrong = (
        not name
        or len(name) > NAME_MAX
        or len(quote(name, safe="")) > ENCODED_MAX
        or ".." in name
        or any(not _PART.fullmatch(part) or part.endswith((".", ".lock")) for part in parts)
    )
    if wrong:
        raise BadRequestError(
            f"{name!r} is not a {what} name",
            hint="letters, digits, '-', '_' and '.', parts joined by '/', each beginning with "
            f"a letter or digit, at most {NAME_MAX} characters ('/' and letters outside ASCII "
            "count more)",
        )


def collides(name: str, other: str) -> bool:
    """Whether one name is the other, or a folder of it."""
    return name == other or name.startswith(f"{other}/") or other.startswith(f"{name}/")
