"""Ways to hear the same mixtures, in turns, and what each of them spent and got wrong.

Errors are counted with `tasks.scoring`; a character of a script without spaces is a word. CPU
seconds are those of this process, which does everything in one thread; all ways share one loaded
model and take turns, so that they meet the same machine.
"""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rapidfuzz.distance import Levenshtein

from tests.bench.speech_mixtures import RATE, Mixture
from uttermill.tasks import scoring
from uttermill.tasks.asr import SpeechClip, faster_whisper

GONE = 0.25  # of a sentence's words: when fewer are right, nothing was heard for it
LEAST = 0.9  # of the words that the loop covers
GROUP = 12  # clips that one way takes before the next has its turn; batches need several
Hear = Callable[[Sequence[Mixture]], list[str]]


@dataclass
class Way:
    """One way to hear, with what it has spent and heard."""

    name: str
    hear: Hear
    cpu: float = 0.0
    frames: int = 0
    texts: list[str] = field(default_factory=list)

    def turn(self, group: Sequence[Mixture]) -> None:
        began = time.process_time()
        with counted_frames() as frames:
            self.texts += self.hear(group)
        self.cpu += time.process_time() - began
        self.frames += sum(frames)


@contextmanager
def counted_frames() -> Iterator[list[int]]:
    """The frames, of 10 ms, that Whisper's encoder is given inside, window by window."""
    from ctranslate2.models import Whisper

    encode = Whisper.encode
    frames: list[int] = []

    def counting(engine: Any, features: Any, *args: Any, **options: Any) -> Any:
        windows, _, length = features.shape
        frames.append(windows * length)
        return encode(engine, features, *args, **options)

    Whisper.encode = counting
    try:
        yield frames
    finally:
        Whisper.encode = encode


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


def ours(model: Any, language: str | None = None) -> Hear:
    backend = faster_whisper.Backend(faster_whisper.Settings(device="cpu", threads=1), model)
    return lambda group: [
        t.text or "" for t in backend.transcribe([SpeechClip(m.samples, language) for m in group])
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
    words that `reference` covers, CPU relative to it, and the seconds that the encoder is given
    for each second of speech."""
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
        spoken = sum(len(s.samples) for m in mixtures for s in m.sentences) / RATE
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
                "frames_per_second": round(way.frames / 100 / spoken, 2),
                "by_language": {
                    code: round(100 * sum(c.errors for c in some) / sum(c.words for c in some), 2)
                    for code, some in sorted(by_language.items())
                },
            }
        )  # fmt: skip
    return rows


def show(rows: Sequence[dict[str, Any]], reference: str) -> None:
    print(f"| {rows[0]['part']} | WER % | deletions % | sentences gone "
          f"| under 90 % of the {reference}'s words | CPU s | × | encoded s per s of speech "
          "| WER % by language |\n|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    for row in rows:
        languages = ", ".join(f"{code} {wer}" for code, wer in row["by_language"].items())
        print(
            f"| {row['way']} | {row['wer']} | {row['deletions']} | {row['gone']} "
            f"| {row['under_90']} of {row['clips']} | {row['cpu_seconds']} | {row['cpu_ratio']} "
            f"| {row['frames_per_second']} | {languages} |",
            flush=True,
        )
