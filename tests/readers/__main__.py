"""`python -m tests.readers [NAME ...]`: the real libraries read what is published; for the night.

    lhotse        lhotse 2, which reads cuts by their indexes
    energon       Megatron-Energon, on the WebDataset tars and their `.nv-meta`
    croissant     MLCommons' mlcroissant, which validates croissant.json and reads its rows
    coqui, ljspeech, xtts, f5, piper, styletts2, vits, hf_audiofolder, ms_swift, llama_factory,
    qwen_audio    the loading code of the trainers that `metadata_csv` and `chat_jsonl` are for
    mds, litdata, lance, speechbrain, nemo
                  the libraries of the formats of these names
    wenet, gpt_sovits
                  code that no package contains, from a checkout: --checkout FOLDER

Each gets an environment with the packages that pip finds, which may be gigabytes (they bring
PyTorch along), and runs its program of this folder on a version of made speech. Of the trainers,
only the package itself is installed, and `trainers.py` reads with its code. A program prints
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
from collections.abc import Sequence
from pathlib import Path

from tests.helpers import corpus
from uttermill.flows.cli import queries
from uttermill.tasks.formats.metadata_csv import PROFILES

HERE = Path(__file__).parent
INSTALL_S, READ_S = 1800, 600
#: Of the first recordings: what readers of lists may stumble over.
TEXTS = {"r00": '"Yes," she said', "r01": "四 \U00020bb7\U0001f600", "r02": "None", "r03": "5"}
TORCH = "torch==2.13.0"  # where a newer one fits, too: pip need not bring another
PACKAGES = {
    "lhotse": ["lhotse>=2.0.0a7", TORCH, "soundfile", "urllib3"],
    # without PyAV, Energon leaves out every clip, and only warns
    "energon": ["megatron-energon>=7.4", "av>=17", TORCH, "soundfile"],
    "croissant": ["mlcroissant", "pyarrow"],
}
#: Trainers: the package that is installed without what it requires, and what reading needs.
TRAINERS = {
    "coqui": ["coqui-tts", "tqdm"],
    "ljspeech": ["coqui-tts", "tqdm"],
    "f5": ["f5-tts", "tqdm"],
    "piper": ["piper-tts", "pathvalidate"],
    "hf_audiofolder": ["datasets", "datasets", TORCH],
    "xtts": ["coqui-tts", "tqdm"],
    "styletts2": ["styletts2", "numpy", "pyyaml"],
    "vits": ["sunbird-vits", "numpy"],
    "qwen_audio": ["transformers", "transformers", "jinja2"],
    "ms_swift": ["ms-swift", "numpy"],
    "llama_factory": ["llamafactory", "numpy"],
    "mds": [
        "mosaicml-streaming",
        *(TORCH, "numpy", "tqdm", "xxhash", "Brotli", "python-snappy", "zstd", "Pillow"),
        *("boto3", "requests", "catalogue"),
    ],
    "litdata": [
        "litdata",
        *(TORCH, "numpy", "lightning-utilities", "filelock", "boto3", "requests"),
        *("tifffile", "obstore"),
    ],
    "lance": ["pylance", "pyarrow", "lance-namespace"],
    "speechbrain": ["speechbrain", "numpy", "tqdm"],
    "nemo": [
        "nemo_toolkit",
        *("lhotse>=1.33", TORCH, "omegaconf", "pandas", "braceexpand", "wrapt", "urllib3"),
    ],
}
#: Trainers that no package contains: what reading needs.
CHECKOUTS = {"wenet": [TORCH, "langid"], "gpt_sovits": ["scipy"]}
#: Formats that have one reader and no profiles.
OF_ONE_READER = ("mds", "litdata", "lance", "speechbrain", "nemo", "wenet")
NAMES = [*PACKAGES, *TRAINERS, *CHECKOUTS]
FORMATS = ({"use": "webdataset", "energon": True}, {"use": "lhotse_shar", "index": True})


def made(home: Path, out: str, formats: Sequence[object], voices: int = 1) -> Path:
    """A version of made speech in these formats; with several voices, the source names them."""
    if not (home / "in").exists():
        corpus.make(home / "in", 8)
    listed = corpus.listed(home / "in", 8, home / "list.jsonl", **TEXTS)
    if voices > 1:
        lines = [json.loads(line) for line in listed.read_text("utf-8").splitlines()]
        named = [{**line, "speaker": f"s{n % voices}"} for n, line in enumerate(lines)]
        listed.write_text("".join(json.dumps(line) + "\n" for line in named), "utf-8")
    source = {"kind": "jsonl", "path": str(listed), "name": "c"}
    package = {"formats": formats, "splits": {"dev": 0.2}, "tar_hours": 2.0 / 3600}
    spoken = {"backend": {"use": "fake"}, "verdicts": ()}
    job = corpus.job(home, out=home / out, sources=[source], transcribe=spoken, package=package)
    return corpus.run(job)[0].path


def made_for(trainer: str, home: Path) -> list[str]:
    """What `trainers.py` is called with: name, version, and the list of its clips."""
    if trainer in OF_ONE_READER:
        version = made(home, trainer, [trainer])
    else:
        use = "metadata_csv" if trainer in PROFILES else "chat_jsonl"
        voices = 2 if trainer == "vits" else 1
        version = made(home, trainer, [{"use": use, "profile": trainer}], voices)
    list_ = home / f"{trainer}.list"
    list_.write_text("\n".join(queries.data_list(version, None)["paths"]) + "\n", "utf-8")
    return [trainer, str(version), str(list_)]


def wanted(version: Path) -> list[tuple[str, str]]:
    """(text, sha256 of the samples) of every clip of train, sorted."""
    rows = corpus.utterances(version)
    return sorted((row["text"], row["sha256"]) for row in rows if row["split"] == "train")


def python_of(name: str, home: Path) -> str:
    """The interpreter of a new environment with the reader's packages."""
    venv.create(home / name, with_pip=True)
    python = str(home / name / "bin" / "python")
    install = [python, "-m", "pip", "install", "-q"]
    if name in CHECKOUTS:
        packages = ["soundfile", *CHECKOUTS[name]]
        subprocess.run([*install, *packages], check=True, timeout=INSTALL_S)
    elif name in TRAINERS:
        bare, *needed = TRAINERS[name]
        subprocess.run([*install, "soundfile", *needed], check=True, timeout=INSTALL_S)
        subprocess.run([*install, "--no-deps", bare], check=True, timeout=INSTALL_S)
    else:
        subprocess.run([*install, *PACKAGES[name]], check=True, timeout=INSTALL_S)
    return python


