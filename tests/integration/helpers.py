"""What the integration tests share: small graphs, their rows, and their files as hashes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import omnigraph as og
from omnigraph.values.words import LoadWord
from tests.places import hashes

Envelope = dict[str, Any]

PEOPLE = """\
node Person {
    name: String @key
    age: I32?
    mail: String?
    @unique(mail)
}

node Paper {
    title: String
    pages: I32 @default(1)
}

edge Knows: Person -> Person {
    since: Date?
    weight: F64 @default(1.0)
    @unique(src, dst)
}

edge Wrote: Person -> Paper {
    role: String?
}
"""


class NewGraph(Protocol):
    """Makes a graph in the test's folder; it is closed when the test ends."""

    def __call__(self, schema: str = PEOPLE, *, name: str = "g") -> og.Graph: ...


def node(type_name: str, **data: object) -> Envelope:
    return {"type": type_name, "data": data}


def edge(type_name: str, source: str, target: str, **data: object) -> Envelope:
    return {"edge": type_name, "from": source, "to": target, "data": data}


def load(graph: og.Graph, rows: Iterable[Mapping[str, object]], mode: LoadWord = "append") -> None:
    graph.load(rows, mode=mode)


def run(graph: og.Graph, body: str, **params: tuple[str, object]) -> og.MutationResult:
    """Run the statements of a mutation; a parameter is given as its type and its value."""
    signature = ", ".join(f"${name}: {kind}" for name, (kind, _value) in params.items())
    values = {name: value for name, (_kind, value) in params.items()}
    return graph.mutate(f"query q({signature}) {{ {body} }}", values)


def exported(graph: og.Graph, *types: str, version: int | None = None) -> list[Envelope]:
    found = graph.export(types=types, version=version)
    assert not isinstance(found, int)
    return list(found)


def rows(graph: og.Graph, type_name: str, *, version: int | None = None) -> dict[str, Envelope]:
    """Return the properties of every entity of a type, by id; null properties are left out."""
    return {
        item["data"]["id"]: {k: v for k, v in item["data"].items() if k != "id" and v is not None}
        for item in exported(graph, type_name, version=version)
    }


def ends(graph: og.Graph, type_name: str) -> list[tuple[str, str]]:
    """Return from and to of every edge of a type, sorted."""
    return sorted((item["from"], item["to"]) for item in exported(graph, type_name))


def head(graph: og.Graph) -> str:
    return graph.commits.head().graph_commit_id


def files(root: str | Path) -> dict[str, str]:
    """Return the hash of every file below a folder; temporary files start with a dot."""
    return hashes(str(root))


def pins(graph: og.Graph) -> dict[str, int]:
    """Return the published version of every table."""
    return {key: pin.version for key, pin in graph.snapshot().tables.items()}


def messages(error: og.DataError) -> list[str]:
    return [str(problem["message"]) for problem in error.problems]


def jsonl(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def ids(values: Sequence[Envelope]) -> list[str]:
    return [str(item["data"]["id"]) for item in values]
