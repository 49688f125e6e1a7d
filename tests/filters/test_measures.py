"""What holds for every measure on the shelf, and the numbers of the simple ones."""

import math
import tracemalloc
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.filters.test_filters import Cut
from tests.helpers import fetched, tiers
from uttermill.tasks import plugins
from uttermill.tasks.audio import Clip
from uttermill.tasks.base import shelves
from uttermill.tasks.base.schema import UTTERANCES
from uttermill.tasks.filters import (
    bandwidth,
    channels,
    channels_identical,
    clipping,
    dc_offset,
    dead_channel,
    duration,
    loudness,
    peak,
    rms,
    sample_rate,
    silence,
    speech_ratio,
)
from uttermill.tasks.plugins import annotation_kinds
from uttermill.tasks.plugins.rules import Limit, Rejection, judge
from uttermill.tasks.settings import Plugin

Samples = NDArray[np.float32]
NAMES = shelves.names("filters")
#: Measures that cost next to nothing, for tests with many or long clips.
LIGHT = (bandwidth, channels, channels_identical, clipping, dc_offset, dead_channel, duration,
         loudness, peak, rms, sample_rate, silence)  # fmt: skip


def noise(seconds: float, count: int = 1, rate: int = 16_000, level: float = 0.1) -> Samples:
    rng = np.random.default_rng(round(seconds * 1000) + count)
    return (level * rng.standard_normal((round(seconds * rate), count))).astype(np.float32)


def measured(module: Any, clip: Clip, **chosen: Any) -> dict[str, float | None]:
    return {**module.measure(clip, module.Settings(**chosen))}


def number(module: Any, samples: Samples, rate: int = 16_000) -> float:
    """The only number of a measure that has one; it has to be there."""
    (value,) = measured(module, Clip.from_samples(samples, rate)).values()
    assert value is not None
    return value


def rejection(module: Any, clip: Clip, **chosen: Any) -> Rejection | None:
    own = module.Settings(**chosen)
    rules = plugins.FILTERS.load(module.__name__).verdict(own)
    return judge(module.measure(clip, own), rules)


def reason(module: Any, clip: Clip, **chosen: Any) -> str | None:
    found = rejection(module, clip, **chosen)
    return found.reason if found else None


# --- every measure on the shelf -------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_columns_and_limits_are_named_by_the_law(name: str) -> None:
    module = plugins.FILTERS.load(name)
    limits: set[str] = set()
    for column, (unit, doc) in module.COLUMNS.items():
        assert column == name or column.startswith(f"{name}_")
        assert unit
        assert doc
        part = column[len(name) :]
        limits |= {f"min{part}", f"max{part}"}
    assert limits <= set(module.Settings.model_fields)


def test_no_column_stands_twice_in_what_is_published() -> None:
    found = [c for name in NAMES for c in plugins.FILTERS.load(name).COLUMNS]
    assert len(found) == len(set(found))
    assert not set(found) & set(UTTERANCES.names)


@pytest.mark.parametrize("name", NAMES)
def test_reasons_are_codes_and_no_limit_is_upside_down(name: str) -> None:
    module = plugins.FILTERS.load(name)
    for rule in module.verdict(module.Settings()):
        if isinstance(rule, Limit):
            assert rule.column in module.COLUMNS
            assert all(r.isidentifier() and r == r.lower() for r in (rule.low, rule.high))
            assert rule.min is None or rule.max is None or rule.min < rule.max


LEVELS = ("peak", "rms", "loudness")
MUSIC = {"music_share": 0.4, "music_level": -8.0, "music_evidence": 0.06}
SOUNDS = {"sounds_music_mean": 0.5, "sounds_music_score": 0.9, "sounds_laughter": 0.0,
          "sounds_music": 1.0}  # fmt: skip
