"""The command line does the same on a path and on a server."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.cli.main import scope_last
from tests.integration.conftest import Cli, cli
from tests.server.helpers import ADD, ALL, LINES, POLICY, SCHEMA, TOKENS, Serve

__all__ = ["cli"]
_ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(\+00:00)?")
_NUMBER = re.compile(r'("?(?:created_at|authored_at)"?: )\d+')
_CURSOR = re.compile(r'(cursor"?: "?)[\w-]{40,}')
_SCHEMA_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_MS = re.compile(r" +\d+\.\d{3}  ")

COMMANDS = [
    ["load", "--data", "people.jsonl", "--mode", "append", "--quiet"],
    ["load", "--data", "people.jsonl", "--mode", "append", "--quiet", "--json"],
    ["load", "--data", "people.jsonl", "--mode", "merge", "--dry-run"],
    [
        "load",
        "--data",
        "people.jsonl",
        "--mode",
        "merge",
        "--branch",
        "new",
        "--from",
        "main",
        "--json",
        "--quiet",
    ],
    ["load", "--data", "bad.jsonl", "--mode", "merge", "--quiet"],
    ["query", "-e", ALL],
    ["query", "-e", ALL, "--json"],
    ["query", "-e", ALL, "--format", "csv"],
    ["query", "-e", ALL, "--format", "kv", "--branch", "new"],
    ["query", "-e", "query q() { match { $p: Nope } }"],
    ["query", "-e", ALL, "--branch", "nope", "--json"],
    ["mutate", "-e", ADD, "--params", '{"n":"eve"}', "--quiet"],
    ["mutate", "-e", ADD, "--params", '{"n":"eve2"}', "--quiet", "--json"],
    [
        "mutate",
        "-e",
        ADD,
        "--params",
        '{"n":"x"}',
        "--if-commit",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "--quiet",
        "--json",
    ],
    ["snapshot"],
    ["snapshot", "--json"],
    ["export", "--type", "Knows"],
    ["export", "--table", "edge:Knows"],
    ["export", "--type", "Knows", "--format", "parquet", "--out", "knows.parquet"],
    ["export", "--format", "arrow"],
    ["branch", "create", "work", "--quiet"],
    ["branch", "create", "work", "--quiet"],
    ["branch", "list", "--json"],
    ["mutate", "-e", ADD, "--params", '{"n":"wim"}', "--branch", "work", "--quiet"],
    ["branch", "merge", "work", "--preview", "--json"],
    ["diff", "main", "work"],
    ["branch", "merge", "work", "--json", "--quiet"],
    ["branch", "delete", "new", "--yes", "--quiet"],
    ["tag", "create", "v1"],
    ["commit", "list"],
    ["commit", "list", "--json", "--limit", "2"],
    ["commit", "list", "--draw"],
    ["commit", "show", "01ARZ3NDEKTSV4RRFFQ69G5FAV"],
    ["commit", "blame", "Person", "eve"],
    ["changes", "poll", "--start", "beginning"],
    ["changes", "poll", "--start", "now", "--cursor", "x"],
    ["changes", "baseline", "--out", "base.jsonl"],
    ["changes", "baseline", "--out", "base.jsonl", "--kind", "edge"],
    ["schema", "plan", "--schema", "wider.pg"],
    ["branch", "delete", "work", "--yes", "--json", "--quiet"],
    ["schema", "apply", "--schema", "wider.pg", "--yes", "--quiet"],
    ["schema", "apply", "--schema", "wider.pg", "--yes", "--quiet", "--json"],
    ["blob", "stat", "node", "Person", "eve", "face"],
]


def comparable(text: str, place: str) -> str:
    ids: dict[str, str] = {}
    text = text.replace(f"/graphs/default{place}", "PLACE").replace(place, "PLACE")
    text = text.replace('"uri": "/graphs/default"', '"uri": "PLACE"')
    text = _ULID.sub(lambda found: ids.setdefault(found[0], f"#{len(ids)}"), text)
    text = _SCHEMA_HASH.sub("HASH", text)  # it covers the id a graph was born with
    for pattern in (_TIME, _MS):
        text = pattern.sub(" TIME ", text)
    return _CURSOR.sub(r"\1CURSOR", _NUMBER.sub(r"\1TIME", text))


def test_every_command_does_the_same_on_a_server(cli: Cli, serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "people.jsonl").write_text(LINES)
    (tmp_path / "bad.jsonl").write_text('{"type":"Person","data":{"name":7}}\n')
    wider = SCHEMA.replace("title: String @key", "title: String @key\n    year: I32?")
    (tmp_path / "wider.pg").write_text(wider)
    store = str(tmp_path / "g.omni")
    og.init(store, SCHEMA, durability="none").close()
    url = serve().url
    for command in COMMANDS:
        mine = cli(*command, "--store", store)
        theirs = cli(*command, "--server", url)
        assert theirs.code == mine.code, (command, mine, theirs)
        assert comparable(theirs.out, url) == comparable(mine.out, store), command
        assert comparable(theirs.err, url) == comparable(mine.err, store), command


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("OMNIGRAPH_HOME", str(folder))
    for name in ("OMNIGRAPH_PROFILE", "OMNIGRAPH_BEARER_TOKEN", "OMNIGRAPH_TOKEN_LAB"):
        monkeypatch.delenv(name, raising=False)
    return folder


def configure(home: Path, text: str) -> None:
    (home / "config.yaml").write_text(text, encoding="utf-8")


def test_logging_in_and_out(cli: Cli, home: Path, serve: Serve) -> None:
    api = serve(tokens=TOKENS, policy=POLICY)
    configure(home, f"servers: {{lab: {{url: '{api.url}'}}}}")
    assert cli("branch", "list", "--server", "lab").code == 6
    done = cli("login", "lab", "--token", TOKENS["act-lena"], "--json")
    credentials = home / "credentials"
    assert done.json == {
        "server": "lab",
        "credentials_path": str(credentials),
        "declared": True,
    }
    assert TOKENS["act-lena"] not in done.out + done.err
    assert stat.S_IMODE(credentials.stat().st_mode) == 0o600
    assert cli("branch", "list", "--server", "lab").out == "main\n"
    made = cli("mutate", "-e", ADD, "--params", '{"n":"a"}', "--server", "lab", "--json")
    assert made.json["actor_id"] == "act-lena"
    assert cli("logout", "lab").code == 0
    assert cli("logout", "lab").code == 0
    assert cli("branch", "list", "--server", "lab").code == 6
    credentials.chmod(0o644)
    shown = cli("branch", "list", "--server", "lab")
    assert shown.code == 1
    assert "chmod 600" in shown.err


def test_where_a_token_comes_from(
    cli: Cli, home: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = serve(tokens=TOKENS, policy=POLICY)
    configure(home, f"servers: {{lab: {{url: '{api.url}'}}, far: {{url: 'http://far.invalid'}}}}")

    def actor() -> Any:
        found = cli(
            "mutate",
            "-e",
            ADD,
            "--params",
            '{"n":"a"}',
            "--branch",
            "w",
            "--server",
            api.url,
            "--json",
        )
        return found.json.get("actor_id")

    cli("login", "lab", "--token", TOKENS["act-lena"])
    assert cli("branch", "create", "w", "--server", "lab").code == 0
    assert actor() == "act-lena"
    monkeypatch.setenv("OMNIGRAPH_TOKEN_LAB", TOKENS["act-omar"])
    assert actor() == "act-omar"
    monkeypatch.delenv("OMNIGRAPH_TOKEN_LAB")
    cli("logout", "lab")
    assert actor() is None
    cli("login", "far", "--token", TOKENS["act-lena"])
    assert actor() is None, "a token of another host must not be sent"
    monkeypatch.setenv("OMNIGRAPH_BEARER_TOKEN", TOKENS["act-omar"])
    assert actor() == "act-omar"


def test_profiles_and_defaults(
    cli: Cli, home: Path, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = serve(graph_id="books")
    store = str(tmp_path / "local.omni")
    og.init(store, SCHEMA, durability="none").close()
    configure(
        home,
        f"""
