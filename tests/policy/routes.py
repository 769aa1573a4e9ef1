"""Every route of the server, with the rights it asks for and what it reveals.

The table is complete by test, and the page about policies shows it.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph as og
from omnigraph.policy import Access, Decision
from omnigraph.server import Settings, Token, Tokens, open_service, running

SCHEMA = "node P { k: String @key  face: Blob? }\nedge Likes: P -> P\n"
ALL = "query all() { match { $p: P } return { $p.k } }"
ADD = "query add($k: String) { insert P { k: $k } }"
OTHER, HIDDEN = "other", "hidden"
ROW, WORD, WHO, TAG = "canary-row", "canary-word", "canary-actor", "canary-tag"
NAME = "canary-branch"

Question = tuple[str, str | None]
"""An action, and the branch it is about: the one that is read or written, made or removed."""
Body = dict[str, Any] | str | bytes | None


@dataclass
class Switch:
    """A policy that allows what it is told to at the moment."""

    allows: Callable[[Question], bool] = lambda _question: False
    name: str = "switch"
    asked: list[Question] = field(default_factory=list)

    def decide(self, access: Access) -> Decision:
        if access.action.scope_key == "target_branch_scope":
            question = (str(access.action), access.target_branch)
        else:
            question = (str(access.action), access.branch)
        self.asked.append(question)
        return Decision(allowed=self.allows(question), message=access.describe())


class World:
    """A server whose branch `hidden` has what others may not learn; `other` has nothing of it."""

    def __init__(self, folder: Path) -> None:
        self._names = itertools.count()
        self.policy = Switch()
        with og.init(folder / "g", SCHEMA, durability="none") as graph:
            for branch in (OTHER, HIDDEN, NAME):
                graph.branches.create(branch)
            hidden = graph.as_actor(WHO)
            rows = [{"type": "P", "data": {"k": ROW, "face": "base64:YWJj"}}]
            hidden.load(rows, mode="append", branch=HIDDEN, message=WORD)
            graph.tags.create(TAG, branch=HIDDEN)
            graph.mutate(ADD, {"k": "plain"}, branch=OTHER)
            self.heads = {
                name: graph.commits.head(name).graph_commit_id for name in ("main", OTHER, HIDDEN)
            }
        (folder / "queries").mkdir()
        (folder / "queries" / "q.gq").write_text(f"{ALL}\n{ADD}", encoding="utf-8")
        settings = Settings(store=str(folder / "g"), queries=str(folder / "queries"))
        tokens = Tokens([Token.of("ann", "secret")])
        env = {"OMNIGRAPH_DURABILITY": "none"}
        self.service = open_service(settings, tokens, env, policy=self.policy)
        self._running = running(self.service)
        self.http = httpx.Client(
            base_url=self._running.__enter__(),
            headers={"Authorization": "Bearer secret"},
            timeout=60,
        )

    def close(self) -> None:
        self.http.close()
        self._running.__exit__(None, None, None)
        self.service.close()

    def new(self) -> str:
        return f"new-{next(self._names)}"

    @property
    def canaries(self) -> set[str]:
        return {ROW, WORD, WHO, TAG, NAME, self.heads[HIDDEN]}


@dataclass(frozen=True, kw_only=True)
class Route:
    """A route, a request for it that is about a branch, and the rights that it needs."""

    send: Callable[[World, str], tuple[str, Body]]
    needs: Callable[[str], tuple[Question, ...]]
    rights: str
    reveals: str
    lists: bool = False
    """It shows what the caller may read, and nothing to who may read nothing."""
    answers: tuple[int, ...] = (200, 201, 204)
    headers: Callable[[World, str], dict[str, str]] = lambda _world, _branch: {}


def query(path: str, body: Body = None) -> Callable[[World, str], tuple[str, Body]]:
    """Return a request; `{b}`, `{c}` and `{n}` are the branch, its head and a new name."""

    def fill(world: World, branch: str) -> tuple[str, Body]:
        names = {"{b}": branch, "{c}": world.heads[branch], "{n}": world.new()}
        return _filled(path, names), _filled(body, names)

    return fill


def _filled(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, names) for item in value]
    if not isinstance(value, str):
        return value
    for name, text in names.items():
        value = value.replace(name, text)
    return value


def reads(path: str, body: Body = None, reveals: str = "rows of the state") -> Route:
    return Route(
        send=query(path, body),
        needs=lambda b: (("read", b),),
        rights="`read` of the branch of the state",
        reveals=reveals,
    )


def exports(path: str, body: Body) -> Route:
    return Route(
        send=query(path, body),
        needs=lambda b: (("export", b),),
        rights="`export` of the branch",
        reveals="all rows of the state",
    )


def writes(path: str, body: Body, **more: Any) -> Route:
    return Route(
        send=query(path, body),
        needs=lambda b: (("change", b),),
        rights="`change` of the branch; with `dry_run` also `read`",
        reveals="how many rows changed; who may not read it is not told its head (412)",
        **more,
    )


def cares(path: str, body: Body) -> Route:
    return Route(
        send=query(path, body),
        needs=lambda _b: (("admin", None),),
        rights="`admin`",
        reveals="names and sizes of tables, of all branches",
    )


def listing(path: str, reveals: str) -> Route:
    return Route(
        send=query(path),
        needs=lambda b: (("read", b),),
        rights="`read` of some branch",
        reveals=reveals,
        lists=True,
    )


def _if_head(world: World, branch: str) -> dict[str, str]:
    return {"Omnigraph-If-Graph-Commit": world.heads[branch]}


LINE = '{"type":"P","data":{"k":"{n}"}}'
_sink = pa.BufferOutputStream()
pq.write_table(pa.table({"k": ["filed"]}), _sink)
FILE = bytes(_sink.getvalue())
HISTORY = "commits: who, when, why, what"

ROUTES: dict[str, Route] = {
    "GET /snapshot": reads("/snapshot?branch={b}", reveals="versions and sizes of tables"),
    "POST /query": reads("/query", {"query": ALL, "branch": "{b}"}),
    "POST /read": reads("/read", {"query_source": ALL, "branch": "{b}"}),
    "GET /entity": reads(f"/entity?table=node:P&id={ROW}&branch={{b}}"),
    "GET /entity/history": reads(f"/entity/history?type=P&id={ROW}&branch={{b}}"),
    "GET /neighbours": reads(f"/neighbours?type=P&id={ROW}&branch={{b}}"),
    "POST /subgraph": reads("/subgraph", {"nodes": [["P", ROW]], "branch": "{b}"}),
    "GET /blob": reads(f"/blob?entity=node&type=P&id={ROW}&property=face&branch={{b}}"),
    "HEAD /blob": reads(f"/blob?entity=node&type=P&id={ROW}&property=face&branch={{b}}"),
    "GET /diff": reads("/diff?from={b}~1&to={b}"),
    "GET /changes": reads("/changes?branch={b}&start=beginning"),
    "GET /commits": reads("/commits?branch={b}", reveals=HISTORY),
    "GET /commits/{commit_id}": reads("/commits/{c}", reveals=HISTORY),
    "GET /commits/{commit_id}/changes": reads("/commits/{c}/changes"),
    "GET /blame": reads(f"/blame?type=P&id={ROW}&branch={{b}}", reveals=HISTORY),
    "GET /schema/types": reads("/schema/types?branch={b}", reveals="the schema"),
    "POST /lint": reads("/lint", {"source": ALL, "branch": "{b}"}, reveals="the schema"),
    "GET /branches/heads": reads("/branches/heads?base={b}", reveals=HISTORY),
    "POST /branches/merge/preview": Route(
        send=query("/branches/merge/preview", {"source": "{b}", "target": OTHER}),
        needs=lambda b: (("read", b), ("read", OTHER)),
        rights="`read` of both branches",
        reveals="rows of both states",
    ),
    "POST /export": exports("/export", {"branch": "{b}"}),
    "POST /changes/baseline": exports("/changes/baseline", {"branch": "{b}"}),
    "GET /branches": listing("/branches?details=true", "the branches that may be read"),
    "GET /tags": listing("/tags", "the tags of branches that may be read"),
    "GET /history": listing("/history", "commits of the branches that may be read"),
    "GET /schema": listing("/schema", "the schema"),
    "POST /schema/plan": Route(
        send=query("/schema/plan", {"schema_source": SCHEMA}),
        needs=lambda _b: (("read", "main"),),
        rights="`read` of main",
        reveals="the schema, and rows of main that stand against a change",
    ),
    "POST /schema/apply": Route(
        send=query("/schema/apply", {"schema_source": SCHEMA}),
        needs=lambda _b: (("schema_apply", "main"), ("read", "main")),
        rights="`schema_apply` and `read` of main",
        reveals="the steps of the change; of other branches only those that may be read",
        answers=(200, 409),
    ),
    "GET /queries": Route(
        send=query("/queries"),
        needs=lambda _b: (("read", "main"),),
        rights="`read` of main",
        reveals="names and parameters of stored queries, not what they find",
    ),
    "POST /queries/{name}": Route(
        send=query("/queries/all", {"branch": "{b}"}),
        needs=lambda b: (("invoke_query", None), ("read", b)),
        rights="`invoke_query`, and `read` or `change` of the branch",
        reveals="rows of the state; without `invoke_query` there is no such query",
    ),
    "POST /queries/{name}/if-graph-commit": Route(
        send=query("/queries/add/if-graph-commit", {"branch": "{b}", "params": {"k": "{n}"}}),
        needs=lambda b: (("invoke_query", None), ("change", b)),
        rights="`invoke_query`, and `read` or `change` of the branch",
        reveals="rows of the state; without `invoke_query` there is no such query",
        headers=_if_head,
        answers=(200, 412),
    ),
    "POST /mutate": writes("/mutate", {"query": ADD, "params": {"k": "{n}"}, "branch": "{b}"}),
    "POST /change": writes(
        "/change", {"query_source": ADD, "params": {"k": "{n}"}, "branch": "{b}"}
    ),
    "POST /mutate/if-graph-commit": writes(
        "/mutate/if-graph-commit",
        {"query": ADD, "params": {"k": "{n}"}, "branch": "{b}"},
        headers=_if_head,
        answers=(200, 412),
    ),
    "POST /load": writes("/load", {"data": LINE, "branch": "{b}", "mode": "merge"}),
    "POST /ingest": writes("/ingest", {"data": LINE, "branch": "{b}", "mode": "merge"}),
    "POST /load/ndjson": writes("/load/ndjson?branch={b}&mode=merge", LINE),
    "POST /load/parquet": writes("/load/parquet?branch={b}&type=P", FILE),
    "POST /load/parquet/columns": Route(
        send=query("/load/parquet/columns?branch={b}", FILE),
        needs=lambda b: (("change", b),),
        rights="`change` of the branch",
        reveals="what is in the file that was sent",
    ),
    "POST /commits/{commit_id}/pick": Route(
        send=query("/commits/{c}/pick", {"branch": OTHER}),
        needs=lambda b: (("change", OTHER), ("read", b)),
        rights="`change` of the target, `read` of the commit's branch",
        reveals="conflicts, to who may read the target",
        answers=(200, 409),
    ),
    "POST /commits/{commit_id}/revert": Route(
        send=query("/commits/{c}/revert", {"branch": OTHER}),
        needs=lambda b: (("change", OTHER), ("read", b)),
        rights="`change` of the target, `read` of the commit's branch",
        reveals="conflicts, to who may read the target",
        answers=(200, 409),
    ),
    "POST /branches": Route(
        send=query("/branches", {"name": "{n}", "from": "{b}"}),
        needs=lambda b: (("branch_create", "*"), ("read", b)),
        rights="`branch_create` of the new name, `read` of the state it begins with",
        reveals="that state, on the new branch",
    ),
    "POST /tags": Route(
        send=query("/tags", {"name": "{n}", "branch": "{b}"}),
        needs=lambda b: (("branch_create", "*"), ("read", b)),
        rights="`branch_create` of the new name, `read` of the state it begins with",
        reveals="that state, on the new branch",
    ),
    "POST /branches/merge": Route(
        send=query("/branches/merge", {"source": "{b}", "target": OTHER}),
        needs=lambda b: (("branch_merge", OTHER), ("read", b)),
        rights="`branch_merge` of the target, `read` of the source; with `checks` `read` of both",
        reveals="the source, in the target; conflicts, to who may read the target",
        answers=(200, 409),
    ),
    "DELETE /branches/{branch}": Route(
        send=query("/branches/{b}"),
        needs=lambda b: (("branch_delete", b),),
        rights="`branch_delete` of the name",
        reveals="that it was there",
    ),
    "DELETE /tags/{name}": Route(
        send=query(f"/tags/{TAG}"),
        needs=lambda _b: (("branch_delete", TAG), ("branch_delete", HIDDEN), ("read", HIDDEN)),
        rights="`branch_delete` of the name and of the branch it is on, `read` of that",
        reveals="that it was there",
    ),
    "GET /tables": reads("/tables?branch={b}", reveals="versions and sizes of tables"),
    "POST /optimize": cares("/optimize", {"branch": "{b}"}),
    "POST /repair": cares("/repair", {"branch": "{b}"}),
    "POST /cleanup": cares("/cleanup", {}),
    "POST /recover": Route(
        send=query("/recover"),
        needs=lambda _b: (("admin", None),),
        rights="`admin`",
        reveals="how many interrupted writes there were, and how each ended",
    ),
    "GET /recoveries": Route(
        send=query("/recoveries"),
        needs=lambda _b: (("read", None), ("read", "main")),
        rights="`read` without a scope",
        reveals="what became of interrupted writes",
    ),
    "GET /metrics": Route(
        send=query("/metrics"),
        needs=lambda _b: (("admin", None),),
        rights="`admin`; on a server of a cluster `graph_list`; none without a policy",
        reveals="how much is done with each graph",
    ),
}

# What needs a token and no right, or not even a token.
FREE = {
    "GET /access": "what the policy says about the caller",
    "GET /whoami": "the caller's own name, and the graphs that may be listed",
    "GET /healthz": "that the process lives, and its release",
    "GET /readyz": "whether requests are welcome",
    "GET /.well-known/oauth-protected-resource": "that tokens are needed, and who issues them",
}
# Of a server of a cluster only; `tests/server/test_clusters.py` asks these.
OF_CLUSTERS = {
    "GET /graphs": "`graph_list`",
    "POST /cluster/plan": "`config_manage`",
    "GET /cluster/deployments": "`config_manage`",
    "POST /cluster/deployments": "`config_manage`",
    "GET /cluster/deployments/{deployment_id}": "`config_manage`",
}


def page() -> str:
    """Return the table as the page about policies has it: by rights, with what is revealed."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, route in ROUTES.items():
        groups.setdefault((route.rights, route.reveals), []).append(name)
    for name, reveals in FREE.items():
        groups[f"no right ({name.partition('/')[2]})", reveals] = [name]
    for name, right in OF_CLUSTERS.items():
        groups.setdefault((right, "what a cluster is made of"), []).append(name)
    lines = (
        f"- {rights.split(' (')[0] if rights.startswith('no right') else rights}: {reveals}. "
        + ", ".join(f"`{name}`" for name in names)
        for (rights, reveals), names in groups.items()
    )
    return "\n".join(_wrapped(line) for line in lines)


def _wrapped(line: str) -> str:
    # The names of routes hold a blank each, which stays where it is.
    kept = re.sub(r"`[^`]*`", lambda found: found[0].replace(" ", "\0"), line)
    found = textwrap.fill(
        kept, 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return found.replace("\0", " ")


if __name__ == "__main__":
    print(page())  # noqa: T201 - it is for the page about policies
