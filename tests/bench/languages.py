"""Folders without a stated language: clips kept in a wrong language, and right clips dropped.

    [UTTERMILL_CORPUS=…] python -m tests.bench.languages [LANGUAGE …] [--each 3] [--every 10]
                                                         [--heard FILE] [--json]

Each language is a source of its own: sentences and the first words of sentences
(`_language_sentences.py`) by espeak-ng and, where its voices are installed, by Festival, which
Whisper understands better; each folder of the corpus is one, of which `--every` takes a part; and
so are sounds without speech. Whisper base hears all of it without being told a language.

Before: the default rules on single clips; after: also the languages of each source. A clip is wrong
if the recogniser's language is not the spoken one, whatever its text; so are all clips in a
language that Whisper does not know (`UNKNOWN`), and all sounds. The last lines are sources that mix
several of these. Clips come from all sources in turn, with a table after every SHOWN of them, so
that a table of an interrupted run has the same share of each source. `--heard` caches the
transcripts, so that other rules can be tried in half a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import soxr

from tests.bench import verdict_clips
from tests.bench._language_sentences import SENTENCES, UNKNOWN
from tests.bench.corpus_speech import RATE, Floats, read
from tests.bench.verdict_clips import Said
from tests.bench.verdict_listening import (
    BATCH,
    BEAM,
    Values,
    backend,
    reason,
    same_language,
    text_values,
)
from tests.bench.verdict_sounds import levelled
from tests.bench.verdict_tables import table
from uttermill.flows.demo.corpus import Line, speak
from uttermill.flows.demo.voice import RATE as VOICE_RATE
from uttermill.tasks import speech
from uttermill.tasks.asr import SpeechClip
from uttermill.tasks.corpus import ROW
from uttermill.tasks.corpus.rejections import TranscribedRows
from uttermill.tasks.text import language

PACE = 150  # words a minute, of espeak-ng's voices
FIRST_WORDS = 2
ENCODINGS = {"ru": "utf-8", "cs": "iso-8859-2"}  # of Festival's voices; others read Latin-1
ROOM = 1e-3  # RMS of the noise of a room
SHOWN = 6 * BATCH  # clips


@dataclass(frozen=True, slots=True)
class Heard:
    """A clip of a source as it was heard; `language` is spoken (None: no speech)."""

    source: str
    name: str
    seconds: float
    language: str | None
    values: Values

    @property
    def right(self) -> bool:
        known = self.language is not None and self.source not in UNKNOWN
        return known and same_language(self.language, self.values["language"])


def spoken(languages: Iterable[str], each: int) -> Iterator[Said]:
    """So many sentences of each language, and as many first words, by espeak-ng and Festival."""
    for code in languages:
        voice, festival, sentences = SENTENCES[code]
        sentences = sentences[:each]
        texts = [*sentences, *(" ".join(s.split()[:FIRST_WORDS]) for s in sentences)]
        said = zip(texts, speak([Line(text, voice, PACE) for text in texts]), strict=True)
        clips = [("espeak", text, soxr.resample(one, VOICE_RATE, RATE, "HQ")) for text, one in said]
        if festival and shutil.which("text2wave"):
            encoding = ENCODINGS.get(code, "latin-1")
            clips += [("festival", text, _festival(text, festival, encoding)) for text in texts]
        for number, (by, text, samples) in enumerate(clips):
            room = np.random.default_rng(number).normal(0, ROOM, len(samples))
            heard = (levelled(samples) + room).astype(np.float32)
            yield Said(f"{code}/{by}/{text}", code, "voice", heard, code, text)


def _festival(text: str, voice: str, encoding: str) -> Floats:
    with tempfile.TemporaryDirectory() as scratch:
        source, target = Path(scratch, "text"), Path(scratch, "said.wav")
        source.write_bytes(text.encode(encoding, "replace"))
        say = ["text2wave", "-eval", f"(voice_{voice})", "-o", str(target), str(source)]
        subprocess.run(say, check=True, capture_output=True, timeout=60)
        return read(target)


def recorded(every: int) -> Iterator[Said]:
    """The corpus's clips, each folder a source."""
    for said in verdict_clips.clean(every):
        place = "/".join(said.name.split("/")[:2])
        yield Said(said.name, place, said.kind, said.samples, said.language, said.text)


def sounds(each: int) -> Iterator[Said]:
    """Sounds without speech, so many of each kind: one source."""
    for said in verdict_clips.sounds(each):
        yield Said(said.name, "sounds", said.kind, said.samples)


def in_turn(clips: Iterable[Said]) -> list[Said]:
    """The first clip of each source, then the second ones: any first part has all sources."""
    counts: Counter[str] = Counter()
    turns: dict[int, list[Said]] = defaultdict(list)
    for said in clips:
        turns[counts[said.group]].append(said)
        counts[said.group] += 1
    return [said for turn in sorted(turns) for said in turns[turn]]


