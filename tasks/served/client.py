"""A client of one server: sends many items at once, and finds out why one gets no answer.

An item that the server refuses (400, 413, 422) fails alone. If an item is refused before any was
answered, or if all tries for an item fail, the client sends a control, which every working server
answers. If it is answered, the item is at fault. If not, the server or the settings are: the run
stops and keeps what it has. So an outage does not quarantine a corpus, and an item that crashes a
server does not block the run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Generic, TypeVar

from tasks.base import environment
from tasks.base.errors import ConfigError, RunError
from tasks.served.http import Body, Pace, Parsed, Refused, Server, Service, Stopped, Unanswered
from tasks.settings.servers import ServerSettings

Item = TypeVar("Item")
Result = TypeVar("Result")


class Failed(Exception):
    """A server that answers other items gave no answer to this one."""


def check(settings: ServerSettings, where: str, user: str) -> None:
    """ConfigError when a setting is missing, or a file; no request is sent."""
    for name, value in (("url", settings.url), ("model", settings.model)):
        if value is None:
            raise ConfigError(
                f"{where}.{name} is missing: {user} needs the server's url (http://host:8000/v1, "
                "say) and the name of a model on it"
            )
    if settings.ca_file is not None and not Path(settings.ca_file).is_file():
        raise ConfigError(f"{where}.ca_file {settings.ca_file!r} is not a file here")


def key(settings: ServerSettings, where: str, given: str = "") -> str:
    """The key, or an empty string. ConfigError when its variable is not set or it is invalid."""
    secret = given
    if settings.api_key_env is not None:
        secret = environment.secret(settings.api_key_env)
        if not secret:
            raise ConfigError(
                f"{where}.api_key_env names {settings.api_key_env!r}, which is not set in this "
                "process: export it where the run starts and on the workers"
            )
    if not secret.isascii() or not secret.isprintable():
        raise ConfigError(f"the key of {where} has characters that are invalid in a key")
    return secret.strip()


class Client(Generic[Parsed]):
    """Sends requests to one server. A worker process keeps it, and with it the pace."""

    def __init__(self, settings: ServerSettings, service: Service[Parsed], secret: str) -> None:
        import ssl

        import httpx

        self._settings, self._service, self._key = settings, service, secret
        try:
            context = settings.ca_file and ssl.create_default_context(cafile=settings.ca_file)
            self._tls = context or httpx.create_ssl_context()
        except OSError as error:
            raise ConfigError(
                f"{service.where}.ca_file {settings.ca_file!r} cannot be used: {error}"
            ) from error
        self.pace = Pace(settings.parallel)
        self._proven = False  # the server has answered with these settings

    def each(
        self, items: Sequence[Item], work: Callable[[Server[Parsed], Item], Result]
    ) -> Iterator[Result]:
        """`work` on every item, in order; up to `parallel` at once."""
        import httpx

        settings, stop = self._settings, threading.Event()
        headers = {"Accept-Encoding": "identity"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        limits = httpx.Limits(max_connections=settings.parallel)
        # One client per call: its connections last as long as these items are in memory.
        with (
            httpx.Client(headers=headers, verify=self._tls, limits=limits) as http,
            ThreadPoolExecutor(settings.parallel, "server") as pool,
        ):
            server = Server(http, self._service, settings, self._key, stop, self.pace)
            faults: list[RunError] = []

            def answered(item: Item) -> Result:
                try:
                    return work(server, item)
                except RunError as fault:
                    # Here, not where results are read: that thread may wake many requests later.
                    faults.append(fault)
                    stop.set()
                    raise

            waiting = [pool.submit(answered, item) for item in items]
            try:
                for future in waiting:
                    yield future.result()
            except Stopped:  # by a fault of a later item
                raise faults[0] from None
            finally:
                stop.set()
                for rest in waiting:
                    rest.cancel()

    def ask(
        self, server: Server[Parsed], sent: Body, control: Callable[[bool], Body], hint: str
    ) -> Parsed:
        """The answer. Failed if this item is at fault, else RunError; `hint` names the settings
        that a server may refuse. `control` makes a request that any working server answers; if its
        argument is True (all tries failed), one as large as the item's."""
        try:
            answer = server.ask(sent)
        except Refused as fault:
            if not self._proven:
                self._prove(server, control(False), str(fault), hint)
            raise Failed(f"the {self._service.noun}: {fault}") from None
        except Unanswered as fault:
            if fault.busy:
                raise RunError(self._down(str(fault))) from None
            self._prove(server, control(True), str(fault), hint)
            raise Failed(f"the {self._service.noun}: {fault}") from None
        self._proven = True
        return answer

    def _prove(self, server: Server[Parsed], control: Body, fault: str, hint: str) -> None:
        """Send the control, once. RunError unless the server answers."""
        try:
            server.ask(control, retries=0)
        except Refused:
            raise RunError(
                f"the {self._service.noun} {self._settings.url} accepts no "
                f"{self._service.items[:-1]} with these settings: {fault}; check {hint}"
            ) from None
        except Unanswered:
            raise RunError(self._down(fault)) from None
        self._proven = True

    def _down(self, fault: str) -> str:
        where = self._service.where
        return (
            f"the {self._service.noun} {self._settings.url} cannot be used now: {fault}; its "
            f"answers so far are kept: run it again to continue ({where}.timeout, .retries and "
            f".parallel "
            "limit how long and how often it is called)"
        )
