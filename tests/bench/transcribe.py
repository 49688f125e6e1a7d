"""Our Whisper backend compared with faster-whisper's own clip-by-clip loop, in one run.

    UTTERMILL_CORPUS=… python -m tests.bench.transcribe [english] [chinese]
        [--clips 40] [--threads 2] [--rounds 1] [--language en] [--device cpu]

english: 40 LibriSpeech test-other clips; WER from exact counts, wall and CPU seconds of both ways,
         which take turns group by group, so that they meet the same machine.
chinese: 50 AISHELL clips; CER with `chinese: simplified` beside the loop's with a prompt in
         simplified characters.

Both ways use one loaded model. A shared machine's wall seconds tell little: look at the load that
is printed beside them, and at the CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import soundfile as sf

from uttermill.tasks import scoring
from uttermill.tasks.asr import SpeechClip, faster_whisper
from uttermill.tasks.asr._whisper import loading

GROUP = 8  # clips that one way takes before the other has its turn
SIMPLIFIED = "以下是普通话的句子。"
PARTS = ("english", "chinese")


@dataclass(frozen=True, slots=True)
class Said:
    """A clip with what was said in it."""

    clip: SpeechClip
    text: str


@dataclass(slots=True)
class Way:
    """One way to transcribe, with what it has spent and heard."""

    name: str
    run: Callable[[Sequence[Said]], list[str]]
    wall: float = 0.0
    cpu: float = 0.0
    scores: list[scoring.Score] | None = None

    def turn(self, group: Sequence[Said], language: str) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        heard = self.run(group)
        self.wall += time.perf_counter() - wall
        self.cpu += time.process_time() - cpu
        counted = [scoring.score(s.text, h, language) for s, h in zip(group, heard, strict=True)]
        self.scores = [*(self.scores or []), *counted]

    def line(self) -> str:
        sums = scoring.total(self.scores or [])
        return (
            f"{self.name:34} {self.wall:7.1f} s wall, {self.cpu:6.1f} s CPU; "
            f"WER {sums.word_errors}/{sums.words} = {100 * (sums.wer or 0):.2f} %, "
            f"CER {sums.char_errors}/{sums.chars} = {100 * (sums.cer or 0):.2f} %"
        )


def clips(folder: Path, under: str, most: int, language: str | None) -> list[Said]:
    """Clips with texts below a folder of the corpus, in the order of its list."""
    rows = map(json.loads, (folder / "manifest.jsonl").read_text().splitlines())
    found = [row for row in rows if row["path"].startswith(under) and row["text"]][:most]
    return [
        Said(SpeechClip(sf.read(folder / row["path"], dtype="float32")[0], language), row["text"])
        for row in found
    ]


def ours(model: Any, **options: Any) -> Callable[[Sequence[Said]], list[str]]:
    backend = faster_whisper.Backend(faster_whisper.Settings(**options), model)
    return lambda group: [t.text or "" for t in backend.transcribe([said.clip for said in group])]


def loop(model: Any, prompt: str | None = None) -> Callable[[Sequence[Said]], list[str]]:
    def run(group: Sequence[Said]) -> list[str]:
        texts = []
        for said in group:
            segments, _ = model.transcribe(
                said.clip.samples, beam_size=5, language=said.clip.language, initial_prompt=prompt
            )
            texts.append("".join(segment.text for segment in segments))
        return texts

    return run


def compare(first: Way, second: Way, said: Sequence[Said], language: str, rounds: int) -> None:
    """Both over all clips, in turns; who begins changes with every turn."""
    ordered = sorted(said, key=lambda s: -len(s.clip.samples))
    groups = [ordered[at : at + GROUP] for at in range(0, len(ordered), GROUP)]
    walls = []
    for _ in range(rounds):
        for way in (first, second):
            way.wall = way.cpu = 0.0
            way.scores = None
        for number, group in enumerate(groups):
            for way in (first, second) if number % 2 else (second, first):
                way.turn(group, language)
            print(
                f"  {number + 1}/{len(groups)} CPU ratio {first.cpu / second.cpu:.3f}", flush=True
            )
        walls.append(first.wall / second.wall)
        for way in (first, second):
            print(" ", way.line())
        print(f"  wall ratio {walls[-1]:.3f}, CPU ratio {first.cpu / second.cpu:.3f}; {load()}")
    print(f"  median wall ratio {statistics.median(walls):.3f} of {rounds}", flush=True)


def load() -> str:
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"


def english(args: argparse.Namespace, model: Any) -> None:
    said = clips(args.corpus, "en/librispeech/", args.clips, args.language)
    print(f"english: {len(said)} clips, {seconds(said):.0f} s, language {args.language or 'heard'}")
    ways = Way("ours", ours(model)), Way("clip by clip", loop(model))
    compare(*ways, said, "en", args.rounds)


def chinese(args: argparse.Namespace, model: Any) -> None:
    said = clips(args.corpus, "zh/aishell/", args.clips, "zh")
    print(f"chinese: {len(said)} clips, {seconds(said):.0f} s, language zh forced")
    ways = (
        Way("ours, chinese: simplified", ours(model, chinese="simplified", prompt=SIMPLIFIED)),
        Way("clip by clip, prompt", loop(model, SIMPLIFIED)),
    )
    compare(*ways, said, "zh", args.rounds)


def seconds(said: Sequence[Said]) -> float:
    return sum(len(s.clip.samples) for s in said) / faster_whisper.Backend.RATE


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=["english"], metavar="|".join(PARTS))
    parser.add_argument("--corpus", type=Path, default=os.environ.get("UTTERMILL_CORPUS"))
    parser.add_argument("--clips", type=int, default=40)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--language")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    args = parser.parse_args()
    if args.corpus is None or not set(args.parts) <= set(PARTS):
        parser.error("give UTTERMILL_CORPUS or --corpus, and parts of " + ", ".join(PARTS))
    print(load(), flush=True)
    model = loading.load(faster_whisper.Settings(device=args.device, threads=args.threads))
    loading.warm(model)
    for part, run in (("english", english), ("chinese", chinese)):
        if part in args.parts:
            run(args, model)


if __name__ == "__main__":
    main()
