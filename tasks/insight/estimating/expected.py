"""Predicts the utterances of uncut recordings, and how many of them are kept.

A recording gives one utterance if the segmenter takes it whole, else the segments in its list, else
as many per second as the recordings of the newest version, or more if the segmenter now allows only
shorter ones. The share that passes the filters and the rules on text is that of this version.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from ... import plugins
from ...base.counting import counted
from ...base.json_types import DatasetJson
from ...base.schema import RecordingRow
from ...publish import corpus
from ...publish.corpus import held_out
from ...scoring import clean, normalise, unmarked
from ...scoring.rates import language_of
from ...scoring.text_sketches import Known
from ...settings.job import Job
from ...shard_store import clip_choice
from ...shard_store.cuts import segments_of, speakers_of
from ...shard_store.utterance import Utterance

USUAL = 10.0  # s; assumed length of an utterance while none is known
EARLY = ("shard.", "filter.")  # first parts of reasons by which filters may drop a clip, or before


class Stated(NamedTuple):
    """What a source says of a clip."""

    text: str | None
    language: str | None
    speakers: Sequence[str | None]
    seconds: float


class Expected:
    """Collects uncut recordings. `described`: the newest version's dataset.json, whose recordings
    and clips are what is known of others."""

    def __init__(self, job: Job, described: DatasetJson | None) -> None:
        self._job = job
        self.use = job.filter.segmenter.use
        settings = plugins.SEGMENTERS.resolve(job.filter.segmenter)[1].model_dump()
        self.whole_up_to = float("inf") if self.use == "whole" else settings.get("whole_up_to", 0.0)
        bounds = (settings.get(name) for name in ("max_seconds", "target_seconds"))
        longest = min(filter(None, bounds), default=float("inf"))  # s, approximately
        self.stated: list[Stated] = []  # of clips, for package.exclude
        self._utterances: dict[tuple[tuple[str, ...], bool], tuple[float, float]] = {}
        self._passing = self._packaged = self._spoken = 1.0  # shares
        dense = 1 / USUAL  # utterances in a second of a recording
        if described and (count := described["utterances"]["in"]):
            items = {code: reason["items"] for code, reason in described["reasons"].items()}
            left_out = items.pop(f"package.{clip_choice.REASON}", 0)  # `add` foresees these
            later = sum(n for code, n in items.items() if not code.startswith(EARLY))
            packaged = described["utterances"]["packaged"]
            self._passing = (packaged + later) / max(count - left_out, 1)
            unfit = sum(n for code, n in items.items() if code.startswith("transcribe."))
            self._packaged = packaged / max(packaged + unfit, 1)
            if count > described["recordings"]["in"]:  # else most are whole recordings
                seconds = described["seconds"]
                dense = count / seconds["in"]
                self._spoken = (seconds["packaged"] + seconds["dropped"]) / seconds["in"]
        self._dense = max(dense, self._spoken / longest)

    def add(self, row: RecordingRow, seconds: float, because: tuple[str, ...], again: bool) -> None:
        """Add a recording of this length that is not cut yet. `because`: causes of the work;
        `again`: whether it was cut before."""
        may_choose = clip_choice.of_uncut(self._job, row)
        if not may_choose(None):
            return
        stated = list[Stated]()
        given = segments_of(row)
        if given is not None and self.use in ("auto", "given"):
            for part in (part for number, part in enumerate(given) if may_choose(number)):
                length = max(0.0, (seconds if part.end is None else part.end) - part.start)
                names = [part.speaker or row["speaker"]]
                stated.append(Stated(part.text, part.language or row["language"], names, length))
            count, seconds = float(len(stated)), sum(clip.seconds for clip in stated)
        elif seconds <= self.whole_up_to:
            named = [part.speaker for part in speakers_of(row) or ()]
            names = [row["speaker"]] if row["speaker"] else named
            stated.append(Stated(row["text"], row["language"], names, seconds))
            count = 1.0
        else:
            count, seconds = max(1.0, seconds * self._dense), seconds * self._spoken
        if self._job.package.exclude:
            self.stated += stated
        items, length = self._utterances.get((because, again), (0.0, 0.0))
        self._utterances[because, again] = items + count, length + seconds

    def waits(self, u: Utterance) -> None:
        """Add a clip that is cut, and still to be computed."""
        if self._job.package.exclude:
            self.stated.append(Stated(u.reference, u.language, corpus.speakers_in(u), u.seconds))

    def kept(self) -> Iterator[tuple[tuple[str, ...], bool, int, float]]:
        """(causes, whether cut again, number of utterances that pass the filters, their seconds)
        for each group of uncut recordings."""
        for (because, again), (count, seconds) in self._utterances.items():
            yield because, again, round(self._passing * count), self._passing * seconds

    def packaged(self, coming: int, seconds: float) -> tuple[int, float]:
        """The number of clips that utterances without a transcript will give, and their seconds.
        `coming`: how many are known, of `seconds` in all."""
        later = [*self.kept()]
        count = coming + sum(items for *_, items, _ in later)
        seconds += sum(length for *_, length in later)
        return round(self._packaged * count), self._packaged * seconds


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
