"""One truth about a recording: its bytes, wherever a source says that they lie."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus, tiers
from uttermill.tasks.settings.job import Job

COUNT = 6
WORK = ("filter", "resample", "transcribe")


def computed(job: Job) -> dict[str, int]:
    _, counts = corpus.run(job)
    return {name: counts[name][0] for name in WORK}


def listed(tmp: Path, folder: Path, root: Path | None, relative: bool) -> dict[str, Any]:
    """A list of the files of `folder`, in a place of its own."""
    path = tmp / "lists" / "all.jsonl"
    path.parent.mkdir(exist_ok=True)
    names = [p.name if relative else str(p) for p in sorted(folder.glob("*.wav"))]
    path.write_text("".join(json.dumps({"wav": name, "txt": "words"}) + "\n" for name in names))
    more = {"root": str(root)} if root else {}
    return {"kind": "jsonl", "path": str(path), "name": "c", **more}


NOTHING = dict.fromkeys(WORK, 0)


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """A run on a folder."""
    folder = corpus.make(tmp_path / "in", COUNT)
    assert computed(corpus.job(tmp_path)) == dict.fromkeys(WORK, COUNT)
    return folder


@pytest.mark.full
@pytest.mark.parametrize("relative", [True, tiers.nightly(False)])
def test_from_a_folder_to_a_list(tmp_path: Path, before: Path, relative: bool) -> None:
    source = listed(tmp_path, before, before if relative else None, relative)
    job = corpus.job(tmp_path, sources=[source])
    assert computed(job) == NOTHING
    assert computed(job) == NOTHING


@pytest.mark.nightly
def test_to_another_root_and_another_name(tmp_path: Path, before: Path) -> None:
    other = tmp_path / "elsewhere" / "deep"
    other.parent.mkdir()
    shutil.move(before, other)
    assert computed(corpus.job(tmp_path, sources=[listed(tmp_path, other, other, True)])) == NOTHING
    above = {"kind": "folder", "path": str(other.parent), "name": "renamed"}
    published, _ = corpus.run(corpus.job(tmp_path, sources=[above]))
    assert published.summary["utterances"]["packaged"] == COUNT
    assert computed(corpus.job(tmp_path, sources=[above])) == NOTHING


@pytest.mark.full
def test_a_new_root_with_one_more_file_costs_that_file(tmp_path: Path, before: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(before, other)
    corpus.add(other, COUNT)
    source = {"kind": "folder", "path": str(other.parent / "other"), "name": "d"}
    assert computed(corpus.job(tmp_path, sources=[source])) == dict.fromkeys(WORK, 1)


def test_what_is_really_gone_still_refuses(tmp_path: Path, before: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(next(before.glob("*.wav")), other / "x.wav")
    source = {"kind": "folder", "path": str(other), "name": "d"}
    with pytest.raises(Exception, match=f"{COUNT - 1} of the {COUNT} recordings"):
        corpus.run(corpus.job(tmp_path, sources=[source]))
