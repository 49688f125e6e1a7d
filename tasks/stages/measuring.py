"""Filters run on one utterance: as it is decoded, and once its whole recording is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, NamedTuple

from tasks import plugins
from tasks.audio import Clip
from tasks.checkpoints import verdicts
from tasks.plugins.contracts import Filter
from tasks.plugins.rules import judge
from tasks.recording import turns
from tasks.recording.faults import Fault, touching
from tasks.recording.turns import Turn
from tasks.schema import Row
from tasks.settings import Plugin, StageSettings


class WholeRecording(NamedTuple):
    """What is known of a recording once it is decoded to its end."""

    decoded: int
    faults: tuple[Fault, ...]
    turns: tuple[Turn, ...] | None = None  # None: no diarization


def after_all(
    row: Row, recording: Row, whole: WholeRecording, filters: Sequence[Plugin]
) -> dict[str, float | None]:
    """Measures of an utterance that need the whole recording, but none of its samples."""
    start, end = row["start"], row["end"]
    clip = Clip(
        row["rate"],
        row["channels"],
        end - start,
        recording["header_seconds"],
        recording["size"],
        recording_samples=whole.decoded,
        faults=touching(whole.faults, start, end),
        match=row.get("match"),
        turns=None if whole.turns is None else turns.within(whole.turns, start, end),
    )
    found: dict[str, float | None] = {}
    for _, module, settings in _resolved(tuple(filters)):
        if module.AFTER_ALL:
            found.update(module.measure(clip, settings))
    return found


class Measured(NamedTuple):
    """What was measured of one clip: numbers by column, fingerprints by filter."""

    measures: dict[str, float | None]
    fingerprints: dict[str, bytes]


def measured(
    clip: Clip,
    filters: Sequence[Plugin],
    measure_all: bool = False,
    read: Mapping[str, Any] = MappingProxyType({}),
) -> Measured:
    """Run filters on a clip, cheap ones first; costly ones only if those reject nothing.

    `read`: what `reading` has found of it already."""
    found = Measured({}, {})
    for plugin, module, settings in _resolved(tuple(filters)):
        if module.COSTLY and not measure_all:
            rules = verdicts.cheap_rules(tuple(filters))
            if judge(found.measures, rules) is not None:
                break
        known = read.get(f"measure {plugin.use}")
        found.measures.update(module.measure(clip, settings) if known is None else known)
        if module.fingerprint:
            known = read.get(f"fingerprint {plugin.use}")
            made = module.fingerprint(clip, settings) if known is None else known
            found.fingerprints[plugin.use] = made
    return found


def reading(filters: Sequence[Plugin]) -> dict[str, Callable[[Clip], Any]]:
    """What cheap filters do with a clip, for `Readers`."""
    works: dict[str, Callable[[Clip], Any]] = {}
    for plugin, module, settings in _resolved(tuple(filters)):
        if not module.COSTLY:
            works[f"measure {plugin.use}"] = partial(_with, settings, module.measure)
            if module.fingerprint:
                works[f"fingerprint {plugin.use}"] = partial(_with, settings, module.fingerprint)
    return works


@lru_cache(maxsize=64)  # asked for twice a clip
def _resolved(filters: tuple[Plugin, ...]) -> tuple[tuple[Plugin, Filter, StageSettings], ...]:
    """Filters with their settings, cheap ones first."""
    ordered = sorted(filters, key=verdicts.costly)
    return tuple((plugin, *plugins.resolve("filters", plugin)) for plugin in ordered)


def _with(settings: Any, work: Callable[[Clip, Any], Any], clip: Clip) -> Any:
    return work(clip, settings)
