"""`labels` of a source: keys and columns whose values are kept, and told where there are none."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from uttermill.tasks import plugins
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.recording import Recording
from uttermill.tasks.settings import Source

LONG = "x" * 201
#: By file: what a list says of it, and the labels that are kept.
SAID: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "r00.wav": ({"emotion": "happy", "age": 41}, {"emotion": "happy", "age": "41"}),
    "r01.wav": ({"emotion": " sad ", "age": None}, {"emotion": "sad"}),
    "r02.wav": ({"emotion": "-", "age": None}, {}),
    "r03.wav": ({"emotion": LONG, "age": 7}, {"age": "7"}),
}


def jsonl(home: Path) -> dict[str, Any]:
    lines = [{"wav": name, "txt": "so", **said} for name, (said, _) in SAID.items()]
    lines += [{"wav": "r04.wav", "emotion": ["a"], "age": float("nan")}]
    (home / "list.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {"kind": "jsonl", "path": str(home / "list.jsonl")}


def nemo(home: Path) -> dict[str, Any]:
    lines = [{"audio_filepath": n, "text": "so", **said} for n, (said, _) in SAID.items()]
    (home / "list.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {"kind": "jsonl", "path": str(home / "list.jsonl")}


def table(home: Path) -> dict[str, Any]:
    with (home / "list.csv").open("w", newline="") as file:
        rows = csv.DictWriter(file, ["file", "emotion", "age", "text"])
        rows.writeheader()
        rows.writerows({"file": n, "text": "so", **said} for n, (said, _) in SAID.items())
    return {"kind": "table", "path": str(home / "list.csv")}


def hf_parquet(home: Path) -> dict[str, Any]:
    rows = [{"text": "so", **said} for said, _ in SAID.values()]
    pq.write_table(with_audio(SAID, rows), home / "list.parquet")
    return {"kind": "hf_parquet", "path": str(home / "list.parquet")}


def with_audio(names: Iterable[str], rows: list[dict[str, Any]]) -> pa.Table:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    cells = pa.array([{"bytes": None, "path": name} for name in names], kind)
    return pa.Table.from_pylist(rows).append_column("audio", cells)


def emilia(home: Path) -> dict[str, Any]:
    lines = [
        {"id": name, "wav": name, "text": "so", "speaker": "a", "dnsmos": 3.1, **said}
        for name, (said, _) in SAID.items()
    ]
    (home / "list.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {"kind": "table", "path": str(home), "layout": "emilia"}


@pytest.mark.parametrize("made", [jsonl, nemo, table, hf_parquet, emilia])
def test_each_kind_keeps_the_same_labels(tmp_path: Path, made: Any) -> None:
    corpus.make(tmp_path, 5)
    source = {**made(tmp_path), "labels": ["emotion", "age", "accent"]}
    recordings, notes = listed(source)
    kept = {Path(recording.locator.path).name: dict(recording.labels) for recording in recordings}
    assert kept | {"r04.wav": {}} == {"r04.wav": {}} | {
        n: labels for n, (_, labels) in SAID.items()
    }
    assert all(recording.error is None for recording in recordings)
    [missing] = [note for note in notes if "'accent'" in note]
    assert "correct the name, or take it out" in missing
    assert [note for note in notes if "'emotion'" in note and "200 characters" in note]
    assert not listed({**source, "labels": None})[0][0].labels


def test_a_class_label_is_its_name(tmp_path: Path) -> None:
    corpus.make(tmp_path, 2)
    feature = {"names": ["neutral", "happy"], "_type": "ClassLabel"}
    about = json.dumps({"info": {"features": {"emotion": feature}}})
    written = with_audio(("r00.wav", "r01.wav"), [{"emotion": 0}, {"emotion": 1}])
    written = written.replace_schema_metadata({"huggingface": about})
    pq.write_table(written, tmp_path / "a.parquet")
    source = {"kind": "hf_parquet", "path": str(tmp_path / "a.parquet"), "labels": ["emotion"]}
    assert [dict(r.labels) for r in listed(source)[0]] == [
        {"emotion": "neutral"},
        {"emotion": "happy"},
    ]


def test_lhotse_has_labels_in_custom_and_of_each_segment(tmp_path: Path) -> None:
    corpus.add(tmp_path, 8)
    spans = [
        {"id": "a", "start": 0, "duration": 1, "custom": {"emotion": "happy"}, "gender": "f"},
        {"id": "b", "start": 1, "duration": 1, "custom": {"room": "hall"}},
    ]
    cut = {
        "id": "c", "start": 0, "duration": 2, "supervisions": spans, "custom": {"room": "studio"},
        "recording": {"sources": [{"type": "file", "source": "r08.wav", "channels": [0]}]},
    }  # fmt: skip
    (tmp_path / "cuts.jsonl").write_text(json.dumps(cut) + "\n")
    source = {"kind": "lhotse", "path": str(tmp_path / "cuts.jsonl")}
    [recording], notes = listed({**source, "labels": ["emotion", "gender", "room", "age"]})
    assert [dict(segment.labels) for segment in recording.segments or ()] == [
        {"emotion": "happy", "gender": "f", "room": "studio"},
        {"room": "hall"},
    ]
    [_, missing] = notes
    assert "'age'" in missing


def test_a_folder_has_labels_in_its_paths(tmp_path: Path) -> None:
    for name in ("happy/anna", "sad"):
        corpus.add(tmp_path / "in" / name, 1)
    source = {"kind": "folder", "path": str(tmp_path / "in"),
              "labels": {"pattern": "^(?P<emotion>[^/]+)/(?:(?P<who>[^/]+)/)?"}}  # fmt: skip
    assert [dict(r.labels) for r in listed(source)[0]] == [
        {"emotion": "happy", "who": "anna"},
        {"emotion": "sad"},
    ]
    with pytest.raises(ConfigError, match="it has no named group"):
        listed({**source, "labels": {"pattern": "^[^/]+"}})


def listed(source: dict[str, Any]) -> tuple[list[Recording], list[str]]:
    [dataset] = plugins.datasets([Source.model_validate(source)])
    entries = [*dataset.source.recordings(dataset.settings)]
    notes = [*dataset.source.notes(dataset.settings)]
    return [entry for entry in entries if isinstance(entry, Recording)], notes
