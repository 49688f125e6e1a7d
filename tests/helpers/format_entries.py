"""What the train split of a format says of each clip."""

import csv
import gzip
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.helpers import random_access


def entries(version: Path, use: str) -> dict[str, dict[str, Any]]:
    """By id, under the format's own names."""
    home = version / use / "train"
    if use == "emilia":
        found = [entry for path in home.glob("*/*.json") for entry in json.loads(path.read_bytes())]
    elif use == "speechbrain":
        loaded = json.loads((version / "speechbrain/train.json").read_bytes())
        found = [{**_formatted(entry), "id": key} for key, entry in loaded.items()]
    elif use == "wenet_raw":
        found = [{**line, "id": line["key"]} for line in _lines(home / "data.list")]
    elif use == "metadata_csv":
        with (home / "metadata.csv").open(newline="", encoding="utf-8") as list_:
            found = [{**row, "id": Path(row["file_name"]).stem} for row in csv.DictReader(list_)]
    elif use in ("wenet", "webdataset", "features"):
        found = [*_members(home)]
    elif use == "lhotse_shar":
        found = [*_cuts(home)]
    elif use == "nemo":
        found = [*_lines(home / "tarred_audio_manifest.json")]
    elif use == "hf_parquet":
        found = [row for path in home.glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    else:
        found = [*random_access.READERS[use](home)]
    return {entry["id"]: entry for entry in found}


def _formatted(value: Any) -> Any:
    """As SpeechBrain reads a manifest: every text in it is formatted."""
    if isinstance(value, str):
        return value.format(data_root="root")
    if isinstance(value, dict):
        return {name: _formatted(item) for name, item in value.items()}
    return [*map(_formatted, value)] if isinstance(value, list) else value


def _lines(path: Path) -> Iterator[Any]:
    data = path.read_bytes()
    yield from map(
        json.loads, (gzip.decompress(data) if path.suffix == ".gz" else data).split(b"\n")[:-1]
    )


def _members(home: Path) -> Iterator[dict[str, Any]]:
    for path in home.glob("*.tar"):
        with tarfile.open(path) as tar:
            for member in tar:
                if member.name.endswith(".json") and (file := tar.extractfile(member)):
                    name = member.name.removesuffix(".json")
                    entry = {"id": name, **json.load(file)}
                    assert entry["id"] == name
                    yield entry


def _cuts(home: Path) -> Iterator[dict[str, Any]]:
    for path in home.glob("cuts.*.jsonl*"):
        for cut in () if path.suffix == ".idx" else _lines(path):
            yield {**cut["custom"], **cut["supervisions"][0]}
