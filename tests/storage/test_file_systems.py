"""OUT where links, locks, renames or syncs are missing: what a run does without, or refuses to do
before any work."""

import errno
import fcntl
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus
from uttermill.flows import checks, cli, settings
from uttermill.tasks import storage
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.settings.job import Job
from uttermill.tasks.storage import append_log, lock, owners, regular, versions


def failing(code: int, only: Callable[..., bool] = lambda *_: True, real: Any = None) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        if only(*args):
            raise OSError(code, os.strerror(code))
        return real(*args, **kwargs)

    return call


@pytest.fixture(params=[errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EROFS])
def linkless(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As exFAT, FUSE, SMB and VirtualBox refuse links and changes of modes."""
    for name in ("symlink", "link", "chmod", "fchmod"):
        monkeypatch.setattr(os, name, failing(request.param))


def checked(tmp: Path) -> Job:
    corpus.make(tmp / "in", 2)
    fake = ["transcribe.backend.use=fake"]
    return checks.check(settings.read(None, [str(tmp / "in")], str(tmp / "out"), fake))


def reads_latest(out: Path, capsys: pytest.CaptureFixture[str], number: str) -> None:
    """Every command that is given `latest` takes it for the newest version."""
    latest = out / "datasets/latest"
    assert versions.named(latest) == versions.named(out) == out / "datasets" / number
    assert cli.main(["list", str(latest)]) == 0
    assert f"/datasets/{number}/" in capsys.readouterr().out
    for words in (["verify", latest, "--deep"], ["verify", out]):
        assert cli.main([*map(str, words)]) == 0, words
    capsys.readouterr()


@pytest.mark.usefixtures("linkless")
@pytest.mark.nightly
def test_latest_is_a_small_file_without_links(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked(tmp_path)
    job = corpus.job(tmp_path)
    corpus.run(job)
    latest = job.out / "datasets/latest"
    assert stat.S_ISREG(latest.lstat().st_mode)
    assert latest.read_text() == "v0001"
    reads_latest(job.out, capsys, "v0001")

    corpus.add(tmp_path / "in", 2)
    corpus.run(job)
    assert latest.read_text() == "v0002"
    assert corpus.temps(job.out) == []
    reads_latest(job.out, capsys, "v0002")
    assert [p.name for p in versions.beyond(job.out, 1)] == ["v0001"]

    monkeypatch.undo()  # OUT was copied to a disk that has links
    corpus.add(tmp_path / "in", 3)
    corpus.run(job)
    assert os.readlink(latest) == "v0003"


@pytest.mark.parametrize("text", ["", "../..", "v0009", "v0001/..", "v" + "1" * 5000])
def test_a_file_that_names_no_version_leads_nowhere(tmp_path: Path, text: str) -> None:
    (tmp_path / "datasets/v0001").mkdir(parents=True)
    latest = tmp_path / "datasets/latest"
    latest.write_text(text)
    assert versions.latest(tmp_path) is None
    with pytest.raises(ConfigError, match="does not name a version beside it"):
        versions.named(latest)


LACKS = [
    (fcntl, "flock", errno.ENOSYS, "has no locks (Function not implemented)"),
    (fcntl, "flock", errno.ENOLCK, "has no locks (No locks available)"),
    (os, "replace", errno.ENOSYS, "cannot rename a file over another (Function not implemented)"),
    (os, "rename", errno.EMFILE, "cannot rename a folder (Too many open files)"),
    (os, "pwrite", errno.ENOTSUP, "cannot change a file in place (Operation not supported)"),
    (os, "fsync", errno.EIO, "cannot write a file through to its disk (Input/output error)"),
]


@pytest.mark.parametrize(("owner", "name", "code", "sentence"), LACKS)
def test_what_a_run_cannot_do_without_is_found_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, code: int, sentence: str
) -> None:
    monkeypatch.setattr(owner, name, failing(code))
    with pytest.raises(ConfigError) as refused:
        checked(tmp_path)
    assert sentence in str(refused.value)
    assert f"{tmp_path / 'out'} " in str(refused.value)
    assert ("mount it with locks" if name == "flock" else "by its URL") in str(refused.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_other_commands_say_the_same_of_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", failing(errno.ENOLCK))
    with pytest.raises(ConfigError, match="has no locks"), lock.hold(tmp_path):
        pass
    with pytest.raises(ConfigError, match="has no locks"):
        append_log.append(tmp_path / "reviews.jsonl", tmp_path / "reviews", b"{}\n")


def test_a_folder_that_cannot_be_synced_is_no_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_folder(descriptor: int) -> bool:
        return stat.S_ISDIR(os.fstat(descriptor).st_mode)

    monkeypatch.setattr(os, "fsync", failing(errno.EINVAL, is_folder, os.fsync))
    owners.check(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setattr(os, "fsync", failing(errno.EINVAL))
    with pytest.raises(OSError, match="Invalid argument"):
        regular.fsync(tmp_path / "file")


@pytest.fixture
def exfat() -> Iterator[Path]:
    """A real exFAT, which has neither links nor modes, nor names with `:`."""
    tools = ("mkfs.exfat", "mount.exfat-fuse", "losetup", "fusermount3")
    if os.geteuid() != 0 or not all(map(shutil.which, tools)):
        pytest.skip("needs root, exfatprogs and exfat-fuse")
    home = Path(tempfile.mkdtemp(prefix="exfat-", dir="/tmp"))
    disk, image = home / "disk", home / "image"
    disk.mkdir()
    with image.open("wb") as file:
        file.truncate(400 << 20)
    subprocess.run(["mkfs.exfat", image], check=True, capture_output=True)
    find = ["losetup", "-f", "--show", str(image)]
    device = subprocess.run(find, check=True, capture_output=True, text=True).stdout.strip()
    try:
        subprocess.run(["mount.exfat-fuse", device, disk], check=True, capture_output=True)
        yield disk
    finally:
        subprocess.run(["umount", disk], capture_output=True)
        subprocess.run(["losetup", "-d", device], check=True)
        shutil.rmtree(home)


@pytest.mark.nightly
def test_a_real_disk_without_links(
    exfat: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus.make(tmp_path / "in", 2)
    for number, name in enumerate(('a:b?"<*>|.wav', "Q.wav", "q.wav", "aux.wav", "end. .wav")):
        corpus.add(tmp_path / "in", 2 + number, name=name)  # names that exFAT refuses or folds
    names = ("wenet", "emilia", "webdataset", "kaldi", "nemo", "speechbrain", "lhotse_shar")
    formats = [{"use": name} for name in (*names, "hf_parquet", "wenet_raw")]
    wanted, _ = corpus.run(corpus.job(tmp_path, package={"formats": formats}))
    storage.LOCAL.check(exfat / "out")
    job = corpus.job(tmp_path, out=exfat / "out", package={"formats": formats})
    published, _ = corpus.run(job)
    assert (job.out / "datasets/latest").read_text() == "v0001"
    assert corpus.content(published.path) == corpus.content(wanted.path)
    reads_latest(job.out, capsys, "v0001")
    corpus.add(tmp_path / "in", 8)
    corpus.run(job)
    reads_latest(job.out, capsys, "v0002")
