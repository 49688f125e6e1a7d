"""Each reason has a meaning in the card, the report and the ledger, and none is blank."""

import ast
import inspect
import re
from pathlib import Path
from typing import Annotated, Literal, NotRequired, TypedDict, get_type_hints

import pyarrow as pa
import pytest
import yaml

from tests.helpers import corpus
from uttermill.tasks import plugins
from uttermill.tasks.base import schema, shelves
from uttermill.tasks.base.schema import about, arrow_type, schema_of
from uttermill.tasks.publish import published_columns, reason_meanings
from uttermill.tasks.publish.published_columns import (
    BESIDE,
    LEFT,
    RIGHT,
    _of_cut,
    _of_pcm,
    _of_texts,
    _reference_words,
)
from uttermill.tasks.publish.reason_meanings import MEANINGS
from uttermill.tasks.recording import locator
from uttermill.tasks.settings import Plugin
from uttermill.tasks.shard_store import text_values

ROOT = Path(__file__).parents[2] / "tasks"
#: Where the code names a reason that is not of a rule's limits.
NAMED = (
    r'reason="(\w+)"',
    r'reason, detail = "(\w+)"',
    r'_cover\(stop, "unsegmented", "(\w+)"',
    r'(?<!Outcome)\("unsegmented", "(\w+)", ',
    r'Rejection\("(\w+)"',
    r'Outcome\("\w+", "\w+", "(\w+)"',
    r'rejections\.rejected\([^"]*?"(\w+)"',
    r'\bdrop\([\w.]+, "(\w+)"',
    r'ItemError\(\s*"(\w+)"',
    r'else "(\w+_speech)"|"(\w+_speech)" if',
)


def test_each_reason_in_the_code_has_a_meaning() -> None:
    texts = [path.read_text() for path in sorted(ROOT.rglob("*.py"))]
    named = {
        next(filter(None, match.groups()))
        for text in texts for pattern in NAMED for match in re.finditer(pattern, text)
    }  # fmt: skip
    assert {"tail", "duplicate", "split_conflict", "fast_speech", "unreadable"} <= named
    assert named - MEANINGS.keys() == {"packaged"}
    assert all(text.strip() for text in MEANINGS.values())


@pytest.mark.parametrize("shelf", ["filters", "text"])
def test_each_limit_says_what_it_measures(
    tmp_path: Path, shelf: Literal["filters", "text"]
) -> None:
    """All columns of measures have a meaning, so that a limit's words have one."""
    for name in shelves.names(shelf):
        for column, (_, meaning) in plugins.columns(shelf, name).items():
            assert meaning.strip(), (name, column)
    stage = "filter" if shelf == "filters" else "transcribe"
    key = "filters" if shelf == "filters" else "verdicts"
    chosen = [Plugin(use="duration")] if shelf == "filters" else [
        Plugin(use="error_rate", max_wer=0.3), Plugin(use="language", allowed=["en"]),
    ]  # fmt: skip
    job = corpus.job(tmp_path, **{stage: {key: chosen}})
    reason = "too_long" if shelf == "filters" else "high_error_rate"
    [words] = reason_meanings.meanings(job, [f"{stage}.{reason}"]).values()
    expected = "duration above 30 (s, " if shelf == "filters" else "or wer above 0.3 ("
    assert expected in words
    assert (
        reason_meanings.meanings(job, ["shard.too_long"])["shard.too_long"] == MEANINGS["too_long"]
    )


def test_the_card_leaves_no_meaning_blank(tmp_path: Path) -> None:
    """And the ledger names the measure of an error rate."""
    corpus.make(tmp_path / "in", 6)
    (tmp_path / "in/broken.wav").write_bytes(b"RIFF")
    for number, text in enumerate(("fake words here that nobody says", "quite other words")):
        (tmp_path / f"in/r0{number + 2}.txt").write_text(text)
    job = corpus.job(
        tmp_path,
        filter=corpus.filters(min=corpus.seconds_of(0) + 0.01),
        transcribe={
            "backend": {"use": "fake"}, "verdicts": [Plugin(use="error_rate", max_wer=0.1)],
        },
        package={"max_failed_fraction": 1.0},
        sources=[{"kind": "folder", "path": str(tmp_path / "in"), "name": "c",
                  "citation": "@misc{c,\n  title={Clips}\n}"}],
    )  # fmt: skip
    version = corpus.run(job)[0].path
    card = (version / "README.md").read_text()
    head = "|  | items | hours | share | meaning |\n| --- | --- | --- | --- | --- |"
    lines = card.partition(head)[2].partition("\n\n")[0].strip().splitlines()
    reasons = {line.split(" | ")[0]: line.split(" | ")[-1].strip(" |") for line in lines}
    lost = {name.removeprefix("| − ") for name in reasons if "−" in name}
    assert lost == {"filter.too\\_short", "shard.unreadable", "transcribe.high\\_error\\_rate"} or (
        lost == {"filter.too_short", "shard.unreadable", "transcribe.high_error_rate"}
    )
    assert all(meaning for name, meaning in reasons.items() if "−" in name)
    assert "wer above 0.1" in card
    assert "## Citation" in card
    assert "```bibtex\n@misc{c,\n  title={Clips}\n}\n```" in card
    assert yaml.safe_load(card.split("---\n")[1])
    ledger = corpus.ledger(version)
    named = {row["detail"] for row in ledger if row["reason"] == "high_error_rate"}
    assert named == {"WER"}


# A row's type says what Python and Parquet hold; a clip's row has the columns that are added.


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
        made |= {str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    by_rules = {text_values.SOURCE, *text_values.DERIVED}
    assert declared - layout - made == by_rules
    assert published_columns.ADDED_BY.keys() == {*schema.ADDED.names}
