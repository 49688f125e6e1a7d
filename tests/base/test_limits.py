"""Limits on the length of a recording and on what its bytes expand to; both are thresholds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.helpers import bombs, corpus, sounding
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.recording.limits import FREE_SECONDS, Limits
from uttermill.tasks.settings.job import Job

#: r09 has 2.2 s, r08 2.0 s; the rest less.
TWO_SECONDS = 1.9 / 3600


def job(tmp: Path, out: Path | None = None, **limits: float) -> Job:
    source = {"kind": "folder", "path": str(tmp / "in"), "name": "c", "expect_broken": True}
    package = {"max_removed_fraction": 1.0}
    return corpus.job(tmp, out=out or tmp / "out", filter=limits, sources=[source], package=package)


def outcomes(out: Path) -> list[tuple[Any, ...]]:
    rows = pq.read_table(out / "datasets/latest/ledger.parquet").to_pylist()
    return sorted(tuple(map(str, row.values())) for row in rows)


def failed(out: Path) -> dict[str, tuple[Any, ...]]:
    rows = pq.read_table(out / "datasets/latest/ledger.parquet").to_pylist()
    names = ("stage", "reason", "value", "threshold", "samples")
    return {
        row["recording"]: tuple(row[name] for name in names)
        for row in rows
        if row["outcome"] == "failed"
    }


def mp3s(folder: Path, count: int) -> None:
    """Of 1, 2, 3 ... s: the header of an MP3 from FFmpeg counts nothing that is believed."""
    folder.mkdir(parents=True)
    for number in range(count):
        sound = sounding.sound(16_000, 1, number + 1.0)
        data = sounding.by_ffmpeg("mp3", "libmp3lame", 16_000, sound)
        (folder / f"r{number}.mp3").write_bytes(data)


def test_a_header_that_says_too_much_is_enough(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in")
    published, counts = corpus.run(job(tmp_path, max_hours=TWO_SECONDS))
    assert counts["filter"] == (8, 2)
    assert failed(tmp_path / "out") == {
        f"c/r{n:02d}.wav": ("filter", "too_long", corpus.seconds_of(n) / 3600, TWO_SECONDS, 0)
        for n in (8, 9)
    }
    assert verify(published.path) == []
    rows = pq.read_table(published.path / "ledger.parquet").to_pylist()
    detail = next(row["detail"] for row in rows if row["recording"] == "c/r09.wav")
    assert detail.endswith("cut it into parts, or raise filter.max_hours")


def test_what_shows_while_decoding_is_stopped_there(tmp_path: Path) -> None:
    mp3s(tmp_path / "in", 4)
    limit = 2.5 / 3600
    corpus.run(job(tmp_path, max_hours=limit))
    past = int(limit * 3600 * 16_000) + 1
    assert failed(tmp_path / "out") == {
        f"c/r{n}.mp3": ("filter", "too_long", past / 16_000 / 3600, limit, past) for n in (2, 3)
    }


@pytest.mark.parametrize("make", [mp3s, corpus.make])
@pytest.mark.nightly
def test_another_limit_decodes_what_was_refused_and_nothing_else(tmp_path: Path, make: Any) -> None:
    """Raised, lowered, and raised to where it was: always what a run from scratch publishes."""
    make(tmp_path / "in", 4)
    seconds = (1.05, 2.05, 1.05, 3.05)
    if make is corpus.make:  # 0.4, 0.6, 0.8 and 1 s
        seconds = (0.5, 0.7, 0.5, 0.9)
    work = []
    for number, limit in enumerate(seconds):
        once = job(tmp_path, out=tmp_path / f"fresh{number}", max_hours=limit / 3600)
        corpus.run(once)
        _, counts = corpus.run(job(tmp_path, max_hours=limit / 3600))
        work.append(counts["filter"][0])
        assert outcomes(tmp_path / "out") == outcomes(once.out)
    assert work == ([1, 1, 0, 1] if make is corpus.make else [4, 3, 0, 2])


def test_silence_beyond_all_encoders_expands_too_much(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    corpus.add(tmp_path / "in", 1)
    bomb = b"".join(bombs.flac(0.18, stated=False))
    (tmp_path / "in" / "bomb.flac").write_bytes(bomb)
    corpus.run(job(tmp_path))
    past = int(FREE_SECONDS * 16_000) + 1
    assert failed(tmp_path / "out") == {
        "c/bomb.flac": ("filter", "expands", past * 2 / len(bomb), 3000.0, past)
    }


@pytest.mark.parametrize(
    ("kind", "channels"), [("flac", 2), ("vorbis", 2), ("opus", 2), ("wavpack", 1), ("m4a", 1)]
)
def test_no_silence_that_an_encoder_writes_expands_too_much(kind: str, channels: int) -> None:
    """WavPack's is the densest: 2,343 at 16 kHz, mono, over ten minutes."""
    silence = np.zeros((20 * 48_000, channels), np.float32)
    if kind in sounding.SNDFILE:
        data = sounding.by_sndfile(*sounding.SNDFILE[kind], 48_000, silence)
    else:
        container, codec, _ = sounding.FFMPEG[kind]
        data = sounding.by_ffmpeg(container, codec, 48_000, silence)
    assert silence.size * 2 / len(data) < 3000
    limits = Limits(48.0, 3000.0)
    hours = 100 * len(silence)  # as if it went on like this
    assert limits.of_decoded(48_000, channels, 100 * len(data), hours) is None


def test_a_short_clip_may_expand_as_it_likes() -> None:
    limits = Limits(48.0, 3000.0)
    free = int(FREE_SECONDS * 8000)
    assert limits.of_decoded(8000, 1, 100, free) is None
    assert limits.of_decoded(8000, 1, 100, free + 1) is not None


def test_a_length_that_ffmpeg_estimates_refuses_nothing() -> None:
    limits = Limits(48.0, 3000.0)
    assert limits.of_header("mp3/mp3float", 16_000, 1, 1 << 20, 1e6) is None
    assert limits.of_header("flac/pcm_16", 16_000, 1, 1 << 30, 1e6) is not None
