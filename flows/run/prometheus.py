"""OUT/runs/uttermill.prom: the last run and the newest version as metrics for Prometheus.

A text file for node_exporter's textfile collector, and what `serve --metrics PORT` answers. Each
run writes it at its end; a run that fails keeps the lines about the newest version, so that
`uttermill_version_published_timestamp_seconds` is a heartbeat. METRICS documents all names.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pyarrow.compute as pc

from ...tasks import storage
from ...tasks.accounting import metrics
from ...tasks.base.errors import ConfigError, MillError
from ...tasks.base.json_types import JsonObject
from ...tasks.base.logs import log
from ...tasks.storage import owners, tables

NAME = "uttermill.prom"
RUN, VERSION = "uttermill_run_", "uttermill_version_"
#: Name: labels, meaning. All are gauges.
METRICS: dict[str, tuple[tuple[str, ...], str]] = {
    f"{RUN}success": ((), "1 if the last run ended well, 0 if it failed"),
    f"{RUN}end_timestamp_seconds": ((), "when the last run ended, Unix time"),
    f"{RUN}wall_seconds": ((), "how long the last run that ended well took, s"),
    f"{RUN}new_recordings": ((), "recordings that the newest version has first from this run"),
    f"{RUN}new_utterances": (("outcome",), "utterances of those: packaged, dropped, failed"),
    f"{RUN}items": (("stage", "how"), "items of a stage that the run computed, or reused"),
    f"{RUN}worker_seconds": (("stage",), "workers' time that a stage took, s"),
    f"{RUN}queue_seconds": (("stage",), "time that calls of a stage waited for a worker, s"),
    f"{RUN}real_time_factor": (("stage",), "workers' time of a stage for a second of its audio"),
    f"{VERSION}number": ((), "number of the newest version"),
    f"{VERSION}published_timestamp_seconds": ((), "when it was published, Unix time"),
    f"{VERSION}recordings": (("state",), "recordings: in, or failed"),
    f"{VERSION}utterances": (("outcome",), "utterances: in, packaged, dropped or failed"),
    f"{VERSION}audio_seconds": (("outcome",), "audio: in, packaged, dropped, failed …, s"),
    f"{VERSION}reason_items": (("reason",), "items that were dropped or failed for a reason"),
    f"{VERSION}reason_seconds": (("reason",), "audio that was dropped or failed for it, s"),
}

ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
#: A metric's name, its labels and its value.
Sample = tuple[str, Mapping[str, str], float]


def write_result(runs: Path, folder: Path, result: JsonObject) -> None:
    """Write the file into OUT/runs after a run that ended well. `result`: of `run --json`;
    `folder`: the run's, with metrics.parquet. A failure does not fail the run."""
    now, published = time.time(), f"{VERSION}published_timestamp_seconds"
    with _spared(runs):
        samples = [*_of_calls(folder), *_counts(result, now)]
        if result["new_version"]:
            samples.append((published, {}, now))
        _write(runs, samples, "" if result["new_version"] else published)


def write_failure(runs: Path) -> None:
    with _spared(runs):
        now = time.time()
        _write(runs, [(f"{RUN}success", {}, 0), (f"{RUN}end_timestamp_seconds", {}, now)], VERSION)


def _write(runs: Path, samples: Iterable[Sample], kept: str) -> None:
    """`kept`: the beginning of the former file's lines that stay; "": none."""
    former = read(runs).splitlines() if kept else []
    text = _text(samples, [line for line in former if line.startswith(kept)])
    storage.write_atomic(runs / NAME, text.encode())


def read(runs: Path) -> str:
    """The file as it is; empty before the first run."""
    path = runs / NAME
    return storage.read(path).decode() if storage.exists(path) else ""


@contextmanager
def _spared(runs: Path) -> Iterator[None]:
    try:
        yield
    except (MillError, OSError) as error:
        log.warning("could not write %s: %s", runs / NAME, owners.words(error, runs))


