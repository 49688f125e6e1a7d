"""Predicts the utterances of uncut recordings, and how many of them are kept.

A recording gives one utterance if the segmenter takes it whole, else the segments in its list, else
as many per second as the recordings cut so far, or more if the segmenter now allows only shorter
ones. The share that passes the filters and the rules on text is that of the known utterances.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import NamedTuple

import pyarrow as pa

from ... import plugins
from ...base.counting import counted
from ...base.json_types import DatasetJson
from ...base.schema import RecordingRow
from ...publish import corpus
from ...publish.corpus import held_out
from ...recording import Segment
from ...scoring import clean, normalise, unmarked
from ...scoring.rates import language_of
from ...scoring.text_sketches import Known
from ...settings.job import Job
from ...shard_store import clip_choice
from ...shard_store.cuts import segments_of, speakers_of
from ...shard_store.utterance import Utterance
from ...stages.listing.shard_choice import seconds_of
from . import asked_apart

HEADERS = 500  # new recordings whose headers are read; other lengths are estimated from these
USUAL = 10.0  # s; assumed length of an utterance while none is known


class Stated(NamedTuple):
    """What a source says of a clip."""

    text: str | None
    language: str | None
    speakers: Sequence[str | None]
    seconds: float


def of_whole(row: RecordingRow, seconds: float) -> Stated:
    """Of a recording that is one clip."""
    names = (
        [row["speaker"]] if row["speaker"] else [part.speaker for part in speakers_of(row) or ()]
    )
    return Stated(row["text"], row["language"], names, seconds)


def of_segment(row: RecordingRow, part: Segment, seconds: float) -> Stated:
    names = [part.speaker or row["speaker"]]
    return Stated(part.text, part.language or row["language"], names, seconds)


def of_cut(u: Utterance) -> Stated:
    return Stated(u.reference, u.language, corpus.speakers_in(u), u.seconds)


class Expected:
    """Collects uncut recordings, and statistics of known utterances. `described`: the newest
    version's dataset.json, whose share of heard clips counts while none is heard."""

    def __init__(self, job: Job, described: DatasetJson | None) -> None:
        self._job = job
        self._share_before = _share_of_heard(described) if described else 1.0
        self.use = job.filter.segmenter.use
        settings = plugins.SEGMENTERS.resolve(job.filter.segmenter)[1].model_dump()
        self.whole_up_to = float("inf") if self.use == "whole" else settings.get("whole_up_to", 0.0)
        bounds = (settings.get(name) for name in ("max_seconds", "target_seconds"))
        self._longest = min(filter(None, bounds), default=float("inf"))  # s, approximately
        self._utterances: dict[tuple[tuple[str, ...], bool], list[tuple[int | None, float]]] = {}
        self._known = self._kept = self._heard = self._good = 0
        self._parts = 0  # number of utterances that are not whole recordings
        self._spoken = self._long = 0.0  # s of these utterances, s of their recordings
        self._last = ""
        self.stated: list[Stated] = []  # of clips, for package.exclude

    def saw(self, utterance: Utterance, kept: bool) -> None:
        """Add a known utterance to the statistics."""
        if utterance.outcome is not clip_choice.NOT_CHOSEN:  # which `add` foresees
            self._known += 1
            self._kept += kept
        if utterance.transcript is not None:
            self._heard += 1
            self._good += utterance.outcome.outcome == "packaged"
        if not utterance.whole:
            self._parts += 1
            self._spoken += utterance.seconds
            name = utterance.recording["recording"]
            if name != self._last:
                self._last = name
                self._long += utterance.recording["header_seconds"] or 0.0

    def add(self, row: RecordingRow, seconds: float, because: tuple[str, ...], again: bool) -> None:
        """Add a recording of this length that is not cut yet. `because`: causes of the work;
        `again`: whether it was cut before."""
        given = segments_of(row)
        count: int | None = None  # predicted from the statistics
        may_choose = clip_choice.of_uncut(self._job, row)
        if not may_choose(None):
            return
        if given is not None and self.use in ("auto", "given"):
            given = tuple(part for number, part in enumerate(given) if may_choose(number))
            ends = [seconds if part.end is None else part.end for part in given]
            starts = [part.start for part in given]
            lengths_of_parts = [max(0.0, b - a) for a, b in zip(starts, ends, strict=True)]
            if self._job.package.exclude:
                self.stated += map(partial(of_segment, row), given, lengths_of_parts)
            count, seconds = len(given), sum(lengths_of_parts)
        elif seconds <= self.whole_up_to:
            count = 1
            if self._job.package.exclude:
                self.stated.append(of_whole(row, seconds))
        self._utterances.setdefault((because, again), []).append((count, seconds))

    def kept(self) -> Iterator[tuple[tuple[str, ...], bool, int, float]]:
        """(causes, whether cut again, number of utterances that pass the filters, their seconds)
        for each group of uncut recordings."""
        share = self._kept / self._known if self._known else 1.0
        dense = self._parts / self._long if self._long else 1 / USUAL
        spoken = min(1.0, self._spoken / self._long) if self._long else 1.0
        dense = max(dense, spoken / self._longest)
        for (because, again), recordings in self._utterances.items():
            count = sum(max(1.0, s * dense) if n is None else n for n, s in recordings)
            seconds = sum(s * spoken if n is None else s for n, s in recordings)
            yield because, again, round(share * count), share * seconds

    def packaged(self, coming: int, seconds: float) -> tuple[int, float]:
        """The number of clips that utterances without a transcript will give, and their seconds.
        `coming`: how many are known, of `seconds` in all."""
        share = self._good / self._heard if self._heard else self._share_before
        later = [*self.kept()]
        count = coming + sum(items for *_, items, _ in later)
        return round(share * count), share * (seconds + sum(length for *_, length in later))


