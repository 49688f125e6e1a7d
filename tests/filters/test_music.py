"""Music under speech: its share and its level, heard once with what `sounds` hears."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile as sf
import soxr

from tests.filters.test_measures_corpus import clip, librispeech
from tests.helpers import corpus, fetched, tiny_firered, tiny_onnx
from tests.helpers.corpus_speech import read
from tests.helpers.verdict_sounds import melody, mixed
from uttermill.flows.demo.corpus import ENGLISH, Line, speak
from uttermill.flows.demo.corpus import RATE as VOICE_RATE
from uttermill.tasks import plugins
from uttermill.tasks.audio import Clip
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.filters import _derived, _sounds, music, sounds, voice
from uttermill.tasks.insight.estimating import planning, what_if
from uttermill.tasks.models import firered_graph, model_files, registry
from uttermill.tasks.plugins import annotation_kinds
from uttermill.tasks.publish.corpus import held_out
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import clip_choice, whole_job
from uttermill.tasks.speech import embedding

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


def test_it_is_the_known_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    _sounds.tagger.cache_clear()
    for plugin in map(plugins.FILTERS.load, ("sounds", "music")):
        settings = plugin.Settings()
        assert plugin.identity(settings) == registry.FIRERED.files[0].sha256
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


# The filter `voice`, and `package.only.voice`: clips by the voice of an example.


def tone(path: Path, hz: float, seconds: float = 1.5, seed: int = 0) -> Path:
    """Syllables of a tone; clips of one pitch have one voice here (`by_pitch`)."""
    noise = corpus.speech(seed, seconds, 16000)[:, 0]
    times = np.arange(len(noise)) / 16000
    path.parent.mkdir(parents=True, exist_ok=True)
    sf.write(path, 0.3 * np.sin(2 * np.pi * hz * times) + 0.1 * noise, 16000)
    return path


@pytest.fixture
def by_pitch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Embeds a voice as its spectrum below 1 kHz, so that no weights are needed."""

    def embed(features: np.ndarray, folder: str | None = None) -> np.ndarray:
        energies = features.mean(axis=0)[:30]
        vector = np.zeros(embedding.SIZE)
        vector[:30] = np.exp(energies - energies.max())
        return np.asarray(vector / np.linalg.norm(vector), np.float32)

    monkeypatch.setattr(embedding, "embed", embed)
    monkeypatch.setattr(model_files, "located", lambda *given: Path())


def asked(home: Path, **package: Any) -> Job:
    chosen = {"segmenter": {"use": "whole"}, "filters": [{"use": "duration"}]}
    shard = {"settle_seconds": 0}
    return corpus.wishes(home, shard=shard, filter=chosen, package=package).job()


@pytest.mark.usefixtures("by_pitch")
def test_only_clips_of_an_examples_voice_are_recognised(tmp_path: Path) -> None:
    for number in range(3):
        tone(tmp_path / "in" / f"low{number}.wav", 200 + number, seed=number)
        tone(tmp_path / "in" / f"high{number}.wav", 800 + number, seed=9 + number)
    example = tone(tmp_path / "example.wav", 201, 3.0, seed=5)
    narrow = asked(tmp_path, only={"voice": str(example)})
    published, counts = corpus.run(narrow)
    assert [counts[stage][0] for stage in corpus.STAGES] == [6, 6, 3, 3, 3]
    kept = corpus.utterances(published.path)
    assert {Path(row["source_path"]).name[:3] for row in kept} == {"low"}
    assert all(row["voice_like"] >= 0.5 and row["voice_unlike"] is None for row in kept)
    ledger = corpus.ledger(published.path)
    gone = [row for row in ledger if row["outcome"] == "dropped"]
    assert {(row["stage"], row["reason"], row["threshold"]) for row in gone} == {
        ("filter", "other_voice", 0.5)
    }
    assert planning.plan(narrow, narrow).clips == (3, 3)
    assert "example.wav" not in str(whole_job.settings_of(narrow))
    lower = asked(tmp_path, only={"voice": [str(example)], "voice_cosine": -1})
    assert what_if.kept(narrow, lower)[1]["items"] == 6
    others = asked(tmp_path, without={"voice": [str(example)]})
    published, counts = corpus.run(others)
    assert counts["filter"][0] == 6  # measured with other examples
    assert counts["transcribe"][0] == 3
    kept = corpus.utterances(published.path)
    assert {Path(row["source_path"]).name[:3] for row in kept} == {"hig"}


@pytest.mark.usefixtures("by_pitch")
def test_another_example_measures_again(tmp_path: Path) -> None:
    example = tone(tmp_path / "example.wav", 200)
    chosen = voice.Settings(like=(str(example),))
    before = voice.identity(chosen)
    tone(example, 210)
    assert voice.identity(chosen) != before


@pytest.mark.usefixtures("by_pitch")
def test_examples_that_are_no_recording_of_a_voice_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("no sound")
    sf.write(tmp_path / "silent.wav", np.zeros(32000), 16000)
    low, high = (sf.read(tone(tmp_path / f"{hz}.wav", hz, 5.0))[0] for hz in (200, 800))
    sf.write(tmp_path / "two.wav", np.concatenate([low, high]), 16000)
    sf.write(tmp_path / "nan.wav", np.full(32000, np.nan), 16000, subtype="FLOAT")
    for name, words in (
        ("missing.wav", "cannot be read as a recording"),
        ("text.wav", "cannot be read as a recording"),
        (str(tone(tmp_path / "short.wav", 200, 0.4)), r"has 0\.40 s of sound; give 1 s or more"),
        ("nan.wav", "NaN or infinite"),
        ("silent.wav", "is silent; give a recording of one person"),
        ("two.wav", r"of two voices \(their cosine is 0\.0"),
    ):
        with pytest.raises(ConfigError, match=words):
            voice.check_weights(voice.Settings(like=(str(tmp_path / name),)))
    twice = asked(tmp_path, only={"voice": "a.wav"})
    twice = corpus.job(tmp_path, filter={"filters": [*twice.filter.filters, {"use": "voice"}]})
    with pytest.raises(ConfigError, match=r"which filter\.filters lists too"):
        clip_choice.check(twice)


