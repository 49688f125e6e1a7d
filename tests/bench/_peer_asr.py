"""Whisper base in `tests.bench.peers`: the audio, faster-whisper's own two ways, the errors.

    python -m tests.bench._peer_asr batched|vad|loop SOURCE OUT

`vad`: the loop with its VAD filter; `loop`: without it. Two processes with one thread each share
the files and load the same int8 model as ours. Texts go to OUT/texts.json, by the names of the
files.
"""

import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pyarrow.parquet as pq
import soundfile as sf

from tests.bench import _hearing, long_recordings, speech_mixtures
from tests.bench.speech_mixtures import Mixture
from tests.helpers.corpus_speech import RATE, read

TALK = "talk en"
CLIPS = 60
PROCESSES = 2
#: No rules on texts, because the peers drop nothing either.
OURS = ("history=none", "transcribe.backend.use=faster_whisper", "transcribe.backend.device=cpu")
WHOLE = (*OURS, "filter.segmenter.use=whole")
SAID = "said.json"


def long_files(minutes: float) -> Callable[[Path], None]:
    """Two files of up to `minutes`: commands in Mandarin from one of the corpus's long files, and a
    talk in English, made from its sentences."""

    def make(home: Path) -> None:
        corpus = _corpus()
        made = {m.name: m for m in long_recordings.made(corpus, minutes)}
        _write(home, [long_recordings.real(corpus, minutes)[0], made[TALK]])

    return make


def clips(home: Path) -> None:
    """60 clean clips of 1 to 16 s, evenly from the corpus's list, in all its languages."""
    every = speech_mixtures.sentences(_corpus())
    chosen = [every[number * len(every) // CLIPS] for number in range(CLIPS)]
    _write(home, [Mixture(f"clip{n:02d}", s.samples, (s,), ()) for n, s in enumerate(chosen)])


def _corpus() -> Path:
    return Path(os.environ["UTTERMILL_CORPUS"])


def _write(home: Path, mixtures: Iterable[Mixture]) -> None:
    audio, said = home / "audio", {}
    audio.mkdir()
    for mixture in mixtures:
        name = Path(mixture.name).stem.replace(" ", "-")
        sf.write(audio / f"{name}.flac", mixture.samples, RATE, "PCM_16")
        said[name] = [mixture.text, mixture.language]
    (home / SAID).write_text(json.dumps(said))


def wrong_percent(home: Path, heard: Mapping[str, str]) -> float:
    """Word errors (for Mandarin, character errors) in % of the reference; a missing text counts as
    empty."""
    said: dict[str, tuple[str, str]] = json.loads((home / SAID).read_text())
    counts = [
        _hearing.counted(text, heard.get(name, ""), language)
        for name, (text, language) in said.items()
    ]
    return round(100 * sum(c.errors for c in counts) / sum(c.words for c in counts), 2)


def heard_by_ours(out: Path) -> dict[str, str]:
    """The joined texts of each file's utterances, in order."""
    columns = ["source_path", "start", "hypothesis"]
    rows = pq.read_table(out / "datasets/latest/utterances.parquet", columns=columns).to_pylist()
    found: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: float(row["start"])):
        name = Path(row["source_path"]).stem
        found[name] = f"{found.get(name, '')} {row['hypothesis'] or ''}"
    return found


def heard_by_peer(out: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((out / "texts.json").read_text())
    return found


def hear(way: str, paths: list[str]) -> dict[str, str]:
    """The texts of files by name, from faster-whisper in one of its ways."""
    from uttermill.tasks.asr import faster_whisper
    from uttermill.tasks.asr._whisper import loading

    model = loading.load(faster_whisper.Settings(device="cpu", threads=1))
    text_of = {
        "batched": lambda: _hearing.batched(model),
        "vad": lambda: _hearing.loop(model, vad_filter=True),
        "loop": lambda: _hearing.loop(model),
    }[way]()
    return {
        Path(path).stem: text_of([Mixture(path, read(Path(path)), (), ())])[0] for path in paths
    }


def main(way: str, source: Path, out: Path) -> None:
    paths = sorted(map(str, source.iterdir()))
    parts = [(way, paths[part::PROCESSES]) for part in range(PROCESSES)]
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        found = pool.starmap(hear, parts, chunksize=1)
    texts = {name: text for some in found for name, text in some.items()}
    out.mkdir()
    (out / "texts.json").write_text(json.dumps(texts))
    seconds = sum(sf.info(path).duration for path in paths)
    print(json.dumps({"kept": len(texts), "seconds": round(seconds, 1)}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
