"""Errors of the word edges of given texts, on synthetic speech with known phones.

    [UTTERMILL_CORPUS=…] python -m tests.bench.align_words [--pocketsphinx FOLDER] [--ctc FOLDER]
        [--each 4] [--languages en …]

espeak-ng says sentences of ten languages in several voices; a word lasts from its first phone to
the end of its last one. The corpus also has real words that were recorded one by one (digits in
English, words in Mandarin), whose edges follow from their level; a dozen of them are joined with
pauses of 0.05 to 0.4 s.

`aligned`      `transcribe.reference_words` by Whisper base
`engine`       the same text by faster-whisper's own word timestamps, as of words that it heard
`ctc`          the same by a CTC model of English phones, in a clip of any length; FOLDER: where
               `pip install --no-deps --target FOLDER hama==1.3.13` put it (Apache-2.0)
`pocketsphinx` English only; FOLDER: where `pip install --target FOLDER pocketsphinx` put it

`story`: English sentences in other voices than `made`, on which no setting was chosen.

Last, the confidence of right texts, and of texts of another clip in the same language.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soxr

from tests.bench import _phone_ctc, corpus_speech
from tests.bench._language_sentences import SENTENCES
from tests.bench._sentences import FRAME, active_frames
from tests.helpers import timed_speech
from tests.helpers.timed_speech import Floats, Line
from uttermill.flows.demo.corpus import ENGLISH, STORY
from uttermill.tasks.asr import SpeechClip, Word
from uttermill.tasks.asr._whisper import results
from uttermill.tasks.asr._whisper.windows import tokenizer_of
from uttermill.tasks.asr.faster_whisper import Backend, Settings

RATE = corpus_speech.RATE
LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "pl", "ru", "tr", "pt")
VARIANTS = ("", "+f2", "+m3")
SPEEDS = (130, 160, 190)
STORY_VOICES = ("en-us+m1", "en-us+m7", "en-us+f4")
SINGLE = {"en/fsdd": "en", "zh/hsk_words": "zh"}
ROW = 12  # words
MARKS = " .,;:!?¿¡\"'"


class Known(NamedTuple):
    """A clip with the spans of words, s, by their first character in its text."""

    kind: str
    language: str
    samples: Floats
    text: str
    spans: dict[int, tuple[int, float, float]]  # characters, start, end


def made(each: int, languages: Sequence[str]) -> Iterator[Known]:
    chosen = [
        (name, " ".join(SENTENCES[name][2][n : n + 2]), number)
        for number, (name, n) in enumerate((name, n) for name in languages for n in range(each))
    ]
    lines = [
        Line(text, SENTENCES[name][0] + VARIANTS[n % 3], SPEEDS[n // 3 % 3])
        for name, text, n in chosen
    ]
    for (name, text, _), said in zip(chosen, timed_speech.speak(lines), strict=True):
        samples = np.asarray(soxr.resample(said.samples, timed_speech.RATE, RATE, "HQ"), np.float32)
        words = timed_speech.timed_words(said)
        spans = {word.first: (word.length, word.start, word.end) for word in words}
        yield Known("made", name, samples, text, spans)


def story() -> Iterator[Known]:
    """English sentences in voices of their own."""
    lines = [
        Line(text, STORY_VOICES[n % 3], (140, 175, 205)[n // 3 % 3])
        for n, text in enumerate([*dict.fromkeys((*ENGLISH, *STORY))][:24])
    ]
    for line, said in zip(lines, timed_speech.speak(lines), strict=True):
        samples = np.asarray(soxr.resample(said.samples, timed_speech.RATE, RATE, "HQ"), np.float32)
        words = timed_speech.timed_words(said)
        spans = {word.first: (word.length, word.start, word.end) for word in words}
        yield Known("story", "en", samples, line.text, spans)


def recorded(corpus: Path) -> Iterator[Known]:
    """Words in a row, whose edges are where their level rises and falls."""
    chance = np.random.default_rng(4)
    for folder, language in SINGLE.items():
        rows = [row for row in corpus_speech.transcribed(corpus) if folder in row["path"]]
        for first in range(0, len(rows) - ROW + 1, ROW):
            pieces, spans, text, length = list[Floats](), {}, "", 0
            for row in rows[first : first + ROW]:
                samples = corpus_speech.read(corpus / row["path"])
                loud = np.flatnonzero(active_frames(samples)) * FRAME
                word = row["text"].strip()
                text += " " if text and language == "en" else ""
                spans[len(text)] = (
                    len(word),
                    (length + loud[0]) / RATE,
                    (length + loud[-1] + FRAME) / RATE,
                )
                text += word
                pause = np.zeros(int(chance.uniform(0.05, 0.4) * RATE), np.float32)
                pieces += [samples, pause]
                length += len(samples) + len(pause)
            if length < 30 * RATE:
                yield Known(
                    f"real words, {language}", language, np.concatenate(pieces), text, spans
                )


def by_place(words: Sequence[Word], text: str) -> dict[int, Word]:
    """Words by their first character in the text."""
    places, place = {}, 0
    for word in words:
        bare = word.word.strip(MARKS)
        found = text.find(bare, place)
        if bare and found >= 0:
            places[found] = word
            place = found + len(bare)
    return places


def errors(known: Known, words: Sequence[Word]) -> list[float]:
    """Distances of both edges of words that are the same, s."""
    places, distances = by_place(words, known.text), list[float]()
    for first, (length, start, end) in known.spans.items():
        covering = [word for place, word in places.items() if first <= place < first + length]
        spelled = sum(len(word.word.strip(MARKS)) for word in covering)
        if covering and first in places and spelled == length:
            distances += [abs(covering[0].start - start), abs(covering[-1].end - end)]
    return distances


def pocketsphinx(folder: Path) -> Callable[[Known], Sequence[Word]]:
    sys.path.append(str(folder))
    decoder = import_module("pocketsphinx").Decoder(loglevel="FATAL")

    def align(known: Known) -> Sequence[Word]:
        if known.language != "en":
            return ()
        plain = "".join(c for c in known.text.lower() if c.isalpha() or c in " '")
        try:
            decoder.set_align_text(plain)
            decoder.start_utt()
            pcm = (known.samples.clip(-1, 1) * 32767).astype("<i2").tobytes()
            decoder.process_raw(pcm, full_utt=True)
            decoder.end_utt()
        except RuntimeError:  # a word that its dictionary lacks
            return ()
        return [
            Word(
                piece.word.partition("(")[0],
                piece.start_frame / 100,
                (piece.end_frame + 1) / 100,
                None,
            )
            for piece in decoder.seg() or ()
            if piece.word.isalpha() or "(" in piece.word
        ]

    return align


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pocketsphinx", type=Path)
    parser.add_argument("--ctc", type=Path)
    parser.add_argument("--each", type=int, default=4, help="clips of a language")
    parser.add_argument("--languages", nargs="+", default=LANGUAGES, choices=LANGUAGES)
    args = parser.parse_args()
    corpus = os.environ.get("UTTERMILL_CORPUS")
    told = story() if "en" in args.languages else ()
    clips = [*made(args.each, args.languages), *told, *(recorded(Path(corpus)) if corpus else ())]
    backend = Backend(Settings(device="cpu", threads=1))

    def given(known: Known, text: str) -> Sequence[Word]:
        (transcript,) = backend.align([SpeechClip(known.samples, known.language)], [text])
        return transcript.words or ()

    def aligned(known: Known) -> Sequence[Word]:
        return given(known, known.text)

    def engine(known: Known) -> Sequence[Word]:
        encoded = backend._windows.encode([SpeechClip(known.samples, known.language)])
        tokenizer = tokenizer_of(backend._model, known.language)
        tokens = tokenizer.encode(f" {known.text}")
        length = len(known.samples)
        return results.aligned(backend._model, tokenizer, encoded, tokens, length) or ()

    ways: dict[str, Callable[[Known], Sequence[Word]]] = {"aligned": aligned, "engine": engine}
    if args.pocketsphinx:
        ways["pocketsphinx"] = pocketsphinx(args.pocketsphinx)
    english = [known for known in clips if known.language == "en"]
    phones = _phone_ctc.Aligner(args.ctc, [known.text for known in english]) if args.ctc else None
    if phones:
        ways["ctc"] = lambda known: (
            phones.align(known.samples, known.text) if known.language == "en" else ()
        )
    for name, way in ways.items():
        distances: dict[str, list[float]] = {}
        began, seconds = time.process_time(), 0.0
        for known in clips:
            found = errors(known, way(known))
            seconds += len(known.samples) / RATE
            kinds = (
                [known.kind, "made, en"]
                if (known.kind, known.language) == ("made", "en")
                else [known.kind]
            )
            for kind in kinds:
                distances.setdefault(kind, []).extend(found)
        speed = seconds / (time.process_time() - began)
        print(f"{name}: {speed:.0f} × real time a core")
        for kind, values in distances.items():
            if values:
                median, most = np.quantile(values, (0.5, 0.95))
                print(f"  {kind}: {len(values)} edges, median {median:.3f} s, p95 {most:.3f} s")
    print_confidence("aligned", clips, given)
    if phones:
        print_confidence("ctc", english, lambda known, text: phones.align(known.samples, text))


def print_confidence(
    name: str, clips: Sequence[Known], align: Callable[[Known, str], Sequence[Word]]
) -> None:
    """Of right texts, and of those of the next clip in the same language."""
    for kind, step in (("right", 0), ("another clip's", 1)):
        means = []
        for language in {known.language for known in clips}:
            alike = [known for known in clips if known.language == language]
            for number, known in enumerate(alike):
                text = alike[(number + step) % len(alike)].text
                if len(alike) > 1 and (step == 0 or text != known.text):
                    sure = [word.probability for word in align(known, text)]
                    means.append(np.mean([one for one in sure if one is not None]))
        low, median, high = np.quantile(means, (0.05, 0.5, 0.95))
        print(f"{name}: confidence, {kind} text: {low:.2f}, {median:.2f}, {high:.2f} (5, 50, 95 %)")


if __name__ == "__main__":
    main()
