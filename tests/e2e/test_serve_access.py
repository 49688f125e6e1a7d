"""Pages of other sites, and a host name that is made to point here, against `uttermill serve`: a
real browser, signed in and not. And what a signed-in person can do: fill in Prefect's form, start a
run from it, and look at the run. `UTTERMILL_SCREENSHOTS` names where pictures go.

Needs Chromium, as `test_report_browser.py` does.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import soundfile as sf
import yaml
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import DeploymentFilter
from prefect.client.schemas.objects import FlowRun

from tests.e2e import service
from tests.e2e.test_report_browser import REBOUND, browser
from tests.faults.command import Site, Started, soon
from tests.helpers import corpus, loopback, prefect_database, tiers
from uttermill.flows.server.server import using
from uttermill.tasks.base import shelves

__all__ = ["browser"]  # a fixture
pytestmark = [pytest.mark.server, pytest.mark.cluster, pytest.mark.needs("chromium")]

#: Reads the deployments and starts a run of another program, in every way that a page has.
ATTACK = """
async ([api, mark]) => {
  const said = {};
  const tried = async (name, work) => {
    try { said[name] = await work(); } catch (error) { said[name] = "blocked"; }
  };
  const parameters = {
    sources: [], out: mark, history: "none",
    cluster: {kind: "class", class_name: "subprocess.Popen", options: {args: ["touch", mark]}},
  };
  const body = JSON.stringify({parameters, state: {type: "SCHEDULED"}});
  const json = {"Content-Type": "application/json"};
  const password = localStorage.getItem("prefect-password");
  const known = password ? {Authorization: `Basic ${password}`} : {};
  await tried("version", async () => (await fetch(`${api}/admin/version`)).status);
  await tried("known", async () => (await fetch(`${api}/admin/version`, {headers: known})).status);
  await tried("token", async () => (await fetch(`${api}/csrf-token?client=evil`)).status);
  await tried("deployments", async () =>
    (await fetch(`${api}/deployments/filter`, {method: "POST", body: "{}"})).status);
  const id = "ID";
  const run = `${api}/deployments/${id}/create_flow_run`;
  await tried("plain", async () => (await fetch(run, {method: "POST", body})).status);
  await tried("json", async () =>
    (await fetch(run, {method: "POST", headers: {...json, ...known}, body})).status);
  await tried("blind", async () =>
    (await fetch(run, {method: "POST", mode: "no-cors", body})).type);
  await tried("socket", () => new Promise((done) => {
    const socket = new WebSocket(`${api.replace("http", "ws")}/events/out`, ["prefect"]);
    socket.onopen = () => done("open");
    socket.onerror = () => done("blocked");
  }));
  return said;
}
"""


@dataclass
class Serving:
    site: Site
    process: Started
    told: dict[str, Any]
    deployment: UUID
    settings: dict[str, Any]

    @property
    def api(self) -> str:
        return f"{self.told['ui']}/api"

    def runs(self) -> list[FlowRun]:
        which = DeploymentFilter.model_validate({"id": {"any_": [self.deployment]}})
        with using(self.api, self.told["auth"]), get_client(sync_client=True) as client:
            return client.read_flow_runs(deployment_filter=which)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Iterator[Serving]:
    """As a user starts it who has the password of another server in the environment."""
    home = tmp_path_factory.mktemp("serve")
    prefect_database.give(empty_database, home / "prefect")
    environment = {
        "PREFECT_HOME": str(home / "prefect"), **service.EAGER,
        "PREFECT_SERVER_API_AUTH_STRING": "", "PREFECT_API_AUTH_STRING": "of:another server",
        "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",
    }  # fmt: skip
    site = Site(home, "", environment)
    corpus.make(site.source, 2)
    sf.write(site.source / "talk.wav", corpus.speech(99, 8.0, 16_000), 16_000)
    segmenter = {
        "use": "vad", "merge": "emilia", "threshold": 0.001, "neg_threshold": 0.0005
    }  # fmt: skip
    filters = [{"use": "duration", "min": 0.7}]
    file = site.settings("out", filter={"segmenter": segmenter, "filters": filters})
    with site.start("serve", file, "--name", "guarded", "--json") as started:
        assert soon(started.stdout, every=0.1), started.stderr()
        told = json.loads(started.stdout())
        with using(f"{told['ui']}/api", told["auth"]), get_client(sync_client=True) as client:
            deployment = client.read_deployment_by_name("prepare/guarded").id
        yield Serving(site, started, told, deployment, yaml.safe_load(file.read_text()))


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a page of another site."""
    home = tmp_path_factory.mktemp("evil")
    (home / "index.html").write_text("<!doctype html><title>evil</title>")
    with loopback.web(home) as server:
        yield f"{server.url.replace('127.0.0.1', REBOUND)}/"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    named = os.environ.get("UTTERMILL_SCREENSHOTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def opened(browser: Any) -> Iterator[Any]:
    """A page of a browser that nobody has used before; pytest shows what failed in it."""
    context = browser.new_context(viewport={"width": 1280, "height": 1200})
    try:
        context.set_default_timeout(120_000)
        context.on("requestfailed", lambda it: print(it.method, it.url, it.failure))
        context.on("weberror", lambda it: print(it.error))
        context.on("console", lambda it: it.type == "error" and print(it.location["url"], it.text))
        yield context.new_page()
    finally:
        context.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    with opened(browser) as page:
        yield page


def signed_in(page: Any, serving: Serving) -> str:
    """The password that the page keeps. Without Prefect's UI, which signs out if one of its own
    requests is cut off, as by the next address."""
    key: str = serving.told["open"].partition("#")[2]
    page.goto(f"{serving.told['ui']}/ui-settings")
    page.evaluate("key => localStorage.setItem('prefect-password', key)", key)
    return key


def attacked(page: Any, serving: Serving, api: str) -> dict[str, Any]:
    """What each request of the attack got; none of them started anything."""
    mark, before = serving.site.home / "PWNED", len(serving.runs())
    script = ATTACK.replace("ID", str(serving.deployment), 1)
    found: dict[str, Any] = page.evaluate(script, [api, str(mark)])
    assert len(serving.runs()) == before
    assert not mark.exists()
    return found


@pytest.mark.parametrize("known", [False, True], ids=["without login", "signed in"])
def test_a_page_of_another_site_gets_nothing(
    page: Any, serving: Serving, evil: str, known: bool
) -> None:
    if known:
        signed_in(page, serving)
    page.goto(evil)
    said = attacked(page, serving, serving.api)
    assert said.pop("blind") == "opaque"  # sent, and refused: the browser shows no page how
    assert set(said.values()) == {"blocked"}, said


@pytest.mark.parametrize("known", [False, True], ids=["without login", "signed in"])
def test_a_name_that_is_made_to_point_here_gets_nothing(
    page: Any, serving: Serving, known: bool
) -> None:
    if known:
        signed_in(page, serving)
    rebound = serving.told["ui"].replace("127.0.0.1", REBOUND)
    assert page.goto(rebound).status == 400
    said = attacked(page, serving, f"{rebound}/api")  # its own origin, as the browser sees it
    assert (said.pop("blind"), said.pop("socket")) == ("basic", "blocked")
    assert set(said.values()) == {400}, said


def test_its_own_origin_without_a_login_gets_nothing(page: Any, serving: Serving) -> None:
    assert page.goto(f"{serving.told['ui']}/ui-settings").status == 200
    said = attacked(page, serving, serving.api)
    del said["socket"], said["blind"]  # opens, and asks for the password first
    assert set(said.values()) <= {401, 403}, said


def test_no_page_frames_the_ui(page: Any, serving: Serving, evil: str) -> None:
    page.goto(evil)
    page.set_content(f"<iframe src='{serving.told['ui']}/'></iframe>")
    page.wait_for_timeout(500)
    (frame,) = page.frames[1:]
    assert "chrome-error" in frame.url


def test_a_wrong_address_signs_nobody_out(page: Any, serving: Serving) -> None:
    key = signed_in(page, serving)
    page.goto(f"{serving.told['ui']}/uttermill#d3Jvbmc6Z3Vlc3M=")
    page.get_by_text("Open the address that serve printed last.").wait_for()
    assert soon(lambda: page.evaluate("localStorage.getItem('prefect-password')") == key)
    assert "#" not in page.url


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_whoever_opens_the_address_is_signed_in(page: Any, serving: Serving, host: str) -> None:
    page.goto(serving.told["open"].replace("127.0.0.1", host))
    page.wait_for_url(lambda url: "/uttermill" not in url, wait_until="commit")
    other = page.context.new_page()  # to leave the first one would cut off what it asks for
    other.goto(f"{serving.told['ui'].replace('127.0.0.1', host)}/deployments")
    other.get_by_text("guarded").first.wait_for()


def test_the_form(page: Any, serving: Serving, pictures: Path) -> None:
    signed_in(page, serving)
    page.goto(f"{serving.told['ui']}/deployments/deployment/{serving.deployment}/run")
    for words in (
        "Where recordings come from.",  # of the flow's parameters
        "How recordings are cut into utterances.",  # of a stage's settings
        "Target sample rate, Hz.",
        "Its file name, or the dotted name of a module of your own.",  # of a plug-in
    ):
        page.get_by_text(words, exact=True).first.wait_for()
    for title in ("Settle Seconds", "Max Failed Fraction", "TLS"):
        page.get_by_text(title).first.wait_for()
    page.screenshot(path=pictures / "form.png")

    # A plug-in of its own place shows all of its settings.
    page.get_by_text("faster_whisper", exact=True).first.click()
    page.get_by_text("Hypotheses kept in beam search.").first.wait_for()
    page.screenshot(path=pictures / "plugin.png")

    # A plug-in is chosen from its shelf.
    page.get_by_role("button", name="folder", exact=True).first.focus()
    page.keyboard.press("Space")
    page.get_by_role("option", name="kaldi").wait_for()
    offered = [option.inner_text() for option in page.get_by_role("option").all()]
    assert offered == shelves.names("sources")
    page.screenshot(path=pictures / "choices.png")
    page.get_by_role("option", name="kaldi").click()

    # What the form does not show of a plug-in or a source is kept. Nothing is started here.
    sent: list[dict[str, Any]] = []

    def refuse(asked: Any) -> None:
        sent.append(json.loads(asked.request.post_data))
        asked.abort()

    page.route("**/create_flow_run", refuse)
    page.get_by_role("button", name="Submit").click()
    for _ in range(2000):
        if sent:
            break
        page.wait_for_timeout(50)
    parameters = sent[0]["parameters"]
    (source,) = parameters["sources"]
    assert (source["kind"], source["name"], source["expect_broken"]) == ("kaldi", "c", True)
    assert parameters["filter"]["filters"][0]["min"] == 0.7
    # Defaults that depend on another setting are not stated: they would overrule it.
    segmenter = parameters["filter"]["segmenter"]
    assert (segmenter["merge"], segmenter["target_seconds"]) == ("emilia", 10)
    assert not {"min_seconds", "min_speech_ms"} & segmenter.keys()
    backend = parameters["transcribe"]["backend"]
    assert (backend["use"], backend["model"]) == ("faster_whisper", "base")


def test_the_form_starts_a_run_that_ends_well(page: Any, serving: Serving, pictures: Path) -> None:
    signed_in(page, serving)
    page.goto(f"{serving.told['ui']}/deployments/deployment/{serving.deployment}/run")
    page.get_by_text("Where recordings come from.", exact=True).first.wait_for()
    run = service.submitted(page)
    with service.asked(serving.api, serving.told["auth"]):
        state = service.end_of(UUID(run["id"]))
    assert state.is_completed(), (state, serving.process.stderr()[-3000:])
    assert (serving.site.home / "out" / "datasets" / "v0001").is_dir()
    page.goto(f"{serving.told['ui']}/runs/flow-run/{run['id']}")
    page.get_by_text("Task Runs", exact=True).first.click()
    for name in ("shard", "filter · shard 000000 · 0.00 h", "package"):
        page.get_by_text(name, exact=True).first.wait_for()
    page.wait_for_timeout(1000)  # the graph is drawn by and by
    page.screenshot(path=pictures / "run.png")
    page.get_by_text("Artifacts", exact=True).first.click()
    page.get_by_text("uttermill-progress").first.wait_for()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cluster": {"kind": "class", "class_name": "subprocess.Popen",
                      "options": {"args": ["touch", "MARK"]}}}, "in none of the packages"),
        tiers.nightly({"cluster": {"kind": "class", "class_name": "distributed.SpecCluster",
                                   "options": {"scheduler": {"cls": "subprocess.Popen"}}}},
                      "settings file"),
        tiers.nightly({"filter": {"segmenter": {"use": "tests.plugins.stretches"}}},
                      "names the module"),
        tiers.nightly({"sources": [{"kind": "folder", "path": "/etc", "name": "c"}]},
                      "--allow FOLDER"),
        tiers.nightly({"out": "OUTSIDE"}, "--allow FOLDER"),
    ],
)  # fmt: skip
def test_who_knows_the_password_still_starts_no_other_program(
    serving: Serving, change: dict[str, Any], words: str
) -> None:
    """With variables of the process, another entrypoint, and pull steps, too."""
    mark = serving.site.home / "PWNED"
    outside = serving.site.home / "elsewhere"
    told = json.dumps({**serving.settings, **change})
    asked = told.replace("MARK", str(mark)).replace("OUTSIDE", str(outside))
    start = serving.site.home / "evil"
    start.mkdir(exist_ok=True)
    (start / "sitecustomize.py").write_text(f"open({str(mark)!r}, 'w')")
    variables = {"env": {"PYTHONPATH": str(start), "UTTERMILL_TRUST": "1"},
                 "command": f"touch {mark}"}  # fmt: skip
    with service.asked(serving.api, serving.told["auth"]), get_client(sync_client=True) as client:
        where: Any = f"/deployments/{serving.deployment}"
        steps = [{"prefect.deployments.steps.run_shell_script": {"script": f"touch {mark}"}}]
        client.request(
            "PATCH",
            where,
            json={"entrypoint": "antigravity.main", "pull_steps": steps, "path": "/"},
        )  # as far as the API takes it
        run = client.create_flow_run_from_deployment(
            serving.deployment, parameters=json.loads(asked), job_variables=variables
        )
        state = service.end_of(run.id)
    assert state.is_failed(), state
    assert words in str(state.message)
    assert not mark.exists()
    assert not outside.exists()
