"""Enhanced clips: their PCM, DNSMOS before and after, and which of the two clips is used.

Both clips are always made and scored, so that `keep_if_better` and `min_ovrl` are limits, which
recompute nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from .. import plugins
from ..base import shelves
from ..base.errors import ConfigError
from ..base.schema import EnhancedRow, MeasureValue
from ..plugins.contracts import Columns
from ..plugins.rules import Limit, Rule, Within, judge
from ..settings import Plugin
from ..settings.job import Job
from . import recipe
from .utterance import UNCONVERTED, Outcome, Utterance, failed

OVRL = "dnsmos_ovrl"
Scores = tuple[tuple[str, float | None], ...]  # by column


def scorer(job: Job) -> Plugin:
    """The filter `dnsmos` as configured, or with its defaults."""
    chosen = (plugin for plugin in job.filter.filters if plugin.use == "dnsmos")
    return next(chosen, Plugin(use="dnsmos"))


def recipe_of(job: Job, audio: str) -> str:
    """Recipe of an utterance's enhanced PCM and of its scores; `audio`: recipe of its original
    PCM."""
    how = recipe.of_plugin("enhance", job.enhance), recipe.of_plugin("filters", scorer(job))
    return recipe.digest("enhanced", *how, audio)


def after(column: str) -> str:
    """The column for an enhanced clip's score."""
    return f"{column}_enhanced"


def measures(job: Job) -> Columns:
    """Columns of the filters' measures and, if clips are enhanced, of the scores of both clips."""
    units = dict[str, tuple[str, str]]()
    for plugin in job.filter.all_filters:
        units |= plugins.columns("filters", plugin.use)
    if recipe.enhancing(job):
        units |= {**plugins.columns("filters", "dnsmos"), **after_columns()}
    return units


def after_columns() -> Columns:
    """Score columns of the enhanced clip."""
    before = plugins.columns("filters", "dnsmos").items()
    return {after(name): (unit, f"{doc}, of the enhanced clip") for name, (unit, doc) in before}


def before(measures: Mapping[str, MeasureValue]) -> Scores:
    """The original's scores from an utterance's measures, if the filter `dnsmos` took them."""
    names = plugins.columns("filters", "dnsmos")
    scores = ((name, measures[name]) for name in names if name in measures)
    return tuple((name, None if value is None else float(value)) for name, value in scores)


def rules(job: Job) -> tuple[Rule, ...]:
    """The rules on the enhanced clip's score; none if nothing is enhanced."""
    if job.enhance.use == "none":
        return ()
    values = plugins.ENHANCE.resolve(job.enhance)[1].model_dump()
    least = values.get("min_ovrl")
    original = (Within(OVRL, least),) if values.get("keep_if_better") else ()
    return (Limit(after(OVRL), least, None, "low_dnsmos_ovrl", unless=original),)


def holds_both(use: str) -> bool:
    return "sha256_enhanced" in plugins.FORMATS.load(use).COLUMNS


def check(job: Job) -> None:
    """Raises ConfigError if the settings package enhanced clips without making any, package two
    clips in a format that holds one, or lack the scoring model."""
    both = job.package.audio == "both"
    for plugin in job.package.formats if both else ():
        if not holds_both(plugin.use):
            able = filter(holds_both, shelves.names("formats"))
            raise ConfigError(
                f"package.audio=both: the format {plugin.use} has one field of audio; those with "
                f"two are {', '.join(able)}"
            )
    if recipe.enhancing(job):
        recipe.of_plugin("filters", scorer(job))
        return
    if both or job.transcribe.hear == "enhanced":
        setting = "package.audio=both" if both else "transcribe.hear=enhanced"
        raise ConfigError(f"{setting} needs enhanced clips: choose an enhancer by enhance.use")


def heard(job: Job) -> bool:
    return recipe.enhancing(job) and job.transcribe.hear == "enhanced"


def beside(job: Job, utterance: Utterance, row: EnhancedRow | None) -> None:
    """Gives the utterance its enhanced clip's row: its scores, the resulting outcome, and which of
    the two clips is recognised and packaged."""
    if row is None or row["error_code"]:
        utterance.outcome = UNCONVERTED if row is None else failed("enhance", row)
        return
    scores = dict(row["measures"] or ())
    utterance.measures = {**scores, **utterance.measures}
    if not utterance.spared and (rejection := judge(utterance.measures, rules(job))):
        limit = rejection.value, rejection.threshold
        utterance.outcome = Outcome("dropped", "enhance", rejection.reason, *limit)
    better = not plugins.ENHANCE.resolve(job.enhance)[1].model_dump().get("keep_if_better")
    if not better:
        old, new = scores.get(OVRL), scores.get(after(OVRL))
        better = old is not None and new is not None and new > old
    utterance.beside = row if job.package.audio == "both" else None
    if better and job.package.audio == "enhanced":
        utterance.packed = row
    if better and heard(job):
        utterance.pcm, utterance.hears = row, row["audio"]