def faults(program: str, python: str, version: Path, words: Sequence[str]) -> list[str]:
    """What a reader says otherwise than the version's rows."""
    # -P: the programs are called like the libraries that they import
    words = [python, "-P", str(HERE / f"{program}.py"), *words]
    try:
        done = subprocess.run(words, capture_output=True, text=True, cwd=version, timeout=READ_S)
    except subprocess.TimeoutExpired:
        return [f"it took more than {READ_S} s"]
    if done.returncode:
        return [(done.stderr.strip() or f"exit {done.returncode}").splitlines()[-1]]
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"text"')]
    expected = wanted(version)
    if sorted(each["text"] for each in told) != [text for text, _ in expected]:
        last = done.stderr.strip().splitlines()[-1:]
        return [f"{len(told)} clips, other texts than the {len(expected)} of the rows", *last]
    hashes = {digest for _, digest in expected}
    return [f"{e['text']!r} has other samples" for e in told if e["sha256"] not in {None, *hashes}]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.readers")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--checkout", type=Path, help="of the one trainer that is named")
    parser.add_argument("--python", help="an interpreter that has the packages already")
    args = parser.parse_args()
    chosen = args.names or [*PACKAGES, *TRAINERS]
    if bool(args.checkout) != (len(chosen) == 1 and chosen[0] in CHECKOUTS):
        parser.error(f"{' and '.join(CHECKOUTS)} need --checkout, and are named alone")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="uttermill-readers-") as folder:
        for name in chosen:
            python = args.python or python_of(name, Path(folder))
            if name in PACKAGES:
                version = made(Path(folder), "out", FORMATS)
                found = faults(name, python, version, [str(version)])
            else:
                words = made_for(name, Path(folder))
                more = [str(args.checkout.resolve())] if args.checkout else []
                found = faults("trainers", python, Path(words[1]), [*words, *more])
            print(f"{name}: {'; '.join(found) or 'every clip of train'}", flush=True)
            failed += bool(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
