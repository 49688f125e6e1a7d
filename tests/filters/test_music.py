"""Music under speech: its share and its level, heard once with what `sounds` hears."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soxr

from tests.helpers import fetched, tiny_firered, tiny_onnx
from tests.helpers.corpus_speech import read
from tests.helpers.verdict_sounds import melody, mixed
from uttermill.flows.demo.corpus import ENGLISH, Line, speak
from uttermill.flows.demo.voice import RATE as VOICE_RATE
from uttermill.tasks import plugins
from uttermill.tasks.audio import Clip
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.filters import _derived, _sounds, music, sounds
from uttermill.tasks.models import firered_graph, model_files, registry
from uttermill.tasks.plugins import annotation_kinds
from uttermill.tasks.plugins.rules import judge

RATE = 16_000


@pytest.fixture(scope="module")
def speech() -> Any:
    """Sentences of espeak-ng with half a second of silence between them, at 16 kHz."""
    pytest.importorskip("espeakng_loader")
    pause = np.zeros(VOICE_RATE // 2)
    lines = [Line(text, "en-us", 150) for text in ENGLISH[:6]]
    said = [np.r_[voice, pause] for voice in speak(lines)]
    samples = soxr.resample(np.concatenate(said), VOICE_RATE, RATE, "HQ")
    return (0.2 * samples / np.abs(samples).max()).astype(np.float32)


def measured(home: Path, samples: Any, rate: int = RATE, **chosen: Any) -> dict[str, float | None]:
    return music.measure(
        Clip.from_samples(samples, rate), music.Settings(model=str(home), **chosen)
    )


@pytest.mark.parametrize("below", [20, 0])
def test_the_level_is_that_of_what_sounds_in_the_pauses(speech: Any, below: int) -> None:
    steady = np.sin(2 * np.pi * 330 * np.arange(len(speech)) / RATE).astype(np.float32)
    tune = melody(np.random.default_rng(0), len(speech))
    for under, most in ((steady, 2.0), (tune, 4.0)):
        both = mixed(speech, under, below)
        assert music.level(Clip.from_samples(both, RATE)) == pytest.approx(-below, abs=most)
    wide = soxr.resample(both, RATE, 48_000, "HQ").astype(np.float32)
    assert music.level(Clip.from_samples(wide, 48_000)) == pytest.approx(-below, abs=most)


def test_the_level_has_bounds_and_needs_pauses_and_speech(speech: Any) -> None:
    assert music.level(Clip.from_samples(speech, RATE)) == pytest.approx(-60, abs=40)
    assert music.level(Clip.from_samples(0.1 * np.ones(3 * RATE, np.float32), RATE)) is None, (
        "no speech"
    )
    assert music.level(Clip.from_samples(np.zeros(0, np.float32), RATE)) is None
    loud = np.flatnonzero(np.abs(speech) > 0.01)
    inside = speech[loud[0] + RATE // 4 : loud[0] + RATE // 4 + RATE]
    assert music.level(Clip.from_samples(inside, RATE)) is None, "no pause"


def test_the_share_counts_windows(tmp_path: Path) -> None:
    tiny_onnx.sounds(tmp_path, ["n"])  # what is loud is music to it
    draw = np.random.default_rng(0).uniform(-1, 1, 8 * RATE).astype(np.float32)
    half = draw * np.r_[np.full(4 * RATE, 1e-4), np.full(4 * RATE, 0.9)].astype(np.float32)
    share = measured(tmp_path, half)["music_share"]
    assert share == pytest.approx(0.5, abs=0.15)
    silent = measured(tmp_path, 1e-4 * draw)
    assert (silent["music_share"], silent["music_level"]) == (0.0, None)
    half[-1] = np.nan
    nothing = dict.fromkeys(("music_share", "music_evidence", "music_level"))
    assert measured(tmp_path, half) == measured(tmp_path, half[:0]) == nothing


def test_both_filters_hear_a_clip_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_onnx.sounds(tmp_path, ["n"])
    gains: list[float] = []
    classes = _sounds.Tagger.classes

    def counted(self: _sounds.Tagger, clip: Clip, gain: float = 1.0) -> Any:
        gains.append(gain)
        return classes(self, clip, gain)

    monkeypatch.setattr(_sounds.Tagger, "classes", counted)
    _sounds.tagger(str(tmp_path))  # which probes its graph
    gains.clear()
    clip = Clip.from_samples(np.full(3 * RATE, 0.05, np.float32), RATE)
    music.measure(clip, music.Settings(model=str(tmp_path)))
    sounds.measure(clip, sounds.Settings(model=str(tmp_path)))
    assert gains == [1.0, pytest.approx(2.0)], "for evidence, in a louder copy"


@pytest.mark.parametrize("gain", [1.0, 0.01])
def test_evidence_weighs_music_against_other_sounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gain: float
) -> None:
    """In a copy of one level; speech is no other sound, and silence stays silence."""
    tiny_onnx.sounds(tmp_path, ["n"])
    _sounds.tagger(str(tmp_path))  # which probes its graph
    given: list[float] = []
    names = list(tiny_onnx.SOUNDS)
    likely = {"Music": 0.2, "Speech": 0.9, "Dog": 0.35, "Silence": 0.05}

    def classes(self: _sounds.Tagger, clip: Clip, gain: float) -> Any:
        given.append(gain)
        first = [likely.get(name, 0.0) for name in names]
        return np.array([first, [0.0] * len(names)])

    monkeypatch.setattr(_sounds.Tagger, "classes", classes)
    samples = gain * np.random.default_rng(0).uniform(-0.5, 0.5, 3 * RATE).astype(np.float32)
    weight = music.evidence(Clip.from_samples(samples, RATE), str(tmp_path))
    assert weight == pytest.approx((0.1 + 0.001) / np.sqrt(0.175 + 0.01))
    assert given[0] * np.sqrt(np.mean(samples**2)) == pytest.approx(0.1, rel=1e-3)
    music.evidence(Clip.from_samples(np.zeros(RATE, np.float32), RATE), str(tmp_path))
    assert given[1] == 1.0


def test_limits_are_its_own() -> None:
    loaded = plugins.FILTERS.load("music")
    given = {"music_share": 0.4, "music_level": -8.0, "music_evidence": 0.06}
    for limit, reason in (
        ({"max_share": 0.1}, "music_heard"),
        ({"min_share": 0.5}, "little_music_heard"),
        ({"max_level": -15.0}, "loud_music"),
        ({"min_level": -5.0}, "faint_music"),
        ({"max_evidence": 0.05}, "music_likely"),
        ({"min_evidence": 0.1}, "no_music_likely"),
    ):
        rejection = judge(given, loaded.verdict(music.Settings.model_validate(limit)))
        assert rejection is not None
        assert rejection.reason == reason


# The fetched model of sounds: windows, loudness, what it cannot hear, and real recordings.


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The model, with weights drawn from a seed, stands in for the fetched one."""
    graph = tmp_path / "made.onnx"
    graph.write_bytes(firered_graph.build(tiny_firered.bundle()))
    located = model_files.located
    monkeypatch.setattr(
        model_files,
        "located",
        lambda model, *asked: graph if model is registry.FIRERED else located(model, *asked),
    )
    _sounds.tagger.cache_clear()
    yield
    _sounds.tagger.cache_clear()


