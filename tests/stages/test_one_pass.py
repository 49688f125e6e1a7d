"""The filter stage converts what passes while it decodes: the same bytes as if resample decoded."""

from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import corpus
from uttermill.tasks import audio, pipeline, plugins
from uttermill.tasks.audio import Clip, channels
from uttermill.tasks.base.errors import ItemError
from uttermill.tasks.insight.estimating import what_if
from uttermill.tasks.recording import Locator
from uttermill.tasks.recording.limits import Limits
from uttermill.tasks.runs.executor import Executor
from uttermill.tasks.settings import ResampleSettings
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import manifest
from uttermill.tasks.shard_store.shard_view import ShardView
from uttermill.tasks.stages import cutting, filter, pcm, stage
from uttermill.tasks.stages.pcm import Conversion, to_int16

SHARD = "shard-000000"
Decodes = Callable[[], int]


def listed(home: Path, count: int = 6, out: str = "out", **changes: Any) -> Job:
    """A job whose shard of recordings, some in two channels, is listed."""
    corpus.make(home / "in", count)
    (home / out).mkdir()
    job = corpus.job(
        home, out=home / out, scratch=home / "scratch", **{"resample": {"rate": 11025}, **changes}
    )
    pipeline.run_shard_stage(job, Executor(), home / "listing")
    return job


@pytest.fixture
def decodes(monkeypatch: pytest.MonkeyPatch) -> Decodes:
    """How many recordings were opened since."""
    opened: list[Locator] = []
    real = audio.open_stream

    def counted(where: Locator, limits: Limits | None = None) -> audio.Stream:
        opened.append(where)
        return real(where, limits)

    monkeypatch.setattr(audio, "open_stream", counted)
    return lambda: len(opened)


def stored(job: Job) -> list[tuple[str, str | None, str | None]]:
    """(recipe, sha256, error) of all rows of PCM."""
    parts = manifest.read(job.out, "resample", SHARD)
    rows = [row for part in parts for row in part.table.to_pylist()]
    return sorted((row["audio"], row["sha256"], row["error_code"]) for row in rows)


def apart(home: Path, job: Job) -> list[tuple[str, str | None, str | None]]:
    """The rows of stages that each decode by themselves."""
    alone = replace(job, out=home / "apart", cache_bytes=0)
    alone.out.mkdir()
    pipeline.run_shard_stage(alone, Executor(), home / "listing")
    assert stage.run("filter", alone, SHARD).converted == 0
    assert stored(alone) == []
    stage.run("resample", alone, SHARD)
    return stored(alone)


def test_nothing_is_decoded_twice(
    tmp_path: Path, decodes: Decodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pcm, "IN_MEMORY", 20_000)  # longer clips wait in a file
    job = listed(tmp_path)
    before = decodes()
    done = stage.run("filter", job, SHARD)
    assert (done.computed, done.converted) == (6, 6)
    assert done.converted_seconds == pytest.approx(sum(map(corpus.seconds_of, range(6))), abs=0.01)
    assert decodes() == before + 6
    done = stage.run("resample", job, SHARD)
    assert (done.computed, done.reused) == (0, 6)
    assert decodes() == before + 6
    assert [*(tmp_path / "scratch").iterdir()] == []
    rows = stored(job)
    assert len(rows) == 6
    assert rows == apart(tmp_path, job)


@pytest.mark.full
def test_what_filter_made_counts_as_computed_by_resample(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 3)
    _, counts = corpus.run(corpus.job(tmp_path))
    assert counts["filter"] == counts["resample"] == (3, 0)
    _, counts = corpus.run(corpus.job(tmp_path))
    assert counts["filter"] == counts["resample"] == (0, 3)
    _, counts = corpus.run(corpus.job(tmp_path, resample={"rate": 8000}))
    assert (counts["filter"], counts["resample"]) == ((0, 3), (3, 0))


def test_a_changed_setting_computes_the_pcm_alone(tmp_path: Path, decodes: Decodes) -> None:
    job = listed(tmp_path)
    stage.run("filter", job, SHARD)
    old = stored(job)
    changed = replace(job, resample=job.resample.model_copy(update={"mono": "first"}))
    before = decodes()
    assert stage.run("resample", changed, SHARD).computed == 6
    assert decodes() == before + 6
    assert [row for row in stored(changed) if row not in old] == apart(tmp_path, changed)


