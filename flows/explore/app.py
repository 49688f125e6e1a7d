"""The explorer's ASGI application: addresses to functions, and errors to one sentence."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ...tasks.audio import write_wav_bytes
from ...tasks.base.errors import ConfigError, MillError
from ...tasks.base.json_types import JsonObject, JsonValue
from ...tasks.shard_store import decision_log, hidden
from ...tasks.storage import versions
from ..run import run_folder
from . import access, charts, clip, looking, query, responses, sandbox
from .access import Gate
from .corpus import Corpus, Gone, Items
from .loading import Column, SqlValue
from .looking import Looking, alone
from .responses import HANDLERS, answer, parsed

BODY = 2_000_000  # bytes of a request, at most
HEAVY = 4  # responses with audio, and exports, made at the same time; others wait
WEB = Path(__file__).with_name("web")

Asking = Callable[[Corpus, Items, query.Parameters], JsonObject]
Storing = Callable[[Corpus, Items, JsonObject], JsonObject]


class Explorer:
    """Answers requests for one OUT. Starlette runs handlers that are plain functions in threads."""

    def __init__(self, corpus: Corpus, against: int | None, token: str, home: Path) -> None:
        self.corpus, self.against, self.home, self.token = corpus, against, home, token
        self._heavy, self._storing = ThreadPoolExecutor(HEAVY), ThreadPoolExecutor(1)

    def close(self) -> None:
        """Wait for responses being made; the corpus must have ended before."""
        for threads in (self._heavy, self._storing):
            threads.shutdown(cancel_futures=True)

    def page(self, request: Request) -> Response:
        text = (WEB / "index.html").read_text(encoding="utf-8")
        return Response(text.replace("{{base}}", f"/{self.token}/"), media_type="text/html")

    def about(self, request: Request) -> Response:
        """Response to the page's first request: versions, columns, values, limits."""
        items = self._items(request)
        described = versions.described(self.corpus.place(items.number))
        return answer(
            {
                "out": str(self.corpus.out),
                "version": items.number,
                "versions": self.corpus.versions(),
                "against": self.against,
                "columns": _columns(items.columns),
                "recording_columns": _columns(query.RECORDINGS),
                "facets": charts.facets(self.corpus, items),
                "read_only": self.corpus.read_only,
                "with_wer": charts.with_wer(self.corpus, items),
                "limits": charts.limits(self.corpus.job()),
                "utterances": described["utterances"],
                "seconds": described["seconds"],
            }
        )

    def of_items(self, ask: Asking) -> Callable[[Request], Response]:
        """A handler of `ask` on the items of a version."""

        def handler(request: Request) -> Response:
            asked = request.query_params.multi_items()
            return answer(ask(self.corpus, self._items(request), asked))

        return handler

    def compare(self, request: Request) -> Response:
        then = query.integer(request.query_params, "against", self.against)
        if then is None:
            raise ConfigError("give the version to compare with: against=N")
        asked = request.query_params.multi_items()
        items, other = self._items(request), self.corpus.items(then)
        return answer(charts.compared_versions(self.corpus, items, other, asked))

    def clip(self, request: Request) -> Response:
        return answer(clip.detail(self.corpus, self._items(request), _item(request)))

    def heavy(
        self, make: Callable[[Request], Response]
    ) -> Callable[[Request], Awaitable[Response]]:
        """A handler whose response takes memory or time: few run at once, and no thread waits."""

        async def handler(request: Request) -> Response:
            return await asyncio.wrap_future(self._heavy.submit(make, request))

        return handler

    def speech(self, request: Request) -> Response:
        name = request.query_params.get("recording", "")
        return answer(clip.speech(self.corpus.locator(name), self.corpus.going_on))

    def audio(self, request: Request) -> Response:
        """WAV of an item, or of `start` to `end` of its recording; supports ranges.

        Without audio 404; with `explain=1` 200 and the reason, since a browser logs each 404 in
        its console.
        """
        single = request.query_params
        try:
            items, item = self._items(request), _item(request)
            if "start" in single:
                row = clip.row(self.corpus, items, item)
                times = (single.get("start", ""), "start"), (single.get("end", ""), "end")
                low, high = (query.number(*time, clip.LATEST) for time in times)
                if not 0 <= low < high:
                    raise ConfigError("start must lie before end")
                rate = clip.bounds(row)[2]
                pcm = clip.span(self.corpus, items, row["recording"], low, high, rate)
            else:
                more = clip.NEIGHBOURS if single.get("around") == "1" else 0.0
                pcm = clip.audio_of(self.corpus, items, item, more)
        except Gone as error:
            return answer({"error": str(error)}, 200 if single.get("explain") == "1" else 404)
        whole = write_wav_bytes(*pcm)
        return responses.Sent(self.home, lambda file: file.write(whole), "audio/wav")

    def sql(self, request: Request) -> Response:
        """The result of one SELECT, run by `sandbox`."""
        text = request.query_params.get("sql", "")
        place = self.corpus.copied(self._items(request))
        return answer(sandbox.answer(place, text, self.corpus.going_on))

    def export(self, request: Request) -> Response:
        items, kind = self._items(request), request.path_params["kind"]
        if kind not in responses.KINDS:
            raise ConfigError(f"{kind!r} is not jsonl, parquet or zip")
        media, write = responses.KINDS[kind]
        filled = partial(write, self.corpus, items, request.query_params.multi_items())
        name = f"attachment; filename=uttermill-v{items.number:04d}.{kind}"
        return responses.Sent(self.home, filled, media, {"Content-Disposition": name})

    def reviews(self, request: Request) -> Response:
        line = query.integer(request.query_params, "since", 0)
        return answer(decisions_since(self.corpus, line or 0))

    def storing(self, store: Storing) -> Callable[[Request], Awaitable[Response]]:
        """A handler of a posted JSON object, one at a time."""

        def stored(data: bytes) -> Response:
            if self.corpus.read_only:
                raise ConfigError(looking.ONLY)
            given: JsonValue = parsed(data)
            if not isinstance(given, dict):
                raise ConfigError("send one JSON object")
            items = self.corpus.items(query.integer(given, "version"))
            return answer(store(self.corpus, items, given))

        async def handler(request: Request) -> Response:
            if "json" not in request.headers.get("content-type", ""):
                raise ConfigError("send JSON")
            data = bytearray()
            async for piece in request.stream():
                data += piece
                if len(data) > BODY:
                    raise HTTPException(413, f"a request holds up to {BODY:,} bytes")
            return await asyncio.wrap_future(self._storing.submit(stored, bytes(data)))

        return handler

    def _items(self, request: Request) -> Items:
        return self.corpus.items(query.integer(request.query_params, "version"))


