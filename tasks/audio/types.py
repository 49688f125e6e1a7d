"""Types that all decoders share, and the file object that they read."""

import errno
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from ..recording.faults import Fault
from ..recording.locator import Channels

Samples = NDArray[np.float32]
#: The weight of each channel in the mix to mono.
Weights = tuple[float, ...]
#: What to do about a file that is damaged or lacks a part.
AGAIN = "get the file again from where it came from"
#: No codec packs more samples into a byte: a header that claims more is wrong.
FRAMES_PER_BYTE = 20_000


@dataclass(frozen=True, slots=True)
class Header:
    """The claims of a header. `frames` None: it states no length, or an impossible one."""

    rate: int
    channels: int
    frames: int | None
    format: str  # container/codec, say wav/pcm_16
    decoder: str  # soundfile | av | whole: a short FLAC file at once
    weights: Weights | None = None  # None: the mix is the plain mean
    track: int = 0  # of the file's audio tracks, from 0
    tracks: int = 1
    picked: Channels | None = None  # channels of the file in use; None: all
    start: float = 0.0  # time of the first sample where players count from 0, s


@dataclass(frozen=True, slots=True)
class Sides:
    """Whether channels hold different voices, and why. `alone`: share of the speech with one
    channel active alone; `correlation` of the channels there, at no lag; `cross_talk`: level of the
    other side in a channel, dB below its own. None: not measurable."""

    apart: bool
    why: str
    alone: float | None = None
    correlation: float | None = None
    cross_talk: float | None = None

    def __str__(self) -> str:
        measured = [
            ("one alone is heard in {:.0%} of the speech", self.alone),
            ("cross-talk {:.0f} dB", self.cross_talk),
            ("correlation {:.2f}", self.correlation),
        ]
        numbers = "; ".join(form.format(value) for form, value in measured if value is not None)
        return self.why + (f" ({numbers})" if numbers else "")


class Decoder(Protocol):
    header: Header
    faults: list[Fault]  # complete once `read` has ended

    def read(self, frames: int) -> Iterator[Samples]:
        """Blocks of at most `frames`, float32 [n, channels], to the end. Raises one of BROKEN, or a
        more specific ItemError."""
        ...

    def skip_to(self, sample: int) -> bool:
        """Seek to a sample and return True; False, without moving, if seeking is not exact."""
        return False

    def close(self) -> None: ...


class Nameless:
    """A file object for decoders: without a name, so that they judge by content only. It raises
    nothing, because both libraries would print an exception on the terminal, and PyAV would raise
    it for another file.

    Decoders see a failed read as the end of the file; the code that opened the file checks it
    (`container.failure`). A damaged header may seek to a place that no file has: a negative number
    is an error to decoders.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.tell = file, file.tell

    def read(self, size: int = -1) -> bytes:
        try:
            return self._file.read(size)
        except OSError:
            return b""

    def readinto(self, buffer: memoryview) -> int:
        try:
            return self._file.readinto(buffer)  # type: ignore[attr-defined, no-any-return]
        except OSError:
            return 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        try:
            return self._file.seek(offset, whence)
        except (OSError, ValueError):
            return -errno.EINVAL


# Blocks of samples: regrouping, energy, and a check for finite values.


BLOCK_FRAMES = 65536  # frames of a decoded block
BLOCK_VALUES = 1 << 21  # frames x channels of a block: 8 MB for any number of channels
ROW = 4096  # samples summed at once


def regroup(blocks: Iterable[Samples], size: int) -> Iterator[Samples]:
    """The same samples in pieces of `size`; the last one may be shorter."""
    pending: list[Samples] = []
    count = 0
    for block in blocks:
        start = 0
        while count + len(block) - start >= size:
            piece = block[start : start + size - count]
            start += len(piece)
            yield np.concatenate([*pending, piece]) if pending else piece
            pending, count = [], 0
        if start < len(block):
            pending.append(block[start:])
            count += len(block) - start
    if pending:
        yield pending[0] if len(pending) == 1 else np.concatenate(pending)


def energy(samples: Samples) -> float:
    """Sum of the squares of contiguous samples; infinite or NaN if it overflows float32."""
    # In rows: BLAS spreads longer products over all cores.
    flat = samples.reshape(-1)
    cut = len(flat) - len(flat) % ROW
    rows, rest = flat[:cut].reshape(-1, ROW), flat[cut:]
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.vecdot(rows, rows).sum()) + float(np.vecdot(rest, rest))


def all_finite(samples: Samples) -> bool:
    # A NaN or an infinity makes the sum of squares non-finite, and that takes one pass over memory.
    # Large finite samples may overflow the sum: then every sample is checked.
    if samples.flags.c_contiguous and math.isfinite(energy(samples)):
        return True
    return bool(np.isfinite(samples).all())