operator: {{actor: act-me}}
servers: {{lab: {{url: "{api.url}"}}}}
profiles:
  away: {{server: lab, default_graph: books}}
  here: {{store: "{store}"}}
  both: {{server: lab, store: x}}
surprise: 1
""",
    )
    shown = cli("snapshot", "--profile", "away")
    assert shown.code == 0, shown.err
    assert "unknown key 'surprise'" in shown.err
    monkeypatch.setenv("OMNIGRAPH_PROFILE", "here")
    made = cli("mutate", "-e", ADD, "--params", '{"n":"a"}', "--json")
    assert made.json["actor_id"] == "act-me"
    assert cli("optimize", "--profile", "away").code == 1
    assert cli("snapshot", "--profile", "both").code == 1
    assert cli("snapshot", "--profile", "none").code == 1
    listed = cli("profile", "list", "--json").out
    assert '"binding": "server=lab"' in listed
    assert cli("profile", "show", "away", "--json").json["endpoint"] == api.url
    monkeypatch.delenv("OMNIGRAPH_PROFILE")
    assert cli("snapshot").code == 2
    configure(home, f"servers: {{lab: {{url: '{api.url}'}}}}\ndefaults: {{server: lab}}")
    assert cli("snapshot").code == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["branch", "list", "g", "--server", "http://x.invalid"], 2),
        (["branch", "list", "http://x.invalid"], 1),
        (["branch", "list", "g", "--graph", "books"], 2),
        (["branch", "list", "--server", "unknown"], 1),
        (["optimize", "--server", "http://x.invalid"], 2),
        (["init", "g", "--server", "http://x.invalid", "--schema", "x.pg"], 2),
        (["mutate", "-e", ADD, "--server", "http://127.0.0.1:1/graphs/x", "--as", "me"], 1),
        (["branch", "list", "--server", "http://127.0.0.1:1"], 1),
        (["query", "--store", "g"], 2),
    ],
)
def test_scopes_that_make_no_sense(cli: Cli, home: Path, arguments: list[str], code: int) -> None:
    assert cli(*arguments).code == code


@pytest.mark.parametrize(
    "command", ["optimize", "repair", "cleanup", "ensure-indices", "recover", "dump"]
)
def test_what_works_on_storage_is_refused_for_a_reason(cli: Cli, home: Path, command: str) -> None:
    """Before anything is asked of the server, which is not there."""
    configure(
        home,
        "servers: {lab: {url: 'http://127.0.0.1:1'}}\n"
        "profiles: {away: {server: lab, default_graph: books}}",
    )
    extra = ["--out", "all.tar"] if command == "dump" else []
    shown = cli(command, "--profile", "away", *extra)
    assert shown.code == 1
    assert "this command works on storage" in shown.err


def test_destroying_something_on_a_server_needs_consent(
    cli: Cli, home: Path, serve: Serve, tmp_path: Path
) -> None:
    (tmp_path / "people.jsonl").write_text(LINES)
    url = serve().url
    assert cli("branch", "create", "work", "--server", url).code == 0
    for extra in ([], ["--json"]):
        refused = cli("branch", "delete", "work", "--server", url, *extra)
        assert refused.code == 1
        assert "--yes" in refused.err + refused.out
    load = ["load", "--data", "people.jsonl", "--mode", "overwrite", "--server", url]
    assert cli(*load).code == 1
    assert cli(*load, "--yes").code == 0
    assert cli("branch", "delete", "work", "--server", url, "--yes").code == 0


def test_stored_queries_and_aliases(cli: Cli, home: Path, serve: Serve) -> None:
    older = (
        "query older($a: I32, $top: I64?) { match { $p: Person  $p.age > $a } return { $p.name } }"
    )
    api = serve(queries={"people.gq": f"{older} {ADD}"}, graph_id="books")
    api.load()
    configure(
        home,
        f"""
