"""Checks where a job reads and writes: sources that can be listed and hold something, and an OUT
that is apart from them."""

from __future__ import annotations

import json
import os
from pathlib import Path

from .. import plugins
from ..base.errors import ConfigError
from ..base.logs import log
from ..plugins import Dataset
from ..recording.file_kinds import KNOWN_EXTENSIONS, headerless, rateless
from ..recording.names import display_text
from ..settings.job import Job
from ..shard_store import manifest
from ..sources import table
from ..stages.listing import entries
from ..storage import urls
from ..storage.regular import lies_in

#: The demo keeps its recordings in its OUT, beside the results; no run writes there.
DEMO = "corpus"
#: Settings of a source that say something about its recordings, but not which ones it has.
DESCRIBING = {"name", "licence", "language", "rttm", "expect_broken"}
USUAL = ("wav", "flac", "mp3", "m4a", "ogg", "opus", "mp4")  # named first


def check(job: Job) -> None:
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


#: Files that `save_to_disk` writes beside its Arrow files, for a split and for all splits.
SAVED = ("state.json", "dataset_dict.json")


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
