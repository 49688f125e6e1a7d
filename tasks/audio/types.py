"""Types that all decoders share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tasks.recording.faults import Fault

Samples = NDArray[np.float32]
#: What to do about a file that is damaged or lacks a part.
AGAIN = "get the file again from where it came from"


@dataclass(frozen=True, slots=True)
class Header:
    """What the header claims. `frames` None: it gives no length, or an impossible one."""

    rate: int
    channels: int
    frames: int | None
    format: str  # container/codec, say wav/pcm_16
    decoder: str  # soundfile | av | whole: a short FLAC file at once


class Decoder(Protocol):
    header: Header
    faults: list[Fault]  # complete when `read` has ended

    def read(self, frames: int) -> Iterator[Samples]:
        """Blocks of at most `frames`, float32 [n, channels], to the end. Raises one of BROKEN, or
        an ItemError that says more."""
        ...

    def skip_to(self, sample: int) -> bool:
        """Seek to a sample and return True; False, without moving, where seeking is not exact."""
        return False

    def close(self) -> None: ...
