"""A clip that is too long for memory is decoded once: it lies in a temporary file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile as sf

from tests.helpers import corpus
from uttermill.tasks.audio import stream
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


@pytest.mark.full
def test_the_numbers_and_samples_are_those_of_separate_decodes(
    tmp_path: Path, opened: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    recording(tmp_path / "in/long.wav")
    corpus.run(job(tmp_path))
    row, pcm = published(tmp_path)
    (tmp_path / "again").mkdir()
    (tmp_path / "again/in").symlink_to(tmp_path / "in")
    opened.clear()
    monkeypatch.setattr(cutting, "HELD_BYTES", 0)
    corpus.run(job(tmp_path / "again"))
    assert len(opened) == 4, "the cut, two measures and the PCM"
    other, pcm_again = published(tmp_path / "again")
    assert row | {"source_path": ""} == other | {"source_path": ""}
    assert pcm == pcm_again


def test_resample_decodes_a_long_clip_once_too(tmp_path: Path, opened: list[int]) -> None:
    recording(tmp_path / "in/long.wav")
    corpus.run(job(tmp_path, cache_bytes=100_000))
    assert opened == 2 * [int(SECONDS * RATE)]


def test_the_file_holds_what_is_needed_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    tail = cutting._Tail(100)
    samples = np.arange(100, 200, dtype=np.float32)[:, None]

    def cut(start: int, end: int) -> list[float]:
        return [float(value) for piece in tail.cut(start, end) for value in piece[:, 0]]

    for at in range(0, 60, 10):
        tail.push(samples[at : at + 10])
        tail.release(115, 20)
    assert (tail.first, tail.start, tail.end) == (110, 140, 160)
    assert cut(115, 160) == [*range(115, 160)]
    assert cut(120, 135) == [*range(120, 135)]
    assert cut(139, 142) == [139, 140, 141]
    tail.release(145, 20)
    tail.push(samples[60:70])
    tail.release(145, 20)
    assert cut(145, 170) == [*range(145, 170)]
    monkeypatch.setattr(cutting, "HELD_BYTES", 0)
    tail.push(samples[70:80])
    tail.release(145, 10)
    assert (tail.first, tail.start, tail.end) == (170, 170, 180), "no room: it is decoded again"
    tail.push(samples[80:90])
    tail.release(185, 10)
    assert cut(185, 190) == [*range(185, 190)]


@pytest.mark.full
def test_a_recording_that_breaks_leaves_nothing(tmp_path: Path) -> None:
    path = recording(tmp_path / "in/long.wav")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - 40_000])  # its header promises more
    recording(tmp_path / "in/short.wav", 2.0, seed=1)
    corpus.run(job(tmp_path, package={"max_failed_fraction": 1.0}))
    rows = pq.read_table(tmp_path / "out/datasets/latest/utterances.parquet").to_pylist()
    assert [row["source_path"] for row in rows] == [str(tmp_path / "in/short.wav")]
