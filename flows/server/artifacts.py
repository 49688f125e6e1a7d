"""Artifacts of a flow run in Prefect, made and updated while it goes on: one with the progress of
the run and then its result or failure, and in a run whose shards are grouped one more for each
group.

A thread posts them. Requests are few, because they would dominate short runs: one in a run of some
seconds, six per minute for each artifact of a long run, and at most MOST in EVERY_SECONDS: a server
that records a thousand workers can handle no more. Only the last ones are awaited, briefly. In
their texts, paths and errors are escaped and masked, so that no file name acts as markup.
"""

from __future__ import annotations

import contextvars
import logging
import re
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol, Self
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import ArtifactFilter
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.objects import State as PrefectState
from prefect.flows import Flow
from prefect.logging import get_run_logger
from prefect.states import Cancelled
from prefect.utilities.urls import url_for

from ...tasks.base import masking
from ...tasks.base.counting import counted
from ...tasks.base.errors import ConfigError, MillError, NothingLeft, OutLocked, TooManyFailed
from ...tasks.base.json_types import JsonObject
from ...tasks.base.logs import log
from ...tasks.publish.reason_meanings import MEANINGS
from .. import formatting
from ..formatting import clock, speed_of
from ..progress import Standing, left_in_words
from . import history
from .history import current_run, one_try

KEY = "uttermill-progress"  # Prefect's key of the artifact of the whole run
ABOUT = "Progress of the run, and its result."
FIRST_SECONDS = 4.0  # a run with nothing to do is over by then
EVERY_SECONDS = 10.0
MOST = 20  # requests in EVERY_SECONDS
RUN_CLOSE_SECONDS = 5.0  # that the end of a run waits for the last update of its own artifact
CLOSE_SECONDS = 10.0  # the same, for the last changes of all groups


def post(
    client: SyncPrefectClient,
    run: UUID,
    artifact_id: UUID | None,
    text: str,
    key: str | None = KEY,
    about: str = ABOUT,
) -> UUID:
    # Not the client's own methods, which also send an event with the whole text.
    if artifact_id is not None:
        reply = client.request(
            "PATCH", "/artifacts/{id}", path_params={"id": artifact_id}, json={"data": text}
        )
        reply.raise_for_status()
        return artifact_id
    artifact = {"key": key, "type": "markdown", "description": about, "data": text}
    reply = client.request("POST", "/artifacts/", json={**artifact, "flow_run_id": str(run)})
    reply.raise_for_status()
    return UUID(reply.json()["id"])


def artifact_of(client: SyncPrefectClient, run: UUID) -> tuple[UUID | None, str]:
    which = ArtifactFilter.model_validate({"flow_run_id": {"any_": [run]}, "key": {"any_": [KEY]}})
    for artifact in client.read_artifacts(artifact_filter=which, limit=1):
        return artifact.id, str(artifact.data)
    return None, ""


def remark(sentence: str, level: int = logging.WARNING) -> None:
    get_run_logger().log(level, "%s", sentence)


def summarise(flow: Flow[..., object], flow_run: FlowRun, state: PrefectState[object]) -> None:
    """Prefect's hook for a flow run that failed, crashed or was cancelled; then called in the
    process of its worker or of `serve`, because that of the run is gone."""
    what = (
        "was cancelled"
        if state.is_cancelled() or state.is_cancelling()
        else ("crashed" if state.is_crashed() else "failed")
    )
    try:
        with one_try() as client:
            artifact_id, before = artifact_of(client, flow_run.id)
            if what == "was cancelled" and before.startswith(DONE):
                return  # it had already finished
            if what == "was cancelled":
                ended: PrefectState[Any] = Cancelled(message="The flow run was cancelled.")
                history.end_task_runs(client, [str(flow_run.id)], ended)
            error = getattr(state.data, "result", state.data)  # usually a record of the result
            error = error if isinstance(error, Exception) else state.message
            link = url_for("flow-run", obj_id=flow_run.id)
            post(client, flow_run.id, artifact_id, failure(what, error, before, link))
    except Exception as error:  # the server may be why the run ended
        log.warning("no summary was left in Prefect: %s", error)


#: Arguments of Prefect's `flow` for those whose end `summarise` explains.
SUMMARISED: Any = {f"on_{end}": [summarise] for end in ("failure", "crashed", "cancellation")}


class Board(Protocol):
    @property
    def title(self) -> str:
        """The artifact's description in Prefect."""

    @property
    def over(self) -> bool:
        """Whether nothing more will change."""

    def news(self) -> str | None:
        """The text, if it has changed since the last call."""


