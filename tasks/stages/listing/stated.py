"""What a source states of its recordings, so that a person sees at once whether it was understood:
how many have a text, and who speaks in the first ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tasks.base.counting import counted
from tasks.plugins import Dataset

FIRST = 5  # recordings that are named


@dataclass(slots=True)
class Stated:
    """Of one source. `asked`: its settings say how a path names the speaker."""

    dataset: str
    asked: bool
    recordings: int = 0
    textless: int = 0
    nameless: int = 0
    first_textless: list[str] = field(default_factory=list)
    first: list[tuple[str, str | None]] = field(default_factory=list)  # with their speakers

    @classmethod
    def of(cls, dataset: Dataset) -> Stated:
        return cls(dataset.name, getattr(dataset.settings, "speaker", "none") != "none")

    def at(self, rows: pa.Table) -> None:
        """Rows of RECORDINGS of the source."""
        rows = rows.filter(pc.is_null(rows["error_code"]))
        textless = pc.and_(pc.is_null(rows["text"]), pc.is_null(rows["segments"]))
        self.recordings += len(rows)
        self.textless += pc.sum(textless).as_py() or 0
        lacking = FIRST - len(self.first_textless)
        self.first_textless += rows["path"].filter(textless).slice(0, lacking).to_pylist()
        if self.asked:
            self.nameless += rows["speaker"].null_count
            head = rows.slice(0, FIRST - len(self.first))
            self.first += zip(head["path"].to_pylist(), head["speaker"].to_pylist(), strict=True)

    def sentences(self) -> Iterator[str]:
        """Where some recordings have a text and others none; and what paths say of speakers."""
        of = f"of {counted(self.recordings, 'recording')} of the source {self.dataset!r}"
        if 0 < self.textless < self.recordings:
            names = _shown(self.first_textless, self.textless)
            have = "has" if self.textless == 1 else "have"
            yield f"{self.textless} {of} {have} no text: {names}"
        if self.asked and self.recordings:
            examples = [f"{path} → {speaker or 'nobody'}" for path, speaker in self.first]
            yield (
                f"Paths name the speaker of {self.recordings - self.nameless} {of}: "
                f"{_shown(examples, self.recordings)}"
            )


def _shown(first: list[str], count: int) -> str:
    return ", ".join(first) + (", …" if count > len(first) else "")
