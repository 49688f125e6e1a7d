"""`uttermill list --since N`: what is new or changed in each format, and what is gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers import corpus
from uttermill.flows import cli

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


def listed(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[list[str], str]:
    """(lines on stdout, what is said on stderr)."""
    capsys.readouterr()
    assert cli.main(["list", *map(str, words)]) == 0
    said = capsys.readouterr()
    return said.out.splitlines(), said.err


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


def test_a_version_that_is_not_there(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", str(out), "--since", "7"]) == 2
    assert "versions there: 1, 2" in capsys.readouterr().err
