"""All tables: of a shard's checkpoints, of a published version, of metrics; and names of files."""

from __future__ import annotations

import pyarrow as pa

from . import rows
from .columns import arrow_type, schema_of

#: The type of a row of each table.
ROWS: dict[str, type] = {
    "recordings": rows.RecordingRow,
    "cuts": rows.CutRow,
    "audio": rows.EnhancedRow,
    "transcripts": rows.TranscriptRow,
    "ledger": rows.LedgerRow,
    "utterances": rows.UtteranceRow,
    "splits": rows.SplitRow,
    "speakers": rows.SpeakerRow,
    "metrics": rows.MetricRow,
}
TABLES: dict[str, pa.Schema] = {name: schema_of(row) for name, row in ROWS.items()}

RECORDINGS, CUTS, TRANSCRIPTS = TABLES["recordings"], TABLES["cuts"], TABLES["transcripts"]
#: Rows of PCM, and the same where there is enhanced PCM.
AUDIO, ENHANCED = schema_of(rows.AudioRow), TABLES["audio"]
LEDGER, UTTERANCES = TABLES["ledger"], TABLES["utterances"]
SPLITS, SPEAKERS, METRICS = TABLES["splits"], TABLES["speakers"], TABLES["metrics"]

#: Columns of UTTERANCES where sources' texts are aligned with the audio.
REFERENCE_WORDS = tuple(schema_of(rows.ReferenceWordsRow))
#: Labels by name; who speaks in a recording, and in a clip that holds several.
LABELS = arrow_type(rows.LabelPairs)
TURN, CLIP_TURN = arrow_type(rows.TurnRow), arrow_type(rows.ClipTurnRow)
LABELLED_TURN = arrow_type(rows.LabelledTurnRow)

#: Describes a version and names its files. Written last: a version exists once this file does.
DATASET_FILE = "dataset.json"
#: The tables of a version, each one file.
UTTERANCES_FILE, LEDGER_FILE = "utterances.parquet", "ledger.parquet"
