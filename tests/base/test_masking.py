"""Credentials: hidden in everything that is written, whole in what works with them."""

import json
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, SecretStr

from tests.helpers import corpus, fuzz, tiers
from uttermill.flows import checks, settings
from uttermill.flows.cluster.settings import ClusterSettings
from uttermill.flows.run import run_folder
from uttermill.tasks import pipeline, plugins
from uttermill.tasks.base import errors, masking, shelves
from uttermill.tasks.settings import SECRET, Plugin, Source, StageSettings, roles

WORD = "hunter2"

URLS = [
    (f"s3://user:{WORD}@bucket/x.wav", "s3://***@bucket/x.wav"),
    (f"https://{WORD}@host/a?b=c", "https://***@host/a?***"),
    (f"tls://u:p@{WORD}@host:8786", "tls://***@host:8786"),
    (f"https://host/x?token={WORD}&part=2", "https://host/x?part=2&***"),
    (f"https://host/x?a=b&api_key={WORD}#top", "https://host/x?***"),
    (f"https://b/x?X-Amz-Signature={WORD}&X-Amz-Credential={WORD}",
     "https://b/x?***"),
    (f"az://b/x?sv=1&sig={WORD}", "az://b/x?***"),
    (f"gs://b/x?Access-Key={WORD}", "gs://b/x?***"),
    (f"it failed for http://u:{WORD}@h/ and ftp://v:{WORD}@h",
     "it failed for http://***@h/ and ftp://***@h"),
]  # fmt: skip
PLAIN = [
    "/data/a@b/c.wav", "user@host:/path", "https://host/x?page=2", "s3://bucket/a@b/c",
    "tcp://host:8786", "a://b", "", "mail me@x.org", "C:\\a@b", "https://host/m?rev=v1.2",
    "abfs://container@account.dfs.core.windows.net/x", "http://[::1]:80/x", "https://h:8000: no",
    "s3://b/ü x", "http://127.0.0.1:80), or http://h", "such as s3://…", "/data//x:y/a@b", "a=b",
]  # fmt: skip


@pytest.mark.parametrize(("given_", "shown"), URLS)
def test_credentials_of_urls_are_hidden(given_: str, shown: str) -> None:
    assert masking.text(given_) == shown
    assert masking.text(shown) == shown


@pytest.mark.parametrize("words", PLAIN)
def test_everything_else_stays(words: str) -> None:
    assert masking.text(words) == words


