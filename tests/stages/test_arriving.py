"""A long clip is decoded once: filters and the conversion read it while it arrives."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile as sf

from tests.helpers import corpus
from uttermill.tasks.audio import Clip, stream
from uttermill.tasks.base.errors import ItemError
from uttermill.tasks.settings.job import Job
from uttermill.tasks.stages import cutting

RATE = 8_000
SECONDS = 150.0  # more than `cutting.HELD_SECONDS`
WHOLE = {
    "segmenter": {"use": "whole"},
    "filters": [{"use": "duration", "max": None}, {"use": "silence"}, {"use": "clipping"}],
}
NO_ASR = {"backend": {"use": "none"}, "verdicts": []}


def recording(path: Path, seconds: float = SECONDS, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    count = int(seconds * RATE)
    envelope = np.repeat(rng.uniform(0, 0.3, count // 4000 + 1), 4000)[:count]
    path.parent.mkdir(parents=True, exist_ok=True)
    sf.write(path, rng.standard_normal((count, 2)) * envelope[:, None], RATE, "PCM_16")
    return path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many samples were decoded each time that a recording was opened to be decoded."""
    found: list[int] = []
    blocks = stream.Stream.blocks

    def counted(self: stream.Stream, *args: Any) -> Any:
        found.append(0)
        for block in blocks(self, *args):
            found[-1] += len(block)
            yield block

    monkeypatch.setattr(stream.Stream, "blocks", counted)
    return found


def job(home: Path, **more: Any) -> Job:
    chosen = {"filter": WHOLE, "transcribe": NO_ASR, "resample": {"rate": 16_000}, **more}
    return corpus.job(home, scratch=home / "scratch", **chosen)


def published(home: Path) -> tuple[dict[str, Any], bytes]:
    [row] = pq.read_table(home / "out/datasets/latest/utterances.parquet").to_pylist()
    return row, corpus.parts(home / "out", "audio")[0].read_bytes()


def test_a_whole_recording_is_decoded_once(tmp_path: Path, opened: list[int]) -> None:
    recording(tmp_path / "in/long.wav")
    corpus.run(job(tmp_path))
    assert opened == [int(SECONDS * RATE)]
    assert [*(tmp_path / "scratch/handover").iterdir()] == [], "taken by resample"


def test_the_numbers_and_samples_are_those_of_separate_decodes(
    tmp_path: Path, opened: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    recording(tmp_path / "in/long.wav")
    corpus.run(job(tmp_path))
    row, pcm = published(tmp_path)
    (tmp_path / "again").mkdir()
    (tmp_path / "again/in").symlink_to(tmp_path / "in")
    opened.clear()
    spans = cutting.spans
    monkeypatch.setattr(cutting, "spans", lambda *args: spans(*args[:4]))  # nobody reads along
    corpus.run(job(tmp_path / "again"))
    assert len(opened) == 4, "the cut, two measures and the PCM"
    other, pcm_again = published(tmp_path / "again")
    assert row | {"source_path": ""} == other | {"source_path": ""}
    assert pcm == pcm_again


def test_what_does_not_fit_is_decoded_again(tmp_path: Path, opened: list[int]) -> None:
    recording(tmp_path / "in/long.wav")
    corpus.run(job(tmp_path, cache_bytes=100_000))
    assert len(opened) == 2
    assert [*(tmp_path / "scratch/handover").iterdir()] == []


def test_a_recording_that_breaks_leaves_nothing(tmp_path: Path) -> None:
    path = recording(tmp_path / "in/long.wav")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - 40_000])  # its header promises more
    recording(tmp_path / "in/short.wav", 2.0, seed=1)
    before = threading.active_count()
    corpus.run(job(tmp_path, package={"max_failed_fraction": 1.0}))
    assert threading.active_count() == before
    assert [*(tmp_path / "scratch/handover").iterdir()] == []


def test_a_reader_that_wants_the_length_or_reads_twice_is_left_out() -> None:
    def total(clip: Clip) -> float:
        return float(sum(block.sum() for block in clip.blocks()))

    def early(clip: Clip) -> float:
        return clip.seconds

    def twice(clip: Clip) -> float:
        return total(clip) + total(clip)

    def late(clip: Clip) -> int:
        list(clip.blocks())
        return clip.num_samples

    def first(clip: Clip) -> int:
        return len(next(clip.blocks()))

    works = {"total": total, "early": early, "twice": twice, "late": late, "first": first}
    readers = cutting.Readers(0, RATE, 1, 0, works)
    for _ in range(3):
        readers.push(np.ones((5, 1), np.float32))
    readers.end(15)
    assert readers.results() == {"total": 15.0, "late": 15, "first": 5}
    readers.close()


def test_an_error_of_a_reader_is_raised_where_its_result_is_used() -> None:
    def fails(clip: Clip) -> None:
        next(clip.blocks())
        raise ItemError("unsupported", "no")

    readers = cutting.Readers(0, RATE, 1, 0, {"fails": fails})
    readers.push(np.ones((5, 1), np.float32))
    readers.push(np.ones((5, 1), np.float32))
    readers.end(10)
    with pytest.raises(ItemError, match="no"):
        readers.results()
    readers.close()
