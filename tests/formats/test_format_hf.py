"""`hf_parquet` through Hugging Face's `datasets`, offline."""

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.helpers import published
from tests.helpers.published import Row
from uttermill.tasks.formats import _table

TRAIN = [
    [published.row(0), published.row(1, language=None), published.row(2, speaker="")],
    [published.row(3, speaker="Ада 1"), published.row(4), published.row(5, text="")],
]
DEV = [[published.row(6, split="dev")]]
ROWS = [row for group in TRAIN for row in group]


@pytest.fixture(scope="module", params=["wav", "flac"])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp = tmp_path_factory.mktemp("hf")
    published.publish(tmp, "hf_parquet", [*TRAIN, *DEV], audio=request.param)
    return tmp / "hf_parquet"


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The library; it reads these variables when it is imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("home")))
        for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY"):
            patch.setenv(name, "1")
        import datasets

        datasets.disable_progress_bars()
        yield datasets


def assert_are(found: Iterable[dict[str, Any]], rows: list[Row]) -> None:
    for entry, row in zip(found, rows, strict=True):
        same = ("id", "text", "language", "speaker", "dataset", "source_id", "recording", "start")
        assert {n: entry[n] for n in same} == {n: row[n] for n in same}
        assert int(entry["duration"] * published.RATE) == row["num_samples"]
        assert (entry["words"], entry["dnsmos_ovrl"], entry["snr"]) == (2, 3.25, None)
        assert entry["audio"]["path"].rpartition(".")[0] == row["id"]
        assert published.sha256(io.BytesIO(entry["audio"]["bytes"])) == row["sha256"]


def test_files_are_read_by_datasets(home: Path, datasets: ModuleType, tmp_path: Path) -> None:
    files = {"train": str(home / "train/*.parquet"), "dev": str(home / "dev/*.parquet")}
    found = datasets.load_dataset("parquet", data_files=files, cache_dir=str(tmp_path))
    assert found["train"].features["audio"] == datasets.Audio(sampling_rate=published.RATE)
    assert found["train"].features["text"] == datasets.Value("string")
    assert found["train"].features["words"] == datasets.Value("int64")
    plain = found.cast_column("audio", datasets.Audio(decode=False))
    assert_are(plain["train"], ROWS)
    assert_are(plain["dev"], DEV[0])


@pytest.mark.full
def test_splits_have_our_names_and_stream(home: Path, datasets: ModuleType) -> None:
    found = datasets.load_dataset(str(home), streaming=True)
    assert set(found) == {"train", "dev"}
    plain = found["train"].cast_column("audio", datasets.Audio(decode=False))
    assert_are(plain, ROWS)


def test_audio_is_decoded_by_datasets(home: Path, datasets: ModuleType) -> None:
    pytest.importorskip("torchcodec", reason="datasets decodes with torchcodec, which is not here")
    found = datasets.load_dataset(str(home), split="train", streaming=True)
    for entry, row in zip(found, ROWS, strict=True):
        samples = entry["audio"].get_all_samples()
        assert samples.sample_rate == published.RATE
        assert samples.data.shape[-1] == row["num_samples"]


def test_row_groups_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_table, "GROUP_ROWS", 2)
    monkeypatch.setattr(_table, "GROUP_BYTES", 2 * 3000)  # no two clips are as short
    rows = [*TRAIN[0], *TRAIN[1], published.row(60), published.row(7), published.row(8)]
    published.publish(tmp_path, "hf_parquet", [rows])
    with pq.ParquetFile(tmp_path / "hf_parquet/train/000000000.parquet") as file:
        counts = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    assert sum(counts) == len(rows)
    assert counts == [1, 1, 1, 1, 1, 1, 1, 1, 1]
    monkeypatch.setattr(_table, "GROUP_BYTES", 1 << 20)
    published.publish(tmp_path, "hf_parquet", [rows])
    with pq.ParquetFile(tmp_path / "hf_parquet/train/000000000.parquet") as file:
        counts = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    assert counts == [2, 2, 2, 2, 1]


def test_equal_rows_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        published.publish(tmp_path / name, "hf_parquet", TRAIN)
    for number in range(2):
        path = f"hf_parquet/train/{number:09d}.parquet"
        assert (tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes()
