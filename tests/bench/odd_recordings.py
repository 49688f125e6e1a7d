"""The whole line on recordings with one difficulty each, compared with faster-whisper's loop.

    UTTERMILL_CORPUS=… python -m tests.bench.odd_recordings [FOLDER] [--only KIND …]

Prints the number of spoken words; the errors in the texts of all utterances, dropped ones included,
and in those of the loop with its VAD filter, each joined to one text of the recording (in
characters for Mandarin); and the seconds of speech in no utterance, and in no packaged one. FOLDER
keeps the audio, its texts, and the loop's texts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import soundfile as sf
from rapidfuzz.distance import Levenshtein

from tests.bench import _odd_recordings, _peer_asr, long_clips
from tests.bench.corpus_speech import RATE

OURS = (*_peer_asr.OURS, "shard.settle_seconds=0", "cluster.workers=2")
MANDARIN = re.compile(r"[\u4e00-\u9fff]+|[^\u4e00-\u9fff]+")
TRUTH = "truth.json"

Row = dict[str, Any]
#: Start and end in s, text and language of each sentence.
Truth = list[tuple[float, float, str, str]]


def make(home: Path, only: Sequence[str]) -> dict[str, Truth]:
    """Audio and truth, unless FOLDER has them."""
    audio, listed = home / "audio", home / TRUTH
    truth: dict[str, Truth] = json.loads(listed.read_text()) if listed.exists() else {}
    audio.mkdir(parents=True, exist_ok=True)
    missing = [kind for kind in only or _odd_recordings.KINDS if kind not in truth]
    if missing:
        for odd in _odd_recordings.made(Path(os.environ["UTTERMILL_CORPUS"]), missing):
            sf.write(audio / f"{odd.truth.name}.wav", odd.samples, odd.rate, "PCM_16")
            truth[odd.truth.name] = [
                (start / RATE, end / RATE, sentence.text, sentence.language)
                for sentence, (start, end) in zip(
                    odd.truth.sentences, odd.truth.bounds, strict=True
                )
            ]
        listed.write_text(json.dumps(truth))
    return {kind: truth[kind] for kind in only or _odd_recordings.KINDS}


def run(source: Path, out: Path, *settings: str) -> list[Row]:
    """The utterances of the version that `uttermill run` makes."""
    command = [
        sys.executable,
        "-m",
        "uttermill.flows.cli",
        "run",
        "--source",
        str(source),
        "--out",
        str(out),
    ]
    for each in (*OURS, *settings):
        command += ["--set", each]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    columns = ["source_path", "start", "end", "hypothesis"]
    rows = pq.read_table(out / "datasets/latest/utterances.parquet", columns=columns).to_pylist()
    return sorted(rows, key=lambda row: float(row["start"]))


def heard_by_loop(home: Path, source: Path) -> dict[str, str]:
    """The loop's text of each recording; those of an earlier run are kept."""
    kept = home / "loop.json"
    known: dict[str, str] = json.loads(kept.read_text()) if kept.exists() else {}
    missing = sorted(path for path in source.iterdir() if path.stem not in known)
    if missing:
        known |= _peer_asr.hear("vad", list(map(str, missing)))
        kept.write_text(json.dumps(known))
    return known


def words(text: str, languages: set[str]) -> list[str]:
    """Normalised words, and characters of Mandarin; in several languages, told by the script."""
    if len(languages) == 1:
        return long_clips.words(text, *languages)
    return [
        word
        for part in MANDARIN.findall(text)
        for word in long_clips.words(part, "zh" if "\u4e00" <= part[0] <= "\u9fff" else "en")
    ]


def lost(truth: Truth, rows: Sequence[Row]) -> float:
    """Seconds of speech outside of all utterances."""
    return sum(
        max(0.0, end - start - sum(_common(start, end, row) for row in rows))
        for start, end, *_ in truth
    )


def _common(start: float, end: float, row: Row) -> float:
    return max(0.0, min(end, float(row["end"])) - max(start, float(row["start"])))


def table(
    truths: dict[str, Truth], cut: Sequence[Row], packaged: Sequence[Row], loop: dict[str, str]
) -> None:
    print("| kind | words | ours | loop | not cut, s | not packaged, s | speech, s |")
    print("|---" * 7 + "|")
    for kind, truth in truths.items():
        languages = {language for *_, language in truth}
        mine, kept = ([r for r in rows if Path(r["source_path"]).stem == kind]
                      for rows in (cut, packaged))  # fmt: skip
        said = words(" ".join(text for _, _, text, _ in truth), languages)
        texts = " ".join(row["hypothesis"] or "" for row in mine), loop[kind]
        errors = [Levenshtein.distance(said, words(text, languages)) for text in texts]
        speech = sum(end - start for start, end, *_ in truth)
        print(f"| {kind} | {len(said)} | {errors[0]} | {errors[1]} | {lost(truth, mine):.1f} "
              f"| {lost(truth, kept):.1f} | {speech:.0f} |", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.odd_recordings")
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--only", nargs="+", choices=_odd_recordings.KINDS, default=[])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        home = args.folder or Path(scratch) / "made"
        truths = make(home, args.only)
        source = Path(scratch) / "source"
        source.mkdir()
        for kind in truths:
            (source / f"{kind}.wav").symlink_to((home / "audio" / f"{kind}.wav").absolute())
        out = Path(scratch) / "out"
        cut = run(source, out, "transcribe.verdicts=[]")
        packaged = run(source, out)
        table(truths, cut, packaged, heard_by_loop(home, source))


if __name__ == "__main__":
    main()
