"""OUT and sources on a real S3 server, in one process: the same bytes, the same laws."""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from tests.helpers import corpus
from tests.helpers.s3_server import BUCKET, S3
from uttermill.flows import settings
from uttermill.flows.run import run_folder
from uttermill.tasks import storage
from uttermill.tasks.base.environment import setting
from uttermill.tasks.base.errors import ConfigError, OutLocked, RunError
from uttermill.tasks.publish import package
from uttermill.tasks.publish.upkeep import checkpoints, prune
from uttermill.tasks.publish.upkeep.prune import KeptSettings
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings import PackageSettings
from uttermill.tasks.settings.job import Job
from uttermill.tasks.storage import OBJECTS, lease, lock, objects, tables, urls, versions
from uttermill.tasks.storage.lock import hold
from uttermill.tasks.storage.objects import Objects, read_spans

FORMATS = ("wenet", "lhotse_shar", "nemo", "kaldi", "emilia", "hf_parquet", "wenet_raw",
           "webdataset", "mds", "litdata", "lance")  # fmt: skip


@pytest.fixture(autouse=True)
def account(s3: S3) -> Iterator[None]:
    with setting(s3.environment):
        yield
    urls.close_all()


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """A folder of this test's own in the bucket."""
    return f"s3://{BUCKET}/{request.node.name.replace('[', '-').replace(']', '')}"


@pytest.fixture
def job(tmp_path: Path) -> Job:
    corpus.make(tmp_path / "in")
    return corpus.job(tmp_path)


def remote(job: Job, url: str) -> Job:
    return replace(job, out=storage.place(url))


def version(s3: S3, out: str, number: int = 1) -> dict[str, bytes]:
    return s3.content(f"{out}/datasets/v{number:04d}")


# Places


def test_a_url_is_a_place_and_a_path_stays_a_path(tmp_path: Path) -> None:
    place = storage.place(f"s3://{BUCKET}/a/./b/../c//")
    assert (str(place), place.name) == (f"s3://{BUCKET}/a/c", "c")
    assert str(place / "x" / "y") == f"s3://{BUCKET}/a/c/x/y"
    assert storage.store_of(place).remote
    for text in (str(tmp_path / "x"), f"file://{tmp_path}/x"):
        assert storage.place(text) == tmp_path / "x"
        assert not storage.store_of(storage.place(text)).remote


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("s3://name:secret@bucket/out", "holds credentials"),
        ("https://host/a?X-Amz-Signature=abc", "holds credentials"),
        ("s3:///out", "does not name a bucket"),
        ("gs://bucket/out", "needs a library"),
    ],
)
def test_a_url_that_cannot_be_used_is_a_settings_error(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refusal:
        storage.place(text)
    assert "secret" not in str(refusal.value)
    assert "abc" not in str(refusal.value)


def test_without_the_extra_the_sentence_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.split(".")[0] in ("s3fs", "upath")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "upath", None)
    with pytest.raises(ConfigError, match=r"pip install 'uttermill\[s3\]'"):
        storage.place("s3://bucket/out")


# Objects


def test_an_object_is_put_once(url: str) -> None:
    path = storage.place(url) / "x"
    OBJECTS.put(path, b"one", exclusive=True)
    with pytest.raises(FileExistsError):
        OBJECTS.put(path, b"two", exclusive=True)
    assert storage.read(path) == b"one"


def test_an_upload_that_comes_twice_does_no_harm_and_another_one_is_refused(
    url: str, tmp_path: Path
) -> None:
    out = storage.place(url)
    (tmp_path / "x").write_bytes(b"one")
    for _ in range(2):
        OBJECTS.upload_all(tmp_path, out)
    (tmp_path / "x").write_bytes(b"two")
    with pytest.raises(RunError, match="holds something else"):
        OBJECTS.upload_all(tmp_path, out)
    assert storage.read(out / "x") == b"one"


