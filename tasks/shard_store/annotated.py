"""The annotations that a job's filters and plug-ins on text declare, and their values in a
shard."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, NamedTuple

import pyarrow as pa

from .. import plugins
from ..base import shelves
from ..base.errors import ConfigError
from ..base.schema import UTTERANCES
from ..plugins.annotation_kinds import Annotation, Events, Label, Text, Vector, key
from ..plugins.contracts import Measuring
from ..plugins.contracts.text import TextVerdict
from ..plugins.rules import Rule
from ..settings import Plugin, StageSettings
from ..settings.job import Job
from ..speech.embedding import SIZE
from .utterance import Utterance

#: Annotations from a diarizer's turns; published on request.
SPOKEN: dict[str, Annotation] = {
    "turns": Events("who speaks when, by the turns of `speakers`; label: the speaker"),
    "speaker_embedding": Vector("the voice of its speaker, by the turns of `speakers`", SIZE),
}


class Declared(NamedTuple):
    shelf: Measuring
    use: str
    name: str
    kind: Annotation


def of_job(job: Job) -> list[Declared]:
    """All annotations of the chosen filters and plug-ins on text, in the order of the settings."""
    declared = list[Declared]()
    for plugin in job.filter.all_filters:
        for name, kind in plugins.FILTERS.load(plugin.use).ANNOTATIONS.items():
            declared.append(Declared("filters", plugin.use, name, kind))
    for use, module, settings in text_plugins(job.transcribe.verdicts):
        for name, kind in module.annotates(settings).items():
            declared.append(Declared("text", use, name, kind))
    return declared


def check(job: Job) -> None:
    """Raises ConfigError if two plug-ins use the same name for an annotation or column, if a limit
    names an unknown label, or if a plug-in needs a measure that no plug-in takes."""
    rules_of("filters", job.filter.all_filters)
    declared = of_job(job)
    _check_needed(job)
    heard = any(plugin.use == "audio_language" for plugin in job.filter.filters)
    if job.transcribe.language_by == "sound" and not heard:
        raise ConfigError(
            "transcribe.language_by=sound needs the filter audio_language: add {use: "
            "audio_language, model: FOLDER} to filter.filters"
        )
    columns = [
        *(column for p in job.filter.all_filters for column in plugins.columns("filters", p.use)),
        *(column for p in job.transcribe.verdicts for column in plugins.columns("text", p.use)),
        *(one.name for one in declared),
    ]
    for one in declared:
        if columns.count(one.name) > 1:
            raise ConfigError(
                f"{one.shelf}: the annotation {one.name} of {one.use} has the name of another "
                "column; use one of the two plug-ins"
            )


def _check_needed(job: Job) -> None:
    """Raises ConfigError if a corpus-wide plug-in or `transcribe.also_when` needs a measure that
    nothing takes."""
    taken = {c for plugin in job.filter.all_filters for c in stored_by(plugin.use).measures}
    if missing := [name for name in job.transcribe.also_when if name not in taken]:
        raise ConfigError(
            f"transcribe.also_when: no filter measures {missing[0]!r}; add the filter that does, "
            "or go by another measure"
        )
    chosen: list[tuple[Measuring, Plugin]] = [("filters", p) for p in job.filter.all_filters]
    chosen += [("text", plugin) for plugin in job.transcribe.verdicts]
    measured = {field.name for field in UTTERANCES if pa.types.is_floating(field.type)}
    for shelf, plugin in chosen:
        measured |= {*plugins.columns(shelf, plugin.use)}
    for shelf, plugin in chosen:
        module, settings = plugins.MEASURING[shelf].resolve(plugin)
        if missing := [name for name in module.asks(settings) if name not in measured]:
            raise ConfigError(
                f"{shelf}: {plugin.use} goes by {missing[0]}, which nothing measures; add the "
                "plug-in that does, or let it go by another measure"
            )


def on_shelves() -> dict[str, Annotation]:
    """The annotations of all built-in plug-ins and of diarizers (SPOKEN), by name."""
    declared = {
        name: kind
        for shelf in plugins.MEASURING
        for use in shelves.names(shelf)
        for name, kind in plugins.MEASURING[shelf].load(use).ANNOTATIONS.items()
    }
    return {**declared, **SPOKEN}


def labels(job: Job) -> dict[str, Label]:
    declared = {one.name: one.kind for one in of_job(job) if isinstance(one.kind, Label)}
    return {name: kind for name, kind in declared.items() if not isinstance(kind, Text)}


def label_fields(job: Job) -> list[pa.Field]:
    """Columns of the labels that rules can use; labels of corpus-wide plug-ins are made after all
    rules."""
    return [
        pa.field(one.name, one.kind.type)
        for one in of_job(job)
        if isinstance(one.kind, Label)
        and plugins.MEASURING[one.shelf].load(one.use).labelled is None
    ]


def value_of(one: Declared, utterance: Utterance) -> Any:
    """An annotation of an utterance as its column holds it; None if there is none."""
    if one.shelf == "text":
        value: Any = utterance.texts.get(one.name)
        return value if value is None else one.kind.decoded(one.kind.encoded(value))
    if not one.kind.large:
        return utterance.measures.get(one.name)
    data = utterance.annotations.get(key(one.use, one.name))
    return None if data is None else one.kind.decoded(data)


class StoredNames(NamedTuple):
    """The names under which parts hold a filter's values of an utterance."""

    columns: frozenset[str]  # of numbers
    labels: dict[str, tuple[str, Label]]  # by key
    kept: frozenset[str]  # keys of values stored as bytes: large annotations, its fingerprint
    measures: frozenset[str]  # of numbers and labels


