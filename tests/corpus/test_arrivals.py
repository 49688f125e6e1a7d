"""What is new in a run: its own numbers, and the refusal where most of it is broken."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus
from uttermill.tasks.base.errors import TooManyFailed
from uttermill.tasks.base.json_types import Arrived

LOOSE = {"max_failed_fraction": 1.0}


def broken(folder: Path, count: int) -> None:
    for number in range(count):
        (folder / f"z{number}.wav").write_bytes(b"RIFF" + bytes(range(200)))


def arrive(home: Path, good: int, bad: int) -> None:
    """Files of the second night beside those of the first."""
    for number in range(good):
        corpus.add(home / "in", number, seed=100 + number, name=f"new-r{number:02d}.wav")
    broken(home / "in", bad)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    corpus.make(tmp_path / "in", 4)
    return tmp_path


def run(home: Path, **package: Any) -> Arrived:
    published, _ = corpus.run(corpus.job(home, package={**LOOSE, **package}))
    assert published.arrived is not None
    return published.arrived


def test_the_first_version_is_all_new(home: Path) -> None:
    broken(home / "in", 3)
    new = run(home)
    assert (new["recordings"], new["failed"]) == (7, 3)
    assert new["packaged"] > 0
    again, _ = corpus.run(corpus.job(home, package=LOOSE))
    assert (again.new, again.arrived) == (False, None)


def test_numbers_of_a_night_are_its_own(home: Path) -> None:
    first = run(home)
    arrive(home, good=2, bad=1)
    (home / "in" / "quiet.wav").write_bytes(corpus_silence(home))
    new = run(home)
    assert (new["recordings"], new["failed"]) == (4, 1)
    assert new["dropped"] == 1
    assert 0 < new["packaged"] < first["packaged"] + new["packaged"]


def corpus_silence(home: Path) -> bytes:
    import numpy as np
    import soundfile

    soundfile.write(home / "quiet.wav", np.zeros(32000, np.int16), 16000)
    return (home / "quiet.wav").read_bytes()


def test_a_night_of_broken_files_is_refused(home: Path) -> None:
    run(home)
    arrive(home, good=1, bad=5)
    for _ in range(2):  # another try changes nothing
        with pytest.raises(
            TooManyFailed, match=r"^5 of 6 new recordings failed, more than"
        ) as told:
            run(home)
    assert "package.max_new_failed_fraction (0.5)" in told.value.args[0]
    assert len(told.value.broken) == 5
    assert "z0.wav" in told.value.broken[0]
    assert not (home / "out/datasets/v0002").exists()
    assert run(home, max_new_failed_fraction=0.9) == {
        "recordings": 6, "packaged": 1, "dropped": 0, "failed": 5,
    }  # fmt: skip


def test_one_broken_file_alone_holds_up_no_night(home: Path) -> None:
    run(home)
    broken(home / "in", 1)
    assert run(home)["failed"] == 1


def test_a_source_that_may_be_broken_is_exempt(home: Path) -> None:
    spared = [{"kind": "folder", "path": str(home / "in"), "name": "c", "expect_broken": True}]
    corpus.run(corpus.job(home, sources=spared))
    arrive(home, good=1, bad=5)
    published, _ = corpus.run(corpus.job(home, sources=spared))
    assert published.arrived is not None
    assert published.arrived["failed"] == 5


def test_the_limit_is_in_no_version(home: Path) -> None:
    """So that versions of earlier releases stay as they are."""
    run(home, max_new_failed_fraction=0.4)
    described = json.loads((home / "out/datasets/v0001/dataset.json").read_text())
    assert "max_new_failed_fraction" not in described["settings"]["package"]
