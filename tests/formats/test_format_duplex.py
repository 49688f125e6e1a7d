"""Conversations on two tracks, as moshi-finetune reads them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf

from tests.helpers import corpus
from tests.plugins import oracle_asr
from tests.speech import test_own_channels as calls
from tests.speech.test_own_channels import RATE, TALK
from uttermill.flows import checks
from uttermill.flows.settings import PrepareSettings
from uttermill.tasks.base.errors import ConfigError, NothingLeft
from uttermill.tasks.insight.estimating import planning
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings.job import Job

MAIN, OTHER = "SPEAKER_MAIN", "SPEAKER_OTHER"


@pytest.fixture(name="home")
def _home(tmp_path: Path) -> Path:
    calls.call(tmp_path)
    oracle_asr.HEARD.clear()
    return tmp_path


def job(home: Path, *formats: dict[str, Any], tells_channels: bool = True) -> Job:
    chosen = calls.job(home, tells_channels)
    own = any(one.get("tracks", "own") == "own" for one in formats)
    filters = [{"use": "dialogue"}, *([{"use": "tracks"}] if own else [])]
    return corpus.job(
        home,
        speakers=chosen.speakers,
        filter={"segmenter": {"use": "dialogue"}, "filters": filters},
        transcribe=chosen.transcribe.model_dump(),
        package={"formats": [*formats] or ["webdataset"]},
    )


def conversations(version: Path) -> Iterator[tuple[np.ndarray, list[Any], dict[str, Any]]]:
    """As the trainer: samples [n, 2], words in order of starts, and the whole file beside."""
    for lines in sorted(version.rglob("*.jsonl")):
        for line in lines.read_text().splitlines():
            entry = json.loads(line)
            path = lines.parent / entry["path"]
            samples, rate = sf.read(path, dtype="int16", always_2d=True)
            assert len(samples) / rate == entry["duration"]
            beside = json.loads(path.with_suffix(".json").read_text())
            yield samples, beside["alignments"], beside


def said(words: list[Any], side: str) -> list[str]:
    return [word for word, _, who in words if who == side]


def text_of(channel: int) -> list[str]:
    return [word for *_, side, text in TALK if side == channel for word in text.split()]


def test_each_speaker_has_the_channel_of_the_call(home: Path) -> None:
    """Adding the format converts both channels, and recognises nothing."""
    before = job(home)
    corpus.run(before)
    chosen = job(home, {"use": "duplex"})
    planned = planning.plan(chosen, before)
    published, counts = corpus.run(chosen)
    assert planned.stages["resample"].compute == counts["resample"][0] == 2
    assert planned.stages["transcribe"].compute == counts["transcribe"][0] == 0
    [(samples, words, beside)] = conversations(published.path)
    [row] = corpus.utterances(published.path)
    call, _ = sf.read(home / "in" / "call.wav", dtype="int16")
    start = round(row["start"] * RATE)
    assert np.abs(samples.astype(int) - call[start : start + len(samples)]).max() <= 1
    assert said(words, MAIN) == text_of(0)
    assert said(words, OTHER) == text_of(1)
    assert [times for _, times, _ in words] == sorted(times for _, times, _ in words)
    assert [turn["side"] for turn in beside["turns"]] == [MAIN, OTHER, OTHER, MAIN]
    assert [len(names) for names in beside["speakers"].values()] == [1, 1]
    assert verify(published.path) == []
    ledger = corpus.ledger(published.path)
    assert sum(line["samples"] for line in ledger) == len(call)
    again, counts = corpus.run(chosen)
    assert not again.new
    assert all(computed == 0 for computed, _ in counts.values())
    for name in (".wav", ".json"):
        [path] = (published.path / "duplex").rglob(f"*{name}")
        sound = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(sound[:-9] + b"x" + sound[-8:])
        assert any(path.name in fault for fault in verify(published.path))
        path.write_bytes(sound)


def test_left_and_right_change_places(home: Path) -> None:
    published, _ = corpus.run(job(home, {"use": "duplex", "swap": True}))
    [(samples, words, _)] = conversations(published.path)
    assert said(words, MAIN) == text_of(1)
    silent = slice(round(16.5 * RATE), round(25 * RATE))  # of the first speaker
    assert samples[silent, 0].any()
    assert not samples[silent, 1].any()
    assert verify(published.path) == []


def test_a_mix_is_two_tracks_only_if_asked(home: Path) -> None:
    """Without channels of their own, the clip is dropped; by turns, each side is silent where
    nobody on it speaks."""
    with pytest.raises(NothingLeft) as refused:
        corpus.run(job(home, {"use": "duplex"}, tells_channels=False))
    assert "filter.no_own_channels" in refused.value.reasons
    by_turns = job(home, {"use": "duplex", "tracks": "by_turns"}, tells_channels=False)
    published, _ = corpus.run(by_turns)
    [(samples, _, beside)] = conversations(published.path)
    rate = RATE
    for side, name in enumerate((MAIN, OTHER)):
        spoken = np.zeros(len(samples), bool)
        for turn in beside["turns"]:
            if turn["side"] == name:
                spoken[round(turn["start"] * rate) : round(turn["end"] * rate)] = True
        assert samples[spoken, side].any()
        assert not samples[~spoken, side].any()
    assert verify(published.path) == []


def test_settings_that_give_no_channels_are_refused(tmp_path: Path) -> None:
    corpus.add(tmp_path / "in", 1)
    asked: dict[str, Any] = {
        "sources": [{"path": str(tmp_path / "in"), "name": "c"}],
        "out": str(tmp_path / "out"),
        "transcribe": {"backend": {"use": "fake"}},
        "package": {"formats": ["duplex"]},
    }
    with pytest.raises(ConfigError, match="turns"):
        checks.check_wishes(PrepareSettings(**asked))
    settings = PrepareSettings(**asked).job()
    assert [plugin.use for plugin in settings.filter.filters][-1] == "tracks"
    by_turns = {"formats": [{"use": "duplex", "tracks": "by_turns"}]}
    settings = PrepareSettings(**{**asked, "package": by_turns}).job()
    assert "tracks" not in [plugin.use for plugin in settings.filter.filters]
