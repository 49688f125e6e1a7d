"""The filter `voice`, and `package.only.voice`: clips by the voice of an example."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile as sf

from tests.filters.test_measures_corpus import clip, librispeech
from tests.helpers import corpus
from uttermill.flows.settings import PrepareSettings
from uttermill.tasks.audio import Clip
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.corpus import held_out
from uttermill.tasks.filters import voice
from uttermill.tasks.insight.estimating import planning, what_if
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import clip_choice, whole_job
from uttermill.tasks.speech import embedding


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
    monkeypatch.setattr(embedding, "check", lambda *given: None)


def asked(home: Path, **package: Any) -> Job:
    settings = {
        "sources": [{"path": str(home / "in"), "name": "c"}],
        "out": str(home / "out"),
        "shard": {"settle_seconds": 0},
        "filter": {"segmenter": {"use": "whole"}, "filters": [{"use": "duration"}]},
        "transcribe": {"backend": {"use": "fake"}},
        "package": package,
    }
    return PrepareSettings.model_validate(settings).job()


@pytest.mark.usefixtures("by_pitch")
def test_only_clips_of_an_examples_voice_are_recognised(tmp_path: Path) -> None:
    for number in range(3):
        tone(tmp_path / "in" / f"low{number}.wav", 200 + number, seed=number)
        tone(tmp_path / "in" / f"high{number}.wav", 800 + number, seed=9 + number)
    example = tone(tmp_path / "example.wav", 201, 3.0, seed=5)
    narrow = asked(tmp_path, only={"voice": str(example)})
    published, counts = corpus.run(narrow)
    assert [counts[stage][0] for stage in corpus.STAGES] == [6, 6, 3, 3, 3]
    kept = pq.read_table(published.path / "utterances.parquet").to_pylist()
    assert {Path(row["source_path"]).name[:3] for row in kept} == {"low"}
    assert all(row["voice_like"] >= 0.5 and row["voice_unlike"] is None for row in kept)
    ledger = pq.read_table(published.path / "ledger.parquet").to_pylist()
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
    kept = pq.read_table(published.path / "utterances.parquet").to_pylist()
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
    kept = pq.read_table(version / "utterances.parquet").to_pylist()
    assert {Path(row["source_path"]).name[:3] for row in kept} == {"hig"}
    ledger = pq.read_table(version / "ledger.parquet").to_pylist()
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