VOICE = {"pitch_median": 110.0, "pitch_range": 2.0, "pitch_voiced": 0.5}
HALL = {"reverberation_c50": 3.0, "reverberation_rt60": 1.2}
#: A filter, its settings, what it measured, and why the clip is dropped.
REASONS: list[tuple[str, dict[str, Any], Mapping[str, float | None], str | None]] = [
    ("bandwidth", {"min": 6000}, {"bandwidth": 4000.0}, "narrow_band"),
    ("bandwidth", {}, {"bandwidth": 4000.0}, None),
    ("effective_rate", {"min": 16_000}, {"effective_rate": 8000.0}, "upsampled"),
    ("effective_rate", {"min": 16_000}, {"effective_rate": 16_000.0}, None),
    ("reverberation", {"min_c50": 10}, HALL, "reverberant"),
    ("pitch", {"min_median": 160}, VOICE, "low_voice"),
    ("speech_rate", {"max": 6}, {"speech_rate": 7.5}, "fast_speech"),
    *((use, {"max": -10}, {use: 0.0}, "too_loud") for use in LEVELS),
    *((use, {"min": -60}, {use: -100.0}, "too_quiet") for use in LEVELS),
    *((use, {}, {use: -100.0}, None) for use in LEVELS),
    ("dead_channel", {}, {"dead_channel": 90.0}, "dead_channel"),
    ("dead_channel", {"max": None}, {"dead_channel": 90.0}, None),
    ("channels_identical", {}, {"channels_identical": 0.0}, "channels_cancel"),
    ("channels_identical", {}, {"channels_identical": 1.0}, None),
    ("channels_identical", {"max": 0.9999}, {"channels_identical": 1.0}, "channels_identical"),
    ("channels", {"max": 1}, {"channels": 2.0}, "too_many_channels"),
    ("channels", {"min": 3}, {"channels": 2.0}, "too_few_channels"),
    ("music", {"max_share": 0.1}, MUSIC, "music_heard"),
    ("music", {"min_share": 0.5}, MUSIC, "little_music_heard"),
    ("music", {"max_level": -15.0}, MUSIC, "loud_music"),
    ("music", {"min_level": -5.0}, MUSIC, "faint_music"),
    ("music", {"max_evidence": 0.05}, MUSIC, "music_likely"),
    ("music", {"min_evidence": 0.1}, MUSIC, "no_music_likely"),
    ("sounds", {"max_music_mean": 0.02}, SOUNDS, "much_music"),
    ("sounds", {"max_music_score": 0.5}, SOUNDS, "music"),
    ("sounds", {"max_share": {"music": 0.5}}, SOUNDS, "high_sounds_music"),
    ("sounds", {"min_share": {"laughter": 0.5}}, SOUNDS, "low_sounds_laughter"),
    ("snr", {"min": 5}, {"snr": 4.0}, "noisy"),
    ("snr", {"min": 5}, {"snr": None}, None),
    ("snr", {"max": 30}, {"snr": 40.0}, "high_snr"),
    ("nmf_snr", {"min": 0}, {"nmf_snr": -0.1}, "low_nmf_snr"),
    ("nmf_snr", {"min": 0}, {"nmf_snr": 0.0}, None),
    ("dnsmos", {"min_ovrl": 3.0}, {"dnsmos_ovrl": 2.9}, "low_dnsmos_ovrl"),
    ("dnsmos", {}, {"dnsmos_ovrl": 2.9}, None),
    ("dnsmos", {"min_bak": 3.0}, {"dnsmos_bak": 2.9}, "low_dnsmos_bak"),
]


@pytest.mark.parametrize(("use", "limits", "values", "why"), REASONS)
def test_each_limit_has_its_reason(
    use: str, limits: dict[str, Any], values: Mapping[str, float | None], why: str | None
) -> None:
    module = plugins.FILTERS.load(use)
    found = judge(values, module.verdict(module.Settings.model_validate(limits)))
    assert (found.reason if found else None) == why


