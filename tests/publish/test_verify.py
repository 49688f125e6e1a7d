"""Verify finds every single damage to a published version, and none where there is none."""

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus, tiers
from uttermill.flows import cli
from uttermill.tasks import storage
from uttermill.tasks.base.errors import ConfigError, RunError
from uttermill.tasks.publish.dataset import datacard
from uttermill.tasks.publish.upkeep import verify as verifying
from uttermill.tasks.publish.upkeep.verify import side_files, verify

FILES = (
    "dataset.json", "README.md", "croissant.json", "utterances.parquet", "ledger.parquet",
    "wenet/train/data.list",
    "wenet/train/shards_000000000.tar", "wenet/units.txt",
)  # fmt: skip


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp = tmp_path_factory.mktemp("verify")
    corpus.make(tmp / "in", 3)
    path = corpus.run(corpus.job(tmp))[0].path
    assert set(corpus.content(path)) == set(FILES), "a new kind of file: add it to FILES"
    return path


@pytest.fixture
def version(published: Path, tmp_path: Path) -> Path:
    shutil.copytree(published, tmp_path / "v0001")
    return tmp_path / "v0001"


def reseal(version: Path) -> None:
    """Put hashes right, as somebody would who wants a change to pass."""
    data: dict[str, Any] = json.loads((version / "dataset.json").read_text())
    for name in data["files"]:
        digest, size = storage.hashed(version / name)
        data["files"][name] = {"sha256": digest, "bytes": size}
    (version / "dataset.json").write_bytes(datacard.sealed(data))


def test_whole_version_has_no_fault(version: Path) -> None:
    assert verify(version) == []
    reseal(version)
    assert verify(version) == []


@pytest.mark.parametrize("count", [2, tiers.nightly(25)])
@pytest.mark.parametrize("name", FILES)
def test_a_flipped_byte(version: Path, name: str, count: int) -> None:
    path = version / name
    size = path.stat().st_size
    positions = random.Random(name).sample(range(size), min(size, count))
    for at in (0, size - 1, *positions):
        corpus.flip(path, at)
        assert verify(version), f"byte {at} of {name}"
        corpus.flip(path, at)
    assert verify(version) == []


@pytest.mark.parametrize("count", [4, tiers.nightly(40)])
@pytest.mark.parametrize("name", FILES[1:])
def test_a_flipped_byte_under_a_right_hash(version: Path, name: str, count: int) -> None:
    """Damage from before the hash was taken: found by reading, or it changes nothing that is read;
    no traceback whatever the byte."""
    path = version / name
    size = path.stat().st_size
    for at in random.Random(name).sample(range(size), min(size, count)):
        corpus.flip(path, at)
        reseal(version)
        faults = verify(version)
        assert not any("not the file that was published" in fault for fault in faults)
        corpus.flip(path, at)


@pytest.mark.parametrize(
    ("how", "name"), tiers.covering(["truncate", "cut_to_nothing", "longer", "delete"], FILES)
)
def test_another_size(version: Path, name: str, how: str) -> None:
    path = version / name
    if how == "truncate":
        os.truncate(path, path.stat().st_size - 1)
    elif how == "cut_to_nothing":
        os.truncate(path, 0)
    elif how == "longer":
        path.write_bytes(path.read_bytes() + b"\0")
    else:
        path.unlink()
        if name == "dataset.json":
            with pytest.raises(ConfigError, match=r"holds no dataset\.json"):
                verify(version)
            return
    assert verify(version)


@pytest.mark.parametrize(
    "name", ["wenet/train/shards_000000001.tar", "notes.txt", ".hidden", "link"]
)
def test_an_added_file(version: Path, name: str) -> None:
    (version / name).symlink_to("nowhere") if name == "link" else (version / name).touch()
    assert verify(version) == [f"{name} is there, but dataset.json does not name it"]


