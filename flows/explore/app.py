"""The explorer's ASGI application: addresses to functions, and errors to one sentence."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from importlib import resources
from pathlib import Path

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route

from flows.explore import charts, clip, export, overview, query, reviewing, sound
from flows.explore.answers import HANDLERS, answer, asked
from flows.explore.corpus import Corpus, Gone, Items
from flows.explore.gate import Gate
from flows.explore.loading import Column
from tasks.audio import write_wav_bytes
from tasks.dataset import versions
from tasks.errors import ConfigError
from tasks.json_types import JsonObject

KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
BODY = 16_000_000  # bytes of a request, at most
WEB = resources.files("flows.explore") / "web"

Asking = Callable[[Corpus, Items, query.Parameters], JsonObject]
Storing = Callable[[Corpus, Items, JsonObject], JsonObject]


class Explorer:
    """Answers requests for one OUT. Starlette runs handlers that are plain functions in threads."""

    def __init__(self, corpus: Corpus, against: int | None, token: str, home: Path) -> None:
        self.corpus, self.against, self.home, self.token = corpus, against, home, token

    def page(self, request: Request) -> Response:
        text = (WEB / "index.html").read_text(encoding="utf-8")
        return Response(text.replace("{{base}}", f"/{self.token}/"), media_type="text/html")

    def file(self, request: Request) -> Response:
        name = request.path_params["name"]
        kind = KINDS.get(Path(name).suffix)
        known = {each.name for each in WEB.iterdir()}  # no name with `..` or `/` is among them
        if kind is None or name not in known:
            raise HTTPException(404, "there is no such file")
        return Response((WEB / name).read_bytes(), media_type=kind)

    def about(self, request: Request) -> Response:
        """Answer to the page's first request: versions, columns, values to choose from, limits."""
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
                "facets": overview.facets(self.corpus, items),
                "limits": charts.limits(self.corpus.job()),
                "utterances": described["utterances"],
                "seconds": described["seconds"],
            }
        )

    def of_items(self, ask: Asking) -> Callable[[Request], Response]:
        """A handler that asks about the items of a version."""

        def handler(request: Request) -> Response:
            return answer(ask(self.corpus, self._items(request), asked(request)))

        return handler

    def compare(self, request: Request) -> Response:
        then = query.integer(request.query_params, "against", self.against)
        if then is None:
            raise ConfigError("give the version to compare with: against=N")
        items = self._items(request)
        other = self.corpus.items(then)
        return answer(overview.compared(self.corpus, items, other, asked(request)))

    def clip(self, request: Request) -> Response:
        item = request.path_params["item"]
        return answer(clip.detail(self.corpus, self._items(request), item))

    def speech(self, request: Request) -> Response:
        name = request.query_params.get("recording", "")
        return answer(sound.speech(self.corpus.shards.locator(name)))

    def audio(self, request: Request) -> Response:
        """WAV of an item, or of `start` to `end` of its recording; ranges as players ask them.

        Without audio 404; with `explain=1` 200 and the reason, since a browser writes each 404
        into its console.
        """
        single = request.query_params
        try:
            return self._audio(request, single)
        except Gone as error:
            return answer({"error": str(error)}, 200 if single.get("explain") == "1" else 404)

    def _audio(self, request: Request, single: Mapping[str, str]) -> Response:
        items, item = self._items(request), request.path_params["item"]
        if "start" in single:
            row = clip.row(self.corpus, items, item)
            low, high = (query.number(single.get(n, ""), n) for n in ("start", "end"))
            if not 0 <= low < high:
                raise ConfigError("start must lie before end")
            pcm = clip.span(self.corpus, row["recording"], low, high, int(row["sample_rate"]))
        else:
            more = clip.NEIGHBOURS if single.get("around") == "1" else 0.0
            pcm = clip.audio_of(self.corpus, items, item, more)
        data, status, headers = sound.part(write_wav_bytes(*pcm), request.headers.get("range"))
        return Response(data, status, headers, media_type="audio/wav")

    def export(self, request: Request) -> Response:
        items, kind, wanted = self._items(request), request.path_params["kind"], asked(request)
        name = f"uttermill-v{items.number:04d}.{kind}"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        if kind == "jsonl":
            export.chosen(items, wanted)  # bad parameters fail before the answer begins
            lines: Iterator[bytes] = export.jsonl(self.corpus, items, wanted)
            return StreamingResponse(lines, media_type=export.KINDS[kind], headers=headers)
        with tempfile.NamedTemporaryFile(dir=self.home, suffix=f".{kind}", delete=False) as file:
            path = Path(file.name)
        try:
            if kind == "parquet":
                export.parquet(self.corpus, items, wanted, path)
            elif kind == "zip":
                export.archive(self.corpus, items, wanted, path)
            else:
                raise ConfigError(f"{kind!r} is none of jsonl, parquet and zip")
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        media = export.KINDS.get(kind, "application/zip")
        return FileResponse(
            path, media_type=media, headers=headers, background=BackgroundTask(path.unlink)
        )

    def reviews(self, request: Request) -> Response:
        line = query.integer(request.query_params, "since", 0)
        return answer(reviewing.since(self.corpus, line or 0))

    async def store_review(self, request: Request) -> Response:
        return await self._posted(request, reviewing.store)

    async def store_selection(self, request: Request) -> Response:
        return await self._posted(request, reviewing.store_selection)

    async def _posted(self, request: Request, store: Storing) -> Response:
        if "json" not in request.headers.get("content-type", ""):
            raise ConfigError("send JSON")
        data = b""
        async for piece in request.stream():
            data += piece
            if len(data) > BODY:
                raise HTTPException(413, f"a request holds up to {BODY:,} bytes")
        try:
            given = json.loads(data)
        except ValueError:
            raise ConfigError("the request is not JSON") from None
        if not isinstance(given, dict):
            raise ConfigError("send one JSON object")
        number = given.get("version")
        if number is not None and not str(number).isdecimal():
            raise ConfigError(f"version is {number!r}; give a whole number")

        def work() -> Response:
            items = self.corpus.items(None if number is None else int(number))
            return answer(store(self.corpus, items, given))

        return await run_in_threadpool(work)

    def _items(self, request: Request) -> Items:
        return self.corpus.items(query.integer(request.query_params, "version"))


def _columns(columns: Mapping[str, Column]) -> list[dict[str, str]]:
    return [{"name": name, **asdict(column)} for name, column in columns.items()]


def make(explorer: Explorer) -> Gate:
    """The whole application, behind its gate."""
    e = explorer
    routes = [
        Route("/", e.page),
        Route("/api/about", e.about),
        Route("/api/rows", e.of_items(query.rows)),
        Route("/api/recordings", e.of_items(query.recordings)),
        Route("/api/histogram", e.of_items(charts.histogram)),
        Route("/api/scatter", e.of_items(charts.scatter)),
        Route("/api/kept", e.of_items(charts.kept)),
        Route("/api/table", e.of_items(overview.table)),
        Route("/api/compare", e.compare),
        Route("/api/clip/{item:int}", e.clip),
        Route("/api/audio/{item:int}", e.audio),
        Route("/api/timeline", e.of_items(clip.timeline)),
        Route("/api/speech", e.speech),
        Route("/api/export/{kind}", e.export),
        Route("/api/reviews", e.reviews, methods=["GET"]),
        Route("/api/reviews", e.store_review, methods=["POST"]),
        Route("/api/reviews/selection", e.store_selection, methods=["POST"]),
        Route("/{name}", e.file),
    ]
    return Gate(Starlette(routes=routes, exception_handlers=HANDLERS), explorer.token)
