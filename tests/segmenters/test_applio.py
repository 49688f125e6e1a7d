"""Applio's slicer: its anchor, the algorithm as it sees the whole recording, and every sample."""

from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
import soxr
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy import signal

from tests.helpers import corpus, fuzz
from tests.segmenters.test_segmenters import blank, run
from uttermill.tasks.accounting import ledger
from uttermill.tasks.segmenters import Span, applio

Floats = NDArray[np.float32]
HOP_40K = 600  # samples, 15 ms


#: The slicer alone, on the samples as they are.
PLAIN = {"sample_rate": None, "highpass": False}


def cut(samples: Floats, rate: int, block: int = 65_536, **options: object) -> list[Span]:
    chosen = applio.Settings.model_validate(PLAIN | options)
    spans = run(applio.start(chosen, rate, ()), samples, block)
    ledger.check_cover("it", len(samples), [(s.start, s.end) for s in spans])
    return spans


def utterances(spans: list[Span]) -> list[tuple[int, int]]:
    return [(s.start, s.end) for s in spans if s.kind == "utterance"]


def noise(*parts: tuple[float, float], rate: int, seed: int = 0) -> Floats:
    """(seconds, RMS) after one another."""
    rng = np.random.default_rng(seed)
    pieces = [rng.standard_normal(round(s * rate)) * level for s, level in parts]
    return np.concatenate(pieces).astype(np.float32)[:, None]


def anchor(rate: int) -> Floats:
    """20.55 s, loud but for three pauses of digital silence.

    Frame i covers hops i - 2 to i + 2, so of a pause from hop a to hop b the frames a + 2 to b - 2
    are silent: b - a - 3. The 30 frames of the first pause are cut in one place, at frame 302,
    where silence begins. The second has 53, so 500 ms (33 frames) are kept on its right side, from
    the first of equally quiet ones: left out are frames 674 to 694. The third has 90: 800 to 857.
    """
    tone = 0.5 * np.sin(2 * np.pi * 1000 * np.arange(round(20.55 * rate)) / rate)
    for first, last in ((300, 333), (672, 728), (798, 891)):
        tone[round(first * 0.015 * rate) : round(last * 0.015 * rate)] = 0
    return tone.astype(np.float32)[:, None]


CLIPS = [3, 1.83, 3, 2.88, 1.59, 3, 3, 2.295]  # seconds


def test_the_anchor() -> None:
    """20.55 s: slices of 4.53, 5.58, 1.59 and 7.695 s, and the clips that Applio makes of them."""
    spans = cut(anchor(40_000), 40_000)
    assert [(b - a) / 40_000 for a, b in utterances(spans)] == CLIPS
    starts = [0, 2.7, 4.53, 7.23, 10.41, 12.855, 15.555, 18.255]
    assert [a / 40_000 for a, _ in utterances(spans)] == starts
    silent = [(s.start, s.end) for s in spans if s.kind == "non_speech"]
    assert silent == [(674 * HOP_40K, 694 * HOP_40K), (800 * HOP_40K, 857 * HOP_40K)]
    slices = [(0, 302), (302, 674), (694, 800), (857, 1370)]
    assert [(b - a) * 0.015 for a, b in slices] == pytest.approx([4.53, 5.58, 1.59, 7.695])


@pytest.mark.parametrize("rate", [16_000, 44_100, 48_000])
def test_the_anchor_at_other_rates(rate: int) -> None:
    found = [(b - a) / rate for a, b in utterances(cut(anchor(rate), rate))]
    assert found == pytest.approx(CLIPS, abs=0.031)


def test_overlap_is_what_windows_share() -> None:
    spans = cut(anchor(40_000), 40_000)
    total = sum(s.end - s.start for s in spans)
    assert total - 822_000 == 4 * 12_000  # four times a window goes on in the next one
    owned = ledger.exclusive([(s.start, s.end) for s in spans])
    assert sum(owned) == 822_000


