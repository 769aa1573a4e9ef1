"""What leaves a graph for other programs comes back as it was: CSV, GraphML, networkx, igraph."""

from __future__ import annotations

import datetime
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import omnigraph as og
from tests.integration.conftest import Cli
from tests.integration.helpers import NewGraph, edge, exported, load, node
from tests.integration.test_export import EVERYTHING, items, links, same

CREW = """
node Person { name: String @key  age: I32?  born: Date?  nick: String?  type: String? }
node Note { text: String }
edge Knows: Person -> Person { since: Date? }
edge Wrote: Person -> Note
"""
PEOPLE = [
    node("Person", name="ann", age=41, born="1984-02-03", nick=""),
    node("Person", name="bob"),
    node("Note", id="ann", text="a,\"b\"\r\n<c> & 'd'\t"),
    edge("Knows", "ann", "bob", id="e", since="2020-01-01"),
    edge("Wrote", "bob", "ann", id="e"),
]
# Files of other programs lie on the disk, wherever the graph is.
pytestmark = pytest.mark.local
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@pytest.fixture
def crew(new_graph: NewGraph) -> og.Graph:
    graph = new_graph(CREW)
    load(graph, PEOPLE)
    return graph


def copied(new_graph: NewGraph, source: Any, schema: str = CREW) -> list[Any]:
    copy = new_graph(schema, name="copy")
    copy.bulk(str(source), mode="append", engine="local")
    return exported(copy)


# ---- there and back -----------------------------------------------------------------------


@settings(
    max_examples=6,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(items=items, links=links)
def test_what_is_exported_loads_as_the_same_entities(
    items: dict[str, dict[str, Any]], links: dict[str, tuple[int, int, dict[str, Any]]]
) -> None:
    names = sorted(items)
    rows = [node("Item", id=key, key=key, **items[key]) for key in names]
    rows += [
        edge("Links", names[a % len(names)], names[b % len(names)], id=key, **data)
        for key, (a, b, data) in sorted(links.items())
    ]
    with tempfile.TemporaryDirectory() as folder:
        with og.init(f"{folder}/a", EVERYTHING, durability="none") as first:
            load(first, rows)
            wanted = exported(first)
            assert first.export(f"{folder}/csv", format="csv") == len(rows)
            sources = [f"{folder}/csv"]
            if NOT_XML.search("".join(str(value) for value in _texts(wanted))):
                with pytest.raises(og.BadRequestError, match="which XML cannot hold"):
                    first.export(f"{folder}/a.graphml")
                assert not Path(f"{folder}/a.graphml").exists()
            else:
                assert first.export(f"{folder}/a.graphml") == len(rows)
                sources.append(f"{folder}/a.graphml")
        for number, source in enumerate(sources):
            with og.init(f"{folder}/{number}", EVERYTHING, durability="none") as second:
                second.bulk(source, mode="append", engine="local")
                assert same(exported(second), wanted)


def _texts(value: Any) -> list[str]:
    """Every text in an export, except those in lists: JSON writes these with escapes."""
    found: list[str] = []
    for row in value:
        values = [row.get("from"), row.get("to"), *row["data"].values()]
        found += [item for item in values if isinstance(item, str)]
        found += [item for items in values if isinstance(items, list) for item in _plain(items)]
    return found


def _plain(items: list[Any]) -> list[str]:
    # JSON escapes control characters, but neither U+007F nor U+FFFE.
    return [text for text in items if isinstance(text, str) and re.search("[\ufffe\uffff]", text)]


def test_a_folder_tells_null_from_empty_text(
    crew: og.Graph, new_graph: NewGraph, tmp_path: Path
) -> None:
    crew.export(tmp_path / "out", format="csv")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "Knows.csv",
        "Note.csv",
        "Person.csv",
        "Wrote.csv",
        "mapping.toml",
    ]
    people = (tmp_path / "out" / "Person.csv").read_text().splitlines()
    assert people == [
        "id,age,born,name,nick,type",
        r"ann,41,1984-02-03,ann,,\N",
        r"bob,\N,\N,bob,\N,\N",
    ]
    knows = (tmp_path / "out" / "Knows.csv").read_text()
    assert knows == "id,from,to,since\ne,ann,bob,2020-01-01\n"
    assert copied(new_graph, tmp_path / "out") == exported(crew)