def hear(clips: Iterable[Said]) -> Iterator[Heard]:
    rest = iter(clips)
    while batch := list(islice(rest, BATCH)):
        asked = [SpeechClip(said.samples) for said in batch]
        for said, clip, heard in zip(batch, asked, backend(BEAM).transcribe(asked), strict=True):
            values = text_values(said, heard)
            values["speech_seconds"] = speech.within(clip.speech, 0.0, said.seconds)
            yield Heard(said.group, said.name, said.seconds, said.language, values)


def judged(clips: list[Heard]) -> list[tuple[Heard, str | None, str | None]]:
    """Each clip with the reason that drops it before and after."""
    before = [reason(clip.values) for clip in clips]
    rows = [
        {"dataset": clip.source, "language": clip.values["language"], "seconds": clip.seconds,
         "language_probability": clip.values["language_probability"] if clip.values["text"] else 0,
         "avg_logprob": clip.values["avg_logprob"], "kept": why is None}
        for clip, why in zip(clips, before, strict=True)
    ]  # fmt: skip
    rows_of_corpus = TranscribedRows(
        lambda columns: [pa.Table.from_pylist(rows, schema=ROW).select(columns)],
        lambda ids: np.zeros(len(ids), bool),
    )
    rejected = dict(language.reject(rows_of_corpus, language.Settings(), {})[0])
    after = [rejected[n].reason if n in rejected else why for n, why in enumerate(before)]
    return list(zip(clips, before, after, strict=True))


def counts(found: list[tuple[Heard, str | None, str | None]]) -> dict[str, int]:
    right = [(before, after) for clip, before, after in found if clip.right]
    wrong = [(before, after) for clip, before, after in found if not clip.right]
    return {
        "clips": len(found),
        "right": len(right),
        "wrong_kept_before": sum(before is None for before, _ in wrong),
        "wrong_kept": sum(after is None for _, after in wrong),
        "right_dropped_before": sum(before is not None for before, _ in right),
        "right_dropped": sum(after is not None for _, after in right),
    }


def mixed(clips: list[Heard], sources: Iterable[str], name: str) -> list[Heard]:
    chosen = set(sources)
    return [replace(clip, source=name) for clip in clips if clip.source in chosen]


def report(clips: list[Heard]) -> dict[str, dict[str, int]]:
    sources = list(dict.fromkeys(clip.source for clip in clips))
    found = judged(clips)
    told = {name: counts([one for one in found if one[0].source == name]) for name in sources}
    told["all of these"] = counts(found)
    folders = [name for name in sources if "/" in name]
    for name, some in {
        "mixed: every voice": [name for name in sources if name not in (*folders, "sounds")],
        "mixed: every folder": folders,
        "mixed: it, ru, unknown": ["it", "ru", *UNKNOWN],
        "mixed: folders and sounds": [*folders, "sounds"],
    }.items():
        told[name] = counts(judged(mixed(clips, some, name)))
    return {name: each for name, each in told.items() if each["clips"]}


def clips_of(args: argparse.Namespace) -> Iterator[list[Heard]]:
    """All clips that were heard so far, after every SHOWN; the last time all."""
    said = spoken(args.languages or SENTENCES, args.each)
    if "UTTERMILL_CORPUS" in os.environ and not args.languages:
        said = chain(said, recorded(args.every), sounds(args.each))
    asked = in_turn(said)
    names = {said.name for said in asked}
    lines = args.heard.read_text().splitlines() if args.heard and args.heard.exists() else ()
    clips = [clip for clip in (Heard(**json.loads(line)) for line in lines) if clip.name in names]
    names -= {clip.name for clip in clips}
    began = time.monotonic()
    for clip in hear(said for said in asked if said.name in names):
        clips.append(clip)
        if args.heard:
            with args.heard.open("a") as file:
                file.write(json.dumps(asdict(clip)) + "\n")
        if len(clips) % SHOWN == 0 and len(clips) < len(asked):
            seconds = time.monotonic() - began
            print(f"{len(clips)} of {len(asked)} clips, {seconds:.0f} s", flush=True)
            yield clips
    yield clips


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.languages", description=__doc__)
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help="only these voices")
    parser.add_argument("--each", type=int, default=3, help="sentences, and sounds of a kind")
    parser.add_argument(
        "--every", type=int, default=10, help="of the corpus's clips, one of so many"
    )
    parser.add_argument("--heard", type=Path, metavar="FILE", help="what was heard, kept here")
    parser.add_argument("--json", action="store_true", help="a JSON object in place of each table")
    args = parser.parse_args()
    for clips in clips_of(args):
        show(report(clips), args.json)


def show(told: dict[str, dict[str, int]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(told), flush=True)
        return
    head = ("source", "clips", "heard in their language", "wrong language kept", "right dropped")
    print(table(head, [
        [name, str(n["clips"]), str(n["right"]), f"{n['wrong_kept_before']} → {n['wrong_kept']}",
         f"{n['right_dropped_before']} → {n['right_dropped']}"]
        for name, n in told.items()
    ]), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
