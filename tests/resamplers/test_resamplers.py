"""Every resampler on the shelf: exact length, right pitch and level, no aliases, no wrap."""

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.helpers import tiers
from uttermill.tasks import plugins
from uttermill.tasks.audio import Clip
from uttermill.tasks.base import shelves
from uttermill.tasks.resamplers.librosa import Settings as LibrosaSettings
from uttermill.tasks.settings import Plugin, ResampleSettings
from uttermill.tasks.stages import pcm

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
