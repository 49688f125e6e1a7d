"""A source that is gone, as an unmounted share or a folder that cannot be listed: nothing is
published without it, however large the other sources are; and `plan` says the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_plan import planned
from tests.helpers import corpus
from uttermill.tasks.base.errors import RunError
from uttermill.tasks.settings.job import Job
from uttermill.tasks.sources import folder

SHARD = {"hours": 0.0001, "settle_seconds": 0.0}
LARGE, SMALL = 12, 2


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A version of a large and a small source; the small one alone is within the limit of all."""
    for number in range(LARGE):
        corpus.add(tmp_path / "large/talks", number)
    for number in range(SMALL):
        corpus.add(tmp_path / "small", number, seed=90 + number)
    corpus.run(asked(tmp_path))
    return tmp_path


def asked(home: Path, **package: Any) -> Job:
    sources = [{"kind": "folder", "path": str(home / name), "name": name} for name in NAMES]
    limits = {"max_removed_fraction": 0.2, **package}
    return corpus.job(home, sources=sources, shard=SHARD, package=limits)


NAMES = ("large", "small")


def emptied(home: Path) -> None:
    """As the folder of a share that is not mounted."""
    shutil.rmtree(home / "small")
    (home / "small").mkdir()


def refusal(job: Job) -> str | None:
    """What the plan foresees; the run must say the same."""
    foreseen = planned(job, job)[1].refusal
    if foreseen is None:
        corpus.run(job)
        return None
    with pytest.raises(RunError) as caught:
        corpus.run(job)
    assert str(caught.value) == foreseen
    return foreseen


def test_an_empty_source_is_named(home: Path) -> None:
    emptied(home)
    told = refusal(asked(home))
    assert told is not None
    assert "2 of the 2 recordings of v0001 are gone from the source small" in told
    assert "is a source not mounted?" in told
    assert told.endswith("raise the setting or set package.removed_ok: [small]")
    assert refusal(asked(home, removed_ok=["small"])) is None


@pytest.mark.full
def test_the_night_after(home: Path) -> None:
    """The share is back: the refused run has noted that all is gone, and the plan looks again."""
    shutil.copytree(home / "small", home / "kept")
    emptied(home)
    assert refusal(asked(home)) is not None
    shutil.rmtree(home / "small")
    (home / "kept").rename(home / "small")
    assert refusal(asked(home)) is None


@pytest.mark.nightly
def test_a_source_that_left_the_settings_counts_among_all(home: Path) -> None:
    job = asked(home)
    without = corpus.job(
        home,
        sources=[source.model_dump() for source in job.sources[:1]],
        shard=SHARD,
        package={"max_removed_fraction": 0.2},
    )
    assert refusal(without) is None


def in_place(source: Path) -> None:
    source.rename(source.with_name("renamed.wav"))


def by_copying(source: Path) -> None:
    shutil.copyfile(source, source.with_name("copied.wav"))
    source.unlink()


@pytest.mark.parametrize("rename", [in_place, by_copying])
@pytest.mark.nightly
def test_renamed_files_are_not_gone(home: Path, rename: Callable[[Path], None]) -> None:
    for source in sorted((home / "small").iterdir())[:1]:
        rename(source)
    assert refusal(asked(home)) is None


@pytest.mark.nightly
def test_a_folder_that_cannot_be_listed_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One recording of fourteen lay in it."""
    corpus.add(home / "large/talks/deep", 60)
    corpus.run(asked(home))
    entries = folder._entries

    def refused(path: str) -> Any:
        if path.endswith("/deep"):
            raise PermissionError(13, "Permission denied", path)
        return entries(path)

    monkeypatch.setattr(folder, "_entries", refused)
    told = refusal(asked(home, max_failed_fraction=1.0))
    assert told is not None
    assert "the folder large/talks/deep cannot be listed, and v0002 has 1 recording from it" in told
    assert refusal(asked(home, max_failed_fraction=1.0, removed_ok=["large"])) is None
