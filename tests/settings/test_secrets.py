"""What a URL holds beside scheme, host and path reaches no file, message or server.

A canary stands where users write secrets, in some fifty spellings; every byte that commands print
and leave is searched for it.
"""

import json
import traceback
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus, tiers
from tests.helpers.loopback import web
from uttermill.flows import cli, serve, settings
from uttermill.tasks import storage
from uttermill.tasks.base import masking
from uttermill.tasks.base.environment import setting
from uttermill.tasks.base.errors import ConfigError, MillError
from uttermill.tasks.settings import Plugin
from uttermill.tasks.storage import store_errors, urls

WORD = "c4n4ry"
KEYS = (
    "key", "accessToken", "sasToken", "account_key", "sig", "token", "code", "X-Amz-Signature",
    "X-Amz-Security-Token", "X-Goog-Signature", "AWSAccessKeyId", "Policy", "Key-Pair-Id",
    "subscription-key", "api.key", "t", "id", "versionId", "a%20b",
)  # fmt: skip
SPELLINGS = [
    *(f"https://host/list.jsonl?{key}={WORD}" for key in KEYS),
    f"https://host/l?a=b&{WORD}", f"https://host/l?{WORD}", f"https://host/l?a=%26{WORD}",
    f"https://host/l?version=2&v={WORD}", f"https://host/l?next=https://other/{WORD}",
    f"https://host/l#token={WORD}", f"https://host/l#{WORD}", f"https://host/l;key={WORD}",
    f"https://host/l&sig={WORD}", f"https://host/l%3Ftoken={WORD}", f"https://host?{WORD}",
    f"s3://key:{WORD}@bucket/x", f"s3://key:se/{WORD}@bucket/x", f"s3://key:{WORD}/x@bucket/x",
    f"s3://key:12/{WORD}@bucket", f"https://{WORD}@host/x", f"https://u:p@{WORD}@host/x",
    f"https://user%3A{WORD}@host/x", f"s3://key%3A{WORD}%40bucket/x", f"s3://key:{WORD}%40b/x",
    f"s3://:{WORD}@bucket/x", f"s3://key:{WORD}", f"HTTPS://u:{WORD}@host/x",
    f"http:/user:{WORD}@host/x", f"http:\\\\user:{WORD}@host\\x", f"//user:{WORD}@host/x",
    f"https:///u:{WORD}@host/x", f"https://u:{WORD}@[::1]:8000/x", f"https://u:8{WORD}@[::1]/x",
    f"https://u:\t{WORD}@host/x", f"https://u:a\n{WORD}@host/x", f"https://u:a {WORD}@host/x",
    f"  s3://key:{WORD}@bucket/x", f"https://u:'{WORD}'@host/x", f"file://u:{WORD}@host/x",
    f"simplecache::s3://bucket/x?sig={WORD}", f"zip://*.wav::https://u:{WORD}@host/x.zip",
    f"simplecache::https://u:{WORD}@host/x", f"azure://{WORD}@account/x", f"az://c/b?sv=1&x={WORD}",
    f"abfs://c:{WORD}@account.dfs.core.windows.net/x", f"gs://bucket/x?access_token={WORD}",
    f"sftp://user:{WORD}@host/x", f"memory://u:{WORD}@x", f"github://org:{WORD}@/x",
]  # fmt: skip


def test_there_are_many() -> None:
    assert len(set(SPELLINGS)) == len(SPELLINGS) >= 60


@pytest.mark.parametrize("url", SPELLINGS)
def test_all_of_it_is_hidden(url: str) -> None:
    shown = masking.address(url)
    assert WORD not in shown
    assert masking.address(shown) == shown
    assert WORD not in str(masking.value({"licence": url, "deep": [url], url: 1}))
    for words in (f"{url} cannot be reached", f"in {url!r}, line 1", f"see <{url}>; mail a@b.org"):
        assert WORD not in masking.sentence(words)
        assert WORD not in str(MillError(words))


COMMANDS = (
    [["run", "x.yaml"], ["plan", "--source", "URL", "--out", "out"], ["status", "URL"],
     ["run", "x.yaml", "--set", "sources.0.kind=jsonl"], ["ledger", "URL"]],
    [["run", "--source", "in", "--out", "URL"], ["estimate", "x.yaml"], ["report", "URL"],
     ["run", "x.yaml", "--set", "sources.0.kind=kaldi"], ["list", "URL"]],
    [["run", "x.yaml", "--set", "sources.0.kind=tar"], ["serve", "x.yaml"], ["verify", "URL"],
     ["run", "x.yaml", "--set", "sources.0.kind=hf_parquet"], ["explore", "URL"]],
    [["run", "x.yaml", "--set", "sources.0.kind=lhotse"], ["prune", "URL"],
     ["run", "x.yaml", "--set", "sources.0.kind=datajuicer"], ["review", "export", "URL"],
     ["what-if", "URL", "--set", "filter.filters=[]"]],
)  # fmt: skip


#: By day a quarter of the spellings, all of which `test_all_of_it_is_hidden` has.
BY_DAY = SPELLINGS[::4]
BY_NIGHT = [tiers.nightly(*both) for both in product(SPELLINGS, COMMANDS) if both[0] not in BY_DAY]