def test_what_is_dropped_stored_or_too_much_is_not_converted(tmp_path: Path) -> None:
    job = listed(tmp_path)
    stage.run("filter", job, SHARD)

    def converted(**changes: Any) -> int:
        again = replace(job, **changes)
        units, _ = filter.todo(ShardView(again, SHARD))
        assert len(units) == 6
        rows = [row for found in filter.compute(units, again) for row in found]
        return sum("audio" in row for row in rows)

    auto = corpus.job(tmp_path, filter={"segmenter": {"use": "auto"}}).filter
    assert converted(filter=auto) == 0, "its PCM is there already"
    other = {"filter": auto, "resample": job.resample.model_copy(update={"rate": 8000})}
    assert converted(**other) == 6
    assert converted(**other, cache_bytes=0) == 0
    assert converted(**other, cache_bytes=10_000) == 2, "0.4 and 0.6 s"
    strict = corpus.job(tmp_path, filter={**corpus.filters(max=0.7), "segmenter": {"use": "auto"}})
    assert converted(**{**other, "filter": strict.filter}) == 2


def test_a_recording_that_changes_meanwhile_stores_nothing(tmp_path: Path) -> None:
    job = listed(tmp_path)
    corpus.add(tmp_path / "in", 2, seed=99)
    assert stage.run("filter", job, SHARD).converted == 5
    assert len(stored(job)) == 5


def test_what_cannot_be_converted_fails_in_its_own_stage(tmp_path: Path) -> None:
    job = listed(tmp_path, 4, resample={"mono": 1})
    assert stage.run("filter", job, SHARD).converted == 4
    codes = [error for *_, error in stored(job)]
    assert sorted(map(str, codes)) == ["None", *3 * ["unsupported"]]
    assert stored(job) == apart(tmp_path, job)


@pytest.mark.full
def test_isolated_items_are_not_converted_by_filter(tmp_path: Path) -> None:
    job = listed(tmp_path, 2)
    assert stage.run("filter", job, SHARD, isolate=True).converted == 0
    assert stored(job) == []
    assert stage.run("resample", job, SHARD).computed == 2


def test_without_room_on_the_disk_resample_decodes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = listed(tmp_path)
    real = Conversion._write

    def full(self: Conversion, samples: Any) -> int:
        if len(samples) > 8_000:
            raise OSError(28, "No space left on device")
        return real(self, samples)

    monkeypatch.setattr(pcm, "IN_MEMORY", 0)
    monkeypatch.setattr(Conversion, "_write", full)
    assert stage.run("filter", job, SHARD).converted == 2
    assert stage.run("resample", job, SHARD).computed == 4
    monkeypatch.undo()
    assert stored(job) == apart(tmp_path, job)


@pytest.mark.parametrize("error", [ItemError("decode_error", "x"), MemoryError()])
def test_a_recording_that_fails_leaves_no_pcm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    job = listed(tmp_path, 3)

    def broken(*_: Any) -> None:
        raise error

    monkeypatch.setattr(cutting, "after_all", broken)
    assert stage.run("filter", job, SHARD).converted == 0
    assert stored(job) == []


@pytest.mark.parametrize("in_memory", [1 << 23, 0, 70_000])
def test_a_span_given_twice_is_converted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    monkeypatch.setattr(pcm, "IN_MEMORY", in_memory)
    samples = np.random.default_rng(0).standard_normal((50_000, 2), np.float32) / np.float32(4)
    job = corpus.job(tmp_path, scratch=tmp_path / "scratch")
    clip = Clip.of_pieces([samples[:1], samples[1:30_000], samples[30_000:]], 44_100)
    with Conversion(job, "c/a.wav", "content", ()) as clips:
        clips.add(0, 50_000, clip)
        clips.add(0, 50_000, clip)
        clips.add(0, 0, Clip.from_samples(np.zeros((0, 2), np.float32), 44_100))
        clips.add(5, 9, Clip.from_samples(np.full((4, 1), np.nan, np.float32), 44_100))
        clips.add(9, 14, Clip.from_samples(np.zeros((5, 1), np.float32), 44_100))
        clips.add(50_000, 100_000, clip)
        clips.drop(9, 14)
        whole, empty, broken, again = clips.rows()
    assert np.array_equal(
        whole["pcm"], pcm.of_clip(Clip.from_samples(samples, 44_100), job.resample)
    )
    assert np.array_equal(again["pcm"], whole["pcm"])
    assert len(empty["pcm"]) == 0
    assert broken["error_code"] == "non_finite"


# Mono, length and int16: the arithmetic that a corpus cannot forgive.


