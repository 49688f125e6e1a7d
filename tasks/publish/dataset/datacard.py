"""dataset.json: counts, settings, recipes and digests of a version; and its README.md, from
`card.jinja`: a data card for the Hugging Face Hub and for people. Neither has a time of day, a path
of this machine or a credential."""

from __future__ import annotations

import hashlib
import inspect
import json
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import yaml

from ... import plugins, storage
from ...accounting import summary
from ...accounting.summary import Totals
from ...base import json_types, masking
from ...base.counting import counted
from ...base.masking import escaped
from ...base.schema import DATASET_FILE, LEDGER_FILE, UTTERANCES_FILE, about
from ...formats import Hashes
from ...recording import forgotten
from ...settings import Plugin
from ...settings.job import Job
from ...shard_store import decision_log, enhanced, index, recipe, whole_job
from ...shard_store.clip_choice import labels_kept
from ...storage import tables, versions
from .. import reason_meanings, speakers, text_marks
from ..leaks import Leaks
from ..published_columns import second_texts_kept, turns_kept
from . import composition, croissant

if TYPE_CHECKING:
    from jinja2 import Template

LIBRARIES = (
    *("uttermill", "numpy", "scipy", "soundfile", "av", "soxr", "samplerate", "resampy", "librosa"),
    *("onnxruntime", "faster-whisper", "ctranslate2", "rapidfuzz", "whisper-normalizer"),
    *("opencc-python-reimplemented", "unicode-rbnf", "pyarrow"),
)
SHOWN = (
    "filter",
    "enhance",
    "resample",
    "transcribe",
    "package",
)  # stages whose settings the card shows
SEAL: Final = "sealed"  # key of the sha256 of dataset.json, taken with NO_SEAL in its place
NO_SEAL = "0" * 64
#: The shape of the tables.
TABLES: Final = {
    UTTERANCES_FILE: "one file; each row group has whole tars",
    LEDGER_FILE: "one file; each row group has whole recordings",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The next version before its output shards are written."""

    version: int
    fingerprint: str
    settings: json_types.JsonObject  # `whole_job.settings_of`
    summary: json_types.Summary
    totals: Totals
    balance: json_types.Balance
    frozen: json_types.JsonObject  # bounds of corpus-wide rules
    split_lists: dict[str, json_types.ListDescription]
    test_sets: list[json_types.HeldOutSet]
    tars: dict[str, int]  # how many, by split
    leaks: Leaks
    new: bool  # whether it differs from the newest version
    changed: list[str]  # shards with recordings whose files changed during the run
    staging: str
    tables: Hashes  # digests of the tables' files
    arrived: json_types.Arrived  # recordings that the previous version does not have


def formats_of(described: Mapping[str, Any]) -> dict[str, Plugin]:
    """The formats of a dataset.json by name, in their order."""
    entries = described["settings"]["package"]["formats"]
    return {entry["use"]: Plugin.model_validate(entry) for entry in entries}


@cache
def libraries() -> dict[str, str]:
    """Versions of Python and LIBRARIES. Cached: a look-up parses a package's metadata."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


def write(job: Job, gathered: Gathered, staging: Path, hashes: dict[str, tuple[str, int]]) -> None:
    """Write README.md, croissant.json and dataset.json of a staged version, which has all other
    files.

    `hashes`: known digests, (sha256, bytes) by path in the version; other files are hashed.
    """
    facts = describe(job, gathered, staging)
    columns = tables.schema(staging / UTTERANCES_FILE)
    readme = card(facts, columns, gathered.tars)
    storage.write_atomic(staging / "README.md", readme.encode())
    staged = storage.store_of(staging).tree(staging)
    files: dict[str, json_types.PublishedEntry] = {}
    # In a remote version, output shards are not in the folder; `hashes` has them.
    for name in sorted({*staged, *hashes}):
        digest, size = hashes.get(name) or storage.hashed(staging / name)
        files[name] = {"sha256": digest, "bytes": size}
    described = croissant.text(facts, columns, files)
    storage.write_atomic(staging / croissant.FILE, described)
    digest = hashlib.sha256(described).hexdigest()
    files[croissant.FILE] = {"sha256": digest, "bytes": len(described)}
    storage.write_atomic(staging / DATASET_FILE, sealed({**facts, "files": files}))


def describe(job: Job, gathered: Gathered, staging: Path) -> json_types.DatasetJson:
    """dataset.json without its files: counts, hours, speakers, settings, recipes."""
    ledger, datasets = gathered.totals.sums, plugins.datasets(job.sources)
    counts = gathered.summary
    table = staging / UTTERANCES_FILE
    clips = composition.of_utterances(tables.row_groups(table, composition.COLUMNS))
    facts: json_types.DatasetJson = {
        "format": 1,
        "version": gathered.version,
        "fingerprint": gathered.fingerprint,
        "recordings": counts["recordings"],
        "utterances": counts["utterances"],
        "seconds": counts["seconds"],
        "reasons": counts["reasons"],
        "meanings": reason_meanings.meanings(job, counts["reasons"]),
        "hours": {
            "by_outcome": summary.hours_by(ledger, "outcome"),
            "by_dataset": summary.hours_by(ledger, "dataset", "outcome"),
            "by_language": summary.hours_by(ledger, "language", "outcome"),
        },
        "splits": clips["splits"],
        "packaged": clips["packaged"],
        "durations": clips["durations"],
        "speakers": clips["speakers"],
        "tables": TABLES,
        "balance": gathered.balance,
        "frozen": gathered.frozen,
        "split_lists": gathered.split_lists,
        "formats": {p.use: whole_job.format_version(p) for p in job.package.formats},
        "licences": masking.value({d.name: d.settings.licence for d in datasets}),
        "citations": masking.value({d.name: d.settings.citation for d in datasets}),
        "weights_licences": recipe.weights_licences(job.transcribe),
        "settings": gathered.settings,
        "recipes": {**whole_job.recipes_of(job)},
        "libraries": libraries(),
    }
    more: json_types.JsonObject = {
        "mixed": index.mixed(job.out) or None,
        "leaks": gathered.leaks or None,
        "annotations": composition.of_annotations(table) or None,
        "features": _features(job) or None,
        "models": _models(job) or None,
        "reviews": decision_log.described(job) or None,
        "pii": composition.of_personal_data(table) or None,
        "forgotten": len(forgotten.read(job.out).recordings) or None,
        "test_sets": gathered.test_sets or None,
    }
    if names := labels_kept(job):
        rows = tables.row_groups(table, composition.LABEL_COLUMNS)
        more["labels"] = composition.of_labels(rows, names)
    if turns_kept(job):
        columns_there = {*tables.schema(table).names}
        columns = [name for name in composition.DIALOGUE_COLUMNS if name in columns_there]
        more["dialogues"] = composition.of_dialogues(tables.row_groups(table, columns))
    if second_texts_kept(job):
        more["second_texts"] = composition.of_second_texts(table)
    if marks := job.package.text_marks:
        more["text_marks"] = text_marks.counts(marks, tables.row_groups(table, ("text",)))
    stated = {name: value for name, value in more.items() if value is not None}
    return cast(json_types.DatasetJson, {**facts, **stated})


def _features(job: Job) -> json_types.JsonObject:
    """Settings of the features that formats compute, by format; nothing for formats of audio."""
    formats = ((p.use, *plugins.FORMATS.resolve(p)) for p in job.package.formats)
    described = {use: module.described(s, job.resample.rate) for use, module, s in formats}
    return {use: facts for use, facts in described.items() if facts}


def _models(job: Job) -> list[json_types.ModelLicence]:
    """Models with known licences, besides the recognisers', that measured or changed the clips."""
    chosen = [
        ("diarizers", job.speakers),
        *(("filters", filter_plugin) for filter_plugin in job.filter.filters),
    ]
    if recipe.enhancing(job):
        chosen += [("filters", enhanced.scorer(job)), ("enhance", job.enhance)]
    resolved = [plugins.resolve(shelf, plugin) for shelf, plugin in chosen]
    models = {m.name: m for module, settings in resolved for m in module.known_models(settings)}
    return [
        {"name": m.name, "licence": m.licence, "source": m.source, "commercial": m.commercial}
        for m in models.values()
    ]


def sealed(facts: Mapping[str, object]) -> bytes:
    """A dataset.json with its own hash in it, so that `verify` finds any changed byte."""
    data = {**facts, SEAL: NO_SEAL}
    text = (json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
    return text.replace(NO_SEAL.encode(), hashlib.sha256(text).hexdigest().encode(), 1)


def is_of(version: Path) -> bool:
    """Whether dataset.json in a version is the one that was published there."""
    described = versions.described(version)
    is_its_own = described.get("version") == versions.number(version)
    return is_its_own and intact(versions.text_of(version), described.get(SEAL, ""))


def intact(text: bytes, seal: str) -> bool:
    bare = text.replace(seal.encode(), NO_SEAL.encode(), 1)
    return hashlib.sha256(bare).hexdigest() == seal


# README.md.


@cache
def _template() -> Template:
    import jinja2

    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined, autoescape=False
    )
    environment.filters |= {
        "cell": cell,
        "whole": "{:,}".format,
        "hours": "{:.3f}".format,
        "percent": lambda share: f"{100 * share:.1f} %",
    }
    source = Path(__file__).with_name("card.jinja").read_text("utf-8")
    template: Template = environment.from_string(source)
    return template


def card(facts: json_types.DatasetJson, columns: pa.Schema, tars: Mapping[str, int]) -> str:
    """The whole file. `columns`: the schema of `utterances.parquet`; `tars`: number of output
    shards, by split."""
    name = f"{', '.join(facts['licences'])}, version {facts['version']}"
    settings = facts["settings"]
    labelled = {s["name"] for s in settings["sources"] if "licence" in (s.get("labels") or ())}
    shown = {stage: _without_folders(settings[stage]) for stage in SHOWN if stage in settings}
    formats, annotations = settings["package"]["formats"], facts.get("annotations", {}).items()
    rendered = _template().render(
        facts=facts,
        name=name,
        settings=settings,
        header=_yaml(croissant.hub_header(facts, name)),
        counted=counted,
        stereo=[one["use"] for one in formats if one.get("tracks", "mix") != "mix"],
        unknown_speakers=speakers.unknown_warning(facts),
        label_values=[(label, row) for label, one in annotations for row in one.get("values", ())],
        shown_settings=_yaml(shown, default_flow_style=None).replace("```", ""),
        licences={
            name: licence or ("by its label licence" if name in labelled else "not given")
            for name, licence in facts["licences"].items()
        },
        formats=[*_formats(facts, tars)],
        columns=[(field.name, str(field.type), *about(field)) for field in columns],
    )
    return masking.text(rendered)


def _yaml(value: object, **options: Any) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, **options)
    return text


