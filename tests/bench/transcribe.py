"""Whisper base on the corpus's clips, as recorded and made worse.

    UTTERMILL_CORPUS=… python -m tests.bench.transcribe [english] [chinese] [calibration]
        [--clips 40]

english, chinese: clips of LibriSpeech test-other, and of AISHELL with `zh` stated, beside
    faster-whisper's loop over clips; one loaded model, one thread, in turns.
calibration: clips of all sources, clean, by telephone at 12 dB, in a made room (RT60 0.7 s), in
    noise or among voices at 5 dB; with the language heard and stated. `expected_wer` beside the
    share of words that are wrong; texts with more than WRONG of them that pass the default rules
    without it and with it, and right ones that it drops.
"""

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import soundfile as sf

from tests.bench import _hearing
from tests.bench._hearing import Way
from tests.bench.speech_mixtures import RATE, Mixture, Sentence
from tests.helpers import calls, rooms, verdict_clips, verdict_listening, verdict_sounds
from tests.helpers.verdict_clips import Said as Sound
from uttermill.tasks.asr import SpeechClip, faster_whisper
from uttermill.tasks.asr._whisper import loading
from uttermill.tasks.settings import TranscribeSettings

WRONG = 0.3  # of a text's words
EDGES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5, 1.0)  # of the bins of `expected_wer`
ESTIMATE = "expected_wer"


@dataclass(frozen=True, slots=True)
class Said:
    """A clip with what was said in it."""

    clip: SpeechClip
    text: str


def clips(folder: Path, under: str, most: int, language: str | None) -> list[Said]:
    """Clips with texts below a folder of the corpus, in the order of its list."""
    rows = map(json.loads, (folder / "manifest.jsonl").read_text().splitlines())
    found = [row for row in rows if row["path"].startswith(under) and row["text"]][:most]
    return [
        Said(SpeechClip(sf.read(folder / row["path"], dtype="float32")[0], language), row["text"])
        for row in found
    ]


def beside_the_loop(name: str, said: Sequence[Said], language: str, stated: str | None) -> None:
    model = loading.load(faster_whisper.Settings(device="cpu", threads=1))
    mixtures = []
    for number, one in enumerate(said):
        sentence = Sentence(one.clip.samples, one.text, language, "")
        bounds = ((0, len(sentence.samples)),)
        mixtures.append(Mixture(f"{name} {number}", sentence.samples, (sentence,), bounds))
    ways = [
        Way("ours", _hearing.ours(model, stated)),
        Way("loop", _hearing.loop(model, language=stated)),
    ]
    _ = [*_hearing.compare(ways, mixtures)]
    _hearing.show(_hearing.summary(name, ways, mixtures, "loop"), "loop")


def made_worse(clean: Sequence[Sound]) -> Iterator[Sound]:
    """Each clip in all conditions; `group` names them."""
    voices = [one.samples for one in verdict_clips.carriers(verdict_clips.VOICES)]
    for number, said in enumerate(clean):
        rng = np.random.default_rng(number)
        size, voice = len(said.samples), verdict_sounds.levelled(said.samples)
        white, slope = verdict_sounds.coloured(rng, size, 0.0), 1.0 + number % 2
        call = verdict_sounds.mixed(voice, white, 12.0)[:, None]
        room = np.convolve(voice, rooms.decaying_noise(0.7, -3.0, rng))[: size + RATE // 4]
        noise = (
            verdict_sounds.babble(rng, size, voices, 8)
            if number % 3 == 0
            else verdict_sounds.coloured(rng, size, slope)
        )
        yield said
        yield replace(said, group="telephone", samples=calls.telephone(call)[:, 0])
        yield replace(said, group="far field", samples=verdict_sounds.levelled(room))
        yield replace(said, group="noise", samples=verdict_sounds.mixed(voice, noise, 5.0))


@dataclass(frozen=True, slots=True)
class Judged:
    """A text: its condition, the share of its words that are wrong, and what the rules say."""

    group: str
    wrong: float
    expected: float | None
    kept: bool  # by the default rules without `expected_wer`
    passes: bool  # by all of them


def judged(row: verdict_listening.Row, stated: bool) -> Judged:
    values, wer = (row.stated, row.stated_wer) if stated else (row.values, row.wer)
    every = TranscribeSettings().verdicts
    others = tuple(rule for rule in every if rule.use != ESTIMATE)
    return Judged(
        row.group, min(wer or 0.0, 1.0), values[ESTIMATE],
        verdict_listening.reason(values, others) is None, verdict_listening.reason(values) is None,
    )  # fmt: skip


def calibration(texts: Sequence[Judged], name: str) -> None:
    kept = [one for one in texts if one.kept]
    print(f"| {name}: expected | texts | mean expected | mean wrong |\n|---|---|---|---|")
    for low, high in pairwise(EDGES):
        some = [one for one in kept if low <= (one.expected or 0.0) < high]
        some = [one for one in some if one.expected is not None]
        if some:
            means = [np.mean([getattr(t, part) for t in some]) for part in ("expected", "wrong")]
            print(f"| {low}-{high} | {len(some)} | {means[0]:.3f} | {means[1]:.3f} |")
    print(f"| {name} | texts | kept | > {WRONG:.0%} wrong: without the rule | with it | right ones "
          "that it drops |\n|---|---|---|---|---|---|")  # fmt: skip
    for group in (*dict.fromkeys(one.group for one in texts), "all"):
        some = [one for one in texts if group in (one.group, "all")]
        kept = [one for one in some if one.kept]
        passing, right = [t for t in kept if t.passes], [t for t in kept if not t.wrong]
        row = {
            "group": group, "texts": len(some), "kept": len(kept),
            "wrong_before": sum(one.wrong > WRONG for one in kept),
            "wrong_after": sum(one.wrong > WRONG for one in passing), "passing": len(passing),
            "right": len(right), "right_lost": sum(not one.passes for one in right),
        }  # fmt: skip
        print("| {group} | {texts} | {kept} | {wrong_before} of {kept} | {wrong_after} of {passing}"
              " | {right_lost} of {right} |".format(**row), flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", default=["english"], metavar="PART")
    parser.add_argument("--corpus", type=Path, default=os.environ.get("UTTERMILL_CORPUS"))
    parser.add_argument("--clips", type=int, default=40, help="calibration: of all conditions")
    args = parser.parse_args()
    if args.corpus is None or not set(args.parts) <= {"english", "chinese", "calibration"}:
        parser.error("give UTTERMILL_CORPUS or --corpus, and parts: english, chinese, calibration")
    if "english" in args.parts:
        said = clips(args.corpus, "en/librispeech/", args.clips, None)
        beside_the_loop("english", said, "en", None)
    if "chinese" in args.parts:
        said = clips(args.corpus, "zh/aishell/", args.clips, "zh")
        beside_the_loop("chinese", said, "zh", "zh")
    if "calibration" in args.parts:
        every = [*verdict_clips.clean()]
        chosen = verdict_clips.spaced(every, max(args.clips // 4, 1))
        heard = [*verdict_listening.hear(made_worse(chosen))]
        for name, stated in (("language heard", False), ("language stated", True)):
            calibration([judged(row, stated) for row in heard], name)


if __name__ == "__main__":
    main()