@pytest.mark.parametrize(("url", "commands"), [*tiers.covering(BY_DAY, COMMANDS), *BY_NIGHT])
def test_no_command_takes_it_or_tells_it(
    url: str,
    commands: list[list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    corpus.make(tmp_path / "in", 1)
    (tmp_path / "x.yaml").write_text(json.dumps({"sources": [{"path": url}], "out": "out"}))
    for command in commands:
        words = [url if word == "URL" else word for word in command]
        assert cli.main([*words, "--json"]) == 2, words
        said = capfd.readouterr()
        assert WORD not in said.out + said.err, words
        assert "error" in json.loads(said.out)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    assert left == {"in", "in/r00.wav", "x.yaml"}


@pytest.mark.parametrize("field", ["root", "rttm"])
def test_other_places_of_a_source_are_held_alike(field: str, tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 1)
    path = corpus.listed(tmp_path / "in", 1, tmp_path / "l.jsonl")
    source = {"kind": "jsonl", "path": str(path), field: f"https://host/x?k={WORD}"}
    job = corpus.job(tmp_path, sources=[source])
    job = replace(job, speakers=Plugin(use="given")) if field == "rttm" else job
    with pytest.raises(ConfigError, match="scheme://host/path alone") as caught:
        corpus.run(job)
    assert WORD not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "place",
    ["s3://bucket/a b/ü", "https://host:8000/x", "gs://b/x@y", "az://c/x", "hf://datasets/o/n@v1/x",
     "s3://arn:aws:s3:us-west-2:1234:accesspoint/ours/x",
     "abfs://container@account.dfs.core.windows.net/x", "/data/a@b?c#d", "a:b/c", "C:\\x"],
)  # fmt: skip
def test_what_holds_none_stays(place: str) -> None:
    assert storage.urls.checked(place) == place


@pytest.mark.parametrize(
    "place",
    ["memory://x", "github://o/x", "sftp://host/x", "smb://host/x", "reference://x", "zip://x",
     "local:///etc/passwd", "file://host/x", "libarchive://x", "simplecache::s3://b/x", "S3://b/x",
     "filecache::/etc/passwd", "http:/host/x", "s3://b/x.zip::y", " s3://bucket/x"],
)  # fmt: skip
def test_other_schemes_and_chains_are_refused(place: str) -> None:
    with pytest.raises(ConfigError, match="is not the URL of a supported store"):
        storage.place(place)


@pytest.fixture
def licensed(tmp_path: Path, shared_cluster: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A run over a list at a server, with a canary wherever settings may hold a text."""
    corpus.make(tmp_path / "web", 2)
    corpus.add(tmp_path / "web", 3, name="broken.wav").write_text("no audio")
    rows = [{"wav": name} for name in ("r00.wav", "r01.wav", "broken.wav", f"r00.wav?sig={WORD}")]
    corpus.jsonl(tmp_path / "web/list.jsonl", rows)
    with web(tmp_path / "web") as server:
        yield {
            "sources": [
                {"kind": "jsonl", "name": "c", "path": f"{server.url}/list.jsonl",
                 "licence": f"https://host/terms?accessToken={WORD}", "expect_broken": True}
            ],
            "out": str(tmp_path / "out"), "history": "none", "shard": {"settle_seconds": 0},
            "transcribe": {"backend": {"use": "fake"}},
            "cluster": {**shared_cluster, "options": {"env": {"accountKey": WORD}}},
        }  # fmt: skip
    urls.close_all()


@pytest.mark.cluster
@pytest.mark.nightly
def test_a_run_with_such_links_leaves_none_of_it(
    licensed: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(json.dumps(licensed))
    out = licensed["out"]
    secret = {"AWS_SECRET_ACCESS_KEY": f"{WORD}-of-the-environment"}
    with setting(secret):
        for words in (
            ["plan", str(file)], ["run", str(file)], ["status", out],
            ["ledger", out], ["ledger", out, "--items"], ["report", out], ["verify", out],
            ["list", out], ["what-if", out, "--set", "filter.filters=[]"],
        ):  # fmt: skip
            assert cli.main([*words, "--json"]) == 0, words
            said = capfd.readouterr()
            assert WORD not in said.out + said.err, words
        licensed["sources"][0] |= {"expect_broken": False, "language": "en"}
        file.write_text(json.dumps(licensed))
        assert cli.main(["run", str(file)]) == 1, "two of four recordings failed"
        said = capfd.readouterr()
        assert WORD not in said.out + said.err
    files = [path for path in Path(out).rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if WORD.encode() in path.read_bytes()] == []
    assert "https://host/terms?***" in (Path(out) / "datasets/v0001/dataset.json").read_text()


@pytest.mark.parametrize(
    "given", [f"https://host/l?sasToken={WORD}", f"https://u:se/{WORD}@host/l", f"x; token={WORD}"]
)
def test_nothing_of_it_is_served(given: str, tmp_path: Path) -> None:
    chosen = settings.parse(
        {"sources": [{"path": str(tmp_path), "licence": given}], "out": str(tmp_path / "out")}
    )
    with pytest.raises(ConfigError, match=r"sources.0.licence holds a secret"):
        serve.without_secrets(chosen)


def test_what_a_library_says_of_a_store_is_told_without_it() -> None:
    said = f"403, url='https://bucket.host/x?X-Amz-Signature={WORD}&X-Amz-Date=1' (see a@b)"
    with pytest.raises(MillError) as caught, store_errors.store_errors("s3://bucket/x"):
        raise PermissionError(said)
    assert WORD not in str(caught.value)
    assert "https://bucket.host/x?***" in str(caught.value)
