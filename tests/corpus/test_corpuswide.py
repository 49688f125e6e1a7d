"""Verdicts over the whole corpus: copies across sources and runs, in the ledger by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile as sf
import soxr
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import corpus, fuzz
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.storage import queries

COPIES = {"use": "duplicate"}
RATE = 16000


def voice(seed: int, seconds: float = 3.0) -> Any:
    """Something with the rhythm and the bands of speech, another for each seed; float32 [n]."""
    chance = np.random.default_rng(seed)
    at = np.arange(round(seconds * RATE)) / RATE
    found = np.zeros(len(at))
    begin = 0.1
    while begin < seconds - 0.4:
        length = chance.uniform(0.12, 0.3)
        pitch, glide = chance.uniform(90, 220), chance.uniform(-60, 60)
        here = (at >= begin) & (at < begin + length)
        t = at[here] - begin
        shape = np.hanning(here.sum())
        for formant in chance.uniform([300, 900, 2000], [800, 1800, 3000]):
            for harmonic in range(1, 30):
                gain = np.exp(-(((harmonic * pitch - formant) / 200) ** 2))
                phase = 2 * np.pi * harmonic * (pitch * t + glide * t**2)
                found[here] += gain * shape * np.sin(phase)
        begin += length + chance.uniform(0.02, 0.12)
    noise = 1e-4 * chance.standard_normal(len(at))
    return (0.3 * found / np.abs(found).max() + noise).astype(np.float32)


def job(tmp: Path, *names: str, **changes: Any) -> Any:
    sources = [{"kind": "folder", "path": str(tmp / name), "name": name} for name in names]
    return corpus.job(tmp, sources=sources, **{"filter": corpus.filters(COPIES), **changes})


def copies(version: Path) -> dict[str, str]:
    """What the ledger says of each recording that is a copy."""
    rows = corpus.ledger(version)
    return {r["recording"]: r["detail"] for r in rows if r["reason"] == "duplicate"}


@pytest.fixture
def voices(tmp_path: Path) -> Path:
    """`a`: four recordings; `b`: two of them in other encodings and a new one."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    for seed in range(4):
        sf.write(tmp_path / "a" / f"v{seed}.wav", voice(seed), RATE, "PCM_16")
    sf.write(tmp_path / "b" / "quiet.flac", voice(0) * 0.2, RATE, "PCM_24")
    sf.write(tmp_path / "b" / "phone.wav", soxr.resample(voice(1), RATE, 8000), 8000, "PCM_16")
    sf.write(tmp_path / "b" / "new.wav", voice(9), RATE, "PCM_16")
    return tmp_path


@pytest.mark.nightly
def test_copies_across_sources_the_best_stays(voices: Path) -> None:
    published, _ = corpus.run(job(voices, "a", "b"))
    found = copies(published.path)
    assert set(found) == {"a/v0.wav", "b/phone.wav"}, "24 bits over 16, 16 kHz over 8 kHz"
    assert found["a/v0.wav"].startswith("a copy of b-quiet")
    assert found["b/phone.wav"].startswith("a copy of a-v1")
    assert published.summary["reasons"]["package.duplicate"]["items"] == 2
    assert published.summary["utterances"]["packaged"] == 5
    assert verify(published.path) == []
    again, counts = corpus.run(job(voices, "a", "b"))
    assert not again.new
    assert {computed for computed, _ in counts.values()} == {0}


@pytest.mark.full
def test_what_is_published_wins_over_a_better_newcomer(voices: Path) -> None:
    corpus.run(job(voices, "a"))
    second, _ = corpus.run(job(voices, "a", "b"))
    assert set(copies(second.path)) == {"b/quiet.flac", "b/phone.wav"}
    # When the published one goes, its copy takes its place.
    (voices / "a" / "v0.wav").unlink()
    loose = {"max_removed_fraction": 1.0}
    third, counts = corpus.run(job(voices, "a", "b", package=loose))
    assert set(copies(third.path)) == {"b/phone.wav"}
    assert counts["transcribe"][0] == 0, "it was heard before"


@pytest.mark.nightly
def test_a_chain_of_copies_is_told_alike_by_the_next_run(tmp_path: Path) -> None:
    """x and y are not copies of each other, and b is one of both: b's original does not change when
    y is published."""
    (tmp_path / "a").mkdir()
    rate = {"x": 16000, "b": 16000, "y": 48000}
    for name, padding in (("x", 0.0), ("b", 0.3), ("y", 0.6)):
        samples = np.r_[voice(5, 4.0), 1e-4 * np.ones(round(padding * RATE), np.float32)]
        samples = soxr.resample(samples, RATE, rate[name])
        if name == "x":
            sf.write(tmp_path / "a" / "x.wav", samples, rate[name], "PCM_16")
            corpus.run(job(tmp_path, "a"))
        else:
            sf.write(tmp_path / "a" / f"{name}.wav", samples, rate[name], "PCM_16")
    second, _ = corpus.run(job(tmp_path, "a"))
    assert set(copies(second.path)) == {"a/b.wav"}
    again, _ = corpus.run(job(tmp_path, "a"))
    assert not again.new


def test_exact_copies(voices: Path) -> None:
    samples, _ = sf.read(voices / "a" / "v2.wav", dtype="int16")
    sf.write(voices / "b" / "same.flac", samples, RATE, "PCM_16")
    published, _ = corpus.run(job(voices, "a", "b"))
    assert copies(published.path)["b/same.flac"].startswith("the samples of a-v2")


@pytest.mark.nightly
def test_a_copy_that_fell_to_another_verdict_is_no_original(voices: Path) -> None:
    """Only what would be packaged can be the reason that something else is not."""
    sf.write(voices / "b" / "quiet.flac", np.tile(voice(0) * 0.2, 1), RATE, "PCM_24")
    filters = corpus.filters(COPIES, {"use": "rms", "min": -40.0})
    published, _ = corpus.run(job(voices, "a", "b", filter=filters))
    rows = corpus.ledger(published.path)
    quiet = [r for r in rows if r["recording"] == "b/quiet.flac"]
    if quiet[0]["reason"] != "duplicate" and quiet[0]["outcome"] == "dropped":
        assert "a/v0.wav" not in copies(published.path)
    else:
        pytest.fail("the quiet copy was meant to be dropped for its level")


@fuzz.cases(50)
@given(st.lists(st.lists(st.text("ab/é\U0001f600", max_size=20), max_size=8), max_size=6))
def test_texts_in_files_are_ordered_as_their_bytes(parts: list[list[str]]) -> None:
    found = queries.order(pa.array(part, pa.string()) for part in parts).tolist()
    whole = [text for part in parts for text in part]
    assert found == sorted(range(len(whole)), key=lambda n: whole[n].encode())
