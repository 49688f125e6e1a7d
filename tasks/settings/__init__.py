"""Settings of every stage: frozen pydantic models."""

from tasks.settings.base import (
    SECRET,
    THRESHOLD,
    TRANSIENT,
    Masked,
    Plugin,
    Shelf,
    StageSettings,
    Threshold,
    Transient,
    role,
)
from tasks.settings.package import Format, PackageSettings
from tasks.settings.portions import Split
from tasks.settings.stages import (
    AnySource,
    Diarizer,
    Enhancer,
    Filter,
    FilterSettings,
    Level,
    Resampler,
    ResampleSettings,
    Segmenter,
    ShardSettings,
    Source,
    SourceSettings,
)
from tasks.settings.transcribe import Backend, TranscribeSettings, Verdict

__all__ = [
    "SECRET",
    "THRESHOLD",
    "TRANSIENT",
    "AnySource",
    "Backend",
    "Diarizer",
    "Enhancer",
    "Filter",
    "FilterSettings",
    "Format",
    "Level",
    "Masked",
    "PackageSettings",
    "Plugin",
    "ResampleSettings",
    "Resampler",
    "Segmenter",
    "ShardSettings",
    "Shelf",
    "Source",
    "SourceSettings",
    "Split",
    "StageSettings",
    "Threshold",
    "TranscribeSettings",
    "Transient",
    "Verdict",
    "role",
]
