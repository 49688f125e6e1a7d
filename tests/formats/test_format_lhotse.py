"""`lhotse_shar` through Lhotse itself."""

import gzip
import hashlib
import io
import itertools
import json
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.helpers import published
from tests.helpers.published import Row
from uttermill.tasks.formats import _table

#: Lhotse leaves the files that it reads to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")

LONG = "d-" + "x" * 90 + "-00000000"  # too long for a member's name with its suffix
TRAIN = [
    [published.row(0), published.row(1, language=None), published.row(2, speaker="")],
    [published.row(3, speaker="Ада 1"), published.row(4, id=LONG), published.row(5)],
]
DEV = [[published.row(6, split="dev", text="")]]
ROWS = [row for group in TRAIN for row in group]


@pytest.fixture(scope="module", params=["wav", "flac"])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp = tmp_path_factory.mktemp("shar")
    published.publish(tmp, "lhotse_shar", [*TRAIN, *DEV], audio=request.param)
    return tmp / "lhotse_shar"


def assert_is(cut: Any, row: Row) -> None:
    seconds = cut.duration
    assert int(seconds * published.RATE) == row["num_samples"]
    assert abs(seconds - row["num_samples"] / published.RATE) < 1e-9
    assert (cut.start, cut.channel, cut.num_samples) == (0, 0, row["num_samples"])
    (supervision,) = cut.supervisions
    assert (supervision.id, supervision.start) == (row["id"], 0)
    assert supervision.recording_id == cut.recording.id == cut.id
    assert supervision.duration == seconds
    told = {name: getattr(supervision, name) for name in ("text", "language", "speaker")}
    assert told == {name: row[name] for name in told}
    audio = cut.load_audio()
    assert audio.shape == (1, row["num_samples"])
    exact = (audio[0].astype(np.float64) * 32768).astype("<i2")
    assert hashlib.sha256(exact.tobytes()).hexdigest() == row["sha256"]
    assert (cut.dataset, cut.source_id, cut.source_end) == ("d", row["source_id"], 0.9)
    assert (cut.avg_logprob, cut.words, cut.dnsmos_ovrl) == (-0.25, 2, 3.25)
    assert "duration" not in cut.custom


@pytest.mark.full
def test_a_folder_is_read_by_lhotse(home: Path) -> None:
    from lhotse import CutSet

    cuts = list(CutSet.from_shar(in_dir=home / "train"))
    for cut, row in zip(cuts, ROWS, strict=True):
        assert cut.id == row["id"] if row["id"] != LONG else len(cut.id) < 95
        assert_is(cut, row)


@pytest.mark.full
def test_fields_are_read_by_lhotse(home: Path) -> None:
    from lhotse import CutSet

    names = ("cuts.000000.jsonl.gz", "recording.000000.tar")
    fields = {name.split(".")[0]: [str(home / "dev" / name)] for name in names}
    (cut,) = CutSet.from_shar(fields=fields)
    assert_is(cut, DEV[0][0])


@pytest.mark.full
def test_indexes_lead_to_every_cut(tmp_path: Path) -> None:
    """As lhotse 2 reads them: a pair of members, a line; a release before 2.0 is not able to."""
    from lhotse.serialization import deserialize_item  # with torch: 1.5 s of CPU, 300 MB

    published.publish(tmp_path, "lhotse_shar", TRAIN, index=True)
    home = tmp_path / "lhotse_shar" / "train"
    for number, rows in enumerate(TRAIN):
        for stem in (f"recording.{number:06d}.tar", f"cuts.{number:06d}.jsonl"):
            data = (home / stem).read_bytes()
            offsets = np.fromfile(home / f"{stem}.idx", "<u8")
            assert offsets[-1] == len(data)
            parts = [data[a:b] for a, b in itertools.pairwise(offsets)]
            assert len(parts) == len(rows)
            for part, row in zip(parts, rows, strict=True):
                if stem.startswith("cuts"):
                    cut = deserialize_item(json.loads(part))
                    assert (cut.supervisions[0].id, part[-1:]) == (row["id"], b"\n")
                else:
                    with tarfile.open(fileobj=io.BytesIO(part)) as tar:
                        first, second = tar.getmembers()[:2]
                        assert first.name.endswith(".wav")
                        assert second.name == f"{first.name[:-4]}.json"
                        assert published.sha256(tar.extractfile(first)) == row["sha256"]


