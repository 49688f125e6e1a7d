"""`uttermill serve`: a process that runs a settings file on a schedule and when the UI asks for it.

For one machine without a work pool. Each flow run is a process of its own that ends with this one;
its deployment keeps the settings, so that the UI's form shows them and Retry has them.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from flows.settings import PrepareSettings, check
from tasks import masking
from tasks.errors import ConfigError

PORT = 4200  # Prefect's own, so that the address is the same at every start; a free one if taken
FORBIDDEN = "/%&<>"  # Prefect's, in the name of a deployment


@dataclass(frozen=True)
class Served:
    """What was started: name of the deployment, address of the UI, schedule."""

    deployment: str
    ui: str
    cron: str | None
    timezone: str | None


def serve(
    settings: PrepareSettings,
    name: str,
    cron: str | None,
    timezone: str | None,
    ready: Callable[[Served], None],
) -> None:
    """Check everything, then serve until SIGINT or SIGTERM; a run that goes on is cancelled then.

    `ready` is called once, when runs can be asked for. ConfigError before anything starts.
    """
    check(settings)
    parameters = without_secrets(settings)
    if not name or any(letter in name for letter in FORBIDDEN):
        raise ConfigError(f"--name {name!r}: a name without any of {' '.join(FORBIDDEN)} is needed")
    schedule = schedule_of(cron, timezone)
    with _api() as ui:
        served = Served(f"prepare/{name}", ui, cron, schedule.timezone if schedule else None)
        asyncio.run(_serve(parameters, name, schedule, lambda: ready(served)))


def schedule_of(cron: str | None, timezone: str | None) -> Any:
    """Prefect's schedule, or None without one; ConfigError when it could never be kept."""
    if cron is None:
        if timezone is not None:
            raise ConfigError("--timezone is for --cron; give both")
        return None
    from prefect.schedules import Cron
    from prefect.server.schemas.schedules import CronSchedule
    from pydantic import ValidationError

    try:
        asyncio.run(CronSchedule(cron=cron).get_dates(1))
    except (ValidationError, ValueError):  # what it is given, or that it never comes
        raise ConfigError(
            f"--cron {cron!r} names no time; write minute, hour, day, month and weekday, as in "
            '"0 2 * * *" for two in the morning'
        ) from None
    try:
        CronSchedule(cron=cron, timezone=timezone)
    except ValidationError:
        raise ConfigError(
            f"--timezone {timezone!r} is unknown here; give a name of the tz database, as "
            "Europe/Berlin"
        ) from None
    return Cron(cron, timezone=timezone or "UTC")


def without_secrets(settings: PrepareSettings) -> dict[str, Any]:
    """The settings as parameters of a flow run; ConfigError when that would lose a secret."""
    parameters = settings.model_dump(mode="json", exclude_unset=True)
    if place := _hidden(parameters, ""):
        raise ConfigError(
            f"{place} holds a secret, which Prefect's database is not to keep; give it by the "
            "environment (api_key_env, or what the storage reads)"
        )
    return parameters


def _hidden(found: Any, place: str) -> str:
    """The place of the first masked text, as `transcribe.backend.api_key`; empty without one."""
    if isinstance(found, str):
        return place if masking.HIDDEN in found else ""
    inner = (
        found.items()
        if isinstance(found, dict)
        else enumerate(found)
        if isinstance(found, list)
        else ()
    )
    places = (_hidden(value, f"{place}.{key}".strip(".")) for key, value in inner)
    return next(filter(None, places), "")


@contextmanager
def _api() -> Iterator[str]:
    """Within it Prefect has an API: the configured one, else a server of our own. Yields its UI."""
    from prefect.settings import get_current_settings

    from flows.server import api
    from flows.server.server import LocalServer, configured_url, using

    if (configured := configured_url()) is not None:
        api.check(configured)
        yield get_current_settings().ui_url or configured.removesuffix("/api")
        return
    with LocalServer.start(port=PORT, scheduling=True) as server, using(server.wait_ready()):
        yield server.url.removesuffix("/api")


async def _serve(
    parameters: dict[str, Any], name: str, schedule: Any, ready: Callable[[], None]
) -> None:
    from prefect.runner import Runner
    from prefect.types.entrypoint import EntrypointType

    from flows.prepare import prepare
    from flows.run import launch
    from flows.server import history

    launch.hush()
    runner = Runner(name=name, limit=1)
    await runner.aadd_flow(
        prepare, name=name, schedule=schedule, parameters=parameters, tags=["uttermill"],
        description="What `uttermill serve` runs; its settings are a form.",
        entrypoint_type=EntrypointType.MODULE_PATH,
    )  # fmt: skip
    running = asyncio.create_task(runner.start())
    await asyncio.sleep(0)  # it takes SIGTERM first, and would leave its runs behind
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    while not (runner.started or running.done()):
        await asyncio.sleep(0.05)
    if not running.done():
        ready()
    asked = asyncio.create_task(stop.wait())
    await asyncio.wait({running, asked}, return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if not running.done():
        await runner.astop()  # which cancels a run that goes on
    with suppress(asyncio.CancelledError):
        await running
    history.drain(timeout=10)  # before the server ends
