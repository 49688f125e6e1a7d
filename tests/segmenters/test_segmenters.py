"""Cuts: every sample covered, exact bounds, and the same whatever the blocks."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError

from tests.helpers import fuzz
from uttermill.tasks.audio.channels import STRETCH, Heard, mean
from uttermill.tasks.base import arrays
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.models import model_files, onnx_session
from uttermill.tasks.recording import Segment, TimedWord, turns
from uttermill.tasks.segmenters import Segmenter, Span, _emilia, applio, auto, vad, whole
from uttermill.tasks.segmenters import given as given_segmenter
from uttermill.tasks.speech import silero as _silero

RATE = 16_000


def run(segmenter: Segmenter, samples: NDArray[np.float32], block: int) -> list[Span]:
    """All spans; checks that no utterance starts before what the segmenter said it needs."""
    found: list[Span] = []
    needed = 0
    for at in range(0, len(samples), block):
        fresh = segmenter.push(samples[at : at + block])
        assert all(s.start >= needed for s in fresh if s.kind == "utterance" and s.end > s.start)
        assert segmenter.needed_from >= needed
        needed = segmenter.needed_from
        found += fresh
    last = segmenter.finish()
    assert all(s.start >= needed for s in last if s.kind == "utterance" and s.end > s.start)
    return found + last


def partition(spans: Sequence[Span], count: int) -> None:
    """The spans follow one another from 0 to `count` without gap or overlap."""
    bounds = [0, *(s.end for s in spans)]
    assert [s.start for s in spans] == bounds[:-1]
    assert bounds[-1] == count


def blank(seconds: float, channels: int = 1, rate: int = RATE) -> NDArray[np.float32]:
    return np.zeros((round(seconds * rate), channels), np.float32)


class Scripted:
    """In place of the model: the probability of a window is the level of its first sample.

    Its windows are loud where that is not below `neg_threshold`, else silent: no edge is moved.
    """

    def __init__(self, rate: int) -> None:
        self.ear = Heard(np.float32)
        self.step = _silero.WINDOW * rate // arrays.RATE
        self.rest = np.empty(0, np.float32)
        self.windows = np.empty((0, _silero.WINDOW), np.float32)

    def push(self, block: NDArray[np.float32]) -> NDArray[np.float32]:
        return self.run(self.ear.push(block))

    def run(self, mono: NDArray[np.float32]) -> NDArray[np.float32]:
        self.rest = np.r_[self.rest, mono]
        cut = len(self.rest) - len(self.rest) % self.step
        out, self.rest = self.rest[: cut : self.step], self.rest[cut:]
        self.windows = self.loud(out)
        return out

    def finish(self) -> NDArray[np.float32]:
        out: NDArray[np.float32] = np.r_[self.run(self.ear.finish()), self.rest[:1]]
        self.windows = self.loud(out)
        return out

    @staticmethod
    def loud(values: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.repeat(
            np.where(values < 0.35, np.float32(0), np.float32(0.1))[:, None], _silero.WINDOW, axis=1
        )


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vad, "Probabilities", Scripted)
    monkeypatch.setattr(given_segmenter, "Probabilities", Scripted)


def speech(*parts: tuple[float, float]) -> NDArray[np.float32]:
    """(seconds, probability) after one another, in whole windows."""
    windows = [np.full(round(s * RATE / 512) * 512, p, np.float32) for s, p in parts]
    return np.concatenate(windows)[:, None]


def cut(samples: NDArray[np.float32], block: int = 4096, **options: float) -> list[Span]:
    spans = run(vad.start(vad.Settings(**options), RATE, ()), samples, block)
    partition(spans, len(samples))
    return spans


def lengths(spans: list[Span], kind: str = "utterance") -> list[float]:
    return [(s.end - s.start) / RATE for s in spans if s.kind == kind]


def test_whole_is_one_utterance_and_so_is_what_is_short_to_auto(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vad, "start", None)  # a call would fail: no detector for short ones
    for module, seconds in ((whole, 1.5), (whole, 0), (auto, 30)):
        spans = run(module.start(module.Settings(), RATE, ()), blank(seconds, 2), 700)
        assert spans == ([Span(0, round(seconds * RATE))] if seconds else [])


def test_given_rounds_halves_up_and_clips() -> None:
    asked = (Segment(0.5, 1.0), Segment(0.1, 0.25), Segment(1.75, None), Segment(5, 6))
    found = run(given_segmenter.start(given_segmenter.Settings(), 10, asked), blank(2, 2, 10), 3)
    utterances = {s.given: (s.start, s.end) for s in found if s.kind == "utterance"}
    assert utterances == {0: (5, 10), 1: (1, 3), 2: (18, 20), 3: (20, 20)}
    rest = {(s.start, s.end, s.reason) for s in found if s.kind == "unsegmented"}
    assert rest == {(0, 1, "outside_segments"), (3, 5, "outside_segments"),
                    (10, 18, "outside_segments")}  # fmt: skip


def test_given_hands_out_early_and_lets_go() -> None:
    asked = (Segment(3.0, 4.0), Segment(0.0, 1.0), Segment(0.5, 2.0))
    segmenter = given_segmenter.start(given_segmenter.Settings(), 10, asked)
    assert segmenter.push(blank(1, 1, 10)) == [Span(0, 10, given=1)]
    assert segmenter.needed_from == 5
    assert segmenter.push(blank(1, 1, 10)) == [Span(5, 20, given=2)]
    assert segmenter.needed_from == 20


@fuzz.cases(150)
@given(
    st.lists(st.tuples(st.floats(0, 12), st.one_of(st.none(), st.floats(0, 12))), max_size=8),
    st.integers(0, 100),
    st.integers(1, 40),
)
def test_given_covers_every_sample(
    bounds: list[tuple[float, float | None]], count: int, block: int
) -> None:
    asked = [Segment(a, b) for a, b in bounds]
    samples = np.zeros((count, 1), np.float32)
    found = run(given_segmenter.start(given_segmenter.Settings(), 10, asked), samples, block)
    covered = np.zeros(count, int)
    for span in found:
        assert 0 <= span.start <= span.end <= count
        covered[span.start : span.end] += 1 if span.kind == "utterance" else 100
    assert all(c == 100 or 1 <= c < 100 for c in covered)
    assert sorted(s.given for s in found if s.given is not None) == list(range(len(asked)))


#: (seconds, probability) after one another, settings, and the lengths of the utterances, s.
CUTS: dict[str, tuple[list[tuple[float, float]], dict[str, float], list[float]]] = {
    "close speech is joined, far speech is not":
        ([(1, 0), (2, 0.9), (0.8, 0), (2, 0.9), (4, 0), (4, 0.9), (1, 0)], {}, [5.0, 4.2]),
    "a short word alone is an utterance, a click is none":
        ([(4, 0), (0.3, 0.9), (4, 0), (0.15, 0.9), (4, 0)], {}, [0.5]),
    "a scrap is joined to what was said before it":
        ([(1, 0), (9, 0.9), (0.3, 0), (1, 0.9), (3, 0)], {"min_seconds": 3}, [10.5]),
    "a scrap is joined to what is said after it":
        ([(1, 0), (1, 0.9), (0.3, 0), (14, 0.9), (3, 0)], {"min_seconds": 3}, [15.5]),
    "a scrap goes along with the long speech after it":
        ([(1, 0.9), (0.5, 0), (40, 0.9)], {"min_seconds": 3}, [4.99, 4.99, 4.99, 26.53]),
    "parted at the longest pause near the target":
        ([part for pause in (0.3, 0.6, 0.3, 0.3, 0.8, 0.3, 0.3) for part in ((3, 0.9), (pause, 0))],
         {}, [6.5, 9.9, 6.5]),
    "speech without a pause may be longer than the target":
        ([(1, 0), (25, 0.9), (2, 0), (3, 0.9), (1, 0)], {}, [25.2, 3.2]),
    "joining stops at the longest length":
        ([(9, 0.9), (0.5, 0)] * 7, {"target_seconds": 30}, [28.2, 28.2, 9.2]),
    "long speech is cut at its longest dip":
        ([(10, 0.9), (0.032, 0.1), (8, 0.9), (0.064, 0.1), (7, 0.9), (0.032, 0.1), (15, 0.9)],
         {}, [18.1, 22.0]),
    "speech without any pause is cut where it is least certain":
        ([(20, 0.9), (0.1, 0.6), (25, 0.9)], {}, [20.05, 25.05]),
}  # fmt: skip


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize(("parts", "options", "seconds"), CUTS.values(), ids=CUTS)
def test_speech_is_cut_into_utterances(
    parts: list[tuple[float, float]], options: dict[str, Any], seconds: list[float]
) -> None:
    spans = cut(speech(*parts), **options)
    assert lengths(spans) == pytest.approx(seconds, abs=0.1)
    assert {s.kind for s in spans} <= {"utterance", "non_speech"}


@pytest.mark.usefixtures("scripted")
def test_speech_that_stays_shorter_than_asked_is_unsegmented() -> None:
    spans = cut(speech((4, 0), (1, 0.9), (4, 0), (0.15, 0.9), (4, 0)), min_seconds=3)
    assert [s.kind for s in spans] == ["non_speech", "unsegmented", "non_speech"]
    assert spans[1].reason == "below_min_seconds"


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize("target", [4, 10, 30])
def test_utterances_are_about_as_long_as_asked(target: float) -> None:
    spans = cut(speech(*[(2, 0.9), (0.3, 0)] * 60), target_seconds=target)
    found = lengths(spans)
    assert all(target / 2 <= length <= min(target * 1.25, 30) + 0.21 for length in found[:-1])
    assert len(found) > 2


@pytest.mark.usefixtures("scripted")
@fuzz.cases(60)
@given(
    st.lists(
        st.tuples(st.floats(0.03, 45), st.sampled_from([0.0, 0.3, 0.4, 0.6, 0.95])),
        min_size=1, max_size=12,
    ),
    st.integers(0, 511),
    st.integers(500, 50_000),
    st.sampled_from([0.3, 1.0, 3.0]),
    st.sampled_from([5.0, 10.0, 30.0]),
)  # fmt: skip
@pytest.mark.nightly
def test_any_speech_is_partitioned_within_limits(
    parts: list[tuple[float, float]], odd: int, block: int, least: float, target: float
) -> None:
    samples = np.concatenate([speech(*parts), blank(odd / RATE)])
    limits = {"min_seconds": least, "target_seconds": target}
    spans = cut(samples, block, **limits)
    assert spans == cut(samples, 65_536, **limits)
    assert all(least <= length <= 30 for length in lengths(spans))
    assert all(length < least for length in lengths(spans, "unsegmented"))


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize("level", [0.0, 0.4, 0.9])
def test_the_look_back_is_bounded(level: float) -> None:
    segmenter = vad.start(vad.Settings(), RATE, ())
    block = speech((10, level))
    for turn in range(1, 60):
        segmenter.push(block)
        assert turn * len(block) - segmenter.needed_from <= 45 * RATE


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100])
def test_probabilities_do_not_depend_on_the_blocks(rate: int) -> None:
    noise = np.random.default_rng(1).standard_normal((rate * 20 + 77, 2)).astype(np.float32) * 0.1
    found = []
    for block in (1000, 65_536):
        model = _silero.Probabilities(rate)
        parts = [model.push(noise[at : at + block]) for at in range(0, len(noise), block)]
        found.append(np.concatenate([*parts, model.finish()]))
    assert np.array_equal(found[0], found[1])
    assert len(found[0]) == math.ceil((20 + 77 / rate) * RATE / 512)


@pytest.mark.parametrize("count", [1, 2, 300])
def test_the_detectors_graph_computes_what_the_published_one_does(count: int) -> None:
    published = onnx_session.session(str(_silero.weights()))
    ours = _silero._session()
    chance = np.random.default_rng(count)
    loudness = np.repeat(chance.uniform(0, 0.5, count), 576).reshape(count, 576)
    voice = sum(np.sin(np.arange(576) * pitch) for pitch in (0.05, 0.1, 0.4, 0.9)) / 4
    given = {
        "input": (loudness * (voice + 0.1 * chance.standard_normal((count, 576)))).astype("f4"),
        "h": chance.uniform(-0.5, 0.5, (1, 1, 128)).astype("f4"),
        "c": chance.uniform(-1, 1, (1, 1, 128)).astype("f4"),
    }
    expected, found = published.run(None, given), ours.run(None, given)
    assert np.ptp(expected[0]) > 0.1 or count < 300  # it hears something
    for name, one, other in zip(("probabilities", "h", "c"), expected, found, strict=True):
        assert np.abs(np.ravel(one) - np.ravel(other)).max() < 1e-4, name


def test_real_detector_finds_nothing_in_silence() -> None:
    assert cut(blank(40)) == [Span(0, 40 * RATE, "non_speech")]


def test_other_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_files, "sha256", lambda _: "0" * 64)
    with pytest.raises(ConfigError, match="faster-whisper"):
        _silero.weights()


def test_impossible_lengths_are_refused() -> None:
    with pytest.raises(ValidationError, match="max_seconds"):
        vad.Settings(min_seconds=20, max_seconds=30)


@pytest.mark.usefixtures("scripted")
def test_auto_cuts_long_recordings_as_vad_does() -> None:
    samples = speech((12, 0.9), (3, 0), (12, 0.9), (4, 0), (9, 0.9))
    assert run(auto.start(auto.Settings(), RATE, ()), samples, 9999) == cut(samples)


def test_auto_follows_given_segments_which_say_so_where_there_are_none() -> None:
    spans = run(auto.start(auto.Settings(), RATE, (Segment(0, 1),)), blank(60), 65_536)
    assert spans[0] == Span(0, RATE, given=0)
    assert spans[1].reason == "outside_segments"
    none = run(given_segmenter.start(given_segmenter.Settings(), RATE, ()), blank(1), 999)
    assert none == [Span(0, RATE, "unsegmented", reason="no_segments")]


# channels that cancel each other


@pytest.mark.usefixtures("scripted")
def test_speech_in_channels_that_cancel_each_other_is_no_silence() -> None:
    """All of such a recording was `non_speech`: the detector heard the mean of the channels."""
    mono = speech((5, 0.05), (10, 1.0), (6, 0.05), (10, 1.0), (5, 0.05))
    both = np.concatenate([mono, -mono], 1)
    for block in (4096, 5003, 65_536):
        spans = run(vad.start(vad.Settings(), RATE, ()), both, block)
        assert spans == cut(mono)
    assert lengths(spans) == pytest.approx([10.2, 10.2], abs=0.04)


@pytest.mark.parametrize("merge", ["default", "emilia"])
def test_half_of_a_recording_may_cancel(merge: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vad, "Probabilities", Scripted)
    monkeypatch.setattr(given_segmenter, "Probabilities", Scripted)
    monkeypatch.setattr(_emilia, "Probabilities", Scripted)
    mono = speech((5, 0.05), (10, 1.0), (6, 0.05), (10, 1.0), (5, 0.05))
    other = mono.copy()
    other[len(mono) // 2 :] *= -1
    spans = run(
        vad.start(vad.Settings.model_validate({"merge": merge}), RATE, ()),
        np.concatenate([mono, other], 1), 4096,
    )  # fmt: skip
    assert len(lengths(spans)) == 2


def test_applio_hears_channels_that_cancel() -> None:
    tone = np.random.default_rng(1).normal(scale=0.2, size=12 * RATE).astype(np.float32)
    tone[5 * RATE : 7 * RATE] = 0
    chosen = applio.Settings()
    alone = run(applio.start(chosen, RATE, ()), tone[:, None], 4096)
    assert run(applio.start(chosen, RATE, ()), np.stack([tone, -tone], 1), 4096) == alone
    assert any(span.kind == "utterance" for span in alone)


@pytest.mark.parametrize("block", [512, 4096, 65_536])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_what_does_not_cancel_is_heard_as_the_mean(block: int, count: int) -> None:
    noise = np.random.default_rng(2).normal(size=(2 * STRETCH + 77, count)).astype(np.float32)
    noise[:STRETCH] = 0  # silence does not cancel
    for samples in (noise, np.repeat(noise[:, :1], count, axis=1)):
        ear = Heard(np.float32)
        heard = [ear.push(samples[at : at + block]) for at in range(0, len(samples), block)]
        assert np.array_equal(np.concatenate([*heard, ear.finish()]), mean(samples, np.float32))


def test_the_loudest_of_channels_that_cancel_is_heard() -> None:
    noise = np.random.default_rng(3).normal(size=2000).astype(np.float32)
    ear = Heard()
    samples = np.stack([np.zeros_like(noise), noise, -noise], 1)
    assert not len(ear.push(samples))
    assert np.array_equal(ear.finish(), noise)


def captions(*segments: Segment) -> tuple[Segment, ...]:
    return tuple(replace(segment, rough=0.5) for segment in segments)


#: Speech from 0.5 to 2.5 s, and from 3.0 to 5.0 s.
TWO = ((0.512, 0.0), (1.984, 0.9), (0.512, 0.0), (1.984, 0.9), (1.024, 0.0))


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize("block", [512, 4096, 100_000])
def test_edges_of_captions_are_moved_to_pauses(block: int) -> None:
    asked = captions(Segment(0.8, 2.7, text="one"), Segment(3.3, 4.7, text="two"))
    spans = run(given_segmenter.start(given_segmenter.Settings(), RATE, asked), speech(*TWO), block)
    clips = {s.given: (s.start / RATE, s.end / RATE) for s in spans if s.given is not None}
    assert clips[0] == pytest.approx((0.412, 2.7), abs=0.002)  # its end lies in a pause
    assert clips[1] == pytest.approx((2.908, 5.092), abs=0.002)
    covered = sorted((s.start, s.end) for s in spans)
    partition([Span(*span) for span in covered], len(speech(*TWO)))


@pytest.mark.usefixtures("scripted")
def test_edges_without_a_pause_near_stay_and_so_do_exact_ones() -> None:
    asked = (Segment(1.2, 1.9, text="one"), Segment(3.3, 4.0, text="two"))
    for segments, options in (
        (captions(asked[0]), {}),
        (captions(*asked), {"caption_shift_ms": 0}),
        (asked, {}),
    ):
        settings = given_segmenter.Settings(**options)
        spans = run(given_segmenter.start(settings, RATE, segments), speech(*TWO), 4096)
        clips = {s.given: (s.start / RATE, s.end / RATE) for s in spans if s.given is not None}
        assert clips == {n: (s.start, s.end) for n, s in enumerate(segments)}


@pytest.mark.usefixtures("scripted")
def test_long_captions_are_cut_in_pauses() -> None:
    words = (TimedWord("so it", 0.4, 1.6), TimedWord("was", 1.6, 2.3), TimedWord("you", 2.3, 4.9))
    [asked] = captions(Segment(0.4, 4.9, text="so it was you", words=words))
    settings = given_segmenter.Settings(target_seconds=2, max_seconds=3)
    spans = run(given_segmenter.start(settings, RATE, [asked]), speech(*TWO), 4096)
    clips = [(s.start / RATE, s.end / RATE) for s in spans if s.turn == 0]
    assert [edge for clip in clips for edge in clip] == pytest.approx(
        [0.4, 2.752, 2.752, 5.092], abs=0.01
    )
    texts = turns.PartTexts([asked])
    assert [texts.between(0, *clip) for clip in clips] == ["so it was", "you"]
