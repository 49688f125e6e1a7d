"""A clip in published files: its audio as the bytes of one, the comparison of such bytes with the
clip's row, formats of one file per clip, and the entries beside a text.

With `tracks: own`, left is the recording's channel 0 and right channel 1, as they were recorded.
With `by_turns`, and for a clip whose speakers have no channels of their own, each track is the
clip's audio where somebody on its side speaks, and silence elsewhere: left is who speaks first in
the recording, everybody else is on the right, and who speaks at once is heard on both. All of a
clip without turns is on the left.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
import pyarrow as pa
from pydantic import model_validator

from .. import audio
from ..base.arrays import Bools, Int16s
from ..base.errors import ConfigError, ItemError
from ..base.schema import AnyRow, ClipRow, ClipTurnRow, LabelPairs, Published
from ..settings import StageSettings, Threshold
from ..shard_store import blobs
from . import Output, OutputShard, ReadPcm, Rows

Suffix = Literal["wav", "flac", "opus", "mp3"]
Tracks = Literal["mix", "own", "by_turns"]
LOSSY = {"opus": 32, "mp3": 128}  # usual kbit/s for speech

#: The columns that `faults` needs; of tracks, and of formats of one file per clip, too.
COLUMNS = ("sample_rate", "num_samples", "sha256")
TRACK_COLUMNS = ("turns", "sha256_left", "sha256_right")
FILE_COLUMNS = ("id", *COLUMNS)  # the texts are in the lists only
FOLDER_FILES = 65_000  # FAT32 and exFAT hold a few more


@dataclass(frozen=True, slots=True)
class Encoding:
    suffix: Suffix
    bit_rate: int = 0  # bit/s of a lossy one
    tracks: Tracks = "mix"
    swap: bool = False  # whether left and right change places


class AudioSettings(StageSettings):
    audio: Literal["wav", "flac"] = Threshold("wav", "wav, or flac: smaller, equal samples.")

    @property
    def encoding(self) -> Encoding:
        return Encoding(self.audio)


class EncodedSettings(StageSettings):
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
        return Encoding(self.audio, bit_rate, getattr(self, "tracks", "mix"))


class TrackedSettings(EncodedSettings):
    tracks: Tracks = Threshold(
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
    """Fields of audio, for rows with `columns`: two if enhanced clips are packaged beside the
    original ones."""
    return ("audio", "audio_enhanced") if "sha256_enhanced" in columns else ("audio",)


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


def own_channels(settings: StageSettings) -> bool:
    return getattr(settings, "tracks", "mix") == "own"


def needs(settings: StageSettings) -> tuple[str, ...]:
    return () if getattr(settings, "tracks", "mix") == "mix" else ("turns",)


def parts(row: ClipRow, pcm: ReadPcm, encoding: Encoding) -> tuple[bytes | memoryview, ...]:
    """The bytes of a clip's 16-bit file, as consecutive buffers: WAV with its header of 44 bytes,
    whose samples are not copied; FLAC, which decodes to the same samples; Opus or MP3, which decode
    to as many."""
    clip, rate = _made(row, pcm, encoding.tracks), row["sample_rate"]
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
    return b"".join(parts(row, pcm, encoding))


def samples(pcm: Int16s) -> memoryview:
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
        same = len(tracks) == row["num_samples"] and _are_of(row, tracks, encoding.tracks)
    else:
        same = hashlib.sha256(pcm).hexdigest() == row["sha256"]
    return [] if same else [f"{name} decodes to other samples than its row's"]


def turns(row: ClipRow, tracks: Tracks) -> list[ClipTurnRow]:
    """The turns of a clip, each with the number of its track (0: left) as its `channel`; as they
    are, if the clip is the mix."""
    spoken = row.get("turns") or []
    if tracks == "mix":
        return spoken
    apart = tracks == "own" and all(turn["channel"] in (0, 1) for turn in spoken)
    return [
        {**turn, "channel": turn["channel"] if apart else int(turn["number"] != 1)}
        for turn in spoken
    ]


def _made(row: ClipRow, pcm: ReadPcm, tracks: Tracks) -> Int16s:
    """The samples of a clip: int16 [n] of a mix, else [n, 2]."""
    if tracks == "mix":
        return pcm(row)
    if tracks == "own" and (sides := blobs.sides(row)):
        return np.stack([pcm(side) for side in sides], axis=1)
    return np.where(_speaking(row, tracks), pcm(row)[:, None], np.int16(0))


def _are_of(row: ClipRow, samples: Int16s, tracks: Tracks) -> bool:
    """Whether int16 [n, 2] may be the row's tracks: by their hashes; or silent where nobody on them
    speaks, and equal where both do."""
    hashes = [row.get("sha256_left"), row.get("sha256_right")]
    if tracks == "own" and all(hashes):
        return [*map(blobs.sha256, samples.T)] == hashes
    if row.get("turns") is None:
        return blobs.sha256(samples[:, 0]) == row["sha256"] and not samples[:, 1].any()
    speaking = _speaking(row, tracks)
    both = samples[speaking.all(axis=1)]
    return not samples[~speaking].any() and np.array_equal(both[:, 0], both[:, 1])


def _speaking(row: ClipRow, tracks: Tracks) -> Bools:
    """Whether somebody on each side speaks; bool [n, 2]."""
    speaking = np.zeros((row["num_samples"], 2), bool)
    speaking[:, 0] = row.get("turns") is None
    for turn in turns(row, tracks):
        start, end = (round(edge * row["sample_rate"]) for edge in (turn["start"], turn["end"]))
        speaking[start:end, turn["channel"]] = True
    return speaking


def file_folder(home: str, number: int, index: int) -> str:
    """The folder of a shard's file `index`; a large shard has several."""
    folder = index // FOLDER_FILES
    return f"{home}/{number:09d}" + (f"-{folder:03d}" if folder else "")


