"""Music under speech: its share and its level, heard once with what `sounds` hears."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soxr

from tests.helpers import tiny_onnx
from tests.helpers.verdict_sounds import melody, mixed
from uttermill.flows.demo.corpus import ENGLISH, Line, speak
from uttermill.flows.demo.voice import RATE as VOICE_RATE
from uttermill.tasks import plugins
from uttermill.tasks.audio import Clip
from uttermill.tasks.filters import _sounds, music, sounds
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
