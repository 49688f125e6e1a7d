"""What a source states of its recordings, so that a person sees at once whether it was understood:
how many have a text, who speaks in the first ones, and of how many nobody knows who speaks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tasks.base.counting import counted
from tasks.plugins import Dataset
from tasks.settings.job import Job
from tasks.settings.package import keeps_speakers_apart

FIRST = 5  # recordings that are named


@dataclass(slots=True)
class Stated:
    """Of one source. `asked`: its settings say how a path names the speaker; `apart`: splits are to
    keep speakers apart that only the source names; `mixes`: a text of the source is packaged as it
    is, and what has none gets the recogniser's."""

    dataset: str
    asked: bool
    apart: bool = False
    mixes: bool = False
    recordings: int = 0
    textless: int = 0
    plain: int = 0  # texts of letters in one case, where their script has two
    nameless: int = 0
    unknown: int = 0  # recordings of which the source does not name all speakers
    first_textless: list[str] = field(default_factory=list)
    first: list[tuple[str, str | None]] = field(default_factory=list)  # with their speakers

    @classmethod
    def of(cls, dataset: Dataset, job: Job) -> Stated:
        asked = getattr(dataset.settings, "speaker", "none") != "none"
        heard = job.speakers.use != "none"
        apart = keeps_speakers_apart(job.package.splits, job.package.disjoint)
        mixes = job.transcribe.backend.use != "none" and job.transcribe.text != "asr"
        mixes = mixes and job.package.text_form == "as_is"
        return cls(dataset.name, asked, apart and not heard, mixes)

    def at(self, rows: pa.Table) -> None:
        """Rows of RECORDINGS of the source."""
        rows = rows.filter(pc.is_null(rows["error_code"]))
        textless = pc.and_(pc.is_null(rows["text"]), pc.is_null(rows["segments"]))
        self.recordings += len(rows)
        self.textless += pc.sum(textless).as_py() or 0
        if self.mixes:
            texts = rows["text"].drop_null()
            one_case = pc.or_(pc.utf8_is_upper(texts), pc.utf8_is_lower(texts))
            self.plain += pc.sum(one_case).as_py() or 0
        lacking = FIRST - len(self.first_textless)
        self.first_textless += rows["path"].filter(textless).slice(0, lacking).to_pylist()
        if self.asked:
            self.nameless += rows["speaker"].null_count
            head = rows.slice(0, FIRST - len(self.first))
            self.first += zip(head["path"].to_pylist(), head["speaker"].to_pylist(), strict=True)
        if self.apart:
            nameless = rows.filter(pc.is_null(rows["speaker"]))
            self.unknown += len(nameless) - _with_named_segments(nameless["segments"])

    def sentences(self) -> Iterator[str]:
        """Where some recordings have a text and others none; and what paths say of speakers."""
        of = f"of {counted(self.recordings, 'recording')} of the source {self.dataset!r}"
        if 0 < self.textless < self.recordings:
            names = _shown(self.first_textless, self.textless)
            have = "has" if self.textless == 1 else "have"
            yield f"{self.textless} {of} {have} no text: {names}"
            if 2 * self.plain > self.recordings - self.textless:
                yield (
                    f"Most texts of the source {self.dataset!r} are all capitals or all small "
                    "letters, and the recogniser writes the missing ones with case and "
                    "punctuation; set package.text_form=normalised to write all texts alike"
                )
        if self.asked and self.recordings:
            examples = [f"{path} → {speaker or 'nobody'}" for path, speaker in self.first]
            yield (
                f"Paths name the speaker of {self.recordings - self.nameless} {of}: "
                f"{_shown(examples, self.recordings)}"
            )

    def of_splits(self) -> str | None:
        """That splits cannot keep all of its speakers apart, and the remedy."""
        if not self.unknown:
            return None
        whose = "its speaker" if self.unknown == 1 else "their speakers"
        verb = "does" if self.unknown == 1 else "do"
        return (
            f"{self.unknown} of {counted(self.recordings, 'recording')} of the source "
            f"{self.dataset!r} {verb} not say who speaks: package.splits keeps {whose} apart by "
            "recording only, so one person may be in two splits; name speakers in the source "
            "(`speaker: parent_folder` of a folder), or set speakers.use=segments to find them"
        )


def _with_named_segments(segments: pa.ChunkedArray) -> int:
    """How many recordings have segments all of which name a speaker."""
    count = 0
    for chunk in segments.chunks:
        named = pc.is_valid(pc.struct_field(pc.list_flatten(chunk), "speaker"))
        nameless = pc.unique(pc.list_parent_indices(chunk).filter(pc.invert(named)))
        count += (pc.sum(pc.greater(pc.list_value_length(chunk), 0)).as_py() or 0) - len(nameless)
    return count


def _shown(first: list[str], count: int) -> str:
    return ", ".join(first) + (", …" if count > len(first) else "")