CLIPS = {
    "nothing": (np.zeros((0, 2), np.float32), 16_000),
    "one sample": (np.full((1, 1), 0.5, np.float32), 16_000),
    "one frame of 8 channels": (noise(1, 8)[:1], 16_000),
    "silence": (np.zeros((32_000, 2), np.float32), 16_000),
    "offset": (np.full((32_000, 2), 0.25, np.float32), 16_000),
    "8 channels": (noise(1.5, 8), 16_000),
    "8 kHz": (noise(1.5, rate=8000), 8000),
    "192 kHz": (noise(1.2, 2, 192_000), 192_000),
    "768 kHz": (noise(0.5, rate=768_000), 768_000),
    "1 kHz": (noise(2, rate=1000), 1000),
    "beyond full scale": (noise(1.5) * np.float32(1e6), 16_000),
    "one huge sample": (np.r_[noise(1), np.full((1, 1), 3e38, np.float32), noise(1)], 16_000),
    "next to nothing": (noise(1.5) * np.float32(1e-30), 16_000),
}
#: The filter stage refuses these before it measures; a measure may still meet them elsewhere.
NOT_FINITE = {
    "nan": np.full((20_000, 2), np.nan, np.float32),
    "one nan": np.r_[noise(1), np.full((1, 1), np.nan, np.float32), noise(1)],
    "infinite": np.where(noise(1.5, 2) > 0.1, np.float32(np.inf), noise(1.5, 2)),
    "both infinities": np.where(noise(1.5, 2) > 0, np.float32(np.inf), np.float32(-np.inf)),
}


KINDS = (*CLIPS, *NOT_FINITE)
#: Of those that take a second for a clip, by day.
SLOW, SOME = ("dnsmos", "distillmos", "nmf_snr"), ("nothing", "silence", "8 kHz", "one nan")


@pytest.mark.full
@pytest.mark.parametrize("kinds", [SOME, tiers.nightly(KINDS)], ids=["some", "all"])
@pytest.mark.parametrize("name", fetched.filters())
def test_every_clip_gives_finite_numbers_or_null(name: str, kinds: tuple[str, ...]) -> None:
    module = plugins.FILTERS.load(name)
    for kind in kinds if name in SLOW else KINDS:
        samples, rate = CLIPS[kind] if kind in CLIPS else (NOT_FINITE[kind], 16_000)
        with np.errstate(invalid="ignore" if kind in NOT_FINITE else "warn"):
            values = measured(module, Clip.from_samples(samples, rate))
        shares = {*annotation_kinds.shares(module.ANNOTATIONS)}  # of sounds: None if unheard
        assert set(values) - shares == {*module.COLUMNS, *module.ANNOTATIONS}, kind
        for value in map(values.get, module.COLUMNS):
            assert value is None or (type(value) is float and math.isfinite(value)), kind


def pieces(samples: Samples, rate: int, sizes: tuple[int, ...]) -> Cut:
    clip = Cut.from_samples(samples, rate)
    assert isinstance(clip, Cut)
    object.__setattr__(clip, "sizes", sizes)
    return clip


@pytest.mark.full
@pytest.mark.parametrize("name", fetched.filters())
@pytest.mark.parametrize("rate", [tiers.nightly(16_000), 22_050])
def test_numbers_do_not_depend_on_the_blocks(name: str, rate: int) -> None:
    module = plugins.FILTERS.load(name)
    samples = noise(2.3, 2, rate) * np.sin(np.arange(round(2.3 * rate)) / 3000)[:, None]
    whole = measured(module, Clip.from_samples(samples, rate))
    for sizes in ((1, 7, 333), (4096,), (65536, 1)):
        for column, value in measured(module, pieces(samples, rate, sizes)).items():
            expected = whole[column]
            assert value == (expected if expected is None else pytest.approx(expected, rel=1e-9))