def _share_of_heard(described: DatasetJson) -> float:
    """Which share of a version's clips with a transcript is packaged."""
    packaged = described["utterances"]["packaged"]
    dropped = (
        r["items"] for code, r in described["reasons"].items() if code.startswith("transcribe.")
    )
    return packaged / max(packaged + sum(dropped), 1)


def lengths(rows: Sequence[RecordingRow]) -> dict[str, float]:
    """Seconds of new recordings, by name, except those known to be unreadable. The headers of the
    first HEADERS are read in a separate process; other lengths are estimated from the bytes per
    second of files with the same extension."""
    seconds: dict[str, float] = {}
    rates: dict[str, tuple[int, float]] = {}  # bytes, seconds by extension
    sound = [row for row in rows if not row["error_code"]]
    answers = asked_apart.headers([row["locator"] for row in sound[:HEADERS]])
    for row, header in zip(sound, answers, strict=False):
        if header is None:
            continue
        if (length := header["seconds"]) is None:
            seconds[row["recording"]] = seconds_of({**row, "header_seconds": None})
        else:
            seconds[row["recording"]] = length
            size, total = rates.get(_ending(row), (0, 0.0))
            rates[_ending(row)] = size + row["size"], total + length
    for row in sound[len(answers) :]:
        size, total = rates.get(_ending(row), (16000, 1.0))
        seconds[row["recording"]] = row["size"] * total / (size or 1)
    return seconds


def _ending(row: RecordingRow) -> str:
    return PurePosixPath(row["path"]).suffix.lower()


# Which clips that are still to be computed meet a test set of `package.exclude`: by text and by
# name, as far as their source states them. Their sound, and what a recogniser hears, are unknown
# before the run.


def meeting(job: Job, clips: Sequence[Stated]) -> list[Stated]:
    """Those of the clips that will be dropped."""
    if not clips or not job.package.exclude:
        return []
    sets = held_out.read(job, heard=False)
    named = {name for one in sets for name in one.items["speaker"].drop_null().to_pylist()}
    texts: list[str | None] = [None] * len(clips)
    if job.transcribe.text == "reference":
        cleaned = [unmarked(clean(clip.text)) if clip.text else "" for clip in clips]
        languages = [clip.language for clip in clips]
        pairs = zip(cleaned, languages, strict=True)
        texts = [normalise(t, language_of(language, t, None)) or None for t, language in pairs]
    met = Known(held_out.texts_of(sets)[1]).meet(pa.array(texts, pa.string())).item >= 0
    is_met = met.tolist()
    return [clip for n, clip in enumerate(clips) if is_met[n] or named & {*clip.speakers}]


def in_words(job: Job, clips: Sequence[Stated], coming: int, met: int) -> Iterator[str]:
    """A sentence about clips that are still to be computed: `coming` of them, of which `met` will
    be dropped, and the sources state `clips`."""
    if not job.package.exclude or not coming:
        return
    by_ear = job.transcribe.text != "reference" or coming > sum(bool(one.text) for one in clips)
    unknown = [
        words
        for kind, words in (("text", "text"), ("audio", "sound"), ("voice", "voice"))
        if any(one.compares(kind) for one in job.package.exclude) and (kind != "text" or by_ear)
    ]
    if met:
        yield (
            f"package.exclude: {counted(met, 'clip')} still to be computed will be dropped "
            "(in_test_set), by the text or the speaker that the source states"
        )
    if unknown and coming > met:
        yield (
            f"package.exclude: any of {counted(coming - met, 'clip')} still to be computed may be "
            f"dropped (in_test_set): only a run knows their {' and '.join(unknown)}"
        )