def test_what_is_large_is_put_once_too(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In several parts, as s3fs puts what is over 100 MiB: the condition holds for the whole."""
    monkeypatch.setattr("s3fs.core.calculate_chunksize", lambda *args, **kwargs: 5 << 20)
    (tmp_path / "x").write_bytes(b"1" * (11 << 20))
    out = storage.place(url)
    OBJECTS.upload_all(tmp_path, out)
    (tmp_path / "x").write_bytes(b"2" * (11 << 20))
    with pytest.raises(RunError, match="holds something else"):
        OBJECTS.upload_all(tmp_path, out)


def test_a_large_staged_file_is_not_held_in_memory(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = storage.place(url)
    read: list[int] = []

    def put(store: Objects, path: Path, data: bytes, exclusive: bool = False) -> None:
        read.append(len(data))

    monkeypatch.setattr(objects, "IN_MEMORY", 1000)
    monkeypatch.setattr(Objects, "put", put)
    with storage.store_of(place).staged(place) as (handle, publish):
        handle.write(b"abc" * 1000)
        path = publish(lambda digest: f"{digest}.pcm")
    assert storage.read(path) == b"abc" * 1000
    assert not read


def test_ranges_of_objects(url: str) -> None:
    out = storage.place(url)
    OBJECTS.put(out / "x", bytes(range(100)))
    wanted = [("x", 10, 12), ("gone", 0, 4), ("x", 98, 104), ("x", 200, 300)]
    assert read_spans(out, wanted) == [b"\n\x0b", None, b"bc", b""]


def test_names_that_look_like_patterns(url: str) -> None:
    out = storage.place(url)
    for name in ("a[1].wav", "a*.wav", "a?.wav", "aa.wav"):
        OBJECTS.put(out / name, name.encode())
    storage.remove(out / "a*.wav")
    assert [p.name for p in storage.names(out)] == ["a?.wav", "a[1].wav", "aa.wav"]
    assert {n: storage.read(out / n) for n in OBJECTS.tree(out)} == {
        n: n.encode() for n in ("a?.wav", "a[1].wav", "aa.wav")
    }
    OBJECTS.remove_tree(out)
    assert OBJECTS.tree(out) == []


def test_a_copy_is_of_what_is_there_now_and_leaves_no_file(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A folder of its own: other processes make and remove files in the shared one meanwhile.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = storage.place(url) / "x"
    for content in (b"first", b"other"):
        OBJECTS.put(path, content)
        with urls.fetched(str(path)) as whole, urls.fetched(str(path), 1, 2) as part:
            assert (whole.read(), part.read()) == (content, content[1:3])
        with tables.arrow(path) as file:
            assert file.read() == content
    assert list(tmp_path.iterdir()) == []


# A whole line


@pytest.mark.nightly
def test_a_version_is_byte_for_byte_that_of_a_folder(s3: S3, url: str, job: Job) -> None:
    """All formats; then nothing to do; then one recording more."""
    chosen = {"formats": FORMATS, "splits": {"dev": 0.3}}
    job = replace(job, package=PackageSettings.model_validate(chosen))
    there = remote(job, url)
    corpus.run(job)
    published, _ = corpus.run(there)
    assert str(published.path) == f"{url}/datasets/v0001"
    assert version(s3, url) == corpus.content(job.out / "datasets/v0001")
    assert s3.content(url)["datasets/latest"] == b"v0001"

    again, counts = corpus.run(there)
    assert not again.new
    assert {computed for computed, _ in counts.values()} == {0}

    corpus.add(Path(job.sources[0].path), 10)
    at_home, _ = corpus.run(job)
    grown, counts = corpus.run(there)
    assert counts["filter"] == (1, 10)
    assert (grown.written, grown.linked) == (at_home.written, at_home.linked)
    assert grown.linked
    assert version(s3, url, 2) == corpus.content(job.out / "datasets/v0002")
    assert version(s3, url) == corpus.content(job.out / "datasets/v0001")
    assert verify(versions.named(there.out)) == []
    assert checkpoints.verify(there.out).faults == []


@pytest.mark.full
def test_verify_names_every_fault(s3: S3, url: str, job: Job) -> None:
    place = corpus.run(remote(job, url))[0].path
    tar = "wenet/train/shards_000000000.tar"
    whole = storage.read(place / tar)
    OBJECTS.put(place / tar, whole[:600] + bytes([whole[600] ^ 1]) + whole[601:])
    assert any(f"{tar} is not the file" in fault for fault in verify(place))
    storage.remove(place / tar)
    assert any(f"{tar} is missing" in fault for fault in verify(place))
    OBJECTS.put(place / tar, whole)
    OBJECTS.put(place / "more", b"")
    assert verify(place) == ["more is there, but dataset.json does not name it"]
    storage.remove(place / "more")
    assert verify(place) == []


@pytest.mark.nightly
def test_a_tar_that_was_written_over_is_not_copied_on(s3: S3, url: str, job: Job) -> None:
    there = remote(job, url)
    first = corpus.run(there)[0].path
    tar = "wenet/train/shards_000000000.tar"
    whole = storage.read(first / tar)
    OBJECTS.put(first / tar, bytes([whole[0] ^ 1]) + whole[1:])
    corpus.add(Path(job.sources[0].path), 10)
    second, _ = corpus.run(there)
    assert second.linked == 0
    assert storage.read(second.path / tar) == whole
    assert verify(second.path) == []


@pytest.mark.nightly
def test_prune_takes_versions_and_what_was_left(s3: S3, url: str, job: Job) -> None:
    there = remote(job, url)
    for number in (10, 11, 12):
        corpus.add(Path(job.sources[0].path), number)
        corpus.run(there)
    OBJECTS.put(there.out / "datasets" / "v0009" / "half", b"of it")
    kept = prune.kept_versions(there.out, 1)
    asked = [KeptSettings(there, "")]
    planned = prune.plan(there.out, kept, asked)
    told = planned.as_dict()
    assert told["versions"] == ["v0001", "v0002"]
    assert told["kinds"]["versions"]["bytes"] == sum(
        len(data) for n in (1, 2) for data in version(s3, url, n).values()
    )
    prune.carry_out(planned)
    assert [path.name for path in versions.all_of(there.out)] == ["v0003"]
    assert {name.split("/")[1] for name in s3.content(url) if "datasets/v" in name} == {"v0003"}
    assert verify(versions.named(there.out)) == []


# Two runs


@pytest.mark.nightly
def test_a_number_that_is_published_meanwhile_is_not_written_over(
    s3: S3, url: str, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = remote(job, url)
    real = Objects.put

    def late(store: Objects, path: Path, data: bytes, exclusive: bool = False) -> None:
        if path.name == "dataset.json" and exclusive:
            real(store, path, b"{}")  # of another run, a moment before
        real(store, path, data, exclusive)

    monkeypatch.setattr(Objects, "put", late)
    with pytest.raises(RunError, match="another run has published v0001"):
        corpus.run(there)
    assert version(s3, url)["dataset.json"] == b"{}"


@pytest.mark.parametrize("waits", [True, False], ids=["while it renews", "between renewals"])
def test_a_store_that_hangs_does_not_hold_up_the_end(
    waits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked, answer = threading.Event(), threading.Event()

    def newest(out: Path) -> int:
        asked.set()
        answer.wait(60)
        return 1

    written: list[dict[str, Any]] = []
    monkeypatch.setattr(lease, "RENEW", 0.01 if waits else 60.0)
    monkeypatch.setattr(lease, "LEASE", 0.2)
    monkeypatch.setattr(lease, "_newest", newest)
    monkeypatch.setattr(lease, "_write", lambda out, number, owner: written.append(owner))
    held = lease.Lease(tmp_path, 1, {})
    if waits:
        assert asked.wait(10)
    held.end()
    assert "was not released" in caplog.text
    answer.set()
    held._thread.join(10)
    assert written[-1]["ended"], "it answers again"


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_run_that_ends_because_its_store_is_away_asks_it_for_nothing_more(
    elsewhere: bool, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request would take as many tries as the one that failed: some ten seconds."""
    out, asked = storage.place(url), list[str]()
    chosen = settings.of_mapping({"sources": [{"kind": "folder", "path": "/in"}], "out": url})

    def noted(name: str, real: Any) -> Any:
        def request(*args: Any, **how: Any) -> Any:
            asked.append(name)
            return real(*args, **how)

        return request

    def fails() -> None:
        with lock.hold(out), run_folder.record(out, chosen) as run, run.failing():
            for name in ("put", "read", "names", "exists", "upload_all", "upload"):
                monkeypatch.setattr(Objects, name, noted(name, getattr(Objects, name)))
            away = "s3://other" if elsewhere else url
            raise storage.Away(f"{away}/audio/x.pcm cannot be reached: timed out")

    with pytest.raises(storage.Away):
        fails()
    assert (asked == []) != elsewhere


@pytest.mark.full
def test_a_put_whose_answer_is_lost_is_found_again(
    s3: S3, url: str, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library puts it once more, and is told that it is there."""
    there = remote(job, url)
    real = Objects.put
    lost: list[str] = []

    def put(store: Objects, path: Path, data: bytes, exclusive: bool = False) -> None:
        real(store, path, data, exclusive)
        if exclusive and path.name not in lost:
            lost.append(path.name)
            raise FileExistsError(str(path))

    monkeypatch.setattr(Objects, "put", put)
    with hold(there.out):
        assert verify(corpus.run(there)[0].path) == []
    assert lost == ["00000001", "dataset.json"]


# The lock


def foreign(**facts: Any) -> lease.Owner:
    """An owner on another machine, whose process nobody sees from here."""
    owner = {"pid": 1, "host": "far", "since": "then", "command": "uttermill", "machine": "far"}
    return cast(lease.Owner, {**owner, "token": "t", **facts})


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEW", 0.1)
    monkeypatch.setattr(lease, "LEASE", 1.0)


def test_one_at_a_time_and_one_after_another(url: str) -> None:
    out = storage.place(url)
    for _ in range(2):
        with hold(out):
            mine = f"process {os.getpid()} on {os.uname().nodename}"
            with pytest.raises(OutLocked, match=mine), hold(out):
                pass
            with pytest.raises(OutLocked, match=mine):
                lock.refuse_held(out)
            lock.check(out)
        lock.refuse_held(out)
    assert len(storage.names(out / ".lock")) == 1


@pytest.mark.full
def test_a_dead_process_of_this_machine_holds_nothing(url: str) -> None:
    out = storage.place(url)
    code = (
        "import sys, time\nfrom uttermill.tasks.storage.lock import hold\n"
        "from uttermill.tasks import storage\n"
        "with hold(storage.place(sys.argv[1])):\n print('held', flush=True)\n time.sleep(60)"
    )
    owner = subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    try:
        assert owner.stdout.readline() == "held\n"
        with pytest.raises(OutLocked, match=f"process {owner.pid}"), hold(out):
            pass
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()
    with hold(out):  # at once: its process is seen to be gone
        pass


@pytest.mark.usefixtures("quick")
def test_an_owner_elsewhere_lives_while_it_renews(url: str) -> None:
    out = storage.place(url)
    over = threading.Event()

    def renew() -> None:
        beat = 0
        while not over.wait(0.1):
            beat += 1
            lease._write(out, 1, foreign(beat=beat))

    lease._write(out, 1, foreign())
    owner = threading.Thread(target=renew)
    owner.start()
    try:
        with pytest.raises(OutLocked, match="process 1 on far, since then"), hold(out):
            pass
    finally:
        over.set()
        owner.join()
    with hold(out):  # after a lease without a renewal
        assert lease._newest(out) == 2


@pytest.mark.full
@pytest.mark.usefixtures("quick")
def test_a_run_that_has_lost_its_lock_publishes_nothing(
    s3: S3, url: str, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = remote(job, url)
    real = package.publish

    def publish(job: Job, *given: Any) -> Path:
        lease._write(job.out, 2, foreign(), exclusive=True)  # it was thought dead
        OBJECTS.put(job.out / "datasets" / "v0001" / "theirs", b"of the new owner")
        return real(job, *given)

    monkeypatch.setattr(package, "publish", publish)
    refusal = r"another run may hold|does not hold what was written"
    with pytest.raises(RunError, match=refusal), hold(there.out):
        corpus.run(there)
    assert versions.newest(there.out) is None
    assert "theirs" in version(s3, url)  # nothing of the new owner was removed
    assert lease._read(there.out, 2) == foreign()


def test_a_store_without_conditional_puts_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Objects.put
    monkeypatch.setattr(
        Objects, "put", lambda store, path, data, exclusive=False: real(store, path, data)
    )
    with pytest.raises(ConfigError, match="If-None-Match"), hold(storage.place(url)):
        pass


def test_no_process_and_no_thread_is_left(url: str) -> None:
    with hold(storage.place(url)):
        assert any(t.name == "lease" for t in threading.enumerate())
    assert not any(t.name == "lease" for t in threading.enumerate())
    weeds = [p for p in psutil.Process().children() if p.name() == "weed"]
    assert len(weeds) == 1  # the server of the tests alone


@pytest.mark.full
def test_settings_name_no_account(s3: S3, url: str, job: Job) -> None:
    there = remote(job, url)
    corpus.run(there)
    account = s3.environment["AWS_SECRET_ACCESS_KEY"].encode()
    assert not [name for name, data in s3.content(url).items() if account in data]
    assert json.loads(version(s3, url)["dataset.json"])["version"] == 1
