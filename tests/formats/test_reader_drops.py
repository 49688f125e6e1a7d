"""`run` says how many clips the usual reader of a format would drop, and which setting helps."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.test_show import said
from tests.helpers import corpus
from tests.helpers.shared_server import Server
from uttermill.flows import cli
from uttermill.flows.cli.show import runs
from uttermill.flows.server.artifacts import markdown
from uttermill.tasks import plugins
from uttermill.tasks.base import shelves
from uttermill.tasks.formats import ReaderLimits, metadata_csv, nemo, wenet
from uttermill.tasks.insight.estimating import planning
from uttermill.tasks.publish.dataset import reader_drops
from uttermill.tasks.settings import Plugin

AUTO = Plugin(use="auto")


def version(folder: Path, *rows: tuple[str, str | None, float], rate: int = 16000) -> Path:
    """A folder with the columns of `utterances.parquet` that count; rows of (split, text, s)."""
    folder.mkdir(exist_ok=True)
    table = pa.table(
        {
            "split": pa.array([row[0] for row in rows], pa.string()),
            "text": pa.array([row[1] for row in rows], pa.string()),
            "num_samples": pa.array([round(row[2] * rate) for row in rows], pa.int64()),
            "sample_rate": pa.array([rate] * len(rows), pa.int32()),
            "language": pa.array(["en"] * len(rows), pa.string()),
            "more": [0.0] * len(rows),
        }
    )
    pq.write_table(table, folder / "utterances.parquet")
    return folder


def dropped(folder: Path, *formats: str) -> dict[tuple[str, str, str], tuple[int, int]]:
    """(dropped, clips of the split) by format, split and setting."""
    entries = reader_drops.of_version(folder, [Plugin(use=use) for use in formats], AUTO)
    return {(e["format"], e["split"], e["setting"]): (e["dropped"], e["clips"]) for e in entries}


def wenet_keeps(text: str, seconds: float) -> bool:
    """`filter` of wenet/dataset/processor.py with its defaults, on a character tokenizer."""
    frames, tokens = seconds * 100, len(text.strip())
    return 10 <= frames <= 10240 and 1 <= tokens <= 200 and 0.0005 <= tokens / frames <= 1


def test_each_limit_of_wenet(tmp_path: Path) -> None:
    rows = [
        ("train", "x" * 200, 20.0),
        ("train", "x" * 201, 20.0),
        ("train", "字" * 201, 20.0),
        ("train", f"  {'x' * 200} ", 20.0),
        ("train", "", 5.0),
        ("train", None, 5.0),
        ("train", "hello", 0.1),
        ("train", "hello", 0.09),
        ("train", "x" * 100, 102.4),
        ("train", "x" * 250, 102.5),
        ("train", "x" * 31, 0.3),
        ("train", "x" * 30, 0.3),
        ("train", "x", 20.5),
        ("dev", "x" * 300, 20.0),
        ("dev", "x", 1.0),
    ]
    found = dropped(version(tmp_path / "v", *rows), "wenet")
    assert found == {
        ("wenet", "dev", "token_max_length"): (1, 2),
        ("wenet", "train", "min_length"): (1, 13),
        ("wenet", "train", "max_length"): (1, 13),
        ("wenet", "train", "token_min_length"): (2, 13),
        ("wenet", "train", "token_max_length"): (2, 13),
        ("wenet", "train", "min_output_input_ratio"): (1, 13),
        ("wenet", "train", "max_output_input_ratio"): (1, 13),
    }
    lost = sum(not wenet_keeps(text or "", seconds) for _, text, seconds in rows)
    assert lost == sum(count for count, _ in found.values())


def test_nemo_filters_its_training_set_only(tmp_path: Path) -> None:
    folder = version(
        tmp_path / "v",
        ("train", "a", 16.7),
        ("train", "a", 16.75),
        ("train", "a", 0.05),
        ("dev", "a", 30.0),
    )
    assert dropped(folder, "nemo") == {
        ("nemo", "train", "min_duration"): (1, 3),
        ("nemo", "train", "max_duration"): (1, 3),
    }


def test_languages_that_gpt_sovits_skips(tmp_path: Path) -> None:
    """Its script for texts leaves them out in silence: of a Dutch voice, all clips."""
    folder = version(tmp_path / "v", *[("train", "a", seconds) for seconds in (1.0, 0.5, 2, 3, 4)])
    table = pq.read_table(folder / "utterances.parquet")
    languages = pa.array(["en-US", "en", "nl", None, "nl"], pa.string())
    place = table.column_names.index("language")
    pq.write_table(table.set_column(place, "language", languages), folder / "utterances.parquet")
    wanted = [Plugin(use="metadata_csv", profile="gpt_sovits")]
    found = reader_drops.of_version(folder, wanted, AUTO)
    assert {each["setting"]: (each["dropped"], each["clips"]) for each in found} == {
        "language": (3, 5), "duration": (1, 5)
    }  # fmt: skip
    assert "only the languages zh, ja, en, ko, yue" in found[0]["warning"]
    assert not reader_drops.of_version(folder, [Plugin(use="metadata_csv")], AUTO)


def test_formats_with_and_without_limits(tmp_path: Path) -> None:
    folder = version(tmp_path / "v", ("train", "x" * 300, 40.0))
    assert dropped(folder, "lhotse_shar", "kaldi", "hf_parquet", "webdataset") == {}
    found = dropped(folder, "emilia", "nemo", "wenet_raw", "wenet")
    assert [key[0] for key in found] == ["emilia", "nemo", "wenet_raw", "wenet"]  # as asked for
    for use in shelves.names("formats"):
        reader = plugins.FORMATS.load(use).READER
        assert reader is None or isinstance(reader, ReaderLimits)


@pytest.mark.parametrize(
    ("profile", "dropped_by"),
    [
        ("f5", {"duration": 2}),
        ("xtts", {"max_wav_length": 3}),
        ("vits", {"max_text_len": 1}),
        ("gpt_sovits", {"duration": 1}),
    ],
)
def test_a_profile_has_its_own_reader(
    tmp_path: Path, profile: str, dropped_by: dict[str, int]
) -> None:
    rows = (
        ("train", "x" * 191, 12.0), ("train", "x" * 190, 31.0), ("train", "x", 11.0),
        ("train", "x", 54.5),
    )  # fmt: skip
    plugin = Plugin.model_validate({"use": "metadata_csv", "profile": profile})
    told = reader_drops.of_version(version(tmp_path / "v", *rows), [plugin], AUTO)
    assert {entry["setting"]: entry["dropped"] for entry in told} == dropped_by


def test_the_sentence_names_both_settings(tmp_path: Path) -> None:
    folder = version(tmp_path / "v", ("train", "x" * 201, 20.0), ("train", "x", 1.0))
    wenet = [Plugin(use="wenet")]

    def told(segmenter: str) -> str:
        (entry,) = reader_drops.of_version(folder, wenet, Plugin(use=segmenter))
        assert (entry["setting"], entry["limit"]) == ("token_max_length", 200)
        return str(entry["warning"])

    assert told("vad").startswith(
        "wenet: WeNet's usual reader would drop 1 of 2 clips of split train (token_max_length 200: "
        "text longer than 200 characters); shorten them with filter.segmenter."
    )
    assert told("vad").endswith(
        ", or raise token_max_length in the trainer's dataset_conf.filter_conf"
    )
    for segmenter in ("vad", "auto", "whole", "given", "applio"):
        named = told(segmenter).partition("; ")[2].partition(", or ")[0]
        fields = plugins.SEGMENTERS.load(segmenter).Settings.model_fields
        for field in reader_drops.SHORTER:  # never a setting that is refused
            assert (field in named) == (field in fields), (segmenter, field)


@pytest.mark.parametrize(
    ("text", "seconds", "words"),
    [
        ("x" * 30, 0.05, "shorter than 0.1 s); lengthen them with filter.segmenter.min_seconds"),
        ("x" * 30, 103.0, "longer than 102.4 s); shorten them"),
        ("", 3.0, "no text); drop them with empty_text"),
        ("x" * 90, 0.5, "more than 100 characters a second); drop them with char_rate"),
        ("x", 30.0, "fewer than 0.05 characters a second)"),
    ],
)
def test_other_sentences(tmp_path: Path, text: str, seconds: float, words: str) -> None:
    folder = version(tmp_path / "v", ("train", text, seconds), ("train", "x" * 30, 3.0))
    (entry,) = reader_drops.of_version(folder, [Plugin(use="wenet")], AUTO)
    assert words in entry["warning"]


def test_a_version_without_any_text_is_not_to_be_emptied(tmp_path: Path) -> None:
    """`init --for vc` has no recogniser: the advice was to drop all of its clips."""
    folder = version(tmp_path / "v", ("train", "", 3.0), ("train", None, 3.0))
    (entry,) = reader_drops.of_version(folder, [Plugin(use="wenet_raw")], AUTO)
    assert "empty_text" not in entry["warning"]
    assert "if the trainer needs texts, choose a recogniser with transcribe.b" in entry["warning"]


def test_bounds_are_in_the_order_of_the_reader() -> None:
    assert [b.setting for b in wenet.READER.bounds][:2] == ["min_length", "max_length"]
    assert {b.setting: b.limit for b in nemo.READER.bounds} == {
        "min_duration": 0.1,
        "max_duration": 16.7,
    }


def test_many_rows_are_counted_in_row_groups(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    rows = [
        (
            ("train", "dev")[int(draw.integers(2))],
            "x" * int(draw.integers(400)),
            float(draw.uniform(0, 30)),
        )
        for _ in range(5000)
    ]
    place = version(tmp_path / "v", *rows)
    table = pq.read_table(place / "utterances.parquet")
    pq.write_table(table, place / "utterances.parquet", row_group_size=97)
    found = dropped(place, "wenet", "nemo")
    for split in ("train", "dev"):
        mine = [(text, round(s * 16000) / 16000) for at, text, s in rows if at == split]
        lost = sum(not wenet_keeps(text, seconds) for text, seconds in mine)
        assert lost == sum(n for key, (n, _) in found.items() if key[:2] == ("wenet", split))
    assert ("nemo", "dev", "max_duration") not in found


def test_a_version_in_parts(tmp_path: Path) -> None:
    """A large version's `utterances.parquet` may be a folder."""
    one = version(tmp_path / "one", ("train", "x" * 300, 9.0), ("train", "x", 9.0))
    parts = tmp_path / "two" / "utterances.parquet"
    parts.mkdir(parents=True)
    for name in ("a", "b"):
        (parts / f"{name}.parquet").write_bytes((one / "utterances.parquet").read_bytes())
    assert dropped(tmp_path / "two", "wenet") == {("wenet", "train", "token_max_length"): (2, 4)}


