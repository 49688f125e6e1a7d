"""Every column of every table: name, type, unit and meaning. `uttermill schema` prints them."""

from __future__ import annotations

import pyarrow as pa

from .columns import about, arrow_type, published, schema_of
from .rows import (
    AddedRow,
    AnyRow,
    AudioRow,
    ClipRow,
    ClipTurnRow,
    CutRow,
    EnhancedRow,
    FaultRow,
    LabelledTurnRow,
    LabelPairs,
    LedgerRow,
    MeasureValue,
    MetricRow,
    Published,
    RecordingRow,
    ReferenceWordsRow,
    SegmentRow,
    SpeakerRow,
    SplitRow,
    StatedTurnRow,
    TranscriptRow,
    TurnRow,
    UtteranceRow,
    WordRow,
)

#: The type of a row of each table.
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
TABLES: dict[str, pa.Schema] = {name: schema_of(row) for name, row in ROWS.items()}

RECORDINGS, CUTS, TRANSCRIPTS = TABLES["recordings"], TABLES["cuts"], TABLES["transcripts"]
#: Rows of PCM, and the same where there is enhanced PCM.
AUDIO, ENHANCED = schema_of(AudioRow), TABLES["audio"]
LEDGER, UTTERANCES = TABLES["ledger"], TABLES["utterances"]
SPLITS, SPEAKERS, METRICS = TABLES["splits"], TABLES["speakers"], TABLES["metrics"]

#: Columns of utterances that some settings add.
ADDED = schema_of(AddedRow)
#: Those where sources' texts are aligned with the audio; a rule on text may measure one of them.
REFERENCE_WORDS = tuple(schema_of(ReferenceWordsRow))
#: Labels by name; who speaks in a recording, and in a clip that holds several.
LABELS = arrow_type(LabelPairs)
TURN, CLIP_TURN = arrow_type(TurnRow), arrow_type(ClipTurnRow)
LABELLED_TURN = arrow_type(LabelledTurnRow)

#: Describes a version and names its files. Written last: a version exists once this file does.
DATASET_FILE = "dataset.json"
#: The tables of a version, each one file.
UTTERANCES_FILE, LEDGER_FILE = "utterances.parquet", "ledger.parquet"
