"""The language server, driven over its streams as an editor drives it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lsp.client import Editor, RefusedError, editor
from tests.lsp.marked import SCHEMA_TEXT

QUERY = """\
query friends($who: String) {
    match {
        $me: Person { slug: $who }
        $me knows $p
    }
    return { $p.name }
}
"""
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    root = tmp_path_factory.mktemp("workspace")
    (root / "people.pg").write_text(SCHEMA_TEXT, encoding="utf-8")
    with editor(root) as found:
        found.start()
        assert found.open("q.gq", QUERY) == []
        yield found
        assert found.stop() == 0


@pytest.fixture
def open_query(shared: Editor) -> Editor:
    assert shared.change("q.gq", QUERY) == []
    return shared


def place(line: int, start: int, end: int) -> dict[str, Any]:
    return {
        "start": {"line": line, "character": start},
        "end": {"line": line, "character": end},
    }


def test_the_server_says_what_it_can_do(shared: Editor) -> None:
    found = shared.capabilities
    assert found["completionProvider"]["triggerCharacters"] == [".", "$", "@", ":"]
    assert found["renameProvider"] == {"prepareProvider": True}
    for name in ("hoverProvider", "definitionProvider", "documentFormattingProvider"):
        assert found[name]
    assert found["textDocumentSync"]["change"] == 1


def test_problems_are_published_while_typing(open_query: Editor) -> None:
    found = open_query.change("q.gq", QUERY.replace("$p.name", "$p.nam"))
    assert [(item["range"], item["code"], item["severity"]) for item in found] == [
        (place(5, 16, 19), "T6", 1)
    ]
    assert found[0]["message"].endswith("help: did you mean `name`?")
    assert found[0]["source"] == "omnigraph"
    assert open_query.change("q.gq", QUERY) == []


def test_columns_count_as_the_editor_counts(open_query: Editor) -> None:
    text = 'query q() { match { $p: Person { name: "\U0001d11e\u00e9" nick: 1 } } return { 1 } }'
    found = open_query.change("q.gq", text.replace(" nick", ", nick"))
    # A character beyond the first 65536 counts as two.
    assert [item["range"] for item in found] == [place(0, 46, 50)]
    hovered = open_query.ask("hover", "q.gq", 0, 47)
    assert hovered is None
    assert "Person" in open_query.ask("hover", "q.gq", 0, 26)["contents"]["value"]


def test_hover_and_definition(open_query: Editor) -> None:
    found = open_query.ask("hover", "q.gq", 5, 14)
    assert found["contents"]["kind"] == "markdown"
    assert found["contents"]["value"].startswith("```\n$p: Person\n```")
    assert found["range"] == place(5, 13, 15)
    found = open_query.ask("definition", "q.gq", 2, 14)
    assert (found["uri"], found["range"]) == (open_query.uri("people.pg"), place(4, 5, 11))
    found = open_query.ask("definition", "q.gq", 2, 30)
    assert (found["uri"], found["range"]) == (open_query.uri("q.gq"), place(0, 14, 18))


def test_completion_in_half_typed_text(open_query: Editor) -> None:
    half = QUERY.replace("$p.name }\n}", "$p.na")
    assert open_query.change("q.gq", half) != []
    found = open_query.ask("completion", "q.gq", 5, 18)["items"]
    assert [item["label"] for item in found] == ["born", "name", "slug", "id"]
    assert found[1]["textEdit"] == {"range": place(5, 16, 18), "newText": "name"}
    assert found[1]["detail"] == "String - what people call it"


def test_rename_changes_every_place_or_says_why_not(open_query: Editor) -> None:
    assert open_query.ask("prepareRename", "q.gq", 3, 9) == place(3, 8, 11)
    found = open_query.ask("rename", "q.gq", 3, 9, newName="you")["changes"]
    assert list(found) == [open_query.uri("q.gq")]
    assert [(item["range"], item["newText"]) for item in found[open_query.uri("q.gq")]] == [
        (place(2, 8, 11), "$you"),
        (place(3, 8, 11), "$you"),
    ]
    with pytest.raises(RefusedError, match="has a `\\$p` already"):
        open_query.ask("rename", "q.gq", 3, 9, newName="p")
    with pytest.raises(RefusedError, match="only variables and parameters"):
        open_query.ask("prepareRename", "q.gq", 2, 14)


def test_formatting(open_query: Editor) -> None:
    options = {"options": {"tabSize": 2, "insertSpaces": True}}
    asked = {"textDocument": {"uri": open_query.uri("q.gq")}, **options}
    assert open_query.request("textDocument/formatting", asked) is None
    untidy = " ".join(QUERY.split())
    assert open_query.change("q.gq", untidy) == []
    found = open_query.request("textDocument/formatting", asked)
    assert found == [{"range": place(0, 0, len(untidy)), "newText": QUERY}]
    assert open_query.change("q.gq", "query q(") != []
    assert open_query.request("textDocument/formatting", asked) is None


def test_a_schema_is_checked_and_queries_follow_it_before_it_is_saved(open_query: Editor) -> None:
    assert open_query.open("people.pg", SCHEMA_TEXT) == []
    assert open_query.problems("q.gq") == []
    assert open_query.change("people.pg", SCHEMA_TEXT.replace("Knows:", "Likes:")) == []
    assert [item["code"] for item in open_query.problems("q.gq")] == ["T4"]
    found = open_query.change("people.pg", SCHEMA_TEXT.replace("Date?", "Dat?"))
    assert [item["code"] for item in found] == ["P00", "P00"]
    remarks = open_query.problems("q.gq")
    assert [item["message"] for item in remarks] == ["types are not checked: people.pg has errors"]
    assert open_query.change("people.pg", SCHEMA_TEXT) == []
    assert open_query.problems("q.gq") == []
    hovered = open_query.ask("hover", "people.pg", 13, 14)
    assert "node Person" in hovered["contents"]["value"]
    with pytest.raises(RefusedError, match='@rename_from\\("Person"\\)'):
        open_query.ask("rename", "people.pg", 4, 6, newName="Human")
    open_query.notify(
        "textDocument/didClose", {"textDocument": {"uri": open_query.uri("people.pg")}}
    )
    assert open_query.problems("people.pg") == []


def test_a_document_that_is_not_open_is_refused_and_others_are_ignored(shared: Editor) -> None:
    with pytest.raises(RefusedError, match="is not an open"):
        shared.ask("hover", "other.gq", 0, 0)
    item = {"uri": shared.uri("a.txt"), "languageId": "text", "version": 1, "text": "node"}
    shared.notify("textDocument/didOpen", {"textDocument": item})
    with pytest.raises(RefusedError, match="is not an open"):
        shared.ask("hover", "a.txt", 0, 0)


def test_the_schema_is_found_or_set(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    with editor(tmp_path) as client:
        client.start()
        found = client.open("in/deep/q.gq", QUERY)
        assert [(item["severity"], item["range"]) for item in found] == [(3, place(0, 0, 0))]
        assert "no .pg file beside" in found[0]["message"]
        # The editor was asked to watch schemas, and tells of one that appeared.
        (tmp_path / "in" / "one.pg").write_text(SCHEMA_TEXT, encoding="utf-8")
        client.notify("workspace/didChangeWatchedFiles", {"changes": []})
        assert client.problems("in/deep/q.gq") == []
        (tmp_path / "in" / "two.pg").write_text("node A { a: I32 }", encoding="utf-8")
        client.notify("workspace/didChangeWatchedFiles", {"changes": []})
        assert "which schema is meant?" in client.problems("in/deep/q.gq")[0]["message"]
        settings = {"omnigraph": {"schema": "in/one.pg"}}
        client.notify("workspace/didChangeConfiguration", {"settings": settings})
        assert client.problems("in/deep/q.gq") == []
        settings = {"omnigraph": {"schema": "in/none.pg"}}
        client.notify("workspace/didChangeConfiguration", {"settings": settings})
        assert "names in/none.pg" in client.problems("in/deep/q.gq")[0]["message"]
        watched = client.asked_for[0]["params"]["registrations"][0]["registerOptions"]
        assert watched["watchers"][0]["globPattern"] == "**/*.pg"
        assert client.stop() == 0


def test_the_server_ends_when_the_editor_is_gone(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "omnigraph", "lsp"],
        input=b"",
        capture_output=True,
        check=False,
        cwd=tmp_path,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, b"")


def test_a_missing_package_is_one_sentence_with_the_command(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['pygls'] = None; sys.argv = ['omnigraph', 'lsp']\n"
        "from omnigraph.cli.main import main; main()"
    )
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], capture_output=True, check=False, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: the language server needs pygls, which is not installed\n"
        "help: pip install 'omnigraph[lsp]'\n"
    )
