"""The filter `audio_language`: what is spoken, by the sound alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from onnx import TensorProto as T
from onnx import helper

from tests.asr.test_language_vote import segmented
from tests.helpers import corpus, tiny_onnx
from uttermill.tasks.audio import Clip
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.filters import audio_language
from uttermill.tasks.filters.audio_language import Settings
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
    nodes = [
        helper.make_node("Abs", ["samples"], ["size"]),
        helper.make_node("ReduceMean", ["size"], ["level"], keepdims=0),
        helper.make_node("Reshape", ["level", "one"], ["row"]),
        helper.make_node("MatMul", ["row", "slopes"], ["rising"]),
        helper.make_node("Add", ["rising", "offsets"], ["scores"]),
    ]
    held = {
        "one": tiny_onnx.ints(1, 1),
        "slopes": np.array([[100.0, 0.0, 0.0]], np.float32),
        "offsets": np.array([[0.0, german, -9.0]], np.float32),
    }
    folder = home / "model"
    graph = {"samples": (T.FLOAT, shape)}, {"scores": (T.FLOAT, (1, 3))}
    tiny_onnx.save(folder / "lid.onnx", nodes, *graph, held)
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
    rows = pq.read_table(published.path / "utterances.parquet").to_pylist()
    assert [row["audio_language"] for row in rows if row["num_samples"] > 8000] == ["en", "en"]
    german = corpus.job(tmp_path, filter=corpus.filters({**listening, "allowed": ["de"]}))
    published, counts = corpus.run(german)
    assert counts["filter"][0] == 0
    ledger = pq.read_table(published.path / "ledger.parquet").to_pylist()
    assert [row["reason"] for row in ledger].count("wrong_audio_language") == 2
    assert [model["name"] for model in _described(published.path)["models"]] == ["model"]


def _described(version: Path) -> dict[str, Any]:
    described: dict[str, Any] = json.loads((version / "dataset.json").read_text())
    return described


def test_clips_vote_by_their_sound(tmp_path: Path) -> None:
    """The recogniser takes short clips for Welsh and long ones for English; the sound is German."""
    listening = {"use": "audio_language", "model": model(tmp_path, german=90.0)}
    job = segmented(tmp_path, language_by="sound", verdicts=[{"use": "empty_text"}])
    chosen = job.filter.model_copy(
        update={"filters": corpus.job(tmp_path, filter=corpus.filters(listening)).filter.filters}
    )
    published, _ = corpus.run(replace(job, filter=chosen))
    rows = pq.read_table(published.path / "utterances.parquet").to_pylist()
    assert {row["language"] for row in rows} == {row["audio_language"] for row in rows} == {"de"}
    assert {row["detected_language"] for row in rows} == {"en", "cy"}
