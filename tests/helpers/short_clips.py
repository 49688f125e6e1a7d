"""Clips under 0.7 s: digits and commands in four languages, and words that Whisper repeats.

    [UTTERMILL_CORPUS=…] python -m tests.helpers.short_clips [--json] [--unstated] [--silence S]

espeak-ng's words, cut as tightly as a detector may, some said twice on purpose; and the corpus's
own digits, if there are any. "Before" takes the text with the best mean over its tokens, as for
longer clips; "now" the words that are likeliest over all ways to write them. Counted are texts that
are right, that repeat a word which was said once, that have more words than were said, and that
have none. Languages are stated, or detected with `--unstated`; `--silence 0.5` leaves so much
before each word, s, as looser cuts do.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import soundfile as sf
import soxr

from tests.helpers.short_words import SHORT_WORDS, TWICE
from uttermill.flows.demo.corpus import Line, speak
from uttermill.flows.demo.voice import RATE as VOICE_RATE
from uttermill.tasks.asr import SpeechClip, faster_whisper
from uttermill.tasks.asr._whisper import windows
from uttermill.tasks.asr._whisper.windows import SHORT_SECONDS
from uttermill.tasks.base.arrays import RATE, Float32s
from uttermill.tasks.plugins.contracts.text import words
from uttermill.tasks.scoring import normalise, said

SPEED = 170  # words a minute
SOUND = 0.02  # of the peak: what is softer is cut off before and after a word
COLUMNS = ("clips", "right", "repeats", "more", "none")


@dataclass(frozen=True, slots=True)
class Clip:
    source: str
    language: str
    text: str
    samples: Float32s


def trimmed(samples: Float32s) -> Float32s:
    """Without silence, but for 10 ms before and 20 ms after."""
    loud = np.flatnonzero(np.abs(samples) > SOUND * np.abs(samples).max())
    return samples[max(loud[0] - RATE // 100, 0) : loud[-1] + RATE // 50]


def spoken() -> Iterator[Clip]:
    lines = [
        (language, Line(word, voice, SPEED))
        for language, (voice, listed) in SHORT_WORDS.items()
        for word in (*listed.split(), *TWICE.get(language, ()))
    ]
    voiced = speak([line for _, line in lines])
    for (language, line), samples in zip(lines, voiced, strict=True):
        heard = soxr.resample(samples, VOICE_RATE, RATE).astype(np.float32)
        yield Clip("espeak-ng", language, line.text, trimmed(heard))


def recorded(corpus: Path) -> Iterator[Clip]:
    for row in map(json.loads, (corpus / "manifest.jsonl").read_text().splitlines()):
        if row["text"] and row["seconds"] and row["seconds"] < SHORT_SECONDS:
            samples, rate = sf.read(corpus / row["path"], dtype="float32", always_2d=True)
            heard = soxr.resample(samples.mean(axis=1), rate, RATE).astype(np.float32)
            yield Clip("recorded", row["language"], row["text"], heard)


def repeats(text: str) -> bool:
    """Whether a word follows itself, or a number is one figure again and again."""
    spoken_words = words(text)
    doubled = any(one == other for one, other in pairwise(spoken_words))
    return doubled or any(w.isdecimal() and len(w) > len(set(w)) == 1 for w in spoken_words)


def judged(clip: Clip, text: str) -> Counter[str]:
    count = len(words(said(text, clip.language)))
    return Counter(
        clips=1,
        right=normalise(text, clip.language) == normalise(clip.text, clip.language),
        repeats=repeats(text) and not repeats(clip.text),
        more=count > len(words(said(clip.text, clip.language))),
        none=not count,
    )


def heard(
    backend: faster_whisper.Backend, clips: list[Clip], stated: bool
) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    asked = [SpeechClip(clip.samples, clip.language if stated else None) for clip in clips]
    for clip, transcript in zip(clips, backend.transcribe(asked), strict=True):
        name = f"{clip.source} {clip.language}{' twice' if repeats(clip.text) else ''}"
        for key in (name, "all"):
            found.setdefault(key, Counter()).update(judged(clip, transcript.text or ""))
    return found


def once(encode: Callable[[Sequence[SpeechClip]], Any]) -> Callable[[Sequence[SpeechClip]], Any]:
    """The encoder, which hears each batch once: it takes nearly all of the time."""
    outputs: dict[tuple[bytes, ...], Any] = {}

    def encoded(clips: Sequence[SpeechClip]) -> Any:
        key = tuple(clip.samples.tobytes() for clip in clips)
        if key not in outputs:
            outputs[key] = encode(clips)
        return outputs[key]

    return encoded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--unstated", action="store_true")
    parser.add_argument("--silence", type=float, default=0.0)
    options = parser.parse_args()
    clips = [clip for clip in spoken() if len(clip.samples) < SHORT_SECONDS * RATE]
    if folder := os.environ.get("UTTERMILL_CORPUS"):
        clips += recorded(Path(folder))
    silence = np.zeros(round(options.silence * RATE), np.float32)
    clips = [replace(clip, samples=np.concatenate([silence, clip.samples])) for clip in clips]
    backend = faster_whisper.Backend(faster_whisper.Settings(device="cpu", threads=1))
    with patch.object(backend._windows, "encode", once(backend._windows.encode)):
        with patch.object(windows, "is_short", lambda clip: False):
            before = heard(backend, clips, not options.unstated)
        now = heard(backend, clips, not options.unstated)
    for name, counts in now.items():
        row = {c: (int(before[name][c]), int(counts[c])) for c in COLUMNS}
        if options.json:
            print(json.dumps({"clips": name, **row}), flush=True)
        else:
            cells = (f"{column} {b} -> {n}" for column, (b, n) in row.items() if column != "clips")
            print(f"{name:<20} {counts['clips']:>4} clips: {', '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
