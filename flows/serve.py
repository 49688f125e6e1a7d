"""`uttermill serve`: runs a settings file on a schedule and on request from Prefect's UI.

For one machine without a work pool. Each flow run is a process of its own, which ends with this
one. The deployment keeps the settings, for the form in the UI and for Retry.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..tasks import storage
from ..tasks.base import environment, masking
from ..tasks.base.errors import ConfigError
from ..tasks.base.json_types import JsonObject
from ..tasks.base.logs import log
from ..tasks.insight.estimating import changes
from ..tasks.insight.estimating.changes import Change
from . import flow_parameters, formatting, progress
from . import settings as files
from .checks import check
from .cluster import local
from .flow_parameters import values
from .server import import_prefect
from .settings import PrepareSettings, parse

if TYPE_CHECKING:
    from prefect.flows import Flow
    from prefect.runner import Runner
    from prefect.schedules import Schedule

PORT = 4200  # Prefect's default, so that the address stays the same; a free port when it is taken
FORBIDDEN = "/%&<>"  # by Prefect, in the name of a deployment
SHOWN = 5  # changed settings that are named


@dataclass(frozen=True)
class ServedSettings:
    path: str
    sets: tuple[str, ...]
    settings: PrepareSettings

    def remarks(self, chosen: PrepareSettings) -> Iterator[str]:
        """Where the file has changed since `serve` began, and where the run publishes something
        else into the served OUT."""
        try:
            now = files.read(self.path, [], None, list(self.sets))
        except ConfigError as error:
            yield f"{error}; this run uses the settings with which `uttermill serve` began"
        else:
            if differences := _between(self.settings, now):
                yield (
                    f"{Path(self.path).name} has changed since `uttermill serve` began "
                    f"({_in_words(differences)}), and this run does not use that; start "
                    "`uttermill serve` again to use it"
                )
        differences = _between(self.settings, chosen)
        if differences and chosen.out == self.settings.out:
            yield (
                f"this run has other settings than the schedule ({_in_words(differences)}) and "
                f"the same out: `latest` of {masking.text(str(chosen.out))} becomes its version, "
                "until the next scheduled run; set another out to try settings"
            )


def _between(before: PrepareSettings, after: PrepareSettings) -> list[Change]:
    """Of what can change a dataset, and of `out`."""
    differences = changes.between(before.job(), after.job())
    if before.out != after.out:
        differences.append(Change("out", before.out, after.out))
    return differences


def _in_words(differences: list[Change]) -> str:
    named = [formatting.changed(c._asdict()) for c in differences[:SHOWN]]
    more = len(differences) - len(named)
    return masking.text(", ".join([*named, *([f"and {more} more"] if more else [])]))


@dataclass
class Served:
    """What was started. `open` is the UI's address that signs a browser in; `auth`, the password of
    the API, is None for a server configured by the user."""

    deployment: str
    ui: str
    open: str
    auth: str | None
    cron: str | None
    timezone: str | None
    paused: bool = False  # by a person, in the UI
    metrics: str | None = None  # the address for Prometheus
    alerts: bool = False  # whether alerts are sent for runs that do not end well


def serve(
    served: ServedSettings,
    name: str,
    cron: str | None,
    timezone: str | None,
    ready: Callable[[Served], None],
    trust: bool = False,
    allow: Sequence[str] = (),
    metrics: int | None = None,
    alert: str | None = None,
) -> None:
    """Check everything, then serve until SIGINT or SIGTERM, which also cancel a running flow run.

    `ready` is called once runs can be requested. `trust`: whoever starts a run may name code and
    files; `allow`: folders for sources and results beside those of the settings; `metrics`: a port
    at which the last run's metrics are served; `alert`: an address that gets a message for each run
    that does not end well. ConfigError before anything starts.
    """
    settings = served.settings
    check(settings)
    import_prefect()
    policy = None if trust else flow_parameters.policy(settings, allow)
    parameters = without_secrets(settings)
    if not name or any(letter in name for letter in FORBIDDEN):
        raise ConfigError(f"--name {name!r}: give a name without any of {' '.join(FORBIDDEN)}")
    schedule = schedule_of(cron, timezone)
    from .run import prometheus
    from .server import deployment, history

    deployment.check_alert(alert)
    zone = schedule.timezone if schedule else None
    runs = storage.place(settings.out) / "runs"
    with prometheus.serving(runs, metrics) as metrics_url, _api() as (ui, opened, auth):
        started = Served(f"prepare/{name}", ui, opened, auth, cron, zone, metrics=metrics_url)
        started.alerts = alert is not None
        flow = guarded(policy, served)
        with _interrupts_kept_from_runs():
            asyncio.run(_serve(flow, parameters, name, schedule, alert, started, ready))
        # Before the server ends, and outside of the loop: within one it would not wait.
        history.drain(timeout=10)


def schedule_of(cron: str | None, timezone: str | None) -> Schedule | None:
    """Prefect's schedule, or None without `cron`; ConfigError when it could never run."""
    if cron is None:
        if timezone is not None:
            raise ConfigError("--timezone needs --cron")
        return None
    from prefect.schedules import Cron
    from prefect.server.schemas.schedules import CronSchedule
    from pydantic import ValidationError

    try:
        asyncio.run(CronSchedule(cron=cron).get_dates(1))
    except (ValidationError, ValueError):  # malformed, or a date that never comes
        raise ConfigError(
            f"--cron {cron!r} names no time; write minute, hour, day, month and weekday, such as "
            '"0 2 * * *" for two in the morning'
        ) from None
    try:
        CronSchedule(cron=cron, timezone=timezone)
    except ValidationError:
        raise ConfigError(
            f"--timezone {timezone!r} is unknown here; give a name of the tz database, such as "
            "Europe/Berlin"
        ) from None
    return Cron(cron, timezone=timezone or "UTC")


