"""Decoding and encoding; only this package decodes recordings.

`open_stream` decodes a recording block by block; a `Clip` is one utterance of a recording;
`encoding` makes the files of a dataset.
"""

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.arrays import Int16s
from ..recording.container import digest
from .clip import MATERIALISE_SECONDS, Clip
from .types import BLOCK_FRAMES, BLOCK_VALUES, Header, Samples

if TYPE_CHECKING:
    from .encoding import (
        DELAYS,
        MP3_LEAST,
        MP3_RATES,
        OPUS_PACKET,
        OPUS_RATES,
        decode_int16,
        encodes,
        stated_delay,
        write_flac_bytes,
        write_mp3_bytes,
        write_opus_bytes,
        write_small_mp3_bytes,
    )
    from .stream import Stream, open_stream, picked, probe, read_mix, read_span

_DECODING = {"Stream", "open_stream", "picked", "probe", "read_mix", "read_span"}
_ENCODING = {
    *("DELAYS", "MP3_LEAST", "MP3_RATES", "OPUS_PACKET", "OPUS_RATES"),
    *("decode_int16", "encodes", "stated_delay"),
    *("write_flac_bytes", "write_mp3_bytes", "write_opus_bytes", "write_small_mp3_bytes"),
}
_WAV = struct.Struct("<4sI4s4sIHHIIHH4sI")


def wav_header(num_samples: int, rate: int, channels: int = 1) -> bytes:
    """The canonical 44 bytes before int16 samples of each channel."""
    width = 2 * channels
    size = width * num_samples
    form = (16, 1, channels, rate, width * rate, width, 16)
    return _WAV.pack(b"RIFF", 36 + size, b"WAVE", b"fmt ", *form, b"data", size)


def write_wav_bytes(pcm: Int16s, rate: int) -> bytes:
    """Mono int16 as WAV with the canonical header of 44 bytes; equal samples give equal bytes."""
    return wav_header(len(pcm), rate) + np.ascontiguousarray(pcm, dtype="<i2").tobytes()


def __getattr__(name: str) -> Any:
    """PyAV and libsndfile take 0.1 s to import, so what needs them is imported on first use: the
    main process of a run on workers lists, plans and publishes without them."""
    if name in _DECODING | _ENCODING:
        from . import encoding, stream

        return getattr(stream if name in _DECODING else encoding, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
