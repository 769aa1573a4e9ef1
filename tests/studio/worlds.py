"""A graph worth looking at: people, papers, a branch of an agent, and names that look like code."""

from __future__ import annotations

from pathlib import Path

import omnigraph as og

SCHEMA = """\
node Person {
    slug: String @key
    name: String @index
    born: Date?
    role: String?
    level: I32?
    bio: String?
}
node Company { slug: String @key  name: String  founded: I32? }
node Paper { title: String @key  published: DateTime?  embedding: Vector(4)? }
edge Knows: Person -> Person { since: Date?  @unique(src, dst) }
edge WorksAt: Person -> Company
edge Wrote: Person -> Paper
"""
PEOPLE = ("Ada Lovelace", "Grace Hopper", "Alan Turing", "Barbara Liskov", "Tony Hoare")
HOSTILE_ID = "<script>alert(1)</script>"
HOSTILE_NAME = "<img src=x onerror=alert(2)>"
HOSTILE_TEXT = "\"><script>document.title='gone'</script>"
CHANGE = (
    "query change($s: String, $r: String, $l: I32)"
    " { update Person set { role: $r, level: $l } where slug = $s }"
)
PAPERS = 4


def build(path: Path) -> None:
    """Make the graph: `review` is an agent's branch that is in conflict with main about ada."""
    with og.init(path, SCHEMA, durability="none") as graph:
        lena, agent = graph.as_actor("lena"), graph.as_actor("agent-7")
        lena.load(list(_rows()), mode="append")
        graph.tags.create("v1", version=2)
        graph.branches.create("review")
        agent.mutate(CHANGE, {"s": "ada", "r": "mathematician", "l": 9}, branch="review")
        insert = 'query n() { insert Person { slug: "edgar", name: "Edgar Codd", level: 3 } }'
        agent.mutate(insert, branch="review")
        agent.mutate('query e() { insert Knows { from: "edgar", to: "ada" } }', branch="review")
        agent.mutate('query d() { delete Paper where title = "Paper 3" }', branch="review")
        lena.mutate(CHANGE, {"s": "ada", "r": "countess", "l": 7})


def _rows() -> list[dict[str, object]]:
    slugs = [name.split()[0].lower() for name in PEOPLE]
    rows: list[dict[str, object]] = [
        {"type": "Person", "data": {"slug": slug, "name": name, "born": "1912-06-23", "level": 1}}
        for slug, name in zip(slugs, PEOPLE, strict=True)
    ]
    hostile = {"slug": HOSTILE_ID, "name": HOSTILE_NAME, "bio": HOSTILE_TEXT}
    rows.append({"type": "Person", "data": hostile})
    rows.append({"type": "Company", "data": {"slug": "navy", "name": "US Navy", "founded": 1775}})
    for number in range(PAPERS):
        data = {"title": f"Paper {number}", "published": "2020-01-02T03:04:05Z"}
        rows.append({"type": "Paper", "data": {**data, "embedding": [0.1, 0.2, 0.3, 0.4]}})
    for number, slug in enumerate(slugs):
        friend = slugs[(number + 1) % len(slugs)]
        rows.append({"edge": "Knows", "from": slug, "to": friend, "data": {"since": "2001-02-03"}})
        rows.append({"edge": "WorksAt", "from": slug, "to": "navy"})
        rows.append({"edge": "Wrote", "from": slug, "to": f"Paper {number % PAPERS}"})
    rows.append({"edge": "Knows", "from": "ada", "to": HOSTILE_ID})
    return rows
