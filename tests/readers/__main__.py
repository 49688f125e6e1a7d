"""`python -m tests.readers [NAME ...]`: the real libraries read what is published; for the night.

    lhotse        lhotse 2, which reads cuts by their indexes
    energon       Megatron-Energon, on the WebDataset tars and their `.nv-meta`
    speechbrain   SpeechBrain's `DynamicItemDataset`
    nemo          NeMo's tarred reader, on tars and manifests
    wenet         WeNet's own `Dataset`, from a checkout: --wenet FOLDER

Each gets an environment with the packages that pip finds, which may be gigabytes (they bring
PyTorch along), and runs its program of this folder on one version of made speech. A program prints
a JSON line a clip, with the hash of its samples where the reader decodes them; all clips of `train`
have to come, with their texts. Exit 1 if a reader fails. `--python` names an interpreter that has
the packages already.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import pyarrow.parquet as pq

from tests.helpers import corpus

HERE = Path(__file__).parent
PACKAGES = {
    "lhotse": ["lhotse>=2.0.0a7", "torch", "soundfile"],
    "energon": ["megatron-energon", "soundfile"],
    "speechbrain": ["speechbrain", "soundfile"],
    "nemo": ["nemo_toolkit[asr]"],
    # as WeNet's requirements.txt asks: newer PyTorch lacks names that it imports
    "wenet": [
        "torch==2.2.2",
        "torchaudio==2.2.2",
        "numpy<2",
        "librosa",
        "langid",
        "openai-whisper",
        "pyyaml",
    ],
}
FORMATS = (
    "wenet", "nemo", "speechbrain", {"use": "webdataset", "energon": True},
    {"use": "lhotse_shar", "index": True},
)  # fmt: skip


def made(home: Path) -> Path:
    """A version of made speech in all formats."""
    corpus.make(home / "in", 8)
    package = {"formats": FORMATS, "splits": {"dev": 0.2}, "tar_hours": 2.0 / 3600}
    return corpus.run(corpus.job(home, package=package))[0].path


def wanted(version: Path) -> list[tuple[str, str]]:
    """(text, sha256 of the samples) of every clip of train, sorted."""
    rows = pq.read_table(version / "utterances.parquet").to_pylist()
    return sorted((row["text"], row["sha256"]) for row in rows if row["split"] == "train")


def python_of(name: str, home: Path) -> str:
    """The interpreter of a new environment with the reader's packages."""
    venv.create(home / name, with_pip=True)
    python = str(home / name / "bin" / "python")
    install = [python, "-m", "pip", "install", "-q", "--pre", *PACKAGES[name]]
    subprocess.run(install, check=True)
    return python


def faults(name: str, python: str, version: Path, checkout: Path | None) -> list[str]:
    """What a reader says otherwise than the version's rows."""
    more = [str(checkout.resolve())] if checkout else []
    # -P: the programs are called like the libraries that they import
    words = [python, "-P", str(HERE / f"{name}.py"), str(version), *more]
    done = subprocess.run(words, capture_output=True, text=True, cwd=version)
    if done.returncode:
        return [(done.stderr.strip() or f"exit {done.returncode}").splitlines()[-1]]
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"text"')]
    expected = wanted(version)
    if sorted(each["text"] for each in told) != [text for text, _ in expected]:
        return [f"{len(told)} clips, other texts than the {len(expected)} of the rows"]
    hashes = {digest for _, digest in expected}
    return [f"{e['text']!r} has other samples" for e in told if e["sha256"] not in {None, *hashes}]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.readers")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PACKAGES))
    parser.add_argument("--wenet", type=Path, help="a checkout of WeNet")
    parser.add_argument("--python", help="an interpreter that has the packages already")
    args = parser.parse_args()
    chosen = args.names or [name for name in PACKAGES if name != "wenet" or args.wenet]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="uttermill-readers-") as folder:
        version = made(Path(folder))
        for name in chosen:
            python = args.python or python_of(name, Path(folder))
            found = faults(name, python, version, args.wenet if name == "wenet" else None)
            print(f"{name}: {'; '.join(found) or 'every clip of train'}", flush=True)
            failed += bool(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