def test_the_ledger_counts_overlap_in_its_own_column(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    sf.write(tmp_path / "in/a.wav", anchor(40_000), 40_000, "PCM_16")
    job = corpus.job(tmp_path, filter={"segmenter": {"use": "applio", **PLAIN}, "filters": []})
    corpus.run(job)
    rows = corpus.ledger(tmp_path / "out/datasets/latest")
    assert sum(row["samples"] for row in rows) == 822_000
    assert sum(row["overlap_samples"] for row in rows) == 4 * 12_000
    silent = [row["samples"] for row in rows if row["outcome"] == "non_speech"]
    assert sorted(silent) == [20 * HOP_40K, 57 * HOP_40K]


def test_no_pause_no_cut() -> None:
    assert utterances(cut(noise((3.3, 0.1), rate=16_000), 16_000)) == [(0, 52_800)]
    spans = cut(noise((3.4, 0.1), rate=16_000), 16_000)
    assert utterances(spans) == [(0, 48_000), (43_200, 54_400)]


def test_silence_throughout() -> None:
    """One pause; up to 500 ms of noise that gets quieter Applio keeps, and so do we."""
    assert cut(blank(9), 16_000) == [Span(0, 144_000, "non_speech")]
    assert len(cut(noise((9, 0.001), rate=16_000), 16_000)) == 1
    spans = cut(noise((0.3, 0.002), (9, 0.0005), rate=16_000), 16_000)
    assert [s.kind for s in spans] == ["utterance", "non_speech"]
    assert spans[0].end <= 34 * 240


def test_simple_windows() -> None:
    samples = blank(7)
    whole = [(0, 48_000), (43_200, 91_200)]
    assert utterances(cut(samples, 16_000, mode="simple")) == [*whole, (86_400, 112_000)]
    dropped = cut(samples, 16_000, mode="simple", drop_tail=True)
    assert utterances(dropped) == whole
    assert dropped[-1] == Span(91_200, 112_000, "unsegmented", reason="tail")
    assert utterances(cut(blank(5.7), 16_000, mode="simple")) == whole  # nothing is left over
    assert utterances(cut(blank(1), 16_000, mode="simple")) == [(0, 16_000)]
    assert cut(blank(0), 16_000) == cut(blank(0), 16_000, mode="simple") == []


@pytest.mark.parametrize("mode", ["automatic", "simple"])
@pytest.mark.parametrize("level", [0.0, 0.2])
def test_the_look_back_is_bounded(mode: str, level: float) -> None:
    segmenter = applio.start(applio.Settings.model_validate({"mode": mode}), 16_000, ())
    segmenter.push(noise((4, 0.2), rate=16_000))
    block = noise((10, level), rate=16_000)
    for turn in range(1, 12):
        segmenter.push(block)
        assert 4 * 16_000 + turn * len(block) - segmenter.needed_from <= 6 * 16_000


@pytest.mark.parametrize(
    "wrong",
    [{"min_interval_ms": 2000}, {"hop_ms": 500}, {"max_sil_kept_ms": 10}, {"overlap_seconds": 2}],
)
def test_impossible_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match=r"min_length_ms|overlap_seconds"):
        applio.Settings.model_validate(wrong)


@pytest.mark.parametrize("rate", [16_000, 40_000, 44_100, 48_000])
def test_hum_and_offset_do_not_hide_a_pause(rate: int) -> None:
    """Pauses are sought as by Applio: at 40 kHz and above 48 Hz."""
    samples = noise((2.5, 0.1), (1.2, 1e-4), (2.5, 0.1), rate=rate)
    at = np.arange(len(samples))[:, None] / rate
    hum = (0.02 + 0.02 * np.sin(2 * np.pi * 20 * at)).astype(np.float32)
    heard = {"sample_rate": 40_000, "highpass": True}
    spans = cut(samples + hum, rate, **heard)
    assert [s.kind for s in spans] == ["utterance", "non_speech", "utterance"]
    assert len(cut(samples + hum, rate, highpass=False)) == 3, "control: one stretch, two windows"
    assert [s.kind for s in cut(samples + hum, rate)] == ["utterance"] * 3
    assert spans == cut(samples + hum, rate, block=997, **heard)


def test_what_is_shorter_than_a_slice_stays_whole() -> None:
    """Applio leaves recordings of up to `min_length_ms` alone, silence and all."""
    quiet = noise((0.9, 1e-4), (0.6, 0.1), rate=16_000)
    assert cut(quiet, 16_000) == [Span(0, 24_000)]
    assert cut(quiet, 16_000, min_length_ms=1400)[0].kind == "non_speech"


# --- the algorithm, written down as it sees the whole recording


