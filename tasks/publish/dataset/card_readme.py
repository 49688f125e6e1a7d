"""README.md of a version, from `card.jinja`: a data card for the Hugging Face Hub and for people.

It is made from dataset.json and is as deterministic: it contains no time, no path of this machine
and no credentials.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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

if TYPE_CHECKING:
    from jinja2 import Template

SHOWN = ("filter", "enhance", "resample", "transcribe", "package")


class Reading(NamedTuple):
    """How to read one format."""

    name: str
    summary: str
    paths: list[str]  # lines of its documentation
    language: str  # of the code
    code: str  # empty: it has none


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


def text(facts: json_types.DatasetJson, columns: pa.Schema, tars: Mapping[str, int]) -> str:
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
        unknown_speakers=speaking.unknown_warning(facts),
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


def _formats(facts: json_types.DatasetJson, tars: Mapping[str, int]) -> Iterator[Reading]:
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
        yield Reading(name, " ".join(docs[0].split()), lines, language, filled)


def cell(words: str) -> str:
    """A text from outside uttermill on one line, escaped for Markdown and HTML."""
    flat = " ".join(words.split())
    if not flat.isprintable():
        flat = escaped(flat)
    return re.sub(r"([\\`*\[\]|])", r"\\\1", flat).replace("<", "&lt;")