def shown(result: dict[str, Any]) -> str:
    return said(runs.run, result)


@pytest.mark.nightly
def test_run_warns_each_time(
    tmp_path: Path,
    prefect_api: Server,
    shared_cluster: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In words and in --json, in the artifact and in the report; again when nothing was left."""
    corpus.make(tmp_path / "in", 4)
    corpus.listed(tmp_path / "in", 4, tmp_path / "list.jsonl", r02="word " * 60)
    settings = {
        "sources": [{"kind": "jsonl", "path": str(tmp_path / "list.jsonl"), "name": "c"}],
        "out": str(tmp_path / "out"),
        "shard": {"settle_seconds": 0},
        "filter": {"segmenter": {"use": "whole"}},
        "transcribe": {"backend": {"use": "none"}, "verdicts": []},
        "cluster": shared_cluster,
    }
    path = tmp_path / "settings.yaml"
    path.write_text(json.dumps(settings))
    for _ in range(2):
        assert cli.main(["run", str(path), "--json"]) == 0
        told = capsys.readouterr()
        result = json.loads(told.out.splitlines()[-1])
        (entry,) = result["reader_drops"]
        assert (entry["dropped"], entry["clips"], entry["split"]) == (1, 4, "train")
        warning = entry["warning"]
        assert f"warning: {warning}" in told.err.replace("\n", " ")
        assert f"warning: {warning}" in shown(result)
        assert "would drop 1 of 4 clips" in markdown(tmp_path, 1.0, (), result)
        (folder,) = sorted((tmp_path / "out" / "runs").glob("r*"))[-1:]
        assert json.loads((folder / "summary.json").read_text())["reader_drops"] == [entry]
        page = (folder / "report.html").read_text()
        assert "would drop 1 of 4 clips of split train" in page
    assert not result["new_version"]


@pytest.mark.parametrize("profile", sorted({*metadata_csv.PROFILES} - {"hf_audiofolder", "vits"}))
def test_a_voice_needs_texts(tmp_path: Path, profile: str) -> None:
    """Lines such as `id||` were written, and nobody said so."""
    folder = version(tmp_path / "v", ("train", " ", 2.0), ("train", "x", 2.0))
    voice = Plugin(use="metadata_csv", profile=profile)
    [entry] = reader_drops.of_version(folder, [voice], AUTO)
    assert entry["dropped"] == 1
    said_of = entry["warning"]
    assert said_of.startswith("metadata_csv: 1 of 2 clips of split train has no text, which ")
    assert said_of.endswith("needs; drop them with empty_text in transcribe.verdicts")


def test_a_plan_says_that_no_clip_of_a_voice_will_have_a_text(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 2)
    package = {"formats": [{"use": "metadata_csv"}]}
    transcribe = {"backend": {"use": "none"}, "verdicts": []}
    job = corpus.job(tmp_path, transcribe=transcribe, package=package)
    sentences = planning.plan(job, None).stated
    assert [s for s in sentences if s.startswith("metadata_csv: no clip will have a text")]
    (tmp_path / "in/r00.txt").write_text("some words")
    sentences = planning.plan(job, None).stated
    assert not [s for s in sentences if s.startswith("metadata_csv")]
