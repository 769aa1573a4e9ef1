"""Typical mistakes on the command line: each is told in words, with help, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.main import main

SCHEMA = """\
node Person { name: String @key  age: I32?  born: Date? }
edge Knows: Person -> Person { since: Date? }
"""
QUERIES = """\
query all() { match { $p: Person } return { $p.name } }
query by($n: String) { match { $p: Person { name: $n } } return { $p.age } }
query add($n: String) { insert Person { name: $n } }
"""
FILES: dict[str, str | bytes] = {
    "s.pg": SCHEMA,
    "q.gq": QUERIES,
    "broken.pg": "node A { a String }\n",
    "required.pg": SCHEMA.replace("age: I32?", "age: I32"),
    "semi.csv": "name;age\nbob;3\n",
    "column.csv": "namee,age\nbob,3\n",
    "ok.csv": "name,age\nbob,3\n",
    "type.jsonl": '{"type":"Persn","data":{"name":"x"}}\n',
    "end.jsonl": '{"edge":"Knows","from":"ann","to":"zed"}\n',
    "twice.jsonl": '{"type":"Person","data":{"name":"ann"}}\n',
    "field.jsonl": '{"type":"Person","data":{"name":"x","size":1}}\n',
    "torn.jsonl": '{"type":"Person"\n',
    "date.jsonl": '{"type":"Person","data":{"name":"x","born":"01.02.2020"}}\n',
    "number.jsonl": '{"type":"Person","data":{"name":"x","age":"three"}}\n',
    "rows.xlsx": "",
    # ---- written by other programs, or torn
    "latin.pg": "// Stra\xdfe\n".encode("latin-1"),
    "latin.csv": "name,age\nJos\xe9,3\n".encode("latin-1"),
    "latin.jsonl": '{"type":"Person","data":{"name":"Jos\xe9"}}\n'.encode("latin-1"),
    "wide.csv": "name,age\nbob,3\n".encode("utf-16"),
    "short.csv": "name,age\nbob\n",
    "quote.csv": 'name,age\n"bob,3\nann,4\n',
    "twice.csv": "name,name\na,b\n",
    "tabs.tsv": "name\tage\nbob\t3\n",
    "not.parquet": "name,age\nbob,3\n",
    "array.json": '[{"type":"Person","data":{"name":"x"}}]\n',
    "pretty.jsonl": '{\n  "type": "Person"\n}\n',
    "flat.jsonl": '{"name":"x","age":1}\n',
    "deep.jsonl": '{"type":"Person","data":' + "[" * 5_000 + "]" * 5_000 + "}\n",
    "large.jsonl": '{"type":"Person","data":{"name":"x","age":99999999999}}\n',
    "escape.jsonl": '{"type":"Persn\\u001b[31m","data":{"name":"x"}}\n',
    "empty.gq": "",
    "curly.gq": "query q() { match { $p: Person { name: \u201cann\u201d } } return { $p.name } }",
    "space.gq": "query q()\u00a0{ match { $p: Person } return { $p.name } }",
    "params.json": '{"n": "ann"}',
    "list.json": '["ann"]',
    "rules.yaml": "a: [b\n",
}
FOLDERS = ("folder", "folder.csv", "links")
G = ("--store", "g")
FROM_FILE = ("--query", "q.gq", *G)
APPEND = ("--mode", "append")


def ask(text: str) -> tuple[str, ...]:
    return ("query", "-e", text, *G)


def where(condition: str) -> tuple[str, ...]:
    return ask(f"query q() {{ match {{ $p: Person  {condition} }} return {{ $p.name }} }}")


# What is typed; the exit code; words of the message; words of the help.
MISTAKES: list[tuple[tuple[str, ...], int, str, str]] = [
    # ---- commands and where the graph is
    (("queryy",), 2, "No such command 'queryy'", "Did you mean 'query'?"),
    (("query", "all", "--query", "q.gq"), 2, "name a graph", "set OMNIGRAPH_STORE"),
    (("query", "all", "--query", "q.gq", "--store", "nowhere"), 3, "no graph at", ""),
    (("query", *G), 2, "give --query FILE or -e GQ", ""),
    (("branch", "list", "g", "--store", "g"), 2, "name the graph once", ""),
    (("init", "g", "--schema", "s.pg"), 5, "already holds a graph", "choose another place"),
    (("init", "h", "--schema", "none.pg"), 3, "file not found: none.pg", ""),
    (("init", "h", "--schema", "broken.pg"), 1, "expected `:` after property name `a`", ""),
    # ---- habits from other languages and from shells
    (ask("MATCH (p:Person) RETURN p.name"), 1, "expected `query`", "this looks like Cypher"),
    (ask("SELECT name FROM Person"), 1, "expected `query`", "this looks like SQL"),
    (ask("query q() { match { (p:Person) } return { $p.name } }"), 1, "P00", "like Cypher"),
    (
        ask("query q() { match { $p: Person } return { $p.name } order by { $p.name } }"),
        1,
        "after `order`",
        "write `order { ... }`",
    ),
    (ask("query q() { match { : Person } return { .name } }"), 1, "P00", "single quotes"),
    (where('$p.name == "a"'), 1, "expected a value, found `=`", "one `=` compares"),
    (where("$p.name = 'a'"), 1, "unexpected character", "double quotes"),
    # ---- names and types in queries
    (
        ask("query q() { match { $p: Persn } return { $p.name } }"),
        1,
        "unknown node type `Persn`",
        "did you mean `Person`?",
    ),
    (
        ask("query q() { match { $p: Person } return { $p.nme } }"),
        1,
        "has no property `nme`",
        "did you mean `name`?",
    ),
    (where("$p know $f"), 1, "unknown edge", "did you mean"),
    (where('$p.age > "3"'), 1, "cannot compare I32? with String", ""),
    (where('$p.born > "2020-01-01"'), 1, "cannot compare Date? with String", "date("),
    (("query", "al", *FROM_FILE), 3, "no query named 'al'", "did you mean `all`?"),
    (("query", *FROM_FILE), 1, "name one of the queries: all, by, add", ""),
    (("query", "all", "--query", "none.gq", *G), 3, "file not found: none.gq", ""),
    (("query", "add", *FROM_FILE, "--param", "n=x"), 1, "query 'add' writes", "omnigraph mutate"),
    (("mutate", "all", *FROM_FILE), 1, "query 'all' reads", "omnigraph query"),
    # ---- parameters
    (("query", "by", *FROM_FILE), 1, "parameter 'n': not provided, expected String", ""),
    (
        ("query", "by", *FROM_FILE, "--param", "nn=ann"),
        1,
        "declares no such parameter",
        "did you mean `n`?",
    ),
    (("query", "by", *FROM_FILE, "--param", "n=3"), 1, "expected String, got an integer", ""),
    (("query", "by", *FROM_FILE, "--param", "n"), 2, "is not NAME=VALUE", ""),
    (("query", "by", *FROM_FILE, "--param", "n=a", "--param", "n=b"), 2, "given twice", ""),
    (("query", "by", *FROM_FILE, "--params", "{n: 1}"), 1, "not valid JSON", "--param NAME=VALUE"),
    # ---- states
    (
        ("query", "all", *FROM_FILE, "--branch", "dve"),
        3,
        "branch 'dve' does not exist",
        "did you mean 'dev'?",
    ),
    (("query", "all", *FROM_FILE, "--at", "v2"), 3, "'v2' is not a branch, tag", "branch@version"),
    (
        ("query", "all", *FROM_FILE, "--at", "main@{2001-01-01}"),
        3,
        "the graph did not exist at 2001-01-01",
        "name a later moment",
    ),
    (
        ("query", "all", *FROM_FILE, "--at", "main@{sometime}"),
        3,
        "'sometime' is not a point in time",
        "5 minutes ago",
    ),
    (("query", "g", "all", "--query", "q.gq"), 3, "no graph at", ""),
    (
        ("query", "all", *FROM_FILE, "--at", "main", "--tag", "v1"),
        2,
        "--at and --tag name a state each",
        "",
    ),
    (("commit", "show", "HEAD~9", "g"), 3, "is the first one", "1 of 9 steps"),
    (("diff", "main", "dve", "g"), 3, "'dve' is not a branch", "did you mean 'dev'?"),
    (("tag", "delete", "v2", "g"), 3, "tag 'v2' does not exist", ""),
    # ---- output
    (("query", "all", *FROM_FILE, "--out", "o.xls"), 1, "'.xls' files cannot be written", ".csv"),
    (("query", "all", *FROM_FILE, "--out", "o"), 1, "the name has no ending", "--format"),
    (("query", "all", *FROM_FILE, "--format", "xml"), 2, "'xml' is not one of", ""),
    (("export", "g", "--table", "Person"), 1, "is not a table key", "use node:Type"),
    (("export", "g", "--out", "x.csv"), 1, "'.csv' files cannot be written", ".jsonl"),
    (
        ("export", "g", "--type", "Persn"),
        3,
        "unknown export type 'Persn'",
        "did you mean 'Person'?",
    ),
    (("commit", "blame", "Persn", "ann", "g"), 3, "unknown type 'Persn'", "did you mean 'Person'?"),
    # ---- loading
    (("load", "g", "--data", "twice.jsonl"), 2, "Missing option '--mode'", "append"),
    (
        ("load", "g", "--data", "twice.jsonl", "--mode", "upsert"),
        2,
        "'upsert' is not one of",
        "merge",
    ),
    (("load", "g", "--data", "none.jsonl", *APPEND), 3, "file not found: none.jsonl", ""),
    (
        ("load", "g", "--data", "ok.csv", *APPEND),
        1,
        "does not say of which type",
        "--data Type=FILE",
    ),
    (
        ("load", "g", "--data", "Persn=ok.csv", *APPEND),
        3,
        "unknown type 'Persn'",
        "did you mean 'Person'?",
    ),
    (
        ("load", "g", "--data", "Person=semi.csv", *APPEND),
        1,
        "unknown column 'name;age'",
        "separated by ',', unless a mapping names another delimiter",
    ),
    (
        ("load", "g", "--data", "Person=column.csv", *APPEND),
        1,
        "unknown column 'namee'",
        "did you mean 'name'?",
    ),
    (("load", "g", "--data", "Person=rows.xlsx", *APPEND), 1, "rows.xlsx", "known are"),
    (("load", "g", "--data", "Person=-", *APPEND), 2, "standard input is read as JSONL", "CSV"),
    (
        ("load", "g", "--data", "type.jsonl", *APPEND),
        1,
        "line 1: unknown node type 'Persn'",
        "did you mean 'Person'?",
    ),
    (("load", "g", "--data", "end.jsonl", *APPEND), 1, "dst 'zed' not found in Person", ""),
    (
        ("load", "g", "--data", "twice.jsonl", *APPEND),
        5,
        "Person 'ann' already exists",
        "nothing was written",
    ),
    (("load", "g", "--data", "field.jsonl", *APPEND), 1, "unknown input field 'size'", ""),
    (("load", "g", "--data", "torn.jsonl", *APPEND), 1, "line 1: not valid JSON", ""),
    (("load", "g", "--data", "date.jsonl", *APPEND), 1, "not of the form YYYY-MM-DD", ""),
    (("load", "g", "--data", "number.jsonl", *APPEND), 1, "property 'age'", ""),
    # ---- branches, messages, schemas
    (
        ("mutate", "add", *FROM_FILE, "--param", "n=x", "--branch", "dve"),
        3,
        "branch 'dve' does not exist",
        "did you mean 'dev'?",
    ),
    (
        ("mutate", "add", *FROM_FILE, "--param", "n=x", "-m", " "),
        1,
        "the message is empty",
        "leave it out",
    ),
    (("branch", "create", "dev", "g"), 5, "branch 'dev' exists already", "choose another name"),
    (("branch", "create", "no good", "g"), 1, "is not a branch name", "at most 128 characters"),
    (
        ("branch", "create", "x", "g", "--from", "mainn"),
        3,
        "'mainn' is not a branch",
        "did you mean 'main'?",
    ),
    (("branch", "delete", "main", "g"), 1, "the main branch cannot be deleted", ""),
    (("branch", "merge", "main", "g"), 1, "a branch cannot be merged into itself", ""),
    (
        ("schema", "plan", "g", "--schema", "broken.pg"),
        1,
        "expected `:` after property name `a`",
        "",
    ),
    (
        ("schema", "apply", "g", "--schema", "required.pg", "--yes"),
        5,
        "only main",
        "merge or delete them first",
    ),
    # ---- files of another kind, from other programs, or in other places
    (("init", "h", "--schema", "latin.pg"), 1, "not valid UTF-8", "save the file as UTF-8"),
    (("init", "h", "--schema", "folder"), 1, "folder is a directory, not a file", ""),
    (("init", "h", "--schema", "q.gq"), 1, "found `query`", "a schema is in a .pg file"),
    (("init", "s.pg", "--schema", "s.pg"), 1, "s.pg is a file, not a folder", ""),
    (("init", "http://h/x", "--schema", "s.pg"), 1, "names a server, not storage", "a path"),
    (("query", "all", "s.pg", "--query", "q.gq"), 1, "a graph is a folder", "omnigraph init"),
    (("query", "all", "--query", "empty.gq", *G), 3, "no query named", "the text holds no query"),
    (("query", "--query", "s.pg", *G), 1, "s.pg:1:1: error", "queries are in .gq files"),
    (("query", "--query", "curly.gq", *G), 1, "curly.gq:1:40: error", "straight quotes"),
    (("query", "--query", "space.gq", *G), 1, "unexpected no-break space", "a plain space"),
    (("restore", "s.pg", "h"), 1, "s.pg is not an archive", "omnigraph dump"),
    (("pipeline", "run", "rules.yaml"), 1, "is not a TOML file", ""),
    (("load", "g", "--mapping", "folder", *APPEND), 1, "cannot read folder", ""),
    (("load", "g", "--data", "Person=latin.csv", *APPEND), 1, "line 2: not valid UTF-8", "UTF-8"),
    (("load", "g", "--data", "latin.jsonl", *APPEND), 1, "not valid UTF-8", "save the file as"),
    (("load", "g", "--data", "Person=wide.csv", *APPEND), 1, "not valid UTF-8", "save the file"),
    (("load", "g", "--data", "Person=short.csv", *APPEND), 1, "expected 2 values, got 1", ""),
    (("load", "g", "--data", "Person=quote.csv", *APPEND), 1, "not valid CSV", ""),
    (("load", "g", "--data", "Person=twice.csv", *APPEND), 1, "column 'name' appears twice", ""),
    (("load", "g", "--data", "Person=tabs.tsv", *APPEND), 1, "unknown kind", "its delimiter"),
    (("load", "g", "--data", "Person=not.parquet", *APPEND), 1, "is not a Parquet file", ""),
    (("load", "g", "--data", "Person=folder.csv", *APPEND), 3, "files in folder.csv", ""),
    (("load", "g", "--data", "Person=links", *APPEND), 3, "gone.csv", "it is a link to nothing"),
    (("load", "g", "--data", "Person=", *APPEND), 2, "the file's name is missing after '='", ""),
    (("load", "g", "--data", "https://h/x.csv", *APPEND), 1, "not a file", "download it first"),
    (("load", "g", "ok.csv", *APPEND), 2, "unexpected extra argument", "--data ok.csv"),
    (("load", "g", "--data", "array.json", *APPEND), 1, "expected a JSON object", "no array"),
    (("load", "g", "--data", "pretty.jsonl", *APPEND), 1, "not valid JSON", "on each line"),
    (("load", "g", "--data", "flat.jsonl", *APPEND), 1, "field 'name'", "rows of one type"),
    (("load", "g", "--data", "deep.jsonl", *APPEND), 1, "nested too deeply", ""),
    (("load", "g", "--data", "large.jsonl", *APPEND), 1, "outside the range of I32", ""),
    (("load", "g", "--data", "escape.jsonl", *APPEND), 1, "Persn\\x1b[31m", "did you mean"),
    (("query", "all", *FROM_FILE, "--out", "folder.csv"), 1, "it is a directory", ""),
    (("query", "all", *FROM_FILE, "--out", "no/o.csv"), 1, "cannot write no/o.csv", "no folder no"),
    (("query", "all", *FROM_FILE, "--out", "s.pg/o.parquet"), 1, "cannot write s.pg", ""),
    (("export", "g", "--out", "s.pg/o.jsonl"), 1, "cannot write s.pg/o.jsonl", ""),
    # ---- variables of a shell that are not set, and its quotes
    (("query", "all", *FROM_FILE, "--branch", ""), 2, "--branch is empty", "variable"),
    (("query", "all", *FROM_FILE, "--at="), 2, "--at is empty", "variable of your shell"),
    (("branch", "list", ""), 2, "the graph's path is empty", "variable of your shell"),
    (("query", "by", *FROM_FILE, "--params", "params.json"), 1, "not valid JSON", "--params-file"),
    (("query", "by", *FROM_FILE, "--params-file", "list.json"), 1, "must be a JSON object", ""),
    # ---- habits from git and from servers
    (("log",), 2, "No such command 'log'", "omnigraph commit list"),
    (("checkout", "dev"), 2, "No such command", "name it with --branch"),
    (("commit", "-m", "x"), 2, "No such option '-m'", "each write is a commit"),
    (("query", "all", *FROM_FILE, "--limit", "3"), 2, "No such option", "limit 10"),
    (("serve", "--port", "80"), 2, "No such option", "--bind"),
    (("serve", "g", *G), 2, "name the graph once", ""),
    (("commit", "show", "main..dev", "g"), 3, "'main..dev' is not a branch", "without `..`"),
    (("commit", "show", "zzzz", "g"), 3, "'zzzz' is not a branch", "use branch@version"),
    (("branch", "delete", "dve", "g"), 3, "'dve' does not exist", "did you mean 'dev'"),
    (("branch", "merge", "dve", "g"), 3, "'dve' does not exist", "did you mean 'dev'"),
    (("branch", "create", "HEAD", "g"), 1, "HEAD is the newest state", "another name"),
    (("tag", "create", "a b", "g"), 1, "'a b' is not a tag name", "letters, digits"),
    (("query", "all", "--query", "q.gq", "--server", "http://[h"), 1, "not a server address", ""),
    # ---- more habits from Cypher and SQL
    (ask("match { $p: Person } return { $p.name }"), 1, "expected `query`", "`query q() {"),
    (ask("query q { match { $p: Person } return { $p.name } }"), 1, "after `query q`", "query q()"),
    (ask("query q() { match { $p: Person } return $p.name }"), 1, "P00", "return { ... }"),
    (ask("query q() { -- all\n match { $p: Person } return { $p } }"), 1, "P00", "with `//`"),
    (
        ask("query q() { match { $p: Person } where $p.age > 3 return { $p.name } }"),
        1,
        "found `where`",
        "conditions stand inside",
    ),
    (ask("query q() { match { $p: Person } return { $p.name AS n } }"), 1, "P00", "lower case"),
    (where("$p.age <> 3"), 1, "found `>`", "write `!=`"),
    (where("$p.age > 3 && $p.age < 5"), 1, "unexpected character `&`", "write `and`"),
    (where("$p.age < 3 || $p.age > 5"), 1, "found `|`", "write `or`"),
    (where('$p.name like "a%"'), 1, "`like` has no meaning here", "starts_with"),
    (where("$p -[:Knows]-> $q"), 1, "found `:`", "this looks like Cypher"),
    (where("$p.age > 3;"), 1, "unexpected character `;`", "leave it out"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("mistakes")
    for name, text in FILES.items():
        (found / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    for name in FOLDERS:
        (found / name).mkdir()
    (found / "links" / "gone.csv").symlink_to("nowhere.csv")
    with og.init(found / "g", SCHEMA, durability="none") as graph:
        graph.load([{"type": "Person", "data": {"name": "ann"}}], mode="append")
        graph.branches.create("dev")
        graph.tags.create("v1")
    return found


def state_of(folder: Path) -> object:
    with og.open(folder / "g", mode="ro") as graph:
        heads = {name: graph.commits.head(name) for name in graph.branches.list()}
        return heads, graph.tags.list(), sorted(item.name for item in folder.iterdir())


def test_there_are_more_than_a_hundred_and_no_two_alike() -> None:
    assert len({item[0] for item in MISTAKES}) == len(MISTAKES) > 100


@pytest.mark.parametrize(
    ("typed", "code", "message", "help_"), MISTAKES, ids=[" ".join(m[0][:3]) for m in MISTAKES]
)
def test_a_mistake_is_told_and_changes_nothing(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    typed: tuple[str, ...],
    code: int,
    message: str,
    help_: str,
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OMNIGRAPH_DURABILITY", "none")
    before = state_of(folder)
    with pytest.raises(SystemExit) as left:
        main(list(typed))
    told = capsys.readouterr()
    assert left.value.code == code, told.err
    assert message in told.err
    assert help_ in told.err
    assert "Traceback" not in told.err
    assert told.out == ""
    assert state_of(folder) == before
