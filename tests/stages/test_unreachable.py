"""A disk, a share or a right that fails for a while: its recordings are read again, in the run and
by the next one, and a source that cannot be read publishes nothing."""

import errno
import io
import os
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile as sf

from tests.cli.test_plan import planned
from tests.helpers import corpus, tiers
from uttermill.flows.cli.show import runs as shown
from uttermill.flows.run import execute
from uttermill.tasks import audio, pipeline
from uttermill.tasks.base.errors import ItemError, RunError
from uttermill.tasks.recording import Locator, container, guard, unreachable
from uttermill.tasks.runs.executor import Executor, Observer
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import manifest
from uttermill.tasks.stages import stage
from uttermill.tasks.storage import Away, store_errors, urls

SPARED = {"package": {"max_failed_fraction": 1.0}}
Opens = Callable[..., io.FileIO]


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses are noted instead of made."""
    made: list[float] = []
    monkeypatch.setattr("uttermill.tasks.recording.unreachable.time.sleep", made.append)
    monkeypatch.setattr(unreachable, "patience", unreachable.Patience())
    return made


class Share:
    """Opens files as a share does that fails: those of which the path has one of `broken`'s
    patterns, from its nth open on and beyond a byte; `times`: how many of their reads fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broken: dict[str, int] = {}  # pattern: number of the error
        self.refused: dict[str, int] = {}  # the same of opening
        self.first, self.beyond, self.times = 1, 0, 1 << 30
        self.opens: dict[str, int] = {}
        monkeypatch.setattr(container, "open", self.open, raising=False)

    def heal(self) -> None:
        self.broken, self.refused = {}, {}

    def open(self, path: str, mode: str, buffering: int, opener: Any) -> io.FileIO:
        self.opens[path] = self.opens.get(path, 0) + 1
        self._fail(self.refused, path)
        share, late = self, self.opens[path] >= self.first

        class File(io.FileIO):
            def read(self, size: int | None = -1) -> bytes:
                found = super().read(size)
                if late and self.tell() > share.beyond:
                    share._fail(share.broken, path)
                return found

            def readinto(self, buffer: Any) -> int:
                count = super().readinto(buffer)
                if late and self.tell() > share.beyond:
                    share._fail(share.broken, path)
                return count

        return File(path, mode, opener=opener)

    def _fail(self, patterns: dict[str, int], path: str) -> None:
        for pattern, number in patterns.items():
            if re.search(pattern, path) and self.times:
                self.times -= 1
                raise OSError(number, os.strerror(number), path)


@pytest.fixture
def share(monkeypatch: pytest.MonkeyPatch) -> Share:
    return Share(monkeypatch)


def encoded(folder: Path, kind: str) -> Path:
    """20 s: longer than what a decoder reads at once."""
    path = folder / f"x.{kind}"
    path.parent.mkdir(exist_ok=True)
    sf.write(path, corpus.speech(1, 20, 16000), 16000)
    return path