servers: {{lab: {{url: "{api.url}"}}}}
aliases:
  seniors: {{server: lab, graph: books, query: older, args: [a], params: {{a: 90}}, format: csv}}
  adder: {{server: lab, query: add}}
""",
    )
    found = cli("query", "older", "--params", '{"a": 30}', "--server", "lab", "--format", "csv")
    assert found.out.split() == ["p.name", "ann"]
    assert cli("alias", "seniors").out.split() == ["p.name"]
    assert cli("alias", "seniors", "30").out.split() == ["p.name", "ann"]
    assert cli("alias", "seniors", "99", "--params", '{"a": 1}').out.split() == ["p.name", "ann"]
    assert cli("alias", "adder").code == 1
    assert cli("alias", "nope").code == 1
    assert cli("alias", "seniors", "1", "2").code == 2
    assert cli("query", "nope", "--server", "lab").code == 3
    made = cli("mutate", "add", "--params", '{"n": "zoe"}', "--server", "lab", "--json", "--quiet")
    assert made.json["query_name"] == "add"
    assert cli("mutate", "older", "--params", '{"a": 1}', "--server", "lab").code == 1
    assert cli("mutate", "add", "--store", "somewhere").code == 2


def test_stored_queries_of_a_server_are_listed(cli: Cli, home: Path, serve: Serve) -> None:
    text = (
        'query near($at: Vector(3), $ids: [String], $n: I64?) @description("the nearest") '
        "{ match { $p: Person } return { $p.name } }"
    )
    api = serve(queries={"near.gq": f"{text} {ADD}"}, graph_id="books")
    configure(
        home,
        f"""
