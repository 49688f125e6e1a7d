"""Deployments, retry, cancel, schedules and dead processes, as a Prefect server, a work pool with
its worker and `flow.serve` really do them: each path goes on from the manifests, and its record is
closed."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml
from prefect.client.orchestration import get_client
from prefect.client.schemas.schedules import CronSchedule

from tests.e2e import service
from tests.e2e.service import Service
from tests.faults.command import Site, differences, soon
from tests.helpers import corpus, shared_cluster
from tests.helpers.shared_server import Server
from tests.plugins import gate
from uttermill.flows.prepare import prepare
from uttermill.flows.server import history
from uttermill.tasks.base.errors import OutLocked
from uttermill.tasks.storage import lock

pytestmark = [pytest.mark.server, pytest.mark.cluster]

COUNT = 6
SHARDS = 3
POLL = 0.5  # s between two questions: to the server 20 ms of CPU, after processes as much
#: Where runs are held or fail: the longest recording, whose shard is the last one to end.
LAST = gate.name("transcribe", corpus.seconds_of(COUNT - 1))
STAGES = ("filter", "resample", "transcribe")
#: Workers of the run's own: where they have to end with it.
OWN: dict[str, Any] = {"workers": 2}  # one of them may be held


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, prefect_server: Server) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("paths"), prefect_server.url)
    corpus.make(made.source, COUNT)
    with service.asked(prefect_server.url):
        yield made


@pytest.fixture(scope="module")
def deployments(site: Site) -> None:
    """As the README says it."""
    # The pool may be there already: another test of the session deploys to it.
    pool = ("work-pool", "create", "default", "--type", "process", "--overwrite")
    service.command(site, "-m", "prefect", *pool)
    service.command(
        site, "-m", "prefect", "--no-prompt", "deploy", "--all",
        "--prefect-file", "infra/prefect.yaml",
    )  # fmt: skip


@pytest.fixture(scope="module")
def worker(site: Site, deployments: None) -> Iterator[Service]:
    arguments = ("-m", "prefect", "worker", "start", "--pool", "default")
    with service.service(site, *arguments) as started:
        yield started


@pytest.fixture(autouse=True)
def open_gates(site: Site) -> Iterator[None]:
    yield
    for left in site.gate.iterdir():
        left.unlink()


@pytest.fixture(scope="module")
def workers(site: Site) -> Iterator[dict[str, Any]]:
    """`cluster` of runs that nobody kills: to start two workers takes a run 2 s of CPU."""
    variables = {gate.VARIABLE: str(site.gate)}
    # Two runs may hold a worker each, and the third has the rest.
    with shared_cluster.serving(site.home / "scratch", variables, workers=3) as there:
        yield there


def settings(site: Site, out: str, cluster: dict[str, Any] = OWN) -> Path:
    return site.settings(
        out,
        shard={"settle_seconds": 0, "hours": 1.8 / 3600},
        transcribe={"backend": {"use": "tests.plugins.mendable_asr"}},
        cluster=cluster,
    )


@pytest.fixture(scope="module")
def reference(site: Site) -> Path:
    """What a quiet run gives, without Prefect or a cluster."""
    return site.undisturbed(settings(site, "reference"))


def run_here(chosen: Path) -> UUID:
    """A flow run in this process, to its end: one that a worker starts takes 4 s of CPU more."""
    state: Any = prepare(**yaml.safe_load(chosen.read_text()), return_state=True)
    run: UUID = state.state_details.flow_run_id
    return run


def held(site: Site, run: UUID) -> None:
    """Wait until the run waits at the gate, and until Prefect shows nothing else as open."""
    waits = site.gate / f"{LAST}.held"
    assert soon(waits.exists), service.state(run)
    waits.unlink()
    assert soon(lambda: len(service.task_runs(run)) == 1 + 3 * SHARDS, every=POLL)
    assert soon(lambda: len(service.still_open(run)) == 1, every=POLL), service.still_open(run)


def done_before(run: UUID) -> set[str]:
    """Names of the run's task runs that came to their end."""
    return {t.name for t in service.task_runs(run).values() if t.state and t.state.is_completed()}


def complete(run: UUID, shards: int = SHARDS) -> None:
    """The flow run ended well and Prefect has its whole record, with so many shards that were new
    or unfinished."""
    assert service.end_of(run).is_completed(), service.state(run)
    names = [f"{stage} · shard {n:06d} · 0.00 h" for stage in STAGES for n in range(shards)]

    def recorded() -> bool:
        tasks = service.task_runs(run).values()
        ended = sorted(t.name for t in tasks if t.state and t.state.is_completed())
        return set(ended) == {"shard", *names, "package"} and not service.still_open(run)

    assert soon(recorded, every=POLL), service.task_runs(run)
    # Each one has its stage as a tag, to be filtered by.
    for task in service.task_runs(run).values():
        assert not (task.state and task.state.is_completed()) or task.tags == [
            task.name.split(" · ")[0]
        ]
    text = service.artifact(run)
    assert "**Done: published v0001**" in text or "**Done: nothing new, v0001" in text
    assert "| **packaged** |" in text
    assert "report.html" in text


