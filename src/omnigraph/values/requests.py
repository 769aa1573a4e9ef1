"""Bodies of HTTP requests. Values are taken as they are, never converted.

Members that are not known are refused: a misspelt one would silently mean something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

import msgspec
from msgspec import Meta

from omnigraph.errors import BadRequestError
from omnigraph.values.value import Json
from omnigraph.values.words import LoadWord

Mode = LoadWord
Resolve = Annotated[
    str | Json | None, Meta(description="ours, theirs, or decisions by Type or Type/id.")
]
Instant = Annotated[str | None, Meta(description="Instant, ISO 8601.")]


IGNORED: frozenset[str] = frozenset({"actor", "actor_id", "as"})
"""Whom a caller says to act for: its token decides, whatever it says."""


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body that is sent."""

    older: ClassVar[Mapping[str, str]] = {}
    """Other names members may have, with the names they have today."""
    may_be_missing: ClassVar[bool] = False
    """Whether a request without a body is good."""

    @classmethod
    def read(cls, content: bytes) -> Self:
        """Return the request in a body. Raises `BadRequestError`, which names the member."""
        if not content and cls.may_be_missing:
            return cls()
        try:
            body = msgspec.json.decode(content)
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadRequestError(f"the body is not valid JSON: {error}") from error
        if body is None and cls.may_be_missing:
            return cls()
        if isinstance(body, dict):
            for name, today in cls.older.items():
                if name in body:
                    body.setdefault(today, body.pop(name))
            body = {name: value for name, value in body.items() if name not in IGNORED}
        try:
            return msgspec.convert(body, cls)
        except msgspec.ValidationError as error:
            raise BadRequestError(_told(str(error))) from error


def _told(text: str) -> str:
    """Return what is wrong behind the member it is wrong with."""
    message, _, place = text.partition(" - at `$")
    place = place.removesuffix("`").removeprefix(".")
    return f"{place}: {message}" if place else message


class QueryRequest(Request, frozen=True, kw_only=True):
    """A read query and the state to run it on."""

    query: Annotated[str, Meta(description="Text of one or more queries.")]
    name: Annotated[str | None, Meta(description="Which query of the text to run.")] = None
    params: Json | None = None
    branch: str | None = None
    snapshot: Annotated[
        str | None, Meta(description="A state such as HEAD~1, or manifest:<branch>:v<N>.")
    ] = None
    version: Annotated[int | None, Meta(description="Graph version of the branch.")] = None
    tag: str | None = None
    timestamp: Instant = None
    explain: Annotated[bool, Meta(description="Answer with how the query ran as well.")] = False
    form: Annotated[
        Literal["rows", "typed", "graph"],
        Meta(description="`typed` tells what each column holds, `graph` also the nodes and edges."),
    ] = "rows"
    timeout: Annotated[
        Annotated[float, Meta(gt=0)] | None, Meta(description="Seconds after which to give up.")
    ] = None


class ReadRequest(Request, frozen=True, kw_only=True):
    """A read query under the older field names."""

    query_source: str
    query_name: str | None = None
    params: Json | None = None
    branch: str | None = None
    snapshot: str | None = None


class ChangeRequest(Request, frozen=True, kw_only=True):
    """A mutation query."""

    older: ClassVar[Mapping[str, str]] = {"query_source": "query", "query_name": "name"}

    query: str
    name: str | None = None
    params: Json | None = None
    branch: str | None = None
    dry_run: bool = False


class InvokeRequest(Request, frozen=True, kw_only=True):
    """Parameters of a stored query."""

    may_be_missing: ClassVar[bool] = True

    params: Json | None = None
    branch: str | None = None
    snapshot: str | None = None
    expect_mutation: bool | None = None
    dry_run: bool = False


class IngestRequest(Request, frozen=True, kw_only=True, rename={"from_": "from"}):
    """Entities to load, as JSONL text."""

    older: ClassVar[Mapping[str, str]] = {"from_": "from"}

    data: str
    branch: str | None = None
    from_: str | None = None
    mode: Mode = "merge"


class ExportRequest(Request, frozen=True, kw_only=True):
    """What to export."""

    branch: str | None = None
    snapshot: str | None = None
    version: int | None = None
    tag: str | None = None
    timestamp: str | None = None
    type_names: list[str] = msgspec.field(default_factory=list)
    table_keys: list[str] = msgspec.field(default_factory=list)


class BranchRequest(Request, frozen=True, kw_only=True, rename={"from_": "from"}):
    """A branch to make."""

    older: ClassVar[Mapping[str, str]] = {"from_": "from"}

    name: str
    from_: str | None = None


class MergeRequest(Request, frozen=True, kw_only=True):
    """A branch to merge, and how to decide conflicts."""

    source: str
    target: str | None = None
    delete_branch: bool = False
    resolve: Resolve = None
    property_merge: bool = False
    checks: Annotated[
        list[str], Meta(description="Queries that must return no rows once merged.")
    ] = msgspec.field(default_factory=list)


class SchemaRequest(Request, frozen=True, kw_only=True):
    """A schema to plan or apply."""

    schema_source: str
    allow_data_loss: bool = False


class LintRequest(Request, frozen=True, kw_only=True):
    """A text to check against the types of a state."""

    source: str
    language: Literal["gq", "pg"] = "gq"
    branch: str | None = None
    snapshot: str | None = None
    version: int | None = None
    tag: str | None = None


class SubgraphRequest(Request, frozen=True, kw_only=True):
    """Nodes, each as its type and its id."""

    nodes: list[tuple[str, str]]
    branch: str | None = None
    snapshot: str | None = None
    version: int | None = None
    tag: str | None = None


class TagRequest(Request, frozen=True, kw_only=True):
    """A state to name."""

    name: str
    branch: str | None = None
    snapshot: str | None = None
    version: int | None = None
    timestamp: Instant = None


class BaselineRequest(Request, frozen=True, kw_only=True):
    """A snapshot with the cursor that follows it; empty filters mean all of it."""

    branch: str | None = None
    kind: list[Literal["node", "edge"]] = msgspec.field(default_factory=list)
    type: list[str] = msgspec.field(default_factory=list)
    op: list[Literal["insert", "update", "delete"]] = msgspec.field(default_factory=list)


class OptimizeRequest(Request, frozen=True, kw_only=True):
    """A branch to optimize."""

    may_be_missing: ClassVar[bool] = True

    branch: str | None = None
    dry_run: Annotated[bool, Meta(description="Only tell what would be done.")] = False


class RepairRequest(Request, frozen=True, kw_only=True):
    """A branch to repair; without `confirm` it is only looked at."""

    may_be_missing: ClassVar[bool] = True

    branch: str | None = None
    confirm: Annotated[bool, Meta(description="Publish what provably changed no row.")] = False
    force: Annotated[bool, Meta(description="With confirm: publish everything found.")] = False
    discard: Annotated[bool, Meta(description="With confirm: undo what was found.")] = False


class CleanupRequest(Request, frozen=True, kw_only=True):
    """Which old versions go; by default it is only told which."""

    may_be_missing: ClassVar[bool] = True

    keep_versions: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="Versions of each branch that stay.")
    ] = None
    older_than_secs: Annotated[
        Annotated[float, Meta(ge=0)] | None, Meta(description="Only older versions go.")
    ] = None
    dry_run: Annotated[bool, Meta(description="Only tell what would go.")] = True


class ApplyCommitRequest(Request, frozen=True, kw_only=True):
    """A branch to make or undo the changes of a commit on."""

    branch: str | None = None
    resolve: Resolve = None
    property_merge: bool = False
