"""What programs use: `uttermill.prepare` runs the pipeline, `uttermill.load` opens its results.

Nothing is printed: messages and progress go to the logger `uttermill`. A program that calls
`prepare` in its main module needs no `if __name__ == "__main__"`: workers do not import it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

from ..tasks.base import environment
from ..tasks.base.json_types import JsonObject
from ..tasks.publish.published import Dataset, load
from . import progress, settings
from .settings import PrepareSettings


@dataclass(frozen=True, slots=True)
class Reason:
    """What one reason took away: `items` clips or recordings, `seconds` of audio."""

    items: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Result:
    """A run's result: counts of the whole published version; of this run in `new` and `stages`."""

    dataset: str  # the version's folder or URL
    version: int
    new_version: bool  # False: nothing has changed since the last run
    recordings: Mapping[str, int]  # in, failed
    utterances: Mapping[str, int]  # in, packaged, dropped, failed
    seconds: Mapping[str, float]  # of audio, by outcome
    reasons: Mapping[str, Reason]  # by `stage.reason`
    wer: float | None  # of packaged clips with references
    cer: float | None
    new: Mapping[str, int]  # recordings, packaged, dropped, failed
    stages: Mapping[str, Mapping[str, float]]  # shards and items that were computed or reused
    wall_seconds: float
    details: JsonObject  # all that `uttermill run --json` prints

    def load(self) -> Dataset:
        return load(self.dataset)


def prepare(settings_given: Mapping[str, Any] | PrepareSettings | str | PathLike[str]) -> Result:
    """Run the pipeline, as `uttermill run` does, and return what it published.

    `settings_given`: a mapping with the keys of a settings file, or the path of one. Relative paths
    start from the current folder. Results that an earlier run stored in `out` are reused.

    ConfigError for bad settings, before anything starts; OutLocked if another run holds `out`;
    other errors of the family MillError if the run failed or refused to publish.
    """
    if isinstance(settings_given, PrepareSettings):
        chosen = settings_given.rooted()
    elif isinstance(settings_given, Mapping):
        chosen = settings.of_mapping(dict(settings_given))
    else:
        chosen = settings.read(fspath(settings_given), [], None, [])
    from ..tasks.stages.listing import entries
    from .run import launch

    with environment.set_up(), progress.logged(), entries.listed_once():
        answer = launch.run(chosen)
    reasons = {name: Reason(**entry) for name, entry in answer["reasons"].items()}
    names = [name for name in Result.__dataclass_fields__ if name not in ("reasons", "details")]
    return Result(**{name: answer[name] for name in names}, reasons=reasons, details=answer)
