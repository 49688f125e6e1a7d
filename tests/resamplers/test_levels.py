"""Levels: what each does to a signal of known level, and that none depends on anything else."""

import math
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy import signal

from tests.helpers import tiers
from uttermill.tasks import plugins
from uttermill.tasks.audio import Clip
from uttermill.tasks.base import shelves
from uttermill.tasks.base.errors import ItemError
from uttermill.tasks.filters import loudness
from uttermill.tasks.levels import ffmpeg, gaussian_noise
from uttermill.tasks.resamplers.librosa import Settings as LibrosaSettings
from uttermill.tasks.settings import Plugin, ResampleSettings
from uttermill.tasks.stages import pcm

Floats = NDArray[np.float32]
RATE = 16_000
OPTIONS: dict[str, dict[str, Any]] = {"ffmpeg": {"graph": "highpass=f=80,volume=-3dB"}}


def apply(use: str, samples: Floats, rate: int = RATE, **options: Any) -> Floats:
    module, chosen = plugins.LEVELS.resolve(Plugin.model_validate({"use": use, **options}))
    before = samples.copy()
    result: Floats = module.apply(samples, rate, chosen)
    assert np.array_equal(samples, before)
    assert result.dtype == np.float32
    assert result.shape == samples.shape
    return result


def sine(level: float, seconds: float = 2.0, rate: int = RATE, hertz: float = 997.0) -> Floats:
    wave = level * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)
    return wave.astype(np.float32)


def noise(level: float, count: int = RATE, seed: int = 0) -> Floats:
    return (np.random.default_rng(seed).standard_normal(count) * level).astype(np.float32)


def decibels(samples: Floats) -> float:
    return 10 * math.log10(np.mean(samples.astype(np.float64) ** 2))


def peak(samples: Floats) -> float:
    return float(np.abs(samples).max())


def lufs(samples: Floats, rate: int = RATE) -> float:
    found = loudness.measure(Clip.from_samples(samples, rate), loudness.Settings())["loudness"]
    assert found is not None
    return found


@pytest.mark.parametrize("use", shelves.names("levels"))
def test_every_level_is_a_pure_function(use: str) -> None:
    samples = noise(0.1)
    found = apply(use, samples, **OPTIONS.get(use, {}))
    assert np.isfinite(found).all()
    assert np.array_equal(found, apply(use, samples, **OPTIONS.get(use, {})))
    assert not np.array_equal(found, samples)
    silence = np.zeros(700, np.float32)
    assert np.array_equal(apply(use, silence, **OPTIONS.get(use, {})), silence)
    apply(use, np.array([0.25], np.float32), **OPTIONS.get(use, {}))  # one sample will do
    if use != "applio":  # which refuses it
        assert np.isfinite(apply(use, np.full(500, 1e30, np.float32), **OPTIONS.get(use, {}))).all()


@pytest.mark.parametrize("level", [1e-30, 0.003, 0.9, 3.0])
def test_peak(level: float) -> None:
    assert peak(apply("peak", sine(level), target_db=-6)) == pytest.approx(10**-0.3, rel=1e-6)


@pytest.mark.parametrize("rate", [8_000, 16_000, 48_000])
@pytest.mark.parametrize("level", [0.01, 0.7])
def test_loudness_reaches_its_target(rate: int, level: float) -> None:
    found = apply("loudness_lufs", sine(level, rate=rate), rate)
    assert lufs(found, rate) == pytest.approx(-23, abs=0.01)
    # a sine of 997 Hz at full scale is -3.01 LUFS
    assert peak(found) == pytest.approx(10 ** ((-23 + 3.01) / 20), rel=0.02)


def test_a_ceiling_lowers_the_gain_and_clips_nothing() -> None:
    samples = noise(0.01, 3 * RATE)
    samples[RATE] = 0.5
    found = apply("loudness_lufs", samples, target_lufs=-16, ceiling_db=-1)
    assert peak(found) == pytest.approx(10**-0.05, rel=1e-5)
    assert lufs(found) < -20
    assert np.allclose(found / samples, found[RATE] / samples[RATE], rtol=1e-5)


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-4, 4), st.floats(-40, 0), st.floats(-20, 0), st.integers(0, 99))
def test_nothing_rises_above_the_ceiling(
    level: float, target: float, ceiling: float, seed: int
) -> None:
    found = apply("loudness_lufs", noise(level, 8000, seed), target_lufs=target, ceiling_db=ceiling)
    assert peak(found) <= 10 ** (ceiling / 20)


@pytest.mark.parametrize("level", [0.9, 0.1, 0.03, 0.003])
def test_emilia_ends_at_full_scale_from_any_level(level: float) -> None:
    found = apply("emilia", sine(level))
    assert peak(found) == 1.0
    assert decibels(found) == pytest.approx(-3.0, abs=0.15)  # int16 is coarse at 0.003