def _item(request: Request) -> int:
    return query.integer(request.path_params, "item") or 0


def _columns(columns: Mapping[str, Column]) -> list[dict[str, str]]:
    return [{"name": name, **asdict(column)} for name, column in columns.items()]


def make(explorer: Explorer) -> Gate:
    """The whole application, behind `Gate`."""
    e = explorer
    routes = [
        Route("/", e.page),
        Route("/api/about", e.about),
        Route("/api/rows", e.of_items(query.rows)),
        Route("/api/recordings", e.of_items(query.recordings)),
        Route("/api/histogram", e.of_items(charts.histogram)),
        Route("/api/hours", e.of_items(charts.hours)),
        Route("/api/facets", e.of_items(charts.facets)),
        Route("/api/scatter", e.of_items(charts.scatter)),
        Route("/api/kept", e.of_items(charts.kept)),
        Route("/api/table", e.of_items(charts.table)),
        Route("/api/compare", e.compare),
        Route("/api/clip/{item}", e.clip),
        Route("/api/audio/{item}", e.heavy(e.audio)),
        Route("/api/timeline", e.of_items(clip.timeline)),
        Route("/api/speech", e.heavy(e.speech)),
        Route("/api/sql", e.heavy(e.sql)),
        Route("/api/export/{kind}", e.heavy(e.export)),
        Route("/api/reviews", e.reviews, methods=["GET"]),
        Route("/api/reviews", e.storing(store_decision), methods=["POST"]),
        Route("/api/reviews/selection", e.storing(store_selection), methods=["POST"]),
        Mount("/", StaticFiles(directory=WEB)),
    ]
    return Gate(Starlette(routes=routes, exception_handlers=HANDLERS), explorer.token)


# Decisions made on the page: checked, stored, and sent to other open pages.

MOST_DECISIONS = 100_000  # decisions of one request
PLACES = 3  # of seconds, as the page writes the boundaries of a clip


def decisions_since(corpus: Corpus, line: int) -> JsonObject:
    """Decisions from a line of the file on, with masks in what people wrote if the last run's rules
    hide something, and the line after the last."""
    decisions = decision_log.of(corpus.out)
    shown = [*decisions[line if 0 <= line <= len(decisions) else 0 :]]
    job = corpus.job()
    written = [decision.id for decision in shown if decision.text or decision.note]
    if job is not None and written and hidden.hides(job):
        sql = f"SELECT id, language FROM {corpus.items().name} WHERE id IN (SELECT unnest(?))"
        language_of = {row["id"]: row["language"] for row in corpus.rows(sql, [written])}
        for number, decision in enumerate(shown):
            language = language_of.get(decision.id)
            text, note = (hidden.shown(job, t, language) for t in (decision.text, decision.note))
            shown[number] = replace(decision, text=text, note=note or "")
    return {"next": len(decisions), "decisions": [asdict(decision) for decision in shown]}


