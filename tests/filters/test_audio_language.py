"""The filter `audio_language`: what is spoken, by the sound alone."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.asr.test_language_vote import segmented
from tests.helpers import corpus, tiny_onnx
from tests.helpers.fetched import CORPUS
from uttermill.flows import checks
from uttermill.tasks import plugins
from uttermill.tasks.audio import Clip
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.filters import audio_language, distillmos
from uttermill.tasks.filters.audio_language import Settings
from uttermill.tasks.filters.distillmos import WINDOW, windows
from uttermill.tasks.models import model_files
from uttermill.tasks.plugins.rules import judge
from uttermill.tasks.shard_store import annotated

RATE = 16_000


def model(
    home: Path,
    lines: str = "en: English\nde\ncy\n",
    shape: tuple[Any, ...] = (1, "n"),
    german: float = 3.0,
) -> str:
    """A folder whose model hears English in loud clips and German in soft ones; `german`: the
    score of German."""
    folder = home / "model"
    graph = f"""
    spoken ({tiny_onnx.of_shape(shape)} samples) => (float[1,3] scores) {{
        size = Abs(samples)
        level = ReduceMean <keepdims=0> (size)
        row = Reshape(level, one)
        rising = MatMul(row, slopes)
        scores = Add(rising, offsets)
    }}"""
    slopes = np.array([[100.0, 0.0, 0.0]], np.float32)
    offsets = np.array([[0.0, german, -9.0]], np.float32)
    tiny_onnx.save(folder / "lid.onnx", graph, one=[1, 1], slopes=slopes, offsets=offsets)
    (folder / "labels.txt").write_text(lines)
    return str(folder)


def heard(samples: Any, folder: str) -> tuple[Any, Any]:
    values = audio_language.measure(Clip.from_samples(samples, RATE), Settings(model=folder))
    return values["audio_language"], values["audio_language_probability"]


@pytest.mark.parametrize("shape", [(1, "n"), ("n",)])
def test_the_likeliest_language_and_its_probability(tmp_path: Path, shape: Any) -> None:
    folder = model(tmp_path, shape=shape)
    scores = np.exp([10.0, 3.0, -9.0])
    expected = ("en", pytest.approx(scores[0] / scores.sum(), abs=1e-5))
    assert heard(np.full(RATE, 0.1), folder) == expected
    assert heard(np.full(RATE, 0.001), folder)[0] == "de"
    assert heard(np.full(RATE // 4, 0.1), folder) == (None, None)
    assert heard(np.full(RATE, np.nan), folder) == (None, None)
    first = np.r_[np.full(30 * RATE, 0.001), np.full(60 * RATE, 0.9)]
    assert heard(first, folder)[0] == "de"  # the first 30 s count


def test_lists_of_languages(tmp_path: Path) -> None:
    folder = Path(model(tmp_path))
    (folder / "labels.txt").unlink()
    encoder = "'de: German' => 1\n'iw: Hebrew' => 2\n'en: English' => 0\n"
    encoder += "================\n'starting_index' => 0\n"  # as its `CategoricalEncoder` writes
    (folder / "label_encoder.txt").write_text(encoder)
    assert audio_language._languages(folder / "label_encoder.txt") == ["en", "de", "he"]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("en\nde\n", "gives .*, not 2 finite scores"),
        ("en => 0\nde => 0\ncy => 1\n", "number its languages from 0, each once"),
        ("English words\nde\ncy\n", "must have a language a line, not 'English words'"),
        ("", "must have a language a line"),
    ],
)
def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path, lines: str, words: str) -> None:
    folder = model(tmp_path, lines)
    with pytest.raises(ConfigError, match=words):
        audio_language.check_weights(Settings(model=folder))


def test_what_a_model_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="never downloaded: give it `model`"):
        audio_language.check_weights(Settings())
    with pytest.raises(ConfigError, match="has 0 graphs and no list"):
        audio_language.check_weights(Settings(model=str(tmp_path)))
    patches = tmp_path / "patches"
    with pytest.raises(ConfigError, match="not samples at 16 kHz"):
        audio_language.check_weights(Settings(model=model(patches, shape=(1, 80, "n"))))
    folder = model(tmp_path)
    with pytest.raises(ConfigError, match="knows no 'fr'; it knows cy, de, en"):
        audio_language.check_weights(Settings(model=folder, allowed=("fr",)))
    (Path(folder) / "lid.onnx").write_bytes(b"no graph")
    audio_language._loaded.cache_clear()
    with pytest.raises(ConfigError, match="does not run"):
        audio_language.check_weights(Settings(model=folder))
    job = corpus.job(tmp_path, transcribe={"language_by": "sound"})
    with pytest.raises(ConfigError, match="needs the filter audio_language"):
        annotated.check(job)


def test_other_languages_are_dropped(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 3)
    listening = {"use": "audio_language", "model": model(tmp_path)}
    job = corpus.job(tmp_path, filter=corpus.filters(listening))
    published, _ = corpus.run(job)
    rows = corpus.utterances(published.path)
    assert [row["audio_language"] for row in rows if row["num_samples"] > 8000] == ["en", "en"]
    german = corpus.job(tmp_path, filter=corpus.filters({**listening, "allowed": ["de"]}))
    published, counts = corpus.run(german)
    assert counts["filter"][0] == 0
    ledger = corpus.ledger(published.path)
    assert [row["reason"] for row in ledger].count("wrong_audio_language") == 2
    described = json.loads((published.path / "dataset.json").read_text())
    assert [model["name"] for model in described["models"]] == ["model"]


def test_clips_vote_by_their_sound(tmp_path: Path) -> None:
    """The recogniser takes short clips for Welsh and long ones for English; the sound is German."""
    listening = {"use": "audio_language", "model": model(tmp_path, german=90.0)}
    job = segmented(tmp_path, language_by="sound", verdicts=[{"use": "empty_text"}])
    chosen = job.filter.model_copy(
        update={"filters": corpus.job(tmp_path, filter=corpus.filters(listening)).filter.filters}
    )
    published, _ = corpus.run(replace(job, filter=chosen))
    rows = corpus.utterances(published.path)
    assert {row["language"] for row in rows} == {row["audio_language"] for row in rows} == {"de"}
    assert {row["detected_language"] for row in rows} == {"en", "cy"}


# DistillMOS: windows, scores beside the package's, limits, and weights that are missing.


#: What the package distillmos 0.9.1 says of recordings at 16 and 8 kHz (PyTorch 2.2.2).
PACKAGE = {
    "en/librispeech/1688-142285-0000.flac": 3.9594,
    "es/asterisk/vm-torerecord.wav": 3.5849,
    "zh/aishell/BAC009S0150W0229.wav": 3.7588,
    "de/kerstin/de_rhasspy-0220.flac": 3.9847,
}


def score(samples: Any, rate: int = RATE, **chosen: Any) -> float | None:
    clip = Clip.from_samples(samples, rate)
    return distillmos.measure(clip, distillmos.Settings(**chosen))["distillmos"]


def signal(count: int) -> Any:
    return np.arange(1, count + 1, dtype=np.float32)


def starts(count: int, hop: float, block: int = 5000) -> list[int]:
    samples = signal(count)
    blocks = [samples[first : first + block] for first in range(0, count, block)]
    chosen = [*windows(blocks, count / RATE, hop)]
    for window in chosen:
        assert np.array_equal(window, window[0] + np.arange(WINDOW))
    return [int(window[0]) - 1 for window in chosen]


@pytest.mark.parametrize("block", [WINDOW // 7, WINDOW, 10 * WINDOW])
def test_windows_are_spread_from_start_to_end(block: int) -> None:
    assert starts(WINDOW, 4.0, block) == [0]
    assert starts(WINDOW + 1, 4.0, block) == [0, 1]
    assert starts(WINDOW + 64_000, 4.0, block) == [0, 64_000]
    assert starts(WINDOW + 64_001, 4.0, block) == [0, 32_000, 64_001]
    assert starts(WINDOW + 40_000, 1.0, block) == [0, 13_333, 26_666, 40_000]
    assert len(starts(40 * RATE, 7.68, block)) == 6


def test_a_short_clip_is_repeated_or_filled_up() -> None:
    short = signal(50_000)
    [repeated] = windows([short[:9], short[9:]], 3.125, 4.0)
    assert np.array_equal(repeated, np.r_[short, short, short[: WINDOW - 100_000]])
    [filled] = windows([short], 3.125, 1.0, repeated=False)
    assert np.array_equal(filled[:50_000], short)
    assert not filled[50_000:].any()
    assert [*windows([], 0.0, 4.0)] == []
    assert [*windows([short[:0]], 0.0, 4.0)] == []


def test_samples_that_resampling_did_not_give_lose_no_window() -> None:
    samples = signal(WINDOW + 64_000 - 3)
    first, last = windows([samples], (WINDOW + 64_000) / RATE, 4.0)
    assert first[0] == 1
    assert np.array_equal(last[: WINDOW - 3], samples[64_000:])


def test_a_window_and_a_quieter_one_look_alike() -> None:
    samples = corpus.speech(0, 7.68, RATE)[:, 0].astype(np.float32)
    loud, soft = distillmos.spectrum(samples), distillmos.spectrum(samples / np.float32(64))
    assert loud.shape == (2, 161, 768)
    assert np.allclose(loud, soft, atol=1e-5)
    assert np.isfinite(distillmos.spectrum(np.zeros(WINDOW, np.float32))).all()


@pytest.mark.needs("corpus", "distillmos")
@pytest.mark.parametrize("name", PACKAGE)
@pytest.mark.nightly
def test_scores_are_the_packages(name: str) -> None:
    from tests.helpers.corpus_speech import read

    samples = read(CORPUS / name)
    assert score(samples, compat="package") == pytest.approx(PACKAGE[name], abs=2e-3)
    assert score(samples) == pytest.approx(PACKAGE[name], abs=0.6), "as it is, only near"
    noisy = samples + np.random.default_rng(0).normal(0, 0.05, len(samples)).astype(np.float32)
    low = score(noisy)
    assert low is not None
    assert low < PACKAGE[name] - 1
    strict = plugins.FILTERS.load("distillmos").verdict(distillmos.Settings(min=3.0))
    rejection = judge({"distillmos": low}, strict)
    assert rejection is not None
    assert rejection.reason == "low_distillmos"


@pytest.mark.needs("distillmos")
def test_what_has_no_score() -> None:
    assert score(np.zeros(0, np.float32)) is None
    spoilt = corpus.speech(0, 9.0, RATE)[:, 0].astype(np.float32)
    spoilt[140_000] = np.nan
    assert score(spoilt) is None
    assert score(np.zeros(RATE, np.float32)) is not None


@pytest.mark.parametrize(
    ("use", "remedy"),
    [("distillmos", "run `uttermill models fetch distillmos"),
     ("pitch", r"run `pip install 'uttermill\[pitch\]'")],
)  # fmt: skip
def test_missing_weights_are_refused_before_any_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str, remedy: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(model_files, "package_folder", lambda name: None)
    corpus.make(tmp_path / "in", 1)
    with pytest.raises(ConfigError, match=remedy):
        checks.check(corpus.wishes(tmp_path, filter={"filters": [{"use": use}]}))