servers: {{lab: {{url: "{api.url}"}}}}
profiles: {{night: {{server: lab, default_graph: books}}}}
""",
    )
    listed = cli("queries", "list", "--server", "lab")
    lines = [
        "mutation add($n: string, $a: int?)",
        "read near($at: vector(3), $ids: [string], $n: bigint?)",
        "    the nearest",
    ]
    assert listed.out.splitlines() == lines
    assert cli("queries", "list", "--profile", "night").out == listed.out
    found = cli("queries", "list", "--server", "lab", "--json").json["queries"]
    assert [(item["name"], item["mcp_expose"]) for item in found] == [("add", True), ("near", True)]
    assert cli("queries", "list", "--server", "lab", "--cluster", ".").code == 2
    assert cli("queries", "list").code == 2


def test_a_refused_token_is_answered_with_how_to_log_in(cli: Cli, home: Path, serve: Serve) -> None:
    api = serve(tokens={"ann": "secret-a"})
    configure(home, f'servers: {{lab: {{url: "{api.url}"}}}}')
    for command in (("branch", "list"), ("mutate", "-e", ADD, "--params", '{"n":"a"}')):
        shown = cli(*command, "--server", "lab")
        assert shown.code != 0
        assert "help: run: omnigraph login lab" in shown.err
    configure(home, "{}")
    assert "then run: omnigraph login NAME" in cli("branch", "list", "--server", api.url).err


def test_graphs_of_a_server(cli: Cli, home: Path, serve: Serve) -> None:
    assert cli("graphs", "list", "--server", serve().url).code == 1
    assert cli("graphs", "list").code == 2


def test_scope_flags_may_stand_before_the_command(cli: Cli, home: Path, serve: Serve) -> None:
    url = serve().url
    assert cli("--server", url, "--quiet", "mutate", "-e", ADD, "--params", '{"n":"a"}').code == 0
    assert cli(f"--server={url}", "branch", "list").out == "main\n"
    assert cli("--server", url, "optimize").code == 2
    assert scope_last(["--yes", "x", "--", "y"]) == ["x", "--yes", "--", "y"]
    assert scope_last(["--store"]) == ["--store"]
    assert scope_last(["x", "--store", "y"]) == ["x", "--store", "y"]


def test_older_names_warn_and_do_the_same(cli: Cli, home: Path, tmp_path: Path) -> None:
    (tmp_path / "people.jsonl").write_text(LINES)
    store = str(tmp_path / "g.omni")
    og.init(store, SCHEMA, durability="none").close()
    found = cli("ingest", "--data", "people.jsonl", "--branch", "new", "--store", store, "--json")
    assert (found.code, found.json["mode"], found.json["branch_created"]) == (0, "merge", True)
    assert "warning: 'ingest' is now 'load'" in found.err
    done = cli("change", "-e", ADD, "--params", '{"n":"eve"}', "--store", store)
    assert (done.code, "'change' is now 'mutate'" in done.err) == (0, True)
    done = cli("read", "-e", ALL, "--store", store, "--format", "csv")
    assert (done.out, "'read' is now 'query'" in done.err) == ("p.name,p.age\neve,null\n", True)
    shown = cli("--help").out
    assert not {"ingest", "read", "change"} & {
        line.split()[0] for line in shown.splitlines() if line
    }
    done = cli("export", store, "--jsonl")
    assert (done.code, "--jsonl" in done.err) == (0, True)


def test_writes_name_their_target_and_their_actor(cli: Cli, home: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "g.omni")
    og.init(store, SCHEMA, durability="none").close()
    made = cli("branch", "create", "work", "--store", store, "--as", "act-me", "--json")
    assert made.json["actor_id"] == "act-me"
    assert made.err == f"omnigraph branch create -> {store} (direct, local)\n"
    for command in (
        ["branch", "merge", "work"],
        ["branch", "delete", "work", "--as", "act-me"],
        ["optimize"],
        ["repair", "--confirm"],
        ["cleanup", "--keep", "2", "--confirm"],
    ):
        verb = " ".join(command[:2] if command[0] == "branch" else command[:1])  # fmt: skip
        done = cli(*command, "--store", store)
        assert (done.code, done.err) == (0, f"omnigraph {verb} -> {store} (direct, local)\n")
        assert cli("--quiet", *command, "--store", store).err in ("", *_GONE)


_GONE = ("error: branch 'work' does not exist\n",)


def test_cleanup_elsewhere_needs_consent(cli: Cli, home: Path) -> None:
    refused = cli("cleanup", "s3://bucket/g.omni", "--keep", "2", "--confirm")
    assert (refused.code, "--yes" in refused.err) == (1, True)


def test_the_configured_output_is_used(cli: Cli, home: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "g.omni")
    with og.init(store, SCHEMA, durability="none") as graph:
        graph.mutate(ADD, {"n": "a" * 25})
    ask = ("query", "-e", "query q() { match { $p: Person } return { $p.name } }", "--store", store)
    configure(home, "defaults: {output: csv}")
    assert cli(*ask).out == f"p.name\n{'a' * 25}\n"
    assert cli(*ask, "--format", "kv").out.startswith("1 row from branch main")
    configure(home, "defaults: {table_max_column_width: 10}")
    assert cli(*ask).out.splitlines()[-1] == "a" * 9 + "…"
    configure(home, "defaults: {table_max_column_width: 10, table_cell_layout: wrap}")
    assert cli(*ask).out.splitlines()[-3:] == ["a" * 10, "a" * 10, "a" * 5]
    for wrong in ("output: xml", "table_max_column_width: wide", "table_cell_layout: fold"):
        configure(home, f"defaults: {{{wrong}}}")
        assert cli(*ask).code == 1, wrong


def test_a_commit_of_a_branch_is_shown_against_its_parent(cli: Cli, tmp_path: Path) -> None:
    store = str(tmp_path / "g.omni")
    with og.init(store, SCHEMA, durability="none") as graph:
        graph.load(LINES.encode(), mode="append", branch="work", create_from="main")
        head = graph.commits.head("work").graph_commit_id
    shown = cli("commit", "show", head, "--store", store).out
    assert "node:Person: +2 rows" in shown
    assert "edge:Knows: +1 row" in shown
    first = cli("commit", "changes", head, "--store", store, "--limit", "2", "--json").json
    rest = cli("commit", "changes", head, "--store", store, "--json",
               "--page-token", first["next_page_token"]).json  # fmt: skip
    assert [len(page["changes"]) for page in (first, rest)] == [2, 1]
    assert "next_page_token" not in rest
    assert "next_page_token: " in cli("commit", "changes", head, store, "--limit", "1").out


def test_a_branch_and_a_snapshot_are_not_both_meant(cli: Cli, tmp_path: Path) -> None:
    both = ["query", "-e", ALL, "--store", "g", "--branch", "a", "--snapshot", "b"]
    assert cli(*both).code == 2


def test_a_container_told_two_things_says_so(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_STORE", "a")
    monkeypatch.setenv("OMNIGRAPH_CLUSTER", "b")
    assert cli("serve", "--unauthenticated").code == 64
