"""The imports for a plug-in of your own: the types of its inputs and results, its settings, its
errors.

    from .api import Clip, StageSettings, Threshold

`tasks/plugins/contracts/` defines the members of each kind of plug-in. Everything else in `tasks`
may move or change from release to release; the names here stay.
"""

from .audio import BLOCK_FRAMES as BLOCK_FRAMES
from .audio import BLOCK_VALUES as BLOCK_VALUES
from .audio import Clip as Clip
from .base.arrays import RATE as RATE
from .base.arrays import Float32s as Float32s
from .base.arrays import Float64s as Float64s
from .base.arrays import Int64s as Int64s
from .base.errors import ConfigError as ConfigError
from .base.errors import ItemError as ItemError
from .base.errors import RunError as RunError
from .base.logs import log as log
from .models.registry import File as File
from .models.registry import Model as Model
from .plugins.annotation_kinds import Array as Array
from .plugins.annotation_kinds import Event as Event
from .plugins.annotation_kinds import Events as Events
from .plugins.annotation_kinds import Label as Label
from .plugins.annotation_kinds import Vector as Vector
from .plugins.contracts.asr import SPACES as SPACES
from .plugins.contracts.asr import Abilities as Abilities
from .plugins.contracts.asr import Alphabet as Alphabet
from .plugins.contracts.asr import SharedWindow as SharedWindow
from .plugins.contracts.asr import SpeechClip as SpeechClip
from .plugins.contracts.asr import Transcript as Transcript
from .plugins.contracts.asr import Word as Word
from .plugins.contracts.audio import Diarizer as Diarizer
from .plugins.contracts.audio import Enhancer as Enhancer
from .plugins.contracts.formats import FRAMES_PER_SECOND as FRAMES_PER_SECOND
from .plugins.contracts.formats import Bound as Bound
from .plugins.contracts.formats import Hashes as Hashes
from .plugins.contracts.formats import Output as Output
from .plugins.contracts.formats import OutputShard as OutputShard
from .plugins.contracts.formats import PublishedFile as PublishedFile
from .plugins.contracts.formats import ReaderLimits as ReaderLimits
from .plugins.contracts.formats import ReadPcm as ReadPcm
from .plugins.contracts.formats import Rows as Rows
from .plugins.contracts.segmenters import Kind as Kind
from .plugins.contracts.segmenters import RecordingTranscript as RecordingTranscript
from .plugins.contracts.segmenters import Segmenter as Segmenter
from .plugins.contracts.segmenters import Span as Span
from .plugins.contracts.text import Answer as Answer
from .plugins.contracts.text import Question as Question
from .plugins.contracts.text import ScoredTranscript as ScoredTranscript
from .plugins.contracts.text import words as words
from .plugins.rules import Allowed as Allowed
from .plugins.rules import Limit as Limit
from .plugins.rules import Rejection as Rejection
from .plugins.rules import Rule as Rule
from .plugins.rules import Within as Within
from .recording import Ignored as Ignored
from .recording import Locator as Locator
from .recording import Recording as Recording
from .recording import Segment as Segment
from .recording import TimedWord as TimedWord
from .recording.guard import of_file as of_file
from .recording.turns import Turn as Turn
from .recording.turns import Voices as Voices
from .settings import SECRET as SECRET
from .settings import Plugin as Plugin
from .settings import SourceSettings as SourceSettings
from .settings import StageSettings as StageSettings
from .settings import Threshold as Threshold
from .settings import Transient as Transient
