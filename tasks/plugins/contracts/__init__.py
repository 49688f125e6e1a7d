"""The contracts of plug-ins, kind by kind, as types.

A built-in file, or your own module, is a plug-in if it has every member of its `...Module`. Callers
get a type (see `CONTRACTS`) with more members, all of which have defaults: modules may omit those,
and `tasks.plugins.load` fills them in once. `settings` is always an instance of the module's own
`Settings`. Modules import heavy libraries only inside functions, so that naming a plug-in is cheap.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from .asr import Recogniser, RecogniserModule
from .base import Columns, LoadedPlugin
from .diarizers import DiarizerModule, DiarizerPlugin
from .enhance import EnhancerModule, EnhancerPlugin
from .filters import Filter, FilterModule, limits
from .formats import Format, FormatModule
from .levels import Level, LevelModule
from .resamplers import Resampler, ResamplerModule
from .segmenters import SegmenterModule, SegmenterPlugin
from .sources import Source, SourceModule
from .text import TextVerdict, TextVerdictModule

#: Kinds whose plug-ins have columns and rules.
Measuring = Literal["filters", "text"]


class Contract(NamedTuple):
    """The contract of a kind: the word for its plug-ins, the type of a module, and the type that
    callers get."""

    noun: str
    module: type
    loaded: type


CONTRACTS = {
    "sources": Contract("source", SourceModule, Source),
    "diarizers": Contract("diarizer", DiarizerModule, DiarizerPlugin),
    "segmenters": Contract("segmenter", SegmenterModule, SegmenterPlugin),
    "filters": Contract("filter", FilterModule, Filter),
    "enhance": Contract("enhancer", EnhancerModule, EnhancerPlugin),
    "resamplers": Contract("resampler", ResamplerModule, Resampler),
    "levels": Contract("level", LevelModule, Level),
    "asr": Contract("recogniser", RecogniserModule, Recogniser),
    "text": Contract("rule on texts", TextVerdictModule, TextVerdict),
    "formats": Contract("format", FormatModule, Format),
}
