"""The commands: what they print, where they print it and how they exit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph
from omnigraph.cli import exit_codes
from tests.unit.cli.conftest import Run

SCHEMA = """\
node Person {
    slug: String @key
    name: String
    team: enum(red, blue)?
}

edge Knows: Person -> Person
"""
QUERIES = """\
query people($team: String?) {
    match { $p: Person { team: $team? }  $p knows $q }
    return { $p.name, count($q) as friends }
}
query rename($slug: String, $name: String) {
    update Person set { name: $name, team: null } where slug = $slug
}
"""


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    (folder / "s.pg").write_text(SCHEMA, encoding="utf-8")
    (folder / "q.gq").write_text(QUERIES, encoding="utf-8")
    (folder / "latin.gq").write_bytes(b"query \xe9t\xe9() {}\n")
    (folder / "broken.pg").write_text("node {\n", encoding="utf-8")


# ---- the program --------------------------------------------------------------------------


def test_version_prints_release_and_storage_format(run: Run) -> None:
    found = run("version")
    assert found.code == 0
    assert found.out.splitlines() == [
        f"omnigraph {omnigraph.__version__}",
        f"internal-schema {omnigraph.INTERNAL_SCHEMA_VERSION}",
    ]
    assert found.err == ""


def test_version_as_json(run: Run) -> None:
    assert run("version", "--json").json == {
        "version": omnigraph.__version__,
        "internal_schema_version": omnigraph.INTERNAL_SCHEMA_VERSION,
    }


@pytest.mark.parametrize("flag", ["-v", "--version"])
def test_version_flag_prints_one_line(run: Run, flag: str) -> None:
    found = run(flag)
    assert (found.code, found.out) == (0, f"omnigraph {omnigraph.__version__}\n")


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_the_commands(run: Run, flag: str) -> None:
    found = run(flag)
    assert found.code == 0
    assert found.err == ""
    listed = [line.split()[0] for line in found.out.partition("Commands:\n")[2].splitlines()]
    assert {"lint", "schema", "version"} <= set(listed)
    assert "check" not in listed


@pytest.mark.parametrize(
    "command", [["lint"], ["schema"], ["fmt"], ["schema", "plan"], ["version"]]
)
def test_every_command_has_help(run: Run, command: list[str]) -> None:
    found = run(*command, "--help")
    assert found.code == 0
    assert found.out.startswith(f"Usage: omnigraph {' '.join(command)} ")


def test_no_arguments_prints_help_and_counts_as_misuse(run: Run) -> None:
    found = run()
    assert found.code == 2
    assert found.out == ""
    assert found.err.startswith("Usage: omnigraph ")


@pytest.mark.parametrize(
    ("words", "meant"), [(["lnt"], "lint"), (["versions"], "version"), (["schema", "pln"], "plan")]
)
def test_an_unknown_command_suggests_a_similar_one(run: Run, words: list[str], meant: str) -> None:
    found = run(*words)
    assert (found.code, found.out) == (2, "")
    assert f"Did you mean '{meant}'?" in found.err


def test_an_unknown_command_that_resembles_nothing_gets_no_suggestion(run: Run) -> None:
    found = run("zzzzzz")
    assert found.code == 2
    assert "No such command 'zzzzzz'." in found.err
    assert "Did you mean" not in found.err


def test_a_missing_option_is_misuse(run: Run) -> None:
    found = run("lint", "--query", "q.gq")
    assert (found.code, found.out) == (2, "")
    assert "Error: give --schema FILE, or name a graph: give its path" in found.err


def test_misuse_with_json_is_an_error_object_too(run: Run) -> None:
    found = run("lint", "--query", "q.gq", "--json")
    assert found.code == 2
    assert "error" in found.json


def test_the_installed_command_runs() -> None:
    done = subprocess.run(  # noqa: S603 - our own program
        [str(Path(sys.executable).parent / "omnigraph"), "version", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["version"] == omnigraph.__version__


def test_a_closed_pipe_ends_the_program_quietly(folder: Path) -> None:
    query = "query q%d() { match { $p: Person } return { $p.name } }\n"
    (folder / "many.gq").write_text("".join(query % i for i in range(4000)), encoding="utf-8")
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(  # noqa: S603 - our own program
        [
            str(Path(sys.executable).parent / "omnigraph"),
            *("lint", "--query", "many.gq", "--schema", "s.pg"),
        ],
        cwd=folder,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert done.returncode == exit_codes.FAILURE
    assert "Traceback" not in done.stderr


# ---- lint ---------------------------------------------------------------------------------


def test_lint_of_a_good_file(run: Run) -> None:
    found = run("lint", "--query", "q.gq", "--schema", "s.pg")
    assert (found.code, found.err) == (0, "")
    assert found.out.splitlines() == [
        "OK    read people",
        "OK    mutation rename",
        "2 queries checked: 0 errors, 0 warnings, 0 infos",
    ]


def test_check_is_another_name_of_lint(run: Run) -> None:
    arguments = ("--query", "q.gq", "--schema", "s.pg")
    assert run("check", *arguments) == run("lint", *arguments)


def test_lint_explains_plans(run: Run) -> None:
    found = run("lint", "--query", "q.gq", "--schema", "s.pg", "--explain")
    assert found.code == 0
    assert "  expand $p -Knows-> $q: Person\n" in found.out
    assert "  update node Person set {name: $name, team: null} where (slug = $slug)\n" in found.out


def test_lint_reads_queries_from_standard_input(run: Run) -> None:
    found = run("lint", "--query", "-", "--schema", "s.pg", stdin=QUERIES.encode())
    assert found.code == 0
    assert found.out.startswith("OK    read people\n")


def test_lint_shows_every_error_with_a_caret_and_fails(run: Run, folder: Path) -> None:
    text = "query bad() { match { $p: Persn } return { $p.name } }\n" + QUERIES
    (folder / "q.gq").write_text(text, encoding="utf-8")
    found = run("lint", "--query", "q.gq", "--schema", "s.pg")
    assert (found.code, found.err) == (1, "")
    assert found.out.startswith(
        "ERROR read bad\n"
        "q.gq:1:27: error[T1]: unknown node type `Persn`\n"
        " 1 | query bad() { match { $p: Persn } return { $p.name } }\n"
        "   |                           ^^^^^\n"
        "   = help: did you mean `Person`?\n"
    )
    assert "OK    read people\n" in found.out
    assert "3 queries checked: " in found.out


def test_lint_prints_findings_and_succeeds(run: Run) -> None:
    text = b'query fixed() { update Person set { name: "x" } where slug = "y" }'
    quiet = run("lint", "--query", "-", "--schema", "s.pg", stdin=text)
    assert "L201" not in quiet.out
    found = run("lint", "--query", "-", "--schema", "s.pg", "--unset", stdin=text)
    assert found.code == 0
    assert "WARN  mutation 'fixed' has no parameters: hardcoded mutation\n" in found.out
    assert "WARN  [L201] Person.team exists in schema but no update query sets it\n" in found.out
    assert found.out.endswith("1 query checked: 0 errors, 2 warnings, 0 infos\n")


def test_lint_of_a_file_that_does_not_parse(run: Run) -> None:
    found = run("lint", "--query", "-", "--schema", "s.pg", stdin=b"query q( {")
    assert (found.code, found.err) == (1, "")
    assert "<stdin>:1:10: error[P00]: " in found.out
    assert found.out.endswith("0 queries checked: 1 error, 0 warnings, 0 infos\n")


def test_lint_json_of_a_good_file(run: Run) -> None:
    found = run("lint", "--query", "q.gq", "--schema", "s.pg", "--json")
    assert (found.code, found.err) == (0, "")
    report = found.json
    results = report.pop("results")
    assert report == {
        "status": "ok",
        "schema_source": {"kind": "file", "path": "s.pg"},
        "query_path": "q.gq",
        "queries_processed": 2,
        "errors": 0,
        "warnings": 0,
        "infos": 0,
        "findings": [],
    }
    person = {"kind": "node", "type_name": "Person"}
    text = {"kind": "string", "nullable": False}
    assert results == [
        {
            "name": "people",
            "kind": "read",
            "status": "ok",
            "operation": {
                "parameters": [{"name": "team", "kind": "string", "nullable": True}],
                "result": [
                    {"name": "p.name", **text},
                    {"name": "friends", "kind": "bigint", "nullable": False},
                ],
                "reads": [person, {"kind": "edge", "type_name": "Knows"}],
                "writes": [],
            },
        },
        {
            "name": "rename",
            "kind": "mutation",
            "status": "ok",
            "operation": {
                "parameters": [{"name": "slug", **text}, {"name": "name", **text}],
                "result": [],
                "reads": [person],
                "writes": [person],
            },
        },
    ]


def test_lint_json_of_a_type_error(run: Run) -> None:
    text = b"query bad() { match { $p: Person } return { $p.names } }"
    found = run("lint", "--query", "-", "--schema", "s.pg", "--json", stdin=text)
    assert (found.code, found.err) == (1, "")
    report = found.json
    assert (report["status"], report["errors"]) == ("error", 1)
    assert report["results"] == [
        {
            "name": "bad",
            "kind": "read",
            "status": "error",
            "error": "type error: T6: node type Person has no property `names` (line 1, column 48)",
            "diagnostics": [
                {
                    "severity": "error",
                    "code": "T6",
                    "message": "node type Person has no property `names`",
                    "file": "<stdin>",
                    "line": 1,
                    "column": 48,
                    "span": [47, 52],
                    "hint": "did you mean `name`?",
                }
            ],
        }
    ]


def test_lint_json_of_findings(run: Run) -> None:
    text = b'query fixed() { update Person set { name: "x" } where slug = "y" }'
    found = run("lint", "--query", "-", "--schema", "s.pg", "--unset", "--json", stdin=text)
    assert found.code == 0
    hardcoded = "mutation 'fixed' has no parameters: hardcoded mutation"
    assert found.json["warnings"] == 2
    assert found.json["findings"] == [
        {
            "severity": "warning",
            "code": None,
            "message": hardcoded,
            "query_names": ["fixed"],
        },
        {
            "severity": "warning",
            "code": "L201",
            "message": "Person.team exists in schema but no update query sets it",
            "type_name": "Person",
            "property": "team",
            "query_names": ["fixed"],
        },
    ]
    results = found.json["results"]
    assert isinstance(results, list)
    assert results[0]["warnings"] == [hardcoded]


def test_lint_json_of_a_file_that_does_not_parse(run: Run) -> None:
    found = run("lint", "--query", "-", "--schema", "s.pg", "--json", stdin=b"query q( {")
    assert found.code == 1
    report = found.json
    assert (report["status"], report["errors"], report["results"]) == ("error", 1, [])
    findings = report["findings"]
    assert isinstance(findings, list)
    assert [(item["severity"], item["code"]) for item in findings] == [("error", "Q000")]


# ---- files that cannot be used ------------------------------------------------------------

USES_OF_A_FILE = [
    pytest.param(["lint", "--query", "FILE", "--schema", "s.pg"], id="lint query"),
    pytest.param(["lint", "--query", "q.gq", "--schema", "FILE"], id="lint schema"),
    pytest.param(["schema", "plan", "FILE", "--schema", "s.pg"], id="plan old"),
    pytest.param(["schema", "plan", "s.pg", "--schema", "FILE"], id="plan new"),
]


@pytest.mark.parametrize("words", [*USES_OF_A_FILE, pytest.param(["fmt", "FILE"], id="fmt")])
@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("absent.pg", 3, "error: file not found: absent.pg\n"),
        (
            "latin.gq",
            1,
            "error: latin.gq is not valid UTF-8: byte 6 is 0xe9\nhelp: save the file as UTF-8\n",
        ),
    ],
    ids=["absent", "not UTF-8"],
)
def test_an_unusable_file_is_one_message_on_stderr(
    run: Run, words: list[str], path: str, code: int, message: str
) -> None:
    found = run(*(path if word == "FILE" else word for word in words))
    assert (found.code, found.out, found.err) == (code, "", message)


@pytest.mark.parametrize("words", USES_OF_A_FILE)
def test_a_directory_is_no_file(run: Run, words: list[str]) -> None:
    found = run(*("." if word == "FILE" else word for word in words))
    message = "error: . is a directory, not a file\n"
    assert (found.code, found.out, found.err) == (1, "", message)


@pytest.mark.parametrize(
    ("path", "code", "body"),
    [
        ("absent.gq", 3, {"type": "not_found", "code": "not_found"}),
        (
            "latin.gq",
            1,
            {"type": "bad_request", "code": "bad_request", "hint": "save the file as UTF-8"},
        ),
        (".", 1, {"type": "bad_request", "code": "bad_request"}),
    ],
)
def test_with_json_it_is_an_object_on_stdout(
    run: Run, path: str, code: int, body: dict[str, str]
) -> None:
    found = run("lint", "--query", path, "--schema", "s.pg", "--json")
    assert (found.code, found.err) == (code, "")
    error = found.json
    assert str(error.pop("error"))
    assert error == body


@pytest.mark.parametrize("words", [["fmt", "-"], ["lint", "--query", "-", "--schema", "s.pg"]])
def test_standard_input_that_is_not_utf8_is_one_message(run: Run, words: list[str]) -> None:
    found = run(*words, stdin=b"node A\xff {}")
    assert found.code == 1
    assert "not valid UTF-8" in found.err


@pytest.mark.parametrize(
    "words",
    [
        ["lint", "--query", "q.gq", "--schema", "broken.pg"],
        ["fmt", "broken.pg"],
        ["schema", "plan", "broken.pg", "--schema", "s.pg"],
        ["schema", "plan", "s.pg", "--schema", "broken.pg"],
    ],
)
def test_a_schema_that_does_not_compile_is_shown_on_stderr(run: Run, words: list[str]) -> None:
    found = run(*words)
    assert (found.code, found.out) == (1, "")
    assert found.err == (
        "broken.pg:1:6: error[P00]: expected a type name after `node`, found `{`\n"
        " 1 | node {\n"
        "   |      ^\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["lint", "--query", "q.gq", "--schema", "broken.pg"],
        ["schema", "plan", "broken.pg", "--schema", "s.pg"],
    ],
)
def test_with_json_its_diagnostics_are_on_stdout(run: Run, words: list[str]) -> None:
    found = run(*words, "--json")
    assert (found.code, found.err) == (1, "")
    error = found.json
    assert (error["type"], error["code"]) == ("compile", "bad_request")
    assert error["diagnostics"] == [
        {
            "severity": "error",
            "code": "P00",
            "message": "expected a type name after `node`, found `{`",
            "file": "broken.pg",
            "line": 1,
            "column": 6,
            "span": [5, 6],
        }
    ]


# ---- schema plan --------------------------------------------------------------------------

NEXT = SCHEMA.replace("red, blue", "red, blue, green").replace("edge Knows", "edge Follows")
REFUSED = SCHEMA.replace("name: String", "name: Bool")


def test_plan_for_people(run: Run, folder: Path) -> None:
    (folder / "next.pg").write_text(NEXT, encoding="utf-8")
    found = run("schema", "plan", "s.pg", "--schema", "next.pg")
    assert (found.code, found.err) == (0, "")
    assert found.out.splitlines() == [
        "supported: yes",
        "extend enum 'Person.team' (+green) on node 'Person'",
        "add edge type 'Follows'",
        "drop edge type 'Knows' (soft mode)",
    ]


def test_plan_of_equal_schemas(run: Run) -> None:
    found = run("schema", "plan", "s.pg", "--schema", "s.pg", "--check")
    assert (found.code, found.out) == (0, "supported: yes\nno changes\n")


def test_plan_with_data_loss_drops_for_good(run: Run, folder: Path) -> None:
    (folder / "next.pg").write_text(NEXT, encoding="utf-8")
    found = run("schema", "plan", "s.pg", "--schema", "next.pg", "--allow-data-loss")
    assert "drop edge type 'Knows' (hard mode)\n" in found.out


def test_plan_as_json(run: Run, folder: Path) -> None:
    (folder / "next.pg").write_text(NEXT, encoding="utf-8")
    found = run("schema", "plan", "s.pg", "--schema", "next.pg", "--json")
    assert (found.code, found.err) == (0, "")
    assert found.json == {
        "uri": "s.pg",
        "step_count": 3,
        "supported": True,
        "steps": [
            {
                "kind": "extend_enum",
                "type_kind": "node",
                "type_name": "Person",
                "property_name": "team",
                "added_values": ["green"],
            },
            {"kind": "add_type", "type_kind": "edge", "name": "Follows"},
            {"kind": "drop_type", "type_kind": "edge", "name": "Knows", "mode": "soft"},
        ],
        "notes": [],
    }


def test_an_unsupported_plan_fails_only_when_checked(run: Run, folder: Path) -> None:
    (folder / "next.pg").write_text(REFUSED, encoding="utf-8")
    arguments = ("schema", "plan", "s.pg", "--schema", "next.pg")
    shown, checked = run(*arguments), run(*arguments, "--check")
    assert (shown.code, checked.code) == (0, 3)
    assert shown.out == checked.out
    lines = shown.out.splitlines()
    assert lines[0] == "supported: no"
    assert lines[1].startswith(
        "unsupported change on node:Person.name [OG-MF-106, destructive]: changing the type"
    )


def test_an_unsupported_plan_as_json(run: Run, folder: Path) -> None:
    (folder / "next.pg").write_text(REFUSED, encoding="utf-8")
    found = run("schema", "plan", "s.pg", "--schema", "next.pg", "--check", "--json")
    assert found.code == 3
    assert (found.json["supported"], found.json["step_count"]) == (False, 1)
    steps = found.json["steps"]
    assert isinstance(steps, list)
    assert {key: steps[0][key] for key in ("kind", "entity", "code")} == {
        "kind": "unsupported_change",
        "entity": "node:Person.name",
        "code": "OG-MF-106",
    }


def test_plan_warns_about_the_new_schema_on_stderr(run: Run, folder: Path) -> None:
    (folder / "next.pg").write_text(SCHEMA + "node Note @uniq {}\n", encoding="utf-8")
    found = run("schema", "plan", "s.pg", "--schema", "next.pg")
    assert (found.code, found.out) == (0, "supported: yes\nadd node type 'Note'\n")
    assert "warning[W01]: unknown annotation @uniq" in found.err
