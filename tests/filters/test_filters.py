"""Measures of audio, from synthesised clips: right numbers, and the same however they are cut."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile as sf
from numpy.typing import NDArray
from pydantic import ValidationError

from tests.helpers import corpus
from uttermill.tasks import audio, plugins
from uttermill.tasks.audio import Clip
from uttermill.tasks.audio.channels import FRAME, Beside
from uttermill.tasks.filters import clipping, cross_talk, duration, file_size, silence
from uttermill.tasks.insight.estimating import planning, what_if
from uttermill.tasks.plugins.rules import judge
from uttermill.tasks.recording import Locator

RATE = 16_000
Samples = NDArray[np.float32]


def tone(seconds: float, level: float, rate: int = RATE) -> Samples:
    at = np.arange(int(seconds * rate)) / rate
    return (level * np.sin(2 * np.pi * 213 * at)).astype(np.float32)


def quiet(seconds: float) -> Samples:
    return np.zeros(int(seconds * RATE), np.float32)


class Cut(Clip):
    """A clip that hands out blocks of the lengths it is told, over and over."""

    sizes: tuple[int, ...] = (1,)

    def blocks(self, frames: int = 0):  # type: ignore[no-untyped-def]
        samples = self.samples()
        at, turn = 0, 0
        while at < self.num_samples:
            size = self.sizes[turn % len(self.sizes)]
            yield samples[at : at + size]
            at, turn = at + size, turn + 1


def cut(samples: Samples, sizes: tuple[int, ...]) -> Cut:
    clip = Cut.from_samples(samples, RATE)
    object.__setattr__(clip, "sizes", sizes)
    assert isinstance(clip, Cut)
    return clip


@pytest.mark.parametrize(
    ("seconds", "reason"), [(0.05, "too_short"), (0.1, None), (30.0, None), (30.01, "too_long")]
)
def test_duration_counts_decoded_samples(seconds: float, reason: str | None) -> None:
    clip = Clip.from_samples(np.zeros(round(seconds * 1000), np.float32), 1000, header_seconds=99.0)
    values = duration.measure(clip, duration.Settings())
    found = judge(values, plugins.FILTERS.load("duration").verdict(duration.Settings()))
    assert values["duration"] == pytest.approx(seconds)
    assert (found.reason if found else None) == reason


@pytest.mark.parametrize(
    ("text", "size"),
    [("1.5MB", 1_500_000), ("20KiB", 20_480), ("20 kb", 20_000), ("2G", 2 * 10**9), ("7", 7),
     ("1GiB", 2**30), ("12 bytes", 12), (".5k", 500)],
)  # fmt: skip
def test_sizes_are_read_with_their_units(text: str, size: int) -> None:
    chosen = file_size.Settings.model_validate({"min": text, "max": size})
    assert (chosen.min, chosen.max) == (size, size)


@pytest.mark.parametrize("text", ["big", "1.5 XB", "-3", "1,5MB", "", "2i"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        file_size.Settings.model_validate({"min": text})


def test_file_size_is_the_recordings() -> None:
    clip = Clip.from_samples(quiet(1), RATE, 1.0, 999)
    values = file_size.measure(clip, file_size.Settings())
    assert values == {"file_size": 999.0}
    assert judge(values, plugins.FILTERS.load("file_size").verdict(file_size.Settings())) is None
    strict = file_size.Settings.model_validate({"min": "1KB"})
    rejection = judge(values, plugins.FILTERS.load("file_size").verdict(strict))
    assert rejection is not None
    assert rejection.reason == "too_small"


def test_silence_is_found_where_it_lies() -> None:
    samples = np.concatenate([quiet(1), tone(2, 0.1), quiet(3), tone(1, 0.1), quiet(0.5)])
    values = silence.measure(Clip.from_samples(samples, RATE), silence.Settings())
    assert values == {
        "silence_fraction": pytest.approx(4.5 / 7.5),
        "silence_leading": pytest.approx(1.0),
        "silence_trailing": pytest.approx(0.5),
        "silence_longest": pytest.approx(3.0),
    }


def test_a_noise_floor_is_silence_beside_loud_speech() -> None:
    noise = 0.0008 * np.random.default_rng(0).standard_normal(RATE).astype(np.float32)  # -62 dBFS
    values = silence.measure(
        Clip.from_samples(np.r_[tone(1, 0.9), noise], RATE), silence.Settings()
    )
    assert values["silence_fraction"] == pytest.approx(0.5)


@pytest.mark.parametrize("level", [0.0, 1e-4])
def test_nothing_but_silence_is_rejected(level: float) -> None:
    values = silence.measure(Clip.from_samples(tone(2, level), RATE), silence.Settings())
    rejection = judge(values, plugins.FILTERS.load("silence").verdict(silence.Settings()))
    assert rejection is not None
    assert rejection.reason == "silent"
    assert values["silence_leading"] == values["silence_trailing"] == 2
    assert values["silence_longest"] == 0, "there is no sound for it to lie between"


def test_quiet_speech_is_not_silence() -> None:
    values = silence.measure(Clip.from_samples(tone(2, 0.003), RATE), silence.Settings())
    assert values["silence_fraction"] == 0.0


@pytest.mark.parametrize("level", [1.0, 0.3])
def test_flat_tops_are_clipping_at_any_level(level: float) -> None:
    clipped = np.clip(tone(1, 2.0), -1, 1) * np.float32(level)
    values = clipping.measure(Clip.from_samples(clipped, RATE), clipping.Settings())
    assert values["clipping_fraction"] == pytest.approx(2 / 3, abs=0.02)
    rejection = judge(values, plugins.FILTERS.load("clipping").verdict(clipping.Settings()))
    assert rejection is not None
    assert rejection.reason == "clipped"


@pytest.mark.parametrize("samples", [tone(1, 0.99), quiet(1), tone(1, 0.02).clip(-0.01, 0.01)])
def test_clean_and_silent_audio_is_not_clipped(samples: Samples) -> None:
    values = clipping.measure(Clip.from_samples(samples, RATE), clipping.Settings())
    assert values == {"clipping_fraction": 0.0, "clipping_longest": 0.0}


def test_one_clipped_channel_of_two_counts_half() -> None:
    both = np.stack([np.clip(tone(1, 2.0), -1, 1), tone(1, 0.5)], axis=1)
    one = clipping.measure(Clip.from_samples(both[:, 0], RATE), clipping.Settings())
    two = clipping.measure(Clip.from_samples(both, RATE), clipping.Settings())
    assert two["clipping_fraction"] == pytest.approx((one["clipping_fraction"] or 0) / 2)
    assert two["clipping_longest"] == one["clipping_longest"]


# Cross-talk: what of a channel's clip is the other side, heard faintly.


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
    lines = [
        f'{{"wav": "{tmp_path}/in/call.wav", "channel": {channel}, "start": {start}, '
        f'"end": {start + 2}, "key": "{channel}-{start}"}}\n'
        for channel in (0, 1) for start in (0, 2)
    ]  # fmt: skip
    (tmp_path / "list.jsonl").write_text("".join(lines))
    source = {"kind": "jsonl", "path": str(tmp_path / "list.jsonl"), "name": "c"}
    chosen = {"segmenter": {"use": "given"}, "filters": [{"use": "cross_talk"}]}
    published, _ = corpus.run(corpus.job(tmp_path, sources=[source], filter=chosen))
    rows = corpus.utterances(published.path)
    assert {row["source_id"]: row["cross_talk"] for row in rows} == {"0-0": 0.0, "1-2": 0.0}
    ledger = corpus.ledger(published.path)
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


# Costly measures are spared where a cheap verdict rejects, and taken when it no longer does.


COSTLY = {"use": "tests.plugins.costly"}
COUNT = 6  # 0.4, 0.6 ... 1.4 s


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[float]]:
    """Lengths of the clips that were measured since the last call."""
    path = tmp_path / "measured"
    monkeypatch.setenv("UTTERMILL_COUNT", str(path))

    def since() -> list[float]:
        found = sorted(map(float, path.read_text().split())) if path.exists() else []
        path.unlink(missing_ok=True)
        return found

    return since


def job(tmp: Path, longest: float, **more: Any) -> Any:
    # Listed first, and still measured last.
    filters = (COSTLY, {"use": "duration", "max": longest})
    return corpus.job(tmp, filter={"segmenter": {"use": "whole"}, "filters": filters, **more})


@pytest.mark.full
def test_only_what_cheap_filters_keep_is_measured(
    tmp_path: Path, measured: Callable[[], list[float]]
) -> None:
    corpus.make(tmp_path / "in", COUNT)
    published, counts = corpus.run(job(tmp_path, 0.9))
    assert measured() == [0.4, 0.6, 0.8]
    assert counts["filter"] == (6, 0)
    assert published.summary["reasons"]["filter.too_long"]["items"] == 3
    assert not corpus.run(job(tmp_path, 0.9))[0].new
    assert measured() == [], "what was spared was taken for missing"

    # Let in two more: only they are measured, converted and heard, all in one run.
    wide = job(tmp_path, 1.3)
    kept, _ = what_if.kept(wide, wide)
    assert kept == what_if.of_shards(wide)
    assert (kept["items"], kept["not_yet_transcribed"]["items"]) == (5, 2)
    foreseen = planning.plan(wide, job(tmp_path, 0.9))
    assert foreseen.unjudged == 2, "they may fall to what has not measured them"
    assert foreseen.stages["resample"].compute == 2
    wider, counts = corpus.run(job(tmp_path, 1.3))
    assert planning.plan(wide, wide).unjudged == 0
    assert measured() == [1.0, 1.2]
    assert counts["filter"] == (2, 4)
    assert counts["resample"] == counts["transcribe"] == (2, 3)
    rows = corpus.utterances(wider.path)
    assert sorted(round(row["costly"], 1) for row in rows) == [0.4, 0.6, 0.8, 1.0, 1.2]


def test_the_reason_does_not_depend_on_what_was_spared(
    tmp_path: Path, measured: Callable[[], list[float]]
) -> None:
    corpus.make(tmp_path / "in", COUNT)
    filters = ({**COSTLY, "max": 0.7}, {"use": "duration", "max": 0.9})
    for measure_all in (False, True):
        chosen = {"segmenter": {"use": "whole"}, "filters": filters, "measure_all": measure_all}
        out = tmp_path / f"out-{measure_all}"
        published, _ = corpus.run(corpus.job(tmp_path, out=out, filter=chosen))
        reasons = published.summary["reasons"]
        assert reasons["filter.too_long"]["items"] == 3
        assert reasons["filter.too_costly"]["items"] == 1


def test_measure_all_measures_all(tmp_path: Path, measured: Callable[[], list[float]]) -> None:
    corpus.make(tmp_path / "in", COUNT)
    corpus.run(job(tmp_path, 0.9))
    measured()
    published, counts = corpus.run(job(tmp_path, 0.9, measure_all=True))
    assert measured() == [1.0, 1.2, 1.4]
    assert counts["filter"] == (3, 3)
    assert not published.new, "nothing that is published changed"
