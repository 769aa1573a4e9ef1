"""Pictures for notebooks and files: nodes and edges, and schemas, as SVG and Mermaid."""

from omnigraph.drawing.choosing import drawn_first, drawn_state, with_neighbours
from omnigraph.drawing.pictures import draw_subgraph
from omnigraph.drawing.schemas import draw_schema
from omnigraph.drawing.svg import Drawing

__all__ = [
    "Drawing",
    "draw_schema",
    "draw_subgraph",
    "drawn_first",
    "drawn_state",
    "with_neighbours",
]
