"""`uttermill serve`: refused before anything starts, or runs on schedule and on demand, and leaves
nothing behind. With a work pool beside it: the schedules of `infra/prefect.yaml` are kept too."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import cloudpickle  # type: ignore[import-untyped]
import pytest
import yaml
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate, WorkPoolCreate
from prefect.client.schemas.filters import FlowRunFilter, LogFilter
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.schedules import CronSchedule
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

from tests.e2e import service
from tests.faults.command import ROOT, Site, Started, soon
from tests.helpers import corpus, prefect_database, tiers
from tests.helpers.shared_server import Server
from tests.plugins import gate
from uttermill.flows import flow_parameters, serve, settings
from uttermill.flows.cli.command_line import main
from uttermill.flows.serve import ServedSettings, schedule_of, without_secrets
from uttermill.flows.server import server as prefect_client
from uttermill.flows.settings import parse
from uttermill.tasks.base.errors import ConfigError

COUNT = 3
LAST = gate.name("transcribe", corpus.seconds_of(COUNT - 1))


@pytest.mark.parametrize(
    ("cron", "timezone", "words"),
    [
        ("abc", None, "names no time; write minute, hour"),
        ("61 0 * * *", None, "names no time"),
        ("0 0 31 2 *", None, "names no time"),
        ("0 2 * * *", "Mars/Phobos", "--timezone 'Mars/Phobos' is unknown"),
        (None, "UTC", "--timezone needs --cron"),
    ],
)
def test_bad_schedules(cron: str | None, timezone: str | None, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        schedule_of(cron, timezone)


def test_good_schedules() -> None:
    assert schedule_of(None, None) is None
    for cron, timezone in (("0 2 * * *", None), ("30 4 * * 1", "Europe/Berlin")):
        made = schedule_of(cron, timezone)
        assert made is not None
        assert (made.cron, made.timezone) == (cron, timezone or "UTC")


def test_settings_keep_no_secret_and_only_what_was_said() -> None:
    data: dict[str, Any] = {"sources": [{"kind": "folder", "path": "/in"}], "out": "/out"}
    assert without_secrets(parse(data)) == data
    data["transcribe"] = {"backend": {"use": "openai_api", "url": "http://x/v1", "api_key": "k"}}
    with pytest.raises(ConfigError, match=r"transcribe\.backend\.api_key holds a secret"):
        without_secrets(parse(data))
    data["transcribe"] = {}
    data["sources"][0]["path"] = "s3://me:geheim@bucket/x"
    with pytest.raises(ConfigError, match=r"sources\.0\.path holds a secret") as error:
        without_secrets(parse(data))
    assert "geheim" not in str(error.value)


def test_bad_settings_and_names_are_usage(tmp_path: Path, capsys: Any) -> None:
    corpus.make(tmp_path / "in", 1)
    good = Site(tmp_path, "").settings("out")
    assert main(["serve", str(good), "--name", "a/b"]) == 2
    assert "--name 'a/b'" in capsys.readouterr().err
    assert main(["serve", str(good), "--set", "resample.rate=1"]) == 2
    assert "resample.rate" in capsys.readouterr().err
    assert main(["serve", str(tmp_path / "none.yaml")]) == 2


@pytest.mark.parametrize(
    "given",
    tiers.few(
        ["PREFECT_LOGGING_LEVEL=bad", "PREFECT_API_REQUEST_TIMEOUT=abc"],
        "PREFECT_LOGGING_LEVEL=bad",
    ),
)
def test_a_setting_that_prefect_refuses_is_one_sentence(given: str, tmp_path: Path) -> None:
    """It was 60 lines of traceback."""
    name, value = given.split("=")
    site = Site(tmp_path, "", {name: value})
    corpus.make(site.source, 1)
    ended = site.apart("serve", site.settings("out"))
    assert (ended.code, ended.stderr.count("\n")) == (2, 1), ended.stderr
    assert ended.error.startswith(f"Prefect refuses its settings ({name}: Input should be ")
    assert ended.error.endswith("); correct or unset them")


def test_a_run_is_compared_with_the_settings_file(tmp_path: Path) -> None:
    file = tmp_path / "night.yaml"
    text = "sources: [{kind: folder, path: in, name: c}]\nout: out\n"
    file.write_text(text)
    began = settings.read(str(file), [], None, ["package.seed=3"])
    served = ServedSettings(str(file), ("package.seed=3",), began)
    same = parse(without_secrets(began)).rooted()
    assert [*served.remarks(same)] == []
    file.write_text(f"{text}resample: {{rate: 24000}}\n")
    [remark] = served.remarks(same)
    assert remark.startswith("night.yaml has changed since `uttermill serve` began (resample.rate ")
    file.write_text("sources: [")
    [remark] = served.remarks(same)
    assert "this run uses the settings with which" in remark
    file.write_text(text)
    other = parse({**without_secrets(began), "resample": {"rate": 8000}}).rooted()
    [remark] = served.remarks(other)
    assert "(resample.rate 16000 → 8000) and the same out: `latest` of " in remark
    fewer = parse({**without_secrets(began), "package": {"formats": ["kaldi"], "seed": 3}}).rooted()
    [remark] = served.remarks(fewer)
    assert "(package.formats.kaldi added, package.formats.wenet removed)" in remark
    assert [*served.remarks(other.model_copy(update={"out": str(tmp_path / "trial")}))] == []


def test_what_is_sent_to_a_new_process_fits_into_a_pipe(tmp_path: Path) -> None:
    source = {"kind": "folder", "path": str(tmp_path)}
    chosen = parse({"sources": [source], "out": str(tmp_path / "out")})
    served = ServedSettings(str(tmp_path / "x.yaml"), (), chosen)
    flow = serve.guarded(flow_parameters.policy(chosen, ()), served)
    serve.lighten(flow)
    assert len(cloudpickle.dumps(flow)) < 1 << 15


@pytest.mark.parametrize("password", [None, "me:mine"])
def test_a_configured_server_without_a_login_is_warned_of(
    password: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(prefect_client, "check_api", lambda url: None)
    client = {PREFECT_API_URL: "http://prefect.example/api", PREFECT_API_AUTH_STRING: password}
    with temporary_settings(client), serve._api() as (ui, opened, auth):
        assert (ui, opened, auth) == ("http://prefect.example", "http://prefect.example", None)
    assert ("asks for no login" in caplog.text) == (password is None)


def test_ctrl_c_is_heard_by_serve_and_not_by_its_runs() -> None:
    """A flow run's process that had just begun printed a traceback."""
    told = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        with serve._interrupts_kept_from_runs():
            run = subprocess.run([sys.executable, "-c", told], stdout=subprocess.PIPE, check=True)
            os.kill(os.getpid(), signal.SIGINT)
            assert soon(lambda: heard, every=0.01)
    finally:
        signal.signal(signal.SIGINT, before)
    assert run.stdout == b"True\n"


