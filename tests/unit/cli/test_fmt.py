"""`omnigraph fmt`: what it writes, what it prints and how it exits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run

UNTIDY = 'node A{a:String@key,b:I32? @description("x")}\n'
TIDY = 'node A {\n    a: String @key\n    b: I32? @description("x")\n}\n'
QUERY = "query q(){match{$p:A}return{$p.a}}\n"
TIDY_QUERY = "query q() {\n    match { $p: A }\n    return { $p.a }\n}\n"


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    (folder / "s.pg").write_text(TIDY, encoding="utf-8")
    (folder / "broken.pg").write_text("node {\n", encoding="utf-8")


def test_fmt_rewrites_files_in_place_and_names_them(run: Run, folder: Path) -> None:
    untidy = folder / "a.pg"
    untidy.write_text(UNTIDY, encoding="utf-8")
    untidy.chmod(0o640)
    found = run("fmt", "a.pg", "s.pg")
    assert (found.code, found.out, found.err) == (0, "reformatted a.pg\n", "")
    assert untidy.read_text(encoding="utf-8") == TIDY
    assert untidy.stat().st_mode & 0o777 == 0o640
    assert (folder / "s.pg").read_text(encoding="utf-8") == TIDY
    assert sorted(path.name for path in folder.iterdir()) == [*("a.pg", "broken.pg", "s.pg")]


def test_fmt_of_a_tidy_file_says_nothing(run: Run) -> None:
    found = run("fmt", "s.pg")
    assert (found.code, found.out, found.err) == (0, "", "")


def test_fmt_check_reports_and_changes_nothing(run: Run, folder: Path) -> None:
    (folder / "a.pg").write_text(UNTIDY, encoding="utf-8")
    found = run("fmt", "--check", "a.pg", "s.pg")
    assert (found.code, found.out) == (1, "would reformat a.pg\n")
    assert (folder / "a.pg").read_text(encoding="utf-8") == UNTIDY
    assert run("fmt", "--check", "s.pg").code == 0


def test_fmt_diff_shows_and_changes_nothing(run: Run, folder: Path) -> None:
    (folder / "a.pg").write_text(UNTIDY, encoding="utf-8")
    found = run("fmt", "--diff", "a.pg")
    assert found.code == 0
    lines = found.out.splitlines()
    assert lines[:3] == ["--- a.pg", "+++ a.pg", "@@ -1 +1,4 @@"]
    assert f"-{UNTIDY.strip()}" in lines
    assert "+    a: String @key" in lines
    assert (folder / "a.pg").read_text(encoding="utf-8") == UNTIDY
    assert run("fmt", "--diff", "--check", "a.pg").code == 1


def test_fmt_of_standard_input_goes_to_standard_output(run: Run) -> None:
    found = run("fmt", "-", stdin=UNTIDY.encode())
    assert (found.code, found.out, found.err) == (0, TIDY, "")


def test_fmt_of_standard_input_can_be_checked(run: Run) -> None:
    found = run("fmt", "--check", "-", stdin=UNTIDY.encode())
    assert (found.code, found.out) == (1, "would reformat -\n")
    found = run("fmt", "--check", "-", stdin=TIDY.encode())
    assert (found.code, found.out) == (0, "")


def test_fmt_needs_a_file(run: Run) -> None:
    assert run("fmt").code == 2


def test_fmt_formats_both_languages_at_once(run: Run, folder: Path) -> None:
    (folder / "a.pg").write_text(UNTIDY, encoding="utf-8")
    (folder / "q.GQ").write_text(QUERY, encoding="utf-8")
    found = run("fmt", "q.GQ", "a.pg", "q.GQ")
    assert (found.code, found.out) == (0, "reformatted q.GQ\nreformatted a.pg\n")
    assert (folder / "q.GQ").read_text(encoding="utf-8") == TIDY_QUERY
    assert (folder / "a.pg").read_text(encoding="utf-8") == TIDY


def test_fmt_of_a_folder_takes_the_files_in_it(run: Run, folder: Path) -> None:
    for name in ("in/b.gq", "in/deep/a.gq", "in/.hidden/c.gq", "in/other.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(QUERY, encoding="utf-8")
    found = run("fmt", "--check", "in")
    assert (found.code, found.out) == (1, "would reformat in/b.gq\nwould reformat in/deep/a.gq\n")
    (folder / "empty").mkdir()
    found = run("fmt", "empty")
    assert (found.code, found.err) == (1, "error: empty holds no .pg or .gq file\n")


def test_fmt_shows_the_errors_of_all_files_and_changes_none(run: Run, folder: Path) -> None:
    (folder / "a.pg").write_text(UNTIDY, encoding="utf-8")
    (folder / "b.gq").write_text("query q() { match }", encoding="utf-8")
    found = run("fmt", "a.pg", "broken.pg", "b.gq")
    assert (found.code, found.out) == (1, "")
    starts = [row for row in found.err.splitlines() if ": error[P00]: " in row]
    assert [row.partition(" ")[0] for row in starts] == ["broken.pg:1:6:", "b.gq:1:19:"]
    assert (folder / "a.pg").read_text(encoding="utf-8") == UNTIDY


def test_fmt_as_json_names_every_file(run: Run, folder: Path) -> None:
    (folder / "a.pg").write_text(UNTIDY, encoding="utf-8")
    found = run("fmt", "--check", "--json", "a.pg", "s.pg")
    assert found.code == 1
    assert found.json == {
        "written": False,
        "changing": 1,
        "files": [{"path": "a.pg", "changes": True}, {"path": "s.pg", "changes": False}],
    }
    diff = run("fmt", "--diff", "--json", "a.pg").json["files"]
    assert isinstance(diff, list)
    assert diff[0]["diff"].startswith("--- a.pg\n+++ a.pg\n")
    assert run("fmt", "--json", "a.pg").json["written"] is True
    assert (folder / "a.pg").read_text(encoding="utf-8") == TIDY
    piped = run("fmt", "--json", "-", stdin=UNTIDY.encode()).json["files"]
    assert piped == [{"path": "-", "changes": True, "text": TIDY}]
    assert run("fmt", "--json", "broken.pg").json["code"] == "bad_request"


def test_fmt_knows_the_language_of_standard_input(run: Run) -> None:
    assert run("fmt", "-", stdin=QUERY.encode()).out == TIDY_QUERY
    # With an error before its first word, only a name can tell.
    found = run("fmt", "--stdin-name", "x/q.gq", "-", stdin=b"que q()")
    assert found.err.startswith("x/q.gq:1:1: error[P00]: expected `query`")
    found = run("fmt", "--stdin-name", "x/q.gq", "--check", "-", stdin=QUERY.encode())
    assert (found.code, found.out) == (1, "would reformat x/q.gq\n")


def test_fmt_refuses_other_files(run: Run, folder: Path) -> None:
    (folder / "a.txt").write_text(QUERY, encoding="utf-8")
    found = run("fmt", "a.txt")
    assert found.code == 1
    assert found.err.startswith("error: a.txt: the name ends neither in .pg nor in .gq\nhelp: ")
    assert run("fmt", "-", "-").code == 2
    assert run("fmt", "--stdin-name", "a.gq", "a.txt").code == 2


def test_the_older_name_still_works(run: Run) -> None:
    assert run("schema", "fmt", "--check", "s.pg").code == 0
