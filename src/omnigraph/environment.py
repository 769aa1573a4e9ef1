"""The variables of the process, as the outermost layer hands them in.

The package itself, the command line, the server's settings and the Spark session know `os.environ`;
rooms that need a variable ask here. So a test, or a program with settings of its own, can say what
the variables are.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Final

from omnigraph.limits import INDEX_SORT_BYTES_MAX

LANCE_MEMORY: Final = "LANCE_MEM_POOL_SIZE"
"""Bytes Lance may sort the keys of an index in. It can be told in no other way, uses memory as it
needs it, and fails at the limit."""

_given: Mapping[str, str] = {}


def use(variables: Mapping[str, str]) -> None:
    """Let these be the variables, as they are at each look."""
    global _given
    _given = variables


def variables() -> Mapping[str, str]:
    """Return the variables: none before `use` says which."""
    return _given


def tell_libraries(variables: MutableMapping[str, str]) -> None:
    """Add what libraries are told by variables, unless the user has said it.

    Threads may look at variables at any time, so this comes before there are any.
    """
    variables.setdefault(LANCE_MEMORY, str(INDEX_SORT_BYTES_MAX))