class Poster:
    """Context manager within a flow run: posts its boards, in a thread. The first request that
    fails is logged; the run continues. `key`: Prefect's name of the artifact; `patience`: s that
    the end waits for the last changes."""

    def __init__(
        self, boards: Sequence[Board], key: str | None = None, patience: float = CLOSE_SECONDS
    ) -> None:
        self._left = deque(boards)  # those that may still change, the next ones to ask first
        self._key, self._patience = key, patience
        self._run = current_run()
        self._known: dict[str, UUID] = {}
        self._over = threading.Event()
        self._failed = False
        # In an empty context the thread would have no API, and Prefect would start a server.
        context_of_run = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context_of_run.run, args=(self._keep,), name="artifacts", daemon=True
        )

    def __enter__(self) -> Self:
        if self._run is not None:
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(self._patience)

    def _keep(self) -> None:
        client: SyncPrefectClient | None = None
        wait, over = FIRST_SECONDS, False
        with ExitStack() as stack:
            while not over:
                over = self._over.wait(wait)
                wait = EVERY_SECONDS
                try:
                    client = client or stack.enter_context(one_try())
                    self._round(client, len(self._left) if over else MOST)
                except Exception as error:  # whatever it is, the run continues
                    self._warn(error)

    def _round(self, client: SyncPrefectClient, most: int) -> None:
        until = time.monotonic() + CLOSE_SECONDS
        posted = 0
        for _ in range(len(self._left)):
            if posted == most or time.monotonic() > until:
                break
            board = self._left.popleft()
            over = board.over  # before the text: what changes in between is posted next time
            if (text := board.news()) is not None:
                posted += 1
                self._post(client, board.title, text)
            if not over:
                self._left.append(board)

    def _post(self, client: SyncPrefectClient, title: str, text: str) -> None:
        assert self._run is not None
        try:
            artifact_id = self._known.get(title)
            if artifact_id is None and self._key and self._run.run_count > 1:
                artifact_id, _ = artifact_of(client, self._run.id)  # of an earlier attempt
            self._known[title] = post(client, self._run.id, artifact_id, text, self._key, title)
        except Exception as error:  # whatever it is, the run continues
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        if isinstance(error, httpx.TransportError):  # the end of the run says so
            return
        if not self._failed:
            log.warning("an artifact of the run in Prefect was not updated: %s", error)
        self._failed = True


# Their texts.


WORST = 10  # reasons that are shown
DONE = "**Done:"
STOOD = "### Where it stood"  # kept, with what follows, when a failure is written above it
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~&])")

AGAIN = "**Retry**, or a new run, continues from here: finished work is reused."


def markdown(
    out: Path | str,
    seconds: float,
    stages: Sequence[Standing] = (),
    result: JsonObject | None = None,
    report: Path | None = None,
    link: str | None = None,
) -> str:
    """Of a run in progress or done. `seconds`: wall time; `result`: of `run --json`; `link`: the
    flow run's page."""
    if result:
        parts = [_done(result)]
    else:
        remaining = [stage.left for stage in stages if not stage.finished]
        # Stages overlap: the slowest one counts.
        longest = max((left for left in remaining if left is not None), default=None)
        left = "" if longest is None else f", about {clock(longest)} left"
        parts = [f"**Running for {clock(seconds)}**{left}."]
        parts += [STOOD, _stages(stages)] if stages else []
    lines = [f"- OUT: {_code(out)}"]
    if result:
        lines.append(f"- dataset: {_code(result['dataset'])}")
        lines.append(f"- every item: {_code(f'uttermill ledger {out}')}")
    if report:
        lines.append(f"- report, to browse, listen and move limits: {_code(report)}")
    if link:
        lines.append(f"- [this run's stages, shard by shard]({masking.text(link)})")
    return "\n\n".join([*parts, "\n".join(lines)]) + "\n"


def forecast(result: JsonObject) -> str:
    sampled, hours = result["sample"], result["hours"]
    rows = [[escaped(title.strip()), *cells] for title, *cells in formatting.forecast_rows(result)]
    parts = [
        f"{DONE} {sampled['recordings']} of {counted(sampled['of'], 'recording')} tried**, "
        f"{hours['in']:.2f} h in all by header.",
        table(("", "expected", "from", "to (90 %)"), rows),
        f"Not included: {escaped('; '.join(result['leaves_out']))}.",
    ]
    if not result["fits"]:
        parts.append("**The disk is too small: a run would be refused.**")
    return "\n\n".join(parts) + "\n"


def failure(what: str, error: object, before: str = "", link: str | None = None) -> str:
    """What happened, what to do, how far it got. `what`: `failed`, `crashed` or `was cancelled`;
    `error`: an exception or a state's message; `before`: the artifact until then."""
    sentence = masking.sentence(str(error)) if error else ""
    if isinstance(error, Exception) and not isinstance(error, MillError):
        sentence = f"{type(error).__name__}: {sentence}"
    parts = [f"## The run {what}"]
    if sentence:
        parts.append(f"> {escaped(sentence)}")
    if isinstance(error, NothingLeft) and error.notes:
        parts.append("\n".join(f"- {escaped(masking.sentence(note))}" for note in error.notes))
    parts.append(f"**What to do.** {_remedy(what, error)}")
    if link:
        parts.append(f"[Log of this run]({masking.text(link)}?tab=Logs)")
    start = before.find(STOOD)
    if start >= 0:
        parts.append(before[start:].rstrip())
    return "\n\n".join(parts) + "\n"


