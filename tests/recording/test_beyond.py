"""Segments that end beyond the end of their recording: one rule, whatever the source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from uttermill.tasks.settings.job import Job

END = 2.2  # s, of r09.wav
#: Key, start, end, and how far the ledger says that it ends beyond the recording; None: it is kept.
SEGMENTS = [
    ("inside", 0.0, 0.5, None),
    ("rounded", 0.5, END + 0.1, None),
    ("cut_off", 1.0, END + 0.4, 0.4),
    ("far", 2.0, 60.0, 57.8),
    ("outside", 3.0, 4.0, None),
    ("tiny", 1.0, 1.000001, None),
]


def kaldi(home: Path, wav: Path) -> dict[str, Any]:
    lines = {
        "wav.scp": [f"r {wav}"],
        "segments": [f"{key} r {start} {end}" for key, start, end, _ in SEGMENTS],
        "text": [f"{key} words of {key}" for key, *_ in SEGMENTS],
    }
    for name, content in lines.items():
        (home / name).write_text("".join(f"{line}\n" for line in content))
    return {"kind": "kaldi", "path": str(home)}


def jsonl(home: Path, wav: Path, kind: str) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for key, start, end, _ in SEGMENTS:
        said = f"words of {key}"
        if kind == "wenet":
            rows.append({"wav": str(wav), "key": key, "txt": said, "start": start, "end": end})
        elif kind == "nemo":
            own = {"audio_filepath": str(wav), "text": said}
            rows.append({**own, "offset": start, "duration": end - start})
        else:
            supervision = {"id": key, "start": 0, "duration": end - start, "text": said}
            source = {"sources": [{"type": "file", "source": str(wav)}]}
            cut = {"type": "MonoCut", "start": start, "duration": end - start}
            rows.append({**cut, "recording": source, "supervisions": [supervision]})
    (home / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"kind": "lhotse" if kind == "lhotse" else "jsonl", "path": str(home / "list.jsonl")}


@pytest.mark.parametrize("kind", ["kaldi", "wenet", "nemo", "lhotse"])
def test_what_the_recording_does_not_hold_is_not_packaged(tmp_path: Path, kind: str) -> None:
    """Such a segment was packaged with all of its text, which says more than its audio."""
    home = tmp_path / "list"
    home.mkdir()
    wav = corpus.add(tmp_path / "in", 9)
    source = kaldi(home, wav) if kind == "kaldi" else jsonl(home, wav, kind)
    job: Job = corpus.job(
        tmp_path, sources=[{**source, "name": "c"}], filter={"segmenter": {"use": "auto"}}
    )
    published, _ = corpus.run(job)
    rows = pq.read_table(published.path / "ledger.parquet").to_pylist()
    told = {
        (r["outcome"], r["reason"], r["start"], r["end"], r["value"] and round(r["value"], 6),
         r["threshold"])
        for r in rows
    }  # fmt: skip
    assert told == {
        ("packaged", "packaged", 0.0, 0.5, None, None),
        ("packaged", "packaged", 0.5, END, None, None),
        ("failed", "segment_outside_audio", 1.0, END, 0.4, 0.15),
        ("failed", "segment_outside_audio", 2.0, END, 57.8, 0.15),
        ("failed", "segment_outside_audio", END, END, None, None),
        ("failed", "segment_outside_audio", 1.0, 1.0, None, None),
    }
    assert {r["start"]: r["detail"] for r in rows if r["start"] == r["end"]} == {
        END: "3 s to 4 s is beyond the recording's end, at 2.20 s",
        1.0: "1 s to 1.000001 s is shorter than a sample",
    }
    assert sum(r["samples"] for r in rows) == round(END * corpus.RATES[9 % 5])
    kept = pq.read_table(published.path / "utterances.parquet")
    assert sorted(kept["text"].to_pylist()) == ["words of inside", "words of rounded"]
