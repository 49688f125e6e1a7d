"""`<file>.idx`: where each sample of a file begins and the last one ends, for random access.

Unsigned 64-bit integers, little-endian, as lhotse and Energon read them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SUFFIX = ".idx"


def of(begins: Sequence[int], end: int) -> bytes:
    """Bytes of an index; `begins` and `end` are byte offsets."""
    return np.array([*begins, end], "<u8").tobytes()


def of_lines(data: bytes) -> bytes:
    """Index of a file of lines."""
    sizes = [len(line) + 1 for line in data.split(b"\n")[:-1]]
    return np.cumsum([0, *sizes]).astype("<u8").tobytes()
