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
        heard, rate = _by_sndfile(kind, tone) if kind in SNDFILE else _by_ffmpeg(kind, tone)
    # Whatever a codec library raises is the result.
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    seconds, level = heard.size / rate, float(np.sqrt(np.mean(np.square(heard))))
    if abs(seconds - SECONDS) > 0.1 or abs(level - 0.35) > 0.05:
        return f"came back with {seconds:.2f} s at level {level:.2f}, not {SECONDS} s at 0.35"
    return None


def _by_sndfile(kind: str, tone: Float32s) -> tuple[Float32s, int]:
    import soundfile

    container, subtype = SNDFILE[kind]
    memory = io.BytesIO()
    soundfile.write(memory, tone, HZ, format=container, subtype=subtype)
    memory.seek(0)
    heard, rate = soundfile.read(memory, dtype="float32")
    return heard, int(rate)


def _by_ffmpeg(kind: str, tone: Float32s) -> tuple[Float32s, int]:
    import av
    from av.audio.stream import AudioStream

    container, codec = FFMPEG[kind]
    memory = io.BytesIO()
    with av.open(memory, "w", format=container) as out:
        stream = out.add_stream(codec, rate=48000, layout="mono")
        assert isinstance(stream, AudioStream)
        pcm = np.repeat(np.round(tone * 32767).astype(np.int16), 48000 // HZ)[None]
        frame = av.AudioFrame.from_ndarray(pcm, format="s16", layout="mono")
        frame.sample_rate = 48000
        for packet in (*stream.encode(frame), *stream.encode(None)):
            out.mux(packet)
    memory.seek(0)
    with av.open(memory, "r") as source:
        parts = [f.to_ndarray().reshape(-1) for f in source.decode(audio=0)]
        rate = source.streams.audio[0].rate
    return np.concatenate(parts).astype(np.float32), int(rate)
