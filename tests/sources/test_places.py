"""Sources and OUT are apart, results are never recordings, and an empty folder is called empty."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus
from uttermill.flows import checks, settings
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.settings.job import Job

FAKE = ["transcribe.backend.use=fake", "shard.settle_seconds=0"]


def asked(source: Path, out: Path, *sets: str) -> Job:
    return checks.check(settings.read(None, [str(source)], str(out), [*FAKE, *sets]))


@pytest.mark.parametrize(
    ("source", "out", "sentence"),
    [
        ("in", "in/out", "lies in the source"),
        ("in", "in", "are one folder"),
        ("all/in", "all", "lies in out"),
        ("all/audio/x", "all", "lies in out"),
        ("in", "link/out", "lies in the source"),
    ],
)
def test_out_and_sources_are_apart(tmp_path: Path, source: str, out: str, sentence: str) -> None:
    corpus.make(tmp_path / source, 1)
    if out.startswith("link"):
        (tmp_path / "link").symlink_to(tmp_path / "in")
    with pytest.raises(ConfigError) as caught:
        asked(tmp_path / source, tmp_path / out)
    assert sentence in str(caught.value)


def test_neighbours_with_alike_names_are_apart(tmp_path: Path) -> None:
    corpus.make(tmp_path / "data", 1)
    assert asked(tmp_path / "data", tmp_path / "data-out")
    corpus.make(tmp_path / "out/corpus", 1)
    assert asked(tmp_path / "out/corpus", tmp_path / "out"), "as the demo has it"


@pytest.mark.full
def test_results_of_any_run_are_never_recordings(tmp_path: Path) -> None:
    """Four clips stayed four, and did not become eight, sixteen and thirty-two."""
    corpus.make(tmp_path / "all/in", 4)
    job = asked(tmp_path / "all/in", tmp_path / "all/prepared", "package.formats=[wenet_raw]")
    corpus.run(job)
    assert [*(tmp_path / "all/prepared/datasets").rglob("*.wav")]
    (tmp_path / "all/later").symlink_to(tmp_path / "all/prepared/datasets")
    clip = next((tmp_path / "all/prepared/datasets").rglob("*.wav"))
    (tmp_path / "all/clip.wav").symlink_to(clip)
    other = asked(tmp_path / "all", tmp_path / "other")
    published, _ = corpus.run(other)
    assert published.summary["recordings"]["in"] == 4
    left = {each.source_path.removeprefix(f"{tmp_path}/"): each.reason for each in
            corpus.surveyed(other).left}  # fmt: skip
    assert left == dict.fromkeys(
        ["all/later", "all/clip.wav", *(f"all/prepared/{name}" for name in
         ("audio", "datasets", "manifests"))],
        "results_of_uttermill",
    )  # fmt: skip
    with pytest.raises(ConfigError, match="holds results of uttermill"):
        asked(clip.parent, tmp_path / "other2")


def test_the_users_own_folders_of_these_names_are_taken(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in/audio", 2)
    corpus.make(tmp_path / "in/datasets/runs", 2)
    published, _ = corpus.run(asked(tmp_path / "in", tmp_path / "out"))
    assert published.summary["recordings"]["in"] == 4


def test_an_empty_folder_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "in/deep").mkdir(parents=True)
    (tmp_path / "in/deep/notes.txt").write_text("no audio")
    with pytest.raises(ConfigError) as caught:
        asked(tmp_path / "in", tmp_path / "out")
    said = str(caught.value)
    assert said.startswith(f"no audio files under {tmp_path}/in; looked for wav, flac, mp3, ")
    (tmp_path / "in/state.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"saved by `save_to_disk`: write each split as Parquet"):
        asked(tmp_path / "in", tmp_path / "out")
    (tmp_path / "in/state.json").unlink()
    (tmp_path / "in/deep/b.SLN").write_bytes(bytes(320))
    with pytest.raises(ConfigError, match=r"deep/b.SLN is not read: a \.sln file has no header"):
        asked(tmp_path / "in", tmp_path / "out")
    (tmp_path / "in/deep/b.SLN").unlink()
    (tmp_path / "in/deep/part.parquet").write_text("")
    with pytest.raises(ConfigError, match=r"more extensions; give the source kind: hf_parquet$"):
        checks.check(settings.parse({
            "sources": [{"kind": "folder", "path": str(tmp_path / "in")}],
            "out": str(tmp_path / "out"), "transcribe": {"backend": {"use": "fake"}},
        }))  # fmt: skip
    (tmp_path / "list.jsonl").write_text("")
    data: dict[str, Any] = {
        "sources": [{"kind": "jsonl", "path": str(tmp_path / "list.jsonl")}],
        "out": str(tmp_path / "out"), "transcribe": {"backend": {"use": "fake"}},
    }  # fmt: skip
    with pytest.raises(ConfigError, match="names no recordings"):
        checks.check(settings.parse(data))


def test_one_empty_folder_beside_others_is_only_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    corpus.make(tmp_path / "in", 1)
    (tmp_path / "later").mkdir()
    sources = [str(tmp_path / "in"), str(tmp_path / "later")]
    with caplog.at_level(logging.WARNING, "uttermill"):
        checks.check(settings.read(None, sources, str(tmp_path / "out"), FAKE))
    assert f"no audio files under {tmp_path}/later" in caplog.text


def test_a_source_that_was_there_and_is_gone_is_not_called_empty(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 2)
    corpus.run(asked(tmp_path / "in", tmp_path / "out"))
    for path in (tmp_path / "in").iterdir():
        path.unlink()
    assert asked(tmp_path / "in", tmp_path / "out"), "max_removed_fraction refuses it, exit 1"


@pytest.mark.nightly
def test_a_folder_in_place_of_the_link_to_the_newest_version_is_refused(tmp_path: Path) -> None:
    """A copy of OUT by a program that follows links: `latest` would stay at the old version."""
    corpus.make(tmp_path / "in", 2)
    corpus.run(corpus.job(tmp_path))
    shutil.copytree(tmp_path / "out", tmp_path / "copy")
    with pytest.raises(ConfigError, match=r"datasets/latest is a folder.* remove that folder"):
        asked(tmp_path / "in", tmp_path / "copy")
    corpus.add(tmp_path / "in", 2)
    with pytest.raises(ConfigError, match="is a folder"):
        corpus.run(corpus.job(tmp_path, out=tmp_path / "copy"))
    shutil.rmtree(tmp_path / "copy/datasets/latest")
    assert asked(tmp_path / "in", tmp_path / "copy")
    corpus.run(corpus.job(tmp_path, out=tmp_path / "copy"))
    assert (tmp_path / "copy/datasets/latest").resolve().name == "v0002"


def test_a_run_from_a_folder_that_is_gone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = corpus.make(tmp_path / "in", 1)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert asked(source, tmp_path / "out")
    (tmp_path / "here").rmdir()
    with pytest.raises(ConfigError, match="cd to one that exists"):
        asked(source, tmp_path / "out")
