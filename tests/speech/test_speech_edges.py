"""Where speech begins and ends: edges by level, the second look, and the corpus's real words."""

from pathlib import Path

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

from tests.helpers.fetched import CORPUS
from uttermill.tasks import audio
from uttermill.tasks.base.arrays import RATE
from uttermill.tasks.recording import Locator
from uttermill.tasks.segmenters import Span, _detector, vad
from uttermill.tasks.segmenters._detector import DOUBT, SpeechDetector
from uttermill.tasks.speech import silero as _silero
from uttermill.tasks.speech.silero import WINDOW

SECOND = RATE / WINDOW


def decibels(*parts: tuple[int, float]) -> NDArray[np.float64]:
    """(windows, level) after one another."""
    return np.concatenate([np.full(count, level) for count, level in parts])


def noisy(floor: float, count: int) -> NDArray[np.float64]:
    return floor + np.random.default_rng(0).normal(0, 0.5, count)


MUSIC = -40 + 4 * np.sin(np.arange(100) / 2)
#: Levels of a pause from its edge on, and how many windows of it are speech: from, to.
PAUSES = {
    "what stands above a pause": (np.r_[decibels((12, -25.0)), noisy(-60, 80)], 12, 12),
    "above silence": (np.r_[decibels((12, -25.0)), noisy(-100, 80)], 12, 12),
    "above noise": (np.r_[decibels((12, -25.0)), noisy(-40, 80)], 12, 12),
    "over a short closure": (np.r_[decibels((3, -60.0), (5, -25.0)), noisy(-60, 80)], 8, 8),
    "not over a pause": (np.r_[decibels((12, -60.0), (5, -25.0)), noisy(-60, 80)], 0, 0),
    "not in steady noise": (noisy(-30, 100), 0, 0),
    "not far in music": (-30 + 8 * np.sin(np.arange(100) / 2), 0, 8),
    "through music to where speech is louder": (np.r_[decibels((10, -22.0)), MUSIC], 10, 18),
    "no pause": (np.empty(0), 0, 0),
}


@pytest.mark.parametrize(("pause", "least", "most"), PAUSES.values(), ids=PAUSES)
def test_an_edge_moves_over_what_is_speech(
    pause: NDArray[np.float64], least: int, most: int
) -> None:
    assert least <= _detector.edge_shift(pause, -20) <= most


class Told:
    """A `SpeechDetector` that is told probabilities and levels; (seconds, probability, level)."""

    def __init__(self, **options: int) -> None:
        self.detector = SpeechDetector(vad.Settings.model_validate(options))
        self.found: list[tuple[int, int]] = []

    def hear(self, *parts: tuple[float, float, float]) -> list[tuple[float, float]]:
        for seconds, value, level in parts:
            samples = np.full(WINDOW, 10 ** (level / 20), np.float32)
            for _ in range(round(seconds * SECOND)):
                low = self.detector.earliest_pending
                self.detector.push(value, level, samples)
                self.take(low)
        low = self.detector.earliest_pending
        self.detector.finish()
        self.take(low)
        return [(start / SECOND, end / SECOND) for start, end in self.found]

    def take(self, low: int) -> None:
        """Nothing begins before what was promised, nothing overlaps."""
        for start, end in self.detector.final:
            assert start >= low
            assert not self.found or start >= self.found[-1][1]
            self.found.append((start, end))
        self.detector.final.clear()


#: (seconds, probability, level) after one another, and the regions that are speech, s.
HEARD: dict[str, tuple[list[tuple[float, float, float]], list[tuple[float, float]]]] = {
    "the first word that the detector misses":
        ([(3, 0, -70), (0.5, 0.1, -22), (2, 0.9, -20), (3, 0, -70)], [(3.0, 5.5)]),
    "the last word, which fades":
        ([(3, 0, -70), (2, 0.9, -20), (0.4, 0.1, -35), (5, 0, -70)], [(3.0, 5.4)]),
    # The end's edge ran through the pause, and what a clip began with was in the one before.
    "the onset of a word after a pause of 128 ms":
        ([(2, 0.9, -20), (0.128, 0, -70), (0.064, 0.1, -25), (2, 0.9, -20)],
         [(0, 2), (2.13, 4.19)]),
    "after one of 192 ms":
        ([(2, 0.9, -20), (0.192, 0, -70), (0.064, 0.1, -25), (2, 0.9, -20)],
         [(0, 2), (2.19, 4.25)]),
    "a word that fades into a short pause":
        ([(2, 0.9, -20), (0.064, 0.1, -25), (0.192, 0, -70), (0.064, 0.1, -25), (2, 0.9, -20)],
         [(0, 2.06), (2.25, 4.3)]),
    "no click": ([(3, 0, -70), (0.1, 0.9, -10), (5, 0, -70)], []),
}  # fmt: skip


@pytest.mark.parametrize(("parts", "regions"), HEARD.values(), ids=HEARD)
def test_words_at_edges_are_whole(
    parts: list[tuple[float, float, float]], regions: list[tuple[float, float]]
) -> None:
    assert Told().hear(*parts) == [pytest.approx(region, abs=0.05) for region in regions]


def test_edges_that_meet_where_nothing_is_quiet_touch() -> None:
    [before, after] = Told().hear((2, 0.9, -20), (0.2, 0.1, -22), (2, 0.9, -20))
    assert before[1] == after[0]


