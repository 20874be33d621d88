"""How much of something can be told from something else, whatever the form: boosted trees on numbers in bins, judged on rows kept back.

A reward that is paid for the right one of three bins is no line and no square of what is seen; to a line it looks like noise.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

MOST_ROWS, MOST_COLUMNS = 2_000, 32
BINS: Final = 24
TREES, DEPTH, RATE = 40, 4, 0.25
BLOCK: Final = 25
"""Neighbours in time are alike: every third block of so many rows is kept back as a whole."""

Array = np.ndarray[Any, np.dtype[Any]]


def explain(points: Array, target: Array) -> float:
    """The share of a target's variance that the columns tell on rows that were kept back; 0 where there is nothing to tell."""
    points, target = points[:MOST_ROWS, :MOST_COLUMNS], target[:MOST_ROWS]
    kept_back = np.arange(len(target)) // BLOCK % 3 == 2
    if kept_back.sum() < 2 * BLOCK or not target[kept_back].var() > 0 or not points.shape[1]:
        return 0.0
    cells, known = _cut(points), (~kept_back).astype(float)
    guess = np.full(len(target), target[~kept_back].mean())
    for _ in range(TREES):
        guess = guess + RATE * _grow(cells, (target - guess) * known, known)
    missed = (target - guess)[kept_back]
    return max(0.0, 1.0 - float(np.mean(missed**2)) / float(target[kept_back].var()))


def _cut(points: Array) -> Array:
    """Every column in bins that hold about as many rows each."""
    edges = np.quantile(points, np.arange(1, BINS) / BINS, axis=0)
    return np.stack([np.searchsorted(edge, column, side="right") for edge, column in zip(edges.T, points.T, strict=True)], axis=1)


def _grow(cells: Array, left: Array, known: Array) -> Array:
    """What one tree says of every row; `left` is what is still to be explained, 0 where a row is kept back."""
    rows, columns = cells.shape
    node, place = np.zeros(rows, np.int64), np.arange(columns)
    for depth in range(DEPTH):
        shape = (2**depth, columns, BINS)
        flat = ((node[:, None] * columns + place) * BINS + cells).ravel()
        size = int(np.prod(shape))
        total = np.cumsum(np.bincount(flat, np.repeat(left, columns), size).reshape(shape), axis=2)
        count = np.cumsum(np.bincount(flat, np.repeat(known, columns), size).reshape(shape), axis=2)
        # What a cut gains: the sums of both sides, squared and divided by their numbers.
        gain = total**2 / (count + 1) + (total[..., -1:] - total) ** 2 / (count[..., -1:] - count + 1)
        best = gain.reshape(len(gain), -1).argmax(1)
        column, edge = best[node] // BINS, best[node] % BINS
        node = 2 * node + (cells[np.arange(rows), column] > edge)
    leaves = np.bincount(node, left, 2**DEPTH) / (np.bincount(node, known, 2**DEPTH) + 1)
    said: Array = leaves[node]
    return said
