"""The identity of a whole job: the recipes of all its plug-ins, and its settings that can change a
dataset."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NotRequired, TypedDict

from .. import plugins
from ..base.json_types import JsonObject
from ..scoring import normalisers
from ..served import llm_text
from ..settings import Plugin, TranscribeSettings
from ..settings.job import Job
from . import model_answers, recipe

#: Settings that are left out at these defaults, so that fingerprints of earlier versions stay the
#: same.
OMITTED_OF_PLUGINS = {
    **{"bit_rate": None, "facts": False, "min_in_source": 0.5, "min_recording_speech": 2.0},
    **{"max_speech_without_words": 1.0, "whole_without_text_up_to": None, "audio": False},
    **{"constrained": False},
    **recipe.SINCE,
}
OMITTED = {
    **{"max_hours_per_speaker": None, "rttm": None, "disjoint": None},
    **{"only": None, "without": None, "labels": None},
    **{"texts": "auto", "encoding": None, "speaker": "none", "channels": "mix"},
    **{"damaged": "drop", "non_finite": "fail", "channels_cancel": "fail"},
    **{"archives": True, "duplicate_files": "drop", "publish": []},
}


class Recipes(TypedDict):
    """The recipes of all plug-ins that a job uses, and the versions of its stages."""

    speakers: NotRequired[str]
    segmenter: str
    filters: dict[str, str]
    enhance: NotRequired[str]
    levels: list[str]
    resampler: str
    backend: str
    weights: str
    further_backends: NotRequired[list[str]]
    llm_text: NotRequired[int]
    asked: NotRequired[list[str]]
    stages: dict[str, int]


def recipes_of(job: Job) -> Recipes:
    """The recipes of everything that the job uses."""
    transcribe = job.transcribe
    recipes: Recipes = {
        "segmenter": recipe.of_plugin("segmenters", job.filter.segmenter),
        "filters": {
            plugin.use: recipe.of_plugin("filters", plugin) for plugin in job.filter.all_filters
        },
        "levels": [recipe.of_plugin("levels", plugin) for plugin in job.resample.levels],
        "resampler": recipe.of_plugin("resamplers", job.resample.resampler),
        "backend": recipe.of_plugin("asr", transcribe.backend),
        "weights": recipe.weights(transcribe.recognisers),
        "stages": {
            "decode": recipe.DECODE_VERSION,
            "filter": recipe.FILTER_VERSION,
            "resample": recipe.RESAMPLE_VERSION,
            "transcribe": recipe.TRANSCRIBE_VERSION,
            "scoring": normalisers.VERSION,
        },
    }
    if recipe.speaking(job):
        recipes["speakers"] = recipe.of_speakers(job.speakers)
    if recipe.enhancing(job):
        recipes["enhance"] = recipe.of_plugin("enhance", job.enhance)
    if further := transcribe.recognisers[1:]:
        recipes["further_backends"] = [recipe.of_plugin("asr", plugin) for plugin in further]
    if transcribe.llm_text:
        recipes["llm_text"] = llm_text.VERSION
    if questions := model_answers.identities(model_answers.asking(transcribe)):
        recipes["asked"] = questions
    return recipes


def of_stage(stage: str, job: Job, weights: str) -> str:
    """Recipe of all settings that determine what a stage stores for a shard, including those of
    earlier stages. `weights`: identity of the recogniser's model."""
    filters = {plugin.use: recipe.of_plugin("filters", plugin) for plugin in job.filter.all_filters}
    inputs: list[object] = [
        recipe.of_plugin("segmenters", job.filter.segmenter),
        recipe.of_speakers(job.speakers) if recipe.speaking(job) else None,
        recipe.FILTER_VERSION,
    ]
    if stage == "filter":
        return recipe.digest(stage, inputs, filters)
    inputs.append(recipe.of_audio(job.resample, "", 0, 0))
    if recipe.enhancing(job):
        inputs += [recipe.of_plugin("enhance", job.enhance), filters.get("dnsmos")]
    if stage == "transcribe":
        chosen, llm = job.transcribe, job.transcribe.llm_text
        inputs.append(recipe.of_transcript(chosen, weights, "", None))
        inputs += [recipe.of_plugin("asr", plugin) for plugin in chosen.recognisers[1:]]
        inputs += [recipe.of_llm_answer(llm, "", "")] if llm else []
        inputs += ["aligned"] if chosen.reference_words else []
        inputs += model_answers.identities(model_answers.asking(chosen))
    return recipe.digest(stage, inputs)


