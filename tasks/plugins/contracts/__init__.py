"""The contracts of plug-ins, kind by kind, as types.

A built-in file, or your own module, is a plug-in if it has the abstract members of its kind. It may
omit the others: `tasks.plugins.load` fills in their defaults. `settings` is always an instance of
the module's own `Settings`. Modules import heavy libraries only inside functions, so that naming a
plug-in is cheap.
"""

from __future__ import annotations

from abc import ABCMeta
from typing import Literal, NamedTuple

from .asr import Recogniser
from .base import Columns, LoadedPlugin
from .diarizers import DiarizerPlugin
from .enhance import EnhancerPlugin
from .filters import Filter, limits
from .formats import Format
from .levels import Level
from .resamplers import Resampler
from .segmenters import SegmenterPlugin
from .sources import Source
from .text import TextVerdict

#: Kinds whose plug-ins have columns and rules.
Measuring = Literal["filters", "text"]


class Contract(NamedTuple):
    """The word for plug-ins of a kind, and their class."""

    noun: str
    plugin: ABCMeta


CONTRACTS = {
    "sources": Contract("source", Source),
    "diarizers": Contract("diarizer", DiarizerPlugin),
    "segmenters": Contract("segmenter", SegmenterPlugin),
    "filters": Contract("filter", Filter),
    "enhance": Contract("enhancer", EnhancerPlugin),
    "resamplers": Contract("resampler", Resampler),
    "levels": Contract("level", Level),
    "asr": Contract("recogniser", Recogniser),
    "text": Contract("rule on texts", TextVerdict),
    "formats": Contract("format", Format),
}