@pytest.mark.usefixtures("by_pitch")
def test_what_has_no_voice_is_not_judged() -> None:
    nothing = {"voice_like": None, "voice_unlike": None, "voice_embedding": None}
    short = Clip.from_samples(np.zeros(1000), 16000)
    assert voice.measure(short, voice.Settings(like=("x",))) == nothing
    broken = Clip.from_samples(np.full(16000, np.nan), 16000)
    assert voice.measure(broken, voice.Settings(like=("x",))) == nothing


@pytest.mark.usefixtures("by_pitch")
def test_speakers_of_a_test_set_are_kept_out(tmp_path: Path) -> None:
    """By their voices, if asked; what a set has by other means comes first."""
    for number in range(3):
        tone(tmp_path / "in" / f"low{number}.wav", 200 + number, seed=number)
        tone(tmp_path / "in" / f"high{number}.wav", 800 + number, seed=9 + number)
    tone(tmp_path / "test" / "a.wav", 203, 2.0, seed=5)
    corpus.run(asked(tmp_path))
    one: dict[str, Any] = {"path": str(tmp_path / "test"), "name": "golden"}
    assert len(pq.read_table(run(asked(tmp_path, exclude=[one])) / "utterances.parquet")) == 6
    chosen = asked(tmp_path, exclude=[{**one, "by": ["audio", "voice"]}])
    version = run(chosen)
    kept = corpus.utterances(version)
    assert {Path(row["source_path"]).name[:3] for row in kept} == {"hig"}
    ledger = corpus.ledger(version)
    met = [row for row in ledger if row["reason"] == "in_test_set"]
    assert {row["detail"] for row in met} == {"the voice of golden/a.wav in the test set golden"}
    assert all(row["value"] >= row["threshold"] == 0.5 for row in met)
    described = json.loads((version / "dataset.json").read_text())
    assert [(one["voices"], one["clips"]) for one in described["test_sets"]] == [(1, 3)]
    assert what_if.kept(chosen, asked(tmp_path, exclude=[one]))[1]["items"] == 6
    texts = {"kind": "texts", "path": str(tmp_path / "x.txt"), "by": ["voice"]}
    with pytest.raises(ConfigError, match="a set of kind texts has no voice to compare"):
        held_out.check(asked(tmp_path, exclude=[texts]))


@pytest.mark.usefixtures("by_pitch")
def test_leaks_are_counted_by_voice_where_no_speaker_is_known(tmp_path: Path) -> None:
    """And clips, splits and files of formats stay as they are."""
    for number in range(6):
        tone(tmp_path / "in" / f"low{number}.wav", 200 + number, seed=number)
    tone(tmp_path / "in" / "high.wav", 800, seed=9)
    package = {"splits": {"dev": 0.4}, "formats": ["wenet"]}
    before = run(asked(tmp_path, **package))
    assert described(before)["leaks"]["dev"]["speaker"] is None
    linked = asked(tmp_path, **package, leaks_by_voice=True)
    assert "voice" in [plugin.use for plugin in linked.filter.filters]
    after = run(linked)
    rows = pq.read_table(after / "utterances.parquet")
    names = [n for n in described(before)["files"] if "README" not in n and "croissant" not in n]
    assert names
    assert all((before / n).read_bytes() == (after / n).read_bytes() for n in names)
    of_dev = [row["id"] for row in rows.to_pylist() if row["split"] == "dev"]
    low = [name for name in of_dev if "low" in name]
    assert 0 < len(low) < 6
    assert described(after)["leaks"]["dev"] == {
        "text": described(before)["leaks"]["dev"]["text"],
        "speaker": len(low),
        "recording": 0,
        "audio": 0,
    }
    apart = asked(tmp_path, **{**package, "splits": {"dev": 0.2}}, leaks_by_voice=True)
    assert what_if.kept(linked, apart)[1]["leaks"]["dev"]["speaker"] is not None


def test_leaks_by_voice_need_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tone(tmp_path / "in" / "a.wav", 200)
    with pytest.raises(ConfigError, match="uttermill models fetch speakers"):
        corpus.run(asked(tmp_path, splits={"dev": 0.5}, leaks_by_voice=True))
    assert asked(tmp_path, leaks_by_voice=True).filter == asked(tmp_path).filter


def described(version: Path) -> Any:
    return json.loads((version / "dataset.json").read_text())


def run(job: Job) -> Path:
    return corpus.run(job)[0].path


@pytest.mark.needs("corpus", "speakers")
def test_readers_are_told_apart() -> None:
    paths = librispeech()
    example = str(paths[0])
    chosen = voice.Settings(like=(example,))
    same, other = list[float](), list[float]()
    for path in paths[1::2]:
        cosine = voice.measure(clip(path), chosen)["voice_like"]
        assert isinstance(cosine, float)
        own = path.name.split("-")[0] == paths[0].name.split("-")[0]
        (same if own else other).append(cosine)
    assert max(other) < 0.5
    assert np.mean(np.array(same) >= 0.5) >= 0.9