def settings(**values: Any) -> ResampleSettings:
    return ResampleSettings.model_validate(values)


@given(st.integers(0, 10**10), st.integers(1000, 768000), st.integers(4000, 192000))
def test_length_is_rounded_half_up(n: int, src: int, dst: int) -> None:
    exact = (Decimal(n) * dst / src).quantize(Decimal(1), rounding=ROUND_HALF_UP)
    assert pcm.resampled_length(n, src, dst) == int(exact)


def test_a_half_goes_up() -> None:
    assert pcm.resampled_length(1, 32000, 16000) == 1
    assert pcm.resampled_length(1, 48000, 16000) == 0
    assert pcm.resampled_length(5, 32000, 16000) == 3


def test_every_int16_survives_an_equal_rate() -> None:
    every = np.arange(-32768, 32768, dtype=np.int32).astype(np.int16)
    floats = (every / 32768).astype(np.float32)[:, None]
    assert np.array_equal(pcm.of_clip(Clip.from_samples(floats, 16000), settings()), every)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, 32767), (1.5, 32767), (1e30, 32767), (-1.0, -32768), (-7.0, -32768), (0.0, 0),
        (0.5 / 32768, 0), (1.5 / 32768, 2), (2.5 / 32768, 2), (-0.5 / 32768, 0),
    ],
)  # fmt: skip
def test_clamped_and_rounded_half_to_even(value: float, expected: int) -> None:
    assert to_int16(np.array([value], np.float32)).tolist() == [expected]


def test_to_int16_leaves_its_input_alone() -> None:
    samples = np.array([0.25, 2.0], np.float32)
    to_int16(samples)
    assert samples.tolist() == [0.25, 2.0]


@pytest.mark.parametrize(
    ("rule", "expected"), [("mean", 0.5), ("first", 0.25), (0, 0.25), (1, 0.75)]
)
def test_mono_rules(rule: str | int, expected: float) -> None:
    stereo = np.tile(np.array([[0.25, 0.75]], np.float32), (5, 1))
    got = pcm.to_mono(stereo, settings(mono=rule).mono)
    assert got.dtype == np.float32
    assert got.tolist() == [expected] * 5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [*range(1, 10), 16])
def test_the_mean_of_channels_is_numpys_to_the_bit(count: int, dtype: type) -> None:
    chance = np.random.default_rng(count)
    scales = 10.0 ** chance.integers(-44, 38, (5000, count))
    samples = (chance.standard_normal((5000, count)) * scales).clip(-3e38, 3e38).astype("f4")
    samples[:2] = np.finfo(np.float32).max
    with np.errstate(over="ignore"):
        expected = samples.mean(axis=1, dtype=dtype).astype(np.float32)
        assert np.array_equal(channels.mean(samples, dtype), expected)


@pytest.mark.parametrize("rule", [1, 7, -1])
def test_a_channel_that_is_not_there(rule: int) -> None:
    with pytest.raises(ItemError) as caught:
        pcm.to_mono(np.zeros((5, 1), np.float32), rule)
    assert caught.value.code == "unsupported"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("rate", [16000, 44100])
def test_not_finite(value: float, rate: int) -> None:
    samples = np.zeros((2000, 2), np.float32)
    samples[700, 1] = value
    with pytest.raises(ItemError) as caught:
        pcm.of_clip(Clip.from_samples(samples, rate), settings())
    assert caught.value.code == "non_finite"


@pytest.mark.parametrize("seconds", [1, pcm.STREAM_ABOVE_S + 1])
@pytest.mark.parametrize("rate", [8000, 16000])
def test_channels_that_cancel_each_other_are_not_silence(seconds: int, rate: int) -> None:
    """Silence was published with the source's text; of a recogniser's it said `empty_text`."""
    left = np.random.default_rng(5).normal(scale=0.1, size=seconds * rate)
    clip = Clip.from_samples(np.stack([left, -left], 1), rate)
    with pytest.raises(ItemError, match=r"channels_cancel.*resample\.mono=first"):
        pcm.of_clip(clip, ResampleSettings())
    assert pcm.of_clip(clip, ResampleSettings(mono="first")).any()


