"""Long recordings with exact references: the whole line beside faster-whisper's own ways.

    UTTERMILL_CORPUS=… python -m tests.bench.long_recordings
        [--minutes 10] [--only talk,readers] [--noise 10] [--ways batched,loop,fresh,vad] [--json]

They are made from the corpus's sentences (`speech_mixtures.py`), or are the corpus's own long
files, in which 0.4 to 1.2 s of faint noise separate the sentences. Each way cuts them by itself.

ours:    the line with its default cutting. "Packaged": the texts that the default rules let
         through, what they drop counts as deleted; with the seconds of sentences that were dropped,
         by reason.
batched: the batched pipeline; loop: window after window, with the text before as prompt;
fresh:   the loop without that text; vad: the loop over what its voice detector lets through.

Each row says how many seconds the encoder is given for each second of the sentences, too.
"""

import argparse
import json
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import soundfile as sf

from tests.bench import _hearing, speech_mixtures
from tests.bench._hearing import Hear, Way, counted
from tests.bench.speech_mixtures import RATE, Mixture, Sentence
from tests.helpers import corpus as small
from tests.helpers.corpus_speech import read
from uttermill.tasks import pipeline
from uttermill.tasks.asr import faster_whisper
from uttermill.tasks.asr._whisper import loading
from uttermill.tasks.settings import FilterSettings, TranscribeSettings
from uttermill.tasks.stages import transcribe

#: Long files whose segments have texts, and their language.
REAL = {"aishell_S0150.m4a": "zh", "kerstin_de.opus": "de"}
MARGIN = 0.3  # s of audio around the sentences that are taken of a real file
#: faster-whisper's own ways, from its loaded model.
PEERS: dict[str, Callable[[Any], Hear]] = {
    "batched": _hearing.batched,
    "loop": _hearing.loop,
    "fresh": lambda model: _hearing.loop(model, condition_on_previous_text=False),
    "vad": lambda model: _hearing.loop(model, vad_filter=True),
}


@dataclass(frozen=True, slots=True)
class Placed:
    """The text of one clip, and where the clip lies, in s."""

    start: float
    end: float
    text: str
    packaged: bool = True


@dataclass(frozen=True, slots=True)
class Heard:
    """The line's transcripts of a file, its CPU time, s, the frames that the encoder was given,
    and the seconds of sentences that the line dropped, by reason."""

    clips: list[Placed]
    cpu: float
    frames: int = 0
    dropped: dict[str, float] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return " ".join(clip.text for clip in self.clips)

    @property
    def packaged(self) -> str:
        return " ".join(clip.text for clip in self.clips if clip.packaged)


def made(folder: Path, minutes: float) -> list[Mixture]:
    """Commands and sentences with pauses of 0.3 to 3 s; a talk with pauses of 0.2 to 0.8 s."""
    pools = speech_mixtures.by_speaker(folder)
    every = speech_mixtures.sentences(folder)
    commands = [s for s in every if s.language == "zh" and s.seconds < 9]
    readers = [s for s in every if s.language == "en" and s.speaker != "lj" and s.seconds > 2]
    return [
        speech_mixtures.recording("commands zh", commands, minutes, (0.3, 3.0)),
        speech_mixtures.recording("sentences de", pools["de", "kerstin"], minutes, (0.3, 3.0)),
        speech_mixtures.recording(
            "prompts es", [s for s in every if s.language == "es"], minutes, (0.3, 3.0)
        ),
        speech_mixtures.recording("talk en", pools["en", "lj"], minutes, (0.2, 0.8)),
        speech_mixtures.recording("readers en", readers, minutes, (0.3, 1.5)),
    ]


def real(folder: Path, minutes: float) -> list[Mixture]:
    """The first `minutes` of each long file whose text is known."""
    return [_real(folder / "long" / name, code, minutes) for name, code in REAL.items()]


