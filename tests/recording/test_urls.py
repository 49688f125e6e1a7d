"""Sources on a real S3 server: the same recordings as from a folder, and lists that stay inside."""

import errno
import json
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus, loopback
from tests.helpers.s3_server import BUCKET, S3
from uttermill.tasks import plugins, storage
from uttermill.tasks.base.environment import setting
from uttermill.tasks.base.errors import ConfigError, ItemError, RunError
from uttermill.tasks.recording import Ignored, Locator, Recording, container, unreachable
from uttermill.tasks.recording.guard import file_state
from uttermill.tasks.settings import Source
from uttermill.tasks.sources._paths import listed_name, resolve
from uttermill.tasks.storage import store_errors, urls

ROOT = f"s3://{BUCKET}/lists"


@pytest.fixture(autouse=True)
def account(s3: S3) -> Iterator[None]:
    with setting(s3.environment):
        yield
    urls.close_all()


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return f"s3://{BUCKET}/urls/{request.node.name.replace('[', '-').replace(']', '')}"


def listed(kind: str, path: str, **more: Any) -> list[Recording | Ignored]:
    module, settings = plugins.resolve_source(Source(kind=kind, path=path, **more))
    return list(module.recordings(settings))


def alike(found: list[Recording | Ignored], root: str) -> list[Any]:
    """What does not tell where it lies: places become relative, and a guard a mark of bytes."""
    shown = []
    for each in found:
        if isinstance(each, Recording):
            assert each.error or each.guard
            place = each.locator.path.removeprefix(root)
            source = each.source_path.removeprefix(root)
            locator = replace(each.locator, path=place, inside=None)
            error = each.error and (each.error[0], "")
            shown.append(replace(each, locator=locator, source_path=source, guard="", error=error))
        else:
            shown.append(each)  # type: ignore[arg-type]
    return shown


