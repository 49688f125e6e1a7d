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
def lost_since(file: BinaryIO, audio: Promise) -> int | None:
    """First doubtful sample of a file that lacks a part of a frame; None: it lacks only the end of
    its last frame.

    After missing bytes each sample is read from half of one and half of the next, which sounds like
    noise: the end of the file is smoother when frames are counted back from its last byte. Where
    that begins is unknown, so everything is doubtful after the last stretch that is clearly
    smoother when frames are counted from the start; without such a stretch, the whole recording.
    """
    if audio.width < 2 or not audio.half_frame:
        return None
    shifted = any(_shifted(file, audio, length) for length in _TAILS)
    if audio.floats:
        return 0 if shifted else None
    return _last_smooth(file, audio, shifted)


def _last_smooth(file: BinaryIO, audio: Promise, shifted: bool) -> int | None:
    """First sample of the last stretch that is aligned with the start of the file, if a stretch
    after it is `shifted`; 0 where only shifted ones are found."""
    step = _STRETCH // audio.frame
    for start in range((audio.held - audio.frame) // audio.frame // step * step, -1, -step):
        offset = audio.start + start * audio.frame
        length = min(step * audio.frame, audio.start + audio.held - offset - audio.half_frame)
        right = _roughness(file, offset, length, audio)
        wrong = _roughness(file, offset + audio.half_frame, length, audio)
        if right < _ROUGH * wrong:
            return start if shifted else None
        shifted = shifted or (wrong < _ROUGH * right and not _padded(file, offset, length, audio))
    return 0 if shifted else None


def _shifted(file: BinaryIO, audio: Promise, length: int) -> bool:
    """Whether the last `length` bytes are aligned with the end of the file, not with its start."""
    length = min(audio.held, length) // audio.frame * audio.frame - audio.frame
    end = audio.start + audio.held
    if audio.floats:
        return _absurd(file, end - audio.half_frame - length, length, audio)
    if _padded(file, end - audio.half_frame - length, length, audio):
        return False
    wrong = _roughness(file, end - audio.half_frame - length, length, audio)
    return _roughness(file, end - length, length, audio) < _ROUGH * wrong


def _padded(file: BinaryIO, offset: int, length: int, audio: Promise) -> bool:
    """Whether the lowest byte is always 0, as with 8 bits in 16: such samples look quiet when they
    are read a byte off."""
    file.seek(offset)
    data = np.frombuffer(file.read(length), np.uint8)
    return not data[0 if audio.order == "<" else audio.width - 1 :: audio.width].any()


def _absurd(file: BinaryIO, offset: int, length: int, audio: Promise) -> bool:
    """Whether floating-point samples have values that no recording has."""
    file.seek(offset)
    kind = np.dtype(f"{audio.order}f{audio.width}")
    data = file.read(length)
    values = np.frombuffer(data[: len(data) // audio.width * audio.width], kind)
    with np.errstate(invalid="ignore"):
        tiny = (np.abs(values) < _TINIEST) & (values != 0)
        return bool((~(np.abs(values) < _LOUDEST)).any() or tiny.mean() > 0.5)


def _roughness(file: BinaryIO, offset: int, length: int, audio: Promise) -> float:
    """Mean step from one sample to the next, summed over channels. Samples read a byte off have
    their lowest bits on top, and so large steps, however quiet they are."""
    file.seek(offset)
    data = np.frombuffer(file.read(length), np.uint8)
    data = data[: len(data) // audio.frame * audio.frame].reshape(-1, audio.frame)
    upper = (audio.width - 1, audio.width - 2) if audio.order == "<" else (0, 1)
    columns = range(0, audio.frame, audio.width)
    values = [
        data[:, c + upper[0]].astype(np.int8) * 256.0 + data[:, c + upper[1]] for c in columns
    ]
    return sum(float(np.abs(np.diff(v)).sum()) for v in values) / max(len(data), 1)
