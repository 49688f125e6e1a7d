"""A client of one server: sends many items at once, and finds out why one gets no answer.

An item that the server refuses (400, 413, 422) fails alone. If an item is refused before any was
answered, or if all tries for an item fail, the client sends a control request, which every working
server answers. If the control is answered, the item is at fault; if not, the run stops and keeps
its results. So an outage does not quarantine a corpus, and an item that crashes a server does not
block the run.
"""

from __future__ import annotations

import json
import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from ...base import environment
from ...base.errors import ConfigError, RunError
from ...base.json_types import JsonObject
from ...settings.transcribe import ServerSettings

if TYPE_CHECKING:
    import httpx

FIRST = 4  # requests to begin with
TICK = 0.1  # s between checks whether the run has stopped

#: The request, as httpx takes it: `{"json": {…}}`, or `{"data": {…}, "files": {…}}`.
Body = JsonObject
Parsed = TypeVar("Parsed")  # the parsed answer
Item = TypeVar("Item")
Result = TypeVar("Result")
REFUSALS = (400, 413, 422)
JAMMED = (0, 408, 429, 503)  # send fewer requests; 0: no answer
BUSY = (408, 409, 429)  # retried, as are all from 500 on
LONGEST_PAUSE = 30.0  # s between tries, unless the server asks for more
MOST_BYTES = 4 << 20  # of an answer; one for a quarter of an hour has some 100 KiB


class Pace:
    """Limits the number of requests in flight, shared by the threads of one worker: `most` at most.

    The limit doubles with each round of answers until the server first pushes back, and then grows
    by one a round; a push back (429, 503, a time-out) halves it: the rule of TCP (RFC 5681).
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._limit = float(min(FIRST, most))
        self._busy = 0
        self._doubling = True
        self._until = 0.0  # nothing is sent before this time
        self._halved = 0.0  # when the limit was last halved
        self._free = threading.Condition()

    @property
    def limit(self) -> int:
        return int(self._limit)

    @contextmanager
    def slot(self, stopped: Callable[[], bool]) -> Iterator[bool]:
        """Waits for a free slot and holds it; yields False if the run has stopped meanwhile."""
        with self._free:
            while not stopped() and (self._busy >= self.limit or self._clock() < self._until):
                self._free.wait(TICK)
            self._busy += 1
        try:
            yield not stopped()
        finally:
            with self._free:
                self._busy -= 1
                self._free.notify_all()

    def answered(self) -> None:
        with self._free:
            step = 1.0 if self._doubling else 1.0 / self._limit
            if self._busy >= self.limit:  # an unreached limit may be high enough
                self._limit = min(self._limit + step, float(self._most))
            self._free.notify_all()

    def pushed_back(self, began: float, pause: float | None) -> None:
        """The server pushed back on a request that began at `began`: halves the limit once for all
        that were in flight together, and sends nothing for `pause` seconds."""
        with self._free:
            now = self._clock()
            self._doubling = False
            if began >= self._halved:
                self._limit = max(self._limit / 2, 1.0)
                self._halved = now
            if pause:
                self._until = max(self._until, now + pause)


@dataclass(frozen=True, slots=True)
class Service(Generic[Parsed]):
    """A server's task, and the words for it in messages."""

    where: str  # its settings: transcribe.backend
    noun: str  # transcription server
    items: str  # clips
    path: str  # appended to the base address
    parse: Callable[[bytes], Parsed]  # parses an answer; ValueError if it is invalid


@dataclass(eq=False)
class NoAnswer(Exception):
    """No usable answer to an item. `refused`: the server works, and refuses the item or these
    settings; else all tries failed. `busy`: the last answer asked to wait; `failing`: its status
    was 500 or more."""

    fault: str
    refused: bool = False
    busy: bool = False
    failing: bool = False


class Stopped(Exception):
    """Another item ended the run."""


class Failed(Exception):
    """A server that answers other items gave no answer to this one."""


