"""Every column of every table: name, type, unit and meaning. `uttermill schema` prints them."""

from tasks.base.schema.rows import (
    AnyRow,
    AudioRow,
    ClipRow,
    ClipTurnRow,
    CutRow,
    EnhancedRow,
    FaultRow,
    LabelPairs,
    LedgerRow,
    MeasureValue,
    MetricRow,
    Published,
    RecordingRow,
    SegmentRow,
    SpeakerRow,
    SplitRow,
    StatedTurnRow,
    TranscriptRow,
    TurnRow,
    UtteranceRow,
    WordRow,
)
from tasks.base.schema.tables import (
    AUDIO,
    CLIP_TURN,
    CUTS,
    DATASET_FILE,
    ENHANCED,
    LABELS,
    LEDGER,
    LEDGER_FILE,
    METRICS,
    RECORDINGS,
    SPEAKERS,
    SPLITS,
    TRANSCRIPTS,
    UTTERANCES,
    UTTERANCES_FILE,
    about,
    published,
)

TABLES = {
    "recordings": RECORDINGS,
    "cuts": CUTS,
    "audio": ENHANCED,
    "transcripts": TRANSCRIPTS,
    "ledger": LEDGER,
    "utterances": UTTERANCES,
    "splits": SPLITS,
    "speakers": SPEAKERS,
    "metrics": METRICS,
}

#: The type of a row of each.
ROWS: dict[str, type] = {
    "recordings": RecordingRow,
    "cuts": CutRow,
    "audio": EnhancedRow,
    "transcripts": TranscriptRow,
    "ledger": LedgerRow,
    "utterances": UtteranceRow,
    "splits": SplitRow,
    "speakers": SpeakerRow,
    "metrics": MetricRow,
}
