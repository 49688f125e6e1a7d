"""Embeddings of more voices than memory holds: in a file, by the places of their groups."""

from __future__ import annotations

import os
from typing import IO

import numpy as np
from numpy.typing import NDArray

from tasks.corpuswide.voices import BYTES
from tasks.speech.embedding import SIZE

Small = NDArray[np.int32]


class Vectors:
    """Means of groups: those of `few` in memory, then one embedding each, in a file."""

    def __init__(self, file: IO[bytes], few: int, count: int) -> None:
        self.few = np.zeros((few, SIZE), np.float32)
        self._file, self._count = file, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: slice) -> NDArray[np.float32]:
        low, high, _ = at.indices(self._count)
        few = len(self.few)
        single = range(max(low, few) - few, max(high, few) - few)
        data = os.pread(self._file.fileno(), BYTES * len(single), BYTES * single.start)
        found = np.frombuffer(data, "<f2").reshape(-1, SIZE).astype(np.float32)
        return np.concatenate([self.few[low:high], found])

    def put(self, place: Small, vectors: list[bytes], share: NDArray[np.float32]) -> None:
        """Add embeddings to the groups of these places."""
        shared = place < len(self.few)
        some = [vectors[at] for at in np.flatnonzero(shared).tolist()]
        data = np.frombuffer(b"".join(some), "<f2").reshape(-1, SIZE)
        np.add.at(self.few, place[shared], data * share[shared, None])
        for at in np.flatnonzero(~shared).tolist():
            os.pwrite(self._file.fileno(), vectors[at], BYTES * (int(place[at]) - len(self.few)))
