"""`auto` cuts recordings whose text would be lost later than those that have none."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import soundfile as sf

from tests.helpers import corpus
from uttermill.flows import settings
from uttermill.tasks.segmenters import auto
from uttermill.tasks.storage import versions


def test_a_recording_without_a_text_is_cut_and_one_with_a_text_stays(tmp_path: Path) -> None:
    shorter = {"target_seconds": 8, "max_seconds": 10, "whole_without_text_up_to": 10}
    assert auto.without_text(auto.Settings.model_validate(shorter)).whole_up_to == 10
    assert auto.without_text(auto.Settings()) == auto.Settings()
    (tmp_path / "in").mkdir()
    sf.write(tmp_path / "in/told.wav", corpus.speech(1, 20.0, 16000), 16000)
    (tmp_path / "in/told.txt").write_text("what was said")
    sf.write(tmp_path / "in/untold.wav", corpus.speech(1, 20.5, 16000), 16000)
    chosen = {"use": "auto", **shorter}
    job = corpus.job(
        tmp_path, filter={"segmenter": chosen, "filters": []},
        sources=[{"kind": "folder", "path": str(tmp_path / "in")}],
    )  # fmt: skip
    corpus.run(job)
    newest = versions.newest(tmp_path / "out")
    assert newest is not None
    ledger = pq.read_table(newest / "ledger.parquet").to_pylist()
    spans = {(Path(r["source_path"]).name, r["end"] - r["start"]) for r in ledger if r["utterance"]}
    assert ("told.wav", 20.0) in spans
    assert all(seconds <= 10 for name, seconds in spans if name == "untold.wav")


def test_a_folder_is_cut_as_by_a_settings_file(tmp_path: Path) -> None:
    """What `--source` reads has the defaults of a settings file."""
    (tmp_path / "in").mkdir()
    named = settings.read(None, [str(tmp_path / "in")], str(tmp_path / "out"), ())
    file = tmp_path / "settings.yaml"
    file.write_text(f"sources: [{{kind: folder, path: {tmp_path}/in}}]\nout: {tmp_path}/out\n")
    stated = settings.read(str(file), (), None, ())
    for part in ("filter", "speakers", "resample", "transcribe"):
        assert getattr(named, part) == getattr(stated, part)
