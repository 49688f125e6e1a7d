"""A row's type says what Python and Parquet hold; a clip's row has the columns that are added."""

import ast
import inspect
from typing import Annotated, NotRequired, TypedDict, get_type_hints

import pyarrow as pa

from uttermill.tasks.base import schema
from uttermill.tasks.base.schema import about, arrow_type, schema_of
from uttermill.tasks.publish import published_columns
from uttermill.tasks.publish.published_columns import (
    BESIDE,
    LEFT,
    RIGHT,
    _of_cut,
    _of_pcm,
    _of_texts,
    _reference_words,
)
from uttermill.tasks.recording import locator
from uttermill.tasks.shard_store import text_values


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
    planned = {**published_columns.SOURCE_COLUMNS, **published_columns.BESIDE_COLUMNS}
    planned |= {**published_columns.SIDE_COLUMNS, **published_columns.MUTED_COLUMNS}
    planned |= {field.name: field.type for field in (*schema.ADDED, *schema.REFERENCE_WORDS)}
    hints = get_type_hints(schema.ClipRow, include_extras=True)
    added = hints.keys() - schema.UTTERANCES.names - {"annotations"}
    assert {name: arrow_type(hints[name]) for name in added} == planned


def test_each_column_of_a_clip_is_a_key_of_its_row() -> None:
    """A column is a line of `base.schema.rows` and a key of a row in `published_columns`, so adding
    one changes these two files."""
    layout = {*published_columns.LAYOUT_COLUMNS}
    declared = {*schema.UTTERANCES.names, *schema.ADDED.names, *published_columns.PCM_COLUMNS}
    declared |= {field.name for field in schema.REFERENCE_WORDS}
    made = {*published_columns.HEARD, *BESIDE, *LEFT, *RIGHT, *locator.SECOND}
    for function in (_of_cut, _of_pcm, _of_texts, _reference_words):
        tree = ast.parse(inspect.getsource(function))
        made |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    by_rules = {text_values.SOURCE, *text_values.DERIVED}
    assert declared - layout - made == by_rules
    assert published_columns.ADDED_BY.keys() == {*schema.ADDED.names}
