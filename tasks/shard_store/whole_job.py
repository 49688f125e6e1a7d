"""The identity of a whole job: the recipes of all its plug-ins, and its settings by their roles
(`tasks.settings.base`).

    of_stage      what a stage stores for a shard
    of_rows       what is stored or published of a clip, whatever the limits are
    of_version    everything else that a version is made from, besides the versions before
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from .. import plugins
from ..base.json_types import JsonObject
from ..settings import Plugin, StageSettings, changes_rows
from ..settings.job import Job
from ..storage import versions
from . import decision_log, recipe, requests, text_values
from .annotated import text_plugins


class Recipes(TypedDict):
    """The recipes of all plug-ins that a job uses; `asked`: of questions to models."""

    layout: int
    speakers: str
    segmenter: str
    filters: dict[str, str]
    enhance: str
    levels: list[str]
    resampler: str
    backend: str
    weights: str
    further_backends: list[str]
    asked: list[str]
    texts: dict[str, str]  # of rules on text with a library or model of their own


def recipes_of(job: Job) -> Recipes:
    """The recipes of everything that the job uses."""
    transcribe = job.transcribe
    return {
        "layout": versions.LAYOUT,
        "speakers": recipe.of_speakers(job.speakers),
        "segmenter": recipe.of_plugin("segmenters", job.filter.segmenter),
        "filters": recipe.of_filters(job),
        "enhance": recipe.of_plugin("enhance", job.enhance),
        "levels": [recipe.of_plugin("levels", plugin) for plugin in job.resample.levels],
        "resampler": recipe.of_plugin("resamplers", job.resample.resampler),
        "backend": recipe.of_plugin("asr", transcribe.backend),
        "weights": recipe.weights(transcribe.recognisers),
        "further_backends": [
            recipe.of_plugin("asr", plugin) for plugin in transcribe.recognisers[1:]
        ],
        "asked": text_values.identities(transcribe),
        "texts": {
            use: identity
            for use, module, chosen in text_plugins(transcribe.verdicts)
            if (identity := module.identity(chosen)) is not None
        },
    }


def of_stage(stage: str, job: Job, weights: str) -> str:
    """Recipe of all settings that determine what a stage stores for a shard, including those of
    earlier stages. `weights`: identity of the recogniser's model."""
    filters, segmenter = recipe.of_filters(job), job.filter.segmenter
    inputs: list[object] = [
        recipe.of_plugin("segmenters", segmenter),
        recipe.of_speakers(job.speakers),
    ]
    if stage == "filter":
        return recipe.digest(stage, inputs, filters)
    inputs += [
        recipe.audio_recipes(job.resample)("")(0, 0),
        recipe.of_plugin("enhance", job.enhance),
    ]
    inputs += [filters.get("dnsmos")] if recipe.enhancing(job) else []
    if stage == "transcribe":
        chosen, llm = job.transcribe, job.transcribe.llm_text
        inputs += [
            recipe.of_transcript(chosen.backend, weights, "", None),
            [recipe.of_plugin("asr", plugin) for plugin in chosen.recognisers[1:]],
            recipe.of_llm_answer(llm, "", "") if llm else None,
            chosen.reference_words,
            text_values.identities(chosen),
        ]
    return recipe.digest(stage, inputs)


def of_rows(job: Job, settings: JsonObject) -> JsonObject:
    """The recipes and settings that can change what is stored or published of a clip; no limits.
    `settings`: `settings_of` the job."""
    changing = {}
    for stage in ("filter", "resample", "transcribe", "package"):
        model: StageSettings = getattr(job, stage)
        for name in type(model).model_fields:
            value = getattr(model, name)
            values = value if isinstance(value, tuple) else (value,)
            are_plugins = any(isinstance(one, Plugin) for one in values)  # which have recipes
            if changes_rows(type(model), name) and not are_plugins:
                changing[f"{stage}.{name}"] = settings[stage][name]
    texts = {}
    for use, module, chosen in text_plugins(job.transcribe.verdicts):
        writes = module.hide or module.REWRITES
        written = {"use": use, **recipe.lasting(chosen)} if writes else None
        texts[use] = [chosen.recipe(), written, module.identity(chosen)]
    changing["sides"] = requests.writes_sides(job)
    return {**recipes_of(job), **changing, "enhance by": settings["enhance"], "texts": texts}


def of_version(job: Job, settings: JsonObject) -> list[object]:
    """What a version is made from besides its tables, the bounds that it freezes and the lists of
    its splits: `settings_of` the job, formats and decisions by people."""
    formats = {plugin.use: format_version(plugin) for plugin in job.package.formats}
    people = decision_log.identity(decision_log.by_utterance(job))
    return [versions.LAYOUT, settings, formats, people]


def settings_of(job: Job) -> JsonObject:
    """The settings that can change a dataset, with defaults, as JSON values; without OUT, transient
    settings, secrets, and paths of the splits' lists."""
    package, llm = recipe.lasting(job.package), job.transcribe.llm_text
    return {
        "speakers": settings_of_plugin("diarizers", job.speakers),
        "shard": recipe.lasting(job.shard),
        "filter": {
            **recipe.lasting(job.filter),
            "segmenter": settings_of_plugin("segmenters", job.filter.segmenter),
            "filters": _all("filters", job.filter.filters),
        },
        "enhance": settings_of_plugin("enhance", job.enhance),
        "resample": {
            **recipe.lasting(job.resample),
            "resampler": settings_of_plugin("resamplers", job.resample.resampler),
            "levels": _all("levels", job.resample.levels),
        },
        "transcribe": {
            **recipe.lasting(job.transcribe),
            "backend": settings_of_plugin("asr", job.transcribe.backend),
            "backends": _all("asr", job.transcribe.backends),
            "llm_text": llm and {"model": llm.model, **llm.recipe()},
            "verdicts": _all("text", job.transcribe.verdicts),
        },
        "package": {
            **package,
            "formats": _all("formats", job.package.formats),
            # Without paths: the data card has digests of the splits' lists and the test sets, and
            # the filter `voice` hashes voices.
            "splits": {
                name: {**share, "list": bool(share["list"])} if isinstance(share, dict) else share
                for name, share in package["splits"].items()
            },
            **{
                name: package[name] and {**package[name], "voice": len(package[name]["voice"])}
                for name in ("only", "without")
            },
            "exclude": [
                one.model_dump(mode="json", exclude={"path", "root"}) for one in job.package.exclude
            ],
        },
        "sources": [
            {**recipe.lasting(dataset.settings), "name": dataset.name}
            for dataset in plugins.datasets(job.sources)
        ],
    }


def settings_of_plugin(shelf: str, plugin: Plugin) -> JsonObject:
    """A plug-in's settings that can change a dataset, with defaults; JSON values."""
    _, chosen = plugins.resolve(shelf, plugin)
    return {"use": plugin.use, **recipe.lasting(chosen)}


def format_version(plugin: Plugin) -> int | str:
    """The format's version and the identity of its model, if it has one: what its files depend on
    besides the settings."""
    module, settings = plugins.FORMATS.resolve(plugin)
    identity = module.identity(settings)
    return module.VERSION if identity is None else f"{module.VERSION} {identity}"


def _all(shelf: str, chosen: Iterable[Plugin]) -> list[JsonObject]:
    return [settings_of_plugin(shelf, plugin) for plugin in chosen]
