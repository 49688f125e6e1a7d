"""What Prefect's form sends is run, and a run's artifact is shown. No other host is asked for
anything, although Prefect's new pages (`/v2`) try. The form itself is in `test_serve_access.py`.

Needs Chromium, as `test_report_browser.py` does.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter
from prefect.types.entrypoint import EntrypointType

from tests.e2e import service
from tests.e2e.test_report_browser import browser
from tests.e2e.test_serve_access import pictures
from tests.faults.command import Site
from tests.helpers import corpus, prefect_database, tiers
from tests.helpers.shared_server import Server
from tests.recording.test_urls import datajuicer, folder, hf_parquet, jsonl, kaldi, tar
from uttermill.flows.prepare import prepare
from uttermill.flows.run import launch
from uttermill.flows.server.door import KEY
from uttermill.flows.server.server import LocalServer, using
from uttermill.flows.settings import parse
from uttermill.tasks.base import shelves

pytestmark = [
    pytest.mark.server,
    pytest.mark.cluster,
    pytest.mark.needs("chromium"),
    pytest.mark.nightly,
]
__all__ = ["browser", "pictures"]  # fixtures


@dataclass
class Made:
    """What stands on the server: a run, and a deployment with sources of all kinds and plug-ins of
    which a few settings are given."""

    url: str
    artifact: UUID
    site: Site
    all_kinds: UUID
    parameters: dict[str, Any]


def table(home: Path) -> dict[str, Any]:
    corpus.make(home / "wav", 2)
    (home / "list.csv").write_text("file,said\nwav/r00.wav,one\nwav/r01.wav,two\n")
    return {"kind": "table", "path": "list.csv", "columns": {"audio": "file", "text": "said"}}


def lhotse(home: Path) -> dict[str, Any]:
    path = corpus.add(home, 1)
    source = {"type": "file", "channels": [0], "source": str(path)}
    recording = {"id": "r", "sources": [source], "sampling_rate": 16000, "num_samples": 9600,
                 "duration": 0.6, "channel_ids": [0]}  # fmt: skip
    cut = {"id": "c", "start": 0, "duration": 0.6, "channel": 0, "type": "MonoCut",
           "supervisions": [], "recording": recording}  # fmt: skip
    (home / "cuts.jsonl").write_text(json.dumps(cut) + "\n")
    return {"kind": "lhotse", "path": "cuts.jsonl"}


def with_all_kinds(site: Site) -> dict[str, Any]:
    makers = (
        datajuicer,
        folder,
        hf_parquet,
        jsonl,
        kaldi,
        lhotse,
        table,
        partial(tar, pattern="*.tar"),
    )
    sources: list[dict[str, Any]] = []
    for maker in makers:
        home = site.home / f"source{len(sources)}"
        home.mkdir()
        made = maker(home)
        path = str(home / made.pop("path", ""))
        sources.append({"path": path, "name": made["kind"], "expect_broken": True, **made})
    assert sorted(source["kind"] for source in sources) == shelves.names("sources")
    file = site.settings(
        "all",
        sources=sources,
        filter={
            "segmenter": {"use": "vad", "threshold": 0.001, "neg_threshold": 0.0005},
            "filters": [{"use": "duration"}, {"use": "rms", "min": -90}],
        },
        resample={"levels": [{"use": "peak"}]},
        transcribe={
            "backends": [{"use": "fake"}, {"use": "fake", "seed": 1}],
            "verdicts": [{"use": "confidence", "unless_wer": 0.5}, {"use": "agreement", "min": 0}],
        },
        package={"formats": ["wenet", {"use": "nemo", "audio": "flac"}], "splits": {"dev": 0.3}},
    )
    parameters: dict[str, Any] = yaml.safe_load(file.read_text())
    del parameters["transcribe"]["backend"]
    return parameters


@pytest.fixture(scope="module")
def own_server(empty_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of these tests alone. To store a deployment with so large a form, Prefect reads for
    a moment before it writes, and answers 503 if anybody has written meanwhile, as the other tests
    do all the time to the server that they share."""
    home = tmp_path_factory.mktemp("prefect")
    prefect_database.give(empty_database, home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", str(home))
        with LocalServer() as server:
            yield Server(server.wait_ready(), server.pid, str(home))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, own_server: Server) -> Made:
    site = Site(tmp_path_factory.mktemp("ui"), own_server.url)
    corpus.make(site.source, 4)
    (site.source / "r00.wav").write_bytes(b"this is no audio")
    file = site.settings("out", filter={"filters": [{"use": "duration", "min": 0.7}]})
    settings = yaml.safe_load(file.read_text())
    parameters = with_all_kinds(site)
    with using(own_server.url):
        launch.run(parse(settings))
        all_kinds = deployed("all", parameters)
        with get_client(sync_client=True) as client:
            run = service.newest(settings["out"])
            which = ArtifactFilter.model_validate({"flow_run_id": {"any_": [run]}})
            (artifact,) = [a for a in client.read_artifacts(artifact_filter=which) if a.key]
    base = own_server.url.removesuffix("/api")
    return Made(base, artifact.id, site, all_kinds, parameters)