def summary(run: UUID, *words: str) -> None:
    """What the run left where it did not end well; Prefect may still be writing it."""
    assert soon(lambda: words[0] in service.artifact(run), every=POLL), service.artifact(run)
    text = service.artifact(run)
    for word in (*words, "**Retry**", "### Where it stood", "| filter |"):
        assert word in text


def retried(site: Site, run: UUID, reference: Path) -> None:
    """Retry goes on where the first attempt of the same flow run stopped, and ends it well."""
    assert soon(lambda: len(service.task_runs(run)) == 1 + 3 * SHARDS, every=POLL)
    first, done = service.task_runs(run), done_before(run)
    assert len(done) == 3 * SHARDS
    assert not service.reused(first)
    out = Path(service.flow_run(run).parameters["out"])
    assert not (out / "datasets").exists()

    service.retry(run)
    complete(run)
    second = {id: task for id, task in service.task_runs(run).items() if id not in first}
    assert service.reused(second) == done
    assert len(second) == 2 + 3 * SHARDS
    ended = service.flow_run(run)
    assert ended.run_count == 2
    assert not [tag for tag in ended.tags if ":" in tag], "nothing technical"
    assert differences(out, reference) == []


@pytest.mark.nightly
def test_all_deployments_are_accepted(deployments: None) -> None:
    """infra/prefect.yaml deploys what it says."""
    with get_client(sync_client=True) as client:
        nightly = client.read_deployment_by_name("prepare/prepare-nightly")
        manual = client.read_deployment_by_name("prepare/prepare-manual")
        sample = client.read_deployment_by_name("estimate/prepare-sample")
    (schedule,) = nightly.schedules
    assert isinstance(schedule.schedule, CronSchedule)
    assert schedule.schedule.cron == "0 2 * * *"
    assert schedule.schedule.timezone
    assert manual.schedules == []
    assert nightly.entrypoint == manual.entrypoint == "uttermill.flows.prepare:prepare"
    assert sample.entrypoint == "uttermill.flows.estimate:estimate"
    assert sample.schedules == []
    for deployment in (nightly, manual, sample):
        assert deployment.work_pool_name == "default"
        assert deployment.description
        assert deployment.global_concurrency_limit is None, "the lock of OUT decides"
        assert {"sources", "out", "cluster"} <= set(deployment.parameters)
    assert nightly.parameters == manual.parameters
    sampled = {"fraction": 0.005, "least": 50}
    assert sample.parameters == {**manual.parameters, **sampled}
    # The form of each has every field that its parameters fill.
    for deployment in (nightly, manual, sample):
        assert deployment.parameter_openapi_schema is not None
        assert set(deployment.parameters) <= set(deployment.parameter_openapi_schema["properties"])


@pytest.mark.nightly
def test_retry_of_a_failed_run_through_a_work_pool(
    site: Site, worker: Service, workers: dict[str, Any], reference: Path
) -> None:
    hold, fault = site.gate / f"{LAST}.hold", site.gate / f"{LAST}.fail"
    hold.touch()
    run = service.start(service.deployed("prepare-manual"), settings(site, "pool", workers))
    held(site, run)  # all others are done when it fails
    fault.touch()
    hold.unlink()
    failed = service.end_of(run)
    assert failed.is_failed()
    assert "the recogniser's licence has run out" in str(failed.message)
    assert soon(lambda: not service.still_open(run), every=POLL)
    summary(run, "## The run failed", "> the recogniser's licence has run out", "Fix the cause")
    fault.unlink()
    retried(site, run, reference)


SERVE = "from uttermill.flows.prepare import prepare; prepare.serve('served')"


@pytest.mark.nightly
def test_retry_of_a_killed_run_through_serve(site: Site, reference: Path) -> None:
    """The new attempt closes what the dead one left open, and not itself."""
    hold = site.gate / f"{LAST}.hold"
    hold.touch()
    with service.service(site, "-c", SERVE) as serving:
        assert soon(lambda: "polling for" in serving.words()), serving.words()
        run = service.start(service.deployed("served"), settings(site, "served"))
        held(site, run)
        service.owner(run).kill()
        assert service.end_of(run).is_crashed()
        assert soon(lambda: not serving.runs(), every=POLL), serving.runs()
        assert len(service.still_open(run)) == 1
        hold.unlink()
        retried(site, run, reference)


