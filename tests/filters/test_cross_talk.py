"""Cross-talk: what of a channel's clip is the other side, heard faintly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile as sf

from tests.helpers import corpus
from uttermill.tasks import audio
from uttermill.tasks.audio import Clip
from uttermill.tasks.audio.channels import FRAME, Beside
from uttermill.tasks.filters import cross_talk
from uttermill.tasks.recording import Locator

RATE = 16_000


def call(path: Path, leak: float = -20.0) -> None:
    """Two seconds of the first side, then two of the second, each faint in the other channel."""
    first = np.concatenate([corpus.speech(1, 2.0, RATE)[:, 0], np.zeros(2 * RATE)])
    second = np.concatenate([np.zeros(2 * RATE), corpus.speech(2, 2.0, RATE)[:, 0]])
    part = 10 ** (leak / 20)
    path.parent.mkdir(parents=True, exist_ok=True)
    sf.write(path, np.stack([first + part * second, second + part * first], 1), RATE)


@pytest.mark.full
def test_clips_of_the_other_side_are_dropped(tmp_path: Path) -> None:
    call(tmp_path / "in/call.wav")
    rows = [
        f'{{"wav": "{tmp_path}/in/call.wav", "channel": {channel}, "start": {start}, '
        f'"end": {start + 2}, "key": "{channel}-{start}"}}\n'
        for channel in (0, 1) for start in (0, 2)
    ]  # fmt: skip
    (tmp_path / "list.jsonl").write_text("".join(rows))
    source = {"kind": "jsonl", "path": str(tmp_path / "list.jsonl"), "name": "c"}
    chosen = {"segmenter": {"use": "given"}, "filters": [{"use": "cross_talk"}]}
    published, _ = corpus.run(corpus.job(tmp_path, sources=[source], filter=chosen))
    rows = pq.read_table(published.path / "utterances.parquet").to_pylist()
    assert {row["source_id"]: row["cross_talk"] for row in rows} == {"0-0": 0.0, "1-2": 0.0}
    ledger = pq.read_table(published.path / "ledger.parquet").to_pylist()
    dropped = [row for row in ledger if row["reason"] == "cross_talk"]
    assert [row["value"] for row in dropped] == [1.0, 1.0]
    again = {**chosen, "filters": [{"use": "cross_talk", "max": None}]}
    kept, stages = corpus.run(corpus.job(tmp_path, sources=[source], filter=again))
    assert len(pq.read_table(kept.path / "utterances.parquet")) == 4
    assert stages["filter"][0] == 0


def test_a_mix_has_none() -> None:
    clip = Clip.from_samples(corpus.speech(1, 1.0, RATE, 2), RATE)
    assert cross_talk.measure(clip, cross_talk.Settings()) == {"cross_talk": None}


@pytest.mark.parametrize("block", [1, 7, 320, 1000, 50_000])
def test_levels_do_not_depend_on_the_blocks(block: int) -> None:
    samples = corpus.speech(1, 1.0, RATE, 3).astype(np.float32)
    beside = Beside(RATE, 1)
    for start in range(0, len(samples), block):
        beside.push(samples[start : start + block])
    size = round(RATE * FRAME)
    power = np.square(samples.astype(float)).reshape(-1, size, 3).mean(axis=1)
    own, others = power[:, 1], power[:, [0, 2]].max(axis=1)
    expected = 10 * np.log10(np.stack([own, others], 1))
    assert beside.levels(0, RATE) == pytest.approx(expected, abs=1e-3)
    assert beside.levels(size, 3 * size) == pytest.approx(expected[1:3], abs=1e-3)


@pytest.mark.parametrize("block", [1000, 50_000])
def test_what_listens_does_not_hear_the_other_side(tmp_path: Path, block: int) -> None:
    call(tmp_path / "call.wav")
    with audio.open_stream(Locator(str(tmp_path / "call.wav"), channels=(0,))) as stream:
        blocks = [*stream.listened().process(stream.blocks(block))]
    heard, (whole, _) = np.concatenate(blocks)[:, 0], sf.read(tmp_path / "call.wav")
    assert heard[: 2 * RATE] == pytest.approx(whole[: 2 * RATE, 0], abs=1e-6)
    assert np.abs(heard[2 * RATE :]).max() < 0.02 * np.abs(whole[2 * RATE :, 0]).max()
    assert len(heard) == len(whole)