def _without_folders(value: object) -> object:
    """Settings without the folders of this machine: of a path, only the last name stays."""
    if isinstance(value, dict):
        return {key: _without_folders(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_folders(inner) for inner in value]
    if isinstance(value, str) and re.match(r"(file://|~|\.{0,2}/|[A-Za-z]:[\\/]|\\\\)", value):
        return re.split(r"[\\/]", value.rstrip("\\/"))[-1]
    return value


def _formats(facts: json_types.DatasetJson, tars: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """How to read each format: its summary, the lines of its documentation about paths, and code,
    empty if it has none."""
    split = "train" if "train" in facts["splits"] else next(iter(facts["splits"]), "train")
    options = {entry["use"]: entry for entry in facts["settings"]["package"]["formats"]}
    for name in facts["formats"]:
        docs = inspect.cleandoc(plugins.module("formats", name).__doc__ or "").split("\n\n")
        lines, is_on = list[str](), True
        for paragraph in docs:  # after "With `NAME: true`", paths that are only there if that is on
            if option := re.match(r"With `(\w+): true`", paragraph):
                is_on = bool(options[name][option[1]])
            elif is_on:
                lines += (line for line in paragraph.splitlines() if line.startswith(f"{name}/"))
        module, settings = plugins.FORMATS.resolve(Plugin.model_validate(options[name]))
        language, code = module.snippet(settings) or ("", "")
        filled = code.format(
            use=name,
            split=split,
            rate=facts["settings"]["resample"]["rate"],
            audio=getattr(settings, "audio", "wav"),
            last=tars.get(split, 1) - 1,
            group="train_ds" if split == "train" else "validation_ds",
        )
        summary = " ".join(docs[0].split())
        yield {
            **{"name": name, "summary": summary, "paths": lines},
            **{"language": language, "code": filled},
        }


def cell(words: str) -> str:
    """A text from outside uttermill on one line, escaped for Markdown and HTML."""
    flat = " ".join(words.split())
    if not flat.isprintable():
        flat = escaped(flat)
    return re.sub(r"([\\`*\[\]|])", r"\\\1", flat).replace("<", "&lt;")
