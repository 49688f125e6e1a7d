"""`uttermill list`: absolute paths of every format that has lists, of train unless asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers import corpus
from tests.plugins import gate
from uttermill.flows import cli

FORMATS = (
    "nemo", "wenet", "wenet_raw", "webdataset", "kaldi", "emilia", "metadata_csv",
    "chat_jsonl", "mds", "litdata", "lance", "lhotse_shar",
)  # fmt: skip


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("list")
    corpus.make(home / "in")
    package = {"formats": FORMATS, "splits": {"dev": 0.2, "test": 0.2}}
    return corpus.run(corpus.job(home, package=package))[0].path


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[str], str]:
    """(lines on stdout, what is said on stderr)."""
    capsys.readouterr()
    assert cli.main(["list", *words]) == 0
    said = capsys.readouterr()
    return said.out.splitlines(), said.err


def paths_in(use: str, lines: list[str]) -> list[Path]:
    if use == "wenet_raw":
        return [Path(json.loads(line)["wav"]) for line in lines]
    if use == "chat_jsonl":
        return [Path(path) for line in lines for path in json.loads(line)["audios"]]
    if use == "metadata_csv":
        return [Path(f"{line.split('|')[0]}.wav") for line in lines]
    return [Path(line.split(" ", 1)[1] if use == "kaldi" else line) for line in lines]


@pytest.mark.parametrize("use", FORMATS[:-1])
def test_paths_are_absolute_and_there(
    version: Path, use: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(version.parent)  # a relative dataset gives absolute paths too
    found = {}
    for split in ("train", "dev", "test"):
        lines, said = listed(capsys, "v0001", "--format", use, "--split", split)
        found[split] = paths_in(use, lines)
        assert said == ""
        assert found[split]
        assert all(path.is_absolute() and path.exists() for path in found[split])
        assert all(f"/{use}/{split}/" in f"{path}/" for path in found[split])
    everything, _ = listed(capsys, "v0001", "--format", use, "--split", "*")
    assert len(everything) == sum(map(len, found.values()))
    prefixed, _ = listed(capsys, "v0001", "--format", use, "--split", "dev", "--prefix", "s3://b/")
    assert all(f"{p}/".startswith(f"s3:/b/{use}/dev/") for p in paths_in(use, prefixed))


def test_train_alone_and_said_so(version: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, said = listed(capsys, str(version))
    assert lines
    assert all("/wenet/train/" in line for line in lines), "wenet comes first, whatever the order"
    assert said == "Only the split train of wenet; --split for dev and test\n"
    assert cli.main(["list", str(version), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"paths": lines, "format": "wenet", "split": "train", "others": ["dev", "test"]}


def test_a_format_of_your_own_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder has the name that the format chooses, not that of its module."""
    corpus.make(tmp_path / "in", 2)
    monkeypatch.setenv(gate.VARIABLE, str(tmp_path))  # holds no gate
    formats = ("tests.plugins.gated_wenet",)
    version = corpus.run(corpus.job(tmp_path, package={"formats": formats}))[0].path
    lines, _ = listed(capsys, str(version))
    assert lines
    assert all(Path(line).exists() for line in lines)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--split", "val"], "has no split 'val'; it has dev, test, train"),
        (["--format", "lhotse_shar"], "lhotse_shar has no list of paths"),
        (["--format", "hf_parquet"], "does not hold the format 'hf_parquet'; it holds nemo"),
    ],
)
def test_what_is_not_there_is_said(
    version: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["list", str(version), *words]) == 2
    assert sentence in capsys.readouterr().err


def test_a_folder_that_is_no_version_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("list", "verify"):
        assert cli.main([command, str(tmp_path)]) == 2
        assert "holds no dataset.json; give a folder like" in capsys.readouterr().err