def test_a_state_of_the_past_leaves_with_the_schema_of_its_time(
    crew: og.Graph, new_graph: NewGraph, tmp_path: Path
) -> None:
    before, wanted = crew.commits.head().graph_commit_id, exported(crew)
    crew.schema.apply(CREW.replace("nick: String?", "nick: String?  mail: String?"))
    crew.mutate('query q() { delete Person where name = "bob" }')
    crew.export(tmp_path / "old.graphml", commit=before)
    assert copied(new_graph, tmp_path / "old.graphml") == wanted
    assert set(crew.to_networkx(commit=before)) == {
        ("Person", "ann"),
        ("Person", "bob"),
        ("Note", "ann"),
    }
    assert set(crew.to_networkx()) == {("Person", "ann"), ("Note", "ann")}


def test_some_types_leave_and_edges_bring_their_ends_along(crew: og.Graph, tmp_path: Path) -> None:
    crew.export(tmp_path / "notes", format="csv", types=["Note"])
    assert sorted(path.name for path in (tmp_path / "notes").iterdir()) == [
        "Note.csv",
        "mapping.toml",
    ]
    assert crew.export(tmp_path / "w.graphml", types=["Wrote"]) == 4
    assert crew.to_networkx(types=["Note"]).number_of_edges() == 0
    assert crew.to_igraph(types=["Knows"]).vcount() == 2
    for call in (
        lambda: crew.export(tmp_path / "x", format="csv", types=["Nte"]),
        lambda: crew.to_networkx(types=["Nte"]),
    ):
        with pytest.raises(og.NotFoundError, match="unknown export type 'Nte'") as caught:
            call()
        assert caught.value.hint == "did you mean 'Note'?"
    assert not (tmp_path / "x").exists()


