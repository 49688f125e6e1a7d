"""Measures of real speech, when UTTERMILL_CORPUS points at it: sane numbers, nothing dropped."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import soxr

from tests.filters.test_measures import measured, number, reason
from tests.helpers import fetched
from tests.helpers.fetched import CORPUS
from uttermill.tasks import plugins
from uttermill.tasks.audio import Clip, open_stream
from uttermill.tasks.filters import (
    bandwidth,
    channels_identical,
    clipping,
    dead_channel,
    loudness,
    silence,
)
from uttermill.tasks.plugins.rules import judge
from uttermill.tasks.recording import Locator

pytestmark = pytest.mark.needs("corpus")


@cache
def clip(path: Path) -> Clip:
    with open_stream(Locator(str(path))) as stream:
        pieces = list(stream.blocks())
        told = (stream.header.frames or 0) / stream.rate or None
    held = Clip.of_pieces(pieces, stream.rate, recording_bytes=path.stat().st_size)
    return replace(held, header_seconds=told)


def librispeech(count: int | None = None) -> list[Path]:
    found = sorted((CORPUS / "en/librispeech").glob("*.flac"))
    assert found
    return found[:: max(len(found) // count, 1)] if count else found


@pytest.mark.parametrize("name", fetched.filters())
@pytest.mark.nightly
def test_no_librispeech_clip_falls_by_default(name: str) -> None:
    module = plugins.FILTERS.load(name)
    for path in librispeech(10 if name in ("dnsmos", "nmf_snr", "speaker_purity") else None):
        whole = clip(path)
        chosen = module.Settings()
        assert judge(module.measure(whole, chosen), module.verdict(chosen)) is None, path


@pytest.mark.parametrize(
    ("name", "lowest", "highest"),
    [
        ("bandwidth", 6000, 8000), ("loudness", -45, -12), ("rms", -45, -12), ("peak", -30, 0),
        ("dc_offset", 0, 0.01), ("speech_ratio", 0.4, 1),
    ],
)  # fmt: skip
def test_numbers_of_librispeech_are_sane(name: str, lowest: float, highest: float) -> None:
    module = plugins.FILTERS.load(name)
    found = [measured(module, clip(path))[name] for path in librispeech()]
    assert all(v is not None and lowest <= v <= highest for v in found), found


@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_librispeech_by_way_of_8_khz_is_narrow(rate: int) -> None:
    for path in librispeech(10):
        slow = soxr.resample(clip(path).samples()[:, 0], 16_000, 8000)
        again = np.round(soxr.resample(slow, 8000, rate) * 32768) / 32768
        assert 3000 <= number(bandwidth, again, rate) <= 4200


def test_recordings_are_as_wide_as_they_are() -> None:
    for folder, least in (("de/kerstin", 15_000), ("en/ljspeech", 8000), ("zh/aishell", 7000)):
        files = [p for p in sorted((CORPUS / folder).iterdir()) if p.suffix != ".txt"]
        for path in files[:8]:
            found = measured(bandwidth, clip(path))["bandwidth"]
            assert found is None or found >= least, path


def test_what_was_degraded_is_found() -> None:
    folder = CORPUS / "degraded"
    assert reason(clipping, clip(folder / "clipped.wav")) == "clipped"
    assert reason(dead_channel, clip(folder / "left_only_stereo.wav")) == "dead_channel"
    assert measured(channels_identical, clip(folder / "left_only_stereo.wav")) == {
        "channels_identical": pytest.approx(0.5, abs=1e-6)
    }
    assert reason(loudness, clip(folder / "quiet.wav"), min=-50) == "too_quiet"
    assert reason(bandwidth, clip(folder / "lowpassed_48k.wav"), min=7000) == "narrow_band"
    padded = measured(silence, clip(folder / "padded_silence.wav"))
    assert (padded["silence_leading"] or 0) >= 11.9
    assert (padded["silence_trailing"] or 0) >= 19.9
