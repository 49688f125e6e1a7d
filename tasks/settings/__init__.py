"""Settings of every stage: frozen pydantic models."""

from .base import (
    SECRET,
    THRESHOLD,
    TRANSIENT,
    Plugin,
    StageSettings,
    Threshold,
    Transient,
    changes_rows,
    roles,
)
from .package import PackageSettings, Split
from .stages import (
    AnySource,
    Diarizer,
    Enhancer,
    FilterSettings,
    ResampleSettings,
    ShardSettings,
    Source,
    SourceSettings,
)
from .transcribe import TranscribeSettings
