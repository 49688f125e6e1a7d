"""What decoders have in common."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tasks.recording.faults import Fault

Samples = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Header:
    """What the header claims. `frames` None: it does not say, or says what cannot be."""

    rate: int
    channels: int
    frames: int | None
    format: str  # container/codec, say wav/pcm_16
    decoder: str  # soundfile | av


class Decoder(Protocol):
    header: Header
    faults: list[Fault]  # complete once `read` has come to its end

    def read(self, frames: int) -> Iterator[Samples]:
        """Blocks of at most `frames`, float32 [n, channels], to the end; raises one of BROKEN, or
        ItemError where it knows better."""
        ...

    def skip_to(self, sample: int) -> bool:
        """Jump there if this format's seek is exact; else say no."""
        ...

    def close(self) -> None: ...
