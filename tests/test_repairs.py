"""A run that repairs damage begins some of its steps anew; each shard and item counts once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flows.progress import Progress
from tasks import pipeline
from tasks.runs.executor import Here, Unobserved
from tasks.settings.job import Done, Job
from tests.helpers import corpus
from tests.laws.test_laws import damage

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


@pytest.mark.parametrize("how", ["flip", "truncate", "delete"])
@pytest.mark.parametrize("root", DAMAGED)
@pytest.mark.parametrize(
    "changed",
    [{}, {"package": {"seed": 1}}, {"transcribe": OTHER_ASR}, {"filter": corpus.filters(min=0.7)}],
    ids=["nothing", "package", "transcribe", "filter"],
)
def test_every_shard_and_item_counts_once(
    home: Path, root: str, how: str, changed: dict[str, Any]
) -> None:
    """Whatever is damaged, and whatever changes with it: a blob that package or the recogniser
    finds damaged sends the run, or the chain of its shard, round again."""
    job = corpus.job(home, shard=SHARDS, **changed)
    before = len(list((job.out / "manifests/shard").iterdir()))
    damage(corpus.parts(job.out, root)[0], how)
    items, shards = counted(job)
    assert {sum(items[name]) for name in ("shard", "filter")} == {COUNT}
    assert sum(items["resample"]) == sum(items["transcribe"]) <= COUNT
    assert {sum(shards[name]) for name in corpus.STAGES[1:4]} <= {before, before + 1}
    assert sum(shards["shard"]) == 1
    # What was damaged was made again, and nothing else: the recogniser hears all in any case.
    again = {"audio": "resample"}.get(root, root.rpartition("/")[2])
    if changed.keys() <= {"package"} and again != "shard":
        assert {name for name in corpus.STAGES[1:4] if items[name][0]} <= {again}
    assert not any(computed for computed, _ in counted(job)[0].values())


def test_what_was_computed_before_the_repair_stays_computed(home: Path) -> None:
    """The chain of the shard measured and resampled; the recogniser found the damage."""
    more = corpus.filters({"use": "dc_offset"})
    job = corpus.job(home, shard=SHARDS, filter=more, transcribe=OTHER_ASR)
    damage(corpus.parts(job.out, "audio")[0], "flip")
    items, shards = counted(job)
    assert items["filter"] == items["transcribe"] == (COUNT, 0)
    assert items["resample"] == (1, COUNT - 1)
    assert shards["filter"][1] == shards["transcribe"][1] == 0


class Bars(Unobserved):
    """An observer that moves progress bars."""

    def __init__(self, bars: Progress) -> None:
        self.start, self.advance, self.finish = bars.start, bars.advance, bars.finish  # type: ignore[method-assign]


@pytest.mark.parametrize("changed", [{"package": {"seed": 1}}, {"transcribe": OTHER_ASR}])
def test_progress_shows_no_audio_twice(home: Path, changed: dict[str, Any]) -> None:
    job = corpus.job(home, shard=SHARDS, **changed)
    damage(corpus.parts(job.out, "audio")[0], "flip")
    bars = Progress()
    pipeline.run(job, Here(), Bars(bars))
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
