"""Runs from `--source`: their clips are as long as the usual reader of their format takes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import soundfile as sf

from tests.faults.command import Site
from tests.helpers import corpus
from uttermill.flows import settings
from uttermill.flows.cli import folder_run
from uttermill.tasks.diarizers import segments
from uttermill.tasks.segmenters import auto

FIT = {"target_seconds": 8, "max_seconds": 10.0, "whole_without_text_up_to": 10.0}


def segmenter(tmp: Path, *sets: str) -> dict[str, Any]:
    (tmp / "in").mkdir(exist_ok=True)
    chosen = settings.read(None, [str(tmp / "in")], str(tmp / "out"), sets)
    return folder_run.fitted(chosen).filter.segmenter.options


@pytest.mark.parametrize(
    ("sets", "options"),
    [
        ((), FIT),
        (("package.formats=[wenet_raw, nemo]",), FIT),
        (
            ("package.formats=[nemo]",),
            {"target_seconds": 10.0, "max_seconds": 16.5, "whole_without_text_up_to": 16.5},
        ),
        (("package.formats=[emilia]",), {}),
        (("package.formats=[kaldi]",), {}),
        (("filter.segmenter.max_seconds=20",), {"max_seconds": 20}),
        (("filter.segmenter.use=vad",), {}),
        (("filter.segmenter.use=whole",), {}),
    ],
    ids=str,
)
def test_lengths_follow_the_format(
    tmp_path: Path, sets: tuple[str, ...], options: dict[str, Any]
) -> None:
    assert segmenter(tmp_path, *sets) == options


def test_one_speaker_across_codecs(tmp_path: Path) -> None:
    def threshold(*sets: str) -> object:
        chosen = settings.read(None, [str(tmp_path / "in")], str(tmp_path / "out"), sets)
        return folder_run.fitted(chosen).speakers.options.get("threshold")

    (tmp_path / "in").mkdir()
    speakers = "speakers.use=segments"
    assert threshold() is None
    assert threshold(speakers) == folder_run.ACROSS_CODECS < segments.Settings().threshold
    assert threshold(speakers, "speakers.threshold=0.6") == 0.6


def talk(path: Path, seconds: float) -> None:
    """Speech without a pause, as far as a voice detector can tell from syllables of noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sf.write(path, corpus.speech(1, seconds, 16000), 16000)


@pytest.mark.full
def test_a_recording_without_a_text_is_cut_and_one_with_a_text_stays(tmp_path: Path) -> None:
    chosen = auto.Settings.model_validate(FIT)
    assert auto.without_text(chosen).whole_up_to == 10
    assert auto.without_text(auto.Settings()) == auto.Settings()
    talk(tmp_path / "in/told.wav", 20)
    (tmp_path / "in/told.txt").write_text("what was said")
    talk(tmp_path / "in/untold.wav", 20.5)
    site = Site(tmp_path, "", history="none")
    sets = [f"--set={name}" for name in ("transcribe.backend.use=fake", "shard.settle_seconds=0")]
    local = ["--set=cluster.workers=1", "--set=history=none", "--set=filter.filters=[]"]
    where = ["--source", str(tmp_path / "in"), "--out", str(tmp_path / "out")]
    done = site.command("run", *where, *sets, *local)
    assert done.code == 0, done.stderr
    ledger = pq.read_table(tmp_path / "out/datasets/v0001/ledger.parquet").to_pylist()
    spans = {(Path(r["source_path"]).name, r["end"] - r["start"]) for r in ledger if r["utterance"]}
    assert ("told.wav", 20.0) in spans
    assert all(seconds <= 10 for name, seconds in spans if name == "untold.wav")
    assert ("untold.wav", 20.5) not in spans
    noted = json.loads(next((tmp_path / "out/runs").glob("*/settings.json")).read_text())
    assert noted["filter"]["segmenter"] == {"use": "auto", **FIT}
    # Another format cuts nothing anew.
    assert segmenter(tmp_path, "package.formats=[kaldi]") == FIT
    # Without the folders of its runs, the version says how they were cut.
    shutil.rmtree(tmp_path / "out/runs")
    again = site.command("run", *where, *sets, *local)
    assert again.code == 0, again.stderr
    assert not (tmp_path / "out/datasets/v0002").exists()


@pytest.mark.full
def test_an_out_of_a_settings_file_is_cut_as_it_was(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 2)
    site = Site(tmp_path, "", history="none")
    filters = [{"use": "duration"}]
    site.done(site.settings("out", filter={"segmenter": {"use": "auto"}, "filters": filters}))
    assert segmenter(tmp_path) == {}


def test_lengths_are_those_of_the_segmenter() -> None:
    lengths = auto.Settings()
    assert (lengths.max_seconds, lengths.target_seconds) == (folder_run.LONGEST, folder_run.TARGET)
