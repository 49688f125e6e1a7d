"""Files of ours that are something else: no link is written through, no pipe waited for."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus, tiers
from uttermill.flows.cli.command_line import main
from uttermill.flows.run import run_folder
from uttermill.flows.settings import PrepareSettings, parse
from uttermill.tasks import storage
from uttermill.tasks.base.errors import ConfigError, UnsafePlace
from uttermill.tasks.formats import _lists
from uttermill.tasks.publish.published import samples_of
from uttermill.tasks.recording import unreachable
from uttermill.tasks.shard_store import decision_log
from uttermill.tasks.shard_store.decision_log import Decision
from uttermill.tasks.stages import contract
from uttermill.tasks.storage import LOCAL, append_log, lock, regular, urls

SAID = "precious\n"
SAMPLES: Any = {"shard": "x.parquet", "offset": 0}


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """What waits for a pipe fails after a while."""

    def late(*_: object) -> None:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "target"
    path.write_text(SAID)
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def link(path: Path) -> None:
    path.symlink_to("../target")


def dangling(path: Path) -> None:
    path.symlink_to("../made")


def pipe(path: Path) -> None:
    os.mkfifo(path)


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def listening(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def folder(path: Path) -> None:
    path.mkdir()


OTHERS = [link, dangling, pipe, zeros, listening, folder]
Plant = Callable[[Path], None]


def hold(out: Path) -> None:
    with lock.hold(out):
        pass


def decide(out: Path) -> None:
    decision_log.append(out, [Decision("a", "keep")])


@pytest.mark.parametrize("plant", OTHERS)
@pytest.mark.parametrize(
    ("name", "work"), [(".lock", hold), (".lock", lock.refuse_held), ("reviews.jsonl", decide)]
)
def test_what_is_no_file_is_refused_by_name(
    out: Path, target: Path, plant: Plant, name: str, work: Callable[[Path], None]
) -> None:
    plant(out / name)
    with pytest.raises(ConfigError, match=rf"{name} is a \w+.*; remove it"):
        work(out)
    assert target.read_text() == SAID
    assert not (out.parent / "made").exists()
    assert os.path.lexists(out / name)


@pytest.mark.parametrize("plant", [pipe, zeros, listening])
def test_what_is_no_file_is_not_read(out: Path, plant: Plant) -> None:
    plant(out / "x.parquet")
    for read in (
        storage.read, storage.hashed,
        lambda path: LOCAL.arrow(path).__enter__(), lambda path: urls.streamed(str(path)),
        lambda path: unreachable.opened(str(path)), lambda path: next(urls.lines(str(path))),
        lambda path: append_log.read(path, path.parent),
        lambda path: LOCAL.reading(path.parent, [path.name]).__enter__(),
        lambda path: samples_of(path.parent, SAMPLES) or storage.read(path),
        lambda path: _lists.lines(path.parent, path.name),
    ):  # fmt: skip
        with pytest.raises((regular.NotAFile, UnsafePlace, FileNotFoundError)):
            read(out / "x.parquet")
    assert LOCAL.read_all(out) == {}
    with LOCAL.spans(out, []) as read_span:
        if (out / "x.parquet").is_symlink():
            with pytest.raises(UnsafePlace):
                read_span(("x.parquet", 0, 1))
        else:
            assert read_span(("x.parquet", 0, 1)) is None


def test_what_took_the_name_meanwhile_is_neither_followed_nor_waited_for(
    out: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regular, "check", lambda path, follows: None)
    link(out / "a")
    with pytest.raises(OSError, match="symbolic"):
        regular.written(out / "a", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    pipe(out / "b")
    with pytest.raises(regular.NotAFile):
        regular.read(out / "b")
    assert target.read_text() == SAID


@pytest.mark.parametrize("plant", OTHERS)
def test_a_probe_writes_through_nothing(out: Path, target: Path, plant: Plant) -> None:
    plant(out / ".writable")
    LOCAL.check(out)
    assert target.read_text() == SAID
    assert not (out.parent / "made").exists()
    assert os.listdir(out) == [".writable"]


@pytest.mark.parametrize("plant", [link, dangling, pipe, listening])
def test_a_file_that_is_replaced_whole_takes_the_place_of_anything(
    out: Path, target: Path, plant: Plant
) -> None:
    plant(out / "report.html")
    storage.write_atomic(out / "report.html", b"new")
    assert not (out / "report.html").is_symlink()
    assert (out / "report.html").read_bytes() == b"new"
    assert target.read_text() == SAID


@pytest.mark.parametrize("plant", OTHERS)
def test_init_writes_a_file_of_its_own(
    out: Path, target: Path, plant: Plant, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(out / "new.yaml")
    words = ["init", str(out / "new.yaml"), "--for", "vc", "--source", "/in", "--out", "/out"]
    for more in ([], ["--force"]):
        assert main([*words, *more]) == 2
        assert "new.yaml is a " in capsys.readouterr().err
    assert target.read_text() == SAID
    assert not (out.parent / "made").exists()


def settings(tmp_path: Path) -> PrepareSettings:
    source = {"kind": "folder", "path": str(tmp_path)}
    return parse({"sources": [source], "out": str(tmp_path / "out")})


def test_the_log_of_a_run_is_a_new_file(
    tmp_path: Path, out: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = storage.write_atomic

    def quick(path: Path, data: bytes) -> None:
        write(path, data)
        with suppress(FileExistsError):
            (path.parent / "run.log").symlink_to(target)

    monkeypatch.setattr(run_folder, "write_atomic", quick)
    with pytest.raises(FileExistsError), run_folder.record(out, settings(tmp_path)):
        pass
    assert target.read_text() == SAID


def test_leftovers_behind_a_link_are_not_ours(tmp_path: Path, out: Path) -> None:
    other = tmp_path / "other/old"
    other.mkdir(parents=True)
    (other / ".x.tmp").touch()
    (other / run_folder.SETTINGS).touch()
    (out / "runs").symlink_to(other.parent)
    with run_folder.record(out, settings(tmp_path)):
        pass
    assert (other / ".x.tmp").exists()


def test_a_linked_folder_is_no_run(tmp_path: Path, out: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / run_folder.SETTINGS).touch()
    (out / "runs").mkdir()
    (out / "runs/9").symlink_to(other)
    assert list(run_folder.having(out, run_folder.SETTINGS)) == []


def test_what_is_cleared_is_the_link(out: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()
    (out / "scratch").symlink_to(tmp_path / "other")
    LOCAL.clear(out / "scratch")
    assert os.listdir(out) == []
    assert (tmp_path / "other/file").exists()


@pytest.mark.full
@pytest.mark.parametrize(
    ("plant", "stage"),  # a link to another recording is one that changed
    tiers.covering(OTHERS[1:], ["probe", "filter"]),
)
def test_a_recording_that_became_something_else_costs_itself(
    tmp_path: Path, plant: Plant, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.make(tmp_path / "in", 3)
    (tmp_path / "target").write_bytes((tmp_path / "in/r00.wav").read_bytes())
    worker = contract.worker(stage) if stage == "probe" else contract.find(stage)
    compute = worker.compute

    def late(*args: Any) -> object:
        (tmp_path / "in/r01.wav").unlink(missing_ok=True)
        with suppress(FileExistsError):
            plant(tmp_path / "in/r01.wav")
        return compute(*args)

    monkeypatch.setattr(worker, "compute", late)
    done, _ = corpus.run(corpus.job(tmp_path, package={"max_failed_fraction": 1.0}))
    assert done.summary["recordings"] == {"in": 3, "failed": 1}