def noise(seconds: float) -> Any:
    draw = np.random.default_rng(0).normal(0, 0.05, round(seconds * RATE))
    return (draw * np.sin(np.arange(len(draw)) / 20_000)).astype(np.float32)


def of_music(samples: Any) -> dict[str, Any]:
    return {**music.measure(Clip.from_samples(samples, RATE), music.Settings())}


def heard_by_fetched(samples: Any, **chosen: Any) -> dict[str, Any]:
    return sounds.measure(Clip.from_samples(samples, RATE), sounds.Settings(**chosen))


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("seconds", [0.01, 0.5, 0.96, 0.97, 1.44, 7.3])
def test_windows_share_out_a_clip_of_any_length(seconds: float) -> None:
    events = heard_by_fetched(noise(seconds), threshold=1e-6)["sounds"]
    assert {event.label for event in events} == {"speech", "music", "singing"}
    assert {(event.start, event.end) for event in events} == {(0.0, seconds)}


@pytest.mark.usefixtures("made")
def test_a_window_is_the_mean_of_its_frames() -> None:
    samples = noise(2)
    [energies] = _sounds._energies(Clip.from_samples(samples, RATE))
    frames = tiny_firered.plain(energies)
    means = [frames[first : first + 96].mean(axis=0) for first in (0, 48, 96)]
    means.append(frames[144:].mean(axis=0))
    heard = _sounds.tagger("").classes(Clip.from_samples(samples, RATE))
    assert heard == pytest.approx(np.array(means)[: len(heard)], abs=1e-4)
    assert len(heard) == 4
    groups = _sounds.heard(Clip.from_samples(samples, RATE), "")
    assert groups == pytest.approx(heard[:, [0, 2, 1]]), "speech, music, singing"