@dataclass
class Serving:
    site: Site
    process: Started
    told: dict[str, Any]
    home: Path
    settings: Path


@pytest.fixture
def serving(tmp_path: Path, empty_database: Path) -> Iterator[Serving]:
    """With a Prefect home, and so a database, of its own: no other test sees its schedules. In the
    background of a script (`nohup … &`), where SIGINT is ignored and SIGTERM has to do."""
    home = tmp_path / "prefect"
    prefect_database.give(empty_database, home)
    environment = {"PREFECT_HOME": str(home), **service.EAGER}
    site = Site(tmp_path, "", environment, interruptible=False)
    corpus.make(site.source, COUNT)
    chosen = site.settings("out", transcribe={"backend": {"use": "tests.plugins.gated_asr"}})
    schedule = ("--cron", "0 2 * * *", "--timezone", "Europe/Berlin", "--name", "nights",
                "--allow", str(site.home / "other"))  # fmt: skip
    with site.start("serve", chosen, *schedule, "--json") as started:
        assert soon(started.stdout, every=0.1), started.stderr()
        told = json.loads(started.stdout())
        with service.asked(f"{told['ui']}/api"):
            yield Serving(site, started, told, home, chosen)


def scheduled(deployment: Any) -> list[FlowRun]:
    which = FlowRunFilter.model_validate(
        {"deployment_id": {"any_": [deployment]}, "state": {"type": {"any_": ["SCHEDULED"]}}}
    )
    with get_client(sync_client=True) as client:
        return client.read_flow_runs(flow_run_filter=which)


def at_two_in_berlin(runs: list[FlowRun]) -> bool:
    berlin = ZoneInfo("Europe/Berlin")
    times = [run.expected_start_time.astimezone(berlin) for run in runs if run.expected_start_time]
    return len(times) == len(runs) and all((t.hour, t.minute) == (2, 0) for t in times)


def nights() -> list[DeploymentScheduleCreate]:
    """Schedules of `prepare-nightly` in `infra/prefect.yaml`."""
    told = yaml.safe_load((ROOT / "infra/prefect.yaml").read_text())["deployments"]
    (nightly,) = [each for each in told if each["name"] == "prepare-nightly"]
    return [
        DeploymentScheduleCreate(
            schedule=CronSchedule(cron=each["cron"], timezone=each["timezone"])
        )
        for each in nightly["schedules"]
    ]


