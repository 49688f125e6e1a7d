"""Completeness of texts of long clips and recordings, compared with faster-whisper's own two ways.

    UTTERMILL_CORPUS=… python -m tests.bench.long_clips
        [clips] [recordings] [short] [verdict] [holes] [--clips 96] [--seed 0]
        [--minutes 10] [--only de,es] [--noise 10] [--without-batched] [--json]

clips:      clips of 15 to 30 s made of the corpus's sentences (`speech_mixtures.py`), each heard
            as one utterance: by our backend, by the engine's own loop, by its batched pipeline.
            Each eight have one speaker and several in each of four languages; the default takes a
            quarter of an hour of CPU, and more clips begin with the same ones. A table comes after
            every SHOWN of them, and is that of a run with so many.
recordings: short commands, sentences and a talk of 10 minutes each in one file, and the corpus's
            own long files (`long_recordings.py`): the whole line with the default cutting, beside
            the loop with its VAD filter and the batched pipeline. "Packaged": the texts that the
            default rules let through, what they drop counts as deleted; with the seconds of
            sentences that were dropped, by reason. "Clip by clip" also counts words that went to a
            neighbouring clip.
short:      40 LibriSpeech and 50 AISHELL utterances as they are (Chinese forced, simplified).
verdict:    what `completeness` drops of the texts of those clips: as the first window gives them,
            and after what they leave out was heard again.
holes:      the same clips, from whose first text one sentence inside was taken, as if Whisper had
            skipped it: the words are aligned anew, so that they stretch as they do then. Whether
            the sentence is heard again, or the text dropped; and whole texts that are heard again.

Errors are counted with `tasks.scoring`; a character of a script without spaces is a word. CPU
seconds are those of this process, which does everything in one thread; all ways share one loaded
model and take turns clip by clip, so that they meet the same machine. Languages are detected.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rapidfuzz.distance import Levenshtein

from tests.bench import _holes, long_recordings, speech_mixtures, transcribe
from tests.bench.speech_mixtures import RATE, Mixture
from uttermill.tasks import scoring, speech
from uttermill.tasks.asr import SpeechClip, Transcript, faster_whisper
from uttermill.tasks.asr._whisper import loading, whole_clips
from uttermill.tasks.plugins.rules import judge
from uttermill.tasks.settings import Plugin
from uttermill.tasks.shard_store.chosen_rules import rules_of

PARTS = ("clips", "recordings", "short", "verdict", "holes")
GONE = 0.25  # of a sentence's words: when fewer are right, nothing was heard for it
LACKING = 0.15  # of its words: a text that lacks more is not whole
LEAST = 0.9  # of the words that the loop covers
GROUP = 12  # clips that one way takes before the next has its turn; batches need several
SHOWN = 2 * GROUP  # clips after which a table of them is shown: thrice eight, which are all kinds
Hear = Callable[[Sequence[Mixture]], list[str]]


@dataclass
class Way:
    """One way to hear, with what it has spent and heard."""

    name: str
    hear: Hear
    cpu: float = 0.0
    texts: list[str] = field(default_factory=list)

    def turn(self, group: Sequence[Mixture]) -> None:
        began = time.process_time()
        self.texts += self.hear(group)
        self.cpu += time.process_time() - began


@dataclass(frozen=True)
class Count:
    """Words of a reference, and the edits that turn it into what was heard."""

    words: int
    deleted: int
    inserted: int
    replaced: int
    heard: int

    @property
    def errors(self) -> int:
        return self.deleted + self.inserted + self.replaced

    @property
    def covered(self) -> int:
        """The number of reference words with any hypothesis, right or wrong; insertions do not
        count."""
        return self.words - self.deleted


#: Mandarin figures that are read one by one, such as those of a telephone number.
FIGURES = str.maketrans("零一二三四五六七八九幺", "01234567891")


def counted(reference: str, heard: str, language: str) -> Count:
    said, found = words(reference, language), words(heard, language)
    edits = [edit.tag for edit in Levenshtein.editops(said, found)]
    deleted, inserted, replaced = map(edits.count, ("delete", "insert", "replace"))
    return Count(len(said), deleted, inserted, replaced, len(found))


def words(text: str, language: str) -> list[str]:
    """The units in which errors are counted. In Mandarin, each figure is a character: otherwise a
    number of 11 figures would be one word as figures, but eleven as characters."""
    normal = scoring.normalise(text, language)
    if language == "zh":
        normal = re.sub(r"\d", r" \g<0> ", normal.translate(FIGURES))
    return scoring.words(normal)


def gone(mixture: Mixture, heard: str) -> int:
    """Sentences of three words or more without a hypothesis."""
    said = [words(sentence.text, mixture.language) for sentence in mixture.sentences]
    every = [word for sentence in said for word in sentence]
    wrong = set[int]()
    for edit in Levenshtein.editops(every, words(heard, mixture.language)):
        if edit.tag != "insert":
            wrong.add(edit.src_pos)
    count = first = 0
    for sentence in said:
        right = sum(place not in wrong for place in range(first, first + len(sentence)))
        count += len(sentence) >= 3 and right < GONE * len(sentence)
        first += len(sentence)
    return count


def ours(model: Any) -> Hear:
    backend = faster_whisper.Backend(faster_whisper.Settings(device="cpu", threads=1), model)
    return lambda group: [
        t.text or "" for t in backend.transcribe([SpeechClip(m.samples) for m in group])
    ]


def loop(model: Any, **options: Any) -> Hear:
    def one(mixture: Mixture) -> str:
        segments, _ = model.transcribe(mixture.samples, beam_size=5, **options)
        return "".join(segment.text for segment in segments)

    return lambda group: [one(mixture) for mixture in group]


def batched(model: Any) -> Hear:
    from faster_whisper import BatchedInferencePipeline

    return loop(BatchedInferencePipeline(model), batch_size=8)


def compare(ways: Sequence[Way], mixtures: Sequence[Mixture]) -> Iterator[int]:
    """After each group, the number of mixtures that every way has heard."""
    for at in range(0, len(mixtures), GROUP):
        for turn in range(len(ways)):  # who begins changes
            ways[(at // GROUP + turn) % len(ways)].turn(mixtures[at : at + GROUP])
        spent = ", ".join(f"{way.name} {way.cpu:.0f} s" for way in ways)
        count = min(at + GROUP, len(mixtures))
        print(f"  {count}/{len(mixtures)}: CPU {spent}", flush=True)
        yield count


def summary(
    part: str, ways: Sequence[Way], mixtures: Sequence[Mixture], reference: str
) -> list[dict[str, Any]]:
    """A row for each way: errors in all and by language, clips that cover less than 90 % of the
    words that `reference` covers, and CPU relative to it."""
    against = next(way for way in ways if way.name == reference)
    rows = []
    for way in ways:
        counts = [counted(m.text, t, m.language) for m, t in zip(mixtures, way.texts, strict=True)]
        theirs = [
            counted(m.text, t, m.language) for m, t in zip(mixtures, against.texts, strict=True)
        ]
        by_language: dict[str, list[Count]] = defaultdict(list)
        for mixture, count in zip(mixtures, counts, strict=True):
            by_language[mixture.language].append(count)
        words = sum(c.words for c in counts)
        rows.append(
            {
                "part": part,
                "way": way.name,
                "clips": len(mixtures),
                "wer": round(100 * sum(c.errors for c in counts) / words, 2),
                "deletions": round(100 * sum(c.deleted for c in counts) / words, 2),
                "gone": sum(gone(m, text) for m, text in zip(mixtures, way.texts, strict=True)),
                "under_90": sum(
                    c.covered < LEAST * t.covered for c, t in zip(counts, theirs, strict=True)
                ),
                "cpu_seconds": round(way.cpu, 1),
                "cpu_ratio": round(way.cpu / against.cpu, 3) if against.cpu else None,
                "by_language": {
                    code: round(100 * sum(c.errors for c in some) / sum(c.words for c in some), 2)
                    for code, some in sorted(by_language.items())
                },
            }
        )  # fmt: skip
    return rows


def show(rows: Sequence[dict[str, Any]], reference: str) -> None:
    print(f"| {rows[0]['part']} | WER % | deletions % | sentences gone "
          f"| under 90 % of the {reference}'s words | CPU s | × | WER % by language |\n"
          "|---|---|---|---|---|---|---|---|")  # fmt: skip
    for row in rows:
        languages = ", ".join(f"{code} {wer}" for code, wer in row["by_language"].items())
        print(
            f"| {row['way']} | {row['wer']} | {row['deletions']} | {row['gone']} "
            f"| {row['under_90']} of {row['clips']} | {row['cpu_seconds']} | {row['cpu_ratio']} "
            f"| {languages} |",
            flush=True,
        )


def print_shorter(ours: Way, theirs: Way, mixtures: Sequence[Mixture]) -> None:
    """Clips in which `ours` has under 90 % of the words of `theirs`, in full, and whether those
    were said: words beyond the reference are invented."""
    for mixture, mine, other in zip(mixtures, ours.texts, theirs.texts, strict=True):
        here, there = (counted(mixture.text, t, mixture.language) for t in (mine, other))
        if here.heard >= LEAST * there.heard and here.covered >= LEAST * there.covered:
            continue
        lacking = here.covered < LEAST * there.covered
        print(f"{mixture.name}, {mixture.language}, {mixture.seconds:.1f} s: "
              f"{'words are missing' if lacking else 'the surplus words were not said'}\n"
              f"  said, {here.words} words: {mixture.text}")  # fmt: skip
        for way, text, count in ((ours, mine, here), (theirs, other, there)):
            print(f"  {way.name}, {count.heard} words, {count.inserted} of them not said, "
                  f"{count.deleted} missing: {text.strip()}", flush=True)  # fmt: skip


def clips(args: argparse.Namespace, model: Any) -> list[dict[str, Any]]:
    mixtures = speech_mixtures.clips(args.corpus, args.clips, args.seed)
    print(f"clips: {len(mixtures)}, {sum(m.seconds for m in mixtures) / 60:.1f} minutes")
    ways = [Way("ours", ours(model)), Way("loop", loop(model))]
    if not args.without_batched:
        ways.append(Way("batched", batched(model)))
    rows: list[dict[str, Any]] = []
    for count in compare(ways, mixtures):
        if count % SHOWN == 0 or count == len(mixtures):
            rows = summary("clips", ways, mixtures[:count], "loop")
            show(rows, "loop")
    print_shorter(ways[0], ways[1], mixtures)
    return rows


def short(args: argparse.Namespace, model: Any) -> list[dict[str, Any]]:
    """Utterances as the corpus has them; texts must not get worse than by one plain window."""
    rows = []
    for under, count, language, options, prompt in (
        ("en/librispeech/", 40, None, {}, None),
        ("zh/aishell/", 50, "zh", {"chinese": "simplified", "prompt": transcribe.SIMPLIFIED},
         transcribe.SIMPLIFIED),
    ):  # fmt: skip
        said = transcribe.clips(args.corpus, under, count, language)
        groups = [said[at : at + GROUP] for at in range(0, len(said), GROUP)]
        runs = (
            ("ours", transcribe.ours(model, device="cpu", threads=1, **options)),
            ("loop", transcribe.loop(model, prompt)),
        )
        for name, run in runs:
            began = time.process_time()
            heard = [text for group in groups for text in run(group)]
            cpu = time.process_time() - began
            total = scoring.total(
                [
                    scoring.score(s.text, h, language or "en")
                    for s, h in zip(said, heard, strict=True)
                ]
            )
            rows.append(
                {
                    "part": "short", "way": name, "clips": f"{len(said)} of {under}",
                    "wer": round(100 * (total.wer or 0), 2),
                    "cer": round(100 * (total.cer or 0), 2), "cpu_seconds": round(cpu, 1),
                }
            )  # fmt: skip
            print(f"| {rows[-1]} |", flush=True)
    return rows


def recordings(args: argparse.Namespace, model: Any) -> list[dict[str, Any]]:
    """Long files; each way cuts them by itself."""
    found = []
    mixtures = [
        *long_recordings.made(args.corpus, args.minutes),
        *long_recordings.real(args.corpus, args.minutes),
    ]
    for mixture in mixtures:
        if args.only and not any(word in mixture.name for word in args.only.split(",")):
            continue
        if args.noise is not None:
            mixture = long_recordings.noisy(mixture, args.noise)
        print(f"{mixture.name}: {mixture.seconds / 60:.1f} minutes, {len(mixture.sentences)} parts")
        found += _recording(mixture, model, args)
    return found


def _recording(mixture: Mixture, model: Any, args: argparse.Namespace) -> list[dict[str, Any]]:
    heard: list[long_recordings.Heard] = []

    def ours(group: Sequence[Mixture]) -> list[str]:
        heard.append(long_recordings.line(group[0]))
        return [heard[0].text]

    ways = [Way("ours", ours), Way("loop", loop(model, vad_filter=True))]
    if not args.without_batched:
        ways.append(Way("batched", batched(model)))
    assert [*compare(ways, [mixture])] == [1]
    (line,) = heard
    ways[0].cpu = line.cpu  # without the second run, which only takes the rules
    rows = summary(mixture.name, ways, [mixture], "loop")
    show(rows, "loop")
    language = mixture.language
    counts = [counted(*pair, language) for pair in long_recordings.pairs(mixture, line.clips)]
    packaged = counted(mixture.text, line.packaged, language)
    rows[0] |= {
        "by_clip": round(100 * sum(c.errors for c in counts) / sum(c.words for c in counts), 2),
        "packaged": round(100 * packaged.errors / packaged.words, 2),
        "packaged_gone": gone(mixture, line.packaged),
        "dropped_seconds": line.dropped,
    }
    print(f"  ours, clip by clip ({len(line.clips)} clips): {rows[0]['by_clip']} %\n"
          f"  ours, packaged ({sum(clip.packaged for clip in line.clips)} clips): "
          f"{rows[0]['packaged']} %, sentences gone {rows[0]['packaged_gone']}, seconds of "
          f"sentences dropped {line.dropped or 'none'}", flush=True)  # fmt: skip
    for clip in line.clips:
        if not clip.packaged:
            print(f"  dropped: {clip.start:.1f}-{clip.end:.1f} {clip.text}", flush=True)
    return rows


def verdict(args: argparse.Namespace, model: Any) -> list[dict[str, Any]]:
    """Incomplete and complete texts, and which of them `completeness` drops."""
    mixtures = speech_mixtures.clips(args.corpus, args.clips, args.seed)
    backend = faster_whisper.Backend(faster_whisper.Settings(device="cpu", threads=1), model)
    found: dict[str, list[tuple[Mixture, SpeechClip, Transcript]]] = defaultdict(list)
    for mixture in mixtures:
        clip = SpeechClip(mixture.samples)
        (window,) = backend._windows.hear([(clip, None)])
        first = whole_clips.begun(clip, window)
        found["first window"].append((mixture, clip, first.transcript(with_words=False)))
        (whole,) = backend.transcribe([clip]) if first.missed() else [found["first window"][-1][2]]
        found["heard again"].append((mixture, clip, whole))
    rows = [{"part": "verdict", "texts": name, **_judged(some)} for name, some in found.items()]
    for row in rows:
        print(f"| {' | '.join(str(value) for value in row.values())} |", flush=True)
    return rows


def _judged(heard: Sequence[tuple[Mixture, SpeechClip, Transcript]]) -> dict[str, str]:
    dropped: dict[bool, list[bool]] = {True: [], False: []}
    for mixture, clip, transcript in heard:
        count = counted(mixture.text, transcript.text or "", mixture.language)
        lacks = count.words - count.heard > LACKING * count.words
        dropped[lacks].append(_incomplete(clip, transcript))
    return {
        "lacking, dropped": f"{sum(dropped[True])} of {len(dropped[True])}",
        "whole, dropped": f"{sum(dropped[False])} of {len(dropped[False])}",
    }


def _incomplete(clip: SpeechClip, transcript: Transcript) -> bool:
    """Whether `completeness` drops a text."""
    seconds = len(clip.samples) / speech.RATE
    count = len(words(transcript.text or "", transcript.language or "en"))
    values = {
        "speech_after_text": speech.within(clip.speech, transcript.text_end or 0.0, seconds),
        "speech_without_words": transcript.hole[1] if transcript.hole else None,
        "words_per_speech_second": count / speech.within(clip.speech, 0.0, seconds),
    }
    return judge(values, rules_of("text", (Plugin(use="completeness"),))) is not None


def holes(args: argparse.Namespace, model: Any) -> list[dict[str, Any]]:
    mixtures = [
        m for m in speech_mixtures.clips(args.corpus, args.clips, args.seed) if len(m.sentences) > 2
    ]
    backend = faster_whisper.Backend(faster_whisper.Settings(device="cpu", threads=1), model)
    windows = _holes.Skipping(backend._windows, model)
    backend._windows = windows  # type: ignore[assignment]
    row = dict.fromkeys(
        ("clips", "seen", "gone", "gone and kept", "whole", "whole, heard again"), 0
    )
    for number, mixture in enumerate(mixtures):
        if number and number % SHOWN == 0:
            print(f"{number}/{len(mixtures)}: {row}", flush=True)
        clip = SpeechClip(mixture.samples)
        window = windows.first(clip)
        if gone(mixture, window.heard.text) == 0:
            row["whole"] += 1
            row["whole, heard again"] += bool(whole_clips.begun(clip, window).missed())
        bounds = [(start / RATE, end / RATE) for start, end in mixture.bounds]
        inside = max(bounds[1:-1], key=lambda span: span[1] - span[0])
        holed = windows.skip(clip, window, inside)
        if holed is None or gone(mixture, holed.heard.text) <= gone(mixture, window.heard.text):
            continue
        row["clips"] += 1
        seen = bool(whole_clips.begun(clip, holed).missed())
        row["seen"] += seen
        (transcript,) = backend.transcribe([clip])
        lacking = gone(mixture, transcript.text or "") > gone(mixture, window.heard.text)
        kept = lacking and not _incomplete(clip, transcript)
        row["gone"] += lacking
        row["gone and kept"] += kept
        if not seen or lacking:
            longest = max(holed.words or (), key=lambda word: word.end - word.start, default=None)
            print(f"{mixture.name} {mixture.language}: {'seen' if seen else 'not seen'}, "
                  f"{'gone' if lacking else 'there'}{', kept' if kept else ''}; skipped "
                  f"{inside[0]:.1f}-{inside[1]:.1f} s, longest word {longest}",
                  flush=True)  # fmt: skip
    print(f"| {row} |", flush=True)
    return [{"part": "holes", **row}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", default=["clips"], metavar="|".join(PARTS))
    parser.add_argument("--corpus", type=Path, default=os.environ.get("UTTERMILL_CORPUS"))
    parser.add_argument(
        "--clips", type=int, default=96, help="made ones; a multiple of 8 has all kinds"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--only", help="words of names of recordings, by commas")
    parser.add_argument("--noise", type=float, help="white noise in recordings, dB below speech")
    parser.add_argument("--without-batched", action="store_true", help="saves a third of the time")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.corpus is None or not set(args.parts) <= set(PARTS):
        parser.error("give UTTERMILL_CORPUS or --corpus, and parts of " + ", ".join(PARTS))
    model = loading.load(faster_whisper.Settings(device="cpu", threads=1))
    made: list[dict[str, Any]] = []
    runs = {
        "clips": clips,
        "recordings": recordings,
        "short": short,
        "verdict": verdict,
        "holes": holes,
    }
    for part, run in runs.items():
        if part in args.parts:
            made += run(args, model)
    if args.json:
        print(json.dumps(made, ensure_ascii=False))


if __name__ == "__main__":
    main()
