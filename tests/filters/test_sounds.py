"""Sounds of a clip: a model in a folder, groups of its classes, events, shares and limits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.fft

from tests.helpers import corpus, tiny_onnx
from uttermill.flows import checks
from uttermill.tasks import plugins
from uttermill.tasks.audio import Clip
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.filters import _derived, _sounds, sounds

RATE = 16_000
#: Inputs of graphs as they are published: samples, and YAMNet's patches in three layouts.
SHAPES: dict[str, list[int | str]] = {
    "samples": ["n"],
    "samples of one clip": [1, 15_600],
    "long windows": [1, 32_000],
    "patches": [1, 1, 96, 64],
    "patches, channels last": ["b", 96, 64, 1],
    "patches without channels": ["b", 96, 64],
}


def noise(seconds: float, level: float) -> Any:
    draw = np.random.default_rng(0).uniform(-1, 1, round(seconds * RATE))
    return (level * draw).astype(np.float32)


def measured(home: Path, samples: Any, rate: int = RATE, **chosen: Any) -> dict[str, Any]:
    return sounds.measure(
        Clip.from_samples(samples, rate), sounds.Settings(model=str(home), **chosen)
    )


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("logits", [False, True])
def test_graphs_of_all_inputs_hear_the_same(tmp_path: Path, kind: str, logits: bool) -> None:
    tiny_onnx.sounds(tmp_path, SHAPES[kind], logits=logits)
    sounds.check_weights(sounds.Settings(model=str(tmp_path)))
    quiet_then_loud = np.r_[noise(4, 1e-4), noise(4, 0.9)]
    given = measured(tmp_path, quiet_then_loud)
    assert 0.3 < given["sounds_music_mean"] < 0.7
    assert given["sounds_music_score"] > 0.9
    assert [event.label for event in given["sounds"]] in (
        ["music", "laughter"],
        ["laughter", "music"],
    )
    for event in given["sounds"]:
        assert 0 <= event.start < event.end <= 8
        assert event.score > 0.9
        edges = (0, 4) if event.label == "laughter" else (4, 8)
        assert (event.start, event.end) == pytest.approx(edges, abs=1.0)
    given = measured(tmp_path, quiet_then_loud, threshold=0.999999)
    assert given["sounds"] == []


def test_a_quantised_graph_gives_what_its_steps_say(tmp_path: Path) -> None:
    for home, quantised in ((tmp_path / "float", False), (tmp_path / "whole", True)):
        tiny_onnx.sounds(home, [1, 1, 96, 64], logits=True, quantised=quantised)
    exact = measured(tmp_path / "float", noise(3, 0.2))
    rounded = measured(tmp_path / "whole", noise(3, 0.2))
    assert rounded["sounds_music_mean"] == pytest.approx(exact["sounds_music_mean"], abs=0.05)
    assert rounded["sounds_music_mean"] != exact["sounds_music_mean"]


@pytest.mark.parametrize("seconds", [0.01, 0.9749, 0.975, 0.976, 1.455, 7.3])
def test_windows_share_out_a_clip_of_any_length(tmp_path: Path, seconds: float) -> None:
    tiny_onnx.sounds(tmp_path, ["n"])
    given = measured(tmp_path, noise(seconds, 0), threshold=0.2)
    [event] = given["sounds"]
    assert (event.start, event.end) == (0.0, pytest.approx(round(seconds * RATE) / RATE))


def clip_of(samples: Any, blocks: int = 1) -> Clip:
    return Clip.of_pieces(np.array_split(np.asarray(samples, np.float32)[:, None], blocks), RATE)


@pytest.mark.parametrize("kind", ["samples", "patches"])
@pytest.mark.parametrize("gain", [1.0, 1.9, 30.0])
def test_numbers_do_not_depend_on_the_length_of_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, gain: float
) -> None:
    """Beyond two minutes a clip is heard block by block; its bands are then computed each time."""
    tiny_onnx.sounds(tmp_path, SHAPES[kind])
    tagger = _sounds.Tagger(str(tmp_path))
    samples = noise(20, 0.2) * np.sin(np.arange(20 * RATE) / 50_000).astype(np.float32)
    whole = tagger.classes(clip_of(samples), gain)
    assert len(whole) == 41
    by_hand = (gain * samples).clip(-1, 1).astype(np.float32)
    assert tagger.classes(clip_of(by_hand)) == pytest.approx(whole, abs=1e-5)
    monkeypatch.setattr(_derived, "KEPT_SECONDS", 1.0)
    for count in (1, 3, 41, 1000):
        assert tagger.classes(clip_of(samples, count), gain) == pytest.approx(whole, abs=1e-5)
    assert len(tagger.classes(clip_of(samples[:0]), gain)) == 0


def test_the_spectra_of_a_clip_are_computed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows overlap by half, and a louder copy has the same spectra, but louder."""
    tiny_onnx.sounds(tmp_path, [1, 1, 96, 64])
    counts: list[int] = []
    rfft = scipy.fft.rfft

    def counted(frames: Any, *args: Any, **kwargs: Any) -> Any:
        counts.append(len(frames))
        return rfft(frames, *args, **kwargs)

    monkeypatch.setattr(scipy.fft, "rfft", counted)
    tagger = _sounds.Tagger(str(tmp_path))
    counts.clear()
    clip = Clip.from_samples(noise(10, 0.1), RATE)
    windows = len(tagger.classes(clip))
    tagger.classes(clip, 5.0)
    assert sum(counts) == 48 * windows + 48, "each frame once, not for both of its windows"
    tagger.classes(clip, 50.0)
    assert sum(counts) == 2 * (48 * windows + 48), "cut off at full scale"


