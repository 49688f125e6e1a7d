"""Items whose process died are tried again when asked, others never."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import soundfile as sf

from tests.helpers import corpus, tiers
from uttermill.tasks import pipeline
from uttermill.tasks.base import errors
from uttermill.tasks.base.errors import KILLED
from uttermill.tasks.base.schema import AnyRow
from uttermill.tasks.runs.executor import Here
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import manifest
from uttermill.tasks.stages import contract, isolate, pcm, stage
from uttermill.tasks.stages.contract import OfRecording
from uttermill.tasks.storage import versions

RETRY = {"shard": {"retry": True}}


OTHER: dict[str, dict[str, Any]] = {
    "filter": {"segmenter": {"use": "auto"}},
    "resample": {"rate": 8000},
    "transcribe": {"backend": {"use": "tests.plugins.other_asr"}},
}


@pytest.mark.parametrize(
    "name", ["probe", "filter", *map(tiers.nightly, ("resample", "transcribe"))]
)
def test_a_detail_is_as_long_as_manifests_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    corpus.make(tmp_path / "in", 1)
    job = corpus.job(tmp_path)
    corpus.run(job)
    monkeypatch.setattr(errors, "MOST_DETAIL", 7)
    units: list[Any] = [OfRecording(manifest.listed(job.out, "shard-000000").to_pylist()[0])]
    if name != "probe":
        other = corpus.job(tmp_path, **{name: OTHER[name]})
        units = contract.find(name).todo(stage.view_of(other, "shard-000000"))[0]
    rows = [row for unit in units for row in contract.worker(name).failure(unit, "x", 99 * "y")]
    assert [row["error_detail"] for row in rows] == ["yyyyyyy"]


ENDINGS = [
    (KILLED, "its process was killed from outside (signal 9)", 1),
    ("crashed", "its process ended with status -11", 0),
    ("crashed", "it was killed (signal 9) 2 times by itself, with 3 MiB of the 9", 0),
]


@pytest.mark.parametrize(("name", "ending"), tiers.covering(stage.PER_SHARD, ENDINGS))
def test_what_was_killed_from_outside_heals_at_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, ending: tuple[str, str, int]
) -> None:
    code, detail, again = ending
    corpus.make(tmp_path / "in", 4)
    # Without a cache, `filter` leaves all conversion to `resample`.
    job = corpus.job(tmp_path, package={"max_failed_fraction": 1.0}, cache_bytes=0)
    versions.begin_layout(job.out, 0)
    pipeline.run_shard_stage(job, Here(), tmp_path / "scratch")
    for before in stage.PER_SHARD[: stage.PER_SHARD.index(name)]:
        stage.run(before, job, "shard-000000")

    def first_fails(name: str, job: Job, units: list[Any]) -> Iterator[Sequence[AnyRow]]:
        yield from (contract.find(name).failure(unit, code, detail) for unit in units[:1])
        yield from contract.find(name).compute(units[1:], job)

    with monkeypatch.context() as killing:
        killing.setattr(isolate, "results", first_fails)
        stage.run(name, job, "shard-000000", isolate=True)
    healed, counts = corpus.run(job)
    assert counts[name] == (again, 4 - again)
    assert (f"{name}.{code}" in healed.summary["reasons"]) != bool(again)


def test_one_utterance_that_cannot_be_converted_costs_no_other(tmp_path: Path) -> None:
    """A level that refuses one segment of a recording leaves the others alone."""
    (tmp_path / "in").mkdir()
    loud = corpus.speech(2, 3, 16000)
    loud[16000:32000] *= 100
    sf.write(tmp_path / "in" / "loud.wav", loud, 16000, "FLOAT")
    rows = [{"wav": str(tmp_path / "in" / "loud.wav"), "key": f"k{n}", "txt": "words",
             "start": float(n), "end": n + 1.0} for n in range(3)]  # fmt: skip
    (tmp_path / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = [{"kind": "jsonl", "path": str(tmp_path / "list.jsonl"), "name": "c"}]
    job = corpus.job(
        tmp_path, sources=source, resample={"levels": [{"use": "applio"}]},
        filter={"segmenter": {"use": "given"}, "filters": [{"use": "duration"}]},
    )  # fmt: skip
    published, _ = corpus.run(job)
    assert published.summary["utterances"] == {"in": 3, "packaged": 2, "dropped": 0, "failed": 1}
    assert published.summary["reasons"]["resample.over_full_scale"]["items"] == 1


def test_a_machine_that_got_more_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus.make(tmp_path / "in", 6)
    (tmp_path / "in" / "broken.wav").write_bytes(b"no audio")
    package = {"package": {"max_failed_fraction": 1.0}}
    convert = pcm.of_clip

    def greedy(clip: Any, chosen: Any) -> Any:
        if clip.num_samples == round(corpus.seconds_of(5) * corpus.RATES[0]):
            raise MemoryError("so much")
        return convert(clip, chosen)

    with monkeypatch.context() as small:
        small.setattr(pcm, "of_clip", greedy)
        published, _ = corpus.run(corpus.job(tmp_path, **package))
        assert published.summary["utterances"]["failed"] == 1
        assert "resample.out_of_memory" in published.summary["reasons"]
    _, counts = corpus.run(corpus.job(tmp_path, **package))
    assert counts["resample"] == (0, 6), "it stays so until somebody asks"
    healed, counts = corpus.run(corpus.job(tmp_path, **package, **RETRY))
    assert counts["shard"] == (0, 7), "what is broken itself is not tried again"
    assert counts["filter"] == (0, 6)
    assert counts["resample"] == (1, 5)
    assert healed.summary["utterances"]["packaged"] == 6
    again, counts = corpus.run(corpus.job(tmp_path, **package, **RETRY))
    assert not again.new
    assert {computed for computed, _ in counts.values()} == {0}