def _counts(result: JsonObject, now: float) -> Iterator[Sample]:
    yield f"{RUN}success", {}, 1
    yield f"{RUN}end_timestamp_seconds", {}, now
    yield f"{RUN}wall_seconds", {}, result["wall_seconds"]
    yield f"{RUN}new_recordings", {}, result["new"]["recordings"]
    for outcome in ("packaged", "dropped", "failed"):
        yield f"{RUN}new_utterances", {"outcome": outcome}, result["new"][outcome]
    for stage, entry in result["stages"].items():
        for how in ("computed", "reused"):
            yield f"{RUN}items", {"stage": stage, "how": how}, entry[f"items_{how}"]
        yield f"{RUN}worker_seconds", {"stage": stage}, entry["seconds"]
    yield f"{VERSION}number", {}, result["version"]
    for what, label in (("recordings", "state"), ("utterances", "outcome")):
        for value, count in result[what].items():
            yield f"{VERSION}{what}", {label: value}, count
    for outcome, seconds in result["seconds"].items():
        yield f"{VERSION}audio_seconds", {"outcome": outcome}, seconds
    for reason, entry in result["reasons"].items():
        yield f"{VERSION}reason_items", {"reason": reason}, entry["items"]
        yield f"{VERSION}reason_seconds", {"reason": reason}, entry["seconds"]


def _of_calls(folder: Path) -> Iterator[Sample]:
    if not (folder / metrics.NAME).exists():
        return
    calls = tables.read(folder / metrics.NAME)
    for stage in sorted(pc.unique(calls["stage"]).to_pylist()):
        of_stage = calls.filter(pc.equal(calls["stage"], stage))
        sums = {
            name: pc.sum(of_stage[name]).as_py() or 0.0
            for name in ("queue_seconds", "wall_seconds", "audio_seconds")
        }
        yield f"{RUN}queue_seconds", {"stage": stage}, sums["queue_seconds"]
        if sums["audio_seconds"]:
            factor = sums["wall_seconds"] / sums["audio_seconds"]
            yield f"{RUN}real_time_factor", {"stage": stage}, factor


def _text(samples: Iterable[Sample], former: Iterable[str]) -> str:
    """In the exposition format: each metric's meaning, type and samples together."""
    by_name: dict[str, list[str]] = {name: [] for name in METRICS}
    for name, labels, value in samples:
        pairs = ",".join(f'{label}="{text.translate(ESCAPES)}"' for label, text in labels.items())
        by_name[name].append(f"{name}{{{pairs}}} {value:.15g}" if pairs else f"{name} {value:.15g}")
    for line in former:
        by_name.setdefault(line.partition("{")[0].partition(" ")[0], []).append(line)
    lines: list[str] = []
    for name, values in by_name.items():
        if values and name in METRICS:
            lines += [f"# HELP {name} {METRICS[name][1]}", f"# TYPE {name} gauge", *values]
    return "\n".join(lines) + "\n"


# `serve --metrics PORT`: the metrics of the last run, for a Prometheus on this machine.
#
# On loopback, without a token, as Prometheus expects; web pages cannot read the response, as other
# host names that resolve to this machine are refused.


HOST = "127.0.0.1"
PATIENCE_S = 2.0  # for a connection without a request: they are answered one by one
NAMES = (HOST, "localhost")
TYPE = "text/plain; version=0.0.4; charset=utf-8"


@contextmanager
def serving(runs: Path, port: int | None) -> Iterator[str | None]:
    """Serve the file in `runs` (OUT/runs) as `/metrics` at `port`, if given; yields the address.
    ConfigError if the port is taken."""
    if port is None:
        yield None
        return
    try:
        server = HTTPServer((HOST, port), _handler(runs))
    except OSError as error:
        raise ConfigError(f"--metrics {port}: {error.strerror}; choose another port") from None
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(runs: Path) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE_S

        def do_GET(self) -> None:
            hosts = self.headers.get_all("Host", [])
            if len(hosts) != 1 or hosts[0].partition(":")[0] not in NAMES:
                return self._answer(403, b"")
            if self.path != "/metrics":
                return self._answer(404, b"")
            try:
                return self._answer(200, read(runs).encode())
            except (MillError, OSError):
                return self._answer(503, b"")

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: a scrape every 15 s would fill the log."""

    return Handler