def files(
    home: str, number: int, rows: pa.Table, suffix: str = "wav", files_a_clip: int = 1
) -> list[str]:
    """One file per clip in `home`, named by its id, in a folder per shard."""
    keys = enumerate(rows["id"].to_pylist())
    return [f"{file_folder(home, number, i * files_a_clip)}/{key}.{suffix}" for i, key in keys]


def write(
    shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: StageSettings
) -> None:
    """Write such files: WAV, or the settings' `encoding`."""
    for path, row in zip(shard.files, rows, strict=True):
        out.write(path, encoded(row, pcm, getattr(settings, "encoding", Encoding("wav"))))


def check(shard: OutputShard, rows: Rows, out: Output, settings: StageSettings) -> list[str]:
    wrong = list[str]()
    for path, row in zip(shard.files, rows, strict=True):
        data = (out.home / path).read_bytes()
        wrong += faults(row, path, data, getattr(settings, "encoding", Encoding("wav")))
        wrong += out.changed(path)
    return wrong


def duration(num_samples: int, rate: int) -> float:
    """Seconds that lead back to the samples both by rounding and by truncating, as readers that
    compute `int(duration * rate)` do."""
    seconds = num_samples / rate
    return seconds if int(seconds * rate) >= num_samples else math.nextafter(seconds, math.inf)


def audio_is(row: AnyRow) -> dict[str, object]:
    """Which audio is packaged, if some clips are enhanced, as an entry; for formats without
    measures."""
    return {"audio_is": row["audio_is"]} if "audio_is" in row else {}


def published(row: AnyRow) -> dict[str, object]:
    """What `package.publish` names of the clip, as entries."""
    beside = row.get("annotations")
    return {**cast(Published, beside).values} if beside is not None else {}


def labels(row: AnyRow) -> dict[str, object]:
    """The source's labels as an entry; empty without labels."""
    stated = row.get("labels")
    return {"labels": dict(cast(LabelPairs, stated))} if stated else {}
