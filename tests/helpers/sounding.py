"""Sound files of every kind that the tests write, in memory: one tone that never repeats."""

import io
from functools import cache
from typing import Any

import av
import numpy as np
import soundfile as sf
from numpy.typing import NDArray

HZ = 16_000
SECONDS = 4.0

#: Kind: libsndfile's (format, subtype).
SNDFILE = {
    "wav": ("WAV", "PCM_16"), "wav24": ("WAV", "PCM_24"), "wavfloat": ("WAV", "FLOAT"),
    "rf64": ("RF64", "PCM_16"), "w64": ("W64", "PCM_16"), "aiff": ("AIFF", "PCM_16"),
    "au": ("AU", "PCM_16"), "caf": ("CAF", "PCM_16"), "sphere": ("NIST", "PCM_16"),
    "flac": ("FLAC", "PCM_16"),
    "flac24": ("FLAC", "PCM_24"), "vorbis": ("OGG", "VORBIS"), "opus": ("OGG", "OPUS"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
}  # fmt: skip
#: Kind: FFmpeg's (container, codec, rate).
FFMPEG = {
    "oggflac": ("ogg", "flac", HZ), "wavpack": ("wv", "wavpack", HZ), "tta": ("tta", "tta", HZ),
    "mkvflac": ("matroska", "flac", HZ), "mkvopus": ("matroska", "libopus", 48_000),
    "webm": ("webm", "libopus", 48_000), "m4a": ("ipod", "aac", HZ), "alac": ("ipod", "alac", HZ),
    "aac": ("adts", "aac", HZ), "wma": ("asf", "wmav2", 32_000), "ac3": ("ac3", "ac3", 48_000),
    "ts": ("mpegts", "aac", 48_000), "lavfmp3": ("mp3", "libmp3lame", HZ),
}  # fmt: skip
KINDS = (*SNDFILE, *FFMPEG)


def sound(rate: int = HZ, channels: int = 1, seconds: float = SECONDS) -> NDArray[np.float32]:
    """A gliding tone with some noise, float32 [n, channels]."""
    at = np.arange(round(rate * seconds)) / rate
    noise = np.random.default_rng(11).normal(size=at.size)
    wave = 0.3 * np.sin(2 * np.pi * (300 + 80 * np.sin(1.7 * at)) * at) + 0.03 * noise
    return np.repeat(wave.astype(np.float32)[:, None], channels, axis=1)


@cache
def whole(kind: str, channels: int = 1, seconds: float = SECONDS) -> bytes:
    """A sound file of this kind, undamaged."""
    if kind in SNDFILE:
        return by_sndfile(*SNDFILE[kind], HZ, sound(HZ, channels, seconds))
    container, codec, rate = FFMPEG[kind]
    return by_ffmpeg(container, codec, rate, sound(rate, channels, seconds))


def by_sndfile(container: str, subtype: str, rate: int, samples: NDArray[Any]) -> bytes:
    memory = io.BytesIO()
    with sf.SoundFile(memory, "w", rate, samples.shape[1], subtype, format=container) as file:
        for at in range(0, len(samples), 16_384):  # one long OGG write crashes libsndfile
            file.write(samples[at : at + 16_384])
    return memory.getvalue()


def by_ffmpeg(
    container: str, codec: str, rate: int, samples: NDArray[Any], layout: str = ""
) -> bytes:
    memory = io.BytesIO()
    layout = layout or {1: "mono", 2: "stereo"}.get(samples.shape[1], "")
    pcm = np.round(samples * 32767).astype(np.int16)
    out: Any = av.open(memory, "w", format=container)
    with out:
        stream = out.add_stream(codec, rate=rate, layout=layout)
        context = stream.codec_context
        context.thread_count = 1
        if codec not in ("flac", "wavpack", "tta", "alac"):
            stream.bit_rate = 64_000 * samples.shape[1]
        if codec == "aac":  # a decoder's random noise would differ after each frame that is lost
            context.options = {"aac_pns": "0"}
        context.open()
        size = context.frame_size or 4096
        form = av.AudioResampler(context.format.name, layout, rate, frame_size=size)
        for at in range(0, len(pcm), 48_000):
            part = np.ascontiguousarray(pcm[at : at + 48_000]).reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(part, "s16", layout)
            frame.sample_rate, frame.pts = rate, at
            for each in form.resample(frame):
                out.mux(stream.encode(each))
        for each in form.resample(None):
            out.mux(stream.encode(each))
        out.mux(stream.encode(None))
    return memory.getvalue()


def ogg_pages(data: bytes) -> list[bytes]:
    """The pages of a sound Ogg file."""
    found, at = [], 0
    while at < len(data):
        count = data[at + 26]
        end = at + 27 + count + sum(data[at + 27 : at + 27 + count])
        found.append(data[at:end])
        at = end
    return found


def flac_frames(data: bytes) -> bytes:
    """A FLAC file without its metadata."""
    at, last = 4, False
    while not last:
        last = bool(data[at] & 128)
        at += 4 + int.from_bytes(data[at + 1 : at + 4], "big")
    return data[at:]
