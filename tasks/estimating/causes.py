"""Changed settings, by the work that they make necessary."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.estimating import changes
from tasks.estimating.changes import Change
from tasks.job import Job
from tasks.json_types import JsonObject


def found_since(job: Job, before: Job | None, described: JsonObject | None) -> list[Change]:
    """Changes of settings since the newest run, and of models and code since the newest version."""
    found = changes.between(before, job) if before else []
    named = {change.setting for change in found}
    models = changes.of_models(described, job) if described else []
    return found + [change for change in models if change.setting not in named]


@dataclass(frozen=True, slots=True)
class Causes:
    """Names of the changed settings, by the work that they make necessary."""

    all: list[Change]
    measures: list[str]  # cuts and measures are made again
    limits: list[str]  # other utterances pass the filters
    pcm: list[str]
    enhanced: list[str]
    texts: list[str]
    version: list[str]  # only what is published

    @property
    def published(self) -> list[str]:
        """What may change published clips, even where all that it needs was computed before."""
        return [*self.limits, *self.pcm, *self.enhanced, *self.texts, *self.version]

    @classmethod
    def of(cls, found: list[Change]) -> Causes:
        def named(*heads: str) -> list[str]:
            return [c.setting for c in found if c.setting.startswith(heads)]

        heard = named(
            "transcribe.backend", "transcribe.llm_text", "transcribe.when", "transcribe.language_by"
        )
        spoken = [name for name in named("sources.") if name.endswith(".language")]
        rest = [name for name in named("transcribe.", "package.") if name not in heard]
        measures = [c.setting for c in changes.measuring(found)]
        return cls(
            found,
            measures,
            named("filter."),
            named("resample."),
            named("enhance"),
            heard + spoken,
            rest,
        )