def frames_of(samples: Floats, hop: int, win: int) -> NDArray[np.float64]:
    wide = np.pad(samples[:, 0].astype(np.float64), win // 2)
    count = (len(wide) - win) // hop + 1
    return np.array([np.sqrt(np.mean(wide[i * hop : i * hop + win] ** 2)) for i in range(count)])


def slices_of(rms: NDArray[np.float64], least: int, interval: int, kept: int) -> list[list[int]]:
    """Slices in frames: what lies between the stretches that are left out."""

    def low(first: int, last: int) -> int:
        return first + int(rms[first : last + 1].argmin())

    out: list[tuple[int, int]] = []
    loud = rms >= 10 ** (-42 / 20)
    begin = at = 0
    while at < len(rms):
        if loud[at]:
            at += 1
            continue
        first = at
        while at < len(rms) and not loud[at]:
            at += 1
        if at == len(rms):
            if at - first >= interval:
                out.append((low(first, min(at, first + kept)), len(rms)))
            break
        cuts = at - first >= interval and at - begin >= least
        if not cuts and not (first == 0 and at > kept):
            continue
        if at - first <= kept:
            left = right = low(first, at)
        else:
            left, right = low(first, first + kept), low(at - kept, at)
            if at - first <= 2 * kept:
                middle = low(at - kept, first + kept)
                left, right = min(left, middle), max(right, middle)
        out.append((0 if first == 0 else left, right))
        begin = right
    bounds = [0, *(edge for pair in out for edge in pair), len(rms)]
    return [[a, b] for a, b in zip(bounds[::2], bounds[1::2], strict=True) if a < b]


def windows_of(slices: list[list[int]], hop: int, count: int, rate: int) -> list[tuple[int, int]]:
    found = []
    for begin, end in slices:
        at, stop = begin * hop, min(end * hop, count)
        index = 0
        while stop - (at + index * rate * 27 // 10) > rate * 33 // 10:
            start = at + index * rate * 27 // 10
            found.append((start, start + 3 * rate))
            index += 1
        found.append((at + index * rate * 27 // 10, stop))
    return [(a, b) for a, b in found if a < b]


PARTS = st.lists(
    st.tuples(st.floats(0.02, 4), st.sampled_from([0.0, 0.001, 0.004, 0.007, 0.01, 0.2])),
    min_size=1, max_size=14,
)  # fmt: skip


@pytest.mark.full
@fuzz.cases(80)
@given(PARTS, st.sampled_from([4_000, 8_000]), st.integers(40, 30_000))
def test_the_stream_gives_what_the_whole_gives(
    parts: list[tuple[float, float]], rate: int, block: int
) -> None:
    samples = noise(*parts, rate=rate, seed=len(parts))
    spans = cut(samples, rate, block)
    hop = rate * 15 // 1000
    slices = [[0, -(-len(samples) // hop)]]
    if slices[0][1] > 100:
        slices = slices_of(frames_of(samples, hop, 4 * hop), 100, 27, 33)
    assert utterances(spans) == windows_of(slices, hop, len(samples), rate)
    assert spans == cut(samples, rate)
    assert all(b - a <= 3.3 * rate for a, b in utterances(spans))
    owned = [(s.start, s.end) for s in spans if s.kind != "utterance"]
    touched = np.zeros(len(samples), np.int8)
    for start, end in utterances(spans):
        touched[start:end] = 1
    assert not any(touched[start:end].any() for start, end in owned)


def whole(samples: Floats, rate: int) -> list[tuple[float, float]]:
    """Windows in seconds, from the whole recording at once: at 40 kHz, through one filter."""
    mono = soxr.resample(samples.mean(axis=1, dtype=np.float64), rate, 40_000, quality="VHQ")
    numerator, denominator = signal.butter(5, 48, "highpass", fs=40_000)
    heard = signal.lfilter(numerator, denominator, mono)
    slices = [[0, -(-len(heard) // HOP_40K)]]
    if slices[0][1] > 100:
        slices = slices_of(frames_of(heard[:, None], HOP_40K, 4 * HOP_40K), 100, 27, 33)
    return [(a / 40_000, b / 40_000) for a, b in windows_of(slices, HOP_40K, len(heard), 40_000)]


@pytest.mark.parametrize("rate", [22_050, 44_100, 48_000])
def test_windows_are_those_of_the_whole_at_40_khz(rate: int) -> None:
    """Within a sample of 40 kHz, on noise with hum, offset and pauses of many lengths."""
    chance = np.random.default_rng(rate)
    parts = [(chance.uniform(0.1, 3), (0.1, 1e-4, 0.02, 5e-4)[n % 4]) for n in range(24)]
    samples = noise(*parts, rate=rate)
    at = np.arange(len(samples))[:, None] / rate
    samples = (samples + 0.003 + 0.004 * np.sin(2 * np.pi * 50 * at)).astype(np.float32)
    spans = cut(samples, rate, sample_rate=40_000, highpass=True)
    mine = [(a / rate, b / rate) for a, b in utterances(spans)]
    theirs = whole(samples, rate)
    assert len(mine) == len(theirs) > 10
    assert np.abs(np.array(mine) - np.array(theirs)).max() <= 1 / 20_000