def store_decision(corpus: Corpus, items: Items, given: JsonObject) -> JsonObject:
    """Store `decisions`, each on an utterance of this version and within its recording; returns the
    new ones."""
    asked = given.get("decisions")
    if not isinstance(asked, list) or not all(isinstance(entry, dict) for entry in asked):
        raise ConfigError("decisions must be a list of objects")
    decisions = [decision_log.checked(entry, decision_log.now()) for entry in asked]
    ids = [*{decision.id for decision in decisions}]
    rows = corpus.rows(
        f'SELECT cut.id AS id, max(beside."end") AS last FROM {items.name} AS cut '
        f"JOIN {items.name} AS beside ON beside.recording = cut.recording "
        "WHERE cut.id IN (SELECT unnest(?::VARCHAR[])) GROUP BY cut.id",
        [ids],
    )
    last_of = {row["id"]: float(row["last"] or 0) for row in rows}
    if missing := set(ids) - last_of.keys():
        raise ConfigError(f"version {items.number} has no utterance {min(missing)!r}")
    for decision in decisions:
        last = last_of[decision.id]
        if decision.end is not None and decision.end > last + 0.5 * 10**-PLACES:
            raise ConfigError(
                f"the recording ends at {last:.{PLACES}f} s; end the clip there, or before"
            )
    return _stored(corpus, decisions, given)


def store_selection(corpus: Corpus, items: Items, given: JsonObject) -> JsonObject:
    """Store one decision on many: on `items`, or on all that the filters `selection` choose."""
    if picked := given.get("items"):
        if query.integer(given, "version") is None:  # a newer one numbers its items otherwise
            raise ConfigError("say whose items these are: version=N")
        if not isinstance(picked, list) or not all(
            type(item) is int and abs(item) < query.LARGEST for item in picked
        ):
            raise ConfigError("items must be a list of numbers")
        where, values = "item IN (SELECT unnest(?))", list[SqlValue]([picked])
    else:
        # As an address holds them; an empty value is the one for null.
        filters = parse_qsl(str(given.get("selection") or ""), keep_blank_values=True)
        chosen = query.choice(items.columns, filters)
        where, values = chosen.sql, [*chosen.values]
    rows = corpus.rows(
        f"SELECT id FROM {items.name} WHERE id IS NOT NULL AND ({where}) ORDER BY item "
        f"LIMIT {MOST_DECISIONS + 1}",
        values,
    )
    if len(rows) > MOST_DECISIONS:
        raise ConfigError(
            f"choose up to {MOST_DECISIONS:,} clips at once, or change the limits instead"
        )
    one = {name: given.get(name) for name in ("decision", "note", "who", "text")}
    decisions = [decision_log.checked({**one, "id": row["id"]}, decision_log.now()) for row in rows]
    return {**_stored(corpus, decisions, given), "stored": len(decisions)}


def _stored(
    corpus: Corpus, decisions: Sequence[decision_log.Decision], given: JsonObject
) -> JsonObject:
    decision_log.append(corpus.out, decisions)
    line = given.get("since")
    return decisions_since(corpus, line if isinstance(line, int) else 0)


HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Served:
    """Where the page is."""

    url: str
    port: int
    tunnel: str  # the command that forwards the port to another machine
    version: int


def explore(
    out: Path, version: int | None, against: int | None, port: int, ready: Callable[[Served], None]
) -> None:
    """Serve until SIGINT or SIGTERM; calls `ready` once the port is open. ConfigError if OUT holds
    no such version, or the port is taken."""
    with run_folder.scratch() as folder:
        corpus = Looking(out, folder) if alone(out) else Corpus(out, folder)
        try:
            try:
                chosen = corpus.number(version)
                corpus.number(chosen if against is None else against)
            except MillError as error:  # a wrong number is a wrong argument here
                raise ConfigError(str(error)) from None
            with _listening(port) as listener:
                token = secrets.token_urlsafe(24)
                used = listener.getsockname()[1]
                explorer = Explorer(corpus, against, token, folder)
                view = f"#version={chosen}" if version is not None else ""
                url = f"http://{HOST}:{used}/?token={token}{view}"
                tunnel = f"ssh -N -L {used}:{HOST}:{used} {socket.gethostname()}"
                ready(Served(url, used, tunnel, chosen))
                try:
                    access.server(make(explorer), corpus.end).run([listener])
                finally:
                    corpus.end()
                    explorer.close()
        finally:
            corpus.close()


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port), backlog=64)
    except OSError as error:
        fault = os.strerror(error.errno or 0)
        raise ConfigError(f"port {port} cannot be used: {fault}; give another --port") from None
