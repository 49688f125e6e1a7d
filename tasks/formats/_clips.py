"""A clip's audio as the bytes of a file, and the comparison of such bytes with the clip's row."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import model_validator

from .. import audio
from ..base.errors import ConfigError, ItemError
from ..base.schema import ClipRow
from ..settings import StageSettings, Threshold
from ..shard_store import blobs
from ..shard_store.blobs import Pcm
from . import ReadPcm, _tracks

Lossless = Literal["wav", "flac"]
Suffix = Literal["wav", "flac", "opus", "mp3"]
LOSSY = {"opus": 32, "mp3": 128}  # usual kbit/s for speech

#: The column of rows whose original and enhanced clips are both packaged.
ENHANCED = "sha256_enhanced"

#: The columns that `faults` needs.
COLUMNS = ("sample_rate", "num_samples", "sha256")


@dataclass(frozen=True, slots=True)
class Encoding:
    suffix: Suffix
    bit_rate: int = 0  # bit/s of a lossy one
    tracks: _tracks.Tracks = "mix"
    swap: bool = False  # whether left and right change places


class AudioSettings(StageSettings):
    """Settings of a format whose audio is WAV or FLAC."""

    audio: Lossless = Threshold("wav", "wav, or flac: smaller, equal samples.")

    @property
    def encoding(self) -> Encoding:
        return Encoding(self.audio)


class EncodedSettings(StageSettings):
    """Settings of a format whose readers decode lossy audio too."""

    audio: Suffix = Threshold(
        "wav",
        "wav; flac: smaller, equal samples; opus or mp3: an eighth to a half, lossy, so that only "
        "the length of a clip can be verified.",
    )
    bit_rate: int | None = Threshold(
        None, "kbit/s of opus (default 32) or mp3 (default 128, at least 64).", ge=6, le=320
    )

    @model_validator(mode="after")
    def _refuse_what_no_file_can_hold(self) -> EncodedSettings:
        if self.bit_rate is not None and self.audio not in LOSSY:
            raise ValueError(
                f"bit_rate is for opus and mp3, but audio is {self.audio}: remove bit_rate"
            )
        if self.audio == "mp3" and 1000 * (self.bit_rate or LOSSY["mp3"]) < audio.MP3_LEAST:
            raise ValueError(
                "bit_rate: an MP3 of less than 64 kbit/s cannot say how long the clip is; take "
                "64 or more, or opus"
            )
        return self

    @property
    def encoding(self) -> Encoding:
        bit_rate = 1000 * (self.bit_rate or LOSSY.get(self.audio, 0))
        return Encoding(self.audio, bit_rate, _tracks.chosen(self))


class TrackedSettings(EncodedSettings):
    """Settings of a format whose readers take conversations on two tracks, too."""

    tracks: _tracks.Tracks = Threshold(
        "mix",
        "mix: a clip is mono. own: stereo, each channel of the recording with speakers of its own; "
        "other clips are no_own_channels in the ledger. by_turns: stereo, the mix on the side of "
        "whoever speaks. As in duplex.",
    )

    @model_validator(mode="after")
    def _refuse_lossy_tracks(self) -> TrackedSettings:
        if self.tracks != "mix" and self.audio in LOSSY:
            raise ValueError(f"tracks: {self.tracks} needs audio: wav or flac, not {self.audio}")
        return self


def names(columns: Collection[str]) -> tuple[str, ...]:
    """Fields of audio, for rows with `columns`."""
    return ("audio", "audio_enhanced") if ENHANCED in columns else ("audio",)


def rows_of(row: ClipRow) -> tuple[ClipRow, ...]:
    """The row of each field of `names`."""
    return (row, *blobs.beside(row))


def rates(settings: StageSettings) -> Collection[int] | None:
    of_codecs = {"opus": audio.OPUS_RATES, "mp3": audio.MP3_RATES}
    return of_codecs.get(getattr(settings, "audio", "wav"))


def check_weights(settings: StageSettings) -> None:
    """Raises ConfigError if no library on this machine encodes a format's setting `audio`."""
    suffix = getattr(settings, "audio", "wav")
    if suffix != "wav" and not audio.encodes(suffix):
        raise ConfigError(
            f"this machine has no encoder for {suffix}: install the wheels of PyAV and soundfile "
            "(pip install --force-reinstall av soundfile), or set the format's audio to wav"
        )


