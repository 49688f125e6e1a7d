"""Runs filters on one utterance: when it is decoded, and once its whole recording is known; looks
plug-ins up once for all recordings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .. import plugins
from ..audio import Clip
from ..audio.channels import Beside
from ..base.schema import MeasureValue, RecordingRow
from ..plugins import annotation_kinds
from ..plugins.annotation_kinds import Annotations
from ..plugins.contracts import SegmenterPlugin
from ..plugins.contracts.base import PluginSettings
from ..plugins.rules import Rule, judge
from ..recording import turns
from ..recording.faults import Fault, touching
from ..recording.limits import Limits
from ..recording.turns import Turn
from ..segmenters import Span
from ..settings import Plugin, StageSettings
from ..settings.job import Job
from ..shard_store import chosen_rules
from .cutting import StreamFacts


class WholeRecording(NamedTuple):
    decoded: int
    faults: tuple[Fault, ...]
    turns: tuple[Turn, ...] | None = None  # None: no diarization
    beside: Beside | None = None  # None: all channels of the file are mixed


class Step(NamedTuple):
    """A filter to apply to many clips: its members and settings, looked up once."""

    plugin: Plugin
    settings: StageSettings
    measure: Callable[[Clip, PluginSettings], Mapping[str, Any]]
    fingerprint: Callable[[Clip, PluginSettings], bytes] | None
    costly: bool
    after_all: bool
    annotations: Annotations


def steps(filters: tuple[Plugin, ...]) -> tuple[Step, ...]:
    """Filters in the order in which they run: cheap ones first."""
    resolved = []
    for plugin in sorted(filters, key=chosen_rules.costly):
        module, settings = plugins.FILTERS.resolve(plugin)
        members = module.measure, module.fingerprint, module.COSTLY, module.AFTER_ALL
        declared = module.ANNOTATIONS if module.labelled is None else {}
        resolved.append(Step(plugin, settings, *members, declared))
    return tuple(resolved)


@dataclass(frozen=True, slots=True)
class Chosen:
    job: Job
    segmenter: SegmenterPlugin
    settings: StageSettings  # of the segmenter
    hears: Plugin | None  # recogniser of whole recordings, if the segmenter cuts by one
    rules: tuple[Rule, ...]
    filters: tuple[Step, ...]
    limits: Limits

    @classmethod
    def from_job(cls, job: Job) -> Chosen:
        segmenter, settings = plugins.SEGMENTERS.resolve(job.filter.segmenter)
        rules = chosen_rules.filter_rules(job.filter.all_filters)
        filters = steps(job.filter.all_filters)
        hears, limits = segmenter.hears(settings), Limits.from_settings(job.filter)
        return cls(job, segmenter, settings, hears, rules, filters, limits)


def after_all(
    result: Measured,
    span: Span,
    facts: StreamFacts,
    recording: RecordingRow,
    whole: WholeRecording,
    chosen: Sequence[Step],
) -> None:
    """Add the measures of an utterance that need its whole recording but not its samples."""
    waiting = [step for step in chosen if step.after_all]
    if not waiting:
        return
    start, end = span.start, span.end
    clip = Clip(
        facts.rate,
        facts.channels,
        end - start,
        recording["header_seconds"],
        recording["size"],
        recording_samples=whole.decoded,
        faults=touching(whole.faults, start, end),
        match=span.match,
        turns=None if whole.turns is None else turns.within(whole.turns, start, end),
        beside=None if whole.beside is None else whole.beside.levels(start, end),
    )
    for step in waiting:
        result.take(step, step.measure(clip, step.settings), clip)


class Measured(NamedTuple):
    """The measures of one clip: numbers by column, labels by name, and values stored as bytes: all
    annotations, by `annotation_kinds.key`, and fingerprints, by filter."""

    measures: dict[str, float | None]
    labels: dict[str, str | None]
    stored: dict[str, bytes | None]

    @property
    def values(self) -> Mapping[str, MeasureValue]:
        return {**self.measures, **self.labels} if self.labels else self.measures

    def take(self, step: Step, given: Mapping[str, Any], clip: Clip) -> None:
        """Add one filter's values; RunError for an annotation that is not of its kind."""
        if not step.annotations:
            self.measures.update(given)
            return
        use, declared = step.plugin.use, step.annotations
        taken = annotation_kinds.take(f"the filter {use}", declared, given, clip.seconds)
        self.measures.update(taken.numbers)
        self.labels.update(taken.labels)
        values: Mapping[str, Any] = {**taken.labels, **taken.large}
        for name, value in values.items():
            stored = None if value is None else declared[name].encoded(value)
            self.stored[annotation_kinds.key(use, name)] = stored


def measured(clip: Clip, chosen: Sequence[Step], measure_all: bool = False) -> Measured:
    """Run filters on a clip, cheap ones first; costly ones only if those reject nothing."""
    result = Measured({}, {}, {})
    for step in chosen:
        if step.costly and not measure_all:
            rules = chosen_rules.cheap_rules(tuple(step.plugin for step in chosen))
            if judge(result.values, rules) is not None:
                break
        result.take(step, step.measure(clip, step.settings), clip)
        if step.fingerprint:
            result.stored[step.plugin.use] = step.fingerprint(clip, step.settings)
    return result
