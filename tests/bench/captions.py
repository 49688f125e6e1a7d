"""How well the text of a caption's clip is what is said in it.

    UTTERMILL_CORPUS=… python -m tests.bench.captions [--minutes 3] [--seed 0] [--json]

Sentences of the corpus become one recording. Whisper's words, with their times, become captions of
four kinds: roll-up WebVTT with times of words, roll-up SubRip, SubRip whose lines overlap, and
SubRip as people make it, of up to 42 characters a cue, with edges up to 0.3 s beside the speech.
Each is cut in three ways: a clip for each cue as it stands, the segments that a folder's source
gives, and these with their edges moved to pauses. A word of a clip's text that is not
said in it, or one more, is an error: by the times of words, and by Whisper, which hears each clip
again and makes errors of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tests.bench import speech_mixtures
from tests.bench._hearing import counted
from tests.bench.speech_mixtures import RATE
from uttermill.tasks.asr import SpeechClip, faster_whisper
from uttermill.tasks.asr._whisper import loading
from uttermill.tasks.base.arrays import Float32s
from uttermill.tasks.recording import Segment, TimedWord, part_texts
from uttermill.tasks.segmenters import given
from uttermill.tasks.shard_store import cuts
from uttermill.tasks.sources._beside import captions
from uttermill.tasks.sources._beside.choice import Texts, read

LINE = 42  # characters
JITTER = 0.3  # s
Line = list[TimedWord]


def lines_of(words: Sequence[TimedWord]) -> list[Line]:
    """Lines of up to LINE characters, which a pause of a second ends, too."""
    lines: list[Line] = []
    for word in words:
        last = lines[-1] if lines else []
        length = sum(len(one.word) + 1 for one in last) + len(word.word)
        if last and length <= LINE and word.start - last[-1].end < 1.0:
            last.append(word)
        else:
            lines.append([word])
    return lines


def clock(seconds: float, comma: str) -> str:
    return f"00:{int(seconds // 60):02d}:{seconds % 60:06.3f}".replace(".", comma)


def cues(blocks: Sequence[tuple[float, float, str]], comma: str = ",") -> str:
    return "\n".join(f"{clock(a, comma)} --> {clock(b, comma)}\n{t}\n" for a, b, t in blocks)


def text(line: Line) -> str:
    return " ".join(word.word for word in line)


def plain(line: Line) -> Line:
    return [replace(w, word=w.word.lower().strip(".,!?;:\"'")) for w in line]


def ends(lines: Sequence[Line]) -> list[float]:
    """Each line is shown until the next begins, two seconds after its last word at most."""
    nexts = [line[0].start for line in lines[1:]] + [float("inf")]
    return [min(nxt, line[-1].end + 2) for line, nxt in zip(lines, nexts, strict=True)]


def rolled(lines: Sequence[Line], timed: bool) -> list[tuple[float, float, str]]:
    blocks, before = [], " "
    for line, end in zip(lines, ends(lines), strict=True):
        tags = "".join(f"<{clock(w.start, '.')}><c> {w.word}</c>" for w in line[1:])
        new = line[0].word + tags if timed else text(line)
        blocks.append((line[0].start, end - 0.01, f"{before}\n{new}"))
        blocks.append((end - 0.01, end, f"{text(line)}\n "))
        before = text(line)
    return blocks


def kinds(words: Sequence[TimedWord], seed: int) -> Iterator[tuple[str, str, str]]:
    """(name, ending, content) of captions of each kind."""
    rng = random.Random(seed)
    by_hand = lines_of(words)
    heard = [plain(line) for line in by_hand]
    yield "roll-up WebVTT with times", "vtt", "WEBVTT\n\n" + cues(rolled(heard, True), ".")
    yield "roll-up SubRip", "srt", cues(rolled(heard, False))
    shown = [line[0].start for line in heard[2:]] + [heard[-1][-1].end] * 2
    overlapping = [(o[0].start, e, text(o)) for o, e in zip(heard, shown, strict=True)]
    yield "SubRip, lines overlap", "srt", cues(overlapping)
    starts = [max(line[0].start + rng.uniform(-JITTER, JITTER), 0.0) for line in by_hand]
    stops = [line[-1].end + rng.uniform(-JITTER, JITTER) for line in by_hand]
    stops = [min(stop, nxt) for stop, nxt in zip(stops, [*starts[1:], float("inf")], strict=True)]
    made = [(a, max(b, a + 0.2), text(o)) for a, b, o in zip(starts, stops, by_hand, strict=True)]
    yield "SubRip made by hand", "srt", cues(made)


class Cut(NamedTuple):
    """A clip: its samples, its text, and where it begins and ends, s."""

    samples: Float32s
    text: str
    start: float
    end: float


def clips(segments: Sequence[Segment], samples: Float32s) -> list[Cut]:
    texts = part_texts.PartTexts(segments)
    segmenter = given.start(given.Settings(), RATE, segments)
    blocks = (samples[n : n + RATE, None] for n in range(0, len(samples), RATE))
    spans = [span for block in blocks for span in segmenter.push(block)] + segmenter.finish()
    cut = []
    for span in spans:
        place = span.start / RATE, span.end / RATE
        if span.kind != "utterance" or span.end - span.start < RATE // 10:
            continue
        if span.given is not None:
            text = segments[span.given].text
        else:
            text = None if span.turn is None else texts.between(span.turn, *place)
        cut.append(Cut(samples[span.start : span.end], text or "", *place))
    return cut


def said_in(cut: Cut, words: Sequence[TimedWord]) -> str:
    return " ".join(w.word for w in words if cut.start <= (w.start + w.end) / 2 < cut.end)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=3.0)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    corpus = Path(os.environ["UTTERMILL_CORPUS"])
    english = [s for s in speech_mixtures.sentences(corpus) if s.language == "en"]
    talk = speech_mixtures.recording("talk", english, chosen.minutes, (0.2, 0.9), chosen.seed)
    model = loading.load(faster_whisper.Settings(device="cpu", threads=1))
    settings = faster_whisper.Settings(device="cpu", threads=1, word_timestamps=True)
    backend = faster_whisper.Backend(settings, model)
    words = []
    for low, high in talk.bounds:
        [heard] = backend.transcribe([SpeechClip(talk.samples[low:high])])
        at = low / RATE
        words += [TimedWord(w.word.strip(), at + w.start, at + w.end) for w in heard.words or ()]
    rows = []
    for name, ending, content in kinds(words, chosen.seed):
        result = read(ending, content.encode(), "talk", Texts())
        raw = captions.blocks(content).segments()
        moved = [replace(segment, rough=cuts.ROUGH) for segment in result.segments or ()]
        read_as = result.segments or ()
        ways: dict[str, Sequence[Segment]] = {"cues as they stand": raw, "read": read_as}
        ways["moved"] = moved
        for way, segments in ways.items():
            made = clips(segments, talk.samples)
            transcripts = backend.transcribe([SpeechClip(clip.samples) for clip in made])
            by_times = [counted(said_in(clip, words), clip.text, "en") for clip in made]
            by_ear = [
                counted(clip.text, transcript.text or "", "en")
                for clip, transcript in zip(made, transcripts, strict=True)
            ]
            rows.append(
                {
                    "captions": name,
                    "way": way,
                    "clips": len(made),
                    "seconds": round(sum(clip.end - clip.start for clip in made), 1),
                    "words": sum(count.heard for count in by_times),
                    "errors": sum(count.errors for count in by_times),
                    "wer_by_ear": round(
                        sum(count.errors for count in by_ear)
                        / max(sum(count.words for count in by_ear), 1),
                        4,
                    ),
                }
            )
            if not chosen.json:
                print(rows[-1], flush=True)
    if chosen.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