@pytest.mark.parametrize("again", [0.9, 0.2])
def test_a_sound_in_doubt_is_heard_again(again: float, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = []

    def afresh(windows: NDArray[np.float32]) -> NDArray[np.float32]:
        heard.append(len(windows))
        return np.where(windows[:, 0] > 0.01, again, 0).astype(np.float32)

    monkeypatch.setattr(_silero, "fresh_probabilities", afresh)
    parts = (2, 0.9, -20), (3, 0, -70), (0.5, DOUBT + 0.05, -25), (3, 0, -70), (2, 0.9, -20)
    found = Told().hear(*parts)
    assert len(heard) == 1
    assert len(found) == (3 if again > 0.5 else 2)
    if again > 0.5:
        assert found[1] == pytest.approx((5.0, 5.5), abs=0.05)


@pytest.mark.parametrize(
    ("pause", "level", "found"), [(0.6, -25.0, True), (0.6, -40.0, False), (2.5, -25.0, False)]
)
def test_a_doubtful_sound_as_loud_as_the_speech_before_it_is_speech(
    pause: float, level: float, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        _silero, "fresh_probabilities", lambda windows: np.zeros(len(windows), np.float32)
    )
    told = Told().hear(
        (2, 0.9, -20), (pause, 0, -70), (0.6, DOUBT + 0.05, level), (3, 0, -70), (2, 0.9, -20)
    )
    regions = [pytest.approx((2 + pause, 2.6 + pause), abs=0.05)] if found else []
    assert told[1:-1] == regions


def test_what_hardly_stands_out_is_not_heard_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_silero, "fresh_probabilities", None)  # a call would fail
    found = Told().hear((2, 0.9, -20), (3, 0, -35), (0.5, 0.4, -30), (30, 0.4, -31), (2, 0.9, -20))
    assert len(found) == 2


def read(path: Path, start: float, end: float) -> NDArray[np.float32]:
    """Mono at 16 kHz, seconds `start` to `end`."""
    with audio.open_stream(Locator(str(path))) as stream:
        rate, parts = stream.rate, [block.mean(axis=1) for block in stream.blocks()]
    samples = np.concatenate(parts)[: round(end * rate)]
    if rate != RATE:
        samples = soxr.resample(samples, rate, RATE, "HQ")
    return np.asarray(samples[round(start * RATE) :], np.float32)


def utterances(
    samples: NDArray[np.float32], block: int = 65_536, **options: float
) -> list[tuple[float, float]]:
    segmenter = vad.start(vad.Settings.model_validate(options), RATE, ())
    spans: list[Span] = []
    for at in range(0, len(samples), block):
        spans += segmenter.push(samples[at : at + block, None])
    spans += segmenter.finish()
    return [(s.start / RATE, s.end / RATE) for s in spans if s.kind == "utterance"]


@pytest.fixture(scope="module")
def librispeech() -> NDArray[np.float32]:
    return read(CORPUS / "long" / "librispeech_137spk.mp3", 0, 1720)


@pytest.fixture(scope="module")
def half_an_hour(librispeech: NDArray[np.float32]) -> list[tuple[float, float]]:
    return utterances(librispeech)


@pytest.mark.needs("corpus")
@pytest.mark.parametrize(
    ("begins", "sure"),
    [
        (490.84, 491.4),  # "What" of "What were they disputing"
        (1317.21, 1317.5),  # "Chapter" of "Chapter sixteen"
        (1697.16, 1697.3),
    ],
)
def test_the_first_word_is_kept(
    half_an_hour: list[tuple[float, float]], begins: float, sure: float
) -> None:
    """Places where the detector's own start, after minutes of stream, lay in the second word."""
    inside = [(start, end) for start, end in half_an_hour if start < sure < end]
    assert len(inside) == 1
    assert begins - 0.5 < inside[0][0] <= begins


@pytest.mark.needs("corpus")
def test_real_speech_is_cut_alike_whatever_the_blocks(librispeech: NDArray[np.float32]) -> None:
    samples = librispeech[: 90 * RATE]
    assert utterances(samples, 65_536) == utterances(samples, 4_999)


@pytest.mark.needs("corpus")
def test_clips_seldom_begin_or_end_amid_sound(librispeech: NDArray[np.float32]) -> None:
    """An edge is loud if its 20 ms are less than 12 dB below the clip's louder quarter. Cut as for
    speech synthesis, 8.5 % were, where an end took the next word's onset from behind its pause."""
    loud = edges = 0
    cuts = utterances(librispeech, min_seconds=3, target_seconds=10, max_seconds=15)
    for start, end in cuts:
        clip = librispeech[round(start * RATE) : round(end * RATE)]
        level = _detector.levels(clip[: len(clip) // 320 * 320].reshape(-1, 320))
        edges += 2
        loud += int((level[[0, -1]] > np.percentile(level, 75) - 12).sum())
    assert edges > 300
    assert loud <= 0.03 * edges


@pytest.mark.needs("corpus")
@pytest.mark.parametrize("name", ["aishell_S0150.m4a", "kerstin_de.opus"])
@pytest.mark.nightly
def test_real_segments_keep_their_speech(name: str) -> None:
    """The segments are known; speech is what stands out in them."""
    from tests.helpers import cut_scores, cut_ways, real_recordings

    recording = real_recordings.real(CORPUS / "long" / name)
    found = cut_scores.score(recording, cut_ways.ours()(recording.blocks()))
    assert found.sentences_lost == 0
    assert found.speech_lost < 0.003
    assert found.starts_clipped + found.ends_clipped <= 0.02 * 2 * found.sentences
