"""`<file>.idx`: where each sample of a file begins and the last one ends, for random access.

Unsigned 64-bit integers, little-endian, as lhotse and Energon read them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from . import Output

SUFFIX = ".idx"


def of(edges: Sequence[int]) -> bytes:
    """Bytes of an index of these offsets."""
    return np.array(edges, "<u8").tobytes()


def of_lines(data: bytes) -> bytes:
    """Index of a file of lines."""
    sizes = [len(line) + 1 for line in data.split(b"\n")[:-1]]
    return of(np.cumsum([0, *sizes]).tolist())


def faults(out: Output, path: str, right: bytes) -> list[str]:
    same = (out.home / path).read_bytes() == right
    return [] if same else [f"{path} does not match the positions in its file"]