def test_no_samples_or_not_finite_ones_give_nothing(tmp_path: Path) -> None:
    tiny_onnx.sounds(tmp_path, ["n"])
    broken = noise(3, 0.1)
    broken[20_000] = np.nan
    tiny_onnx.sounds(tmp_path / "whole", [1, 1, 96, 64], quantised=True)
    nothing = {"sounds_music_mean": None, "sounds_music_score": None, "sounds": None}
    for home in (tmp_path, tmp_path / "whole"):
        for samples in (broken, noise(0, 0)):
            assert measured(home, samples) == nothing


def test_patches_are_yamnets() -> None:
    """By the formula, band by band: a tone lies where its triangle is, as high as its magnitude."""
    tone = (0.5 * np.sin(2 * np.pi * 1000 * np.arange(15_600) / RATE)).astype(np.float32)
    [bands] = _sounds.bands([tone])
    patch = np.log(bands.reshape(96, 64) + 0.001)
    assert not any(band.any() for band in _sounds.bands([np.zeros(15_600, np.float32)]))
    mel = 1127 * np.log(1 + np.array([125.0, 1000, 7500]) / 700)
    place = 65 * (mel[1] - mel[0]) / (mel[2] - mel[0]) - 1
    assert patch.mean(axis=0).argmax() == round(place)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    frame = np.abs(np.fft.rfft(tone[160:560] * hann, 512))
    edges = np.linspace(mel[0], mel[2], 66)[round(place) :][:3]
    bins = 1127 * np.log(1 + np.arange(257) * RATE / 512 / 700)
    weights = np.interp(bins, edges, [0, 1, 0])
    assert patch[1, round(place)] == pytest.approx(np.log(weights @ frame + 0.001), rel=1e-5)


def test_every_class_of_audioset_has_its_group(tmp_path: Path) -> None:
    path = tmp_path / "labels.txt"
    path.write_text("\n".join([*tiny_onnx.SOUNDS, "", "Hum", "Cheering", "Applause"]))
    groups, count = _sounds.grouped(path)
    assert count == len(tiny_onnx.SOUNDS) + 3
    assert groups == {
        "speech": [0, 1], "music": [8, 9], "singing": [4, 5], "laughter": [2, 3],
        "applause": [6, 14, 15], "noise": [11, 12, 13], "other": [7],
    }  # fmt: skip


