"""Checks of the settings, places, weights and GPUs, before any worker starts."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ..tasks import plugins, storage
from ..tasks.base import language_codes
from ..tasks.base.errors import ConfigError
from ..tasks.base.logs import log
from ..tasks.plugins import Dataset, loading
from ..tasks.plugins.explaining import joined
from ..tasks.recording.file_kinds import KNOWN_EXTENSIONS, headerless, rateless
from ..tasks.recording.names import display_text, is_utf8
from ..tasks.settings.job import Job
from ..tasks.shard_store import manifest, requests, text_values
from ..tasks.sources import table
from ..tasks.stages.listing import entries
from ..tasks.storage import containment, urls, versions
from ..tasks.storage.regular import lies_in
from .cluster import worker_counts
from .settings import PrepareSettings

#: The demo keeps its recordings in its OUT, beside the results; no run writes there.
DEMO = "corpus"
#: Settings of a source that say something about its recordings, but not which ones it has.
DESCRIBING = {"name", "licence", "language", "rttm", "expect_broken"}
USUAL = ("wav", "flac", "mp3", "m4a", "ogg", "opus", "mp4")  # named first
#: Files that `save_to_disk` writes beside its Arrow files, for a split and for all splits.
SAVED = ("state.json", "dataset_dict.json")


def check(settings: PrepareSettings) -> Job:
    """Check everything before a worker starts; raises ConfigError."""
    job = check_wishes(settings)
    storage.store_of(job.out).check(job.out)
    versions.check(job.out)
    worker_counts.check_memory(job, settings.cluster, settings.history)
    try:
        os.getcwd()
    except FileNotFoundError:  # workers and a Prefect server start there
        raise ConfigError("the folder that you are in is gone; cd to one that exists") from None
    return job


def check_text(path: str) -> None:
    """Raises ConfigError for a path that is not UTF-8, which YAML, Prefect, JSON and pyarrow cannot
    hold. Names of files in a source may be any bytes."""
    if not is_utf8(path):
        raise ConfigError(f"the path {display_text(path)} is not valid UTF-8; rename the folder")


def check_wishes(settings: PrepareSettings) -> Job:
    """`check` without OUT, which may be read-only here."""
    from ..tasks.plugins.served import chat
    from ..tasks.publish import published_columns
    from ..tasks.publish.choosing import next_version
    from ..tasks.shard_store import annotated, enhanced, recipe

    job = settings.job()
    for path in (settings.out, *(source.path for source in settings.sources)):
        check_text(path)
    names = [p.use for p in settings.filter.filters]
    if len(set(names)) != len(names):
        raise ConfigError("filter.filters lists a filter twice; put its limits into one entry")
    _check_languages(job)
    named = [*loading.chosen_plugins(job)]
    used = [*(("sources", source.kind) for source in job.sources), *((s, p.use) for s, p in named)]
    for sentence in dict.fromkeys(doubt for of in used for doubt in plugins.doubts(*of)):
        log.warning("%s", sentence)
    for shelf, plugin in named:
        recipe.of_plugin(shelf, plugin)  # also looks for its model
        module, plugin_settings = plugins.resolve(shelf, plugin)
        module.check_weights(plugin_settings)
    enhanced.check(job)
    annotated.check(job)
    published_columns.check(job)
    containment.check(job.out)
    _check_sources(job)
    next_version.check(job)
    _check_formats(job)
    _check_turns(job)
    recipe.weights(job.transcribe.recognisers)
    _check_aligner(job)
    if settings.transcribe.llm_text is not None:
        chat.check(settings.transcribe.llm_text)
    elif settings.package.text_form == "llm_text":
        raise ConfigError(
            "package.text_form is llm_text, which needs transcribe.llm_text: the url of a language "
            "model's server, and a model that it has"
        )
    settings.cluster.check()
    worker_counts.check(job, settings.cluster)
    return job


def _check_formats(job: Job) -> None:
    """Raises ConfigError if a format's codec does not have the sample rate, or if its settings name
    a column that no version of this run has."""
    from ..tasks.base.schema import UTTERANCES
    from ..tasks.publish import published_columns

    rate = job.resample.rate
    for plugin in job.package.formats:
        module, chosen = plugins.FORMATS.resolve(plugin)
        place = f"package.formats.{plugin.use}"
        rates, needs = module.rates(chosen), module.needs(chosen)
        if rates is not None and rate not in rates:
            raise ConfigError(
                f"{place}: its audio has no sample rate of {rate} Hz; set resample.rate to one of "
                f"{', '.join(map(str, sorted(rates)))}, or its audio to wav"
            )
        columns = {*UTTERANCES.names, *published_columns.row_schema(job).names} if needs else set()
        lacking = [name for name in needs if name not in columns]
        if "turns" in lacking:
            raise ConfigError(
                f"{place}: no clip has the column 'turns': set filter.segmenter.use=dialogue, "
                "which makes clips of several turns"
            )
        if lacking:
            raise ConfigError(
                f"{place}: no clip has the column {lacking[0]!r}: measure it (filter.filters, "
                "transcribe.verdicts) or name another; see `uttermill schema`"
            )


def _check_turns(job: Job) -> None:
    """Turns need a diarizer, and a filter `duration` that lets them pass; warns if they get no
    texts."""
    segmenter = job.filter.segmenter.use
    if not plugins.SEGMENTERS.load(segmenter).HOLDS_TURNS:
        return
    lengths = plugins.SEGMENTERS.resolve(job.filter.segmenter)[1].model_dump()
    least = lengths.get("min_seconds", 0.0)
    for plugin in job.filter.filters:
        longest = plugins.FILTERS.resolve(plugin)[1].model_dump().get("max")
        if plugin.use == "duration" and longest is not None and longest <= least:
            raise ConfigError(
                f"filter.filters: duration keeps clips of up to {longest:g} s, and those of "
                f"{segmenter} are longer; leave it out, or raise its max"
            )
    if job.speakers.use == "none":
        raise ConfigError(
            f"filter.segmenter {segmenter} needs to know who speaks when: set speakers.use to "
            "segments, which finds it, to channels for calls with a channel for each speaker, or "
            "to given for the source's turns"
        )
    recogniser = job.transcribe.backend
    timed = plugins.ASR.resolve(recogniser)[1].model_dump().get("word_timestamps")
    in_channels = job.speakers.use == "channels" and requests.asks_channels(job)
    if recogniser.use != "none" and not timed and not in_channels:
        log.warning(
            "turns get no texts: the recogniser %s gives no times of words; set "
            "transcribe.backend.word_timestamps=true where it can",
            recogniser.use,
        )


def _check_aligner(job: Job) -> None:
    use, rules = job.transcribe.backend.use, text_values.rules_on_fit(job.transcribe)
    if rules and not job.transcribe.reference_words:
        raise ConfigError(
            f"transcribe.verdicts: {rules[0]} needs to know when each word of a source's text is "
            "said; set transcribe.reference_words=true, which finds it"
        )
    aligns = hasattr(plugins.ASR.load(use).Backend, "align")
    if job.transcribe.reference_words and not aligns:
        raise ConfigError(
            f"transcribe.reference_words needs a recogniser that aligns a given text, and {use} "
            "does not; set transcribe.backend.use=faster_whisper, or ctc with a model's folder"
        )


def _check_languages(job: Job) -> None:
    """Raises ConfigError if a source or recogniser has a language that is not a code, or if the
    first recogniser refuses a source's. A further recogniser may refuse it: the others then count
    alone. So may the first, for a line of a list: that clip alone fails."""
    faults: list[str] = []
    segmenter, plugin_settings = plugins.SEGMENTERS.resolve(job.filter.segmenter)
    hearing = segmenter.hears(plugin_settings)
    for plugin in (*job.transcribe.recognisers, *([hearing] if hearing else [])):
        recogniser, plugin_settings = plugins.ASR.resolve(plugin)
        stated = getattr(plugin_settings, "language", None)
        if stated and isinstance(stated, str):
            fault = language_codes.fault(stated) or recogniser.language_fault(
                plugin_settings, stated
            )
            faults += [f"language of the recogniser {plugin.use}: {fault}"] if fault else []
    first = job.transcribe.backend
    recogniser, plugin_settings = plugins.ASR.resolve(first)
    for dataset in plugins.datasets(job.sources):
        stated = dataset.settings.language
        if not stated:
            continue
        fault = language_codes.fault(stated)
        if fault is None and (refused := recogniser.language_fault(plugin_settings, stated)):
            fault = (
                f"the recogniser {first.use} refuses {stated!r} ({refused}); "
                f"`uttermill plugins asr.{first.use}` lists its languages"
            )
        faults += [f"language of the source {dataset.name!r}: {fault}"] if fault else []
    if faults:
        raise ConfigError(joined([*dict.fromkeys(faults)]))


def _check_sources(job: Job) -> None:
    """ConfigError if a source cannot be listed, lies in OUT or contains it, or if all are empty;
    some may fill later."""
    datasets = plugins.datasets(job.sources)
    for dataset in datasets:
        _check_apart(job.out, dataset)
    _check_distinct(datasets)
    empty = [dataset for dataset in datasets if not entries.holds_recordings(job, dataset)]
    sentences = [_nothing_in(dataset) for dataset in empty]
    # Recordings that a former run knew and are gone are left to package.max_removed_fraction.
    if len(empty) == len(datasets) and not manifest.shards(job.out):
        raise ConfigError("; ".join(sentences))
    for sentence in sentences:
        log.warning("%s", sentence)


def _check_apart(out: Path, dataset: Dataset) -> None:
    place = dataset.settings.path
    source, home = urls.real(place), urls.real(str(out))
    if source == home:
        raise ConfigError(f"source and out are one folder, {display_text(home)}; give out another")
    if lies_in(source, home) and not lies_in(source, f"{home}/{DEMO}"):
        raise ConfigError(
            f"source {display_text(place)!r} lies in out, {display_text(home)}, where results go; "
            "move it, or give out another folder"
        )
    if lies_in(home, source):
        raise ConfigError(
            f"out, {display_text(home)}, lies in the source {display_text(place)!r}, so its audio "
            "would be taken for recordings; give out a folder outside it"
        )


def _check_distinct(datasets: list[Dataset]) -> None:
    """ConfigError if two sources are the same: each recording would be packaged twice."""
    first_by_settings: dict[str, Dataset] = {}
    for dataset in datasets:
        what = dataset.settings.model_dump(mode="json", exclude=DESCRIBING)
        places = {name: urls.real(what[name]) for name in ("path", "root") if what.get(name)}
        first = first_by_settings.setdefault(
            json.dumps({**what, **places}, sort_keys=True), dataset
        )
        if first is not dataset:
            raise ConfigError(
                f"the sources {first.name!r} and {dataset.name!r} are the same, "
                f"{display_text(urls.real(dataset.settings.path))}: each of its recordings would "
                "be packaged twice; name it once"
            )


def _nothing_in(dataset: Dataset) -> str:
    place = display_text(dataset.settings.path)
    if dataset.settings.kind != "folder":
        return f"source {place!r} names no recordings"
    rest = len(KNOWN_EXTENSIONS) - len(USUAL)
    looked_for = f"looked for {', '.join(USUAL)} and {rest} more extensions"
    other = table.suggested(dataset.settings.path)
    named = ", ".join(f"{name}: {value}" for name, value in (other or {}).items())
    hint = f"; give the source {named}" if named else _saved_to_disk(dataset.settings.path)
    names = (entry.path for entry in dataset.source.recordings(dataset.settings))
    raw = min(filter(headerless, names), default=None)
    what = f"; {raw} is not read: {rateless(headerless(raw))}" if raw else ""
    return f"no audio files under {place}; {looked_for}{hint}{what}"


def _saved_to_disk(place: str) -> str:
    if not any(os.path.isfile(os.path.join(place, name)) for name in SAVED):
        return ""
    return (
        "; it is a data set saved by `save_to_disk`: write each split as Parquet, with "
        f"`datasets.load_from_disk({display_text(place)!r}).to_parquet(…)`, and give that as the "
        "source"
    )
