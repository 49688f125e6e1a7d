"""Recipes: hashes of what can change a measure, the PCM or a transcript of one item.

In: the stage's version, the settings that affect its output (unmarked fields, see settings.py), the
plug-in's VERSION and weights, the item's content, the recipes of the upstream steps that shaped its
audio. Never in: thresholds, batch sizes, library versions, paths, or what `auto` resolved to.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tasks import plugins
from tasks.recording import Segment
from tasks.settings import Plugin, ResampleSettings, TranscribeSettings

#: Raise it when tasks/audio/ delivers other samples. What 2 of FILTER_VERSION brought (streams that
#: change midway, faults), and 3 (it decodes on after rejected packets, and finds more faults),
#: changed the samples of no recording that was cut before without damage.
DECODE_VERSION = 1
FILTER_VERSION = 3
RESAMPLE_VERSION = 1
TRANSCRIBE_VERSION = 1


def digest(*parts: Any) -> str:
    """24 hex digits over JSON-able parts; order of mappings does not matter."""
    canonical = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()[:24]


@lru_cache(maxsize=256)  # asked for with each utterance
def of_plugin(shelf: str, plugin: Plugin) -> str:
    """Recipe of a plug-in: its name, VERSION, output-affecting settings and model identity."""
    module, settings = plugins.resolve(shelf, plugin)
    identity = module.identity(settings) if hasattr(module, "identity") else None
    return digest(plugin.use, module.VERSION, settings.recipe(), identity)


def of_cut(segmenter: Plugin, content: str, given: Sequence[Segment] | None) -> str:
    """Recipe of a recording's cuts. Texts of given segments do not move a cut: not in; their
    speakers are in where the segmenter goes by them."""
    module, settings = _segmenter(segmenter)
    by_speaker = hasattr(module, "uses_speakers") and module.uses_speakers(settings)
    spans: Any = None if given is None else [(s.start, s.end) for s in given]
    if given is not None and by_speaker:
        spans = [(s.start, s.end, s.speaker) for s in given]
    shelf = of_plugin("segmenters", segmenter)
    return digest("cut", FILTER_VERSION, DECODE_VERSION, shelf, content, spans)


@lru_cache(maxsize=8)
def _segmenter(plugin: Plugin) -> tuple[Any, Any]:
    return plugins.resolve("segmenters", plugin)


def of_audio(settings: ResampleSettings, content: str, start: int, end: int) -> str:
    """Recipe of an utterance's PCM: the span of the content, and how it was converted."""
    how = [of_plugin("resamplers", settings.resampler), settings.rate, settings.mono]
    levels = [of_plugin("levels", plugin) for plugin in settings.levels]
    what = [*how, *([levels] if levels else []), content, start, end]
    return digest("audio", RESAMPLE_VERSION, DECODE_VERSION, *what)


def of_transcript(
    settings: TranscribeSettings, weights: str, audio: str, language: str | None
) -> str:
    """Recipe of a transcript: backend, model weights, the PCM, and a forced language."""
    shelf = of_plugin("asr", settings.backend)
    return digest("text", TRANSCRIBE_VERSION, shelf, weights, audio, language)
