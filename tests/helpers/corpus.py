"""Ten small recordings and a job over them; the same bytes every time."""

import json
import os
import tempfile
from collections.abc import Iterable
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import soundfile as sf
from numpy.typing import NDArray

from uttermill.flows.settings import PrepareSettings, parse
from uttermill.tasks import pipeline
from uttermill.tasks.runs.executor import Published
from uttermill.tasks.settings import (
    FilterSettings,
    PackageSettings,
    Plugin,
    ResampleSettings,
    ShardSettings,
    Source,
    StageSettings,
    TranscribeSettings,
)
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store.index import Index
from uttermill.tasks.stages import shard
from uttermill.tasks.stages.listing.survey import Survey

RATES = (8000, 16000, 22050, 44100, 48000)
FILTERS = ({"use": "duration"}, {"use": "silence"}, {"use": "clipping"})
STAGES = ("shard", "filter", "resample", "transcribe", "package")
MODELS: dict[str, type[StageSettings]] = {
    "shard": ShardSettings, "filter": FilterSettings, "resample": ResampleSettings,
    "transcribe": TranscribeSettings, "package": PackageSettings,
}  # fmt: skip


def speech(seed: int, seconds: float, rate: int, channels: int = 1) -> NDArray[np.float64]:
    """Noise in syllables: loud and soft, never silent, never clipped; float [n, channels]."""
    count = round(seconds * rate)
    noise = np.random.default_rng(seed).standard_normal((count, channels)).clip(-3, 3)
    syllables = 0.35 + 0.3 * np.sin(2 * np.pi * 4 * np.arange(count) / rate)
    samples: NDArray[np.float64] = 0.15 * syllables[:, None] * noise
    return samples


def seconds_of(number: int) -> float:
    """0.4, 0.6 ... 2.2 s: no two recordings are equally long."""
    return round(0.4 + 0.2 * number, 1)


def add(folder: Path, number: int, seed: int | None = None, name: str = "") -> Path:
    """Recording `number`; another `seed` gives another content of the same length."""
    path = folder / (name or f"r{number:02d}.wav")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_encoded(number, number if seed is None else seed, path.suffix[1:].upper()))
    return path


@lru_cache(64)  # hundreds of tests begin with the same ten, which take 20 ms
def _encoded(number: int, seed: int, kind: str) -> bytes:
    """The file of a recording; `kind`: as libsndfile calls its container."""
    rate = RATES[number % len(RATES)]
    channels = 2 if number % 4 == 3 else 1
    file = BytesIO()
    sf.write(file, speech(seed, seconds_of(number), rate, channels), rate, "PCM_16", format=kind)
    return file.getvalue()


def make(folder: Path, count: int = 10) -> Path:
    for number in range(count):
        add(folder, number)
    return folder


def jsonl(path: Path, rows: Iterable[Any]) -> Path:
    """A file with a line of JSON for each row."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def listed(folder: Path, count: int, path: Path, **texts: str) -> Path:
    """A JSONL list over `count` recordings; `r01="some words"` gives the text of one."""
    rows = [
        {"wav": str(folder / f"r{n:02d}.wav"), "key": f"k{n}",
         "txt": texts.get(f"r{n:02d}", f"reference number {n}")}
        for n in range(count)
    ]  # fmt: skip
    return jsonl(path, rows)


def job(tmp: Path, **changes: Any) -> Job:
    """A job on `tmp/in` into `tmp/out`; `filter={...}` and the like change one stage's settings.

    Keys of a stage's mapping replace the small defaults of here, `sources` replaces all sources.
    """
    base: dict[str, dict[str, Any]] = {
        "shard": {"settle_seconds": 0.0},
        "filter": {"segmenter": {"use": "whole"}, "filters": FILTERS},
        "resample": {},
        "transcribe": {"backend": {"use": "fake"}},
        "package": {},
    }
    stages: dict[str, Any] = {
        name: model.model_validate({**base[name], **changes.pop(name, {})})
        for name, model in MODELS.items()
    }
    sources = changes.pop("sources", [{"kind": "folder", "path": str(tmp / "in"), "name": "c"}])
    rest: dict[str, Any] = {"out": tmp / "out", **changes}
    return Job(sources=tuple(Source.model_validate(s) for s in sources), **stages, **rest)


def wishes(tmp: Path, **changes: Any) -> PrepareSettings:
    """As `job`, for what checks settings: with the defaults of users, not of these tests."""
    base: dict[str, Any] = {
        "sources": [{"kind": "folder", "path": str(tmp / "in"), "name": "c"}],
        "out": str(tmp / "out"),
        "transcribe": {"backend": {"use": "fake"}},
    }
    return parse({**base, **changes})


def filters(*more: dict[str, Any], **limits: Any) -> dict[str, Any]:
    """Settings of the filter stage with other limits on the duration, and more filters."""
    chosen = [{"use": "duration", **limits}, *FILTERS[1:], *more]
    return {"segmenter": Plugin(use="whole"), "filters": tuple(chosen)}


def counts(stages: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """(items computed, items reused) of each stage."""
    return {n: (s["items_computed"], s["items_reused"]) for n, s in stages.items()}


def run(job: Job) -> tuple[Published, dict[str, tuple[int, int]]]:
    published, stages = pipeline.run_here(job)
    return published, counts(stages)


def surveyed(job: Job) -> Survey:
    """The sources as they are now, compared with what OUT knows."""
    with tempfile.TemporaryDirectory() as home:
        return shard.survey(job, Index(job.out), Path(home))


def utterances(version: Path) -> list[dict[str, Any]]:
    """Rows of a version's published clips."""
    rows: list[dict[str, Any]] = pq.read_table(version / "utterances.parquet").to_pylist()
    return rows


def ledger(version: Path) -> list[dict[str, Any]]:
    """Rows of a version's ledger."""
    rows: list[dict[str, Any]] = pq.read_table(version / "ledger.parquet").to_pylist()
    return rows


def content(version: Path) -> dict[str, bytes]:
    """Every file of a version, by relative path."""
    return {
        p.relative_to(version).as_posix(): p.read_bytes()
        for p in sorted(version.rglob("*"))
        if p.is_file()
    }


def temps(out: Path) -> list[Path]:
    """What a dead run may have left behind."""
    return [p for p in out.rglob("*") if p.name.endswith(".tmp") or p.name == ".staging"]


def parts(out: Path, *under: str) -> list[Path]:
    """Committed files, sorted."""
    roots = under or ("manifests", "audio")
    return sorted(p for root in roots for p in (out / root).rglob("*") if p.is_file())


def flip(path: Path, at: int) -> None:
    """Change one byte; size and name stay."""
    with path.open("r+b") as handle:
        handle.seek(at)
        byte = handle.read(1)
        handle.seek(at)
        handle.write(bytes([byte[0] ^ 0x5A]))


def touch(path: Path) -> None:
    """Another mtime, the same bytes."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))
