"""The rows of every table: each column's type, meaning and unit (`columns.schema_of` reads them).

`NotRequired`: code that makes a row may leave the column out; it is null then. A row with an
`error_code` has null in all columns that only a successful item has; annotations describe the other
rows.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, NamedTuple, NotRequired, TypedDict

import pyarrow as pa

#: A row of any of these tables, where only columns are looked up by name.
AnyRow = Mapping[str, object]

#: Measures by column, as a column of type map holds them.
Pairs = list[tuple[str, float | None]]
#: A measure: a number, or a label.
MeasureValue = float | str | None
#: Labels by name, as a column of type map holds them.
LabelPairs = list[tuple[str, str]]

INT32 = pa.int32()

#: Columns that several tables have.
Dataset = Annotated[str, "name of its source"]
SourceId = Annotated[str | None, "the source's own key"]
ErrorDetail = Annotated[str | None, "the same in words"]
Recording = Annotated[str, "dataset name and path in it"]
Start = Annotated[int, "first sample", "samples at native rate"]
End = Annotated[int, "sample after the last", "samples at native rate"]
ErrorCode = Annotated[str | None, "why it is quarantined"]
Sha256 = Annotated[str, "hash of the int16 little-endian PCM"]
Language = Annotated[str | None, "language heard or forced"]
AvgLogprob = Annotated[float | None, "mean log-probability", "nats per token"]
NoSpeechProbability = Annotated[float | None, "probability of no speech"]
CompressionRatio = Annotated[float | None, "bytes of text / bytes compressed"]
DetectedLanguage = Annotated[str | None, "language that the recogniser detects by itself"]
DetectedProbability = Annotated[float | None, "probability of that language"]
SpeechSeconds = Annotated[float | None, "speech that the voice detector finds in the clip", "s"]
SpeechAfterText = Annotated[float | None, "the part of it behind the last word", "s"]
Words = Annotated[int | None, "words of the reference"]
Chars = Annotated[int | None, "characters of the reference"]
SourcePath = Annotated[str, "original path"]
Channel = Annotated[int | None, "channel of the file, from 0; null: the mix of all", INT32]


class TimedWordRow(TypedDict):
    """When a word is said by the source, in seconds of the recording."""

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
    channel: NotRequired[Annotated[int | None, INT32]]


class RecordingRow(TypedDict):
    """One row a recording; the newest part of a shard holds its current rows."""

    recording: Annotated[str, "dataset name and path in it; identifies the recording"]
    dataset: Dataset
    path: Annotated[str, "path inside the dataset"]
    source_path: Annotated[str, "original path, for people"]
    locator: Annotated[str, "where its bytes lie, as JSON"]
    size: Annotated[int, "encoded size", "bytes"]
    guard: Annotated[str, "size, mtime in ns, inode and ctime when it was hashed"]
    listed: Annotated[str, "hash of what the source says of it"]
    content: NotRequired[Annotated[str, "sha256 of the encoded bytes; null when it cannot be read"]]
    header_rate: NotRequired[Annotated[int | None, "sample rate by header", "Hz"]]
    header_channels: NotRequired[Annotated[int | None, "channels by header"]]
    header_seconds: NotRequired[Annotated[float | None, "duration by header; never summed", "s"]]
    start_seconds: NotRequired[
        Annotated[float | None, "time of its first sample in its container; null: 0", "s"]
    ]
    format: NotRequired[Annotated[str | None, "container/codec"]]
    channels: NotRequired[
        Annotated[list[int] | None, "channels that are heard, from 0; null: all", pa.list_(INT32)]
    ]
    parts: NotRequired[
        Annotated[int | None, "recordings that its file was divided into; null: it is whole", INT32]
    ]
    division: NotRequired[
        Annotated[str | None, "whether its channels hold different voices, in words"]
    ]
    copy_of: NotRequired[
        Annotated[str | None, "recording of the same bytes that is processed instead; null: none"]
    ]
    source_id: SourceId
    text: Annotated[str | None, "reference text of the whole recording"]
    speaker: Annotated[str | None, "speaker of the whole recording"]
    language: Annotated[str | None, "language that the source states"]
    labels: NotRequired[Annotated[LabelPairs | None, "labels of the whole recording; null: none"]]
    segments: Annotated[list[SegmentRow] | None, "spans that the source asks for"]
    length: NotRequired[
        Annotated[float | None, "from its start, that the source asks for; null: all of it", "s"]
    ]
    film_time: NotRequired[
        Annotated[bool | None, "times of its segments are those of the container, as in subtitles"]
    ]
    captions: NotRequired[
        Annotated[str | None, "by_hand or automatic, if its segments are captions; else null"]
    ]
    rttm: NotRequired[
        Annotated[list[StatedTurnRow] | None, "who speaks when, by an RTTM file", "s"]
    ]
    rttm_error: NotRequired[Annotated[str | None, "why that file is no use"]]
    error_code: Annotated[str | None, "why it is quarantined already here"]
    error_detail: ErrorDetail
    present: Annotated[bool, "was in the source at the last listing"]


class FaultRow(TypedDict):
    """Damage of a recording, in samples at native rate. `shifts`: later times are wrong."""

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
    both: bytes
    channel: NotRequired[Annotated[int | None, INT32]]


class CutRow(TypedDict):
    """One row for a recording (kind `recording`) and one for each span of it. Items of the filter
    stage."""

    cut: Annotated[str, "recipe of the recording's cuts"]
    recording: Recording
    kind: Annotated[str, "recording, utterance, non_speech, unsegmented, or turns"]
    start: Start
    end: End
    given: NotRequired[Annotated[int | None, "index of the source's segment"]]
    reason: NotRequired[Annotated[str | None, "why an unsegmented span is none"]]
    rate: Annotated[int, "native sample rate", "Hz"]
    channels: NotRequired[Annotated[int, "native channels"]]
    decoded: NotRequired[
        Annotated[int, "samples decoded (row `recording`)", "samples at native rate"]
    ]
    decode_faults: NotRequired[Annotated[int, "faults of the recording (row `recording`)"]]
    faults: NotRequired[
        Annotated[list[FaultRow] | None, "where they are", "samples at native rate"]
    ]
    notes: NotRequired[Annotated[list[str] | None, "oddities of the recording that cost nothing"]]
    error_code: NotRequired[ErrorCode]
    error_detail: NotRequired[ErrorDetail]
    measures: Annotated[Pairs | None, "measured columns of an utterance"]
    prints: NotRequired[
        Annotated[
            list[tuple[str, bytes | None]] | None,
            "annotations by filter/name, fingerprints by filter",
        ]
    ]
    turn: NotRequired[Annotated[int | None, "index of the source's segment that it is a part of"]]
    text: NotRequired[
        Annotated[str | None, "its part of the recording's text, where the segmenter found it"]
    ]
    match: NotRequired[Annotated[float | None, "how well that agrees with what was heard, 0 to 1"]]
    voice: NotRequired[Annotated[int | None, "number of the speaker whose turn it was cut from"]]
    turns: NotRequired[
        Annotated[list[TurnRow], "who speaks when (row `turns`)", "samples at native rate"]
    ]


class AudioRow(TypedDict):
    """One row an utterance whose PCM was made. Items of the resample stage."""

    audio: Annotated[str, "recipe of the PCM"]
    recording: Recording
    start: Start
    end: End
    rate: NotRequired[Annotated[int, "sample rate of the PCM", "Hz"]]
    num_samples: NotRequired[Annotated[int, "length of the PCM", "samples"]]
    sha256: NotRequired[Sha256]
    blob: NotRequired[Annotated[str, "file in audio/<shard>/ that holds it"]]
    offset: NotRequired[Annotated[int, "where it starts in the blob", "bytes"]]
    error_code: NotRequired[ErrorCode]
    error_detail: NotRequired[ErrorDetail]


class EnhancedRow(AudioRow):
    """Rows of enhanced PCM; `measures` are null where enhancement changed nothing."""

    measures: NotRequired[Annotated[Pairs | None, "DNSMOS before and after, of an enhanced clip"]]


class WordRow(TypedDict):
    """When a word was heard, in seconds of the utterance."""

    word: str
    start: float
    end: float
    probability: float | None


class ClipTurnRow(TypedDict):
    """A turn of a clip that holds several, in seconds of the clip; `channel`: of the recording, if
    each person has one; `text` and `words` are null if word times are unknown."""

    speaker: str
    number: int
    start: float
    end: float
    backchannel: bool
    channel: int | None
    text: str | None
    words: list[WordRow] | None


class LabelledTurnRow(ClipTurnRow):
    """A turn in versions whose sources keep labels: those of its longest segment, completed by
    those of the recording."""

    labels: LabelPairs | None


class HeardRow(TypedDict):
    """What identifies a transcript."""

    transcript: Annotated[str, "recipe of the transcript"]
    audio: Annotated[str | None, "recipe of the PCM that was heard"]


class TranscriptRow(HeardRow, total=False):
    """One row an utterance that was heard. Items of the transcribe stage."""

    raw_text: Annotated[str | None, "what the recogniser heard, as it gave it"]
    text: Annotated[str | None, "the same clean: NFC, no control characters, single spaces"]
    normalised: Annotated[str | None, "the same as it is compared, by the rule of `scoring`"]
    language: Language
    language_probability: Annotated[float | None, "probability of that language; null when forced"]
    avg_logprob: AvgLogprob
    no_speech_probability: NoSpeechProbability
    compression_ratio: CompressionRatio
    text_probability: Annotated[
        float | None, "probability of a short clip's words: the mean of two hearings"
    ]
    detected_language: DetectedLanguage
    detected_probability: DetectedProbability
    speech_seconds: SpeechSeconds
    speech_after_text: SpeechAfterText
    speech_without_words: Annotated[
        float | None, "most of it in one stretch that no word covers", "s"
    ]
    speech_without_words_start: Annotated[
        float | None, "where in the clip that stretch begins", "s"
    ]
    word_times: Annotated[list[WordRow] | None, "words of `raw_text`; null: not asked for", "s"]
    reference: Annotated[str | None, "the source's text, clean, that errors were counted against"]
    reference_normalised: Annotated[str | None, "the same as it is compared"]
    words: Words
    word_errors: Annotated[int | None, "substitutions, deletions and insertions of words"]
    chars: Chars
    char_errors: Annotated[int | None, "the same for characters"]
    scoring: Annotated[
        str | None, "version of the rules of comparison, and language that chose one"
    ]
    error_code: ErrorCode
    error_detail: ErrorDetail


class LedgerRow(TypedDict):
    """One row for every span of every recording; a single row of 0 seconds for a recording that
    cannot be decoded."""

    recording: Recording
    source_path: SourcePath
    dataset: Annotated[str, "name of the source"]
    utterance: Annotated[str | None, "id, where the span is an utterance"]
    channel: NotRequired[Channel]
    track: NotRequired[
        Annotated[int | None, "audio track of the file, from 0; null: the first", INT32]
    ]
    start: Annotated[float, "start of the span", "s"]
    end: Annotated[float, "end of the span", "s"]
    samples: Annotated[int, "samples that this row accounts for", "samples at native rate"]
    seconds: Annotated[float, "the same as time", "s"]
    overlap_samples: Annotated[int, "samples that an earlier row accounts for", "samples"]
    sample_rate: Annotated[int, "native sample rate", "Hz"]
    outcome: Annotated[str, "packaged, dropped, failed, non_speech or unsegmented"]
    stage: Annotated[str, "stage that decided"]
    reason: Annotated[str, "stable code"]
    value: Annotated[float | None, "measured value that decided"]
    threshold: Annotated[float | None, "limit that it broke"]
    detail: Annotated[str | None, "in words"]
    language: Annotated[str | None, "language heard or stated"]


class UtteranceRow(TypedDict):
    """One row a packaged utterance; the measures follow as columns of their own."""

    id: Annotated[str, "unique in the version, stable across runs, [A-Za-z0-9_-]+"]
    source_id: SourceId
    dataset: Dataset
    split: Annotated[str, "train, or another name in `package.splits`, such as dev or test"]
    recording: Recording
    source_path: SourcePath
    channel: NotRequired[Channel]
    start: Annotated[float, "start in the recording", "s"]
    end: Annotated[float, "end in the recording", "s"]
    start_seconds: NotRequired[
        Annotated[float | None, "start in the container's time; null: it is `start`", "s"]
    ]
    num_samples: Annotated[int, "length", "samples at sample_rate"]
    sample_rate: Annotated[int, "rate of the packaged audio", "Hz", INT32]
    text: Annotated[str, "the text to train on: NFC, no control characters, single spaces"]
    normalised: Annotated[
        str | None, "the same as it is compared: case, punctuation, numbers in one form"
    ]
    text_source: Annotated[str, "reference or asr"]
    hypothesis: Annotated[str | None, "what the recogniser heard, clean like `text`"]
    language: Language
    language_probability: Annotated[float | None, "probability of that language"]
    avg_logprob: NotRequired[AvgLogprob]
    no_speech_probability: NotRequired[NoSpeechProbability]
    compression_ratio: NotRequired[CompressionRatio]
    detected_language: NotRequired[DetectedLanguage]
    detected_probability: NotRequired[DetectedProbability]
    language_vote: NotRequired[
        Annotated[float | None, "certainty of its language over the whole recording", "1"]
    ]
    speech_seconds: NotRequired[SpeechSeconds]
    speech_after_text: NotRequired[SpeechAfterText]
    words_per_speech_second: NotRequired[
        Annotated[float | None, "words heard in a second of that speech", "1/s"]
    ]
    word_times: NotRequired[
        Annotated[list[WordRow] | None, "words of `hypothesis`; null: not asked for", "s"]
    ]
    words: Words
    word_errors: Annotated[int | None, "word errors against the reference"]
    chars: Chars
    char_errors: Annotated[int | None, "character errors against the reference"]
    speaker: Annotated[
        str | None, "who speaks, by the source, else as the diarizer tells voices apart"
    ]
    shard: NotRequired[Annotated[str, "tar that holds it, relative to the version"]]
    generation: NotRequired[Annotated[int, "version that laid out this tar", INT32]]
    offset: NotRequired[
        Annotated[int, "where its first member's header starts in the tar", "bytes"]
    ]
    sha256: Sha256


class Published(NamedTuple):
    """The columns that `package.publish` names: a clip's values, and the columns' types."""

    values: Mapping[str, object]
    types: Mapping[str, pa.DataType]


class ReferenceWordsRow(TypedDict, total=False):
    reference_words: Annotated[
        list[WordRow] | None, "words of the source's text; null: not aligned", "s"
    ]
    reference_confidence: Annotated[
        float | None, "how well that text fits: mean probability of its words"
    ]


class AddedRow(TypedDict, total=False):
    """Columns that some settings add to the utterances of a version."""

    llm_text: Annotated[
        str | None,
        "what became of a language model's punctuation: taken, or why the text stayed",
    ]
    audio_is: Annotated[
        str, "original or enhanced: which audio is packaged, whose hash is `sha256`"
    ]
    muted: Annotated[
        str | None,
        "samples of the clip that are silence in place of hidden words: first-end, …",
    ]
    sha256_enhanced: Annotated[
        str | None, "hash of the enhanced clip's PCM, whose length and rate are the same"
    ]
    sha256_left: Annotated[
        str | None, "hash of the PCM of the recording's channel 0 in the clip's time"
    ]
    sha256_right: Annotated[str | None, "the same of channel 1"]
    labels: Annotated[LabelPairs | None, "what the source's `labels` keeps; null: none"]
    second_text: Annotated[str | None, "the source's further text, such as a translation"]
    second_language: Annotated[str | None, "language of `second_text`"]
    turns: Annotated[
        list[ClipTurnRow] | None,
        "who speaks when; `number`: of the person in its recording, as in speakers.parquet; "
        "text and words as they were heard",
        "s",
    ]


class ClipRow(UtteranceRow, ReferenceWordsRow, AddedRow, total=False):
    """A clip on its way into a version: also where its PCM is."""

    work_shard: str | None
    blob: str | None
    blob_offset: int | None
    beside_blob: str | None
    beside_offset: int | None
    left_blob: str | None
    left_offset: int | None
    right_blob: str | None
    right_offset: int | None
    stored_sha256: str | None
    beside_sha256: str | None
    annotations: Published  # of formats that hold them, where there are any


class SplitRow(TypedDict):
    """One row for each speaker, recording, PCM and, where texts are kept apart, text that was ever
    assigned to a split; only where there are splits. A speaker's name includes its dataset:
    `dataset/speaker`."""

    kind: Annotated[str, "speaker, recording, pcm or text"]
    name: Annotated[str, "its name; of PCM and of normalised texts the sha256"]
    split: Annotated[str, "the split where it stays"]


class SpeakerRow(TypedDict):
    """One row for each person that a diarizer finds in a recording, including removed recordings;
    only where speakers are linked over recordings."""

    speaker: Annotated[str, "who it is, over all recordings: `speaker` of the utterances"]
    recording: Recording
    number: Annotated[int, "number of the person in the recording, from 1", INT32]
    content: Annotated[str, "sha256 of the file's bytes, and which track and channel of it"]
    seconds: Annotated[float, "that the person speaks there", "s"]


class MetricRow(TypedDict):
    """One row for each worker call of a run: a stage of a shard, a piece of the package, a batch of
    the listing. In OUT/runs/<id>/metrics.parquet, never in a dataset."""

    stage: Annotated[str, "shard, filter, resample, transcribe or package"]
    step: Annotated[str, "run; probe of the listing; the steps of the package"]
    shard: Annotated[str, "shard; or the numbers of a piece or of a batch"]
    kind: Annotated[str, "kind of worker asked for: CPU or GPU"]
    worker: Annotated[str | None, "name of the worker; empty: the flow's own process"]
    host: Annotated[str | None, "its machine"]
    pid: Annotated[int | None, "its process"]
    started: Annotated[datetime | None, "begin there, by that machine's clock"]
    queue_seconds: Annotated[float | None, "from when it was asked for until it began", "s"]
    wall_seconds: Annotated[float | None, "time there; null: it never came back", "s"]
    cpu_seconds: Annotated[float | None, "CPU time there: all threads, and child processes", "s"]
    load_seconds: Annotated[float | None, "part of the wall time that a model took to load", "s"]
    audio_seconds: Annotated[float | None, "audio of what was computed; null for the package", "s"]
    items_computed: Annotated[int | None, "items that were computed"]
    items_reused: Annotated[int | None, "items that were there"]
    rss_before: Annotated[int | None, "resident memory of the process when it began", "bytes"]
    rss_peak: Annotated[int | None, "the most resident memory meanwhile", "bytes"]
    attempts: Annotated[int, "how often it was handed out", INT32]
    deaths: Annotated[int, "attempts that ended with their worker", INT32]
    lost_seconds: Annotated[float | None, "what those took", "s"]
    isolated: Annotated[bool, "its items ran one by one"]
    gpu: Annotated[str | None, "GPU that the process saw first; null: none"]
    gpu_percent: Annotated[float | None, "mean share of time in which the GPU was busy", "%"]
    gpu_memory: Annotated[int | None, "the most memory in use on the GPU, by anyone", "bytes"]
    error: Annotated[str | None, "what it raised, if it did"]