@pytest.mark.parametrize("sealed", [tiers.nightly(False), True])
@pytest.mark.parametrize(
    ("key", "inner"),
    [("recordings", "in"), ("utterances", "packaged"), ("seconds", "in"), ("seconds", "packaged"),
     ("utterances", "dropped"), ("seconds", "overlap")],
)  # fmt: skip
def test_changed_counts(version: Path, key: str, inner: str, sealed: bool) -> None:
    data = json.loads((version / "dataset.json").read_text())
    data[key][inner] += 1
    text = datacard.sealed(data) if sealed else json.dumps(data, indent=1).encode()
    (version / "dataset.json").write_bytes(text)
    faults = verify(version)
    assert f"dataset.json's {key} are not those of the ledger" in faults
    assert sealed == (not any("not what was published" in fault for fault in faults))


@pytest.mark.parametrize("column", ["text", "sha256", "num_samples", "id", "offset", "sample_rate"])
def test_changed_rows_under_a_right_hash(version: Path, column: str) -> None:
    """The tar is read back against the rows, so a swapped text or length is found."""
    path = version / "utterances.parquet"
    table = pq.read_table(path)
    values = table[column].to_pylist()
    values[0] = f"{values[0]}x" if isinstance(values[0], str) else values[0] + 1
    index = table.schema.get_field_index(column)
    field = table.schema.field(index)
    changed = table.set_column(index, field, pa.array(values, field.type))
    pq.write_table(changed, path)
    reseal(version)
    assert verify(version)


def test_a_channel_that_the_ledger_and_the_clip_differ_in(version: Path) -> None:
    """In the ledger of a clip; where the ledger says nothing, it is no fault."""
    path = version / "ledger.parquet"
    table = pq.read_table(path)

    def faults(channel: int | None) -> list[str]:
        index = table.schema.get_field_index("channel")
        channels = pa.array([channel] * len(table), pa.int32())
        pq.write_table(table.set_column(index, table.schema.field(index), channels), path)
        reseal(version)
        return verify(version)

    assert faults(None) == []
    assert faults(1) == ["utterances.parquet and the ledger differ in the channel of a clip"]


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"files": 3}', '{"files": {}}'])
def test_damaged_description_is_a_fault_not_a_traceback(version: Path, text: str) -> None:
    (version / "dataset.json").write_text(text)
    assert verify(version)


def test_what_readers_put_beside_the_data_is_named_and_no_fault(
    version: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("webdataset/.nv-meta/index.sqlite", "wenet/train/shards_000000000.tar.idx"):
        (version / name).parent.mkdir(parents=True, exist_ok=True)
        (version / name).write_bytes(b"x")
    assert verify(version) == []
    assert side_files(version) == [
        "webdataset/.nv-meta/index.sqlite", "wenet/train/shards_000000000.tar.idx",
    ]  # fmt: skip
    assert cli.main(["verify", str(version)]) == 0
    assert "A reader's own file, not part of the dataset: webdataset/.nv" in capsys.readouterr().out
    (version / "wenet/train/other.tar").write_bytes(b"x")
    assert verify(version) == ["wenet/train/other.tar is there, but dataset.json does not name it"]


@pytest.mark.nightly
def test_many_processes_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reads some output shards; faults stand in the same order."""
    corpus.make(tmp_path / "in", 12)
    package = {"tar_hours": 2.0 / 3600, "formats": ["wenet", "webdataset"]}
    path = corpus.run(corpus.job(tmp_path, package=package))[0].path
    monkeypatch.setattr(verifying, "AT_ONCE", 1)
    tars = sorted(path.glob("*/**/*.tar"))
    assert len(tars) > 4
    for each in (tars[0], tars[-1]):
        corpus.flip(each, 600)
    tars[2].unlink()
    alone = verify(path)
    assert len(alone) > 3
    monkeypatch.setattr(verifying, "LEAST", 0)
    monkeypatch.setattr(verifying, "_cores", lambda: 2)
    assert verify(path) == alone


@pytest.mark.nightly
def test_a_process_that_dies_is_no_fault_of_the_version(
    version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "LEAST", 0)
    monkeypatch.setattr(verifying, "_cores", lambda: 2)
    monkeypatch.setattr(verifying, "read", dies)
    with pytest.raises(RunError, match="a process that read the version back died"):
        verify(version)


def dies(portion: verifying.Portion) -> None:
    os._exit(9)