def parts(row: ClipRow, pcm: ReadPcm, encoding: Encoding) -> tuple[bytes | memoryview, ...]:
    """The bytes of a clip's 16-bit file, as consecutive buffers: WAV with its header of 44 bytes,
    whose samples are not copied; FLAC, which decodes to the same samples; Opus or MP3, which decode
    to as many."""
    clip, rate = _tracks.made(row, pcm, encoding.tracks), row["sample_rate"]
    clip = clip[:, ::-1] if encoding.swap else clip
    match encoding.suffix:
        case "flac":
            return (audio.write_flac_bytes(clip, rate),)
        case "opus":
            return (audio.write_opus_bytes(clip, rate, encoding.bit_rate),)
        case "mp3":
            return (audio.write_mp3_bytes(clip, rate, encoding.bit_rate),)
        case _:
            return audio.wav_header(len(clip), rate, clip.ndim), samples(clip)


def encoded(row: ClipRow, pcm: ReadPcm, encoding: Encoding) -> bytes:
    """The bytes of such a file."""
    return b"".join(parts(row, pcm, encoding))


def samples(pcm: Pcm) -> memoryview:
    """The bytes of the samples, int16 little-endian; not copied."""
    return np.ascontiguousarray(pcm, dtype="<i2").data.cast("B")


def faults(row: ClipRow, name: str, data: bytes | memoryview, encoding: Encoding) -> list[str]:
    """Why the bytes of the file `name` are not the row's clip; empty when they are.

    A WAV file is compared byte for byte, FLAC by its samples, a lossy one by its length and by the
    encoder's delay, which decoders skip.
    """
    pcm: memoryview  # of int16 samples
    channels = 1 if encoding.tracks == "mix" else 2
    if encoding.suffix == "wav":
        header = audio.wav_header(row["num_samples"], row["sample_rate"], channels)
        view = memoryview(data)
        if view[: len(header)] != header:
            return [f"{name} has a header that differs from its row"]
        pcm = view[len(header) :]
    else:
        try:
            decoded, rate = audio.decode_int16(bytes(data))
        except ItemError as error:
            return [f"{name} does not decode: {error}"]
        pcm = decoded.data
        due = row["num_samples"]
        if encoding.suffix == "opus" and due * 1_000_000 < audio.OPUS_PACKET * rate:
            due = len(pcm)  # filled up to a packet
        if rate != row["sample_rate"] or len(pcm) != due:
            return [f"{name} has {len(pcm)} samples at {rate} Hz, unlike its row"]
        if encoding.suffix in LOSSY:
            delay, right = audio.stated_delay(bytes(data)), audio.DELAYS[encoding.suffix]
            if delay == right:
                return []
            return [f"{name} says that its clip begins after {delay} samples, and not {right}"]
    if channels == 2:
        tracks = np.frombuffer(pcm, "<i2").reshape(-1, 2)[:, :: -1 if encoding.swap else 1]
        same = len(tracks) == row["num_samples"] and _tracks.are_of(row, tracks, encoding.tracks)
    else:
        same = hashlib.sha256(pcm).hexdigest() == row["sha256"]
    return [] if same else [f"{name} decodes to other samples than its row's"]


def duration(num_samples: int, rate: int) -> float:
    """Seconds that lead back to the samples both by rounding and by truncating, as readers that
    compute `int(duration * rate)` do."""
    seconds = num_samples / rate
    return seconds if int(seconds * rate) >= num_samples else math.nextafter(seconds, math.inf)