@pytest.mark.full
@pytest.mark.parametrize(
    "part",
    tiers.few(
        [".", "-", "a-", "://", "a://", "(//:", "(//a:", "a://b:c ", "?", ";", "@", ":", "a_"],
        "a://b:c ",
    ),
)
def test_hostile_texts_take_no_time(part: str) -> None:
    """What grows with the square of its length would end by the limit of a test's time."""
    for words in (part * (400_000 // len(part)), f"https://{part * 100_000}%"):
        assert masking.sentence(words)
        assert masking.address(words)


LETTERS = st.characters(
    exclude_categories=("Cs", "Cc", "Z"), exclude_characters="/?#@&;='\""
)  # fmt: skip
SAFE = st.text(LETTERS, min_size=1, max_size=12)


@fuzz.cases(200)
@given(SAFE, SAFE, st.sampled_from(["s3", "https", "postgresql+asyncpg", "tls"]))
def test_no_password_gets_through(user: str, password: str, scheme: str) -> None:
    password = f"<{password}>"  # not by chance a part of the rest
    for url in (f"{scheme}://{user}:{password}@host/x", f"see {scheme}://h/x?password={password}"):
        assert password not in masking.text(url)


@pytest.mark.parametrize(
    ("name", "secret"),
    [("api_key", True), ("openai_api_key", True), ("token", True), ("hf_token", True),
     ("password", True), ("client_secret", True), ("AWS_SECRET_ACCESS_KEY", True),
     ("auth_string", True), ("accessToken", True), ("sasToken", True), ("account_key", True),
     ("AccountKey", True), ("connection_string", True), ("key", False),
     ("ca_file", False), ("max_tokens", False),
     ("tokenizer", False), ("text_key", False), ("audio_key", False), ("author", False),
     ("max_sig", False)],
)  # fmt: skip
def test_names_of_secrets(name: str, secret: bool) -> None:
    assert masking.is_secret(name) is secret


def test_no_setting_of_today_is_hidden_by_its_name() -> None:
    """A harmless setting that is called like a secret would be lost from what is kept."""
    for shelf in shelves.SHELVES:
        for use in shelves.names(shelf):
            model = getattr(plugins.load(shelf, use), "Settings", StageSettings)
            for name in model.model_fields:
                assert masking.is_secret(name) == (roles(model)[name] == SECRET["role"])
    models: list[Any] = [*corpus.MODELS.values(), ClusterSettings, settings.PrepareSettings]
    for model in models:
        assert not any(map(masking.is_secret, model.model_fields))


class Remote(StageSettings):
    """Settings as a recogniser over the network will have them."""

    url: str = "https://api"
    api_key: SecretStr = Field(SecretStr(""), json_schema_extra=SECRET)
    model: str = "small"


def test_a_secret_field_is_whole_in_memory_and_hidden_when_written() -> None:
    made = Remote.model_validate({"url": f"https://u:{WORD}@api", "api_key": WORD})
    assert made.api_key.get_secret_value() == WORD
    assert WORD in made.url
    again = pickle.loads(pickle.dumps(made))  # on its way to a worker
    assert again == made
    for written in (made.model_dump_json(), repr(made.model_dump()), json.dumps(made.recipe())):
        assert WORD not in written
    assert "api_key" not in made.recipe()
    other = Remote.model_validate({"url": "https://v:other@api", "api_key": "other"})
    assert other.recipe() == made.recipe()  # a new password computes nothing again


def secret_settings(tmp: Path) -> settings.PrepareSettings:
    """Every place of a run's settings that may hold a secret, in one tree."""
    return settings.parse({
        "sources": [{"path": str(tmp / "in"), "name": "c", "licence": f"https://u:{WORD}@x/l"}],
        "out": str(tmp / "out"), "shard": {"settle_seconds": 0},
        "filter": {"segmenter": {"use": "whole"}},
        "transcribe": {"backend": {"use": "fake"}},
        "cluster": {"kind": "class", "class_name": "distributed.LocalCluster",
                    "options": {"password": WORD, "url": f"tls://u:{WORD}@h", "n": 1}},
    })  # fmt: skip


def test_nothing_that_a_run_writes_holds_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    corpus.make(tmp_path / "in", 2)
    chosen = secret_settings(tmp_path)
    assert chosen.cluster.options["password"] == WORD
    job = checks.check(chosen)
    log = logging.getLogger("uttermill")
    with run_folder.record(job.out, chosen) as record:
        log.warning("cannot reach %s", f"s3://u:{WORD}@b")
        try:
            raise OSError(f"https://u:{WORD}@host refused")
        except OSError:
            log.exception("a bug")
        published, _ = pipeline.run_here(job)
        record.finish({})
    held = {
        path for path in job.out.rglob("*") if path.is_file() and WORD.encode() in path.read_bytes()
    }
    assert held == set()
    assert "***" in (record.folder / "run.log").read_text()
    assert "***" in (record.folder / "settings.json").read_text()
    assert "***" in (published.path / "dataset.json").read_text()
    assert run_folder.settings_of(job.out).cluster.options["n"] == 1


def test_messages_hide_them_and_stay_on_one_line() -> None:
    url = f"https://u:{WORD}@h\x1b[31m\nforged: line"
    for kind in (errors.MillError, errors.ConfigError, errors.RunError, errors.CorruptManifest):
        assert str(kind(url)) == r"https://***@h\x1b[31m\nforged: line"
    error = errors.ItemError("unreadable", url)
    assert WORD not in f"{error} {error.detail} {error!r}"
    assert masking.sentence("广州 👩‍👩‍👧 \ud800") == "广州 👩‍👩‍👧 \\ud800"


@pytest.mark.parametrize(
    ("data", "where"),
    [({"cluster": {"kind": "address", "address": f"tls://u:{WORD}@h:1"}}, "holds no credentials"),
     ({"cluster": {"workers": f"https://u:{WORD}@h"}}, "cluster.workers"),
     ({"package": {"seed": f"x?token={WORD}"}}, "package.seed")],
)  # fmt: skip
def test_refusals_do_not_repeat_what_was_given(
    data: dict[str, Any], where: str, tmp_path: Path
) -> None:
    base = {"sources": [{"path": str(tmp_path)}], "out": "o"}
    with pytest.raises(errors.ConfigError, match=where) as caught:
        settings.parse({**base, **data})
    assert WORD not in str(caught.value)


def test_plugins_and_sources_are_hidden_too() -> None:
    plugin = Plugin.model_validate({"use": "x", "api_key": WORD, "deep": {"token": [WORD, WORD]}})
    source = Source.model_validate({"path": f"s3://k:{WORD}@b/x", "secret": WORD})
    assert plugin.options["api_key"] == WORD
    for made in (plugin, source):
        assert WORD not in made.model_dump_json()
        assert WORD in str(pickle.loads(pickle.dumps(made)))


@pytest.mark.server
def test_prefect_is_not_told(tmp_path: Path, prefect_api: Any) -> None:
    """Parameters of flow and child runs, and the messages of their states."""
    from uuid import uuid4

    from prefect import flow
    from prefect.client.orchestration import get_client

    name = f"masked-{uuid4().hex}"

    @flow(name=name, persist_result=False)
    def spend(cluster: ClusterSettings, sources: list[Source], backend: Plugin) -> str:
        raise errors.ConfigError(f"{sources[0].path} is refused")

    chosen = secret_settings(tmp_path)
    state: Any = spend(
        chosen.cluster, [Source(path=f"s3://k:{WORD}@b/x")],
        Plugin.model_validate({"use": "x", "api_key": WORD}), return_state=True,
    )  # fmt: skip
    assert state.is_failed()
    with get_client(sync_client=True) as client:
        found = client.request(
            "POST", "/flow_runs/filter", json={"flows": {"name": {"any_": [name]}}}
        )
        told = found.text
        states = client.request("GET", "/flow_run_states/", params={
            "flow_run_id": str(state.state_details.flow_run_id)}).text  # fmt: skip
    assert len(json.loads(told)) == 1
    assert "***" in told
    assert WORD not in told
    assert "s3://***@b/x is refused" in states
    assert WORD not in states
