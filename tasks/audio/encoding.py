"""16-bit mono PCM as the bytes of a FLAC or MP3 file, and back."""

from __future__ import annotations

import io

import av
import numpy as np
import soundfile as sf

from tasks.audio.decoders import BROKEN
from tasks.base.arrays import Int16s
from tasks.base.errors import ItemError

MP3_RATES = {8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000}  # Hz
MP3_FRAME = 1152  # samples of a frame, at most


def write_flac_bytes(pcm: Int16s, rate: int) -> bytes:
    """Mono int16 as 16-bit FLAC, which decodes to the same samples."""
    memory = io.BytesIO()
    sf.write(memory, np.ascontiguousarray(pcm, dtype=np.int16), rate, "PCM_16", format="FLAC")
    return memory.getvalue()


def write_mp3_bytes(pcm: Int16s, rate: int, bit_rate: int = 128_000, quick: bool = False) -> bytes:
    """Mono int16 as MP3 of `bit_rate` bit/s, or the most that `rate` allows; `rate` is one of
    MP3_RATES. The file holds its length, by which a decoder cuts off the padding.

    `quick`: LAME's fastest search, half the CPU, good enough to listen to a clip."""
    memory = io.BytesIO()
    options = {"compression_level": "9"} if quick else {}
    with av.open(memory, "w", format="mp3") as out:
        stream = out.add_stream("libmp3lame", rate=rate, layout="mono", options=options)
        stream.codec_context.format, stream.bit_rate = "s16p", bit_rate
        frame = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(pcm, dtype=np.int16)[None], format="s16p", layout="mono"
        )
        frame.sample_rate, frame.pts = rate, 0
        for part in (frame, None):
            out.mux(stream.encode(part))
    return memory.getvalue()


def decode_int16(data: bytes, most: int = -1) -> tuple[Int16s, int]:
    """Decode a mono file in memory as int16 [n], without any conversion; (samples, Hz). `most`: the
    samples that are decoded, at most; -1: all.

    ItemError `decode_error` if it cannot be decoded.
    """
    try:
        samples, rate = sf.read(io.BytesIO(data), most, dtype="int16")
    except BROKEN as error:
        raise ItemError("decode_error", str(error)) from None
    return samples, int(rate)
