"""dataset.json counts what is there; README.md is a data card that the Hub and people can read."""

import re
import shutil
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.helpers import corpus
from uttermill.tasks.publish.dataset import composition, croissant, datacard
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.storage import versions

SECRET = "hunter2"


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sources: one with licence, language, texts and speakers; one with nothing said."""
    return published(tmp_path_factory.mktemp("card"))


def published(tmp: Path, **changes: Any) -> Path:
    home = corpus.make(tmp / "in", 5)
    rows = [
        {"key": f"k{n}", "wav": str(home / f"r{n:02d}.wav"), "txt": "some words",
         "spk": f"s{n % 2}", "lang": "en"} for n in range(3)
    ]  # fmt: skip
    corpus.jsonl(tmp / "list.jsonl", rows)
    (tmp / "bare").mkdir()
    for n in (3, 4):
        shutil.copy(home / f"r{n:02d}.wav", tmp / "bare")
    sources = [
        {"kind": "jsonl", "path": str(tmp / "list.jsonl"), "name": "told", "language": "en",
         "licence": "CC-BY-SA-4.0", "columns": {"audio": "wav", "text": "txt", "speaker": "spk"}},
        {"kind": "folder", "path": str(tmp / "bare"), "name": "bare", "expect_broken": True,
         "licence": changes.pop("licence", None)},
    ]  # fmt: skip
    (tmp / "bare/page.wav").write_text("<html>")
    job = corpus.job(tmp, sources=sources, **changes)
    return corpus.run(job)[0].path


def facts(version: Path) -> Any:
    return versions.described(version)


def header(version: Path) -> dict[str, Any]:
    text = (version / "README.md").read_text()
    found: dict[str, Any] = yaml.safe_load(text.split("---\n")[1])
    return found


def test_counts_are_those_of_the_rows(version: Path) -> None:
    """Against plain Python over the rows."""
    said = facts(version)
    rows = corpus.utterances(version)
    lengths = [row["num_samples"] / row["sample_rate"] for row in rows]
    whole = said["durations"]
    assert whole["min"] == pytest.approx(min(lengths), abs=1e-6)
    assert whole["max"] == pytest.approx(max(lengths), abs=1e-6)
    assert whole["mean"] == pytest.approx(sum(lengths) / len(lengths), abs=1e-6)
    assert whole["median"] == pytest.approx(sorted(lengths)[len(lengths) // 2], abs=1e-6)
    for entry in whole["histogram"]:
        inside = [s for s in lengths if entry["from"] <= s < (entry["to"] or np.inf)]
        assert len(inside) == entry["utterances"]
    assert sum(entry["utterances"] for entry in whole["histogram"]) == len(rows) == 5
    known = [s for row, s in zip(rows, lengths, strict=True) if row["speaker"]]
    assert said["speakers"]["count"] == 2
    assert said["speakers"]["hours_known"] * 3600 == pytest.approx(sum(known))
    assert said["speakers"]["hours_unknown"] * 3600 == pytest.approx(sum(lengths) - sum(known))
    assert said["splits"]["train"]["utterances"] == 5
    assert said["splits"]["train"]["hours"] * 3600 == pytest.approx(sum(lengths))
    assert sum(entry["hours"] for entry in said["packaged"]) * 3600 == pytest.approx(sum(lengths))
    assert {(e["split"], e["dataset"], e["utterances"]) for e in said["packaged"]} == {
        ("train", "told", 3), ("train", "bare", 2),
    }  # fmt: skip
    assert said["licences"] == {"told": "CC-BY-SA-4.0", "bare": None}
    assert said["recipes"]["layout"] == versions.LAYOUT
    assert set(said["files"]) == set(corpus.content(version)) - {"dataset.json"}


def test_many_rows_are_counted_in_columns() -> None:
    count = 50_000
    index = np.arange(count)
    table = pa.table({
        "split": np.where(index % 10 == 0, "dev", "train"),
        "dataset": np.where(index % 3 == 0, "a", "b"),
        "language": pa.array(np.where(index % 2 == 0, "en", "zh"), mask=index % 7 == 0),
        "speaker": pa.array((index % 5000).astype(str), mask=index % 4 == 0),
        "recording": index.astype(str), "num_samples": 8000 + index % 100_000,
        "sample_rate": np.full(count, 16000, np.int32),
    })  # fmt: skip
    began = time.process_time()
    said = composition.of_utterances([table])
    assert time.process_time() - began < 5.0
    assert said["speakers"]["count"] == len({(i % 3 == 0, i % 5000) for i in range(count) if i % 4})
    assert said["splits"]["dev"]["utterances"] == 5_000
    chunked = pa.concat_tables([table.slice(0, 16_666), table.slice(16_666)])
    assert composition.of_utterances([chunked]) == said, "the same however a table is divided"


def test_no_utterances_are_no_fault() -> None:
    columns = {n: pa.array([], pa.string()) for n in ("split", "dataset", "language", "speaker",
                                                     "recording")}  # fmt: skip
    empty = pa.table({**columns, "num_samples": pa.array([], pa.int64()),
                      "sample_rate": pa.array([], pa.int32())})  # fmt: skip
    said = composition.of_utterances([empty])
    assert said["durations"]["median"] is None
    assert said["speakers"] == {"count": 0, "hours_known": 0.0, "hours_unknown": 0.0}


def test_the_header_is_the_hubs(version: Path) -> None:
    assert header(version) == {
        "pretty_name": "told, bare, version 1",
        "license": ["cc-by-sa-4.0", "unknown"],
        "language": ["en"],
        "task_categories": ["automatic-speech-recognition", "text-to-speech"],
        "size_categories": ["n<1K"],
    }


def test_the_hubs_own_reader_takes_it(version: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")  # faster-whisper brings it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        card = hub.DatasetCard.load(version / "README.md")
    assert card.data.to_dict() == header(version)
    assert card.data.license == ["cc-by-sa-4.0", "unknown"]
    assert card.text.strip().startswith("# told, bare, version 1")


def test_configs_where_the_hub_can_load_it(version: Path) -> None:
    said = facts(version)
    said["formats"] = {"wenet": 1, "hf_parquet": 1}
    said["splits"] = {"dev": said["splits"]["train"], "train": said["splits"]["train"]}
    found = croissant.hub_header(said, "x")["configs"]
    assert found == [{
        "config_name": "default",
        "data_files": [{"split": "dev", "path": "hf_parquet/dev/*.parquet"},
                       {"split": "train", "path": "hf_parquet/train/*.parquet"}],
    }]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "header"),
    [
        (["CC-BY-4.0"], {"license": "cc-by-4.0"}),
        (["CC-BY-4.0", "cc-by-4.0", "MIT"], {"license": ["cc-by-4.0", "mit"]}),
        (["GPL-3.0-or-later"], {"license": "gpl-3.0"}),
        (["ODbL-1.0", "CC0-1.0"], {"license": ["odbl", "cc0-1.0"]}),
        ([None], {"license": "unknown"}),
        ([None, ""], {"license": "unknown"}),
        (["My own, v2!"], {"license": "other", "license_name": "my-own-v2"}),
        (["许可"], {"license": "other", "license_name": "see-text"}),
        (["A", "B", "MIT"], {"license": ["other", "mit"], "license_name": "a-and-b"}),
        (["https://x.org/terms"], {"license": "other", "license_name": "https-x.org-terms",
                                   "license_link": "https://x.org/terms"}),
    ],
)  # fmt: skip
def test_licences(given: list[str | None], header: dict[str, Any]) -> None:
    assert croissant.licences(given) == header


def test_languages_are_codes() -> None:
    heard = ["en", "zh", "en-US", "jw", "yue", None, "", "English", "zh_CN", "DE"]
    assert croissant.languages(heard) == ["de", "en", "jv", "yue", "zh"]


@pytest.mark.parametrize(
    ("count", "name"), [(0, "n<1K"), (999, "n<1K"), (1000, "1K<n<10K"), (10**6, "1M<n<10M"),
                        (10**12, "n>1T")],
)  # fmt: skip
def test_sizes(count: int, name: str) -> None:
    assert croissant.size(count) == name


def test_licences_by_label(version: Path) -> None:
    """A source whose recordings state theirs is not said to have none."""
    card_facts = facts(version)
    card_facts["licences"] = {"a": None, "b": None}
    sources = [{"name": "a", "labels": ["licence"]}, {"name": "b", "labels": None}]
    sources.append({"name": "c"})  # of a kind without labels
    card_facts["settings"]["sources"] = sources
    text = datacard.card(card_facts, pa.schema([]), {})
    assert "| a | by its label licence |" in text
    assert "no licence was given for b." in text


def test_sentences_are_whole(version: Path) -> None:
    """The one about leaks ended after its first half."""
    card_facts = facts(version)
    card_facts["leaks"] = {"dev": {"text": 1, "speaker": None, "recording": 0, "audio": 0}}
    text = datacard.card(card_facts, pa.schema([]), {})
    assert "share its texts, speakers, recordings or samples):\n\n| split | text |" in text
    assert "| dev | 1 | unknown | 0 | 0 |" in text


def test_what_people_read(version: Path) -> None:
    text = (version / "README.md").read_text()
    assert "5 utterances of speech with text of 2 named speakers" in text
    assert re.search(r"\| train \| told \| en \| 3 \| 0\.\d{3} \|", text)
    assert re.search(r"\| − shard\.unreadable \| 1 \| 0\.000 \| 0\.0 % \| no decoder opens", text)
    assert "**Warning:** no licence was given for bare." in text
    assert "### wenet" in text
    assert "wenet/<split>/data.list" in text
    for column in pq.read_schema(version / "utterances.parquet").names:
        assert f"\n| {column} |" in text
    assert verify(version) == []


@pytest.mark.parametrize("on", [False, True])
def test_it_names_no_file_that_is_not_there(tmp_path: Path, on: bool) -> None:
    """It named Energon's files and lhotse 2's in each version that has these formats."""
    formats = [{"use": "webdataset", "energon": on}, {"use": "lhotse_shar", "index": on}]
    text = (published(tmp_path, package={"formats": formats}) / "README.md").read_text()
    assert "webdataset/<split>/data.list" in text
    assert "lhotse_shar/<split>/recording.000000.tar" in text
    for some in (".tar.idx ", "webdataset/.nv-meta", "cuts.000000.jsonl "):
        assert (some in text) == on


def test_it_is_the_same_from_another_place(version: Path, tmp_path: Path) -> None:
    other = published(tmp_path / "deeper" / "place")
    assert (other / "README.md").read_bytes() == (version / "README.md").read_bytes()
    told = [facts(v) for v in (version, other)]
    for name in ("files", "settings", "sealed", "fingerprint"):  # sources' paths are in these
        for each in told:
            del each[name]
    assert told[0] == told[1]


def test_no_path_and_no_secret(tmp_path: Path) -> None:
    licence = f"https://u:{SECRET}@x.org/terms\n\n# <b>Free</b> | `all` ![x](y) ```"
    path = published(tmp_path, licence=licence)
    text = (path / "README.md").read_text()
    assert SECRET not in text + (path / "dataset.json").read_text()
    assert str(tmp_path) not in text
    assert "/tmp" not in text
    (row,) = [line for line in text.splitlines() if line.startswith("| bare | https")]
    assert "<b>" not in row
    assert len(re.findall(r"(?<!\\)\|", row)) == 3, "a cell stays a cell"
    assert "\n# &lt;b" not in text
    assert header(path)["license"] == ["cc-by-sa-4.0", "other"]
    assert verify(path) == []


def test_settings_are_shown_without_paths() -> None:
    shown = datacard._without_folders({
        "model": "/srv/models/base", "root": "~/x", "url": "s3://bucket/x", "rate": 16000,
        "list": ["C:\\data\\dev.txt", "file:///a/b", "./c/d/", "a/b"], "name": "base",
    })  # fmt: skip
    assert shown == {
        "model": "base", "root": "x", "url": "s3://bucket/x", "rate": 16000,
        "list": ["dev.txt", "b", "d", "a/b"], "name": "base",
    }  # fmt: skip
