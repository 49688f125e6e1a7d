"""Two users of one group work in one OUT, and who may not is told who owns what; umasks hold."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import corpus

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")

GROUP, ANN, BOB = 7700, 7701, 7702
SETTINGS = ("transcribe.backend.use=fake", "filter.segmenter.use=whole", "cluster.workers=1",
            "history=none", "shard.settle_seconds=0")  # fmt: skip
#: The interpreter may lie below root's home: these users may read everything, and write nothing
#: that is not theirs.
READS = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that the group shares; pytest's own are root's alone."""
    folder = Path(tempfile.mkdtemp(prefix="two-users-", dir="/tmp"))
    folder.chmod(0o755)
    corpus.make(folder / "in", 4)
    (folder / "out").mkdir()
    os.chown(folder / "out", ANN, GROUP)
    (folder / "out").chmod(0o2775)
    yield folder
    shutil.rmtree(folder)


def act(user: int, umask: int, *words: str, group: int = GROUP) -> subprocess.CompletedProcess[str]:
    """The command `uttermill`, by a user."""
    who = ["setpriv", "--reuid", str(user), "--regid", str(group), "--clear-groups", *READS, "--"]
    command = [*who, sys.executable, "-m", "uttermill.flows.cli", *words]
    with tempfile.TemporaryDirectory(dir="/tmp") as own:
        os.chown(own, user, group)
        environment = {**os.environ, "HOME": own, "TMPDIR": own}
        return subprocess.run(
            command, env=environment, umask=umask, capture_output=True, text=True, timeout=120
        )


def run(home: Path, user: int, umask: int, group: int = GROUP) -> subprocess.CompletedProcess[str]:
    sets = [word for each in SETTINGS for word in ("--set", each)]
    places = ["--source", str(home / "in"), "--out", str(home / "out")]
    return act(user, umask, "run", *places, *sets, "--json", group=group)


def decide(home: Path, user: int, umask: int) -> subprocess.CompletedProcess[str]:
    (home / str(user)).write_text(json.dumps({"id": str(user), "decision": "keep"}))
    return act(user, umask, "review", "import", str(home / str(user)), str(home / "out"))


def modes(out: Path) -> dict[str, set[int]]:
    """Of all files, and of all folders, in an OUT."""
    found: dict[str, set[int]] = {"file": set(), "folder": set()}
    for path in out.rglob("*"):
        if not path.is_symlink():
            kind = "folder" if path.is_dir() else "file"
            found[kind].add(stat.S_IMODE(path.stat().st_mode))
    return found


@pytest.mark.nightly
def test_a_group_shares_an_out(home: Path) -> None:
    for number, user in enumerate((ANN, BOB, ANN), 1):
        corpus.add(home / "in", 4 + number)
        done = run(home, user, 0o002)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["version"] == number
        assert decide(home, user, 0o002).returncode == 0
    out = home / "out"
    assert len((out / "reviews.jsonl").read_text().splitlines()) == 3
    assert {path.lstat().st_gid for path in out.rglob("*")} == {GROUP}
    assert modes(out) == {"file": {0o664}, "folder": {0o2775}}


@pytest.mark.full
def test_a_umask_holds_for_everything(home: Path) -> None:
    umask = 0o077
    (home / "out").chmod(0o755)
    assert run(home, ANN, umask).returncode == 0
    assert decide(home, ANN, umask).returncode == 0
    assert modes(home / "out") == {"file": {0o666 & ~umask}, "folder": {0o777 & ~umask}}


@pytest.mark.nightly
def test_who_may_not_write_is_told_who_owns_what(home: Path) -> None:
    assert run(home, ANN, 0o022).returncode == 0
    assert decide(home, ANN, 0o022).returncode == 0
    for done, path in (
        (run(home, BOB, 0o002), r"out/(audio|runs|datasets|manifests)"),
        (decide(home, BOB, 0o002), r"out/reviews\.jsonl"),
        (run(home, BOB, 0o002, group=BOB), "out"),
    ):
        assert done.returncode == 2, done
        said = done.stderr.splitlines()[-1]
        whose = rf"Permission denied: \S*/{path} belongs to user {ANN}, group {GROUP}, with mode "
        assert re.search(whose, said), said
        assert f"you are user {BOB}" in said