@pytest.mark.usefixtures("made")
def test_a_gain_is_a_louder_clip_and_length_does_not_matter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    samples = noise(6)
    samples[RATE : 2 * RATE] = 0
    tagger = _sounds.tagger("")
    louder = tagger.classes(Clip.from_samples(7 * samples, RATE))
    assert tagger.classes(Clip.from_samples(samples, RATE), 7.0) == pytest.approx(louder, abs=1e-3)
    whole = tagger.classes(Clip.from_samples(samples, RATE))
    monkeypatch.setattr(_derived, "KEPT_SECONDS", 1.0)
    for count in (1, 40):
        blocks = np.array_split(samples[:, None], count)
        assert tagger.classes(Clip.of_pieces(blocks, RATE)) == pytest.approx(whole, abs=1e-3)


@pytest.mark.usefixtures("made")
def test_what_it_cannot_hear_is_unknown_and_takes_no_limit() -> None:
    seconds = 3.0
    given = heard_by_fetched(noise(seconds))
    numbers = annotation_kinds.take("it", sounds.ANNOTATIONS, given, seconds).numbers
    unknown = {name for name, value in numbers.items() if value is None}
    assert unknown == {f"sounds_{label}" for label in ("laughter", "applause", "noise", "other")}
    sounds.check_weights(sounds.Settings(max_share={"music": 0.1}))
    with pytest.raises(ConfigError, match="limit on applause, but its model hears only speech, mu"):
        sounds.check_weights(sounds.Settings(max_share={"applause": 0.1}))


@pytest.mark.usefixtures("made")
def test_no_samples_or_not_finite_ones_give_nothing() -> None:
    broken = noise(3)
    broken[20_000] = np.inf
    for samples in (broken, broken[:0], broken[:60]):
        assert {*heard_by_fetched(samples).values()} == {None}
        assert {*of_music(samples).values()} == {None}


def test_it_is_the_known_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    _sounds.tagger.cache_clear()
    for plugin in (sounds, music):
        settings = plugin.Settings()
        assert registry.FIRERED.files[0].sha256.startswith(plugin.identity(settings) or "none")
        assert plugin.known_models(settings) == (registry.FIRERED,)
        with pytest.raises(ConfigError, match="not installed: run `uttermill models fetch sounds`"):
            plugin.check_weights(settings)


@pytest.mark.needs("corpus", "sounds")
def test_real_music_is_heard_alone_and_under_speech() -> None:
    tune = read(fetched.CORPUS / "noise/moh_manolo_camp.wav")[20 * RATE : 40 * RATE]
    voice = read(fetched.CORPUS / "en/ljspeech/LJ001-0001.wav")
    _sounds.tagger.cache_clear()
    assert heard_by_fetched(tune)["sounds_music_mean"] > 0.8
    clean, both = of_music(voice), of_music(mixed(voice, tune, 15))
    assert clean["music_evidence"] < 0.5 < 1.0 < both["music_evidence"]
    assert (clean["music_share"], both["music_share"] > 0.3) == (0.0, True)
