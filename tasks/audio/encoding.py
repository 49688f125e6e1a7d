"""16-bit mono PCM as the bytes of a FLAC, MP3 or Opus file, and back; and whether this machine can
decode each audio format."""

import io

import av
import numpy as np
import soundfile as sf
from av.audio import AudioStream
from av.container import OutputContainer

from ..base.arrays import Float32s, Int16s
from ..base.errors import ItemError
from .damage import mp3
from .decoders import BROKEN, opened

MP3_RATES = {8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000}  # Hz
MP3_LEAST = 64_000  # bit/s
#: Least and most bit/s from each sample rate on: MPEG 1, 2 and 2.5 (ISO/IEC 11172-3, 13818-3).
_MP3_BIT_RATES = {32_000: (32_000, 320_000), 16_000: (8_000, 160_000), 0: (8_000, 64_000)}
OPUS_RATES = {8000, 12000, 16000, 24000, 48000}  # Hz
#: Samples that encoders put before a clip and files mark to be skipped: libopus 6.5 ms, counted at
#: Ogg's 48 kHz (RFC 7845, 5.1), LAME at the clip's rate.
DELAYS = {"opus": 312, "mp3": 576}
OPUS_PACKET = 20_000  # µs
OPUS_PAGE = 1_000_000  # µs


def encodes(suffix: str) -> bool:
    """Whether this machine's libraries can write this kind of file: flac, opus or mp3."""
    if suffix == "opus":
        return "libopus" in av.codecs_available
    return suffix.upper() in sf.available_formats()


def write_flac_bytes(pcm: Int16s, rate: int) -> bytes:
    """int16 [n], or [n, channels], as 16-bit FLAC, which decodes to the same samples."""
    memory = io.BytesIO()
    sf.write(memory, np.ascontiguousarray(pcm, dtype=np.int16), rate, "PCM_16", format="FLAC")
    return memory.getvalue()


def write_mp3_bytes(pcm: Int16s, rate: int, bit_rate: int = 128_000) -> bytes:
    """Mono int16 as MP3 of `bit_rate` bit/s, or the nearest that `rate` allows; `rate` is one of
    MP3_RATES. From MP3_LEAST on the file holds its length, so that decoders cut off the padding:
    shorter frames lack room for that in LAME. (FFmpeg's writer finds room, but leaves up to 46
    samples of padding in 4 to 8 % of all clips.)"""
    least, most = next(span for above, span in _MP3_BIT_RATES.items() if rate >= above)
    # libsndfile takes the bit rate's position between both, but refuses 1.0, the lowest.
    level = min(max((most - bit_rate) / (most - least), 0.0), 0.999)
    memory = io.BytesIO()
    samples = np.ascontiguousarray(pcm, dtype=np.int16)
    options = {"bitrate_mode": "CONSTANT", "compression_level": level}
    sf.write(memory, samples, rate, "MPEG_LAYER_III", format="MP3", **options)
    return memory.getvalue()


def write_small_mp3_bytes(pcm: Int16s, rate: int, bit_rate: int) -> bytes:
    """Mono int16 as MP3 of any `bit_rate`, for listening only: up to 46 samples may follow the
    clip.

    LAME's fastest search: half the CPU.
    """
    memory = io.BytesIO()
    with av.open(memory, "w", format="mp3") as out:
        options = {"compression_level": "9"}
        stream = out.add_stream("libmp3lame", rate=rate, layout="mono", options=options)
        stream.codec_context.format, stream.bit_rate = "s16p", bit_rate
        _encode(out, stream, pcm, rate)
    return memory.getvalue()


def write_opus_bytes(pcm: Int16s, rate: int, bit_rate: int = 32_000) -> bytes:
    """Mono int16 as Opus in Ogg of about `bit_rate` bit/s; `rate` is one of OPUS_RATES. It decodes
    to as many samples, except that a clip shorter than a packet of 20 ms is filled up.

    With a single page there is no earlier page to count from, and FFmpeg would leave the encoder's
    delay at the end: a short clip gets shorter pages. Equal samples give equal bytes.
    """
    memory = io.BytesIO()
    page = len(pcm) * 1_000_000 // rate // 3 // OPUS_PACKET * OPUS_PACKET
    page = min(max(page, OPUS_PACKET), OPUS_PAGE)
    options = {"fflags": "+bitexact", "page_duration": str(page)}
    with av.open(memory, "w", format="ogg", options=options) as out:
        stream = out.add_stream("libopus", rate=rate, layout="mono")
        stream.bit_rate = bit_rate
        _encode(out, stream, pcm, rate)
    return memory.getvalue()


def _encode(out: OutputContainer, stream: AudioStream, pcm: Int16s, rate: int) -> None:
    samples = np.ascontiguousarray(pcm, dtype=np.int16)[None]
    frame = av.AudioFrame.from_ndarray(samples, stream.format.name, "mono")
    frame.sample_rate, frame.pts = rate, 0
    for part in (frame, None):
        out.mux(stream.encode(part))


def stated_delay(data: bytes) -> int | None:
    """The delay (see `DELAYS`) that an Opus or MP3 file states; None if it states none."""
    if data.startswith(b"OggS"):
        head = data.find(b"OpusHead")
        return int.from_bytes(data[head + 10 : head + 12], "little") if head >= 0 else None
    return mp3.encoder_delay(io.BytesIO(data))


def decode_int16(data: bytes, most: int = -1) -> tuple[Int16s, int]:
    """Decode a file in memory to int16 [n], or [n, channels], without conversion: (samples, Hz).
    `most`: samples to decode at most; -1: all.

    ItemError `decode_error` if it cannot be decoded.
    """
    try:
        samples, rate = sf.read(io.BytesIO(data), most, dtype="int16")
    except BROKEN as error:
        raise ItemError("decode_error", str(error)) from None
    return samples, int(rate)


# Checks that each format can be decoded, by encoding half a second and decoding it again, in
# memory; `uttermill doctor` runs it on the workers.


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
    ffmpeg = {name: ".".join(map(str, parts)) for name, parts in av.library_versions.items()}
    return {**ffmpeg, "libsndfile": sf.__libsndfile_version__}


def fault(kind: str) -> str | None:
    """What is wrong with this format; None if a clip survives with its length and level."""
    tone = (0.5 * np.sin(2 * np.pi * 440 * np.arange(int(HZ * SECONDS)) / HZ)).astype(np.float32)
    try:
        data = _tone_as(kind, tone)
        decoder = opened(io.BytesIO(data), len(data)).decoder
        heard = np.concatenate([*decoder.read(HZ)])
    # Whatever a codec library raises is the result.
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    seconds, level = len(heard) / decoder.header.rate, float(np.sqrt(np.mean(np.square(heard))))
    if abs(seconds - SECONDS) > 0.1 or abs(level - 0.35) > 0.05:
        return f"came back with {seconds:.2f} s at level {level:.2f}, not {SECONDS} s at 0.35"
    return None


def _tone_as(kind: str, tone: Float32s) -> bytes:
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
