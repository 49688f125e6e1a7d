"""OUT's lock: exclusive between processes, and gone with its owner."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from uttermill.tasks.base.errors import ConfigError, OutLocked, RunError
from uttermill.tasks.storage import lock, owners
from uttermill.tasks.storage.lock import hold, refuse_held

OWNER = """
import sys, time
from pathlib import Path
from uttermill.tasks.storage.lock import hold
with hold(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def other_run(out: Path) -> subprocess.Popen[str]:
    """Another process that holds OUT."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(out)], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == "held\n"
    return owner


def end(owner: subprocess.Popen[str]) -> None:
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert owner.stdout is not None
    owner.stdout.close()


def test_a_second_run_is_told_who_holds_it_and_a_killed_one_holds_nothing(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    owner = other_run(out)
    try:
        with pytest.raises(OutLocked) as refusal, hold(out):
            pass
        text = str(refusal.value)
        assert f"process {owner.pid} on {os.uname().nodename}" in text
        assert re.search(r"since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", text)
        with pytest.raises(OutLocked, match=re.escape(text)):
            refuse_held(out)
    finally:
        end(owner)
    refuse_held(out)  # the kill -9 above released it
    with hold(out):
        pass


def test_one_run_after_another(tmp_path: Path) -> None:
    for _ in range(2):
        with hold(tmp_path):
            assert str(os.getpid()) in (tmp_path / ".lock").read_text()
    assert (tmp_path / ".lock").read_text() == ""


@pytest.mark.parametrize("what", ["moved", "replaced", "its lock removed"])
def test_an_out_that_is_another_folder_by_now_is_not_published_into(
    tmp_path: Path, what: str
) -> None:
    out = tmp_path / "out"
    with hold(out):
        lock.check(out)
        if what == "its lock removed":
            (out / ".lock").unlink()
        else:
            out.rename(tmp_path / "moved")
        if what == "replaced":
            shutil.copytree(tmp_path / "moved", out)
        with pytest.raises(RunError, match=f"{out} was moved, removed or replaced"):
            lock.check(out)
    lock.check(out)


def test_it_is_released_when_the_run_fails(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="failed"), hold(tmp_path):
        raise ValueError("failed")
    with hold(tmp_path):
        pass


@pytest.mark.parametrize("gone", ["", "gone/file"])
def test_who_is_refused_is_told_of_the_nearest_owner(tmp_path: Path, gone: str) -> None:
    error = PermissionError(errno.EACCES, "Permission denied", str(tmp_path / gone))
    said = owners.told(error, "elsewhere")
    assert f"Permission denied: {tmp_path} belongs to " in said
    assert said.endswith("; chmod it")
    assert owners.told(OSError(errno.EIO, "Input/output error"), tmp_path) == "Input/output error"


def test_a_place_that_cannot_be_written_is_a_settings_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write"), hold(tmp_path / "file" / "out"):
        pass