@pytest.mark.full
def test_plain_cuts_are_read_by_lhotse(tmp_path: Path) -> None:
    from lhotse import CutSet

    published.publish(tmp_path, "lhotse_shar", TRAIN, index=True)
    home = tmp_path / "lhotse_shar" / "train"
    fields = {"cuts": sorted(home.glob("*.jsonl")), "recording": sorted(home.glob("*.tar"))}
    cuts = CutSet.from_shar(fields={name: [*map(str, paths)] for name, paths in fields.items()})
    assert [cut.supervisions[0].id for cut in cuts] == [row["id"] for row in ROWS]


def test_cuts_hold_no_clock_and_no_byte_beyond_ascii(home: Path) -> None:
    packed = (home / "train/cuts.000001.jsonl.gz").read_bytes()
    assert packed[:10] == b"\x1f\x8b\x08" + bytes(6) + b"\xff"
    assert gzip.decompress(packed).isascii()
    assert sorted(path.name for path in (home / "train").iterdir()) == [
        "cuts.000000.jsonl.gz", "cuts.000001.jsonl.gz",
        "recording.000000.tar", "recording.000001.tar",
    ]  # fmt: skip


@pytest.mark.full
def test_each_turn_of_a_window_is_a_supervision(tmp_path: Path) -> None:
    from lhotse import CutSet

    turns = [
        published.turn("a#1", 0.0, 0.05, "good morning"),
        published.turn("a#2", 0.02, 0.03, None, backchannel=True),
        published.turn("a#2", 0.0501, 0.2, "hello"),  # to the clip's end, and beyond by rounding
    ]
    rows = [[published.row(0, turns=turns), published.row(1, turns=None)]]
    published.publish(tmp_path, "lhotse_shar", rows)
    talk, alone = CutSet.from_shar(in_dir=tmp_path / "lhotse_shar" / "train")
    assert [s.id for s in talk.supervisions] == [f"{rows[0][0]['id']}-{n:03d}" for n in range(3)]
    assert [s.speaker for s in talk.supervisions] == ["a#1", "a#2", "a#2"]
    assert [s.text for s in talk.supervisions] == ["good morning", None, "hello"]
    assert [s.custom["backchannel"] for s in talk.supervisions] == [False, True, False]
    assert [s.start for s in talk.supervisions] == pytest.approx([0.0, 0.02, 0.0501], abs=1e-4)
    assert talk.supervisions[2].end <= talk.duration
    words = talk.supervisions[0].alignment["word"]
    assert [word.symbol for word in words] == ["good", "morning"]
    assert [word.start for word in words] == pytest.approx([0.0, 0.025], abs=1e-4)
    later = talk.truncate(offset=0.0502, preserve_id=True)
    assert [s.text for s in later.supervisions] == ["hello"]
    (supervision,) = alone.supervisions
    assert supervision.text == rows[0][1]["text"]


# `hf_parquet` through Hugging Face's `datasets`, offline.


@pytest.fixture(scope="module", params=["wav", "flac"])
def parquet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def test_files_are_read_by_datasets(parquet: Path, datasets: ModuleType, tmp_path: Path) -> None:
    files = {"train": str(parquet / "train/*.parquet"), "dev": str(parquet / "dev/*.parquet")}
    found = datasets.load_dataset("parquet", data_files=files, cache_dir=str(tmp_path))
    assert found["train"].features["audio"] == datasets.Audio(sampling_rate=published.RATE)
    assert found["train"].features["text"] == datasets.Value("string")
    assert found["train"].features["words"] == datasets.Value("int64")
    plain = found.cast_column("audio", datasets.Audio(decode=False))
    assert_are(plain["train"], ROWS)
    assert_are(plain["dev"], DEV[0])


@pytest.mark.full
def test_splits_have_our_names_and_stream(parquet: Path, datasets: ModuleType) -> None:
    found = datasets.load_dataset(str(parquet), streaming=True)
    assert set(found) == {"train", "dev"}
    plain = found["train"].cast_column("audio", datasets.Audio(decode=False))
    assert_are(plain, ROWS)


def test_audio_is_decoded_by_datasets(parquet: Path, datasets: ModuleType) -> None:
    pytest.importorskip("torchcodec", reason="datasets decodes with torchcodec, which is not here")
    found = datasets.load_dataset(str(parquet), split="train", streaming=True)
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
