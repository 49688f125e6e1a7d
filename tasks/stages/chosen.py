"""The segmenter and filters of a job, looked up once for all recordings of a call."""

from __future__ import annotations

from dataclasses import dataclass, field

from tasks import plugins
from tasks.checkpoints import verdicts
from tasks.job import Job
from tasks.plugins.contracts import SegmenterPlugin
from tasks.plugins.rules import Rule
from tasks.settings import Plugin, StageSettings
from tasks.stages import measuring


@dataclass(frozen=True, slots=True)
class Chosen:
    """The job with its segmenter, its filters and their rules."""

    job: Job
    segmenter: SegmenterPlugin
    settings: StageSettings  # of the segmenter
    hears: Plugin | None  # recogniser of whole recordings, if the segmenter cuts by one
    rules: tuple[Rule, ...]
    filters: tuple[measuring.Step, ...]
    some: dict[tuple[Plugin, ...], tuple[measuring.Step, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, job: Job) -> Chosen:
        segmenter, settings = plugins.resolve("segmenters", job.filter.segmenter)
        rules = verdicts.filter_rules(job.filter.filters)
        filters = measuring.steps(job.filter.filters)
        return cls(job, segmenter, settings, segmenter.hears(settings), rules, filters)

    def lacking(self, filters: tuple[Plugin, ...]) -> tuple[measuring.Step, ...]:
        """Those filters that some stored spans lack."""
        if filters not in self.some:
            self.some[filters] = measuring.steps(filters)
        return self.some[filters]