@pytest.mark.parametrize("seconds", [1, pcm.STREAM_ABOVE_S + 1])
@pytest.mark.parametrize("rate", [8000, 16000])
@pytest.mark.parametrize("scale", [5, 32768, 1e30])
def test_a_clip_is_not_cut_to_pieces_at_full_scale(seconds: int, rate: int, scale: float) -> None:
    """Floats in the scale of int16 were published as a square wave, and no filter saw it."""
    voice = np.random.default_rng(5).normal(size=seconds * rate) * np.float32(0.2)
    clip = Clip.from_samples((voice * np.float32(scale)).astype(np.float32)[:, None], rate)
    with pytest.raises(ItemError, match=r"over_full_scale.*peak is.*levels=\[\{use: peak\}\]"):
        pcm.of_clip(clip, ResampleSettings())
    brought_down = ResampleSettings.model_validate({"levels": [{"use": "peak"}]})
    assert np.abs(pcm.of_clip(clip, brought_down).astype(int)).max() == pytest.approx(29204, abs=2)
    hot = Clip.from_samples((voice * np.float32(1.4)).astype(np.float32)[:, None], rate)
    assert np.abs(pcm.of_clip(hot, ResampleSettings()).astype(int)).max() >= 32767  # an overshoot


@pytest.mark.parametrize("hertz", [100, 1000, 2000, 3000])
def test_a_square_wave_at_full_scale_overshoots_and_stays(hertz: int) -> None:
    """Resampled, it keeps its lowest harmonics, which are higher than it."""
    wave = np.sign(np.sin(2 * np.pi * hertz * np.arange(48000) / 48000 + 0.1)).astype(np.float32)
    found = pcm.of_clip(Clip.from_samples(wave[:, None], 48000), ResampleSettings())
    assert np.abs(found.astype(int)).max() == 32768


@pytest.mark.parametrize("count", [2, 6, 128])
def test_a_single_channel_with_sound_is_kept(count: int) -> None:
    sound = np.zeros((1600, count))
    sound[:, 1] = np.random.default_rng(5).normal(scale=0.3, size=1600)
    assert pcm.of_clip(Clip.from_samples(sound, 16000), ResampleSettings()).any()
    assert not pcm.of_clip(Clip.from_samples(0 * sound, 16000), ResampleSettings()).any()


def test_nothing_in_nothing_out() -> None:
    got = pcm.of_clip(Clip.from_samples(np.zeros((0, 2), np.float32), 44100), settings())
    assert (got.dtype, len(got)) == (np.dtype(np.int16), 0)


@pytest.mark.parametrize("use", ["soxr_hq", "soxr_vhq"])
def test_a_long_clip_is_streamed_to_the_same_length_and_wave(
    use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rate, n = 22050, 121 * 22050 + 17
    sine = (0.5 * np.sin(2 * np.pi * 300 * np.arange(n) / rate)).astype(np.float32)[:, None]
    wanted = settings(resampler={"use": use})
    streamed = pcm.of_clip(Clip.from_samples(sine, rate), wanted)
    assert np.array_equal(streamed, pcm.of_clip(Clip.from_samples(sine, rate), wanted))
    monkeypatch.setattr(pcm, "STREAM_ABOVE_S", 10**6)
    whole = pcm.of_clip(Clip.from_samples(sine, rate), wanted)
    assert len(streamed) == len(whole) == pcm.resampled_length(n, rate, 16000)
    assert np.abs(streamed.astype(int) - whole).max() <= 1


def test_a_plug_in_of_the_wrong_length_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    soxr_hq = plugins.RESAMPLERS.load("soxr_hq")
    monkeypatch.setattr(soxr_hq, "resample", lambda x, src, dst, s: x)
    with pytest.raises(AssertionError, match="soxr_hq gave 4410 samples where 1600 are due"):
        pcm.of_clip(Clip.from_samples(np.zeros((4410, 1), np.float32), 44100), settings())


def test_a_broken_file_is_not_read_again_for_fewer_filters(
    tmp_path: Path, decodes: Decodes
) -> None:
    corpus.make(tmp_path / "in", 2)
    sf.write(tmp_path / "in" / "nan.wav", np.full(16000, np.nan), 16000, "FLOAT")
    sources = [{"kind": "folder", "path": str(tmp_path / "in"), "expect_broken": True}]
    more, fewer = (
        corpus.job(tmp_path, sources=sources, filter=corpus.filters(*several))
        for several in ([{"use": "loudness"}], [])
    )
    corpus.run(more)
    before = decodes()
    told, _ = what_if.kept(fewer, fewer)
    assert (told["items"], told["unmeasured"]) == (2, 0)
    published, _ = corpus.run(fewer)
    assert decodes() == before
    assert [
        row["reason"] for row in corpus.ledger(published.path) if row["outcome"] == "failed"
    ] == ["non_finite"]
