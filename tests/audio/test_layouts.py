"""The mix of more than two channels follows their layout, as FFmpeg's does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

from tests.helpers.tiers import nightly
from uttermill.tasks import audio
from uttermill.tasks.audio import Clip, channels
from uttermill.tasks.audio.channels import Heard, Listened, mean
from uttermill.tasks.audio.frames import PartConverter
from uttermill.tasks.base.errors import ItemError
from uttermill.tasks.filters import loudness
from uttermill.tasks.plugins import loading
from uttermill.tasks.recording import Locator
from uttermill.tasks.segmenters import KnownSpans, Span
from uttermill.tasks.settings import ResampleSettings
from uttermill.tasks.stages import cutting, pcm

Samples = NDArray[np.float32]
RATE = 48_000
PLACES_51 = ("FL", "FR", "FC", "LFE", "BL", "BR")
WEIGHTS_51 = channels.weights_at(PLACES_51)


def by_swresample(layout: str) -> list[float]:
    """What swresample mixes to one channel from an impulse in each channel of a layout; integers,
    for which it keeps the sum of all weights at 1."""
    count = av.AudioLayout(layout).nb_channels
    impulses = np.eye(count, dtype=np.int32).reshape(1, -1) << 29
    frame = av.AudioFrame.from_ndarray(impulses, "s32", layout)
    frame.sample_rate = RATE
    resampler = av.AudioResampler(format="s32", layout="mono", rate=RATE)
    mixed = [*resampler.resample(frame), *resampler.resample(None)]
    return [float(value) / 2**29 for part in mixed for value in part.to_ndarray()[0]]


@pytest.mark.parametrize(
    "layout",
    ["2.1", "3.0", "3.0(back)", "3.1", "quad", "quad(side)", "4.0", "4.1", "5.0", "5.0(side)",
     "5.1", "5.1(side)", "6.0", "6.0(front)", "6.1", "6.1(back)", "hexagonal", "7.0", "7.1",
     "7.1(wide)", "octagonal"],
)  # fmt: skip
def test_weights_are_those_of_swresample(layout: str) -> None:
    found = channels.weights_of(av.AudioLayout(layout))
    assert found == pytest.approx(by_swresample(layout), abs=1e-6)


@pytest.mark.parametrize("places", [(), ("FC",), ("FL", "FR"), ("FL", "FR", "UNK"), ("LFE",) * 3])
def test_the_plain_mean_stays_where_there_is_no_layout_to_follow(places: tuple[str, ...]) -> None:
    assert channels.weights_at(places) is None


def speech_in_the_centre(count: int, centre: int, loud: int) -> Samples:
    """A tone of 440 Hz in one channel, and a loud one of 50 Hz in another, the LFE."""
    at = np.arange(2 * RATE) / RATE
    samples = np.zeros((len(at), count), np.float32)
    samples[:, centre] = 0.2 * np.sin(2 * np.pi * 440 * at)
    samples[:, loud] = 0.8 * np.sin(2 * np.pi * 50 * at)
    return samples


def encoded(path: Path, samples: Samples, codec: str, layout: str = "5.1") -> Locator:
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=RATE, layout=layout)
        frame = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(samples.reshape(1, -1)), "flt", layout
        )
        frame.sample_rate = RATE
        context = stream.codec_context
        context.open(strict=False)
        resampler = av.AudioResampler(
            context.format, layout, RATE, frame_size=context.frame_size or 4096
        )
        for part in [*resampler.resample(frame), *resampler.resample(None)]:
            container.mux(stream.encode(part))
        container.mux(stream.encode(None))
    return Locator(str(path))


def power(mono: Samples, hertz: float) -> float:
    """Amplitude of a tone in the middle of a mono signal."""
    middle = mono[RATE // 2 : RATE // 2 + RATE].astype(np.float64)
    turning = np.exp(-2j * np.pi * hertz * np.arange(len(middle)) / RATE)
    return float(2 * np.abs(np.dot(middle, turning)) / len(middle))


@pytest.mark.parametrize(
    ("name", "codec"),
    [("a.wav", "pcm_s16le"), ("a.flac", "flac"), ("a.m4a", "aac"), ("a.mkv", "ac3"),
     ("a.opus", "libopus"), ("a.caf", "pcm_s16le"), nightly("a.w64", "pcm_s16le"),
     nightly("a.mkv", "aac"), nightly("a.ts", "aac"), nightly("a.webm", "libopus"),
     nightly("a.mov", "pcm_s16le"), nightly("a.aiff", "pcm_s16be")],
)  # fmt: skip
def test_speech_in_the_centre_is_louder_in_the_mix_than_a_mean_makes_it(
    tmp_path: Path, name: str, codec: str
) -> None:
    locator = encoded(tmp_path / name, speech_in_the_centre(6, 2, 3), codec)
    with audio.open_stream(locator) as stream:
        assert stream.channels == 6
        assert sorted(stream.weights or ()) == pytest.approx(sorted(WEIGHTS_51 or ()))
    [(_, clip)] = cutting.spans(
        locator, cutting.StreamFacts(), lambda rate, at: KnownSpans([Span(0, 2 * RATE)], at)
    )
    assert clip is not None
    made = pcm.of_clip(clip, ResampleSettings(rate=RATE)).astype(np.float32) / np.float32(2**15)
    assert power(made, 440) == pytest.approx(0.2 / 3.4142, rel=0.1)
    assert power(made, 50) < 0.01
    heard = audio.read_mix(locator, 0, 2 * RATE)
    assert np.abs(heard - made).max() < 1e-4


@pytest.mark.parametrize("kind", ["WAV", "AIFF", "CAF"])
def test_channels_without_places_are_mixed_as_their_mean(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "array.wav"
    sf.write(path, speech_in_the_centre(6, 2, 3), RATE, format=kind)
    with audio.open_stream(Locator(str(path))) as stream:
        assert stream.weights is None


def test_a_mask_of_zero_gives_no_places(tmp_path: Path) -> None:
    path = tmp_path / "array.wav"
    sf.write(path, speech_in_the_centre(6, 2, 3), RATE, format="WAVEX")
    assert audio.probe(Locator(str(path))).weights == pytest.approx(WEIGHTS_51)
    data = bytearray(path.read_bytes())
    data[40:44] = bytes(4)
    path.write_bytes(data)
    assert audio.probe(Locator(str(path))).weights is None


def test_an_unusual_order_is_followed() -> None:
    assert channels.custom("3 channels (FC+FL+FR)") == ("FC", "FL", "FR")
    assert channels.custom("5.1(side)") == channels.custom("6 channels") == ()
    assert channels.weights_at(("FC", "FL", "FR")) == pytest.approx(
        (0.41421, 0.29289, 0.29289), 1e-4
    )


def test_a_mix_does_not_depend_on_blocks_and_stereo_is_as_before() -> None:
    noise = np.random.default_rng(1).normal(0, 0.1, (50_000, 6)).astype(np.float32)
    whole = mean(noise, weights=WEIGHTS_51)
    parts = [mean(noise[at : at + 777], weights=WEIGHTS_51) for at in range(0, 50_000, 777)]
    assert np.array_equal(whole, np.concatenate(parts))
    blocks = [noise[at : at + 777] for at in range(0, 50_000, 777)]
    listened = np.concatenate(list(Listened(WEIGHTS_51).process(blocks)))
    assert np.array_equal(listened[:, 0], whole)
    assert all(a is b for a, b in zip(Listened(None).process(blocks), blocks, strict=True))


def test_channels_that_cancel_are_heard_and_refused_by_weight() -> None:
    at = np.arange(RATE) / RATE
    tone = (0.2 * np.sin(2 * np.pi * 440 * at)).astype(np.float32)
    samples = np.zeros((RATE, 6), np.float32)
    samples[:, 0], samples[:, 1] = tone, -tone
    samples[:, 3] = 0.9  # the LFE has no part in it
    ear = Heard(weights=WEIGHTS_51)
    heard = np.concatenate([ear.push(samples), ear.finish()])
    assert np.array_equal(np.abs(heard), np.abs(tone))
    clip = Clip.of_pieces([samples], RATE, WEIGHTS_51)
    with pytest.raises(ItemError, match="channels_cancel"):
        pcm.of_clip(clip, ResampleSettings(rate=RATE))
    assert pcm.of_clip(clip, ResampleSettings(rate=RATE, mono="first")).any()


def test_a_part_with_a_layout_is_mixed_by_it() -> None:
    block = speech_in_the_centre(6, 2, 3)
    converter = PartConverter(RATE, 6, RATE, 2, WEIGHTS_51)
    joined = np.concatenate(list(converter.push(block)))
    assert joined.shape == (len(block), 2)
    assert power(joined[:, 1], 440) == pytest.approx(0.2 / 3.4142, rel=0.01)


@pytest.mark.parametrize("level", [0.0, 0.3, -0.9])
@pytest.mark.parametrize("use", ["clipping", "peak", "rms", "dc_offset", "dead_channel",
                                 "channels_identical", "silence", "loudness"])  # fmt: skip
def test_what_does_not_go_into_the_mix_is_not_judged(use: str, level: float) -> None:
    speech = np.random.default_rng(1).normal(0, 0.05, (RATE, 6)).astype(np.float32)
    speech[RATE // 2 :] = 0
    lfe = speech.copy()
    speech[:, 3], lfe[:, 3] = 0, level
    lfe[RATE // 4 : RATE // 3, 3] = -level
    five = WEIGHTS_51 and (*WEIGHTS_51[:3], *WEIGHTS_51[4:])
    module = loading.module("filters", use)
    of = [
        module.measure(Clip.of_pieces([samples], RATE, weights), module.Settings())
        for samples, weights in ((np.delete(speech, 3, axis=1), five), (lfe, WEIGHTS_51))
    ]
    assert of[0] == of[1]


def test_loudness_follows_the_places_of_channels_and_not_their_number() -> None:
    noise = np.random.default_rng(1).normal(0, 0.05, (2 * RATE, 6)).astype(np.float32)
    order = [0, 2, 1, 4, 5, 3]  # of Vorbis: FL FC FR BL BR LFE
    weights = [(WEIGHTS_51 or ())[channel] for channel in order]
    by_wav, by_vorbis = (
        loudness.measure(Clip.of_pieces([samples], RATE, tuple(of)), loudness.Settings())[
            "loudness"
        ]
        for samples, of in ((noise, WEIGHTS_51 or ()), (noise[:, order], weights))
    )
    assert by_vorbis == pytest.approx(by_wav)
