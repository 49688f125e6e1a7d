"""The spans that a report shows: their texts, measures, audio and picture, which are a mono MP3 of
16 kHz and a small log-mel spectrogram.

A clip is always whole, because a text that stops half-way is noticed only with all of the audio.
MP3 is used because every browser plays it and 30 s take 90 kB, a tenth of a WAV (Opus of the same
bit rate saves an eighth, but older Safaris do not play it). Clips that were resampled are read from
the blobs. A span that was rejected before resampling is decoded again from its source, if the audio
that must be decoded to reach it is within a budget.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ... import audio
from ...audio import Samples
from ...audio.channels import mean
from ...base.arrays import UInt8s
from ...base.errors import CorruptManifest, ItemError
from ...base.schema import LedgerRow
from ...recording import Locator
from ...recording.guard import file_state
from ...recording.tracks import locator_of
from ...settings.job import Job
from ...shard_store import hidden
from ...shard_store.index import Index
from ...shard_store.text_values import final_text
from ...shard_store.utterance import Utterance
from ...speech.fbank import Fbank, triangles
from ...stages.listing import entries, known_recordings
from .. import judged
from . import choice
from .choice import Why
from .spans import Spans

RATE = 16_000  # Hz
BIT_RATE = 24_000  # bit/s
WIDTH, HEIGHT = 320, 64  # of a spectrogram
BANDS = Fbank(RATE, HEIGHT, RATE / 2)
WINDOW = BANDS.fft  # samples of its frames at RATE
RANGE_DB = 60.0  # from its lightest grey to its darkest
LOUDEST = 1e6  # of full scale; samples are clipped, because squares of damaged floats overflow
SEARCH = 3600.0  # s of audio, at most, that are decoded to reach rejected spans
NO_SAMPLES = "it has no samples"
TOO_FAR = "it is too far into its recording to be decoded again for this page"


@dataclass(slots=True)
class Sample:
    """A span of the ledger, with the facts that a report shows."""

    row: LedgerRow
    whys: list[Why] = field(default_factory=list)
    shard: str | None = None
    locator: Locator | None = None
    text: str | None = None
    text_source: str | None = None
    heard: str | None = None
    reference: str | None = None
    measures: dict[str, float] = field(default_factory=dict)
    utterance: Utterance | None = None
    media: Media = field(default_factory=lambda: Media())

    @property
    def kept(self) -> bool:
        return bool(self.row["outcome"] == "packaged")

    @property
    def seconds(self) -> float:
        return max(float(self.row["end"] - self.row["start"]), 0.0)

    @property
    def name(self) -> str:
        """The span's group: `packaged`, or `stage.reason`."""
        return "packaged" if self.kept else f"{self.row['stage']}.{self.row['reason']}"


def choose(spans: Spans, seed: int) -> list[Sample]:
    """The samples, in the order of `choice.chosen_rows`."""
    picks = choice.chosen_rows(spans, seed)
    rows = dict(zip(sorted(picks), spans.rows(picks), strict=True))
    return [Sample(rows[number], whys) for number, whys in picks.items()]


def look_up(job: Job, samples: Sequence[Sample]) -> None:
    """Fill in the samples from the manifests; a sample whose recording is unknown is not
    changed."""
    wanted: dict[str, list[Sample]] = {}
    for sample in samples:
        wanted.setdefault(sample.row["recording"], []).append(sample)
    had = known_recordings.read(job.out, Index(job.out))
    rows = had.find(entries.keys(wanted))
    for number in np.unique(had.columns.shard[rows[rows >= 0]]):
        shard = had.shards[number]
        view = judged.of_recordings(job, shard, wanted)
        shard_samples = [s for r in view.recordings for s in wanted[r["recording"]]]
        locators = {r["recording"]: locator_of(r, job.filter) for r in view.recordings}
        spoken = any(s.row["utterance"] for s in shard_samples)
        utterances = {u.id: u for u in view.transcribed()} if spoken else {}
        for sample in shard_samples:
            sample.shard, sample.locator = shard, locators[sample.row["recording"]]
            utterance = utterances.get(sample.row["utterance"] or "")
            if utterance is not None:
                _fill_in(job, sample, utterance)


