"""README.md of a version: a data card for the Hugging Face Hub and for people.

It is made from dataset.json and is as deterministic: it contains no time, no path of this machine
and no credentials.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import yaml

from ... import plugins
from ...base import json_types, masking
from ...base.control_characters import escaped
from ...base.counting import counted
from ...base.schema import about
from ...settings import Plugin
from .. import speakers as speaking
from . import croissant

AMOUNTS = ("utterances", "hours")  # of `_amounts`
LENGTHS = {"min": "shortest, s", "mean": "mean, s", "median": "median, s", "max": "longest, s"}
SHOWN = ("filter", "enhance", "resample", "transcribe", "package")


def text(facts: json_types.DatasetJson, columns: pa.Schema, tars: Mapping[str, int]) -> str:
    """The whole file. `columns`: the schema of `utterances.parquet`; `tars`: number of output
    shards, by split."""
    name = f"{', '.join(facts['licences'])}, version {facts['version']}"
    header = _yaml(croissant.hub_header(facts, name))
    parts = [
        f"---\n{header}---",
        f"# {cell(name)}",
        *_about(facts),
        *_contents(facts),
        *_funnel(facts),
        *_making(facts),
        *_licences(facts),
        *_citation(facts),
        *_reading(facts, tars),
        "## Columns of `utterances.parquet`",
        table(
            ("column", "type", "unit", "meaning"),
            ((field.name, str(field.type), *about(field)) for field in columns),
        ),
    ]
    return masking.text("\n\n".join(parts) + "\n")


def _yaml(value: object, **options: Any) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, **options)
    return text


def _about(facts: json_types.DatasetJson) -> Iterator[str]:
    hours = facts["seconds"]["packaged"] / 3600
    spoken = facts["speakers"]["count"]
    speakers = f" of {counted(spoken, 'named speaker')}" if spoken else ""
    formats = facts["settings"]["package"]["formats"]
    stereo = [one["use"] for one in formats if one.get("tracks", "mix") != "mix"]
    channels = f"two in {', '.join(stereo)}, else one channel" if stereo else "one channel"
    yield (
        f"{counted(facts['utterances']['packaged'], 'utterance')} of speech with text{speakers}, "
        f"{hours:.3f} h, at {facts['settings']['resample']['rate']} Hz, {channels}, 16 bits. "
        f"Prepared by uttermill {facts['libraries']['uttermill']}; every number here is in "
        "`dataset.json`, with the hash of every file. `uttermill verify <this folder>` checks all."
    )


def _contents(facts: json_types.DatasetJson) -> Iterator[str]:
    yield "## Contents"
    rows = [
        (r["split"], r["dataset"] or "all", r["language"] or "unknown", *_amounts(r))
        for r in facts["packaged"]
    ]
    yield table(("split", "dataset", "language", *AMOUNTS), rows)
    by_split = [
        (
            *(split_name, *_amounts(split)),
            *(f"{split['durations'][name]:.2f}" for name in LENGTHS),  # type: ignore[literal-required]
            f"{split['speakers']['count']:,}",
            f"{split['speakers']['hours_unknown']:.3f}",
        )
        for split_name, split in facts["splits"].items()
    ]
    unknown = "hours of unknown speakers"
    yield table(("split", *AMOUNTS, *LENGTHS.values(), "speakers", unknown), by_split)
    if warning := speaking.unknown_warning(facts):
        yield f"> **Warning:** {cell(warning)}."
    if leaks := facts.get("leaks"):
        yield "Overlap with train (clips of each other split that share its texts, speakers, "
        "recordings or samples):"
        names = ("text", "speaker", "recording", "audio")
        lines = [
            (split, *("unknown" if (n := counts[name]) is None else f"{n:,}" for name in names))
            for split, counts in leaks.items()
        ]
        yield table(("split", *names), lines)
    if counts := facts.get("pii"):
        yield (
            f"Personal data was found in {counted(counts['clips'], 'packaged clip')} and masked, "
            "in texts and words: "
            + ", ".join(f"{n} {k}" for k, n in counts.items() if k != "clips")
            + ". What the rule `pii` misses is measured by its documentation; names are never "
            "looked for."
        )
    spoken = facts["speakers"]
    if most := spoken.get("largest"):
        yield f"The {counted(len(most), 'speaker')} with the most hours, of {spoken['count']:,}:"
        lines = [(r["speaker"], r["dataset"] or "all", *_amounts(r)) for r in most]
        yield table(("speaker", "dataset", *AMOUNTS), lines)
    if talk := facts.get("dialogues"):
        yield from _dialogues(talk)
    yield from _annotations(facts)
    if second := facts.get("second_texts"):
        yield "Clips with a `second_text`, such as a translation, by its language: " + ", ".join(
            f"{cell(language)} {count:,}" for language, count in second.items()
        )
    if marks := facts.get("text_marks"):
        settings = facts["settings"]["package"]["text_marks"]
        yield "Marks of sounds in the texts: " + ", ".join(
            f"`{cell(settings[label])}` {count:,}" for label, count in marks.items()
        )
    if labels := facts.get("labels"):
        yield "Labels that the sources state, and of each the values with the most hours:"
        lines = [(row["label"], row["value"], *_amounts(row)) for row in labels]
        yield table(("label", "value", *AMOUNTS), lines)


def _dialogues(talk: json_types.Dialogues) -> Iterator[str]:
    by_count = ", ".join(f"{row['windows']:,} of {row['speakers']}" for row in talk["speakers"])
    yield f"Conversations, by how many people speak in a clip: {by_count}."
    in_overlap = talk["transfers_in_overlap"] / max(talk["floor_transfers"], 1)
    counts = [
        ("turns", f"{talk['turns']:,}"),
        ("backchannels, of up to 1 s inside another's turn", f"{talk['backchannels']:,}"),
        ("changes of speaker", f"{talk['floor_transfers']:,}"),
        ("share of them in overlap", f"{100 * in_overlap:.1f} %"),
        *(
            (f"share of the time in {name}", f"{100 * share:.1f} %")
            for name, share in talk["shares"].items()
            if share is not None
        ),
    ]
    yield table(("", "number"), counts)
    times = (
        ("length of a turn", talk["turn_seconds"]),
        ("time to another's turn", talk["offset_seconds"]),
    )
    lines = [
        (name, f"{spread['5 %']:.2f}", f"{spread['median']:.2f}", f"{spread['95 %']:.2f}")
        for name, spread in times
        if spread is not None
    ]
    yield table(("seconds", "5 %", "median", "95 %"), lines)


def _annotations(facts: json_types.DatasetJson) -> Iterator[str]:
    if not (declared := facts.get("annotations")):
        return
    yield "Annotations, each a column of `utterances.parquet`:"
    lines = [(name, one["kind"], one["meaning"]) for name, one in declared.items()]
    yield table(("annotation", "kind", "meaning"), lines)
    by_value = [
        (name, row["value"], *_amounts(row))
        for name, one in declared.items()
        for row in one.get("values", ())
    ]
    if by_value:
        yield table(("label", "value", *AMOUNTS), by_value)


def _amounts(
    row: json_types.PackagedHours
    | json_types.SplitFacts
    | json_types.SpeakerHours
    | json_types.LabelHours,
) -> tuple[str, str]:
    return f"{row['utterances']:,}", f"{row['hours']:.3f}"


def _funnel(facts: json_types.DatasetJson) -> Iterator[str]:
    yield "## From recordings to utterances"
    seconds = facts["seconds"]
    whole = seconds["in"] or 1.0

    def row(name: str, items: int, length: float, meaning: str = "") -> tuple[str, ...]:
        share = f"{100 * length / whole:.1f} %"
        return name, f"{items:,}", f"{length / 3600:.3f}", share, meaning

    rows = [row("recordings in", facts["recordings"]["in"], seconds["in"])]
    for name, entry in facts["reasons"].items():
        meaning = facts["meanings"][name]
        rows.append(row(f"− {name}", entry["items"], entry["seconds"], meaning))
    rows.append(row("packaged", facts["utterances"]["packaged"], seconds["packaged"]))
    yield table(("", "items", "hours", "share", "meaning"), rows)
    yield "`ledger.parquet` names the outcome of every span of every recording."
    if reviews := facts.get("reviews"):
        recut = reviews.get("recut", 0)
        again = f"{recut:,} were cut again by people, and judged anew. " if recut else ""
        yield (
            f"People decided on {reviews['keep'] + reviews['drop'] + reviews['retext']:,} "
            f"utterances, whatever the limits say: {reviews['keep']:,} kept, {reviews['drop']:,} "
            f"dropped, {reviews['retext']:,} given another text. "
            f"{again}The ledger's `detail` names who and why."
        )
    if sets := facts.get("test_sets"):
        yield (
            "No clip has nearly a text, the sound, a voice or a named speaker of these test sets, "
            "as far as each gives some to compare; the ledger's `detail` names what a dropped clip "
            "met:"
        )
        kinds = ("texts", "sounds", "voices", "speakers")
        lines = [
            (one["name"], *(f"{one[what]:,}" for what in (*kinds, "clips")))  # type: ignore[literal-required]
            for one in sets
        ]
        yield table(("test set", *kinds, "clips dropped"), lines)
    if gone := facts.get("forgotten"):
        are = "was" if gone == 1 else "were"
        yield (
            f"{counted(gone, 'recording')} {are} removed on request, from this version and all "
            "later ones; nothing here names or counts them otherwise."
        )


def _making(facts: json_types.DatasetJson) -> Iterator[str]:
    yield "## How it was made"
    stages, recipes = facts["settings"], facts["recipes"]
    measured = ", ".join(cell(plugin["use"]) for plugin in stages["filter"]["filters"]) or "none"
    resample, transcribe = stages["resample"], stages["transcribe"]
    backends = transcribe.get("backends") or [transcribe["backend"]]
    names = ", ".join(f"`{cell(backend['use'])}`" for backend in backends)
    weights = f", weights `{cell(recipes['weights'])}`" if recipes["weights"] else ""
    enhanced = ""
    if (enhance := stages["enhance"])["use"] != "none":
        audio = stages["package"]["audio"]
        enhanced = f"Enhanced: `{cell(enhance['use'])}`; {audio} audio is packaged. "
    yield "\n".join(
        [
            f"1. Cut into utterances: `{cell(stages['filter']['segmenter']['use'])}`.",
            f"2. Measured and filtered: {measured}.",
            f"3. {enhanced}Resampled to {resample['rate']} Hz: "
            f"`{cell(resample['resampler']['use'])}`.",
            f"4. Transcribed: {names}{weights}. The column `text_source` says "
            "whether a text is the source's or the recogniser's.",
            f"5. Packaged: {', '.join(map(cell, facts['formats']))}.",
        ]
    )
    shown = {stage: _without_folders(stages[stage]) for stage in SHOWN if stage in stages}
    dumped = _yaml(shown, default_flow_style=None)
    yield "All settings that shape it:"
    yield f"```yaml\n{dumped.replace('```', '')}```"


def _without_folders(value: object) -> object:
    """Settings without the folders of this machine: of a path, only the last name stays."""
    if isinstance(value, dict):
        return {key: _without_folders(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_folders(inner) for inner in value]
    if isinstance(value, str) and re.match(r"(file://|~|\.{0,2}/|[A-Za-z]:[\\/]|\\\\)", value):
        return re.split(r"[\\/]", value.rstrip("\\/"))[-1]
    return value


def _licences(facts: json_types.DatasetJson) -> Iterator[str]:
    yield "## Licences"
    licences = facts["licences"]
    labelled = [
        one["name"]
        for one in facts["settings"]["sources"]
        if "licence" in (one.get("labels") or ())
    ]
    rows = [
        (name, licence or ("by its label licence" if name in labelled else "not given"))
        for name, licence in licences.items()
    ]
    yield table(("source", "licence"), rows)
    for use, licence in facts.get("weights_licences", {}).items():
        if licence:
            yield f"Weights of the recogniser `{cell(use)}`: {cell(licence)}."
    for model in facts.get("models", []):
        yield f"Model {cell(model['name'])}: {cell(model['licence'])} ({cell(model['source'])})."
        if not model["commercial"]:
            yield (
                f"> **Warning:** the licence of {cell(model['name'])} forbids commercial use; it "
                "chose or measured what is here."
            )
    if bare := [cell(name) for name, licence in rows if licence == "not given"]:
        yield (
            f"> **Warning:** no licence was given for {', '.join(bare)}. Find out what its owner "
            "allows before you share this dataset, or what was trained on it."
        )


def _citation(facts: json_types.DatasetJson) -> Iterator[str]:
    yield "## Citation"
    for name, citation in facts["citations"].items():
        if not citation:
            yield f"{cell(name)}: not given (`citation` of the source in the settings)."
            continue
        language = "bibtex" if citation.lstrip().startswith("@") else "text"
        yield f"{cell(name)}:"
        yield f"```{language}\n{citation.strip().replace('```', '')}\n```"


def _reading(facts: json_types.DatasetJson, tars: Mapping[str, int]) -> Iterator[str]:
    yield "## How to read it"
    yield 'Texts, sources and measures: `pyarrow.parquet.read_table("utterances.parquet")`.'
    yield "Each snippet runs in this folder."
    split = "train" if "train" in facts["splits"] else next(iter(facts["splits"]), "train")
    options = {entry["use"]: entry for entry in facts["settings"]["package"]["formats"]}
    for name in facts["formats"]:
        yield f"### {cell(name)}"
        docs = inspect.cleandoc(plugins.module("formats", name).__doc__ or "").split("\n\n")
        yield " ".join(docs[0].split())
        lines, is_on = list[str](), True
        for paragraph in docs:  # after "With `NAME: true`", paths that are only there if that is on
            if option := re.match(r"With `(\w+): true`", paragraph):
                is_on = bool(options[name][option[1]])
            elif is_on:
                lines += (line for line in paragraph.splitlines() if line.startswith(f"{name}/"))
        if lines:
            yield "\n".join(["```text", *lines, "```"])
        module, settings = plugins.FORMATS.resolve(Plugin.model_validate(options[name]))
        if snippet := module.snippet(settings):
            language, code = snippet
            filled = code.format(
                use=name,
                split=split,
                rate=facts["settings"]["resample"]["rate"],
                audio=getattr(settings, "audio", "wav"),
                last=tars.get(split, 1) - 1,
                group="train_ds" if split == "train" else "validation_ds",
            )
            yield f"```{language}\n{filled}```"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; no text can break out of its cell."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(cell, line))} |" for line in lines)


def cell(words: str) -> str:
    """A text from outside uttermill on one line, escaped for Markdown and HTML."""
    flat = " ".join(words.split())
    if not flat.isprintable():
        flat = escaped(flat)
    return re.sub(r"([\\`*\[\]|])", r"\\\1", flat).replace("<", "&lt;")