@dataclass(frozen=True)
class Server(Generic[Parsed]):
    """A client with limits on time and tries; safe to use from many threads."""

    http: httpx.Client = field(repr=False)
    service: Service[Parsed]
    settings: ServerSettings
    key: str = field(repr=False)
    stop: threading.Event
    pace: Pace

    def ask(self, sent: Body, retries: int | None = None) -> Parsed:
        """The answer to an item: a clip, a text. Patience begins when it is first sent.

        NoAnswer if this item is refused, or no try got a usable answer: a control shows whose
        fault that is; RunError for a wrong key, address or model, or no server: every item would
        fail alike.
        """
        until = None
        most = self.settings.retries if retries is None else retries
        for attempt in range(most + 1):
            with self.pace.slot(self.stop.is_set) as going:
                if not going:
                    raise Stopped
                began = time.monotonic()
                until = until or began + self.settings.patience
                status, headers, body = self._post(sent, until)
                if status == 200:
                    self.pace.answered()
                elif status in JAMMED:
                    asked_for = retry_after(headers) or 0.0
                    # Do not wait for a server that asks for more time than patience allows.
                    self.pace.pushed_back(began, min(asked_for, max(until - time.monotonic(), 0)))
            if status == 200:
                try:
                    return self.service.parse(body)
                except (ValueError, RecursionError):
                    fault = "its answer is not a JSON object with a text; is "
                    fault += f"{self.service.where}.url that of an OpenAI-compatible server?"
            elif not status:
                fault = body.decode()
            else:
                fault = f"it answers {status} ({self.hidden(words(body))})"
                if status in REFUSALS:
                    raise NoAnswer(fault, refused=True)
                if status not in BUSY and status < 500:
                    raise RunError(self._blame(status, fault))
            pause = None if status == 200 else retry_after(headers)
            asked = f", and asks to wait {pause:.0f} s" if pause else ""
            if pause is None:
                pause = min(self.settings.backoff * 2**attempt, LONGEST_PAUSE)
                pause *= random.uniform(0.5, 1)
            if attempt == most or time.monotonic() + pause > until:
                tries = f"{fault}{asked}, after {attempt + 1} tries"
                raise NoAnswer(tries, busy=status in BUSY, failing=status >= 500)
            if self.stop.wait(pause):
                raise Stopped
        raise AssertionError("unreachable")

    def _post(self, sent: Body, until: float) -> tuple[int, Mapping[str, str], bytes]:
        """(status, headers, body); without an answer, status 0 and the fault as the body."""
        import httpx

        seconds = max(min(self.settings.timeout, until - time.monotonic()), 0.001)
        end = time.monotonic() + seconds
        body = bytearray()
        try:
            address = f"{self.settings.url}{self.service.path}"
            with self.http.stream("POST", address, timeout=seconds, **sent) as response:
                for block in response.iter_bytes():
                    body += block
                    if len(body) > MOST_BYTES:
                        return 0, {}, f"its answer is larger than {MOST_BYTES} bytes".encode()
                    if time.monotonic() > end:  # the client limits only each block
                        raise httpx.ReadTimeout("slow")
                return response.status_code, response.headers, bytes(body)
        except httpx.TimeoutException:
            return 0, {}, f"no answer within {seconds:.0f} s".encode()
        except (httpx.TransportError, httpx.DecodingError) as error:
            return 0, {}, self.hidden(f"{type(error).__name__}: {error}").encode()

    def hidden(self, message: str) -> str:
        """Without the key, which some servers repeat."""
        return message.replace(self.key, "***") if self.key else message

    def _blame(self, status: int, fault: str) -> str:
        where = self.service.where
        if status in (401, 403):
            cure = f"give a valid key by {where}.api_key_env (the name of a variable)"
        elif status == 404:
            cure = (
                f"check {where}.model ({self.settings.model!r}), and {where}.url, which usually "
                f"ends in /v1"
            )
        elif status < 400:
            cure = f"redirects are not followed: give the final address as {where}.url"
        else:
            cure = f"check {where}.url and the account"
        what = f"the {self.service.noun} {self.settings.url} accepts no {self.service.items}"
        return f"{what}: {fault}; {cure}"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait (RFC 9110, 10.2.3: a number or a date)."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * scale
            if seconds >= 0 and math.isfinite(seconds):
                return seconds
        except ValueError:
            pass
    try:
        then = parsedate_to_datetime(headers.get("retry-after", ""))
        return max(then.timestamp() - time.time(), 0.0)
    except (ValueError, TypeError):
        return None


def words(body: bytes) -> str:
    """The server's message about a failure, at most 300 characters."""
    message = body.decode("utf-8", "replace")
    try:
        value = json.loads(message)
        for name in ("error", "detail", "message"):
            value = value.get(name, value) if isinstance(value, dict) else value
        message = value if isinstance(value, str) else message
    except ValueError:
        pass
    return " ".join(message.split())[:300]


def check(settings: ServerSettings, where: str, user: str) -> None:
    """ConfigError if a setting or file is missing; sends no request."""
    for name, value in (("url", settings.url), ("model", settings.model)):
        if value is None:
            raise ConfigError(
                f"{where}.{name} is missing: {user} needs the server's url (http://host:8000/v1, "
                "say) and the name of a model on it"
            )
    if settings.ca_file is not None and not Path(settings.ca_file).is_file():
        raise ConfigError(f"{where}.ca_file {settings.ca_file!r} is not a file here")


def key(settings: ServerSettings, where: str, given: str = "") -> str:
    """The key, or an empty string. ConfigError if its variable is not set or it is invalid."""
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
        self,
        server: Server[Parsed],
        sent: Body,
        control: Callable[[bool], Body],
        hint: str,
        plain: Body | None = None,
    ) -> Parsed:
        """The answer. Failed if this item is at fault, else RunError; `hint` names the settings
        that a server may refuse. `control` makes a request that any working server answers; if its
        argument is True, one as large as the item's. `plain` uses nothing that a server may lack:
        some fail (500) on unsupported options."""
        try:
            answer = server.ask(sent)
        except NoAnswer as why:
            if why.busy:
                raise RunError(self._down(why.fault)) from None
            if not (why.refused and self._proven):
                request = control(not why.refused)
                self._prove(server, request, why.fault, hint, None if why.refused else plain)
            raise Failed(f"the {self._service.noun}: {why.fault}") from None
        self._proven = True
        return answer

    def _prove(
        self,
        server: Server[Parsed],
        control: Body,
        fault: str,
        hint: str,
        plain: Body | None,
    ) -> None:
        """Send the control, once, and `plain` if the server fails on it. RunError unless the
        control is answered."""
        try:
            server.ask(control, retries=0)
        except NoAnswer as still:
            refused = still.refused
            if still.failing and plain is not None:
                with suppress(NoAnswer, RunError):
                    server.ask(plain, retries=0)
                    refused = True
            if not refused:
                raise RunError(self._down(fault)) from None
            raise RunError(
                f"the {self._service.noun} {self._settings.url} accepts no "
                f"{self._service.items[:-1]} with these settings: {fault}; check {hint}"
            ) from None
        self._proven = True

    def _down(self, fault: str) -> str:
        where = self._service.where
        return (
            f"the {self._service.noun} {self._settings.url} cannot be used now: {fault}; its "
            f"answers so far are kept: run it again to continue ({where}.timeout, .retries and "
            ".parallel limit how long and how often it is called)"
        )
