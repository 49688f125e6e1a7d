"""What a source states of its recordings, so that a person sees at once whether it was understood:
how many have a text, who speaks in the first ones, and of how many nobody knows who speaks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.base.arrays import Bools, FixedBytes, UInt8s
from tasks.base.counting import counted
from tasks.plugins import Dataset
from tasks.settings.job import Job
from tasks.settings.package import keeps_speakers_apart
from tasks.stages.listing.entries import Batch
from tasks.storage import sorted_keys

FIRST = 5  # recordings that are named
KEPT = 50  # of which the first that are not broken are named
#: Bits of `Stated`'s facts.
TEXTLESS, PLAIN, NAMELESS, UNKNOWN, BROKEN = 1, 2, 4, 8, 16


@dataclass(slots=True)
class Stated:
    """Of one source, 17 bytes a recording. `asked`: its settings say how a path names the speaker;
    `apart`: splits are to keep speakers apart that only the source names; `mixes`: a text of the
    source is packaged as it is, and what has none gets the recogniser's."""

    dataset: str
    asked: bool
    apart: bool = False
    mixes: bool = False
    _keys: list[FixedBytes] = field(default_factory=list)
    _facts: list[UInt8s] = field(default_factory=list)
    # The first recordings by their place among all: paths without a text; paths with speakers.
    _first_textless: list[tuple[int, str]] = field(default_factory=list)
    _first: list[tuple[int, str, str | None]] = field(default_factory=list)

    @classmethod
    def of(cls, dataset: Dataset, job: Job) -> Stated:
        asked = getattr(dataset.settings, "speaker", "none") != "none"
        heard = job.speakers.use != "none"
        apart = keeps_speakers_apart(job.package.splits, job.package.disjoint)
        mixes = job.transcribe.backend.use != "none" and job.transcribe.text != "asr"
        mixes = mixes and job.package.text_form == "as_is"
        return cls(dataset.name, asked, apart and not heard, mixes)

    def at(self, batch: Batch) -> None:
        """The next recordings of the source."""
        sound = pc.is_null(batch.rows["error_code"])
        rows, before = batch.rows.filter(sound), sum(map(len, self._facts))
        textless = pc.and_(pc.is_null(rows["text"]), pc.is_null(rows["segments"]))
        nameless = pc.is_null(rows["speaker"]).to_numpy()
        facts = np.where(textless.to_numpy(), TEXTLESS, 0) | np.where(nameless, NAMELESS, 0)
        if self.mixes:
            one_case = pc.or_(pc.utf8_is_upper(rows["text"]), pc.utf8_is_lower(rows["text"]))
            facts |= np.where(one_case.fill_null(False).to_numpy(), PLAIN, 0)
        if self.apart:
            unknown = nameless & ~_in_named_segments(rows["segments"])
            facts |= np.where(unknown, UNKNOWN, 0)
        self._keys.append(batch.keys[sound.to_numpy()])
        self._facts.append(facts.astype(np.uint8))
        places = np.flatnonzero(facts & TEXTLESS)[: KEPT - len(self._first_textless)]
        paths = rows["path"].take(places).to_pylist()
        self._first_textless += zip((places + before).tolist(), paths, strict=True)
        if self.asked:
            head = rows.slice(0, KEPT - len(self._first))
            names = head["path"].to_pylist(), head["speaker"].to_pylist()
            self._first += zip(range(before, before + len(head)), *names, strict=True)

    def leave_out(self, broken: FixedBytes) -> None:
        """Say nothing of these recordings, by sorted keys: they fail, whatever their source states
        of them."""
        if self._facts:
            failing = sorted_keys.index_in(broken, np.concatenate(self._keys)) >= 0
            facts = np.concatenate(self._facts) | np.where(failing, BROKEN, 0).astype(np.uint8)
            self._facts, self._keys = [facts], [np.concatenate(self._keys)]

    def _count(self, fact: int) -> int:
        """How many recordings have the fact and are not broken."""
        return sum(int(np.sum(facts & (fact | BROKEN) == fact)) for facts in self._facts)

    def _sound(self, place: int) -> bool:
        return not np.concatenate(self._facts)[place] & BROKEN

    def sentences(self) -> Iterator[str]:
        """Where some recordings have a text and others none; and what paths say of speakers."""
        recordings, textless = self._count(0), self._count(TEXTLESS)
        of = f"of {counted(recordings, 'recording')} of the source {self.dataset!r}"
        if 0 < textless < recordings:
            names = [path for place, path in self._first_textless if self._sound(place)]
            have = "has" if textless == 1 else "have"
            yield f"{textless} {of} {have} no text: {_shown(names, textless)}"
            if 2 * self._count(PLAIN) > recordings - textless:
                yield (
                    f"Most texts of the source {self.dataset!r} are all capitals or all small "
                    "letters, and the recogniser writes the missing ones with case and "
                    "punctuation; set package.text_form=normalised to write all texts alike"
                )
        if self.asked and recordings:
            examples = [
                f"{path} → {speaker or 'nobody'}"
                for place, path, speaker in self._first
                if self._sound(place)
            ]
            yield (
                f"Paths name the speaker of {recordings - self._count(NAMELESS)} {of}: "
                f"{_shown(examples, recordings)}"
            )

    def of_splits(self) -> str | None:
        """That splits cannot keep all of its speakers apart, and the remedy."""
        unknown = self._count(UNKNOWN)
        if not unknown:
            return None
        whose = "its speaker" if unknown == 1 else "their speakers"
        verb = "does" if unknown == 1 else "do"
        return (
            f"{unknown} of {counted(self._count(0), 'recording')} of the source "
            f"{self.dataset!r} {verb} not say who speaks: package.splits keeps {whose} apart by "
            "recording only, so one person may be in two splits; name speakers in the source "
            "(`speaker: parent_folder` of a folder), or set speakers.use=segments to find them"
        )


def _in_named_segments(segments: pa.ChunkedArray) -> Bools:
    """Which recordings have segments all of which name a speaker."""
    masks = [np.zeros(0, bool)]
    for chunk in segments.chunks:
        named = pc.fill_null(pc.greater(pc.list_value_length(chunk), 0), False)
        mask = named.to_numpy(zero_copy_only=False).copy()
        nameless = pc.is_null(pc.struct_field(pc.list_flatten(chunk), "speaker"))
        mask[pc.list_parent_indices(chunk).filter(nameless).to_numpy()] = False
        masks.append(mask)
    return np.concatenate(masks)


def _shown(first: list[str], count: int) -> str:
    return ", ".join(first[:FIRST]) + (", …" if count > FIRST else "")