@pytest.mark.nightly
def test_cancel(site: Site, worker: Service, workers: dict[str, Any], reference: Path) -> None:
    manual, out = service.deployed("prepare-manual"), site.home / "cancel"
    hold = site.gate / f"{LAST}.hold"
    hold.touch()
    run = service.start(manual, settings(site, "cancel"))
    held(site, run)
    # Control: what has to be gone after.
    assert any("spawn_main" in " ".join(p.cmdline()) for p in worker.runs())
    assert any(site.temp.glob("uttermill-run-*"))
    with pytest.raises(OutLocked), lock.hold(out):
        pass
    assert service.still_open(run)

    service.cancel(run)
    ended = service.end_of(run)
    assert ended.is_cancelled(), ended
    assert soon(lambda: not worker.runs(), every=POLL), worker.runs()
    assert not any(site.temp.glob("uttermill-run-*"))
    with lock.hold(out):
        pass
    assert not (out / "datasets").exists()
    assert soon(lambda: not service.still_open(run), every=POLL), service.still_open(run)
    done = done_before(run)
    assert len(done) == 3 * SHARDS
    states = {task.state_name for task in service.task_runs(run).values()}
    assert states <= {"Completed", "Cancelled"}
    summary(run, "## The run was cancelled")

    hold.unlink()
    again = run_here(settings(site, "cancel", workers))
    complete(again)
    assert service.reused(service.task_runs(again)) == done
    assert service.state(run).is_cancelled(), "the next run leaves a closed record as it is"
    assert differences(out, reference) == []


@pytest.mark.nightly
def test_a_second_run_waits_or_refuses(
    site: Site, worker: Service, workers: dict[str, Any], reference: Path
) -> None:
    """The lock of OUT decides: a scheduled one waits, then finds nothing to do; one that a person
    started refuses; and one of the same deployment with another OUT runs meanwhile."""
    out = site.home / "two"
    hold = site.gate / f"{LAST}.hold"
    hold.touch()
    nightly = service.deployed("prepare-nightly")
    first = service.start(nightly, settings(site, "two", workers))
    held(site, first)
    with service.schedule(nightly, settings(site, "two", workers)) as second:
        assert soon(lambda: service.state(second).is_running(), every=POLL)

        beside = service.start(nightly, settings(site, "beside", workers))
        held(site, beside)
        other = run_here(settings(site, "two", workers))
        refused = service.end_of(other)
        assert refused.is_failed()
        words = f"another run holds {out}: .*, process {service.owner(first).pid} on "
        assert re.search(words, str(refused.message)), refused.message
        assert not service.task_runs(other)
        assert service.state(first).is_running(), "who refuses touches nothing of the first run"
        assert service.still_open(first)
        assert service.state(second).is_running()
        assert not service.task_runs(second)

        hold.unlink()
        complete(first)
        complete(beside)
        complete(second, shards=0)
    assert not service.reused(service.task_runs(first))
    tasks = service.task_runs(second)
    assert service.reused(tasks) == {task.name for task in tasks.values()}
    assert differences(out, reference) == []


@pytest.mark.nightly
def test_a_killed_flow_process(
    site: Site, worker: Service, workers: dict[str, Any], reference: Path
) -> None:
    """-9: Prefect sees that the flow run crashed, and its task run goes on for ever, until the
    next run goes on and closes it."""
    manual, out = service.deployed("prepare-manual"), site.home / "killed"
    hold, fault = site.gate / f"{LAST}.hold", site.gate / f"{LAST}.fail"
    hold.touch()
    run = service.start(manual, settings(site, "killed"))
    held(site, run)
    service.owner(run).kill()
    assert service.end_of(run).is_crashed()
    assert soon(lambda: not worker.runs(), every=POLL), worker.runs()
    (left,) = service.still_open(run)
    assert left.startswith("transcribe")
    assert left.endswith("Running")
    assert soon(lambda: "## The run crashed" in service.artifact(run), every=POLL)
    done = done_before(run)
    assert len(done) == 3 * SHARDS

    # Control: a next run that closes nothing; it fails, so that the one after it has to resume.
    fault.touch()
    hold.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "close_dead_runs", lambda out, me=None: (0, 0))
        failed = run_here(settings(site, "killed", workers))
    assert service.state(failed).is_failed()
    assert service.still_open(run) == [left]

    fault.unlink()
    again = service.start(manual, settings(site, "killed", workers))
    complete(again)
    assert service.still_open(run) == []
    (closed,) = [t for t in service.task_runs(run).values() if t.state and t.state.is_crashed()]
    assert closed.state is not None
    assert "the next run of the same folder closed its record" in str(closed.state.message)
    assert service.state(run).is_crashed()
    assert service.reused(service.task_runs(again)) == done
    assert differences(out, reference) == []
