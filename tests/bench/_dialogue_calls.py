"""Scores the texts of turns that a run publishes for calls with a channel for each person: once
with the words of the window, and once with those of the turns' own channels."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import soundfile as sf
from rapidfuzz.distance import Levenshtein

from tests.bench import _dialogues
from tests.bench._dialogues import Asked, Dialogue, Person
from tests.helpers import corpus
from uttermill.tasks import pipeline, scoring
from uttermill.tasks.base.arrays import RATE
from uttermill.tasks.settings import Plugin

HEARS = {"use": "faster_whisper", "word_timestamps": True}


@dataclass(slots=True)
class Sums:
    """Sums for one method."""

    words: int = 0
    wrong: int = 0
    backchannels: int = 0
    some: int = 0  # of them with a text
    right: int = 0

    def add(self, made: Dialogue, row: dict[str, Any]) -> None:
        """Add a published window, whose times are in s of the recording."""
        inside = [t for t in made.turns if row["start"] <= t.start and t.end <= row["end"]]
        person = _people(made, row)
        for who in range(len(made.channels)):
            said = _plain(" ".join(t.text for t in inside if t.speaker == who))
            own = [t["text"] or "" for t in row["turns"] if person[t["number"]] == who]
            self.words += len(said)
            self.wrong += Levenshtein.distance(said, _plain(" ".join(own)))
        for turn in (turn for turn in inside if turn.backchannel):
            start, end = turn.start - row["start"], turn.end - row["start"]
            heard = [
                _plain(t["text"] or "")
                for t in row["turns"]
                if person[t["number"]] == turn.speaker and t["start"] < end and start < t["end"]
            ]
            self.backchannels += 1
            self.some += any(heard)
            self.right += _plain(turn.text) in heard


def _people(made: Dialogue, row: dict[str, Any]) -> dict[int, int]:
    """The person behind each number in a window's turns: the one who speaks most in them."""
    spoken = made.spoken()
    heard: dict[int, Any] = {}
    for turn in row["turns"]:
        low, high = (round((row["start"] + turn[edge]) * 100) for edge in ("start", "end"))
        heard[turn["number"]] = heard.get(turn["number"], 0) + spoken[low:high].sum(axis=0)
    return {number: int(np.argmax(counts)) for number, counts in heard.items()}


def _plain(text: str) -> list[str]:
    return scoring.normalise(text, "en").split()


def measured(asked: Sequence[Asked], people: Sequence[Person]) -> dict[str, Any]:
    """Sums and CPU s of each method; the second run transcribes only what the first one did not."""
    calls = {f"call{one.seed}": _dialogues.made(one, people) for one in asked}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "in").mkdir()
        for name, made in calls.items():
            sf.write(home / "in" / f"{name}.wav", made.channels.T, RATE, "PCM_16")
        return {way: _of_run(home, way, calls) for way in ("window", "channel")}


def _of_run(home: Path, way: str, calls: dict[str, Dialogue]) -> dict[str, Any]:
    job = corpus.job(
        home,
        sources=[{"kind": "folder", "path": str(home / "in"), "name": "c", "language": "en"}],
        speakers=Plugin(use="channels"),
        filter={"segmenter": {"use": "dialogue"}, "filters": [{"use": "dialogue"}]},
        transcribe={"backend": HEARS, "verdicts": (), "turns_by": way},
    )
    published, stages = pipeline.run_here(job)
    sums = Sums()
    for row in pq.read_table(published.path / "utterances.parquet").to_pylist():
        sums.add(calls[Path(row["recording"]).stem], row)
    heard = stages["transcribe"]
    return {
        "words": sums.words,
        "wrong words, %": round(100 * sums.wrong / sums.words, 1),
        "backchannels": {"count": sums.backchannels, "some": sums.some, "right": sums.right},
        "transcribe": {"items": heard["items_computed"], "seconds": heard["seconds"]},
    }
