"""Measures of audio, from synthesised clips: right numbers, and the same however they are cut."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from uttermill.tasks import plugins
from uttermill.tasks.audio import Clip
from uttermill.tasks.filters import clipping, duration, file_size, silence
from uttermill.tasks.plugins.rules import judge

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
    clip = Clip.from_samples(quiet(1), RATE).of_recording(1.0, 999)
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
