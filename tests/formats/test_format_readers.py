"""What is published comes back through the readers that trainers use: ids, texts, exact samples.

`webdataset` is the real library. WeNet and NeMo are not packages that a test could install (NeMo's
wants a GPU's CUDA stack): their readers are written here after the rules of their own, WeNet's
`datapipes.py` and NeMo's `nemo_adapters.py`, without a function of ours.
"""

import hashlib
import io
import json
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import soundfile as sf
import yaml

from tests.helpers import corpus
from uttermill.flows.cli import queries
from uttermill.tasks.plugins import resolve_source
from uttermill.tasks.publish.upkeep import verify
from uttermill.tasks.recording import Recording
from uttermill.tasks.settings import Source

TEXTS = {
    "r00": "plain words", "r01": "广州话 录音", "r02": "with \u2028 a separator and \"quotes\"",
    "r03": "{tab}\tand\nnew line", "r04": "1.5 . .. /slash\\", "r05": "élève e\u0301",
}  # fmt: skip


class Clip(NamedTuple):
    text: str
    rate: int
    num_samples: int
    sha256: str  # of the int16 PCM


def clip(text: str, data: bytes) -> Clip:
    samples, rate = sf.read(io.BytesIO(data), dtype="int16")
    assert samples.ndim == 1
    return Clip(text, rate, len(samples), hashlib.sha256(samples.tobytes()).hexdigest())


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three groups of clips, whose texts hold what a reader may stumble over."""
    tmp = tmp_path_factory.mktemp("readers")
    corpus.make(tmp / "in", 6)
    corpus.listed(tmp / "in", 6, tmp / "list.jsonl", **TEXTS)
    formats = (
        {"use": "webdataset", "energon": True}, "nemo", "wenet", "wenet_raw", "speechbrain"
    )  # fmt: skip
    job = corpus.job(
        tmp,
        sources=[{"kind": "jsonl", "path": str(tmp / "list.jsonl"), "name": "c"}],
        transcribe={"backend": {"use": "fake"}, "verdicts": ()},
        package={"tar_hours": 1.5 / 3600, "formats": formats},
    )
    path = corpus.run(job)[0].path
    assert {Path(n).suffix for n in corpus.content(path)} == {
        ".tar", ".json", ".list", ".wav", ".parquet", ".md", ".txt", ".idx", ".yaml"
    }  # fmt: skip
    return path


@pytest.fixture(scope="module")
def wanted(version: Path) -> dict[str, Clip]:
    """What the rows say, in their order."""
    rows = corpus.utterances(version)
    assert len(rows) == len(TEXTS)
    assert {TEXTS["r00"], TEXTS["r01"], TEXTS["r04"]} <= {row["text"] for row in rows}
    return {
        row["id"]: Clip(row["text"], row["sample_rate"], row["num_samples"], row["sha256"])
        for row in rows
    }


@pytest.mark.full
def test_webdataset(version: Path, wanted: dict[str, Clip]) -> None:
    import webdataset
    from webdataset import tariterators

    paths = queries.data_list(version, None)["paths"]
    paths = [path.replace("/wenet/", "/webdataset/").replace("shards_", "shard-") for path in paths]
    assert len(paths) > 1
    found = {}

    def opened() -> Iterator[dict[str, Any]]:  # `WebDataset(paths)` leaves its files open
        for path in paths:
            with open(path, "rb") as stream:
                yield {"url": path, "stream": stream}

    steps = (tariterators.tar_file_expander, tariterators.group_by_keys)
    for sample in webdataset.DataPipeline(opened, *steps):
        facts = json.loads(sample["json"])
        assert sample["__key__"] == facts["id"]
        assert facts["text"] == sample["txt"].decode()
        samples = wanted[facts["id"]].num_samples
        assert int(facts["seconds"] * facts["sample_rate"]) == samples == facts["num_samples"]
        found[facts["id"]] = clip(sample["txt"].decode(), sample["wav"])
    assert list(found.items()) == list(wanted.items())


def test_wenet_shards(version: Path, wanted: dict[str, Clip]) -> None:
    """A key is a member's name up to its last dot; neighbours with one key are a sample."""
    found: dict[str, Clip] = {}
    for path in queries.data_list(version, None)["paths"]:
        text: dict[str, str] = {}
        with tarfile.open(path, "r|") as tar:  # as a stream, which cannot go back
            for member in tar:
                file = tar.extractfile(member)
                assert file is not None
                key, _, suffix = member.name.rpartition(".")
                if suffix == "txt":
                    text = {key: file.read().decode("utf-8")}
                elif suffix == "wav":
                    found[key] = clip(text[key], file.read())
    assert list(found.items()) == list(wanted.items())