@cache  # asked for each utterance
def stored_by(use: str) -> StoredNames:
    """The names of a filter's values; without labels that need the whole corpus."""
    plugin, columns = plugins.FILTERS.load(use), plugins.columns("filters", use)
    declared = plugin.ANNOTATIONS if plugin.labelled is None else {}
    large = {key(use, name) for name, kind in declared.items() if kind.large}
    return StoredNames(
        frozenset(columns),
        {key(use, n): (n, kind) for n, kind in declared.items() if isinstance(kind, Label)},
        frozenset(large if plugin.fingerprint is None else {use, *large}),
        frozenset((*columns, *(name for name, kind in declared.items() if not kind.large))),
    )


# The chosen plug-ins on text, the rules of these and of filters, and which filters are costly.


def costly(plugin: Plugin) -> bool:
    """Whether a filter is so slow that it skips utterances that cheap ones reject."""
    return plugins.FILTERS.load(plugin.use).COSTLY


def filter_rules(chosen: tuple[Plugin, ...]) -> tuple[Rule, ...]:
    """Rules of all filters, cheap ones first, so that a row's reason does not depend on whether its
    costly measures were skipped."""
    return rules_of("filters", tuple(sorted(chosen, key=costly)))


def cheap_rules(chosen: tuple[Plugin, ...]) -> tuple[Rule, ...]:
    return rules_of("filters", tuple(p for p in chosen if not costly(p)))


@lru_cache(maxsize=64)
def rules_of(shelf: Measuring, chosen: tuple[Plugin, ...]) -> tuple[Rule, ...]:
    """Rules of all chosen plug-ins of a kind, in the order of the settings."""
    rules: list[Rule] = []
    for plugin in chosen:
        module, settings = plugins.MEASURING[shelf].resolve(plugin)
        rules.extend(module.verdict(settings))
    return tuple(rules)


@lru_cache(maxsize=64)
def text_plugins(chosen: tuple[Plugin, ...]) -> tuple[tuple[str, TextVerdict, StageSettings], ...]:
    """(name, plug-in, its checked settings) of all chosen plug-ins on text, in their order."""
    return tuple((plugin.use, *plugins.TEXT.resolve(plugin)) for plugin in chosen)
