"""`vad` with `merge: emilia`: Emilia's rules, its anchors, and every sample covered."""

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.helpers import corpus
from tests.segmenters.test_segmenters import RATE, Scripted, blank, run, speech
from uttermill.tasks.recording import Segment
from uttermill.tasks.recording.turns import Turn, Voices
from uttermill.tasks.segmenters import Span, _emilia, auto, vad

Range = tuple[int, int]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_emilia, "Probabilities", Scripted)


def turns(*rows: tuple[float, float | None, str]) -> tuple[Segment, ...]:
    return tuple(Segment(a, b, text=f"text {i}", speaker=s) for i, (a, b, s) in enumerate(rows))


def cut(
    samples: NDArray[np.float32], asked: Sequence[Segment] = (), block: int = 4096, **options: int
) -> list[Span]:
    """The spans by start; checked to cover every sample, what is not an utterance exactly once."""
    chosen = vad.Settings(merge="emilia", **options)
    spans = run(vad.start(chosen, RATE, asked), samples, block)
    covered = np.zeros(len(samples), np.int16)
    for span in spans:
        covered[span.start : span.end] += 1 if span.kind == "utterance" else 1000
    assert ((covered == 1000) | ((covered > 0) & (covered < 1000))).all()
    return sorted(spans, key=lambda span: (span.start, span.end))


def seconds(spans: list[Span], kind: str = "utterance") -> list[tuple[float, float]]:
    return [(s.start / RATE, s.end / RATE) for s in spans if s.kind == kind]


def test_a_short_turn_joins_the_long_one_before_it() -> None:
    """Anchor: [0, 4] + [5, 6] become [0, 6]."""
    spans = cut(blank(6), turns((0, 4, "A"), (5, 6, "A")))
    assert spans == [Span(0, 6 * RATE, turn=0)]


def test_a_short_turn_does_not_join_the_long_one_after_it() -> None:
    """Anchor: of [0, 1] + [2, 6] the first is lost."""
    spans = cut(blank(6), turns((0, 1, "A"), (2, 6, "A")))
    assert spans == [
        Span(0, RATE, "unsegmented", reason="below_min_seconds"),
        Span(RATE, 2 * RATE, "unsegmented", reason="outside_segments"),
        Span(2 * RATE, 6 * RATE, given=1),
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(0, 4, "A"), (4.2, 4.9, "B"), (5, 6, "A")], [(0, 4)]),  # even one that is dropped
        ([(0, 4, "A"), (5.99, 7, "A")], [(0, 7)]),
        ([(0, 4, "A"), (6, 7, "A")], [(0, 4)]),  # a gap of 2 s is too long
        ([(0, 4, "A"), (5, 8, "A")], [(0, 4), (5, 8)]),  # 3 s stand alone
        ([(0, 20, "A"), (20.5, 23, "A"), (23.5, 26, "A"), (26.5, 29, "A")], [(0, 29)]),
        ([(0, 20, "A"), (21, 23.9, "A"), (24, 26.9, "A"), (27.1, 30, "A")], [(0, 26.9)]),
        ([(0, 1, "A"), (1, 2, "A"), (2, 3, "A")], [(0, 3)]),  # and scraps make one
        ([(0, 10, "A"), (2, 9, "B"), (9, 14, "C")], [(0, 10), (9, 14)]),  # B ends before A
        ([(8, 14, "A"), (0, 6, "B")], [(8, 14)]),  # in the order of the source
    ],
)
def test_joining_and_leaving_out(
    rows: list[tuple[float, float, str]], expected: list[tuple[float, float]]
) -> None:
    assert seconds(cut(blank(31), turns(*rows))) == expected


def test_turns_go_through_the_books(tmp_path: Path) -> None:
    """Two turns of one speaker that overlap another's; all samples are in the ledger."""
    (tmp_path / "in").mkdir()
    path = tmp_path / "in/a.wav"
    sf.write(path, corpus.speech(1, 12, RATE), RATE, "PCM_16")
    rows = [(0, 4, "A", "one"), (4.5, 5.5, "A", "two"), (5, 11, "B", "three")]
    lines = [
        {"wav": str(path), "key": f"k{i}", "txt": text, "start": a, "end": b, "speaker": who}
        for i, (a, b, who, text) in enumerate(rows)
    ]
    corpus.jsonl(tmp_path / "list.jsonl", lines)
    source = {"kind": "jsonl", "path": str(tmp_path / "list.jsonl"), "name": "c"}
    segmenter = {"use": "vad", "merge": "emilia"}
    corpus.run(
        corpus.job(
            tmp_path, sources=[source], filter={"segmenter": segmenter, "filters": []},
            transcribe={"backend": {"use": "fake"}, "verdicts": []},
        )
    )  # fmt: skip
    found = corpus.utterances(tmp_path / "out/datasets/latest")
    # the joined one has no reference: `one` is the text of its first 4 s only
    assert {row["text"] for row in found if row["text_source"] == "reference"} == {"three"}
    assert {(row["start"], row["end"], row["text_source"]) for row in found} == {
        (0, 5.5, "asr"), (5, 11, "reference"),
    }  # fmt: skip
    books = corpus.ledger(tmp_path / "out/datasets/latest")
    assert sum(row["samples"] for row in books) == 12 * RATE