def test_a_folder_without_a_model_is_refused_in_a_sentence(tmp_path: Path) -> None:
    def said(home: Path | str) -> str:
        settings = sounds.Settings(model=str(home))
        with pytest.raises(ConfigError) as error:
            sounds.check_weights(settings)
        return str(error.value)

    assert "give it `model`, a folder with one graph (.onnx) and the list" in said(tmp_path)
    assert "0 graphs and no list" in said(tmp_path)
    tiny_onnx.sounds(tmp_path, ["n"])
    (tmp_path / "other.onnx").write_bytes(b"")
    assert "has 2 graphs and yamnet_class_map.csv" in said(tmp_path)
    (tmp_path / "other.onnx").unlink()
    (tmp_path / "yamnet_class_map.csv").write_text("index,mid,display_name\n0,/m/0,Dog\n")
    assert "not AudioSet's list of classes in its order: nothing in it is speech" in said(tmp_path)
    names = tmp_path / "yamnet_class_map.csv"
    names.unlink()
    (tmp_path / "labels.txt").write_text("\n".join([*tiny_onnx.SOUNDS, "Boing"]))
    assert "gives [[1, 13]], which do not fit the 14 classes of labels.txt" in said(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"no graph")
    assert "cannot be loaded" in said(tmp_path)
    shapes: tuple[list[int | str], ...] = (
        [1, 3, 224, 224],
        [1, 128, 64],
        [1, 64, 96],
        ["b", 2, "n"],
    )
    for shape in shapes:
        tiny_onnx.sounds(tmp_path / "odd", shape)
        assert "neither samples at 16 kHz nor patches of 96 frames" in said(tmp_path / "odd")


def test_a_run_is_refused_before_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    _sounds.tagger.cache_clear()  # of a fetched model
    corpus.make(tmp_path / "in", 1)
    wish = corpus.wishes(tmp_path, filter={"filters": [{"use": "sounds"}]})
    with pytest.raises(ConfigError, match="not installed: run `uttermill models fetch sounds`"):
        checks.check_wishes(wish)


def test_the_recipe_is_the_model_wherever_it_lies(tmp_path: Path) -> None:
    def of(home: Path) -> str | None:
        return plugins.FILTERS.load("sounds").identity(sounds.Settings(model=str(home)))

    for home in (tmp_path / "a", tmp_path / "b"):
        tiny_onnx.sounds(home, ["n"])
    one = of(tmp_path / "a")
    assert of(tmp_path / "b") == one
    (tmp_path / "a/model.data").write_bytes(b"weights beside the graph")
    assert of(tmp_path / "a") != one
    tiny_onnx.sounds(tmp_path / "b", ["n"], logits=True)
    assert of(tmp_path / "b") != one
    assert of(tmp_path) is None


def test_a_version_has_shares_and_events(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 3)
    tiny_onnx.sounds(tmp_path / "model", [1, 1, 96, 64], logits=True)
    chosen = {"use": "sounds", "model": str(tmp_path / "model"), "licence": "Apache-2.0"}
    filters = corpus.filters(chosen)
    job = corpus.job(tmp_path, filter=filters, package={"publish": ["sounds"]})
    version, _ = corpus.run(job)
    rows = corpus.utterances(version.path)
    assert len(rows) == 3
    for row in rows:
        assert 0 <= row["sounds_music_mean"] <= row["sounds_music_score"] <= 1
        lengths = dict.fromkeys(sounds.LABELS, 0.0)
        for event in row["sounds"]:
            lengths[event["label"]] += event["end"] - event["start"]
        for label, length in lengths.items():
            assert row[f"sounds_{label}"] == pytest.approx(length / (row["end"] - row["start"]))
    assert any(row["sounds"] for row in rows)
    assert "Model model: Apache-2.0" in (version.path / "README.md").read_text()
    _, counts = corpus.run(job)
    assert counts["filter"][0] == 0
