"""`uttermill list`: absolute paths of every format that has lists, of train unless asked."""

import json
from pathlib import Path

import pytest

from tests.helpers import corpus
from tests.helpers.tiers import nightly
from tests.plugins import gate
from uttermill.flows import cli

FORMATS = (
    "nemo", "wenet_raw", "wenet", "webdataset", "kaldi", "emilia", "metadata_csv",
    "chat_jsonl", "mds", "litdata", "lance", "lhotse_shar",
)  # fmt: skip


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("list")
    corpus.make(home / "in")
    package = {"formats": FORMATS, "splits": {"dev": 0.2, "test": 0.2}}
    return corpus.run(corpus.job(home, package=package))[0].path


def listed(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[list[str], str]:
    """(lines on stdout, what is said on stderr)."""
    capsys.readouterr()
    assert cli.main(["list", *map(str, words)]) == 0
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


@pytest.mark.parametrize("use", [*FORMATS[:8], *map(nightly, FORMATS[8:-1])])
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
        (["--since", "7"], "versions there: 1"),
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


# `uttermill list --since N`: what is new or changed in each format, and what is gone.


#: Formats with a line a clip, with the path of each file that holds clips, with a folder.
CLIPS = ("metadata_csv", "chat_jsonl", "wenet_raw", "speechbrain")
FILES = ("kaldi", "wenet", "nemo", "webdataset", "mds", "lhotse_shar", "hf_parquet")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Version 1 of four recordings; in version 2, one has another text, one is gone, two are
    new."""
    home = tmp_path_factory.mktemp("since")
    corpus.make(home / "in", 6)
    corpus.listed(home / "in", 4, home / "list.jsonl")
    source = {"kind": "jsonl", "path": str(home / "list.jsonl"), "name": "c"}
    package = {"formats": [*CLIPS, *FILES], "max_removed_fraction": 0.5, "tar_hours": 0.0002}
    job = corpus.job(
        home,
        sources=[source],
        transcribe={"backend": {"use": "none"}, "verdicts": [{"use": "empty_text"}]},
        package=package,
    )
    corpus.run(job)
    lines = corpus.listed(home / "in", 6, home / "list.jsonl", r01="other words").read_text()
    kept = [line for line in lines.splitlines(keepends=True) if "r02" not in line]
    (home / "list.jsonl").write_text("".join(kept))
    corpus.run(job)
    return home / "out"


def test_clips_by_id(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, said = listed(capsys, out, "--since", 1)
    rows = [line.split("\t") for line in lines]
    assert [(split, kind) for _, split, kind in rows] == [
        ("train", "changed"), ("train", "new"), ("train", "new"),
    ]  # fmt: skip
    assert [key[:8] for key, _, _ in rows] == ["c-in_r01", "c-in_r04", "c-in_r05"]
    assert "Since v0001: 2 new clips, 1 changed, 1 removed: " in said
    [answer] = listed(capsys, out, "--since", 1, "--json")[0]
    told = json.loads(answer)
    assert [key[:8] for key in told["removed"]] == ["c-in_r02"]
    assert told["new"] + told["changed"] == [rows[1][0], rows[2][0], rows[0][0]]


@pytest.mark.parametrize("use", CLIPS)
def test_lines_of_clips(out: Path, capsys: pytest.CaptureFixture[str], use: str) -> None:
    every, _ = listed(capsys, out, "--format", use)
    lines, _ = listed(capsys, out, "--since", 1, "--format", use)
    ids = [line.split("\t")[0] for line in listed(capsys, out, "--since", 1)[0]]
    if use == "speechbrain":
        assert len(json.loads("\n".join(every))) == 5
        assert {*json.loads("\n".join(lines))} == {*ids}
        return
    assert len(lines) == len(ids)
    assert {*lines} < {*every}
    assert all(any(key in line for line in lines) for key in ids)


@pytest.mark.parametrize("use", FILES)
def test_files_that_hold_them(out: Path, capsys: pytest.CaptureFixture[str], use: str) -> None:
    lines, _ = listed(capsys, out, "--since", 1, "--format", use)
    assert lines
    assert all(Path(line.split(" ")[-1]).exists() for line in lines)
    assert listed(capsys, out, "--since", 2, "--format", use)[0] == []


def test_a_version_of_its_own_has_nothing_new(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert listed(capsys, out, "--since", 2) == (
        [], "Since v0002: 0 new clips, 0 changed, none removed.\n",
    )  # fmt: skip