def _real(path: Path, language: str, minutes: float) -> Mixture:
    lines = path.with_name(f"{path.stem}.segments.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["end"] <= minutes * 60]
    samples = read(path)
    first = max(round((rows[0]["start"] - MARGIN) * RATE), 0)
    bounds = [
        (round(row["start"] * RATE) - first, round(row["end"] * RATE) - first) for row in rows
    ]
    samples = samples[first : first + bounds[-1][1] + round(MARGIN * RATE)]
    sentences = tuple(
        Sentence(samples[start:end], row["text"], language, row["speaker"])
        for row, (start, end) in zip(rows, bounds, strict=True)
    )
    return Mixture(path.name, samples, sentences, tuple(bounds))


def noisy(mixture: Mixture, snr: float, seed: int = 1) -> Mixture:
    """The same with white noise, `snr` dB below the speech."""
    rng = np.random.default_rng(seed)
    speech = np.concatenate([mixture.samples[a:b] for a, b in mixture.bounds])
    level = float(np.sqrt(np.mean(speech**2))) * 10 ** (-snr / 20)
    noise = rng.standard_normal(len(mixture.samples)).astype(np.float32) * np.float32(level)
    name = f"{mixture.name}, {snr:g} dB"
    return replace(mixture, name=name, samples=mixture.samples + noise)


def line(mixture: Mixture, options: dict[str, Any] | None = None) -> Heard:
    """The transcripts of a file's clips by the default line, and the clips that the default rules
    on texts keep; a second run applies these rules, because they compute nothing."""
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "in"
        source.mkdir()
        sf.write(source / "long.flac", mixture.samples, RATE, "PCM_16")
        backend = {"use": "faster_whisper", "device": "cpu", "threads": 1, **(options or {})}
        job = small.job(
            Path(name),
            sources=[{"kind": "folder", "path": str(source)}],
            transcribe={"backend": backend, "verdicts": ()},
        )
        job = replace(job, filter=FilterSettings())  # its defaults, not those of the small tests
        transcribe.load(job)  # the loop's model is loaded, too
        began = time.process_time()
        with _hearing.counted_frames() as frames:
            every, _ = pipeline.run_here(job)
        spent = time.process_time() - began
        rows = pq.read_table(every.path / "utterances.parquet").to_pylist()
        judged = replace(job, transcribe=TranscribeSettings(backend=job.transcribe.backend))
        chosen, _ = pipeline.run_here(judged)
        kept = set(pq.read_table(chosen.path / "utterances.parquet")["id"].to_pylist())
        ledger = pq.read_table(chosen.path / "ledger.parquet").to_pylist()
        clips = [Placed(r["start"], r["end"], r["hypothesis"], r["id"] in kept) for r in rows]
        clips.sort(key=lambda clip: clip.start)
        return Heard(clips, spent, sum(frames), _dropped(mixture, ledger))


def _dropped(mixture: Mixture, ledger: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Seconds of sentences that lie in spans that were dropped or failed, by reason."""
    seconds: dict[str, float] = defaultdict(float)
    for row in ledger:
        if row["outcome"] in ("dropped", "failed"):
            for start, end in mixture.bounds:
                shared = min(end / RATE, row["end"]) - max(start / RATE, row["start"])
                seconds[f"{row['stage']}.{row['reason']}"] += max(0.0, shared)
    return {reason: round(total, 2) for reason, total in sorted(seconds.items()) if total > 0}


def compared(mixture: Mixture, model: Any, ways: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each way; ours, which comes first, has more columns."""
    heard: list[Heard] = []

    def ours(group: Sequence[Mixture]) -> list[str]:
        heard.append(line(group[0]))
        return [heard[0].text]

    every = [Way("ours", ours), *(Way(name, PEERS[name](model)) for name in ways)]
    assert [*_hearing.compare(every, [mixture])] == [1]
    # Without the second run, which only takes the rules.
    every[0].cpu, every[0].frames = heard[0].cpu, heard[0].frames
    rows = _hearing.summary(mixture.name, every, [mixture], ways[0])
    _hearing.show(rows, ways[0])
    rows[0] |= _packaged(mixture, heard[0])
    return rows


def _packaged(mixture: Mixture, heard: Heard) -> dict[str, Any]:
    packaged = counted(mixture.text, heard.packaged, mixture.language)
    columns = {
        "packaged": round(100 * packaged.errors / packaged.words, 2),
        "packaged_gone": _hearing.gone(mixture, heard.packaged),
        "dropped_seconds": heard.dropped,
    }
    print(
        f"  ours, packaged ({sum(clip.packaged for clip in heard.clips)} clips): "
        f"{columns['packaged']} %, sentences gone {columns['packaged_gone']}, seconds of "
        f"sentences dropped {heard.dropped or 'none'}", flush=True,
    )  # fmt: skip
    for clip in heard.clips:
        if not clip.packaged:
            print(f"  dropped: {clip.start:.1f}-{clip.end:.1f} {clip.text}", flush=True)
    return columns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corpus", type=Path, default=os.environ.get("UTTERMILL_CORPUS"))
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--only", default="", help="words of names of recordings, by commas")
    parser.add_argument("--noise", type=float, help="white noise, dB below the speech")
    parser.add_argument("--ways", default="loop,batched", help=", ".join(PEERS))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    ways = args.ways.split(",")
    if args.corpus is None or not set(ways) <= set(PEERS):
        parser.error(f"give UTTERMILL_CORPUS or --corpus, and ways of {', '.join(PEERS)}")
    model = loading.load(faster_whisper.Settings(device="cpu", threads=1))
    rows: list[dict[str, Any]] = []
    for mixture in [*made(args.corpus, args.minutes), *real(args.corpus, args.minutes)]:
        if not any(word in mixture.name for word in args.only.split(",")):
            continue
        if args.noise is not None:
            mixture = noisy(mixture, args.noise)
        print(f"{mixture.name}: {mixture.seconds / 60:.1f} minutes, {len(mixture.sentences)} parts")
        rows += compared(mixture, model, ways)
    if args.json:
        print(json.dumps(rows, ensure_ascii=False))


if __name__ == "__main__":
    main()
