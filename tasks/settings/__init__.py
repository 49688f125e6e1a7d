"""Settings of every stage: frozen pydantic models."""

from tasks.settings.base import (
    SECRET,
    THRESHOLD,
    TRANSIENT,
    Plugin,
    StageSettings,
    Threshold,
    Transient,
    role,
)
from tasks.settings.package import PackageSettings, Split
from tasks.settings.stages import (
    AnySource,
    Diarizer,
    Enhancer,
    FilterSettings,
    ResampleSettings,
    ShardSettings,
    Source,
    SourceSettings,
)
from tasks.settings.transcribe import TranscribeSettings
