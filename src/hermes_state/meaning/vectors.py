"""Vectors in few bytes: bits to look through all of them, and four bits a number to compare well.

The bits are the signs of the numbers. Vectors that point the same way differ in few of them, and
counting differing bits is quick enough to look through a million messages. The best few hundred are
then compared by the numbers themselves, in sixteen steps each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]
else:
    Array = Any

_STEPS = 7.5
_SPREAD = 2.7
"""Numbers beyond so many times their root mean square are cut to that."""


def normalized(vectors: Sequence[Sequence[float]] | Array) -> Array:
    """The vectors with a length of 1; those without a direction are zeros."""
    import numpy as np

    rows = np.asarray(vectors, dtype=np.float32)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise ValueError("vectors must be lists of numbers, all of the same length")
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 1e-12)


def to_bits(rows: Array) -> Array:
    """A row of 64-bit words for each vector, with a bit for each number above 0."""
    import numpy as np

    missing = -rows.shape[1] % 64
    signs = np.pad(rows > 0, ((0, 0), (0, missing)))
    return np.packbits(signs, axis=1).view(np.uint64)


def to_fine(rows: Array) -> Array:
    """The vectors in four bits for each number: rows of bytes."""
    import numpy as np

    missing = rows.shape[1] % 2
    padded = np.pad(rows, ((0, 0), (0, missing)))
    scale = np.sqrt(np.mean(np.square(rows), axis=1, keepdims=True)) * _SPREAD
    steps = np.divide(padded, scale, out=np.zeros_like(padded), where=scale > 1e-12)
    levels = np.clip(np.round((steps + 1.0) * _STEPS), 0, 15).astype(np.uint8)
    packed: Array = levels[:, 0::2] << 4 | levels[:, 1::2]
    return packed


def from_fine(packed: Array, width: int) -> Array:
    """What `to_fine` made, as vectors of length 1."""
    import numpy as np

    levels = np.empty((len(packed), packed.shape[1] * 2), dtype=np.float32)
    levels[:, 0::2] = packed >> 4
    levels[:, 1::2] = packed & 15
    return normalized(levels[:, :width] - _STEPS)
