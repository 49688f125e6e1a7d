"""When the words of a source's text are said: in a run, stored once, refused where it cannot be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from tests.plugins import doubting_asr
from uttermill.flows import checks, settings
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.insight.estimating import planning
from uttermill.tasks.publish.upkeep import prune
from uttermill.tasks.publish.upkeep.prune import KeptSettings
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings import Plugin
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import recipe
from uttermill.tasks.storage import versions

COUNT = 3


@pytest.fixture
def home(tmp_path: Path) -> Path:
    corpus.make(tmp_path / "in", COUNT)
    corpus.listed(tmp_path / "in", COUNT, tmp_path / "list.jsonl", r02="the bank is closed")
    return tmp_path


def job(home: Path, aligned: bool = True, **changes: Any) -> Job:
    source = {"kind": "jsonl", "path": str(home / "list.jsonl"), "name": "c"}
    transcribe = {"backend": {"use": "fake"}, "reference_words": aligned}
    chosen = {"package": {"formats": ["wenet"]}, **changes}
    return corpus.job(home, sources=[source], transcribe=transcribe, **chosen)


def newest(out: Path) -> Path:
    version = versions.newest(out)
    assert version is not None
    return version


def rows(out: Path) -> list[dict[str, Any]]:
    table = pq.read_table(newest(out) / "utterances.parquet")
    return sorted(table.to_pylist(), key=lambda row: row["source_id"])


def test_words_of_the_text_have_times(home: Path) -> None:
    corpus.run(job(home))
    published = rows(home / "out")
    texts = ["".join(w["word"] for w in row["reference_words"]).strip() for row in published]
    assert texts == ["reference number 0", "reference number 1", "the bank is closed"]
    for row in published:
        words, seconds = row["reference_words"], row["num_samples"] / row["sample_rate"]
        assert row["reference_confidence"] == 1
        assert words[0]["start"] == 0
        assert words[-1]["end"] == pytest.approx(seconds)


@pytest.mark.nightly
def test_alignments_are_stored_once(home: Path) -> None:
    corpus.run(job(home, aligned=False))
    assert "reference_words" not in rows(home / "out")[0]
    plan = planning.plan(job(home), job(home, aligned=False))
    assert plan.stages["transcribe"].compute == COUNT
    _, counts = corpus.run(job(home))
    assert counts["transcribe"] == (COUNT, COUNT), "texts are heard before; words are new"
    _, counts = corpus.run(job(home))
    assert counts["transcribe"][0] == 0
    corpus.listed(home / "in", COUNT, home / "list.jsonl", r02="the bank is open")
    _, counts = corpus.run(job(home))
    assert counts["transcribe"][0] == 1, "another text is aligned anew"
    assert rows(home / "out")[2]["reference_words"][3]["word"].strip() == "open"


def test_alignments_outlive_pruning(home: Path) -> None:
    corpus.run(job(home))
    chosen = job(home)
    current = [KeptSettings(chosen, recipe.weights(chosen.transcribe.recognisers))]
    prune.carry_out(prune.plan(chosen.out, prune.kept_versions(chosen.out, 1), current))
    _, counts = corpus.run(chosen)
    assert counts["transcribe"][0] == 0


def test_without_a_text_there_are_no_words(home: Path) -> None:
    source = [{"kind": "folder", "path": str(home / "in"), "name": "c"}]
    transcribe = {"backend": {"use": "fake"}, "reference_words": True}
    corpus.run(corpus.job(home, sources=source, transcribe=transcribe))
    table = pq.read_table(newest(home / "out") / "utterances.parquet")
    assert table["reference_words"].to_pylist() == [None] * COUNT


def test_a_recogniser_that_does_not_align_is_refused(home: Path) -> None:
    chosen = settings.PrepareSettings.model_validate(
        {
            "sources": [{"kind": "folder", "path": str(home / "in")}],
            "out": str(home / "out"),
            "transcribe": {"backend": {"use": "none"}, "reference_words": True},
        }
    )
    with pytest.raises(ConfigError, match="reference_words needs a recogniser that aligns"):
        checks.check_wishes(chosen)


def test_ctm_and_textgrids_hold_the_words(home: Path) -> None:
    chosen = job(home, package={"formats": ["wenet", "ctm", "textgrid"]})
    published, _ = corpus.run(chosen)
    version = published.path
    lines = (version / "ctm/train/000000000.ctm").read_text().splitlines()
    assert len(lines) == 3 + 3 + 4
    last = lines[-1].split()
    assert last[1] == "1"
    assert last[4:] == ["closed", "1.000"]
    grids = (version / "textgrid/train/data.list").read_text().split()
    assert len(grids) == COUNT
    assert '"bank"' in "".join((version / grid).read_text() for grid in grids)
    assert verify(version) == []
    (version / grids[0]).write_text("x")
    assert verify(version) != []


DOUBTING = {"use": "tests.plugins.doubting_asr"}


def judged(home: Path, **limits: float | None) -> Job:
    verdicts = [{"use": "empty_text"}, {"use": "reference_confidence", **limits}]
    transcribe = {"backend": DOUBTING, "reference_words": True, "verdicts": verdicts}
    source = {"kind": "jsonl", "path": str(home / "list.jsonl"), "name": "c"}
    return corpus.job(home, sources=[source], transcribe=transcribe)


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({}, 2),
        ({"min": 0.02}, 3),
        ({"min": None, "min_word": 0.1}, 1),
        ({"min": None, "max_doubtful": 0.3}, 2),
    ],
)
def test_a_text_that_is_not_said_is_dropped_and_limits_are_free(
    home: Path, limits: dict[str, float | None], kept: int
) -> None:
    texts = {"r00": "a good text", "r01": "one unsaid word there", "r02": "unsaid untrue unknown"}
    corpus.listed(home / "in", COUNT, home / "list.jsonl", **texts)
    corpus.run(judged(home, min=0.0))
    before = len(doubting_asr.ALIGNED)
    _, counts = corpus.run(judged(home, **limits))
    assert counts["transcribe"][0] == 0
    assert len(doubting_asr.ALIGNED) == before
    assert len(rows(home / "out")) == kept
    ledger = pq.read_table(newest(home / "out") / "ledger.parquet").to_pylist()
    dropped = [row for row in ledger if row["reason"] == "reference_not_said"]
    assert len(dropped) == COUNT - kept
    assert all(row["stage"] == "transcribe" and row["value"] is not None for row in dropped)
    _, counts = corpus.run(judged(home, min=0.0))
    assert counts["transcribe"][0] == 0
    assert len(rows(home / "out")) == COUNT


def test_the_rule_changes_no_published_value(home: Path) -> None:
    corpus.run(job(home))
    plain = rows(home / "out")[0]
    limited = job(home)
    rule = Plugin.model_validate({"use": "reference_confidence"})
    verdicts = (*limited.transcribe.verdicts, rule)
    transcribe = limited.transcribe.model_copy(update={"verdicts": verdicts})
    _, counts = corpus.run(replace(limited, transcribe=transcribe))
    assert counts["transcribe"][0] == 0
    row = rows(home / "out")[0]
    assert {name: row[name] for name in plain} == plain
    assert row["reference_confidence_doubtful"] == 0


def test_the_rule_needs_aligned_texts(home: Path) -> None:
    chosen = settings.PrepareSettings.model_validate(
        {
            "sources": [{"kind": "folder", "path": str(home / "in")}],
            "out": str(home / "out"),
            "transcribe": {
                "backend": {"use": "fake"},
                "verdicts": [{"use": "reference_confidence"}],
            },
        }
    )
    with pytest.raises(ConfigError, match=r"set transcribe\.reference_words=true"):
        checks.check_wishes(chosen)
