"""Scores of all methods on all recordings, as a table and as JSON."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from tests.helpers import cut_ways
from tests.helpers.corpus_speech import Floats
from tests.helpers.cut_mixture import Recording
from tests.helpers.cut_scores import Score, score


class Clock:
    """CPU seconds of a method, without those of rendering the blocks that it reads."""

    def __init__(self) -> None:
        self.spent = 0.0

    def run(self, way: cut_ways.Way, blocks: Iterable[Floats]) -> list[tuple[int, int]]:
        began, rendering = time.process_time(), [0.0]

        def counted() -> Iterator[Floats]:
            source = iter(blocks)
            while True:
                at = time.process_time()
                block = next(source, None)
                rendering[0] += time.process_time() - at
                if block is None:
                    return
                yield block

        found = way(counted())
        self.spent += time.process_time() - began - rendering[0]
        return found


class Table:
    """Scores by recording and method, and the CPU time of each method."""

    def __init__(self) -> None:
        self.scores: dict[str, dict[str, Score]] = {}
        self.clocks = {name: Clock() for name in cut_ways.WAYS}
        self.seconds = 0.0

    def add(self, recording: Recording, name: str, from_frame: int = 0) -> None:
        self.seconds += recording.frames / 100
        for way, run in cut_ways.WAYS.items():
            found = self.clocks[way].run(run, recording.blocks())
            self.scores.setdefault(name, {})[way] = score(recording, found, from_frame)
        self.show(name)

    def show(self, name: str) -> None:
        rows = self.scores[name]
        first = next(iter(rows.values()))
        print(
            f"\n{name}: {first.sentences} sentences, {first.words} words, "
            f"{first.speech_seconds:.0f} s of speech, {first.sound_seconds:.0f} s of other sounds\n"
            f"  {'':24}{'words hurt':>11}{'lost':>6}{'clipped':>8}{'parted':>7}{'starts':>7}"
            f"{'ends':>6}{'sentences':>10}{'speech':>8}{'sounds in':>10}{'pause in':>9}"
            f"{'utt.':>6}{'>200':>6}"
        )
        for way, s in rows.items():
            print(
                f"  {way:24}{100 * s.words_hurt:9.2f} %{s.words_lost:6}{s.words_clipped:8}"
                f"{s.words_parted:7}{s.starts_clipped:7}{s.ends_clipped:6}{s.sentences_lost:10}"
                f"{100 * s.speech_lost:6.2f} %{s.sound_let_in_seconds:8.1f} s"
                f"{s.pause_let_in_seconds:7.1f} s{s.utterances:6}{s.utterances_long:6}",
                flush=True,
            )

    def total(self) -> None:
        every = [rows for name, rows in self.scores.items() if not name.startswith("long/")]
        if every:
            self.scores["all mixtures"] = {
                way: sum((rows[way] for rows in every), Score()) for way in cut_ways.WAYS
            }
            self.show("all mixtures")

    def as_json(self) -> dict[str, Any]:
        return {
            "scores": {
                name: {
                    way: {**asdict(s), "words_hurt": s.words_hurt, "speech_lost": s.speech_lost}
                    for way, s in rows.items()
                }
                for name, rows in self.scores.items()
            },
            "times_real_time": {
                way: self.seconds / max(clock.spent, 1e-9) for way, clock in self.clocks.items()
            },
        }