def settings_of(job: Job) -> JsonObject:
    """The settings that can change a dataset, with defaults, as JSON values; without OUT, transient
    settings, secrets, and paths of the splits' lists."""
    package = recipe.lasting(job.package)
    enhance = settings_of_plugin("enhance", job.enhance)
    if not recipe.enhancing(job):
        del package["audio"]
    speakers = settings_of_plugin("diarizers", job.speakers)
    return {
        **({"speakers": speakers} if recipe.speaking(job) else {}),
        "shard": recipe.lasting(job.shard),
        "filter": {
            **_without_defaults(recipe.lasting(job.filter)),
            "segmenter": settings_of_plugin("segmenters", job.filter.segmenter),
            "filters": _all("filters", job.filter.filters),
        },
        **({"enhance": enhance} if recipe.enhancing(job) else {}),
        "resample": {
            **_without_defaults(recipe.lasting(job.resample)),
            "resampler": settings_of_plugin("resamplers", job.resample.resampler),
            "levels": _all("levels", job.resample.levels),
        },
        "transcribe": {
            **_transcribing(job.transcribe),
            "backend": settings_of_plugin("asr", job.transcribe.backend),
            "verdicts": _all("text", job.transcribe.verdicts),
        },
        "package": {
            # Data cards list these first, then the compression of tars, which is always none.
            **{name: package[name] for name in ("formats", "audio") if name in package},
            "compression": "none",
            **_without_defaults(package),
            "formats": _all("formats", job.package.formats),
            "splits": _without_paths(package["splits"]),
        },
        "sources": [
            {**_without_defaults(recipe.lasting(dataset.settings)), "name": dataset.name}
            for dataset in plugins.datasets(job.sources)
        ],
    }


def _without_defaults(settings: JsonObject) -> JsonObject:
    """The settings without those at the defaults OMITTED."""
    remaining = {name: v for name, v in settings.items() if v != OMITTED.get(name, ...)}
    if isinstance(columns := remaining.get("columns"), dict):  # of a source
        remaining["columns"] = {k: v for k, v in columns.items() if (k, v) != ("channel", None)}
    return remaining


def _transcribing(settings: TranscribeSettings) -> JsonObject:
    """The settings of transcription, without those for several recognisers if there is only one,
    and without some defaults, so that fingerprints of earlier versions stay the same."""
    values = recipe.lasting(settings)
    if settings.hear == "original":
        del values["hear"]
    if not settings.reference_words:
        del values["reference_words"]
    if settings.turns_by == "channel":
        del values["turns_by"]
    del values["llm_text"]
    if (chosen := settings.llm_text) is not None:
        values["llm_text"] = {"model": chosen.model, **chosen.recipe()}
    several = {name: values.pop(name) for name in ("backends", "when", "also_when", "asr")}
    if not settings.backends:
        return values
    fields = type(settings).model_fields
    given = {n: value for n, value in several.items() if getattr(settings, n) != fields[n].default}
    return {**values, **given, "backends": _all("asr", settings.backends)}


def settings_of_plugin(shelf: str, plugin: Plugin) -> JsonObject:
    """A plug-in's settings that can change a dataset, with defaults; JSON values."""
    _, chosen = plugins.resolve(shelf, plugin)
    lasting = recipe.lasting(chosen)
    remaining = {n: v for n, v in lasting.items() if v != OMITTED_OF_PLUGINS.get(n, ...)}
    return {"use": plugin.use, **remaining}


def format_version(plugin: Plugin) -> int | str:
    """The format's version and the identity of its model, if it has one: what its files depend on
    besides the settings."""
    module, settings = plugins.FORMATS.resolve(plugin)
    identity = module.identity(settings)
    return module.VERSION if identity is None else f"{module.VERSION} {identity}"


def _all(shelf: str, chosen: Iterable[Plugin]) -> list[JsonObject]:
    return [settings_of_plugin(shelf, plugin) for plugin in chosen]


def _without_paths(splits: JsonObject) -> JsonObject:
    """Splits without the paths of their lists; the data card has digests of the lists."""
    return {
        name: {**share, "list": bool(share["list"])} if isinstance(share, dict) else share
        for name, share in splits.items()
    }
