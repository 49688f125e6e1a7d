"""The fetched model of sounds: windows, loudness, what it cannot hear, and real recordings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import fetched, tiny_firered
from tests.helpers.corpus_speech import read
from tests.helpers.verdict_sounds import mixed
from uttermill.tasks.audio import Clip
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.filters import _derived, _sounds, music, sounds
from uttermill.tasks.models import firered_graph, model_files, registry
from uttermill.tasks.plugins import annotation_kinds

RATE = 16_000


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


def measured(samples: Any, **chosen: Any) -> dict[str, Any]:
    return sounds.measure(Clip.from_samples(samples, RATE), sounds.Settings(**chosen))


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("seconds", [0.01, 0.5, 0.96, 0.97, 1.44, 7.3])
def test_windows_share_out_a_clip_of_any_length(seconds: float) -> None:
    events = measured(noise(seconds), threshold=1e-6)["sounds"]
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
    given = measured(noise(seconds))
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
        assert {*measured(samples).values()} == {None}
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
    assert measured(tune)["sounds_music_mean"] > 0.8
    clean, both = of_music(voice), of_music(mixed(voice, tune, 15))
    assert clean["music_evidence"] < 0.5 < 1.0 < both["music_evidence"]
    assert (clean["music_share"], both["music_share"] > 0.3) == (0.0, True)