def test_what_is_left_out_is_named() -> None:
    spans = cut(blank(15), turns((5, 10, "A"), (3, 9, "B"), (9, 11, "C"), (20, 25, "A")))
    assert [(s.start // RATE, s.end // RATE, s.reason or s.given) for s in spans] == [
        (0, 3, "outside_segments"), (3, 5, "overlap"), (5, 10, 0), (10, 11, "below_min_seconds"),
        (11, 15, "outside_segments"), (15, 15, 3),
    ]  # fmt: skip


@pytest.mark.usefixtures("scripted")
def test_a_turn_of_20_seconds_is_kept_and_a_longer_one_is_searched() -> None:
    samples = speech((5, 0), (2, 0.9), (30, 0))
    assert cut(samples, turns((0, 20, "A")))[0] == Span(0, 20 * RATE, given=0)
    spans = cut(samples, turns((0, 20.01, "A")))
    assert {s.kind for s in spans} == {"non_speech", "unsegmented"}
    assert seconds(spans, "non_speech")[0] == pytest.approx((0, 4.97), abs=0.04)


@pytest.mark.usefixtures("scripted")
def test_a_long_turn_is_divided_at_its_largest_gaps() -> None:
    samples = speech((9, 0.9), (0.4, 0), (9, 0.9), (0.6, 0), (9, 0.9), (0.5, 0), (9, 0.9))
    spans = cut(samples, turns((0, None, "A")))
    # 37.5 s are parted at 0.6 s; both halves are shorter than 20 s
    assert np.allclose(seconds(spans), [(0, 18.43), (18.97, 37.5)], atol=0.05)
    assert {(s.given, s.turn) for s in spans if s.kind == "utterance"} == {(None, 0)}


@pytest.mark.usefixtures("scripted")
def test_speech_without_a_gap_is_cut_every_30_seconds() -> None:
    spans = cut(speech((70, 0.9), (2, 0)))
    assert seconds(spans)[:2] == [(0, 30), (30, 60)]
    assert seconds(spans)[2] == pytest.approx((60, 70.03), abs=0.05)
    # the rest is joined to nothing before it, whatever its length, but what follows is to the rest
    spans = cut(speech((61, 0.9), (1, 0), (0.5, 0.9), (9, 0)))
    assert seconds(spans) == [(0, 30), (30, 60)]
    assert [s.reason for s in spans if s.kind == "unsegmented"] == ["below_min_seconds"]
    spans = cut(speech((61, 0.9), (1, 0), (1.5, 0.9), (9, 0)))
    assert seconds(spans)[2] == pytest.approx((60, 63.53), abs=0.05)


def test_a_smaller_longest_length_holds_for_turns_too() -> None:
    assert seconds(cut(blank(18), turns((0, 18, "A")), max_seconds=8)) == [(0, 8), (8, 16)]


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize("level", [0.0, 0.9])
def test_the_look_back_is_bounded(level: float) -> None:
    segmenter = vad.start(vad.Settings(merge="emilia"), RATE, ())
    block = speech((10, level))
    for turn in range(1, 40):
        segmenter.push(block)
        assert turn * len(block) - segmenter.needed_from <= 45 * RATE


@pytest.mark.usefixtures("scripted")
def test_the_look_back_is_bounded_in_talk() -> None:
    segmenter = vad.start(vad.Settings(merge="emilia"), RATE, ())
    rng = np.random.default_rng(1)
    count = 0
    for _ in range(150):
        block = speech((rng.uniform(0.3, 9), 0.9), (rng.uniform(0.05, 3), 0))
        segmenter.push(block)
        count += len(block)
        assert count - segmenter.needed_from <= 60 * RATE


def test_the_real_detector_on_silence() -> None:
    assert cut(blank(40)) == [Span(0, 40 * RATE, "non_speech")]


def test_settings() -> None:
    assert vad.Settings(merge="emilia").speech_pad_ms == 30
    assert vad.Settings(merge="emilia", speech_pad_ms=50).speech_pad_ms == 50
    assert vad.Settings().speech_pad_ms == 100
    assert vad.uses_speakers(vad.Settings(merge="emilia"))
    assert not vad.uses_speakers(vad.Settings())
    assert "merge" not in auto.Settings.model_fields


# --- the same rules, written down as they see the whole list


def largest_gap(stretches: list[Range], limit: int) -> list[Range]:
    if not stretches:
        return []
    if len(stretches) == 1 or stretches[-1][1] - stretches[0][0] < limit:
        return [(stretches[0][0], stretches[-1][1])]
    gaps = [b[0] - a[1] for a, b in pairwise(stretches)]
    at = gaps.index(max(gaps)) + 1
    return largest_gap(stretches[:at], limit) + largest_gap(stretches[at:], limit)


def padded(probabilities: list[float], limits: vad.Settings, length: int) -> list[Range]:
    found: list[list[int]] = []
    start = quiet = -1
    for at, value in ((512 * i, p) for i, p in enumerate(probabilities)):
        if value >= limits.threshold:
            start, quiet = (at if start < 0 else start), -1
        elif value < limits.neg_threshold and start >= 0:
            quiet = at if quiet < 0 else quiet
            if at - quiet >= limits.min_silence_ms * 16:
                found.append([start, quiet])
                start = quiet = -1
    if start >= 0:
        found.append([start, length])
    found = [f for f in found if f[1] - f[0] > limits.min_speech_ms * 16]
    pad = limits.speech_pad_ms * 16
    for a, b in pairwise(found):
        half = min(pad, (b[0] - a[1]) // 2) if b[0] - a[1] < 2 * pad else pad
        a[1], b[0] = a[1] + half, b[0] - half
    if found:
        found[0][0] = max(found[0][0] - pad, 0)
        found[-1][1] = min(found[-1][1] + pad, length)
    return [(a, b) for a, b in found]


def listed(pieces: list[tuple[int, int, str]]) -> list[Range]:
    """Pieces of rows to utterances."""
    kept: list[tuple[int, int, str]] = []
    for start, end, speaker in pieces:
        if end - start >= 30 * RATE:
            cuts = [*range(start, end - 30 * RATE + 1, 30 * RATE)]
            kept += [(at, at + 30 * RATE, speaker) for at in cuts]
            kept.append((cuts[-1] + 30 * RATE, end, speaker))
        elif (
            kept
            and speaker == kept[-1][2]
            and end - start < 3 * RATE
            and start - kept[-1][1] < 2 * RATE
            and end - kept[-1][0] < 30 * RATE
        ):
            kept[-1] = (kept[-1][0], end, speaker)
        else:
            kept.append((start, end, speaker))
    return [(a, b) for a, b, _ in kept if b - a >= 3 * RATE]


ROWS = st.lists(
    st.tuples(st.integers(0, 60), st.one_of(st.none(), st.integers(0, 60)), st.sampled_from("AB")),
    min_size=1, max_size=6,
)  # fmt: skip


@pytest.mark.usefixtures("scripted")
@settings(max_examples=40, deadline=None)
@given(ROWS, st.integers(1, 50), st.integers(5_000, 50_000))
@example([(0, None, "A"), (10, None, "A")], 35, 4096)
@example([(0, 0, "A"), (14, None, "A")], 34, 5000)  # exactly 20 s, which only its end tells
def test_any_turns_give_what_the_rules_say(
    rows: list[tuple[int, int | None, str]], length: int, block: int
) -> None:
    rng = np.random.default_rng(len(rows) + length)
    parts = [(rng.uniform(0.1, 9), rng.choice([0.0, 0.9])) for _ in range(40)]
    samples = speech(*parts)[: length * RATE]
    spans = cut(samples, turns(*rows), block)
    count = len(samples)
    pieces: list[tuple[int, int, str]] = []
    last = 0.0
    for start, end, speaker in rows:
        if (math.inf if end is None else end) <= last:
            continue
        last = math.inf if end is None else end
        low, high = start * RATE, int(min(last * RATE, count))
        if 0 < high - low <= 20 * RATE:
            pieces.append((low, high, speaker))
        elif high > low:
            heard = samples[low:high:512, 0].tolist()
            found = padded(heard, vad.Settings(merge="emilia"), high - low)
            groups = largest_gap(found, 20 * RATE)
            pieces += [(low + a, low + b, speaker) for a, b in groups]
    expected = sorted(listed(pieces))
    assert [(s.start, s.end) for s in spans if s.kind == "utterance" and s.end > s.start] == (
        expected
    )


def test_what_a_diarizer_found_beside_its_turns_keeps_its_name() -> None:
    """The music before the first voice is no speech; there are no segments that it lies outside."""
    a, b, c = (
        Turn(round(low * RATE), round(high * RATE), speaker)
        for low, high, speaker in ((60, 70, 0), (68, 80, 1), (85, 85.2, 0))
    )
    voices = Voices((a, b, c), shortest=RATE // 2)
    spans = run(vad.at_turns(vad.Settings(merge="emilia"), RATE, (), voices), blank(100), 4096)
    told = sorted((s.start / RATE, s.end / RATE, s.reason or s.kind) for s in spans)
    assert told == [
        *((0, 59.5, "non_speech"), (59.5, 68, "utterance"), (68, 70, "overlap")),
        *((70, 80.5, "utterance"), (80.5, 85, "non_speech"), (85, 85.2, "short_turn")),
        (85.2, 100, "non_speech"),
    ]
