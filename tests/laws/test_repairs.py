"""A run that repairs damage begins some of its steps anew; each shard and item counts once."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus, tiers
from tests.laws.test_laws import damage
from uttermill.flows.progress import Progress
from uttermill.tasks import pipeline
from uttermill.tasks.publish.upkeep import checkpoints
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.runs.executor import Executor, Observer
from uttermill.tasks.settings.job import Done, Job
from uttermill.tasks.shard_store import manifest

SHARDS: dict[str, Any] = {"settle_seconds": 0, "hours": 4 * corpus.seconds_of(0) / 3600}
OTHER_ASR: dict[str, Any] = {"backend": {"use": "tests.plugins.other_asr"}}
COUNT = 10


@pytest.fixture
def home(tmp_path: Path) -> Path:
    corpus.make(tmp_path / "in", COUNT)
    corpus.run(corpus.job(tmp_path, shard=SHARDS))
    return tmp_path


def counted(job: Job) -> tuple[dict[str, tuple[int, int]], dict[str, tuple[int, int]]]:
    """Of each stage, (items computed, reused) and (shards run, reused)."""
    stages = pipeline.run_here(job)[1]
    shards = {name: (s["shards_run"], s["shards_reused"]) for name, s in stages.items()}
    return corpus.counts(stages), shards


DAMAGED = [*(f"manifests/{stage}" for stage in corpus.STAGES[:4]), "audio"]


CHANGED: dict[str, dict[str, Any]] = {
    "nothing": {}, "package": {"package": {"seed": 1}}, "transcribe": {"transcribe": OTHER_ASR},
    "filter": {"filter": corpus.filters(min=0.7)},
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "root", "how"), tiers.covering(CHANGED, DAMAGED, ["flip", "delete"])
)
@pytest.mark.nightly
def test_every_shard_and_item_counts_once(home: Path, root: str, how: str, changed: str) -> None:
    """Whatever is damaged, and whatever changes with it: a blob that package or the recogniser
    finds damaged sends the run, or the chain of its shard, round again."""
    job = corpus.job(home, shard=SHARDS, **CHANGED[changed])
    before = len(list((job.out / "manifests/shard").iterdir()))
    damage(corpus.parts(job.out, root)[0], how)
    items, shards = counted(job)
    assert {sum(items[name]) for name in ("shard", "filter")} == {COUNT}
    assert sum(items["resample"]) == sum(items["transcribe"]) <= COUNT
    assert {sum(shards[name]) for name in corpus.STAGES[1:4]} <= {before, before + 1}
    assert sum(shards["shard"]) == 1
    # What was damaged was made again, and nothing else: the recogniser hears all in any case.
    again = {"audio": "resample"}.get(root, root.rpartition("/")[2])
    if changed in ("nothing", "package") and again != "shard":
        assert {name for name in corpus.STAGES[1:4] if items[name][0]} <= {again}
    assert not any(computed for computed, _ in counted(job)[0].values())


def added(folder: Path) -> None:
    corpus.add(folder, COUNT)


def replaced(folder: Path) -> None:
    corpus.add(folder, 3, seed=99)


def removed(folder: Path) -> None:
    (folder / "r03.wav").unlink()


def renamed(folder: Path) -> None:
    (folder / "r03.wav").rename(folder / "other.wav")


def all_at_once(folder: Path) -> None:
    for change in (added, replaced, lambda folder: (folder / "r04.wav").unlink()):
        change(folder)


CHANGES: list[Callable[[Path], None]] = [added, replaced, removed, renamed, all_at_once]


@pytest.mark.parametrize(("change", "root"), tiers.covering(CHANGES, DAMAGED))
@pytest.mark.nightly
def test_damage_together_with_a_change_of_the_source(
    home: Path, root: str, change: Callable[[Path], None]
) -> None:
    """All files of a kind are damaged. The next version has the bytes that it has without damage:
    what left its source is told of, too, though its listing is lost."""
    shutil.copytree(home / "out", home / "sound", symlinks=True)
    change(home / "in")
    loose = {"max_removed_fraction": 1.0}
    sound = corpus.job(home, shard=SHARDS, package=loose, out=home / "sound")
    expected, _ = corpus.run(sound)
    job = corpus.job(home, shard=SHARDS, package=loose)
    for path in corpus.parts(job.out, root):
        damage(path, "flip")
    published, _ = corpus.run(job)
    assert verify(published.path) == []
    assert corpus.content(published.path) == corpus.content(expected.path)
    assert not corpus.run(job)[0].new


def rot(path: Path) -> None:
    """Damage that no time of the file tells of."""
    status = path.stat()
    corpus.flip(path, status.st_size // 2)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize(
    ("changed", "count"),
    [
        ({"filter": corpus.filters(min=0.7)}, 99),
        ({"filter": corpus.filters({"use": "dc_offset"})}, 99),
        ({"transcribe": OTHER_ASR}, 99),
        ({"resample": {"rate": 8000}}, 99),
        ({"package": {"seed": 1}}, 1),
    ],
    ids=["threshold", "filter", "transcribe", "resample", "package"],
)
@pytest.mark.nightly
def test_a_damaged_listing_is_no_empty_shard(
    tmp_path: Path, changed: dict[str, Any], count: int, caplog: pytest.LogCaptureFixture
) -> None:
    """With any number of them, and other settings: three of eleven recordings left the version,
    and came back in the next one."""
    corpus.make(tmp_path / "in", COUNT)
    corpus.run(corpus.job(tmp_path, shard=SHARDS))
    shutil.copytree(tmp_path / "out", tmp_path / "sound", symlinks=True)
    changed = {**changed, "package": {"max_removed_fraction": 1.0, **changed.get("package", {})}}
    sound = corpus.job(tmp_path, shard=SHARDS, out=tmp_path / "sound", **changed)
    expected, _ = corpus.run(sound)
    job = corpus.job(tmp_path, shard=SHARDS, **changed)
    damaged = corpus.parts(job.out, "manifests/shard")[:count]
    for path in damaged:
        rot(path)
    manifest._parts.clear()
    caplog.clear()
    published, _ = corpus.run(job)
    assert corpus.content(published.path) == corpus.content(expected.path)
    assert caplog.text.count("; removed; its results are computed again") == len(damaged)
    assert "gone since the last run" not in caplog.text
    assert not corpus.run(job)[0].new


@pytest.mark.nightly
def test_a_damaged_listing_that_the_rehash_meets_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    corpus.make(tmp_path / "in", COUNT)
    job = corpus.job(tmp_path, shard={**SHARDS, "rehash": 1.0})
    corpus.run(job)
    path = corpus.parts(job.out, "manifests/shard")[0]
    rot(path)
    manifest._parts.clear()
    published, counts = corpus.run(job)
    assert not published.new
    assert sum(counts["shard"]) == COUNT
    assert checkpoints.verify(job.out).faults == []
    assert "; the next run removes it" not in caplog.text


class Bars(Observer):
    """An observer that moves progress bars."""

    def __init__(self, bars: Progress) -> None:
        self.start, self.advance, self.finish = bars.start, bars.advance, bars.finish  # type: ignore[method-assign]


@pytest.mark.parametrize("changed", [{"package": {"seed": 1}}, {"transcribe": OTHER_ASR}])
@pytest.mark.nightly
def test_progress_shows_no_audio_twice(home: Path, changed: dict[str, Any]) -> None:
    job = corpus.job(home, shard=SHARDS, **changed)
    damage(corpus.parts(job.out, "audio")[0], "flip")
    bars = Progress()
    pipeline.run(job, Executor(), Bars(bars))
    audio = sum(map(corpus.seconds_of, range(COUNT)))
    done = {standing.name: standing.done for standing in bars.standing()}
    assert all(seconds <= audio + 0.01 for seconds in done.values()), done
    assert done["filter"] == pytest.approx(audio, abs=0.01)


def test_both_rounds_of_a_stage() -> None:
    first = Done("filter", "a", 6, 4, 9.0, 2.0, 1.0)
    assert Done("filter", "a", 1, 9, 1.0, 0.5).after(first) == Done(
        "filter", "a", 7, 3, 10.0, 2.5, 1.0
    )
    assert Done("filter", "a", 5, 5).after(first).computed == 10
