"""A source that is gone, as an unmounted share or a folder that cannot be listed: nothing is
published without it, however large the other sources are; and `plan` says the same."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_plan import planned
from tests.helpers import corpus, tiers
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
    assert refusal(asked(home)) == told, "the refused run has noted it"
    assert refusal(asked(home, removed_ok=["small"])) is None
    assert refusal(asked(home)) is None, "the newest version lacks them"


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


# One truth about a recording: its bytes, wherever a source says that they lie.


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
