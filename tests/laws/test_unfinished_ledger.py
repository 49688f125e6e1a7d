"""The ledger of a run that goes on, or was killed: what waits is pending, and has not failed."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from tests.cli.test_commands import told
from tests.cli.test_plan_command import prepared
from tests.helpers import corpus
from uttermill.flows.run import run_folder
from uttermill.tasks.accounting import broken
from uttermill.tasks.base.errors import RunError

#: Stages whose checkpoints the run had not written, by shard of one or more recordings.
LACKING = ((), ("transcribe",), ("transcribe", "resample"), ("transcribe", "resample", "filter"))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """What a run left that was killed while its shards were at different stages."""
    for number in range(len(LACKING)):
        corpus.add(tmp_path / "in", 5, seed=number, name=f"r{number}.wav")
    (tmp_path / "in/page.wav").write_text("<html>not found</html>")
    data = {
        "sources": [{"kind": "folder", "path": str(tmp_path / "in"), "expect_broken": True}],
        "out": str(tmp_path / "out"),
        "shard": {"settle_seconds": 0, "hours": 1 / 3600},
        "transcribe": {"backend": {"use": "fake"}},
    }
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump(data))
    prepared(path)
    out = tmp_path / "out"
    shards = sorted(folder.name for folder in (out / "manifests/filter").iterdir())
    assert len(shards) == len(LACKING)
    for shard, stages in zip(shards, LACKING, strict=True):
        for stage in stages:
            shutil.rmtree(out / "manifests" / stage / shard)
    (run_folder.newest(out) / run_folder.SUMMARY).unlink()
    return out


@pytest.mark.nightly
def test_what_waits_is_pending(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = told(capsys, "ledger", str(out))
    assert answer["dataset"] is None
    assert answer["recordings"] == {"in": 5, "failed": 1}, "only the page failed"
    assert answer["utterances"] == {"in": 3, "packaged": 1, "dropped": 0, "failed": 0, "pending": 2}
    seconds: dict[str, float] = answer["seconds"]
    assert seconds["failed"] == 0
    assert seconds["pending"] == pytest.approx(2 * corpus.seconds_of(5))
    parts = {name: value for name, value in seconds.items() if name not in ("in", "overlap")}
    assert sum(parts.values()) == pytest.approx(seconds["in"])
    assert answer["reasons"].keys() == {
        "filter.pending", "resample.pending", "transcribe.pending", "shard.unreadable",
    }  # fmt: skip
    outcomes = {(row["stage"], row["outcome"]) for row in answer["by_stage"]}
    assert ("transcribe", "pending") in outcomes
    assert "no run has come to it yet" in answer["meanings"]["pending"]
    rows: list[dict[str, Any]] = told(capsys, "ledger", str(out), "--reason", "pending")["items"]
    assert {row["stage"] for row in rows} == {"filter", "resample", "transcribe"}


def test_what_waits_in_part_is_not_named_as_broken() -> None:
    """Its other part failed, but the next run may still package the rest of it."""
    row = {"source_path": "a.wav", "stage": "filter", "reason": "x", "detail": None}
    outcomes = {"a": ("failed", "pending"), "b": ("failed",)}
    rows = [{**row, "recording": r, "outcome": o} for r, some in outcomes.items() for o in some]
    found = broken.of_ledger(pa.Table.from_pylist(rows))
    assert len(found) == 1, "as `recordings.failed` counts them"


@pytest.mark.nightly
def test_only_what_the_newest_version_holds_is_called_packaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--items` of a refused run called clips packaged that no version holds."""
    source, out = tmp_path / "in", str(tmp_path / "out")
    for number in range(5):
        corpus.add(source, 5 + number, name=f"r{number}.wav")
    data = {
        "sources": [{"kind": "folder", "path": str(source)}],
        "out": out, "shard": {"settle_seconds": 0}, "transcribe": {"backend": {"use": "fake"}},
    }  # fmt: skip
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump(data))

    def items() -> dict[str, tuple[str, str, str | None]]:
        rows = told(capsys, "ledger", out, "--items")["items"]
        return {
            Path(row["source_path"]).stem: (row["outcome"], row["reason"], row["detail"])
            for row in rows
        }

    prepared(path)
    shutil.rmtree(tmp_path / "out/datasets")
    (run_folder.newest(tmp_path / "out") / run_folder.SUMMARY).unlink()
    waits = ("pending", "not_published", None)
    assert items() == {f"r{number}": waits for number in range(5)}
    answer = told(capsys, "ledger", out)
    assert answer["utterances"] == {"in": 5, "packaged": 0, "dropped": 0, "failed": 0, "pending": 5}
    assert (
        answer["meanings"]["not_published"] == "it is to be packaged, but no version holds it yet"
    )
    prepared(path)
    assert {outcome for outcome, _, _ in items().values()} == {"packaged"}

    (source / "r0.wav").unlink()
    corpus.add(source, 5, seed=7, name="r7.wav")
    with pytest.raises(RunError, match="max_removed_fraction"):
        prepared(path, "filter.filters.duration.max=2.1")
    assert items() == {
        "r0": ("packaged", "packaged", "v0001 holds it, and the next version would not"),
        **{f"r{number}": ("packaged", "packaged", None) for number in (1, 2, 3)},
        "r4": ("dropped", "too_long", "v0001 still holds it"),
        "r7": waits,
    }
