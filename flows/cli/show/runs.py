"""What `run`, `demo`, `estimate` and `serve` print."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from flows.cli.show.tables import Line, broken, funnel, table
from flows.formatting import clock, counted, error_rates, forecast, gigabytes, long_hours
from flows.run import metrics
from tasks.base.json_types import JsonObject

IDLE_SHARE = 0.7  # an estimate says that workers waited when they computed for less of the time


def run(result: JsonObject) -> Iterator[Line]:
    yield from funnel(result)
    yield from broken(result.get("broken", []), result["recordings"].get("failed", 0))
    for why, count in result.get("unreachable", {}).items():
        words = f"{counted(count, 'recording')} could not be read ({why}); the next run tries "
        yield Text(f"warning: {words}{'it' if count == 1 else 'them'} again", "yellow")
    computed = sum(s["items_computed"] for s in result["stages"].values())
    reused = sum(s["items_reused"] for s in result["stages"].values())
    if not computed and not result["new"]:
        yield f"Nothing was left to do: {reused} items reused, 0 computed."
    else:
        rows = (
            (name, stage["items_computed"], stage["items_reused"], clock(stage["seconds"]))
            for name, stage in result["stages"].items()
        )
        yield table("", ("stage", ">computed", ">reused", ">worker time"), rows)
    if result["scored"]:
        yield error_rates(result)
    yield from _tars(result["tars"], result["new"])
    splits = result.get("splits", {})
    if len(splits) > 1:
        parts = (f"{name} {split['hours']:.3f} h" for name, split in splits.items())
        yield f"Splits: {', '.join(parts)}."
    if any(result["deaths"].values()):
        d = result["deaths"]
        yield (
            f"Workers died {d['deaths']} times and were stopped {d['timeouts']} times; "
            f"{d['isolated']} shards ran item by item."
        )
    for entry in result.get("reader_drops", []):
        yield Text(f"warning: {entry['warning']}", "yellow")
    yield from metrics.lines(result.get("stragglers", []))
    yield f"Dataset: {result['dataset']}  ({clock(result['wall_seconds'])})"


def _tars(tars: JsonObject, new: bool) -> Iterator[str]:
    """What was written of the version's tars, and how even several readers find them."""
    if not new:
        return
    wrote = f"Wrote {counted(tars['written'], 'tar')}"
    if tars["linked"]:
        wrote += f"; {counted(tars['linked'], 'tar')} of the last version had not changed"
    yield f"{wrote}."
    if tars["readers"] > 1:
        worst = 60 * tars["worst_reader_extra_hours"]
        yield (
            f"Of {tars['readers']} readers (package.readers), the one with most audio gets "
            f"{worst:.1f} min more than the mean."
        )


def serve(result: JsonObject) -> Iterator[Line]:
    when = f"at {result['cron']} ({result['timezone']})" if result["cron"] else "on request only"
    yield f"Serving {result['deployment']}: {when}; one run at a time, until Ctrl-C."
    yield f"Form, runs and results: {result['open']}"
    if result["auth"]:
        yield f"Password, for another browser or PREFECT_API_AUTH_STRING: {result['auth']}"


def estimate(result: JsonObject) -> Iterator[Line]:
    """The forecast, each number with its 90 % interval."""
    sampled, hours = result["sample"], result["hours"]
    yield (
        f"Sample: {sampled['recordings']} of {sampled['of']} recordings, {sampled['hours']:.2f} of "
        f"{hours['in']:.2f} h by header, {sampled['strata']} strata."
    )
    rows = [("hours kept", *forecast(hours["kept"], long_hours))]
    if len(result["datasets"]) > 1:
        for name, entry in result["datasets"].items():
            title = f"  {name}, of {entry['hours_in']:,.2f} h"
            rows.append((title, *forecast(entry["kept"], long_hours)))
    workers = " + ".join(f"{count} {kind}" for kind, count in result["workers"].items())
    noun = "worker" if sum(result["workers"].values()) == 1 else "workers"
    rows.append((f"time on {workers} {noun}", *forecast(result["wall_seconds"], clock)))
    rows.append(("CPU time", *forecast(result["cpu_seconds"], clock)))
    rows.append(("disk", *forecast(result["disk_bytes"], gigabytes)))
    yield table("", ("forecast", ">expected", ">from", ">to"), rows)
    yield from _estimate_notes(result)


def _estimate_notes(result: JsonObject) -> Iterator[Line]:
    """What limits the forecast, and where it was written."""
    sampled = result["sample"]
    if result["computing"] is not None and result["computing"] < IDLE_SHARE:
        yield (
            f"Workers computed only {100 * result['computing']:.0f} % of the sample's time: they "
            "waited for a GPU, a server, or other programs on the machine. Without those waits a "
            "run takes less time."
        )
    if sampled["scored"]:
        yield (
            f"WER {100 * sampled['wer']:.1f} % on "
            f"{counted(sampled['scored'], 'sampled utterance')} with references."
        )
    if sampled["reasons"]:
        told = ", ".join(f"{entry['items']} {name}" for name, entry in sampled["reasons"].items())
        yield f"Left out of the sample: {told}."
    yield f"Not included: {'; '.join(result['leaves_out'])}."
    if not result["fits"]:
        yield (
            f"The disk is too small: {gigabytes(result['free_bytes'])} are free. A run would be "
            "refused; cluster.check_disk: false overrides that."
        )
    yield (
        f"Estimate: {result['estimate']}  ({clock(result['wall_spent_seconds'])}). `uttermill run` "
        "with the same settings continues from there."
    )
