"""The rows of the tables as types, a TypedDict for each schema of `tasks.base.schema`.

`NotRequired`: who makes a row may leave the column out, and it is null then; a part that an earlier
release wrote may lack it. A row with an `error_code` has null in what an item has that did not
fail. Annotations here say what the other rows hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, NotRequired, TypedDict

import pyarrow as pa

#: A row of any of these tables, to hand on or to look a column up by name.
AnyRow = Mapping[str, object]

#: Measures by column, as a column of type map holds them.
Pairs = list[tuple[str, float | None]]
#: A measure: a number, or a label.
MeasureValue = float | str | None
#: Labels by name, likewise.
LabelPairs = list[tuple[str, str]]


class TimedWordRow(TypedDict):
    word: str
    start: float
    end: float


class SegmentRow(TypedDict):
    start: float
    end: float | None
    source_id: str | None
    text: str | None
    speaker: str | None
    language: str | None
    words: NotRequired[list[TimedWordRow] | None]
    labels: NotRequired[LabelPairs | None]


class StatedTurnRow(TypedDict):
    start: float
    end: float
    speaker: str
    channel: NotRequired[int | None]


class RecordingRow(TypedDict):
    recording: str
    dataset: str
    path: str
    source_path: str
    locator: str
    size: int
    guard: str
    listed: str
    content: NotRequired[str]
    header_rate: NotRequired[int | None]
    header_channels: NotRequired[int | None]
    header_seconds: NotRequired[float | None]
    format: NotRequired[str | None]
    channels: NotRequired[list[int] | None]
    parts: NotRequired[int | None]
    division: NotRequired[str | None]
    copy_of: NotRequired[str | None]
    source_id: str | None
    text: str | None
    speaker: str | None
    language: str | None
    length: NotRequired[float | None]
    labels: NotRequired[LabelPairs | None]
    segments: list[SegmentRow] | None
    rttm: NotRequired[list[StatedTurnRow] | None]
    rttm_error: NotRequired[str | None]
    error_code: str | None
    error_detail: str | None
    present: bool


class FaultRow(TypedDict):
    start: int
    end: int
    what: str
    shifts: bool


class TurnRow(TypedDict):
    start: int
    end: int
    speaker: int
    name: str | None
    confidence: float | None
    voice: bytes
    both: bytes | None  # null in what earlier releases stored


class CutRow(TypedDict):
    cut: str
    recording: str
    kind: str
    start: int
    end: int
    given: NotRequired[int | None]
    reason: NotRequired[str | None]
    rate: int
    channels: NotRequired[int]
    decoded: NotRequired[int]
    decode_faults: NotRequired[int]
    faults: NotRequired[list[FaultRow] | None]
    notes: NotRequired[list[str] | None]
    error_code: NotRequired[str | None]
    error_detail: NotRequired[str | None]
    measures: Pairs | None
    prints: NotRequired[list[tuple[str, bytes | None]] | None]
    turn: NotRequired[int | None]
    text: NotRequired[str | None]
    match: NotRequired[float | None]
    voice: NotRequired[int | None]
    turns: NotRequired[list[TurnRow]]


class AudioRow(TypedDict):
    audio: str
    recording: str
    start: int
    end: int
    rate: NotRequired[int]
    num_samples: NotRequired[int]
    sha256: NotRequired[str]
    blob: NotRequired[str]
    offset: NotRequired[int]
    error_code: NotRequired[str | None]
    error_detail: NotRequired[str | None]


class EnhancedRow(AudioRow):
    measures: NotRequired[Pairs | None]  # None: the PCM of the clip as it is


class WordRow(TypedDict):
    word: str
    start: float
    end: float
    probability: float | None


class ClipTurnRow(TypedDict):
    """A turn of a clip; `text` and `words` are null where the times of words are not known."""

    speaker: str
    number: int
    start: float
    end: float
    backchannel: bool
    text: str | None
    words: list[WordRow] | None


class ScoresRow(TypedDict):
    """SCORES: what a recogniser says about its own transcript."""

    avg_logprob: NotRequired[float | None]
    no_speech_probability: NotRequired[float | None]
    compression_ratio: NotRequired[float | None]
    detected_language: NotRequired[str | None]
    detected_probability: NotRequired[float | None]


class TranscriptRow(ScoresRow):
    transcript: str
    audio: str | None
    raw_text: NotRequired[str | None]
    text: NotRequired[str | None]
    normalised: NotRequired[str | None]
    language: NotRequired[str | None]
    language_probability: NotRequired[float | None]
    speech_seconds: NotRequired[float | None]
    speech_after_text: NotRequired[float | None]
    speech_without_words: NotRequired[float | None]
    speech_without_words_start: NotRequired[float | None]
    word_times: NotRequired[list[WordRow] | None]
    reference: NotRequired[str | None]
    reference_normalised: NotRequired[str | None]
    words: NotRequired[int | None]
    word_errors: NotRequired[int | None]
    chars: NotRequired[int | None]
    char_errors: NotRequired[int | None]
    scoring: NotRequired[str | None]
    error_code: NotRequired[str | None]
    error_detail: NotRequired[str | None]


class LedgerRow(TypedDict):
    recording: str
    source_path: str
    dataset: str
    utterance: str | None
    channel: NotRequired[int | None]
    track: NotRequired[int | None]
    start: float
    end: float
    samples: int
    seconds: float
    overlap_samples: int
    sample_rate: int
    outcome: str
    stage: str
    reason: str
    value: float | None
    threshold: float | None
    detail: str | None
    language: str | None


class UtteranceRow(ScoresRow):
    """Measures follow as columns of their own, which `AnyRow` gives by name."""

    id: str
    source_id: str | None
    dataset: str
    split: str
    recording: str
    source_path: str
    channel: NotRequired[int | None]
    start: float
    end: float
    num_samples: int
    sample_rate: int
    text: str
    normalised: str | None
    text_source: str
    hypothesis: str | None
    language: str | None
    language_probability: float | None
    language_vote: NotRequired[float | None]
    speech_seconds: NotRequired[float | None]
    speech_after_text: NotRequired[float | None]
    words_per_speech_second: NotRequired[float | None]
    word_times: NotRequired[list[WordRow] | None]
    words: int | None
    word_errors: int | None
    chars: int | None
    char_errors: int | None
    speaker: str | None
    shard: NotRequired[str]
    generation: NotRequired[int]
    offset: NotRequired[int]
    sha256: str


class Published(NamedTuple):
    """What `package.publish` names of a clip, by column, and the types of the columns."""

    values: Mapping[str, object]
    types: Mapping[str, pa.DataType]


class ClipRow(UtteranceRow):
    """A clip on its way into a version: where its PCM lies, and columns that some settings add."""

    work_shard: NotRequired[str | None]
    blob: NotRequired[str | None]
    blob_offset: NotRequired[int | None]
    beside_blob: NotRequired[str | None]
    beside_offset: NotRequired[int | None]
    sha256_enhanced: NotRequired[str | None]
    muted: NotRequired[str | None]
    stored_sha256: NotRequired[str | None]
    beside_sha256: NotRequired[str | None]
    audio_is: NotRequired[str]
    llm_text: NotRequired[str | None]
    reference_words: NotRequired[list[WordRow] | None]
    reference_confidence: NotRequired[float | None]
    labels: NotRequired[LabelPairs | None]
    turns: NotRequired[list[ClipTurnRow] | None]
    annotations: NotRequired[Published]  # of formats that hold them, where there are any


class SplitRow(TypedDict):
    kind: str
    name: str
    split: str


class SpeakerRow(TypedDict):
    speaker: str
    recording: str
    number: int
    content: str
    seconds: float


class MetricRow(TypedDict):
    stage: str
    step: str
    shard: str
    kind: str
    worker: str | None
    host: str | None
    pid: int | None
    started: datetime | None
    queue_seconds: float | None
    wall_seconds: float | None
    cpu_seconds: float | None
    load_seconds: float | None
    audio_seconds: float | None
    items_computed: int | None
    items_reused: int | None
    rss_before: int | None
    rss_peak: int | None
    attempts: int
    deaths: int
    lost_seconds: float | None
    isolated: bool
    gpu: str | None
    gpu_percent: float | None
    gpu_memory: int | None
    error: str | None
