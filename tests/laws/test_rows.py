"""A row's type says what Python and Parquet hold; a clip's row has the columns that are added."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict, get_type_hints

import pyarrow as pa

from uttermill.tasks.base import schema
from uttermill.tasks.base.schema.columns import about, arrow_type, schema_of
from uttermill.tasks.publish import planned_columns


class Inner(TypedDict):
    start: float
    name: str | None


class Row(TypedDict):
    first: Annotated[int, "first sample", "samples"]
    channel: NotRequired[Annotated[int | None, "channel", pa.int32()]]
    parts: Annotated[list[Inner] | None, "its parts"]
    measures: NotRequired[list[tuple[str, float | None]]]


def test_columns_of_a_row() -> None:
    columns = schema_of(Row)
    inner = pa.struct([("start", pa.float64()), ("name", pa.string())])
    assert columns.equals(
        pa.schema(
            [
                ("first", pa.int64()), ("channel", pa.int32()), ("parts", pa.list_(inner)),
                ("measures", pa.map_(pa.string(), pa.float64())),
            ]
        )
    )  # fmt: skip
    assert [about(field) for field in columns] == [
        ("samples", "first sample"), ("", "channel"), ("", "its parts"), ("", ""),
    ]  # fmt: skip


def test_every_column_of_a_table_says_what_it_is() -> None:
    for table, columns in schema.TABLES.items():
        assert all(about(field)[1] for field in columns), table


def test_a_clip_s_row_adds_what_a_plan_adds() -> None:
    """The columns that say where its PCM is, those that settings add, and what gathers those that
    `package.publish` names."""
    planned = {**planned_columns.SOURCE_COLUMNS, **planned_columns.BESIDE_COLUMNS}
    planned |= planned_columns.MUTED_COLUMNS
    planned |= dict.fromkeys(("sha256_enhanced", "llm_text", "audio_is", "muted"), pa.string())
    planned |= {field.name: field.type for field in schema.REFERENCE_WORDS}
    planned["labels"] = planned_columns.LABELS_COLUMN.type
    planned["turns"] = planned_columns.TURNS_COLUMN.type
    hints = get_type_hints(schema.ClipRow, include_extras=True)
    added = hints.keys() - schema.UTTERANCES.names - {"annotations"}
    assert {name: arrow_type(hints[name]) for name in added} == planned