class Long(Clip):
    """Minutes of the same second, of which nothing is held."""

    def blocks(self, frames: int = 0) -> Iterator[Samples]:
        second = noise(1, self.channels, self.rate)
        for _ in range(self.num_samples // self.rate):
            yield second


@pytest.mark.full
@pytest.mark.parametrize("module", LIGHT, ids=lambda m: m.__name__.rpartition(".")[2])
def test_memory_does_not_grow_with_the_clip(module: Any) -> None:
    most = []
    for minutes in (1, 6):
        tracemalloc.start()
        measured(module, Long(16_000, 2, minutes * 60 * 16_000))
        most.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert most[1] < 16 << 20  # six minutes are 46 MB
    # Ten hours: 20 ms frames and 100 ms steps are kept as one number each.
    assert (most[1] - most[0]) * 120 < 64 << 20


# --- levels ---------------------------------------------------------------------------------

FULL = np.sin(2 * np.pi * 1000 * np.arange(16_000) / 16_000 + np.pi / 4)[:, None]


@pytest.mark.parametrize(
    ("samples", "expected"),
    [  # AES17 and arithmetic: 20 log10(amplitude), 10 log10(1/2) less for a sine's RMS
        (np.ones((100, 1)), (0.0, 0.0)),
        (np.full((100, 2), -0.5), (-6.0206, -6.0206)),
        (np.sin(2 * np.pi * np.arange(16_000) / 16)[:, None], (0.0, -3.0103)),
        (0.1 * np.sin(2 * np.pi * np.arange(16_000) / 16)[:, None], (-20.0, -23.0103)),
        (np.tile([[1.0], [-1.0]], (50, 1)), (0.0, 0.0)),  # a square
        (np.c_[np.full(100, 0.1), np.zeros(100)], (-20.0, -23.0103)),  # one channel is silent
        (np.full((10, 1), 1 / 32768), (-90.309, -90.309)),  # one bit of 16
        (np.zeros((10, 3)), (-200.0, -200.0)),
    ],
)
def test_peak_and_rms(samples: Samples, expected: tuple[float, float]) -> None:
    assert (number(peak, samples), number(rms, samples)) == pytest.approx(expected, abs=1e-4)


@settings(max_examples=50, deadline=None)
@given(st.floats(-40, 20), st.integers(1, 4))
def test_levels_follow_a_gain(gain: float, count: int) -> None:
    samples = noise(0.5, count)
    louder = (samples * 10 ** (gain / 20)).astype(np.float32)
    for module in (peak, rms, loudness):
        expected = number(module, samples) + gain
        assert number(module, louder) == pytest.approx(expected, abs=1e-4)


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(4)), st.sampled_from([-1, 1]))
def test_levels_do_not_care_for_the_order_of_channels_or_polarity(
    order: list[int], sign: int
) -> None:
    samples = noise(0.5, 4) * np.array([1, 0.5, 0.1, 0.0], np.float32)
    for module in (peak, rms, loudness, dc_offset, dead_channel, channels_identical):
        turned = number(module, samples[:, order] * np.float32(sign))
        assert turned == pytest.approx(number(module, samples), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("offsets", "expected"), [((0.0,), 0.0), ((-0.2,), 0.2), ((0.15, -0.15), 0.15), ((0, 0.3), 0.3)]
)
def test_dc_offset_is_of_the_worst_channel(offsets: tuple[float, ...], expected: float) -> None:
    samples = 0.3 * FULL + np.array(offsets)  # whole periods have no mean of their own
    assert number(dc_offset, samples) == pytest.approx(expected, abs=1e-7)
    assert (reason(dc_offset, Clip.from_samples(samples, 16_000)) == "dc_offset") == (
        expected > 0.1
    )


# --- channels -------------------------------------------------------------------------------

A, B = noise(1, 2).T


@pytest.mark.parametrize(
    ("samples", "apart", "alike"),
    [
        (np.c_[A, A], 0.0, 1.0),
        (np.c_[A, A + 0.5], 0.0, 1.0),  # an offset is no difference
        (np.c_[A, A, A], 0.0, 1.0),
        (np.c_[A, -A], 0.0, 0.0),
        (np.c_[A, A / 2], 6.0206, 0.9),  # (1 + 1/2)² / (2 (1 + 1/4))
        (np.c_[A, A / 100], 40.0, 0.51),
        (np.c_[A, 0 * A], 180.0, 0.5),
        (np.c_[A, 0 * A + 0.3], 180.0, 0.5),  # stuck at a value
        (np.c_[A, B], 0.0, 0.5),
        (np.c_[A, 0 * A, 0 * A, 0 * A], 180.0, 0.25),
    ],
)
def test_channels_side_by_side(samples: Samples, apart: float, alike: float) -> None:
    # White noise at -20 dBFS beside a floor of -200.
    assert number(dead_channel, samples) == pytest.approx(apart, abs=0.2)
    assert number(channels_identical, samples) == pytest.approx(alike, abs=0.01)


