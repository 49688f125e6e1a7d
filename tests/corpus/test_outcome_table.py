"""What-if answers from one table exactly what the manifests would answer, or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.helpers import corpus, fuzz, tiers
from tests.helpers.outcomes import passing
from uttermill.tasks import storage
from uttermill.tasks.corpus import outcome_table
from uttermill.tasks.insight import source_languages
from uttermill.tasks.insight.estimating import what_if
from uttermill.tasks.plugins import rules
from uttermill.tasks.plugins.rules import Within
from uttermill.tasks.settings import Plugin


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight recordings with references, some of them short."""
    tmp = tmp_path_factory.mktemp("decisions")
    corpus.make(tmp / "in", 8)
    corpus.listed(tmp / "in", 8, tmp / "list.jsonl", r03="x")
    corpus.run(job(tmp))
    return tmp


def job(tmp: Path, **changes: Any) -> Any:
    source = {"kind": "jsonl", "path": str(tmp / "list.jsonl"), "name": "c"}
    return corpus.job(tmp, sources=[source], **changes)


LIMIT = st.none() | st.floats(0.1, 3, allow_nan=False)


@pytest.mark.full
@fuzz.cases(50)
@given(LIMIT, LIMIT, st.integers(1, 30), st.floats(0, 1))
def test_the_table_says_what_the_manifests_say(
    base: Path, low: float | None, high: float | None, chars: int, probability: float
) -> None:
    assume(low is None or high is None or low <= high)  # else the settings are refused
    verdicts = (
        Plugin(use="empty_text", min_chars=chars),
        Plugin(use="language", min_probability=probability, allowed=["en"]),
    )
    chosen = job(
        base, filter=corpus.filters(min=low, max=high), transcribe={"verdicts": verdicts}
    )  # fmt: skip
    assert outcome_table.where(chosen) is not None
    assert what_if.kept(chosen, chosen)[0] == what_if.of_shards(chosen)


@pytest.mark.parametrize(
    "change",
    [
        tiers.nightly({"resample": {"rate": 8000}}),
        {"filter": corpus.filters({"use": "file_size"})},
        tiers.nightly({"transcribe": {"backend": {"use": "fake", "seed": 1}}}),
        tiers.nightly({"transcribe": {"text": "asr"}}),
        {"transcribe": {"close_wer": 0.5}},
    ],
)
def test_it_is_not_used_for_what_it_does_not_hold(base: Path, change: dict[str, Any]) -> None:
    assert outcome_table.where(job(base)) is not None
    assert outcome_table.where(job(base, **change)) is None


@pytest.mark.parametrize("name", ["a[b]*?", "O'UT"])
def test_any_path_of_out_is_asked(base: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(base, tmp_path / name, symlinks=True)
    chosen = job(tmp_path / name, filter=corpus.filters(min=1.3))
    assert outcome_table.where(chosen) is not None
    assert what_if.kept(chosen, chosen)[0] == what_if.of_shards(chosen)


@pytest.mark.parametrize("damage", [b"\xff", b"\x00", b"\x2f"])  # DuckDB has several errors
def test_a_damaged_table_is_answered_from_the_shards(
    base: Path, tmp_path: Path, damage: bytes
) -> None:
    shutil.copytree(base, tmp_path / "c", symlinks=True)
    chosen = job(tmp_path / "c")
    [part] = outcome_table.place(chosen.out).iterdir()
    metadata, data = pq.read_metadata(part), bytearray(part.read_bytes())
    for number in range(metadata.num_columns):
        begin = metadata.row_group(0).column(number).data_page_offset
        data[begin : begin + 12] = damage * 12
    part.write_bytes(data)
    assert outcome_table.where(chosen) is not None
    assert what_if.kept(chosen, chosen)[0] == what_if.of_shards(chosen)
    assert source_languages.of_sources(chosen) == {}


def test_it_is_not_used_when_manifests_changed(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 3)
    chosen = corpus.job(tmp_path)
    corpus.run(chosen)
    assert outcome_table.where(chosen) is not None
    storage.remove(next((tmp_path / "out/manifests/transcribe").rglob("*.parquet")))
    assert outcome_table.where(chosen) is None
    corpus.run(chosen)
    assert outcome_table.where(chosen) is not None


def test_rules_over_columns_are_those_over_rows() -> None:
    """Nulls, both limits, allowed values and refused nulls."""
    table = pa.table(
        {
            "x": [None, -1.0, 0.0, 1.0, 0.1 + 0.2], "lang": ["en", None, "de", "en", "fr"],
            "y": [None, 2.0, None, 0.0, 1.0], "language": ["en", None, "de", "en", "fr"],
            'x" OR true --': [0.0, -1.0, None, 1.0, -2.0],
        }
    )  # fmt: skip
    for rule in (
        rules.Limit("x", 0.0, 1.0), rules.Limit("x", None, 0.5), rules.Limit("x", 0.5, None),
        rules.Limit("x"), rules.Allowed("lang", ("en", "fr"), "no"),
        rules.Allowed("lang", ("en",), "no", refuse_null=True), rules.Allowed("lang", (), "no"),
        rules.Allowed("lang", ("en' OR true --",), "no"), rules.Limit('x" OR true --', 0.0),
        rules.Limit("x", 0.1 + 0.2, 1e300), rules.Limit("x", 5.0, unless=(Within("y", 1.0),)),
        rules.Limit("x", 5.0, languages=("en",)), rules.Limit("x", 5.0, other_than=("en", "fr")),
    ):  # fmt: skip
        expected = [rules.judge(row, (rule,)) is None for row in table.to_pylist()]
        assert passing(table, (rule,)) == expected


def test_rules_over_no_rows() -> None:
    """Each group of shards is a part of the table; one of broken recordings alone has no rows."""
    table = pa.table({"silence": pa.array([], pa.float64())})
    limit = rules.Limit("silence", max=0.5, high="silent")
    assert passing(table, (limit,)) == []


def test_texts_from_before_a_limit_was_tightened_count_as_they_are(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 8)
    wide = corpus.job(tmp_path)
    corpus.run(wide)
    strict = corpus.job(tmp_path, filter=corpus.filters(min=1.3))
    corpus.run(strict)
    assert outcome_table.where(strict) is not None
    now, then = what_if.kept(strict, wide)
    assert (now["items"], then["items"]) == (3, 8)
    assert then["not_yet_transcribed"]["items"] == 0
    assert then == what_if.of_shards(wide)
    corpus.add(tmp_path / "in", 2, seed=77)
    corpus.run(strict)
    _, then = what_if.kept(strict, wide)
    assert then["items"] == 8
    assert then["not_yet_transcribed"]["items"] == 1, "control: the new one was never heard"