def _fill_in(job: Job, sample: Sample, utterance: Utterance) -> None:
    sample.utterance = utterance
    sample.reference = utterance.reference
    heard = utterance.transcript
    if heard is not None and not heard["error_code"]:
        sample.text, sample.text_source = final_text(job, utterance)
        sample.heard = heard["text"]
    elif utterance.reference:
        sample.text, sample.text_source = utterance.reference, "reference"
    language = heard["language"] if heard is not None else utterance.language
    most = hidden.most_places(job, utterance, sample.text)
    for name in ("text", "heard", "reference"):
        setattr(sample, name, hidden.shown(job, getattr(sample, name), language, most))
    values: dict[str, object] = {**utterance.measures, **utterance.texts}
    sample.measures = {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


@dataclass(frozen=True, slots=True)
class Media:
    """Data URLs of a clip, or the reason why it has none."""

    audio: str | None = None
    picture: str | None = None
    seconds: float = 0.0  # of the audio
    why: str = ""  # why there is no audio

    @property
    def size(self) -> int:
        return len(self.audio or "") + len(self.picture or "")


def room(seconds: float) -> float:
    """Least number of bytes of a clip's audio in the page, as base64."""
    return seconds * BIT_RATE / 8 * 4 / 3


def make(out: Path, samples: Sequence[Sample]) -> None:
    """Set the media of samples; reads each source once for all of its spans."""
    spans: dict[Locator, list[Sample]] = {}
    for sample in samples:
        sample.media = Media(why=lacking(sample) or TOO_FAR)
        try:
            stored = judged.stored_pcm(out, sample.shard or "", sample.utterance)
        except (CorruptManifest, OSError) as error:
            sample.media = Media(why=f"its audio cannot be read: {error}")
            continue
        if stored is not None:
            pcm, rate = stored
            sample.media = media(at_rate(pcm.astype(np.float32) * np.float32(1 / 32768), rate))
        elif sample.locator is not None and sample.media.why == TOO_FAR:
            spans.setdefault(sample.locator, []).append(sample)
    left = SEARCH
    for locator, wanted in spans.items():
        try:
            left -= _decode(locator, wanted, left)
        except (ItemError, OSError) as error:
            for sample in wanted:
                if sample.media.why == TOO_FAR:
                    sample.media = Media(why=f"it cannot be decoded now: {error}")


def _decode(locator: Locator, wanted: Sequence[Sample], most: float) -> float:
    """Set the media of spans of one source. Returns how many seconds are decoded to reach them, at
    most `most`."""
    with audio.open_stream(locator) as stream:
        if not stream.skip_to(0):
            reached = [sample for sample in wanted if sample.row["end"] <= most]
            _pass(stream, reached)
            return max((sample.row["end"] for sample in reached), default=0.0)
    for sample in wanted:
        mono = audio.read_mix(locator, *span(sample))
        sample.media = media(at_rate(mono, sample.row["sample_rate"]))
    return 0.0


def _pass(stream: audio.Stream, wanted: Sequence[Sample]) -> None:
    """Set the media of spans; decodes the stream once, up to the last end."""
    spans: list[tuple[int, int, Sample, list[Samples]]]
    spans = [(*span(sample), sample, []) for sample in wanted]
    position, blocks = 0, stream.blocks()
    while spans and (block := next(blocks, None)) is not None:
        for start, stop, _, pieces in spans:
            low, high = max(start - position, 0), min(stop - position, len(block))
            if low < high:
                pieces.append(block[low:high])
        position += len(block)
        for _, _, sample, pieces in (one for one in spans if one[1] <= position):
            mono = mean(np.concatenate(pieces), np.float32, stream.weights)
            sample.media = media(at_rate(mono, sample.row["sample_rate"]))
        spans = [one for one in spans if one[1] > position]


def media(mono: Samples) -> Media:
    """The media that a page embeds, from samples at RATE."""
    if not len(mono):  # one sample at 48 kHz gives none at RATE
        return Media(why=NO_SAMPLES)
    mono = mono.clip(-LOUDEST, LOUDEST)
    pcm = (mono * 32767).round().clip(-32768, 32767).astype(np.int16)
    return Media(
        address("audio/mpeg", audio.write_small_mp3_bytes(pcm, RATE, BIT_RATE)),
        address("image/png", png(spectrogram(mono))),
        len(mono) / RATE,
    )


def span(sample: Sample) -> tuple[int, int]:
    """(first sample, end) of a sample's span at the native rate."""
    rate = sample.row["sample_rate"]
    return round(sample.row["start"] * rate), round(sample.row["end"] * rate)


def lacking(sample: Sample) -> str:
    """Why a sample has no audio to play; empty if it has."""
    if judged.packed(sample.utterance) is not None:
        return ""
    if sample.row["outcome"] == "failed":
        return "it failed, and is not decoded again here"
    if sample.locator is None:
        return "its recording was not looked up: this report reads only some of the shards"
    if file_state(sample.locator.path).error:
        return "its source is no longer there"
    start, stop = span(sample)
    return "" if start < stop else NO_SAMPLES


def at_rate(mono: Samples, rate: int) -> Samples:
    """Samples at `rate` Hz resampled to RATE; float32 [n]."""
    import soxr

    same = rate == RATE or not len(mono)
    resampled: Samples = mono if same else soxr.resample(mono, rate, RATE)
    return resampled


def spectrogram(mono: Samples) -> UInt8s:
    """Log-mel levels [HEIGHT, WIDTH], 0 loud to 15 silent, low notes at the bottom.

    For display only. Importing librosa, which has one, would take as long as all pictures together.
    """
    padded = np.pad(mono, (0, max(WINDOW - len(mono), 0)))
    starts = np.linspace(0, len(padded) - WINDOW, WIDTH).astype(np.int64)
    frames = padded[starts[:, None] + np.arange(WINDOW)] * np.hanning(WINDOW).astype(np.float32)
    power = (np.square(np.abs(np.fft.rfft(frames))) @ triangles(BANDS)).T
    level = 10 * np.log10(np.maximum(power / max(float(power.max()), 1e-10), 1e-10))
    grey: UInt8s = np.clip(-level / RANGE_DB * 15, 0, 15).astype(np.uint8)[::-1]
    return grey


def png(grey: UInt8s) -> bytes:
    """A PNG with 16 greys from values 0 to 15, [rows, columns]; the number of columns is even."""
    rows, columns = grey.shape
    packed = (grey[:, ::2] << 4) | grey[:, 1::2]
    lines = np.concatenate([np.zeros((rows, 1), np.uint8), packed], axis=1)  # 0: no prediction
    head = struct.pack(">IIBBBBB", columns, rows, 4, 0, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


def address(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
