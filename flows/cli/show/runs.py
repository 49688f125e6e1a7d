"""What `run`, `demo`, `estimate` and `serve` print."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

from flows.cli.show.tables import broken, funnel, say, table
from flows.run import metrics
from flows.words import clock, error_rates, forecast, gigabytes, long_hours
from tasks.json_types import JsonObject

IDLE_SHARE = 0.7  # an estimate says that workers waited when they computed for less of the time


def run(result: JsonObject, console: Console) -> None:
    funnel(result, console)
    broken(result.get("broken", []), result["recordings"].get("failed", 0), console)
    computed = sum(s["items_computed"] for s in result["stages"].values())
    reused = sum(s["items_reused"] for s in result["stages"].values())
    if not computed and not result["new"]:
        say(console, f"Nothing was left to do: {reused} items reused, 0 computed.")
    else:
        stages = table("", "stage", ">computed", ">reused", ">worker time")
        for name, s in result["stages"].items():
            stages.add_row(name, s["items_computed"], s["items_reused"], clock(s["seconds"]))
        console.print(stages)
    if result["scored"]:
        say(console, error_rates(result))
    for line in _tars(result["tars"], result["new"]):
        say(console, line)
    splits = result.get("splits", {})
    if len(splits) > 1:
        parts = (f"{name} {split['hours']:.3f} h" for name, split in splits.items())
        say(console, f"Splits: {', '.join(parts)}.")
    if any(result["deaths"].values()):
        d = result["deaths"]
        say(
            console,
            f"Workers died {d['deaths']} times and were stopped {d['timeouts']} times; "
            f"{d['isolated']} shards ran item by item.",
        )
    for entry in result.get("reader_drops", []):
        say(console, f"warning: {entry['warning']}", "yellow")
    for line in metrics.lines(result.get("stragglers", [])):
        say(console, line)
    say(console, f"Dataset: {result['dataset']}  ({clock(result['wall_seconds'])})")


def _tars(tars: JsonObject, new: bool) -> list[str]:
    """What was written of the version's tars, and how even several readers find them."""
    if not new:
        return []
    wrote = f"Wrote {tars['written']} {_tar(tars['written'])}"
    if tars["linked"]:
        wrote += f"; {tars['linked']} {_tar(tars['linked'])} of the last version had not changed"
    told = [f"{wrote}."]
    if tars["readers"] > 1:
        worst = 60 * tars["worst_reader_extra_hours"]
        told.append(
            f"Of {tars['readers']} readers (package.readers), the one with most audio gets "
            f"{worst:.1f} min more than the mean."
        )
    return told


def _tar(count: int) -> str:
    return "tar" if count == 1 else "tars"


def serve(result: JsonObject, console: Console) -> None:
    when = f"at {result['cron']} ({result['timezone']})" if result["cron"] else "on request only"
    say(console, f"Serving {result['deployment']}: {when}; one run at a time, until Ctrl-C.")
    say(console, f"Form, runs and results: {result['ui']}")


def estimate(result: JsonObject, console: Console) -> None:
    """Print the forecast, each number with its 90 % interval."""
    sampled, hours = result["sample"], result["hours"]
    say(
        console,
        f"Sample: {sampled['recordings']} of {sampled['of']} recordings, {sampled['hours']:.2f} of "
        f"{hours['in']:.2f} h by header, {sampled['strata']} strata.",
    )
    shown = table("", "forecast", ">expected", ">from", ">to")

    def row(name: str, interval: dict[str, float] | None, words: Callable[[float], str]) -> None:
        shown.add_row(name, *forecast(interval, words))

    row("hours kept", hours["kept"], long_hours)
    if len(result["datasets"]) > 1:
        for name, entry in result["datasets"].items():
            row(f"  {name}, of {entry['hours_in']:,.2f} h", entry["kept"], long_hours)
    workers = " + ".join(f"{count} {kind}" for kind, count in result["workers"].items())
    row(f"time on {workers} workers", result["wall_seconds"], clock)
    row("CPU time", result["cpu_seconds"], clock)
    row("disk", result["disk_bytes"], gigabytes)
    console.print(shown)
    _estimate_notes(result, console)


def _estimate_notes(result: JsonObject, console: Console) -> None:
    """Print what limits the forecast, and where it was written."""
    sampled = result["sample"]
    if result["computing"] is not None and result["computing"] < IDLE_SHARE:
        say(
            console,
            f"Workers computed only {100 * result['computing']:.0f} % of the sample's time: they "
            "waited for a GPU, a server, or other programs on the machine. Without those waits a "
            "run takes less time.",
        )
    if sampled["scored"]:
        say(
            console,
            f"WER {100 * sampled['wer']:.1f} % on {sampled['scored']} sampled utterances with "
            "references.",
        )
    if sampled["reasons"]:
        told = ", ".join(f"{entry['items']} {name}" for name, entry in sampled["reasons"].items())
        say(console, f"Left out of the sample: {told}.")
    say(console, f"Not included: {'; '.join(result['leaves_out'])}.")
    if not result["fits"]:
        say(
            console,
            f"The disk is too small: {gigabytes(result['free_bytes'])} are free. A run would be "
            "refused; cluster.check_disk: false overrides that.",
        )
    say(
        console,
        f"Estimate: {result['estimate']}  ({clock(result['wall_spent_seconds'])}). `uttermill run` "
        "with the same settings continues from there.",
    )