def without_secrets(settings: PrepareSettings) -> JsonObject:
    """The settings as parameters of a flow run; ConfigError when they hold a secret."""
    parameters = settings.model_dump(mode="json", exclude_unset=True)
    if place := _hidden(parameters, ""):
        raise ConfigError(
            f"{place} holds a secret, which must not be stored in Prefect's database; give it in "
            "an environment variable (api_key_env, or the variables that the storage reads)"
        )
    return parameters


def _hidden(node: object, place: str) -> str:
    if isinstance(node, str):
        return place if masking.HIDDEN in node else ""
    if not isinstance(node, dict | list):
        return ""
    inner = node.items() if isinstance(node, dict) else enumerate(node)
    places = (_hidden(value, f"{place}.{key}".strip(".")) for key, value in inner)
    return next(filter(None, places), "")


@contextmanager
def _api() -> Iterator[tuple[str, str, str | None]]:
    """Gives Prefect an API, the configured one or a local server; yields the address of its UI, the
    one that signs a browser in, and the local server's password."""
    from prefect.settings import get_current_settings

    from .server import login
    from .server.server import LocalServer, check_api, configured_url, using

    if (configured := configured_url()) is not None:
        check_api(configured)
        client = get_current_settings()
        ui = client.ui_url or configured.removesuffix("/api")
        if client.api.auth_string is None and client.api.key is None:
            log.warning(
                "the Prefect server at %s asks for no login: whoever reaches it can start runs of "
                "this deployment; set PREFECT_SERVER_API_AUTH_STRING there",
                ui,
            )
        yield ui, ui, None
        return
    auth = login.chosen() or login.kept()
    # Flow runs are processes, in which the environment wins over Prefect's settings of this one:
    # there, the user may have the password of another server.
    variables = {"PREFECT_API_AUTH_STRING": auth, "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "true"}
    with ExitStack() as begun:
        server = begun.enter_context(LocalServer(port=PORT, scheduling=True, auth=auth))
        with progress.waiting("Prefect's server starts"):
            url = server.wait_ready()
        begun.enter_context(using(url, auth))
        begun.enter_context(environment.setting(variables))
        ui = server.url.removesuffix("/api")
        yield ui, login.address(ui, auth), auth


def guarded(policy: flow_parameters.Policy | None, served: ServedSettings) -> Flow[..., JsonObject]:
    """The flow `prepare`, which first checks its parameters, unless `policy` is None, and names
    what differs from the settings file.

    The runner passes this object to each flow run's process, and not the deployment's entrypoint
    and job variables, which an API client may change. Prefect does not validate its parameters, for
    which it would import what they name.
    """
    from .prepare import prepare

    @wraps(prepare.fn)
    def run(**given: Any) -> JsonObject:
        from .prepare import prepare  # not from the closure: see `lighten`
        from .server import artifacts

        chosen = parse(given)
        if policy is not None:
            policy.check(chosen)
        for remark in served.remarks(chosen.rooted()):
            artifacts.remark(remark)
        return prepare.fn(**values(chosen))

    flow: Any = prepare.with_options(validate_parameters=False)
    flow.fn = run
    guarded: Flow[..., JsonObject] = flow
    return guarded


def lighten(flow: Flow[..., JsonObject]) -> None:
    """Drop the form of its parameters, once the deployment has it.

    Python sends the flow to each new process through a pipe. If it does not fit (64 KiB), and that
    process dies before it has read it, this one would wait for ever.
    """
    from prefect.utilities.callables import ParameterSchema

    flow.parameters = ParameterSchema()


async def _serve(
    flow: Flow[..., JsonObject],
    parameters: JsonObject,
    name: str,
    schedule: Schedule | None,
    alert: str | None,
    served: Served,
    ready: Callable[[Served], None],
) -> None:
    """Notes in `served` whether a person has paused the schedule, and calls `ready`."""
    from httpx import HTTPError
    from prefect.exceptions import PrefectException
    from prefect.runner import Runner
    from prefect.types.entrypoint import EntrypointType

    from .server import deployment as stored
    from .server.server import quiet

    with quiet():
        former = await stored.pauses_of(f"{flow.name}/{name}")
        if schedule is not None:
            schedule = replace(schedule, active=not former.schedule)
        runner = Runner(name=name, pause_on_shutdown=False)
        deployment = await runner.aadd_flow(
            flow,
            name=name,
            schedule=schedule,
            paused=former.deployment,
            parameters=parameters,
            tags=[stored.TAG, stored.SERVED],
            description="What `uttermill serve` runs; its settings are a form.",
            entrypoint_type=EntrypointType.MODULE_PATH,
        )
        lighten(flow)
        await stored.set_alert(deployment, name, alert)
        served.paused = schedule is not None and any(former)
        await _until_stopped(runner, partial(ready, served))
        with suppress(PrefectException, HTTPError):  # a server that is gone plans nothing
            await stored.pause_unserved(deployment)


@contextmanager
def _interrupts_kept_from_runs() -> Iterator[None]:
    """Inside, Ctrl-C in a terminal is heard by this process alone, which cancels a flow run: its
    own process would print a traceback if it has just begun."""
    with local.interrupts_kept_from_workers():  # by this thread; so another one has to hear it
        threading.Thread(target=_hear_interrupts, name="interrupts", daemon=True).start()
        yield


def _hear_interrupts() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Event().wait()


async def _until_stopped(runner: Runner, ready: Callable[[], None]) -> None:
    running = asyncio.create_task(runner.start())
    await asyncio.sleep(0)  # the runner handles SIGTERM first, and would leave its runs behind
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    while not (runner.started or running.done()):
        await asyncio.sleep(0.05)
    if not running.done():
        ready()
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not running.done():
        await runner.astop()  # cancels a running flow run
    with suppress(asyncio.CancelledError):
        await running
