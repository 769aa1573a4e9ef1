"""Graphs with a policy, and the command line."""

from tests.integration.conftest import cli, graph, new_graph

__all__ = ["cli", "graph", "new_graph"]
