"""What a run of `uttermill serve` uses, beside its settings file as it is now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..tasks.base import masking
from ..tasks.base.errors import ConfigError
from ..tasks.insight.estimating import changes
from ..tasks.insight.estimating.changes import Change
from . import settings
from .settings import PrepareSettings

SHOWN = 5  # changed settings that are named


@dataclass(frozen=True)
class ServedSettings:
    """The settings that `serve` began with: those of its file, with `--set`."""

    path: str
    sets: tuple[str, ...]
    settings: PrepareSettings

    def remarks(self, chosen: PrepareSettings) -> Iterator[str]:
        """Sentences for a run with `chosen`: where the file has changed since `serve` began, and
        where the run publishes something else into the served OUT."""
        try:
            now = settings.read(self.path, [], None, list(self.sets))
        except ConfigError as error:
            yield f"{error}; this run uses the settings with which `uttermill serve` began"
        else:
            if differences := _between(self.settings, now):
                yield (
                    f"{Path(self.path).name} has changed since `uttermill serve` began "
                    f"({_in_words(differences)}), and this run does not use that; start "
                    "`uttermill serve` again to use it"
                )
        differences = _between(self.settings, chosen)
        if differences and chosen.out == self.settings.out:
            yield (
                f"this run has other settings than the schedule ({_in_words(differences)}) and "
                f"the same out: `latest` of {masking.text(str(chosen.out))} becomes its version, "
                "until the next scheduled run; set another out to try settings"
            )


def _between(before: PrepareSettings, after: PrepareSettings) -> list[Change]:
    """Differences that can change a dataset, and of `out`."""
    differences = changes.between(before.job(), after.job())
    if before.out != after.out:
        differences.append(Change("out", before.out, after.out))
    return differences


def _in_words(differences: list[Change]) -> str:
    named = [f"{c.setting} {c.before} → {c.after}" for c in differences[:SHOWN]]
    more = len(differences) - len(named)
    return masking.text(", ".join([*named, *([f"and {more} more"] if more else [])]))