def test_emilia_clips_what_is_quiet_and_has_peaks() -> None:
    samples = noise(0.02)
    samples[100] = 0.9  # -34 dBFS: 3 dB more makes it 1.27
    found = apply("emilia", samples)
    assert found[100] == 1.0
    assert decibels(found[200:]) - decibels(samples[200:]) == pytest.approx(3, abs=0.02)


def test_applio() -> None:
    found = apply("applio", sine(0.2))
    assert peak(found) == pytest.approx(0.675 + 0.25 * 0.2, rel=1e-3)
    gain = 0.675 / peak(sine(0.2)) + 0.25
    assert np.allclose(found, sine(0.2) * gain, rtol=1e-5, atol=0)
    assert peak(apply("applio", sine(2.4))) == pytest.approx(0.675 + 0.6, rel=1e-3)
    with pytest.raises(ItemError) as caught:
        apply("applio", sine(2.6))
    assert caught.value.code == "over_full_scale"


@pytest.mark.parametrize("rate", [32_000, 40_000, 48_000])
def test_highpass_is_the_filter_of_applio(rate: int) -> None:
    samples = noise(0.1, 4 * rate) + np.float32(0.3)
    b, a = signal.butter(5, 48, btype="high", fs=rate)
    found = apply("highpass", samples, rate)
    assert np.abs(found - signal.lfilter(b, a, samples)).max() < 1e-5


@pytest.mark.parametrize("rate", [4_000, 16_000, 48_000, 192_000])
def test_highpass_takes_rumble_and_leaves_speech(rate: int) -> None:
    def gain(hertz: float) -> float:
        wave = sine(0.5, 3, rate, hertz)
        return decibels(apply("highpass", wave, rate)[2 * rate :]) - decibels(wave[2 * rate :])

    assert gain(48) == pytest.approx(-3.01, abs=0.05)
    assert gain(24) == pytest.approx(-30, abs=1.5)
    assert gain(150) == pytest.approx(0, abs=0.05)


def test_noise_has_the_snr_that_was_asked_for() -> None:
    speech = sine(0.3, 5)
    found = apply("gaussian_noise", speech, min_snr_db=12, max_snr_db=12)
    assert decibels(speech) - decibels(found - speech) == pytest.approx(12, abs=0.1)
    spread = [
        decibels(speech[n:]) - decibels(apply("gaussian_noise", speech[n:]) - speech[n:])
        for n in range(40)
    ]
    assert min(spread) > 9.8
    assert max(spread) < 30.2
    assert max(spread) - min(spread) > 15


def test_noise_follows_from_the_seed_and_the_samples() -> None:
    speech = sine(0.3)
    added = {seed: apply("gaussian_noise", speech, seed=seed) - speech for seed in (0, 1)}
    assert not np.array_equal(added[0], added[1])
    other = sine(0.3)
    other[5] += np.float32(1e-6)
    assert not np.allclose(apply("gaussian_noise", other) - other, added[0])
    changed = [
        not np.array_equal(apply("gaussian_noise", speech[n:], probability=0.3), speech[n:])
        for n in range(100)
    ]
    assert 15 < sum(changed) < 45


def test_ffmpeg_filters() -> None:
    low, high = sine(0.3, hertz=40), sine(0.3, hertz=1000)
    assert decibels(apply("ffmpeg", low, graph="highpass=f=200")[RATE:]) < decibels(low) - 20
    assert np.allclose(apply("ffmpeg", high, graph="volume=0.5"), high / 2, atol=1e-6)
    assert np.array_equal(apply("ffmpeg", high), high)
    found = apply("ffmpeg", high, graph="highpass=f=80,loudnorm=I=-23:TP=-2")
    assert lufs(found) == pytest.approx(-23, abs=2)
    assert np.allclose(apply("ffmpeg", high, graph=r"aeval=exprs=min(val(0)\,0.1)"),
                       np.minimum(high, np.float32(0.1)), atol=1e-6)  # fmt: skip


@pytest.mark.parametrize(
    "graph", ["atempo=1.5", "atempo=0.7", "apad", "aloop=loop=-1:size=1000", "adelay=100"]
)
def test_a_chain_that_changes_the_length_is_refused(graph: str) -> None:
    with pytest.raises(ItemError) as caught:
        apply("ffmpeg", sine(0.3), graph=graph)
    assert caught.value.code == "unsupported"


@pytest.mark.parametrize(
    "graph",
    ["", ",", "nosuchfilter", "highpass=nosuchoption=1", "asplit", "amix=inputs=2", "scale=2:2",
     "[0]highpass", "anull;anull", "amovie=x.wav", "ametadata=print:file=x", "HIGHPASS", "a b",
     "highpass=f=80;[a]"],
)  # fmt: skip
def test_a_chain_that_cannot_be_made_is_refused_early(graph: str) -> None:
    with pytest.raises(ValidationError):
        ffmpeg.Settings(graph=graph)


def test_impossible_noise_is_refused() -> None:
    with pytest.raises(ValidationError, match="min_snr_db"):
        gaussian_noise.Settings(min_snr_db=40)


# Every resampler on the shelf: exact length, right pitch and level, no aliases, no wrap.

RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 96000)
ENGINES = get_args(LibrosaSettings.model_fields["res_type"].annotation)
PLUGINS = [
    *(Plugin(use=name) for name in shelves.names("resamplers") if name != "librosa"),
    *(Plugin.model_validate({"use": "librosa", "res_type": engine}) for engine in ENGINES),
]


def label(value: Any) -> str | None:
    if not isinstance(value, Plugin):
        return None  # pytest's own
    return " ".join([value.use, *value.options.values()])


def tone(hz: float, rate: int, seconds: float = 0.5) -> NDArray[np.float32]:
    return (0.5 * np.sin(2 * np.pi * hz * np.arange(int(seconds * rate)) / rate)).astype("f4")


def convert(samples: NDArray[np.float32], src: int, dst: int, plugin: Plugin) -> NDArray[np.int16]:
    wanted = ResampleSettings.model_validate({"rate": dst, "resampler": plugin})
    return pcm.of_clip(Clip.from_samples(samples, src), wanted)


@pytest.mark.full
@pytest.mark.parametrize("plugin", PLUGINS, ids=label)
@settings(max_examples=20, deadline=None)
@given(n=st.integers(0, 3000), src=st.sampled_from(RATES), dst=st.sampled_from(RATES))
def test_length_is_exact(plugin: Plugin, n: int, src: int, dst: int) -> None:
    samples = np.full(n, 0.25, np.float32)
    assert len(convert(samples, src, dst, plugin)) == pcm.resampled_length(n, src, dst)


@pytest.mark.parametrize("dst", [*RATES[:2], *map(tiers.nightly, RATES[2:])])
@pytest.mark.parametrize("plugin", PLUGINS[:4], ids=label)
def test_every_pair_of_rates(plugin: Plugin, dst: int) -> None:
    for src in RATES:
        for n in (1, 7, 401):
            got = convert(np.full(n, 0.25, np.float32), src, dst, plugin)
            assert len(got) == pcm.resampled_length(n, src, dst), (src, dst, n)


@pytest.mark.parametrize(
    ("plugin", "src"), tiers.covering(PLUGINS, [48000, 44100, 8000]), ids=label
)
def test_a_tone_keeps_frequency_level_and_place(plugin: Plugin, src: int) -> None:
    dst = 16000
    got = convert(tone(1000, src), src, dst, plugin) / 32768
    middle = slice(len(got) // 4, -len(got) // 4)
    # The very same sine at the new rate: a shift by one sample would show as an error of 0.2.
    assert np.abs(got - tone(1000, dst))[middle].max() < 0.005
    peak = np.abs(np.fft.rfft(got * np.hanning(len(got)))).argmax() * dst / len(got)
    assert peak == pytest.approx(1000, abs=2)


@pytest.mark.parametrize("plugin", PLUGINS, ids=label)
def test_no_alias(plugin: Plugin) -> None:
    got = convert(tone(15000, 48000), 48000, 16000, plugin) / 32768
    middle = got[len(got) // 4 : -len(got) // 4]
    assert np.abs(middle).max() < 0.5 * 10 ** (-60 / 20)


@pytest.mark.parametrize(
    ("plugin", "dst"), tiers.covering(PLUGINS, [8000, 16000, 48000]), ids=label
)
def test_a_full_scale_square_wave_is_clamped_not_wrapped(plugin: Plugin, dst: int) -> None:
    half = 500  # 44.1 Hz: long plateaus, and filters overshoot at every edge
    square = np.tile(np.repeat(np.array([1, -1], np.float32), half), 10)
    got = convert(square, 44100, dst, plugin).astype(np.int32)
    where = (np.arange(len(got)) + 0.5) * 44100 / dst % (2 * half)
    inside = 100
    up = (where > inside) & (where < half - inside)
    down = (where > half + inside) & (where < 2 * half - inside)
    assert got[up].min() > 28000
    assert got[down].max() < -28000
    assert got.max() == 32767
    assert got.min() == -32768


@pytest.mark.parametrize("name", shelves.names("resamplers"))
def test_contract(name: str) -> None:
    module = plugins.RESAMPLERS.load(name)
    got = module.resample(tone(440, 44100), 44100, 16000, module.Settings())
    assert isinstance(module.VERSION, int)
    assert got.dtype == np.float32
    assert got.ndim == 1


@pytest.mark.parametrize("name", ["soxr_hq", "soxr_vhq"])
def test_stream_is_the_same_wave_in_blocks_of_any_size(name: str) -> None:
    module = plugins.RESAMPLERS.load(name)
    samples = tone(440, 44100, 2)
    whole = module.resample(samples, 44100, 16000, module.Settings())
    for size in (1000, 30011, 10**6):
        blocks = (samples[at : at + size] for at in range(0, len(samples), size))
        assert module.stream
        parts = np.concatenate(list(module.stream(blocks, 44100, 16000, module.Settings())))
        assert len(parts) == len(whole)
        assert np.abs(parts - whole).max() < 1e-4
