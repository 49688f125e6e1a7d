"""Checks that each audio format can be decoded, by encoding half a second and decoding it again.

It works in memory, without files or system packages; `uttermill doctor` runs it on the workers.
"""

from __future__ import annotations

import io

import numpy as np

from ..base.arrays import Float32s

HZ = 16000
SECONDS = 0.5

#: Extension to libsndfile's (format, subtype).
SNDFILE = {
    "wav": ("WAV", "PCM_16"),
    "flac": ("FLAC", "PCM_16"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
    "ogg": ("OGG", "VORBIS"),
    "opus": ("OGG", "OPUS"),
}
#: Extension to FFmpeg's (container, codec), which PyAV bundles.
FFMPEG = {"m4a": ("mp4", "aac"), "webm": ("webm", "libopus")}
FORMATS = (*SNDFILE, *FFMPEG)


def versions() -> dict[str, str]:
    """Versions of the decoding libraries."""
    import av
    import soundfile as sf

    ffmpeg = {name: ".".join(map(str, parts)) for name, parts in av.library_versions.items()}
    return {**ffmpeg, "libsndfile": sf.__libsndfile_version__}


def fault(kind: str) -> str | None:
    """What is wrong with this format; None if a clip survives with its length and level."""
    tone = (0.5 * np.sin(2 * np.pi * 440 * np.arange(int(HZ * SECONDS)) / HZ)).astype(np.float32)
    try:
        from . import decoders

        data = _encoded(kind, tone)
        decoder = decoders.opened(io.BytesIO(data), len(data)).decoder
        heard = np.concatenate([*decoder.read(HZ)])
    # Whatever a codec library raises is the result.
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    seconds, level = len(heard) / decoder.header.rate, float(np.sqrt(np.mean(np.square(heard))))
    if abs(seconds - SECONDS) > 0.1 or abs(level - 0.35) > 0.05:
        return f"came back with {seconds:.2f} s at level {level:.2f}, not {SECONDS} s at 0.35"
    return None


def _encoded(kind: str, tone: Float32s) -> bytes:
    import av
    import soundfile as sf
    from av.audio.stream import AudioStream

    memory = io.BytesIO()
    if kind in SNDFILE:
        container, subtype = SNDFILE[kind]
        sf.write(memory, tone, HZ, format=container, subtype=subtype)
        return memory.getvalue()
    container, codec = FFMPEG[kind]
    with av.open(memory, "w", format=container) as out:
        stream = out.add_stream(codec, rate=48000, layout="mono")
        assert isinstance(stream, AudioStream)
        pcm = np.repeat(np.round(tone * 32767).astype(np.int16), 48000 // HZ)[None]
        frame = av.AudioFrame.from_ndarray(pcm, format="s16", layout="mono")
        frame.sample_rate = 48000
        for packet in (*stream.encode(frame), *stream.encode(None)):
            out.mux(packet)
    return memory.getvalue()
