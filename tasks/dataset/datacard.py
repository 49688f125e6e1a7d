"""dataset.json: what a version is, so that a stranger can trust and trace it. No clock in it."""

from __future__ import annotations

import hashlib
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pydantic import BaseModel

from tasks import masking, plugins, recipe, storage, transcribe
from tasks.accounting import summary
from tasks.dataset import card_readme, composition
from tasks.job import Job
from tasks.scoring import normalisers
from tasks.settings import SECRET, TRANSIENT, Plugin, role, split_lists
from tasks.shard import datasets

LIBRARIES = (
    "uttermill", "numpy", "scipy", "soundfile", "av", "soxr", "samplerate", "resampy", "librosa",
    "onnxruntime", "faster-whisper", "ctranslate2", "rapidfuzz", "whisper-normalizer",
    "opencc-python-reimplemented", "unicode-rbnf", "pyarrow",
)  # fmt: skip
SEAL = "sealed"  # sha256 of dataset.json with this value all zeros
NO_SEAL = "0" * 64
#: Columns of `utterances.parquet` that are counted.
COUNTED = ("dataset", "split", "language", "speaker", "recording", "num_samples", "sample_rate")
STAGES = ("shard", "filter", "resample", "transcribe", "package")


def settings(job: Job) -> dict[str, Any]:
    """Settings that can change a dataset, defaults filled in: no OUT, nothing transient."""
    found: dict[str, Any] = {}
    for stage in STAGES:
        found[stage] = _lasting(getattr(job, stage))
    shelf = {"segmenter": "segmenters", "resampler": "resamplers", "backend": "asr"}
    for stage in STAGES:
        for name, value in found[stage].items():
            original = getattr(getattr(job, stage), name)
            if name in shelf:
                found[stage][name] = of_plugin(shelf[name], original)
            elif isinstance(original, tuple) and original and isinstance(original[0], Plugin):
                lists = {"filters": "filters", "verdicts": "text", "levels": "levels",
                         "formats": "formats"}  # fmt: skip
                value = [of_plugin(lists[name], plugin) for plugin in original]
                found[stage][name] = value
    found["package"]["splits"] = split_lists.without_paths(found["package"]["splits"])
    found["sources"] = [
        {**_lasting(chosen), "name": name} for name, _, chosen in datasets(job.sources)
    ]
    return found


def _lasting(model: BaseModel) -> dict[str, Any]:
    passing = {TRANSIENT["role"], SECRET["role"]}
    return {
        name: value
        for name, value in model.model_dump(mode="json").items()
        if role(type(model), name) not in passing
    }


def of_plugin(shelf: str, plugin: Plugin) -> dict[str, Any]:
    """A plug-in with its settings, defaults filled in, nothing transient."""
    _, chosen = plugins.resolve(shelf, plugin)
    return {"use": plugin.use, **_lasting(chosen)}


def formats_of(described: dict[str, Any]) -> dict[str, Plugin]:
    """The formats of a dataset.json in their order; older releases wrote only their names."""
    entries = described["settings"]["package"]["formats"]
    chosen = [Plugin(use=e) if isinstance(e, str) else Plugin.model_validate(e) for e in entries]
    return {plugin.use: plugin for plugin in chosen}


def recipes(job: Job) -> dict[str, Any]:
    return {
        "segmenter": recipe.of_plugin("segmenters", job.filter.segmenter),
        "filters": {p.use: recipe.of_plugin("filters", p) for p in job.filter.filters},
        "levels": [recipe.of_plugin("levels", p) for p in job.resample.levels],
        "resampler": recipe.of_plugin("resamplers", job.resample.resampler),
        "backend": recipe.of_plugin("asr", job.transcribe.backend),
        "weights": transcribe.weights(job),
        "stages": {
            "decode": recipe.DECODE_VERSION, "filter": recipe.FILTER_VERSION,
            "resample": recipe.RESAMPLE_VERSION, "transcribe": recipe.TRANSCRIBE_VERSION,
            "scoring": normalisers.VERSION,
        },
    }  # fmt: skip


def libraries() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


def write(
    job: Job, gathered: dict[str, Any], staging: Path, hashes: dict[str, tuple[str, int]]
) -> None:
    """README.md and dataset.json of a staged version, whose other files are all there.

    `hashes` are those that are known already: (sha256, bytes) by path in the version.
    """
    facts = describe(job, gathered, staging)
    columns = pq.read_schema(staging / "utterances.parquet")
    storage.write_atomic(staging / "README.md", card_readme.text(facts, columns).encode())
    there = {p.relative_to(staging).as_posix() for p in staging.rglob("*") if p.is_file()}
    files = {}
    for name in sorted({*there, *hashes}):  # pieces of a remote version are not in the folder
        digest, size = hashes.get(name) or storage.hashed(staging / name)
        files[name] = {"sha256": digest, "bytes": size}
    storage.write_atomic(staging / "dataset.json", sealed({**facts, "files": files}))


def describe(job: Job, gathered: dict[str, Any], staging: Path) -> dict[str, Any]:
    """What dataset.json says but for the files: counts, hours, speakers, settings, recipes."""
    ledger = pq.read_table(staging / "ledger.parquet")
    kept = pq.read_table(staging / "utterances.parquet", columns=list(COUNTED))
    return {
        "format": 1,
        "version": gathered["version"],
        "fingerprint": gathered["fingerprint"],
        **gathered["summary"],
        "hours": {
            "by_outcome": summary.hours_by(ledger, "outcome"),
            "by_dataset": summary.hours_by(ledger, "dataset", "outcome"),
            "by_language": summary.hours_by(ledger, "language", "outcome"),
        },
        **composition.of_utterances(kept),
        "balance": gathered["balance"],
        "frozen": gathered["frozen"],
        "split_lists": gathered["split_lists"],
        "formats": {p.use: plugins.load("formats", p.use).VERSION for p in job.package.formats},
        "licences": masking.value(
            {name: chosen.licence for name, _, chosen in datasets(job.sources)}
        ),
        "settings": settings(job),
        "recipes": recipes(job),
        "libraries": libraries(),
    }


def sealed(data: dict[str, Any]) -> bytes:
    """A description as text with its own hash in it: `verify` finds a single changed byte."""
    data = {**data, SEAL: NO_SEAL}
    text = (json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
    return text.replace(NO_SEAL.encode(), hashlib.sha256(text).hexdigest().encode(), 1)


def intact(text: bytes, seal: str) -> bool:
    """Whether the text of a dataset.json is the one that was sealed."""
    bare = text.replace(seal.encode(), NO_SEAL.encode(), 1)
    return hashlib.sha256(bare).hexdigest() == seal
