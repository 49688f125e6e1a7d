"""OUT's lock: exclusive between processes, and gone with its owner."""

import errno
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from uttermill.tasks.base.errors import ConfigError, OutLocked, RunError
from uttermill.tasks.storage import lock, owners, temporary
from uttermill.tasks.storage.lock import hold, refuse_held
from uttermill.tasks.storage.temporary import LOCK, MARK, PREFIX, scratch

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


# Temporary folders in a TMPDIR that others share: nothing of anybody else's is removed or used.

NOBODY = 65534
DEAD = f"{PREFIX}dead"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


@pytest.fixture(autouse=True)
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A TMPDIR."""
    home = tmp_path / "tmp"
    home.mkdir()
    home.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(home))
    return home


def left(folder: Path) -> Path:
    """A folder as a killed process leaves it, with something in it."""
    (folder / "deep").mkdir(parents=True)
    (folder / "deep/file").touch()
    (folder / "precious").touch()
    (folder / LOCK).write_bytes(MARK)
    return folder


def sweep() -> None:
    with scratch():
        pass


def test_what_a_killed_process_left_goes_and_what_its_links_name_stays(
    shared: Path, tmp_path: Path
) -> None:
    victim, dead = left(tmp_path / "victim"), left(shared / DEAD)
    (dead / "link").symlink_to(victim)
    (dead / "deep/link").symlink_to(victim)
    sweep()
    assert list(shared.iterdir()) == []
    assert (victim / "deep/file").exists()


def test_it_is_its_users_alone_whatever_the_umask(shared: Path) -> None:
    before = os.umask(0)
    try:
        with scratch() as one, scratch() as other:
            assert one != other
            assert {stat.S_IMODE(each.stat().st_mode) for each in (one, other)} == {0o700}
    finally:
        os.umask(before)
    assert list(shared.iterdir()) == []


def linked(victim: Path, place: Path) -> None:
    place.symlink_to(victim)


def unmarked(victim: Path, place: Path) -> None:
    left(place)
    (place / LOCK).unlink()
    os.utime(place, (0, 0))


def marked_otherwise(victim: Path, place: Path) -> None:
    (left(place) / LOCK).write_bytes(MARK + b"x")


def marked_by_a_link(victim: Path, place: Path) -> None:
    (left(place) / LOCK).unlink()
    (place / LOCK).symlink_to(victim / LOCK)


def marked_by_a_pipe(victim: Path, place: Path) -> None:
    (left(place) / LOCK).unlink()
    os.mkfifo(place / LOCK)


def a_file(victim: Path, place: Path) -> None:
    place.write_bytes(MARK)


def of_another(victim: Path, place: Path) -> None:
    for path in (left(place), place / LOCK, place / "precious"):
        os.chown(path, NOBODY, NOBODY)
    place.chmod(0o777)


def marked_by_another(victim: Path, place: Path) -> None:
    os.chown(left(place) / LOCK, NOBODY, NOBODY)


@pytest.mark.parametrize(
    "plant",
    [
        linked, unmarked, marked_otherwise, marked_by_a_link, marked_by_a_pipe, a_file,
        pytest.param(of_another, marks=as_root), pytest.param(marked_by_another, marks=as_root),
    ],
)  # fmt: skip
def test_what_we_did_not_make_is_left_alone(
    shared: Path, tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    victim, place = left(tmp_path / "victim"), shared / DEAD
    plant(victim, place)
    os.utime(victim, (0, 0))
    sweep()
    for folder in (victim, place):
        assert os.path.lexists(folder)
        assert not folder.is_dir() or (folder / "deep/file").exists()


def test_a_folder_that_is_swapped_for_a_link_meanwhile_leads_nowhere(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, dead = left(tmp_path / "victim"), left(shared / DEAD)
    empty = temporary._empty
    swapped: list[Path] = []

    def swap(folder: int) -> None:
        if not swapped:
            swapped.append(dead.rename(shared / "aside"))
            dead.symlink_to(victim)
        empty(folder)

    monkeypatch.setattr(temporary, "_empty", swap)
    sweep()
    assert list((shared / "aside").iterdir()) == []  # what was looked at was emptied
    assert dead.is_symlink()
    assert (victim / "deep/file").exists()


def test_folders_are_removed_without_following_links() -> None:
    assert shutil.rmtree.avoids_symlink_attacks


SWEEP_AS = """
import os, sys, tempfile
from uttermill.tasks.storage.temporary import scratch
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
with scratch() as folder:
    print(folder.stat().st_uid)
"""


@as_root
def test_an_ordinary_user_is_not_led_astray_by_others() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # pytest's own folders are root's alone
        home = Path(name)
        home.chmod(0o1777)
        mine = left(home / DEAD)
        for path in (mine, *mine.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        squatted = left(home / f"{PREFIX}squatted")
        for path in (squatted, *squatted.rglob("*")):
            path.chmod(0o777)
        victim = left(home / "victim")
        os.chown(victim, NOBODY, NOBODY)
        (home / f"{PREFIX}link").symlink_to(victim)
        done = subprocess.run(
            [sys.executable, "-c", SWEEP_AS, str(NOBODY)], env={**os.environ, "TMPDIR": name},
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.stdout == f"{NOBODY}\n", done.stderr
        names = {path.name for path in home.iterdir()}
        assert names == {squatted.name, "victim", f"{PREFIX}link"}
        assert (squatted / "deep/file").exists()
        assert (victim / "deep/file").exists()