@pytest.mark.server
@pytest.mark.cluster
@pytest.mark.full
def test_serve(serving: Serving) -> None:
    site = serving.site
    told = serving.told
    assert (told["deployment"], told["cron"], told["timezone"]) == (
        "prepare/nights", "0 2 * * *", "Europe/Berlin"
    )  # fmt: skip
    assert "Serving prepare/nights" in serving.process.stderr()
    assert told["open"] in serving.process.stderr()
    assert told["auth"] == "tests:of no value", "the user's own, where there is one"
    assert not (serving.home / "uttermill-login").exists()
    with get_client(sync_client=True) as client:
        deployment = client.read_deployment_by_name("prepare/nights")
    assert deployment.entrypoint == "uttermill.flows.prepare.prepare"
    assert deployment.parameters["out"] == str(site.home / "out")

    # The schedule is kept: Prefect plans its runs, at two in Berlin.
    assert soon(lambda: scheduled(deployment.id), every=0.5)
    assert at_two_in_berlin(scheduled(deployment.id))

    # The same of a work pool's deployment on this server, as `prefect deploy` makes it.
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="default", type="process"))
        nightly = client.create_deployment(
            deployment.flow_id, "prepare-nightly", schedules=nights(), work_pool_name="default"
        )
    assert soon(lambda: scheduled(nightly), every=0.5)

    # One that is asked for is done, and says that the settings file has changed.
    file = serving.settings
    file.write_text(f"{file.read_text()}\nresample: {{rate: 8000}}\n")
    with get_client(sync_client=True) as client:
        run = client.create_flow_run_from_deployment(deployment.id).id
    assert service.end_of(run).is_completed(), service.state(run)
    assert (site.home / "out" / "datasets" / "v0001").is_dir()
    with get_client(sync_client=True) as client:
        which = LogFilter.model_validate({"flow_run_id": {"any_": [run]}})
        said = [entry.message for entry in client.read_logs(log_filter=which)]
    assert [s for s in said if "resample.rate 16000 → 8000), and this run does not use" in s]
    assert serving.process.stderr().count("and this run does not use that") == 1

    # The end: what goes on is cancelled, and nothing is left.
    (site.gate / f"{LAST}.hold").touch()
    with get_client(sync_client=True) as client:
        other = {**deployment.parameters, "out": str(site.home / "other")}
        run = client.create_flow_run_from_deployment(deployment.id, parameters=other).id
        assert soon((site.gate / f"{LAST}.held").exists), service.state(run)
    assert service.state(run).is_running()
    serving.process.process.send_signal(signal.SIGTERM)
    assert serving.process.process.wait(60) == 0, serving.process.stderr()
    assert serving.process.none_left(), serving.process.alive()
    assert "Traceback" not in serving.process.stderr()
    assert "Warning" not in serving.process.stderr()
    database = sqlite3.connect(serving.home / "prefect.db")
    query = "select state_name from flow_run where id = ?"
    assert database.execute(query, (str(run),)).fetchall() == [("Cancelled",)]
    query = "select distinct state_name from task_run where flow_run_id = ?"
    assert {*database.execute(query, (str(run),))} <= {("Completed",), ("Cancelled",)}
    query = "select data from artifact where flow_run_id = ?"
    ((text,),) = database.execute(query, (str(run),)).fetchall()
    database.close()
    assert "The run was cancelled" in text
    assert "Where it stood" in text


@pytest.mark.server
@pytest.mark.nightly
def test_a_pause_stays_when_it_starts_again(tmp_path: Path, prefect_server: Server) -> None:
    """It was active again: each start makes the schedule anew, and each end, which is a SIGTERM as
    at a terminal, pauses it and leaves nothing."""
    site = Site(tmp_path, prefect_server.url, service.EAGER)
    corpus.make(site.source, 1)
    chosen = site.settings("out")

    def served(change: Callable[[Any, Any], None]) -> tuple[bool, bool, bool]:
        """Serve, let a person change something in the UI, and stop: what it was at the start."""
        with site.start(
            "serve", chosen, "--cron", "0 2 * * *", "--name", "pausing", "--json"
        ) as it:
            assert soon(it.stdout, every=0.1), it.stderr()
            told = json.loads(it.stdout())["paused"]
            with service.asked(prefect_server.url), get_client(sync_client=True) as client:
                known = client.read_deployment_by_name("prepare/pausing")
                change(client, known)
            it.process.terminate()
            assert it.process.wait(60) == 0, it.stderr()
            assert it.none_left(), it.alive()
            return told, known.paused, known.schedules[0].active

    def active(client: Any, known: Any, wanted: bool) -> None:
        client.update_deployment_schedule(known.id, known.schedules[0].id, active=wanted)

    def other(client: Any, known: Any) -> None:
        active(client, known, wanted=True)
        client.pause_deployment(known.id)

    assert served(partial(active, wanted=False)) == (False, False, True)
    assert served(other) == (True, False, False)
    assert served(lambda client, known: client.resume_deployment(known.id)) == (True, True, True)
    assert served(lambda client, known: None) == (False, False, True)


def test_a_taken_port_is_no_obstacle() -> None:
    from uttermill.flows.server.server import LocalServer

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = LocalServer(port)
        try:
            assert server.port not in (0, port)
        finally:
            server.stop()
