"""Runs that are killed anywhere leave nothing half made, and their next runs end in equal bytes."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import corpus
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings.job import Job
from uttermill.tasks.storage import versions

ROOT = Path(__file__).parents[2]


def lose_nothing(
    home: Path, tmp: Path, caplog: pytest.LogCaptureFixture, kills: int, seed: int,
    job_of: Callable[[Path], Job],
) -> None:  # fmt: skip
    """Kill runs over `home`, which holds a version, at as many calls; `job_of`: the same job with
    another OUT."""
    wanted = corpus.content(home / "out/datasets/v0001")
    places = map(str, (home, tmp, kills, seed, "{}"))
    command = [sys.executable, "-m", "tests.helpers.killed", *places]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    ended = json.loads(done.stdout.splitlines()[-1])["ended"]
    assert [*ended.values()] == [signal.SIGKILL] * kills
    for at in ended:
        job = job_of(tmp / f"at{at}")
        for version in versions.all_of(job.out):
            assert verify(version) == [], f"a published half after the kill at call {at}"
        with caplog.at_level(logging.WARNING, "uttermill"):
            published, _ = corpus.run(job)
        assert caplog.text == "", f"a half-written file had its final name after call {at}"
        assert corpus.content(published.path) == wanted, f"other bytes after call {at}"
        assert os.readlink(job.out / "datasets" / "latest") == published.path.name == "v0001"
        assert corpus.temps(job.out) == []