def folder(home: Path) -> dict[str, Any]:
    corpus.make(home / "sub", 3)
    corpus.add(home, 4, name="b c.WAV")
    for name in (".hidden/x.wav", "notes.txt", "half.wav.part", "sub/.DS_Store"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_bytes(b"")
    return {"kind": "folder"}


def kaldi(home: Path) -> dict[str, Any]:
    corpus.make(home / "wav", 2)
    (home / "wav.scp").write_text("a wav/r00.wav\nb wav//r01.wav\nc wav/gone.wav\nd cat x|\n")
    (home / "text").write_text("u1 one\nu2 two\n")
    (home / "segments").write_text("u1 a 0.0 0.2\nu2 b 0.1 0.3\n")
    return {"kind": "kaldi"}


def jsonl(home: Path) -> dict[str, Any]:
    corpus.make(home / "wav", 2)
    rows = [{"wav": "wav/r00.wav", "key": "k", "txt": "ä"}, {"wav": "wav/r01.wav", "start": 0.1}]
    (home / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + "{bad\n")
    return {"kind": "jsonl", "path": "list.jsonl"}


def datajuicer(home: Path) -> dict[str, Any]:
    corpus.make(home, 2)
    row = {"text": "<__dj__audio>x", "audios": ["r00.wav", "r01.wav"]}
    (home / "list.jsonl").write_text(json.dumps(row) + "\n")
    return {"kind": "datajuicer", "path": "list.jsonl"}


def tar(home: Path, pattern: str = "") -> dict[str, Any]:
    corpus.make(home / "wav", 3)
    (home / "text.txt").write_text("words")
    with tarfile.open(home / "a.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
        for number in range(3):
            archive.add(home / f"wav/r{number:02d}.wav", f"k{number}.wav")
            archive.add(home / "text.txt", f"k{number}.txt")
    (home / "b.tar").write_bytes((home / "a.tar").read_bytes()[:2000])
    return {"kind": "tar", "path": pattern}


def hf_parquet(home: Path) -> dict[str, Any]:
    corpus.make(home, 2)
    cells = [{"bytes": (home / "r00.wav").read_bytes(), "path": "x.wav"},
             {"bytes": None, "path": "r01.wav"}]  # fmt: skip
    table = pa.table({"audio": pa.array(cells), "text": ["one", "two"]})
    pq.write_table(table, home / "data.parquet", row_group_size=1)
    return {"kind": "hf_parquet"}


@pytest.mark.full
@pytest.mark.parametrize(
    "make",
    [folder, kaldi, jsonl, datajuicer, tar, partial(tar, pattern="*.tar"),
     partial(tar, pattern="a.tar"), hf_parquet],
    ids=["folder", "kaldi", "jsonl", "datajuicer", "tar", "tars", "one", "hf_parquet"],
)  # fmt: skip
def test_every_kind_lists_a_bucket_as_it_lists_a_folder(
    s3: S3, url: str, tmp_path: Path, make: Callable[[Path], dict[str, Any]]
) -> None:
    """And every recording has the same bytes in both."""
    asked = make(tmp_path)
    part = asked.pop("path", "")
    s3.upload(tmp_path, url)
    here = listed(path=f"{tmp_path}/{part}".rstrip("/"), **asked)
    there = listed(path=f"{url}/{part}".rstrip("/"), **asked)
    assert alike(there, url) == alike(here, str(tmp_path))
    for one, other in zip(here, there, strict=True):
        if isinstance(one, Recording) and not one.error:
            assert isinstance(other, Recording)
            assert container.digest(other.locator) == container.digest(one.locator)


@pytest.mark.full
def test_one_object_is_a_source_and_an_overwritten_one_is_another(
    s3: S3, url: str, tmp_path: Path
) -> None:
    path = f"{url}/a.wav"
    for seed in (1, 2):
        s3.files().pipe_file(path, corpus.add(tmp_path, 1, seed=seed).read_bytes())
        [found] = listed("folder", path)
        assert isinstance(found, Recording)
        assert found.guard == urls.guard(path)
        if seed == 1:
            before, digest = found.guard, container.digest(found.locator)
    assert isinstance(found, Recording)
    assert found.guard != before
    assert container.digest(found.locator) != digest


def test_files_and_objects_answer_alike(s3: S3, url: str, tmp_path: Path) -> None:
    s3.files().pipe_file(f"{url}/a.wav", b"1234")
    (tmp_path / "a.wav").write_bytes(b"1234")
    (tmp_path / "broken").symlink_to("nowhere")
    for root, missing in ((url, "no such object"), (str(tmp_path), "No such file or directory")):
        assert file_state(f"{root}/a.wav").size == 4
        assert urls.named(f"{root}/a.wav")
        assert urls.real(f"{root}/x/../a.wav/") == f"{root}/a.wav"
        assert file_state(f"{root}/b.wav").error == ("missing", missing)
        assert not urls.named(f"{root}/b.wav")
        with unreachable.opened(f"{root}/a.wav") as file:
            assert file.read() == b"1234"
    assert urls.named(f"{tmp_path}/broken")
    assert file_state(str(tmp_path)).error == ("unreadable", "not a file")
    assert file_state(f"{tmp_path}/\0").error == ("missing", "no file can have this name")
    assert storage.store_of(storage.place(url)).mounted(storage.place(url)) is None
    assert storage.store_of(tmp_path).mounted(tmp_path) == tmp_path


def test_an_object_that_is_gone_is_a_missing_item(url: str) -> None:
    with pytest.raises(ItemError, match="missing"):
        container.digest(Locator(f"{url}/nothing.wav"))
    with pytest.raises(ItemError, match="missing"):
        container.digest(Locator(f"{url}/nothing.tar", offset=0, length=10))


def test_a_store_that_is_away_is_no_fault_of_the_item(
    s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = s3.files()

    def away(path: str) -> Any:
        from botocore.exceptions import EndpointConnectionError

        raise EndpointConnectionError(endpoint_url="http://nowhere")

    monkeypatch.setattr(files, "info", away)
    monkeypatch.setattr("uttermill.tasks.storage.urls.files_of", lambda url: (files, url))
    with pytest.raises(RunError, match="cannot be reached"):
        container.digest(Locator(f"s3://{BUCKET}/x.wav"))


@pytest.mark.full
@pytest.mark.parametrize("kind", ["tar", "hf_parquet"])
def test_a_store_that_goes_away_while_a_container_is_listed_is_no_fault_of_it(
    s3: S3, url: str, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what was not listed would be taken for removed from the source."""
    {"tar": tar, "hf_parquet": hf_parquet}[kind](tmp_path)
    s3.upload(tmp_path, url)

    def away(*args: Any, **more: Any) -> bytes:
        raise OSError(errno.EBUSY, "Please reduce your request rate.")

    monkeypatch.setattr("s3fs.core.S3File._fetch_range", away)
    with pytest.raises(RunError, match=r"cannot be reached: .* reduce your request rate"):
        listed(kind, url)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a.wav", f"{ROOT}/a.wav"),
        ("x/../a b.wav", f"{ROOT}/a b.wav"),
        ("../../../../a.wav", f"s3://{BUCKET}/a.wav"),  # a bucket has no way out
        (f"s3://{BUCKET}/other/a.wav", f"s3://{BUCKET}/other/a.wav"),
    ],
)
def test_what_a_list_in_a_bucket_means(written: str, meant: str) -> None:
    assert resolve(ROOT, written) == meant


@pytest.mark.parametrize(
    ("root", "written"),
    [
        (ROOT, "s3://other-bucket/a.wav"),
        (ROOT, "http://169.254.169.254/latest/meta-data"),
        (ROOT, "pipe:cat /etc/passwd"),
        (ROOT, "/etc/passwd"),
        (ROOT, f"s3://{BUCKET}/a.wav?X-Amz-Signature=abc"),
        ("/data", f"s3://{BUCKET}/a.wav"),
    ],
)
def test_a_list_sends_us_nowhere_that_no_setting_names(root: str, written: str) -> None:
    with pytest.raises(ItemError, match="unsupported"):
        resolve(root, written)


def test_names_of_listed_objects_are_relative_to_the_root() -> None:
    assert listed_name(f"{ROOT}/a/b.wav", "a/b.wav", ROOT) == "a/b.wav"
    assert listed_name(f"s3://{BUCKET}/else/b.wav", "…", ROOT) == "else/b.wav"


def test_a_source_that_is_not_there_is_a_settings_error(url: str) -> None:
    for kind in ("folder", "kaldi", "jsonl", "tar", "hf_parquet"):
        with pytest.raises(ConfigError, match="no such object or folder"):
            listed(kind, url)


def test_a_list_behind_http(tmp_path: Path) -> None:
    jsonl(tmp_path)
    with loopback.web(tmp_path) as server:
        found = listed("jsonl", f"{server.url}/list.jsonl")
        here = listed("jsonl", str(tmp_path / "list.jsonl"))
        assert alike(found, server.url) == alike(here, str(tmp_path))
        good = next(r for r in found if isinstance(r, Recording) and not r.error)
        assert container.digest(good.locator)[1] == good.size
        with pytest.raises(ConfigError):
            listed("folder", f"{server.url}/wav")


def test_urls_are_told_from_paths() -> None:
    assert storage.is_url("s3://b/x")
    for text in ("/a/b", "a://"[:1], "c:/x", "pipe:cat", "a b://x"):
        assert not storage.is_url(text)


class Refused(Exception):
    """A client's error, with what S3 answered."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.response = {"Error": {"Code": code}}


def answered(code: str, error: Exception) -> Exception:
    """As s3fs raises it: an error of Python's, behind which stands the client's."""
    error.__cause__ = Refused(code)
    return error


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (answered("InvalidObjectState", PermissionError("x")), storage.Archived, "cold storage"),
        (answered("AccessDenied", PermissionError("x")), RunError, "access is refused"),
        (answered("PreconditionFailed", OSError("x")), FileExistsError, "s3://b/k"),
        (OSError(errno.ENOSPC, "No space left on device"), RunError, "no room on this machine"),
        (OSError(errno.EIO, "odd"), RunError, "cannot be reached"),
    ],
)
def test_what_a_store_answers_is_told_in_words(
    error: Exception, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words), store_errors.store_errors("s3://b/k"):
        raise error


def test_an_object_in_cold_storage_costs_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def frozen(*_: object) -> Any:
        raise storage.Archived("s3://b/k is in cold storage; restore it")

    monkeypatch.setattr(urls, "fetched", frozen)
    with pytest.raises(ItemError, match="cold storage") as caught:
        container.open_regular("s3://b/k.wav")
    assert caught.value.code == "unreadable"