def test_wenet_raw(version: Path, wanted: dict[str, Clip]) -> None:
    found = {}
    with (version / "wenet_raw/train/data.list").open(encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            found[entry["key"]] = clip(entry["txt"], (version / entry["wav"]).read_bytes())
    assert list(found.items()) == list(wanted.items())


@pytest.mark.parametrize("use", ["wenet", "wenet_raw"])
def test_every_character_is_a_unit(version: Path, use: str, wanted: dict[str, Clip]) -> None:
    """As WeNet's `read_symbol_table` and its char tokenizer do it."""
    units = {}
    with (version / use / "units.txt").open(encoding="utf-8") as lines:
        for line in lines:
            unit, number = line.split()
            units[unit] = int(number)
    assert list(units)[:3] == ["<blank>", "<unk>", "<sos/eos>"]
    assert list(units.values()) == list(range(len(units)))
    asked = {"▁" if c == " " else c for each in wanted.values() for c in each.text.strip()}
    assert {c for c in asked if not c.isspace()} == {*units} - {"<blank>", "<unk>", "<sos/eos>"}


def test_speechbrain(version: Path, wanted: dict[str, Clip]) -> None:
    """Every text of an entry is formatted with `data_root`, whatever it holds."""
    entries = json.loads((version / "speechbrain/train.json").read_text("utf-8"))
    found = {}
    for key, entry in entries.items():
        told = {name: v.format(data_root=version) for name, v in entry.items() if type(v) is str}
        found[key] = clip(told["words"], Path(told["wav"]).read_bytes())
        assert int(entry["duration"] * 16000) == found[key].num_samples
        assert entry["length"] == entry["duration"]
        assert told["spk_id"] == "unknown"
    assert list(found.items()) == list(wanted.items())
    lines = queries.data_list(version, None, use="speechbrain")["paths"]
    listed = json.loads("\n".join(lines))
    assert [entry["wav"] for entry in listed.values()] == [
        entry["wav"].format(data_root=version) for entry in entries.values()
    ]


def test_energon(version: Path, wanted: dict[str, Clip]) -> None:
    """Its metadata names every tar and its samples, its indexes lead to each."""
    home = version / "webdataset"
    info = json.loads((home / ".nv-meta/.info.json").read_text())
    splits = yaml.safe_load((home / ".nv-meta/split.yaml").read_text())
    kind = yaml.safe_load((home / ".nv-meta/dataset.yaml").read_text())
    assert kind == {"__module__": "megatron.energon", "__class__": "CrudeWebdataset"}
    assert splits["split_parts"] == {"train": list(info["shard_counts"])}
    keys = []
    for name, count in info["shard_counts"].items():
        offsets = np.fromfile(home / f"{name}.idx", "<u8")
        assert len(offsets) == count + 1
        with tarfile.open(home / name) as tar:
            begins = {member.offset: member.name for member in tar}
            assert tar.offset == offsets[-1]
        keys += [begins[offset].removesuffix(".json") for offset in offsets[:-1]]
    assert keys == list(wanted)
    assert verify.verify(version) == []


def test_our_own_source_reads_nemos_tars(
    version: Path, wanted: dict[str, Clip], tmp_path: Path
) -> None:
    shutil.copytree(version / "nemo", tmp_path / "nemo")
    source = Source.model_validate({"kind": "tar", "path": str(tmp_path / "nemo")})
    module, settings = resolve_source(source)
    items = [one for one in module.recordings(settings) if isinstance(one, Recording)]
    assert {one.source_id: one.text for one in items if one.error is None} == {
        key: clip.text for key, clip in wanted.items()
    }


def test_nemo(version: Path, wanted: dict[str, Clip]) -> None:
    home = version / "nemo/train"
    found = dict(nemo(sorted(home.glob("sharded_manifests/*.json")), sorted(home.glob("*.tar"))))
    assert found == wanted
    found = dict(nemo([home / "tarred_audio_manifest.json"], sorted(home.glob("*.tar"))))
    assert list(found.items()) == list(wanted.items())


def nemo(manifests: list[Path], tars: list[Path]) -> Iterator[tuple[str, Clip]]:
    """Clips as `LazyNeMoTarredIterator` finds them: manifest and tar of a shard belong together by
    the number in their names, or by `shard_id` where one manifest is given; a member's name is the
    entry's `audio_filepath`, without `-sub<n>` at its end."""
    entries: dict[int, dict[str, dict[str, Any]]] = {}
    for path in manifests:
        number = re.search(r"manifest[^/]*_(\d+)[^/]*\.json", str(path))
        for line in path.read_text("utf-8").rstrip("\n").split("\n"):
            entry = json.loads(line)
            stem = re.match(
                r"^(?P<stem>.+)(?P<sub>-sub\d+)(?P<ext>\.\w+)?$", entry["audio_filepath"]
            )
            assert stem is None
            shard = int(number[1]) if number else entry["shard_id"]
            assert shard == entry["shard_id"]
            entries.setdefault(shard, {})[entry["audio_filepath"]] = entry
    numbers = [re.search(r"audio[^/]*_(\d+)[^/]*\.tar", str(path)) for path in tars]
    shards = {int(found[1]): path for found, path in zip(numbers, tars, strict=True) if found}
    assert set(shards) == set(entries)
    for shard in sorted(shards):
        with tarfile.open(shards[shard], "r|") as tar:
            for member in tar:
                file = tar.extractfile(member)
                assert file is not None
                entry = entries[shard].pop(member.name)
                heard = clip(entry["text"], file.read())
                assert int(entry["duration"] * heard.rate) == heard.num_samples
                yield entry["id"], heard
        assert entries[shard] == {}


@pytest.mark.parametrize("use", ["webdataset", "nemo"])
def test_flac_holds_the_same_samples(version: Path, use: str, wanted: dict[str, Clip]) -> None:
    """From the same audio: only the package stage has something to do."""
    job = corpus.job(
        version.parents[2],
        sources=[{"kind": "jsonl", "path": f"{version.parents[2]}/list.jsonl", "name": "c"}],
        transcribe={"backend": {"use": "fake"}, "verdicts": ()},
        package={"formats": [{"use": use, "audio": "flac"}]},
    )
    published, counts = corpus.run(job)
    assert counts["resample"][0] == 0
    found = {}
    for path in published.path.rglob("*.tar"):
        with tarfile.open(path) as tar:
            for member in tar:
                file = tar.extractfile(member)
                if file and member.name.endswith(".flac"):
                    key = member.name.removesuffix(".flac")
                    data = file.read()
                    assert data[:4] == b"fLaC"
                    found[key] = clip(wanted[key].text, data)
    assert found == wanted
