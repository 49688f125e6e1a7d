"""The imports for a plug-in of your own: the types of its inputs and results, its settings, its
errors.

    from .api import Clip, StageSettings, Threshold

`tasks/plugins/contracts/` defines the members of each kind of plug-in. Everything else in `tasks`
may move or change from release to release; the names here stay.
"""

from .audio import BLOCK_FRAMES, BLOCK_VALUES, Clip
from .base.arrays import RATE, Float32s, Float64s, Int64s
from .base.errors import ConfigError, ItemError, RunError
from .base.logs import log
from .models.registry import File, Model
from .plugins.annotation_kinds import Array, Event, Events, Label, Vector
from .plugins.contracts.asr import (
    SPACES,
    Abilities,
    Alphabet,
    SharedWindow,
    SpeechClip,
    Transcript,
    Word,
)
from .plugins.contracts.diarizers import Diarizer
from .plugins.contracts.enhance import Enhancer
from .plugins.contracts.formats import (
    FRAMES_PER_SECOND,
    Bound,
    Hashes,
    Output,
    OutputShard,
    PublishedFile,
    ReaderLimits,
    ReadPcm,
    Rows,
)
from .plugins.contracts.segmenters import Kind, RecordingTranscript, Segmenter, Span
from .plugins.contracts.text import Answer, Question, ScoredTranscript, words
from .plugins.rules import Allowed, Limit, Rejection, Rule, Within
from .recording import Ignored, Locator, Recording, Segment, TimedWord
from .recording.guard import of_file
from .recording.turns import Turn, Voices
from .settings import (
    SECRET,
    Plugin,
    SourceSettings,
    StageSettings,
    Threshold,
    Transient,
)

__all__ = [
    "BLOCK_FRAMES",
    "BLOCK_VALUES",
    "FRAMES_PER_SECOND",
    "RATE",
    "SECRET",
    "SPACES",
    "Abilities",
    "Allowed",
    "Alphabet",
    "Answer",
    "Array",
    "Bound",
    "Clip",
    "ConfigError",
    "Diarizer",
    "Enhancer",
    "Event",
    "Events",
    "File",
    "Float32s",
    "Float64s",
    "Hashes",
    "Ignored",
    "Int64s",
    "ItemError",
    "Kind",
    "Label",
    "Limit",
    "Locator",
    "Model",
    "Output",
    "OutputShard",
    "Plugin",
    "PublishedFile",
    "Question",
    "ReadPcm",
    "ReaderLimits",
    "Recording",
    "RecordingTranscript",
    "Rejection",
    "Rows",
    "Rule",
    "RunError",
    "ScoredTranscript",
    "Segment",
    "Segmenter",
    "SharedWindow",
    "SourceSettings",
    "Span",
    "SpeechClip",
    "StageSettings",
    "Threshold",
    "TimedWord",
    "Transcript",
    "Transient",
    "Turn",
    "Vector",
    "Voices",
    "Within",
    "Word",
    "log",
    "of_file",
    "words",
]