def _remedy(what: str, error: object) -> str:
    if isinstance(error, TooManyFailed):
        return (
            "Repair or remove the broken files, then **Retry**; or start a new run with a higher "
            "`package.max_failed_fraction`, or `expect_broken: true` for the source. A retry alone "
            "ends in the same way."
        )
    if isinstance(error, NothingLeft):
        return (
            "Do what the sentence above says, and start a new run; a retry alone ends in the same "
            "way."
        )
    if isinstance(error, ConfigError):
        return "Correct the settings or what they name, and start a new run; a retry alone fails."
    if isinstance(error, OutLocked):
        return f"Wait until the other run has ended. {AGAIN}"
    if what == "was cancelled":
        return AGAIN
    if what == "crashed":
        return (
            "Its process ended early (killed, out of memory, a power cut): check that the machine "
            f"has enough memory. {AGAIN}"
        )
    return f"Fix the cause; `run.log` in the newest folder of `runs/` in OUT has details. {AGAIN}"


def _stages(stages: Sequence[Standing]) -> str:
    rows = [
        [
            *(stage.name, _hours(stage.done), _hours(stage.total)),
            *(_hours(stage.reused) if stage.reused else "", stage.speed),
            "done" if stage.finished else left_in_words(stage).removesuffix(" left"),
        ]
        for stage in stages
    ]
    heads = ("stage", "done", "of", "reused", "throughput", "time left")
    return table(heads, rows)


def _done(result: JsonObject) -> str:
    seconds, whole = result["seconds"], result["seconds"]["in"] or 1.0
    wall = result["wall_seconds"]
    version = Path(result["dataset"]).name
    headline = f"published {version}" if result["new_version"] else f"nothing new, {version} stays"
    speed = speed_of(seconds["in"], wall)
    kept = f"{_hours(seconds['packaged'])} of {_hours(seconds['in'])}"
    head = f"{DONE} {headline}**, kept {kept} in {clock(wall)}" + (f" ({speed})." if speed else ".")
    reasons = sorted(result["reasons"].items(), key=lambda r: (-r[1]["seconds"], r[0]))
    rows = [_row("recordings in", result["recordings"]["in"], seconds["in"], whole)]
    for name, entry in reasons[:WORST]:
        meaning = MEANINGS.get(name.rpartition(".")[2], "")
        rows.append(_row(f"− {name}", entry["items"], entry["seconds"], whole, meaning))
    if rest := reasons[WORST:]:
        items = sum(entry["items"] for _, entry in rest)
        lost = sum(entry["seconds"] for _, entry in rest)
        rows.append(_row(f"− {counted(len(rest), 'more reason')}", items, lost, whole))
    items = result["utterances"]["packaged"]
    rows.append(_row("**packaged**", items, seconds["packaged"], whole))
    parts = [f"{head} {formatting.new_in_words(result)}".rstrip()]
    parts.append(table(("", "items", "hours", "share", ""), rows))
    if files := result.get("broken"):
        failed = result["recordings"]["failed"]
        lines = [
            f"- {_code(file['source_path'])} {escaped(file['reason'])}: {escaped(file['detail'])}"
            for file in files
        ]
        if (more := failed - len(files)) > 0:
            lines.append(f"- and {more} more: `uttermill ledger OUT --items`")
        parts.append("\n".join([f"**{counted(failed, 'broken file')}.**", "", *lines]))
    if result.get("scored"):
        parts.append(formatting.error_rates(result))
    warnings = [result[name] for name in ("unknown_speakers", "telephone") if name in result]
    warnings += [drop["warning"] for drop in result.get("reader_drops", [])]
    parts += [f"**Warning.** {escaped(sentence)}" for sentence in warnings]
    return "\n\n".join(parts)


def _row(name: str, items: int, seconds: float, whole: float, more: str = "") -> list[str]:
    return [name, str(items), f"{seconds / 3600:.3f}", f"{100 * seconds / whole:.1f} %", more]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: the first and the last column to the left, numbers to the right."""
    sides = [":---", *["---:"] * (len(heads) - 2), ":---"]
    lines = [heads, sides, *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _hours(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:.2f} h" if hours >= 1 else f"{hours:.3f} h"


def escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\1", text)


def _code(text: object) -> str:
    shown = masking.sentence(str(text))
    return f"`{shown}`" if "`" not in shown else escaped(shown)
