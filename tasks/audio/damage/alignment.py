"""Where the samples of an uncompressed file are misread, because bytes fell out before them."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np

from tasks.audio.damage.promise import Promise
from tasks.recording.container import undisturbed

_TAILS = (1 << 11, 1 << 13, 1 << 16)  # last bytes whose alignment is checked
_STRETCH = 1 << 16  # bytes whose alignment is checked at once
_LOUDEST, _TINIEST = 1e6, 1e-20  # of full scale
_ROUGH = 0.6  # the right alignment is smoother than a wrong one by more than this factor


@undisturbed
def lost_since(file: BinaryIO, found: Promise) -> int | None:
    """First doubtful sample of a file that lacks a part of a frame; None: it lacks only the end of
    its last frame.

    After missing bytes each sample is read from half of one and half of the next, which sounds like
    noise: the end of the file is smoother when frames are counted back from its last byte. Where
    that begins is unknown, so everything is doubtful after the last stretch that is clearly
    smoother when frames are counted from the start; without such a stretch, the whole recording.
    """
    if found.width < 2 or not found.half_frame:
        return None
    shifted = any(_shifted(file, found, length) for length in _TAILS)
    if found.floats:
        return 0 if shifted else None
    return _last_smooth(file, found, shifted)


def _last_smooth(file: BinaryIO, found: Promise, shifted: bool) -> int | None:
    """First sample of the last stretch that is aligned with the start of the file, if a stretch
    after it is `shifted`; 0 where only shifted ones are found."""
    step = _STRETCH // found.frame
    for start in range((found.held - found.frame) // found.frame // step * step, -1, -step):
        at = found.at + start * found.frame
        length = min(step * found.frame, found.at + found.held - at - found.half_frame)
        right = _roughness(file, at, length, found)
        wrong = _roughness(file, at + found.half_frame, length, found)
        if right < _ROUGH * wrong:
            return start if shifted else None
        shifted = shifted or (wrong < _ROUGH * right and not _padded(file, at, length, found))
    return 0 if shifted else None


def _shifted(file: BinaryIO, found: Promise, length: int) -> bool:
    """Whether the last `length` bytes are aligned with the end of the file, not with its start."""
    length = min(found.held, length) // found.frame * found.frame - found.frame
    end = found.at + found.held
    if found.floats:
        return _absurd(file, end - found.half_frame - length, length, found)
    if _padded(file, end - found.half_frame - length, length, found):
        return False
    wrong = _roughness(file, end - found.half_frame - length, length, found)
    return _roughness(file, end - length, length, found) < _ROUGH * wrong


def _padded(file: BinaryIO, at: int, length: int, found: Promise) -> bool:
    """Whether the lowest byte is always 0, as with 8 bits in 16: such samples look quiet when they
    are read a byte off."""
    file.seek(at)
    data = np.frombuffer(file.read(length), np.uint8)
    return not data[0 if found.order == "<" else found.width - 1 :: found.width].any()


def _absurd(file: BinaryIO, at: int, length: int, found: Promise) -> bool:
    """Whether floating-point samples have values that no recording has."""
    file.seek(at)
    kind = np.dtype(f"{found.order}f{found.width}")
    data = file.read(length)
    values = np.frombuffer(data[: len(data) // found.width * found.width], kind)
    with np.errstate(invalid="ignore"):
        tiny = (np.abs(values) < _TINIEST) & (values != 0)
        return bool((~(np.abs(values) < _LOUDEST)).any() or tiny.mean() > 0.5)


def _roughness(file: BinaryIO, at: int, length: int, found: Promise) -> float:
    """Mean step from one sample to the next, summed over channels. Samples read a byte off have
    their lowest bits on top, and so large steps, however quiet they are."""
    file.seek(at)
    data = np.frombuffer(file.read(length), np.uint8)
    data = data[: len(data) // found.frame * found.frame].reshape(-1, found.frame)
    upper = (found.width - 1, found.width - 2) if found.order == "<" else (0, 1)
    columns = range(0, found.frame, found.width)
    values = [
        data[:, c + upper[0]].astype(np.int8) * 256.0 + data[:, c + upper[1]] for c in columns
    ]
    return sum(float(np.abs(np.diff(v)).sum()) for v in values) / max(len(data), 1)
