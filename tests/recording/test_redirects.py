"""A source stays where the settings say: no redirect and no list leads to another host."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from tests.helpers.loopback import Web, web
from tests.helpers.tiers import nightly
from uttermill.tasks import plugins
from uttermill.tasks.asr import SpeechClip, openai_api
from uttermill.tasks.base.environment import setting
from uttermill.tasks.base.errors import ConfigError, ItemError, RunError
from uttermill.tasks.recording import Ignored, Locator, Recording, container
from uttermill.tasks.settings import Source
from uttermill.tasks.sources._paths import list_root, resolve
from uttermill.tasks.storage import urls

HOSTS = ("127.0.0.1", "localhost", "127.0.0.2")


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Web]:
    corpus.make(tmp_path / "here", 2)
    rows = [{"wav": "r00.wav"}, {"wav": "r01.wav"}]
    corpus.jsonl(tmp_path / "here/list.jsonl", rows)
    with web(tmp_path / "here") as made:
        yield made
    urls.close_all()


@pytest.fixture(params=[*map(nightly, HOSTS[:2]), HOSTS[2]])
def elsewhere(request: pytest.FixtureRequest, here: Web, tmp_path: Path) -> Iterator[Web]:
    """Another port, and two other names: what a machine's own services answer to. It has it all."""
    with web(tmp_path / "here", request.param) as made:
        yield made


def listed(kind: str, path: str, **more: Any) -> list[Recording | Ignored]:
    module, settings = plugins.resolve_source(Source(kind=kind, path=path, **more))
    return list(module.recordings(settings))


@pytest.mark.parametrize(
    ("kind", "method", "name"),
    [("jsonl", "", "/list.jsonl"), ("jsonl", "GET ", "/list.jsonl"),  # only when it is read
     ("tar", "", "/a.tar"), ("hf_parquet", "", "/a.parquet")],
)  # fmt: skip
def test_a_redirected_list_or_container_is_refused_with_both_hosts(
    here: Web, elsewhere: Web, kind: str, method: str, name: str
) -> None:
    here.redirects[method + name] = f"{elsewhere.url}{name}"
    with pytest.raises(ConfigError) as caught:
        listed(kind, here.url + name)
    assert f"{here.url} redirects to {elsewhere.url}" in str(caught.value)
    assert elsewhere.asked == []


def test_a_redirected_recording_fails_alone(here: Web, elsewhere: Web, tmp_path: Path) -> None:
    here.redirects["/r00.wav"] = f"{elsewhere.url}/r00.wav"
    here.redirects["GET /r01.wav"] = f"{elsewhere.url}/r01.wav"  # HEAD shows nothing
    source = {"kind": "jsonl", "name": "c", "path": f"{here.url}/list.jsonl"}
    [first, second] = listed("jsonl", f"{here.url}/list.jsonl")
    assert isinstance(first, Recording)
    assert first.error is not None
    assert first.error[0] == "unreadable"
    assert f"{here.url} redirects to {elsewhere.url}" in first.error[1]
    assert isinstance(second, Recording)
    with pytest.raises(ItemError, match="redirects to"):
        container.digest(second.locator)
    del here.redirects["GET /r01.wav"]
    package = {"max_failed_fraction": 1.0}
    published, _ = corpus.run(corpus.job(tmp_path, sources=[source], package=package))
    assert published.summary["recordings"] == {"in": 2, "failed": 1}
    assert elsewhere.asked == []


def test_a_redirect_at_the_same_host_is_followed(here: Web) -> None:
    for to in ("/r01.wav", f"{here.url}/r01.wav"):
        here.redirects["/r00.wav"] = to
        digest = container.digest(Locator(f"{here.url}/r00.wav"))
        assert digest == container.digest(Locator(f"{here.url}/r01.wav"))
        urls.close_all()


@pytest.mark.parametrize("to", ["ftp://127.0.0.1/x", "file:///etc/passwd", "https://127.0.0.1/x"])
def test_no_other_scheme(here: Web, to: str) -> None:
    here.redirects["/list.jsonl"] = to
    with pytest.raises(ConfigError, match="cannot be read"):
        listed("jsonl", f"{here.url}/list.jsonl")


def test_s3_is_not_redirected(here: Web, elsewhere: Web) -> None:
    here.redirects["/bucket/list.jsonl"] = f"{elsewhere.url}/bucket/list.jsonl"
    account = {
        "AWS_ENDPOINT_URL": here.url, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_MAX_ATTEMPTS": "1",
    }  # fmt: skip
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()  # those of other tests know another endpoint
    with setting(account), pytest.raises(ConfigError, match="cannot be read"):
        listed("jsonl", "s3://bucket/list.jsonl")
    s3fs.S3FileSystem.clear_instance_cache()
    assert here.asked != []
    assert elsewhere.asked == []


