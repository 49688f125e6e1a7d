"""Defaults of a run from `--source`: clips as long as the trainer's usual reader takes, and one
speaker across codecs.

Which reader that is follows from the formats. A settings file states these lengths itself, as
`init` writes it. An OUT's first run decides: later ones neither cut its recordings nor name its
speakers anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from ...tasks import plugins
from ...tasks.base.logs import log
from ...tasks.plugins.contracts.formats import FRAMES_PER_SECOND, ReaderLimits
from ...tasks.publish.dataset.reader_drops import SHORTER
from ...tasks.settings import Plugin
from ...tasks.storage import versions
from ..run import run_folder
from ..settings import PrepareSettings

#: Rate of fast speech: of 203 sentences in three languages, 1 in 100 has 19.6 and none has more
#: than 21.
CHARACTERS_A_SECOND = 20.0
#: Defaults of a run without these settings.
LONGEST, TARGET = 30.0, 10.0
WITHOUT_TEXT = "whole_without_text_up_to"
#: Least mean cosine of the voices of one speaker: 0.55 makes two people of one whose recordings
#: alternate between m4a and mp3, 0.45 makes one of two on the telephone.
ACROSS_CODECS = 0.5


def fitted(settings: PrepareSettings) -> PrepareSettings:
    """The settings, with lengths for their formats and the speakers' threshold unless these are
    set."""
    before = _before(settings.job().out)
    segmenter, speakers = settings.filter.segmenter, settings.speakers
    if segmenter.use == "auto" and not {*SHORTER, WITHOUT_TEXT} & segmenter.options.keys():
        cut = _with(segmenter, _lengths(settings, before))
        chosen = settings.filter.model_copy(update={"segmenter": cut})
        settings = settings.model_copy(update={"filter": chosen})
    if speakers.use == "segments" and "threshold" not in speakers.options:
        named = _with(speakers, {"threshold": ACROSS_CODECS})
        settings = settings.model_copy(update={"speakers": named})
    return settings


def _before(out: Path) -> Plugin | None:
    """The segmenter of OUT's newest run or estimate; if their folders are gone, of its newest
    version; None for a new OUT."""
    settings = run_folder.known_settings(out) or run_folder.estimated_settings(out)
    if settings is not None:
        return settings.filter.segmenter
    newest = versions.newest(out)
    if newest is None:
        return None
    return Plugin.model_validate(versions.described(newest)["settings"]["filter"]["segmenter"])


def _with(plugin: Plugin, options: dict[str, float]) -> Plugin:
    return Plugin.model_validate({**plugin.model_dump(), **options}) if options else plugin


def _lengths(settings: PrepareSettings, before: Plugin | None) -> dict[str, float]:
    if before is not None:
        names = (*SHORTER, WITHOUT_TEXT) if WITHOUT_TEXT in before.options else ()
        return {name: before.options[name] for name in names if name in before.options}
    longest = min(_longest(settings.package.formats), default=(LONGEST, ""))
    if longest[0] >= LONGEST:
        return {}
    log.info(
        "Clips have up to %g s, which %s takes; filter.segmenter.max_seconds sets another length",
        *longest,
    )
    target = min(TARGET, math.floor(0.8 * longest[0]))
    return {"target_seconds": target, "max_seconds": longest[0], WITHOUT_TEXT: longest[0]}


def _longest(formats: tuple[Plugin, ...]) -> Iterator[tuple[float, str]]:
    """For each format whose usual reader drops long clips, the longest that it takes, s; and its
    name."""
    for plugin in formats:
        module, chosen = plugins.FORMATS.resolve(plugin)
        if (reader := module.reader(chosen)) is not None:
            bounds = [*_seconds(reader)]
            if bounds:
                yield math.floor(2 * min(bounds)) / 2, reader.reader


def _seconds(reader: ReaderLimits) -> Iterator[float]:
    a_second = {
        "seconds": 1.0,
        "frames": float(FRAMES_PER_SECOND),
        "characters": CHARACTERS_A_SECOND,
    }
    for bound in reader.bounds:
        if bound.side == "max" and bound.measure in a_second:
            yield bound.limit / a_second[bound.measure]
