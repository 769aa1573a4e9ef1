"""Where nodes of a picture go: springs between neighbours, and all push each other away."""

from __future__ import annotations

from collections.abc import Sequence

Point = tuple[float, float]
ROUNDS = 120
_GOLDEN_ANGLE = 2.399963229728653
_PULL_TO_MIDDLE = 1.0
SIDE_MAX = 1_400.0


def spread(count: int, edges: Sequence[tuple[int, int]], *, distance: float = 120.0) -> list[Point]:
    """Return a place for each node; neighbours come to be about so far apart.

    Nothing is left to chance: the same nodes and edges have the same places every time.
    """
    import numpy as np

    if count == 0:
        return []
    places = np.arange(count, dtype=np.float64)
    radius, angle = distance * 0.5 * np.sqrt(places + 0.5), places * _GOLDEN_ANGLE
    at = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    ends = np.array([pair for pair in edges if pair[0] != pair[1]], dtype=np.int64).reshape(-1, 2)
    for turn in range(ROUNDS):
        gaps = at[:, None, :] - at[None, :, :]
        squares = np.einsum("ijk,ijk->ij", gaps, gaps)
        np.fill_diagonal(squares, 1.0)
        push = np.einsum("ijk,ij->ik", gaps, distance**2 / np.maximum(squares, 1.0))
        pull = -_PULL_TO_MIDDLE * at
        along = at[ends[:, 1]] - at[ends[:, 0]]
        force = along * (np.linalg.norm(along, axis=1, keepdims=True) / distance)
        np.add.at(pull, ends[:, 0], force)
        np.add.at(pull, ends[:, 1], -force)
        step = push + pull
        most = distance * (1 - turn / ROUNDS) * 0.5 + 0.5
        long = np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-9)
        at = at + step / long * np.minimum(long, most)
    at = at - at.min(axis=0)
    at *= min(1.0, SIDE_MAX / max(float(at.max()), 1.0))
    points = np.round(at, 1)
    return [(float(x), float(y)) for x, y in points]
