"""Facts are gathered once, and limits are asked of them."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from tests.helpers.outcomes import passing
from uttermill.tasks.insight import source_languages
from uttermill.tasks.insight.estimating import what_if
from uttermill.tasks.plugins import rules
from uttermill.tasks.plugins.rules import Within
from uttermill.tasks.publish.outcomes import batch_outcomes, shard_batches
from uttermill.tasks.settings import TranscribeSettings
from uttermill.tasks.shard_store import decision_log
from uttermill.tasks.shard_store.decision_log import Decision


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


@pytest.mark.parametrize("damage", [b"\xff", b"\x00"])
def test_damaged_facts_are_gathered_again(base: Path, tmp_path: Path, damage: bytes) -> None:
    shutil.copytree(base, tmp_path / "c", symlinks=True)
    chosen = job(tmp_path / "c")
    sound = what_if.of_shards(chosen)
    listening = job(tmp_path / "c", transcribe={"backend": {"use": "tests.plugins.guessing_asr"}})
    assert source_languages.of_sources(chosen) == {}, "invented words are in no language"
    assert "last run heard en" in source_languages.of_sources(listening)["c"]
    [part] = (chosen.out / "manifests/package/facts").glob("*/limits.arrow")
    data = part.read_bytes()
    part.write_bytes(data[:100] + damage * 100 + data[200:])
    assert what_if.of_shards(chosen) == sound
    assert source_languages.of_sources(listening) == {}


def counted(patch: pytest.MonkeyPatch) -> list[int]:
    """The number of batches whose facts are gathered from now on."""
    gathered, collect = [0], batch_outcomes.collect

    def counting(*given: Any, **more: Any) -> None:
        gathered[0] += 1
        collect(*given, **more)

    patch.setattr(batch_outcomes, "collect", counting)
    return gathered


VERDICTS = TranscribeSettings().verdicts


LIMITS: list[dict[str, Any]] = [
    {"filter": {**corpus.filters(min=1.3), "max_hours": 1.0, "max_expansion": 1000.0}},
    {"filter": {**corpus.filters(), "duplicate_files": "keep"}},
    {"transcribe": {"verdicts": [{"use": "empty_text", "min_chars": 9}, *VERDICTS[1:]]}},
    {"package": {"weights": {"c": 0.5}, "splits": {"test": 0.2}}},
]
FACTS: list[dict[str, Any]] = [
    {"filter": {**corpus.filters(), "max_hours": 0.0003}},
    {"package": {"seed": 7}},
    {"transcribe": {"text": "asr"}},
    {"transcribe": {"close_wer": 0.5}},
    {"transcribe": {"turns_by": "window"}},
    {"package": {"text_form": "normalised"}},
]


@pytest.mark.parametrize("change", [*LIMITS, *FACTS])
def test_only_what_changes_facts_gathers_them(
    base: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    gathered = counted(monkeypatch)
    what_if.of_shards(job(base, **change))
    assert gathered == [int(change in FACTS)]


def test_decisions_gather_the_facts_of_their_own_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.make(tmp_path / "in", 3)
    chosen = corpus.job(tmp_path, shard={"settle_seconds": 0, "hours": 0.1 / 3600})
    monkeypatch.setattr(shard_batches, "AT_ONCE", 1)
    published, _ = corpus.run(chosen)
    gathered = counted(monkeypatch)
    [first, *_] = sorted(
        pq.read_table(published.path / "utterances.parquet", columns=["id"])["id"].to_pylist()
    )
    decision_log.append(chosen.out, [Decision(first, "drop", None)])
    assert what_if.of_shards(chosen)["items"] == 2
    assert gathered == [1]


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


@pytest.mark.nightly
def test_texts_from_before_a_limit_was_tightened_count_as_they_are(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 8)
    wide = corpus.job(tmp_path)
    corpus.run(wide)
    strict = corpus.job(tmp_path, filter=corpus.filters(min=1.3))
    corpus.run(strict)
    now, then = what_if.kept(strict, wide)
    assert (now["items"], then["items"]) == (3, 8)
    assert then["not_yet_transcribed"]["items"] == 0
    assert then == what_if.of_shards(wide)
    corpus.add(tmp_path / "in", 2, seed=77)
    corpus.run(strict)
    _, then = what_if.kept(strict, wide)
    assert then["items"] == 8
    assert then["not_yet_transcribed"]["items"] == 1, "control: the new one was never heard"