def test_an_export_that_cannot_be_made_leaves_nothing(crew: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(og.AlreadyExistsError, match="exists already"):
        crew.export(tmp_path / "taken", format="csv")
    with pytest.raises(og.BadRequestError, match="needs a place to write to"):
        crew.export(format="graphml")
    with pytest.raises(og.BadRequestError, match="unknown format 'xml'") as caught:
        crew.export(tmp_path / "a.xml", format="xml")  # type: ignore[arg-type]
    assert caught.value.hint == "known are jsonl, csv, graphml"
    load(crew, [node("Note", id="bell", text="\x07")])
    with pytest.raises(og.BadRequestError, match=r"Note 'bell': text holds the character U\+0007"):
        crew.export(tmp_path / "bell.graphml")
    with pytest.raises(og.StorageError):
        crew.export(tmp_path / "taken" / "file" / "deep.graphml")
    assert [path.name for path in tmp_path.iterdir() if path.name != "g"] == ["taken"]


# ---- other libraries ----------------------------------------------------------------------


def test_networkx_gets_types_ids_and_values(crew: og.Graph) -> None:
    networkx = pytest.importorskip("networkx")
    found = crew.to_networkx()
    assert isinstance(found, networkx.MultiDiGraph)
    # A property is called `type`, so the type is told by another name.
    assert found.graph == {"type_attr": "type_"}
    assert dict(found.nodes["Person", "ann"]) == {
        "type_": "Person",
        "id": "ann",
        "name": "ann",
        "age": 41,
        "born": datetime.date(1984, 2, 3),
        "nick": "",
    }
    assert found.nodes["Note", "ann"]["text"] == PEOPLE[2]["data"]["text"]
    assert sorted(found.edges(keys=True)) == [
        (("Person", "ann"), ("Person", "bob"), ("Knows", "e")),
        (("Person", "bob"), ("Note", "ann"), ("Wrote", "e")),
    ]
    data = found.get_edge_data(("Person", "ann"), ("Person", "bob"), ("Knows", "e"))
    assert data == {"type_": "Knows", "id": "e", "since": datetime.date(2020, 1, 1)}


def test_igraph_gets_types_ids_and_values(crew: og.Graph) -> None:
    pytest.importorskip("igraph")
    found = crew.to_igraph(types=["Wrote"])
    assert found.is_directed()
    assert found["type_attr"] == "type_"
    note = found.vs.find(type_="Note", id="ann")
    ann = found.vs.find(type_="Person", id="ann")
    assert (note["name"], ann["name"], ann["age"], ann["nick"]) == (None, "ann", 41, "")
    (wrote,) = found.es
    assert (wrote["type_"], wrote["id"]) == ("Wrote", "e")
    assert (found.vs[wrote.source]["id"], found.vs[wrote.target]["type_"]) == ("bob", "Note")


def test_the_nodes_of_a_result_and_the_edges_between_them_are_a_network(crew: og.Graph) -> None:
    pytest.importorskip("networkx")
    result = crew.query("query q() { match { $p: Person } return { $p } }")
    found = crew.entities.subgraph(result)
    network = found.to_networkx()
    assert set(network) == {("Person", "ann"), ("Person", "bob")}
    assert list(network.edges(keys=True)) == [
        (("Person", "ann"), ("Person", "bob"), ("Knows", "e"))
    ]
    assert network.nodes["Person", "ann"]["age"] == 41
    assert found.to_igraph().ecount() == 1


@pytest.mark.parametrize("package", ["networkx", "igraph"])
def test_a_missing_library_is_one_sentence_with_the_command(
    crew: og.Graph, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(og.BadRequestError, match=f"needs {package}") as caught:
        getattr(crew, f"to_{package}")()
    assert caught.value.hint == f"pip install 'omnigraph[{package}]'"


def test_networkx_reads_graphml_and_what_it_writes_loads(
    crew: og.Graph, new_graph: NewGraph, tmp_path: Path
) -> None:
    networkx = pytest.importorskip("networkx")
    crew.export(tmp_path / "crew.graphml")
    read = networkx.read_graphml(tmp_path / "crew.graphml")
    assert set(read) == {"Person:ann", "Person:bob", "Note:ann"}
    assert read.nodes["Person:ann"]["age"] == 41
    assert read.edges["Person:ann", "Person:bob"] == {
        "type_": "Knows",
        "id": "e",
        "since": "2020-01-01",
    }
    nodes, edges = read.nodes(data=True), read.edges(data=True)
    for attributes in [item[-1] for item in (*nodes, *edges)]:
        attributes["type"] = attributes.pop("type_")
    networkx.write_graphml(read, tmp_path / "again.graphml")
    again = copied(new_graph, tmp_path / "again.graphml")
    # networkx does not escape line ends, so that those of the note are read as one character.
    wanted = exported(crew)
    wanted[0]["data"]["text"] = wanted[0]["data"]["text"].replace("\r\n", "\n")
    assert again == wanted


# ---- files of other programs --------------------------------------------------------------

NEO4J = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="name" for="node" attr.name="name"/>
<key id="age" for="node" attr.name="age" attr.type="long"><default>7</default></key>
<key id="labels" for="node" attr.name="labels"/>
<key id="label" for="edge" attr.name="label"/>
<graph id="G" edgedefault="directed">
<node id="n0" labels=":Person"><data key="labels">:Person</data><data key="name">ann</data></node>
<node id="n1" labels=":Person"><data key="labels">:Boss:Person</data><data key="name">bob</data>
<data key="age">41</data></node>
<edge id="e0" source="n0" target="n1" label="KNOWS"><data key="label">KNOWS</data></edge>
</graph></graphml>
"""


def test_graphml_of_neo4j_loads_by_labels(new_graph: NewGraph, tmp_path: Path) -> None:
    (tmp_path / "neo4j.graphml").write_text(NEO4J)
    rows = copied(new_graph, tmp_path / "neo4j.graphml")
    assert [(row["data"]["name"], row["data"]["age"]) for row in rows[:2]] == [
        ("ann", 7),
        ("bob", 41),
    ]
    assert (rows[2]["edge"], rows[2]["from"], rows[2]["to"]) == ("Knows", "ann", "bob")


def test_a_type_without_a_key_keeps_the_ids_of_the_file(
    new_graph: NewGraph, tmp_path: Path
) -> None:
    text = '<graphml><graph><node id="a"/><node id="b"/><edge source="a" target="b"/></graph>'
    (tmp_path / "plain.graphml").write_text(text + "</graphml>")
    rows = copied(new_graph, tmp_path / "plain.graphml", "node N { x: I32? } edge E: N -> N")
    assert [row["data"]["id"] for row in rows[:2]] == ["a", "b"]
    assert (rows[2]["from"], rows[2]["to"]) == ("a", "b")


KEYS = '<graphml><key id="t" attr.name="type"/><key id="n" attr.name="name"/>'
BAD = {
    "<graphml><node></graphml>": "line 1: not valid XML: mismatched tag",
    "no xml": "line 1: not valid XML: syntax error",
    KEYS
    + '\n<node id="a"/></graphml>': "line 2: node 'a' has no attribute 'type'; expected one of",
    KEYS + '\n<node id="a"><data key="t">Dog</data></node></graphml>': (
        "line 2: node 'a' is of type 'Dog', which is unknown; expected one of Note, Person"
    ),
    KEYS + '\n<node id="a"><data key="x">1</data></node></graphml>': (
        "line 2: the key 'x' is not declared"
    ),
    KEYS
    + '<node id="a"><data key="t">Person</data><data key="n">ann</data></node>\n'
    + '<edge source="a" target="z"><data key="t">Knows</data></edge></graphml>': (
        "line 2: edge Knows: its target 'z' is not a node of the file"
    ),
    KEYS
    + '<node id="a"><data key="t">Person</data><data key="n">ann</data></node>\n'
    + '<edge source="a" target="a"><data key="t">Wrote</data></edge></graphml>': (
        "line 2: edge Wrote: its target 'a' is of type Person, expected Note"
    ),
    KEYS
    + '<node id="a"><data key="t">Person</data><data key="n">ann</data></node>\n'
    + '<node id="a"><data key="t">Person</data><data key="n">bob</data></node></graphml>': (
        "line 2: node 'a' appears twice"
    ),
    '<graphml><key id="t" attr.name="type"/><key id="g" attr.name="age"/>\n'
    '<node id="a"><data key="t">Person</data><data key="g">old</data></node></graphml>': (
        "line 2: property 'age': 'old' is not of type I32?"
    ),
    '<?xml version="1.0" encoding="no-such"?><graphml/>': "unknown encoding: no-such",
    '<?xml version="1.0" encoding="utf-7"?><graphml/>': "not valid XML",
    "<graphml>\n<hyperedge/></graphml>": "line 2: a hyperedge joins any number of nodes",
    '<!DOCTYPE g [<!ENTITY a "aaaa">]><graphml>&a;</graphml>': "declares entities of its own",
}


@pytest.mark.parametrize("text", BAD, ids=lambda text: BAD[text][:40])
def test_bad_graphml_is_told_by_line_and_writes_nothing(
    crew: og.Graph, tmp_path: Path, text: str
) -> None:
    (tmp_path / "bad.graphml").write_text(text)
    head = crew.commits.head()
    with pytest.raises((og.DataError, og.BadRequestError)) as caught:
        crew.bulk(str(tmp_path / "bad.graphml"), mode="merge", engine="local")
    assert BAD[text] in caught.value.message
    assert crew.commits.head() == head


def test_a_bad_row_of_graphml_can_be_left_out(crew: og.Graph, tmp_path: Path) -> None:
    head = KEYS.replace("</graphml>", "") + '<key id="g" attr.name="age"/>'
    person = '\n<node id="{0}"><data key="t">Person</data><data key="n">{0}</data>{1}</node>'
    text = head + person.format("cy", "") + person.format("di", '<data key="g">old</data>')
    (tmp_path / "some.graphml").write_text(text + "</graphml>")
    result = crew.bulk(
        str(tmp_path / "some.graphml"), mode="append", allow_rejects=1, engine="local"
    )
    assert (dict(result.nodes), result.rejected) == ({"Person": 1}, 1)


def test_a_file_named_as_a_type_holds_its_rows(crew: og.Graph, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "Person.csv").write_text("name,age\ncy,3\n")
    (folder / "Knows.csv").write_text("from,to\ncy,ann\n")
    (folder / "notes.toml").write_text("[anything]\n")
    result = crew.bulk(str(folder), mode="append", engine="local")
    assert (dict(result.nodes), dict(result.edges)) == ({"Person": 1}, {"Knows": 1})
    result = crew.bulk(str(folder / "Person.csv"), mode="merge", engine="local")
    assert dict(result.nodes) == {"Person": 1}
    (folder / "people.csv").write_text("name\ndi\n")
    with pytest.raises(og.BadRequestError, match="does not say of which type") as caught:
        crew.bulk(str(folder), mode="merge", engine="local")
    assert "name the file as the type" in (caught.value.hint or "")


def test_a_mapping_speaks_for_its_folder(crew: og.Graph, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "people.csv").write_text("who,nick\ncy,-\ndi,\n")
    (folder / "other.csv").write_text("not,used\n")
    (folder / "mapping.toml").write_text(
        "[Person]\ndata = 'people.csv'\nnull = '-'\ncolumns = { who = 'name' }\n"
    )
    crew.bulk(str(folder), mode="append", engine="local")
    cy, di = crew.get("Person", "cy"), crew.get("Person", "di")
    assert cy is not None
    assert di is not None
    assert (cy["nick"], di["nick"]) == (None, "")
    (folder / "mapping.toml").write_text("[Person]\nfile = 'people.csv'\n")
    with pytest.raises(og.BadRequestError, match=r"\[Person\] has no 'file'"):
        crew.bulk(str(folder), mode="merge", engine="local")


def test_a_long_text_survives_csv(new_graph: NewGraph, tmp_path: Path) -> None:
    graph = new_graph(CREW)
    load(graph, [node("Note", id="n", text="x" * 200_000)])
    graph.export(tmp_path / "out", format="csv")
    assert copied(new_graph, tmp_path / "out") == exported(graph)


def test_the_command_line_writes_and_loads_all_formats(
    crew: og.Graph, cli: Cli, tmp_path: Path
) -> None:
    uri = crew.uri
    done = cli("export", uri, "--format", "csv", "--out", "folder")
    assert (done.code, done.err) == (0, "wrote 5 entities to folder\n")
    assert cli("export", uri, "--out", "crew.graphml").code == 0
    (tmp_path / "crew.pg").write_text(CREW)
    for number, source in enumerate(("folder", "crew.graphml", "folder/mapping.toml")):
        assert cli("init", f"c{number}", "--schema", "crew.pg").code == 0
        loaded = cli("load", f"c{number}", "--data", source, "--mode", "append", "--quiet")
        assert loaded.code == 0, loaded.err
        assert cli("export", f"c{number}").out == cli("export", uri).out
    again = cli("export", uri, "--format", "csv", "--out", "folder")
    assert (again.code, "exists already" in again.err) == (5, True)
    for form, place in (("csv", "FOLDER"), ("graphml", "FILE")):
        missing = cli("export", uri, "--format", form)
        assert (missing.code, f"--format {form} needs --out {place}" in missing.err) == (2, True)


def test_only_the_bad_element_of_a_line_is_left_out(crew: og.Graph, tmp_path: Path) -> None:
    person = '<node id="{0}"><data key="t">Person</data><data key="n">{0}</data>{1}</node>'
    old = '<data key="g">old</data>'
    nodes = [person.format(name, old if name == "p2" else "") for name in ("p1", "p2", "p3", "p4")]
    again = person.format("p5", "").replace(">p5<", ">p4<")
    text = KEYS + '<key id="g" attr.name="age"/>' + "".join([*nodes, again]) + "</graphml>"
    (tmp_path / "1.graphml").write_text(text)
    (tmp_path / "2.graphml").write_text(KEYS + person.format("q1", "") + "</graphml>")
    files = [str(tmp_path / name) for name in ("1.graphml", "2.graphml")]
    with pytest.raises(og.DataError, match=r"1\.graphml line 1: property 'age'") as found:
        crew.bulk(files, mode="append", engine="local")
    assert [(item["line"], item["element"]) for item in found.value.problems] == [(1, 2)]
    rejects = tmp_path / "rejects.jsonl"
    result = crew.bulk(files, mode="append", allow_rejects=2, rejects=rejects, engine="local")
    assert (dict(result.nodes), result.rejected) == ({"Person": 4}, 2)
    assert [json.loads(line)["element"] for line in rejects.read_text().splitlines()] == [2, 5]