def test_copies_are_told_from_channels_that_are_merely_close() -> None:
    dithered = A + noise(1, level=1 / 32768)[:, 0]
    assert number(channels_identical, np.c_[A, A]) == pytest.approx(1.0, abs=1e-12)
    assert 0.9999 < number(channels_identical, np.c_[A, dithered]) < 1 - 1e-9
    assert number(channels_identical, np.c_[A, np.roll(A, 1)]) < 0.6


@pytest.mark.full
@pytest.mark.parametrize("use", ["bandwidth", "nmf_snr", "dnsmos"])
def test_channels_that_cancel_are_measured_as_one_of_them(use: str) -> None:
    """They were measured as the silence that their mean is, and dropped for another reason than
    theirs."""
    plugin, chosen = plugins.FILTERS.resolve(Plugin(use=use))
    voice = np.repeat(A, 4) * np.hanning(4 * len(A)).astype(np.float32)
    clip, both = (Clip.from_samples(x, 16_000) for x in (voice[:, None], np.c_[voice, -voice]))
    assert plugin.measure(both, chosen) == plugin.measure(clip, chosen)


@pytest.mark.parametrize("module", [dead_channel, channels_identical])
def test_one_channel_has_none_beside_it(module: Any) -> None:
    assert list(measured(module, Clip.from_samples(A, 16_000)).values()) == [None]


# --- what the recording says of itself ------------------------------------------------------


def test_rate_and_channels_are_as_decoded() -> None:
    clip = Clip.from_samples(noise(0.1, 3, 44_100), 44_100)
    assert measured(sample_rate, clip) == {"sample_rate_native": 44_100.0}
    assert measured(channels, clip) == {"channels": 3.0}
    assert reason(sample_rate, clip, min_native=48_000) == "low_rate"
    assert reason(sample_rate, clip, max_native=16_000) == "high_rate"


@pytest.mark.parametrize(
    ("header", "difference"),
    [(None, None), (1.0, 0.0), (0.4, 0.6), (1.00001, -0.00001), (5.0, -4.0)],
)
def test_a_header_is_compared_where_it_can_be(
    header: float | None, difference: float | None
) -> None:
    clip = Clip.from_samples(noise(1), 16_000, header, 99)
    found = measured(duration, clip)
    assert found == {
        "duration": 1.0,
        "duration_difference": None if difference is None else pytest.approx(difference),
    }
    assert reason(duration, clip) is None
    wrong = difference is not None and abs(difference) > 0.5
    chosen = {"min_difference": -0.5, "max_difference": 0.5}
    assert reason(duration, clip, **chosen) == ("header_mismatch" if wrong else None)


# --- speech ---------------------------------------------------------------------------------


def test_noise_and_silence_are_no_speech() -> None:
    for samples in (noise(3), np.zeros((48_000, 1), np.float32), FULL):
        assert number(speech_ratio, samples) < 0.05
    assert reason(speech_ratio, Clip.from_samples(noise(3), 16_000), min=0.1) == "little_speech"


def test_windows_are_counted_by_their_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    found = np.array([0.1, 0.5, 0.49, 0.9], np.float32)
    monkeypatch.setattr("uttermill.tasks.filters._derived.speech_probabilities", lambda clip: found)
    clip = Clip.from_samples(noise(0.128), 16_000)
    assert measured(speech_ratio, clip) == {"speech_ratio": 0.5}
    assert measured(speech_ratio, clip, threshold=0.4) == {"speech_ratio": 0.75}
    assert reason(speech_ratio, clip, max=0.3) == "all_speech"


def test_a_frames_power_depends_on_no_other_frame() -> None:
    """Not even on one whose squares are not float32, wherever blocks begin."""
    clip = noise(3)
    clip[24_000] = 3e19
    whole = silence.frame_powers(Clip.from_samples(clip, 16_000))
    parts = silence.frame_powers(Clip.of_pieces([clip[:20_000], clip[20_000:]], 16_000))
    assert np.array_equal(whole, parts)
    assert np.isclose(whole[75], 9e38 / 320)
    clip[24_000] = 0
    without = silence.frame_powers(Clip.from_samples(clip, 16_000))
    assert np.array_equal(np.delete(whole, 75), np.delete(without, 75))
