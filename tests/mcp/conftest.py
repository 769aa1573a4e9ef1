"""Graphs for agents."""

from tests.integration.conftest import cli

__all__ = ["cli"]
