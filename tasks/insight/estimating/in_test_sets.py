"""Foresees which clips that are still to be computed meet a test set of `package.exclude`: by text
and by name, as far as their source states them. Their sound, and what a recogniser hears, are
unknown before the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from ... import corpus
from ...base.counting import counted
from ...base.schema import RecordingRow
from ...corpus import held_out
from ...recording import Segment
from ...scoring import clean, normalise, unmarked
from ...scoring.rates import language_of
from ...scoring.text_sketches import Known
from ...settings.job import Job
from ...shard_store.cuts import speakers_of
from ...shard_store.utterance import CutUtterance


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


def of_cut(cut: CutUtterance) -> Stated:
    return Stated(cut.reference, cut.language, corpus.speakers_in(cut), cut.seconds)


def meeting(job: Job, clips: Sequence[Stated]) -> list[Stated]:
    """Those of the clips that will be dropped."""
    if not clips or not job.package.exclude:
        return []
    sets = held_out.read(job, heard=False)
    named = {name for one in sets for name in one.items["speaker"].drop_null().to_pylist()}
    texts = [_normalised(clip) if job.transcribe.text == "reference" else None for clip in clips]
    met = Known(held_out.texts_of(sets)[1]).meet(pa.array(texts, pa.string())).item >= 0
    pairs = zip(clips, met.tolist(), strict=True)
    return [clip for clip, is_met in pairs if is_met or named & {*clip.speakers}]


def _normalised(clip: Stated) -> str | None:
    text = unmarked(clean(clip.text)) if clip.text else ""
    return normalise(text, language_of(clip.language, text, None)) or None


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
