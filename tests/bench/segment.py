"""Errors of segmentation, on mixtures with exact times and on real recordings.

    UTTERMILL_CORPUS=… python -m tests.bench.segment [--json] [--minutes 12] [--only NAME …]

Mixtures are made of the corpus's sentences (English, German, Spanish, Mandarin; single words too)
at several levels, under noise and music, with pauses of 0.3 to 6 s and other sounds between, at the
start of a stream and after an hour. Rows: the segmenter `vad` with its defaults; one pass of the
same detector, stretches joined, no second look and no level; Silero's own `get_speech_timestamps`
on the whole file with its own pads of 30 ms, with ours of 100 ms, and on fresh windows of 30 s.

A word is lost when more than half of its speech lies outside of all utterances, clipped when 40 ms
or more do; both are "words hurt". Speech that the noise covers is not counted. `long` are real
recordings of the corpus: their segments are known, their words are not, so their first and last
0.3 s of speech stand for words. CPU seconds are those of the segmenter alone.
"""

import argparse
import json
import os
from functools import partial
from pathlib import Path

from tests.bench._cut_table import Table
from tests.helpers import cut_mixture, cut_sentences, real_recordings
from tests.helpers.cut_mixture import Made

HOUR = Made("prelude", minutes=60, levels=(-35, -20), pauses=(0.3, 12), sounds=0.4, seed=20)
COMMANDS = partial(Made, count=110, shortest=2.0, longest=9.0, seed=6)
WORDS = partial(Made, count=150, shortest=0.2, longest=1.2, pauses=(1.0, 4.0))


def mixtures(minutes: float) -> list[Made]:
    made = partial(Made, minutes=minutes)
    return [
        made("levels -40 to -15", levels=(-40, -15)),
        made("quiet, -40", levels=(-40, -40), seed=1),
        made("white noise, 20 dB", snr=20, seed=2),
        made("white noise, 10 dB", snr=10, seed=3),
        made("sounds between", minutes=2 * minutes, sounds=0.6, seed=4),
        made("digital silence", room=False, seed=5),
        made("music under it, 15 dB", bed="moh_manolo_camp", bed_snr=15, seed=8),
        made("melody under it, 10 dB", bed="melody", bed_snr=10, seed=9),
        COMMANDS("110 commands"),
        COMMANDS("110 commands, 20 dB", snr=20),
        COMMANDS("110 commands, 10 dB", snr=10),
        WORDS("single words", levels=(-35, -20), seed=10),
        WORDS("single words, 20 dB", levels=(-28, -22), snr=20, seed=11),
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", type=Path, default=os.environ.get("UTTERMILL_CORPUS"))
    parser.add_argument("--minutes", type=float, default=12.0)
    parser.add_argument("--only", nargs="*", help="beginnings of names")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.corpus is None:
        parser.error("give UTTERMILL_CORPUS or --corpus")
    asked = tuple(args.only or ("",))
    sentences, sounds = cut_sentences.load(args.corpus), cut_mixture.other_sounds(args.corpus)
    table = Table()
    for made in mixtures(args.minutes):
        if made.name.startswith(asked):
            table.add(cut_mixture.plan(made, sentences, sounds), made.name)
    if "sounds alone".startswith(asked):
        table.add(cut_mixture.sounds_alone(sounds), "sounds alone")
    if "after an hour".startswith(asked):
        prelude = cut_mixture.plan(HOUR, sentences, sounds)
        for made in mixtures(args.minutes)[:1]:
            whole = cut_mixture.after(prelude, cut_mixture.plan(made, sentences, sounds))
            table.add(whole, f"after an hour: {made.name}", prelude.frames)
    table.total()
    for path in sorted((args.corpus / "long").iterdir()):
        name = f"long/{path.name}"
        if path.suffix != ".jsonl" and name.startswith(asked):
            table.add(real_recordings.real(path), name)
    found = table.as_json()
    speeds = found["times_real_time"].items()
    print("\n" + ", ".join(f"{way} {speed:.0f} x real time" for way, speed in speeds))
    if args.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