def test_a_key_is_not_sent_on(here: Web, elsewhere: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_KEY", "canary-of-a-key")
    here.redirects["/v1/audio/transcriptions"] = f"{elsewhere.url}/v1/audio/transcriptions"
    settings = openai_api.Settings(url=f"{here.url}/v1", model="m", api_key_env="SERVER_KEY")
    clip = SpeechClip(np.full(4000, 0.1, np.float32))
    with pytest.raises(RunError, match="redirects are not followed"):
        list(openai_api.Backend(settings).transcribe([clip]))
    assert "canary-of-a-key" in str(here.headers)
    assert elsewhere.asked == []


@pytest.mark.parametrize(
    "written",
    [
        "http://169.254.169.254/latest/meta-data/", "http://127.0.0.1:1/a.wav",
        "http://localhost/a.wav", "//127.0.0.2/../..", "file:///etc/passwd", "/etc/shadow",
        "../../../etc/shadow", "s3://bucket/a.wav", "pipe:id", "sftp://h/a", "memory://a",
        "local:///etc/passwd", "reference://x", "github://o:r@/a", "simplecache::file:///etc/passwd",
        "x::file:///etc/hostname", "zip://*::/etc/x.zip", "http://h@127.0.0.1/a", "@127.0.0.2/a",
    ],
)  # fmt: skip
def test_a_list_of_a_host_names_files_of_that_host_only(written: str) -> None:
    """Whatever it writes is refused, or is an address at the host, which fsspec takes whole."""
    root = "http://127.0.0.1:8000/lists"
    meant = f"{root}/refused"
    with suppress(ItemError):
        meant = resolve(root, written)
    assert meant.startswith("http://127.0.0.1:8000/")
    files, key = urls.files_of(meant)
    assert (files.protocol, key) == (("http", "https"), meant)


@pytest.mark.parametrize("written", ["/etc/shadow", "../x.wav", "a/../../x.wav", "/data-2/x.wav"])
def test_a_list_of_elsewhere_stays_in_its_root_here(
    here: Web, written: str, tmp_path: Path
) -> None:
    root = list_root(f"{here.url}/list.jsonl", str(tmp_path))
    assert resolve(root, "a/b.wav") == f"{tmp_path}/a/b.wav"
    assert resolve(root, f"{tmp_path}/b.wav") == f"{tmp_path}/b.wav"
    with pytest.raises(ItemError, match="a remote list may name only"):
        resolve(root, written)
    # A list on this disk is the user's own: it may name any file.
    assert resolve(list_root(f"{tmp_path}/list.jsonl", str(tmp_path)), "/etc/x") == "/etc/x"


@pytest.mark.parametrize(
    "link",
    [
        "a.wav?X-Amz-Signature=canary",
        *map(nightly, ("a.wav?canary", "a.wav#canary", "a.wav;k=canary")),
    ],
)
def test_a_signed_link_in_a_list_is_refused_and_not_kept(
    here: Web, link: str, tmp_path: Path
) -> None:
    whole = f"{here.url}/{link}"
    (tmp_path / "here/links.jsonl").write_text(json.dumps({"wav": whole, "key": "k"}) + "\n")
    cells = [{"bytes": (tmp_path / "here/r00.wav").read_bytes(), "path": whole}]
    pq.write_table(pa.table({"audio": pa.array(cells)}), tmp_path / "here/a.parquet")
    corpus.listed(tmp_path / "here", 1, tmp_path / "local.jsonl")
    with (tmp_path / "local.jsonl").open("a") as lines:
        lines.write(json.dumps({"wav": whole, "key": whole}) + "\n")
    sources = [
        {"kind": "jsonl", "name": "far", "path": f"{here.url}/links.jsonl"},
        {"kind": "jsonl", "name": "near", "path": f"{tmp_path}/local.jsonl"},
        {"kind": "hf_parquet", "name": "held", "path": f"{tmp_path}/here/a.parquet"},
    ]
    package = {"max_failed_fraction": 1.0}
    job = corpus.job(tmp_path, sources=sources, package=package)
    published, _ = corpus.run(job)
    assert published.summary["recordings"] == {"in": 4, "failed": 2}
    assert "canary" not in str(here.asked)
    files = [path for path in job.out.rglob("*") if path.is_file()]
    assert [path for path in files if b"canary" in path.read_bytes()] == []
    tables = [pq.read_table(path) for path in files if path.suffix == ".parquet"]
    assert "canary" not in str([table.to_pylist() for table in tables])
