"""dataset.json: describes a version so that a stranger can trust and trace it, without a clock."""

from __future__ import annotations

import hashlib
import json
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

from tasks import plugins, storage
from tasks.accounting import summary
from tasks.base import masking
from tasks.base.json_types import JsonObject
from tasks.base.schema import DATASET_FILE, UTTERANCES_FILE
from tasks.publish.dataset import card_readme, composition
from tasks.settings import Plugin
from tasks.settings.job import Job
from tasks.shard_store import decisions, enhanced, recipe, whole_job
from tasks.storage import tables

LIBRARIES = (
    *("uttermill", "numpy", "scipy", "soundfile", "av", "soxr", "samplerate", "resampy", "librosa"),
    *("onnxruntime", "faster-whisper", "ctranslate2", "rapidfuzz", "whisper-normalizer"),
    *("opencc-python-reimplemented", "unicode-rbnf", "pyarrow"),
)
SEAL = "sealed"  # key of the sha256 of dataset.json with zeros in its place
NO_SEAL = "0" * 64


def formats_of(described: JsonObject) -> dict[str, Plugin]:
    """The formats of a dataset.json by name, in their order."""
    entries = described["settings"]["package"]["formats"]
    return {entry["use"]: Plugin.model_validate(entry) for entry in entries}


@cache
def libraries() -> dict[str, str]:
    """Versions of Python and LIBRARIES; looked up once, as each reads all that a package says of
    itself."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


def write(
    job: Job, gathered: JsonObject, staging: Path, hashes: dict[str, tuple[str, int]]
) -> None:
    """Write README.md and dataset.json of a staged version, whose other files are all there.

    `hashes` are the known digests: (sha256, bytes) by path in the version.
    """
    facts = describe(job, gathered, staging)
    columns = tables.schema(staging / UTTERANCES_FILE)
    card = card_readme.text(facts, columns, gathered["tars"])
    storage.write_atomic(staging / "README.md", card.encode())
    there = storage.of(staging).tree(staging)
    files = {}
    for name in sorted({*there, *hashes}):  # shards of a remote version are not in the folder
        digest, size = hashes.get(name) or storage.hashed(staging / name)
        files[name] = {"sha256": digest, "bytes": size}
    storage.write_atomic(staging / DATASET_FILE, sealed({**facts, "files": files}))


def describe(job: Job, gathered: JsonObject, staging: Path) -> JsonObject:
    """dataset.json without its files: counts, hours, speakers, settings, recipes."""
    ledger = gathered["totals"].sums
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
        **composition.of_utterances(
            tables.row_groups(staging / UTTERANCES_FILE, composition.COLUMNS)
        ),
        **({"leaks": gathered["leaks"]} if gathered["leaks"] else {}),
        "tables": gathered["layout"],
        "balance": gathered["balance"],
        "frozen": gathered["frozen"],
        "split_lists": gathered["split_lists"],
        "formats": {p.use: plugins.load("formats", p.use).VERSION for p in job.package.formats},
        "licences": masking.value(
            {d.name: d.settings.licence for d in plugins.datasets(job.sources)}
        ),
        "weights_licences": recipe.weights_licences(job.transcribe),
        **_models(job),
        "settings": whole_job.settings_of(job),
        "recipes": whole_job.recipes_of(job),
        **decisions.described(job),
        "libraries": libraries(),
    }


def _models(job: Job) -> JsonObject:
    """Known models, beside the recognisers', that touched the version; nothing if none did."""
    chosen = [("diarizers", job.speakers), *(("filters", each) for each in job.filter.filters)]
    if recipe.enhancing(job):
        chosen += [("filters", enhanced.scorer(job)), ("enhance", job.enhance)]
    resolved = [plugins.resolve(shelf, plugin) for shelf, plugin in chosen]
    found = {m.name: m for module, own in resolved for m in module.known_models(own)}
    models = [
        {"name": m.name, "licence": m.licence, "source": m.source, "commercial": m.commercial}
        for m in found.values()
    ]
    return {"models": models} if models else {}


def sealed(data: JsonObject) -> bytes:
    """The text of a dataset.json with its own hash in it: `verify` finds a single changed byte."""
    data = {**data, SEAL: NO_SEAL}
    text = (json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
    return text.replace(NO_SEAL.encode(), hashlib.sha256(text).hexdigest().encode(), 1)


def intact(text: bytes, seal: str) -> bool:
    """Whether the text of a dataset.json is as it was sealed."""
    bare = text.replace(seal.encode(), NO_SEAL.encode(), 1)
    return hashlib.sha256(bare).hexdigest() == seal