def deployed(name: str, parameters: dict[str, Any]) -> UUID:
    made: Any = prepare.to_deployment(  # typed as if it might be a coroutine
        name, parameters=parameters, entrypoint_type=EntrypointType.MODULE_PATH
    )
    deployment: UUID = made.apply()
    return deployment


@pytest.fixture(scope="module")
def context(browser: Any, made: Made) -> Iterator[Any]:
    """A browser that reaches the local server only; asking another host fails the test."""
    foreign: list[str] = []

    def route(asked: Any) -> None:
        if asked.request.url.startswith((made.url, "data:", "blob:")):
            asked.continue_()
        else:
            foreign.append(asked.request.url)
            asked.abort()

    context = browser.new_context(viewport={"width": 1280, "height": 1200})
    context.route("**/*", route)
    # Signed in, as by the address that `serve` prints.
    context.add_init_script(f"localStorage.setItem('{KEY}', '{password()}')")
    yield context
    context.close()
    assert foreign == []


def password() -> str:
    return base64.b64encode(os.environ["PREFECT_API_AUTH_STRING"].encode()).decode()


def signed_in() -> dict[str, str]:
    return {"Authorization": f"Basic {password()}"}


@pytest.fixture
def page(context: Any) -> Iterator[Any]:
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.set_default_timeout(120_000)
    yield page
    page.close()
    assert faults == []


def settings_in(given: dict[str, Any], shown: dict[str, Any]) -> bool:
    return all(
        settings_in(value, shown[name]) if isinstance(value, dict) else value == shown[name]
        for name, value in given.items()
    )


@pytest.mark.parametrize("pages", tiers.few(["", "/v2"], ""))
def test_what_the_form_sends_is_run(page: Any, made: Made, pages: str) -> None:
    """Nothing is changed in the form: it sends what the deployment has, and defaults beside it."""
    page.goto(f"{made.url}{pages}/deployments/deployment/{made.all_kinds}/run")
    page.get_by_text("Where recordings come from.").first.wait_for()
    run = service.submitted(page)
    given, sent = made.parameters, run["parameters"]
    for source, shown in zip(given["sources"], sent["sources"], strict=True):
        assert settings_in(source, shown)
    for backend, shown in zip(
        given["transcribe"]["backends"], sent["transcribe"]["backends"], strict=True
    ):
        assert settings_in(backend, shown)
    assert settings_in(given["filter"]["segmenter"], sent["filter"]["segmenter"])
    service.command(made.site, "-m", "prefect", "flow-run", "execute", run["id"])
    answer = page.request.get(f"{made.url}/api/flow_runs/{run['id']}", headers=signed_in())
    state = answer.json()["state"]
    assert state["type"] == "COMPLETED", state["message"]
    described = json.loads((made.site.home / "all/datasets/latest/dataset.json").read_text())
    assert described["settings"]["filter"]["segmenter"]["threshold"] == 0.001
    assert {source["kind"] for source in described["settings"]["sources"]} == {
        *shelves.names("sources")
    }


def test_the_artifact(page: Any, made: Made, pictures: Path) -> None:
    page.goto(f"{made.url}/artifacts/artifact/{made.artifact}")
    page.get_by_text("Done: published v0001").wait_for()
    page.screenshot(path=pictures / "artifact.png")
    table = page.locator("table").first
    rows = [row.inner_text().split("\t") for row in table.locator("tbody tr").all()]
    assert [row[0].strip() for row in rows] == [
        "recordings in", "− filter.too_short", "− shard.unreadable", "packaged"
    ]  # fmt: skip
    assert [row[3].strip() for row in rows] == ["100.0 %", "25.0 %", "0.0 %", "75.0 %"]
    assert rows[2][4].strip() == "no decoder opens it"
    assert page.get_by_text("report.html").is_visible()