@pytest.mark.parametrize("kind", ["wav", "flac", "mp3", "ogg", "aiff", "au"])
@pytest.mark.parametrize("beyond", [0, 20_000])
def test_no_decoder_hides_a_failed_read(
    share: Share, tmp_path: Path, kind: str, beyond: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """libsndfile and FFmpeg take the place for the end of the file, or for damage."""
    locator = Locator(str(encoded(tmp_path, kind)))
    sound = audio.read_span(locator, 0, 16000)
    share.broken, share.beyond = {r"/x\.": errno.EIO}, beyond
    with pytest.raises(ItemError) as caught, audio.open_stream(locator) as stream:
        for _ in stream.blocks():
            pass
    assert caught.value.code == "unreachable"
    assert caught.value.detail == "it cannot be read (Input/output error)"
    share.heal()
    assert (audio.read_span(locator, 0, 16000) == sound).all()
    assert capfd.readouterr().err == ""


def test_a_part_of_a_file_tells_it_too(share: Share, tmp_path: Path) -> None:
    path = encoded(tmp_path, "wav")
    share.broken = {r"/x\.": errno.ESTALE}
    for locator in (Locator(str(path), offset=0, length=9000), Locator(str(path))):
        with pytest.raises(ItemError, match="unreachable: it cannot be read"):
            audio.digest(locator)
        with pytest.raises(ItemError, match="unreachable: it cannot be read"):
            audio.probe(locator)


def run(job: Job) -> tuple[dict[str, Any], dict[str, tuple[int, int]]]:
    ended = pipeline.run(job, Executor(), Observer())
    return execute.result_of(job, ended), corpus.counts(ended.totals.stages)


@pytest.mark.full
@pytest.mark.parametrize(
    ("where", "number"),
    [
        ("read", errno.EIO), tiers.nightly("open", errno.ESTALE),
        tiers.nightly("read", errno.ENOTCONN), tiers.nightly("open", errno.EACCES),
        tiers.nightly("read", errno.ETIMEDOUT),
        tiers.nightly("open", errno.EMFILE), tiers.nightly("read", errno.EREMOTEIO),
        ("open", errno.ENOENT),
    ],
)  # fmt: skip
def test_two_recordings_heal_by_themselves(
    share: Share, tmp_path: Path, where: str, number: int
) -> None:
    corpus.make(tmp_path / "in", 10)
    job = corpus.job(tmp_path, **SPARED)
    named = {r"r0[34]\.wav": number}
    share.broken, share.refused = ({}, named) if where == "open" else (named, {})
    result, _ = run(job)
    assert result["recordings"] == {"in": 10, "failed": 2}
    assert result["reasons"]["shard.unreachable"]["items"] == 2
    assert result["unreachable"] == {os.strerror(number): 2}
    words = f"2 recordings could not be read ({os.strerror(number)}); the next run tries them again"
    assert f"warning: {words}" in [str(line) for line in shown.run({**result, **CLOCK})]
    share.heal()
    result, counts = run(job)
    assert result["recordings"] == {"in": 10, "failed": 0}
    assert result["unreachable"] == {}
    assert counts["shard"] == (2, 8)
    assert run(job)[1]["shard"] == (0, 10)


CLOCK: dict[str, Any] = {"wall_seconds": 1.0, "deaths": {}}


@pytest.mark.nightly
def test_a_recording_that_fails_only_while_it_is_cut(share: Share, tmp_path: Path) -> None:
    """It is opened for its digest, its header and its samples, in this order."""
    corpus.make(tmp_path / "in", 6)
    clean = pipeline.run_here(corpus.job(tmp_path, out=tmp_path / "clean"))[0]
    share.opens.clear()
    share.broken, share.first, job = {r"r02\.wav": errno.EIO}, 3, corpus.job(tmp_path, **SPARED)
    result, _ = run(job)
    assert result["recordings"]["failed"] == 1
    assert result["reasons"]["filter.unreachable"]["items"] == 1
    result, counts = run(job)
    assert counts["filter"] == (1, 5), "it is tried again, in vain"
    assert result["recordings"]["failed"] == 1
    share.heal()
    result, counts = run(job)
    assert counts["filter"] == (1, 5)
    assert result["utterances"] == clean.summary["utterances"]
    assert result["seconds"] == clean.summary["seconds"]
    assert {computed for computed, _ in run(job)[1].values()} == {0}
    parts = manifest.read(job.out, "filter", "shard-000000")
    assert sum(len(part.table) for part in parts) == 12, "failures that were made good are gone"


@pytest.mark.nightly
def test_resampling_goes_on_where_it_was_when_a_share_blinks(
    share: Share, tmp_path: Path, pauses: list[float]
) -> None:
    """Other audio for the same cuts: only `resample` decodes."""
    corpus.make(tmp_path / "in", 4)
    run(corpus.job(tmp_path, **SPARED))
    job = corpus.job(tmp_path, **SPARED, resample={"rate": 8000})
    share.broken, share.times = {r"r02\.wav": errno.EIO}, 1
    result, counts = run(job)
    assert (counts["filter"], counts["resample"]) == ((0, 4), (4, 0))
    assert result["recordings"]["failed"] == 0
    assert pauses == [0.5]
    share.times = 1 << 30
    again = corpus.job(tmp_path, **SPARED, resample={"rate": 11025})
    result, _ = run(again)
    assert result["reasons"]["resample.unreachable"]["items"] == 1
    share.heal()
    result, counts = run(again)
    assert counts["resample"] == (1, 3)
    assert result["recordings"]["failed"] == 0


def test_a_share_that_blinks_costs_a_pause(
    share: Share, tmp_path: Path, pauses: list[float]
) -> None:
    corpus.make(tmp_path / "in", 6)
    share.broken, share.times = {r"r0\d\.wav": errno.ENOTCONN}, 2
    result, _ = run(corpus.job(tmp_path))
    assert result["recordings"] == {"in": 6, "failed": 0}
    assert pauses == [0.5, 1.0]


def test_hundreds_of_failures_cost_the_pauses_of_one(share: Share, pauses: list[float]) -> None:
    def fails() -> None:
        raise unreachable.item_error(OSError(errno.EIO, "odd"))

    def denied() -> None:
        error = PermissionError(errno.EACCES, "no")
        raise unreachable.item_error(error) from error

    patience = unreachable.Patience()
    for _ in range(300):
        with pytest.raises(ItemError):
            patience.read(fails)
    assert pauses == [0.5, 1.0, 2.0]
    pauses.clear()
    for _ in range(300):  # between sound ones
        assert patience.read(lambda: 1) == 1
        with pytest.raises(ItemError):
            patience.read(fails)
    assert sum(pauses) < 100
    pauses.clear()
    with pytest.raises(ItemError):
        unreachable.Patience().read(denied)
    assert pauses == [], "nobody grants a right meanwhile"


def test_a_source_that_cannot_be_read_publishes_nothing(share: Share, tmp_path: Path) -> None:
    """However many may be broken: these are not."""
    corpus.make(tmp_path / "in", 10)
    source = [{"kind": "folder", "path": str(tmp_path / "in"), "name": "c", "expect_broken": True}]
    job = corpus.job(tmp_path, sources=source)
    first, _ = run(job)
    for number in range(6):
        corpus.add(tmp_path / "in", number, seed=40 + number)
    share.broken = {r"r0[0-5]\.wav": errno.EIO}
    with pytest.raises(RunError) as caught:
        run(job)
    assert str(caught.value).startswith(
        "the source c is not readable: 6 of its 10 recordings failed with Input/output error"
    )
    assert not (job.out / "datasets/v0002").exists()
    allowed = corpus.job(tmp_path, sources=source, package={"removed_ok": ["c"]})
    assert run(allowed)[0]["recordings"]["failed"] == 6
    share.heal()
    result, _ = run(job)
    assert (first["version"], result["version"], result["recordings"]["failed"]) == (1, 3, 0)


def test_a_share_that_is_unmounted_while_recordings_are_cut_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every name is gone then, and each recording looked as if it had changed."""
    corpus.make(tmp_path / "in", 10)
    job = corpus.job(tmp_path, **SPARED)
    compute = stage.run

    def unmounted(name: str, *args: Any, **more: Any) -> Any:
        if name == "filter" and (tmp_path / "in").exists():
            (tmp_path / "in").rename(tmp_path / "away")
        return compute(name, *args, **more)

    with monkeypatch.context() as mounts:
        mounts.setattr(stage, "run", unmounted)
        with pytest.raises(RunError, match=r"is not readable: 10 .* failed with No such"):
            run(job)
    (tmp_path / "away").rename(tmp_path / "in")
    assert run(job)[0]["recordings"] == {"in": 10, "failed": 0}


def test_a_fault_of_the_file_stays(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 4)
    (tmp_path / "in/page.wav").write_bytes(b"<html></html>" * 99)
    job = corpus.job(tmp_path, **SPARED)
    assert run(job)[0]["reasons"]["shard.unreadable"]["items"] == 1
    assert run(job)[1]["shard"] == (0, 5)


def test_a_store_that_stumbles_costs_no_more_than_the_item(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    """503 and the like; a store that gives nothing at all ends the run."""
    told: Iterator[Exception | None]

    def state(url: str) -> Any:
        if error := next(told):
            raise error
        return store_errors.ObjectState(1, "guard")

    monkeypatch.setattr(urls, "object_state", state)
    told = iter([Away("s3://b/k cannot be reached: 503"), None])
    assert guard.file_state("s3://b/k") == guard.FileState(1, "guard")
    assert pauses == [0.5]
    told = iter([Away("s3://b/k cannot be reached: 503")] * 20)
    for _ in range(4):
        assert guard.file_state("s3://b/k").error == (
            "unreachable", "it cannot be read (s3://b/k cannot be reached: 503)"
        )  # fmt: skip
    with pytest.raises(Away, match="503"):
        guard.file_state("s3://b/k")


@pytest.fixture
def listing(share: Share, monkeypatch: pytest.MonkeyPatch) -> Share:
    """Of containers that are listed, too."""

    def opened(path: str, mode: str, opener: Any) -> io.BufferedReader:
        return io.BufferedReader(share.open(path, mode, 0, opener))

    monkeypatch.setattr(urls, "open", opened, raising=False)
    return share


def containers(home: Path, kind: str) -> list[dict[str, Any]]:
    """Three containers of four recordings each, as a source."""
    (home / "in").mkdir()
    corpus.make(home / "wavs", 12)
    wavs = sorted((home / "wavs").iterdir())
    for number in range(3):
        some = wavs[4 * number : 4 * number + 4]
        if kind == "tar":
            with tarfile.open(home / f"in/{number}.tar", "w") as tar:
                for wav in some:
                    tar.add(wav, wav.name)
        else:
            cells = pa.array([{"bytes": wav.read_bytes(), "path": wav.name} for wav in some])
            table = pa.table({"audio": cells})
            pq.write_table(table, home / f"in/{number}.parquet", row_group_size=2)
    return [{"kind": kind, "path": str(home / "in"), "name": "c"}]


@pytest.mark.parametrize("kind", ["tar", "hf_parquet"])
def test_a_container_is_read_again_while_it_is_listed(
    listing: Share, tmp_path: Path, kind: str, pauses: list[float]
) -> None:
    job = corpus.job(tmp_path, sources=containers(tmp_path, kind))
    listing.broken, listing.times = {r"/1\.(tar|parquet)": errno.ESTALE}, 3
    result, _ = run(job)
    assert result["recordings"] == {"in": 12, "failed": 0}
    assert pauses == [0.5, 1.0]


@pytest.mark.parametrize(
    ("kind", "number"), tiers.covering(["tar", "hf_parquet"], [errno.EIO, errno.EACCES])
)
@pytest.mark.nightly
def test_a_container_that_cannot_be_listed_heals_by_itself(
    listing: Share, tmp_path: Path, kind: str, number: int
) -> None:
    """Its first 4 kB can be read, and then nothing of it."""
    job = corpus.job(tmp_path, sources=containers(tmp_path, kind), **SPARED)
    named = {r"/1\.(tar|parquet)": number}
    listing.refused = named
    result, _ = run(job)
    assert result["recordings"] == {"in": 9, "failed": 1}
    assert result["reasons"]["shard.unreachable"]["items"] == 1
    assert result["unreachable"] == {os.strerror(number): 1}
    listing.heal()
    result, counts = run(job)
    assert (result["recordings"], counts["shard"]) == ({"in": 12, "failed": 0}, (4, 8))

    listing.broken, listing.beyond = named, 4096
    with pytest.raises(RunError) as caught:
        run(job)
    name = f"c/1.{'tar' if kind == 'tar' else 'parquet'}"
    assert str(caught.value).startswith(f"the file {name} cannot be listed, and v0002 has ")
    assert planned(job, job)[1].refusal == str(caught.value)
    listing.heal()
    result, counts = run(job)
    assert result["recordings"] == {"in": 12, "failed": 0}
    assert counts["filter"] == (0, 12)


def test_a_folder_that_blinks_is_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    corpus.make(tmp_path / "in/deep", 6)
    scan, errors = os.scandir, [OSError(errno.EIO, "odd", "deep")] * 2

    def scanned(path: Any = ".") -> Any:
        if str(path).endswith("/deep") and errors:
            raise errors.pop()
        return scan(path)

    monkeypatch.setattr("uttermill.tasks.sources.folder.os.scandir", scanned)
    assert run(corpus.job(tmp_path))[0]["recordings"] == {"in": 6, "failed": 0}
    assert pauses == [0.5, 1.0]
