"""Turns and voices of a diarizer, published with each clip."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile as sf

from tests.helpers import corpus, tiers
from tests.plugins import voiced
from tests.speech.test_identities import job, recording
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings import Plugin

PUBLISH = {"publish": ["turns", "speaker_embedding"], "formats": ["webdataset"]}


@pytest.mark.full
@pytest.mark.parametrize("across", [tiers.nightly(False), True])
def test_a_clip_has_its_turns_and_its_voice(tmp_path: Path, across: bool) -> None:
    people = {0: (1, 2), 1: (3, 3)}
    for number, pair in people.items():
        recording(tmp_path / "in", number, pair)
    speakers = {"across_recordings": across}
    plain, _ = corpus.run(job(tmp_path, speakers=speakers, package={"formats": ["webdataset"]}))
    asked = job(tmp_path, speakers=speakers, package=PUBLISH)
    one, counts = corpus.run(asked)
    assert counts["filter"][0] == counts["transcribe"][0] == 0
    rows = corpus.utterances(one.path)
    assert len(rows) == 3
    for row in rows:
        [turn] = row["turns"]
        assert turn["start"] == 0.0
        assert turn["end"] == pytest.approx(row["end"] - row["start"], abs=0.01)
        number = int(Path(row["recording"]).stem[1:])
        second = row["start"] > 0
        assert turn["label"] == f"r{number:02d}.wav#{1 + second}"
        length = round(8000 * (1 + number / 10))
        stored = np.frombuffer(voiced.voice(people[number][second], length), "<f2")
        assert np.allclose(row["speaker_embedding"], stored, atol=2e-3)
    assert verify(one.path) == []
    assert "turns" not in pq.read_schema(plain.path / "utterances.parquet").names


def test_a_recording_without_turns_in_a_clip_has_none(tmp_path: Path) -> None:
    """Of segments that the source gives, between turns."""
    recording(tmp_path / "in", 0, (1, 1))
    how = {"segmenter": {"use": "whole"}, "filters": corpus.FILTERS}
    speakers = Plugin(use="tests.plugins.halves")
    asked = corpus.job(tmp_path, filter=how, package=PUBLISH, speakers=speakers)
    one, _ = corpus.run(asked)
    [row] = corpus.utterances(one.path)
    assert [turn["label"] for turn in row["turns"]] == ["r00.wav#1", "r00.wav#2"]
    assert row["speaker_embedding"] is None


@pytest.mark.full
def test_turns_of_a_dialogue_are_published_to_further_formats(tmp_path: Path) -> None:
    """Its column is there unasked, and is the one that formats get."""
    (tmp_path / "in").mkdir()
    sf.write(tmp_path / "in" / "r00.wav", corpus.speech(1, 40.0, 8000), 8000, "PCM_16")
    filters = [{"use": "duration", "max": 130}]
    how = {"segmenter": {"use": "dialogue"}, "filters": filters}
    package = {**PUBLISH, "formats": ["webdataset", "hf_parquet"]}
    speakers = Plugin(use="tests.plugins.halves")
    one, _ = corpus.run(corpus.job(tmp_path, filter=how, package=package, speakers=speakers))
    rows = corpus.utterances(one.path)
    [path] = (one.path / "hf_parquet").rglob("*.parquet")
    told = {row["id"]: row["turns"] for row in pq.read_table(path).to_pylist()}
    assert {row["id"]: row["turns"] for row in rows} == told
    assert any(told.values())
    assert verify(one.path) == []
