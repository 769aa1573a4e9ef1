"""Two agent frameworks on one graph, without a network: `python examples/agents/demo.py`."""

from __future__ import annotations

import tempfile

import langchain_adapter
import llama_index_adapter
from agent_graph import SCHEMA, BranchMemory, HybridSearch

import omnigraph as og

NOTES = {
    "wal": "A write-ahead log makes commits survive a crash.",
    "csr": "Compressed rows hold the edges of a graph in two arrays.",
    "tea": "Green tea is brewed below the boiling point.",
}


def main(folder: str) -> list[str]:
    """Make a graph, ask it by both frameworks, and remember what was said."""
    og.init(f"{folder}/notes.omni", SCHEMA).close()
    lines: list[str] = []
    # An embedder without meaning, which needs no model; words alone find what fits here.
    with og.open(f"{folder}/notes.omni", embedder=og.HashEmbedder(), actor="agent-7") as graph:
        rows = [{"type": "Note", "data": {"slug": s, "text": t}} for s, t in NOTES.items()]
        graph.load(rows, mode="append")
        search = HybridSearch(graph, limit=2)

        found = langchain_adapter.GraphRetriever(search=search).invoke("how do commits survive?")
        lines.append(f"LangChain found {found[0].metadata['slug']}: {found[0].page_content}")
        nodes = llama_index_adapter.GraphRetriever(search).retrieve("brewing tea")
        lines.append(f"LlamaIndex found {nodes[0].node.node_id}: {nodes[0].node.text}")

        history = langchain_adapter.GraphMessageHistory(BranchMemory(graph, "c1"))
        history.add_messages(
            [
                langchain_adapter.HumanMessage(content="How do commits survive?"),
                langchain_adapter.AIMessage(content="By a write-ahead log."),
            ]
        )
        # The same conversation, seen by the other framework.
        memory = llama_index_adapter.GraphMemory(memory=BranchMemory(graph, "c1"))
        lines.append(f"remembered {len(memory.get())} messages on {history.memory.branch}")
        nothing = graph.snapshot("main").tables["node:Message"].row_count
        history.memory.keep()
        kept = graph.snapshot("main").tables["node:Message"].row_count
        lines.append(f"main had {nothing} messages, and has {kept} now that they were merged")
    return lines


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print("\n".join(main(place)))
