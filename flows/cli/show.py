"""What people see of results: short tables on a rich console. Facts come from the results only."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows.run import metrics
from flows.run.disk import gigabytes

LITTLE = 0.7  # CPU time per time, below which an estimate says so


def clock(seconds: float) -> str:
    """1:02:03, or 2:03."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{secs:02d}" if hours else f"{minutes}:{secs:02d}"


def run(result: dict[str, Any], console: Console) -> None:
    funnel(result, console)
    computed = sum(s["items_computed"] for s in result["stages"].values())
    reused = sum(s["items_reused"] for s in result["stages"].values())
    if not computed and not result["new"]:
        _say(console, f"Nothing was left to do: {reused} items reused, 0 computed.")
    else:
        table = _table("", ("stage", "<"), ("computed", ">"), ("reused", ">"), ("time", ">"))
        for name, s in result["stages"].items():
            table.add_row(
                name, str(s["items_computed"]), str(s["items_reused"]), clock(s["seconds"])
            )
        console.print(table)
    if result["scored"]:
        _say(
            console,
            f"WER {100 * result['wer']:.1f} %, CER {100 * result['cer']:.1f} % "
            f"on {result['scored']} packaged utterances with references.",
        )
    tars = result["tars"]
    worst = tars["worst_reader_extra_hours"]
    _say(
        console,
        f"{tars['tars']} tars, {tars['written']} written and {tars['linked']} as they were; of "
        f"{tars['readers']} readers the worst gets {worst:.3f} h more than the mean.",
    )
    splits = result.get("splits", {})
    if len(splits) > 1:
        parts = (f"{name} {split['hours']:.3f} h" for name, split in splits.items())
        _say(console, f"Splits: {', '.join(parts)}.")
    if any(result["deaths"].values()):
        d = result["deaths"]
        _say(
            console,
            f"Workers died {d['deaths']} times and were stopped {d['timeouts']} times; "
            f"{d['isolated']} shards ran item by item.",
        )
    for entry in result.get("reader_drops", []):
        warning = f"warning: {entry['warning']}"
        console.print(warning, soft_wrap=True, markup=False, highlight=False, style="yellow")
    for told in metrics.lines(result.get("stragglers", [])):
        _say(console, told)
    _say(console, f"Dataset: {result['dataset']}  ({clock(result['wall_seconds'])})")


def serve(result: dict[str, Any], console: Console) -> None:
    when = f"at {result['cron']} ({result['timezone']})" if result["cron"] else "when asked only"
    _say(
        console,
        f"Serving {result['deployment']}: {when}; one run at a time, until Ctrl-C.\n"
        f"Form, runs and results: {result['ui']}")  # fmt: skip


def funnel(result: dict[str, Any], console: Console) -> None:
    """From what came in to what is packaged, every second in one line."""
    recordings, utterances, seconds = (
        result["recordings"], result["utterances"], result["seconds"],
    )  # fmt: skip
    table = _table("", ("", "<"), ("items", ">"), ("audio", ">"), ("share", ">"))
    whole = seconds["in"] or 1.0

    def row(name: str, items: Any, length: float) -> None:
        table.add_row(name, str(items), clock(length), f"{100 * length / whole:.1f} %")

    row("recordings in", recordings["in"], seconds["in"])
    for name, entry in result["reasons"].items():
        row(f"  − {name}", entry["items"], entry["seconds"])
    row("packaged", utterances["packaged"], seconds["packaged"])
    console.print(table)
    if result.get("ignored"):
        parts = ", ".join(f"{n} {reason}" for reason, n in sorted(result["ignored"].items()))
        _say(console, f"Left aside while listing: {parts}.")


def estimate(result: dict[str, Any], console: Console) -> None:
    """The forecast, each number with its 90 % interval."""
    sampled, hours = result["sample"], result["hours"]
    _say(
        console,
        f"Sample: {sampled['recordings']} of {sampled['of']} recordings, {sampled['hours']:.2f} of "
        f"{hours['in']:.2f} h by header, {sampled['strata']} strata.",
    )
    table = _table("", ("forecast", "<"), ("expected", ">"), ("from", ">"), ("to", ">"))

    def row(name: str, interval: dict[str, float] | None, words: Any) -> None:
        names = ("expected", "low", "high")
        shown = (words(interval[n]) for n in names) if interval else ("unknown", "", "")
        table.add_row(name, *shown)

    def length(value: float) -> str:
        return f"{value:,.2f} h"

    row("hours kept", hours["kept"], length)
    if len(result["datasets"]) > 1:
        for name, entry in result["datasets"].items():
            row(f"  {name}, of {entry['hours_in']:,.2f} h", entry["kept"], length)
    workers = " + ".join(f"{count} {kind}" for kind, count in result["workers"].items())
    row(f"time on {workers} workers", result["wall_seconds"], clock)
    row("CPU time", result["cpu_seconds"], clock)
    row("disk", result["disk_bytes"], gigabytes)
    console.print(table)
    if result["computing"] is not None and result["computing"] < LITTLE:
        _say(
            console,
            f"Workers computed only {100 * result['computing']:.0f} % of the sample's time: they "
            "waited for a GPU, a server, or other programs on the machine. Undisturbed by those, "
            "a run takes less.",
        )
    if sampled["scored"]:
        _say(
            console,
            f"WER {100 * sampled['wer']:.1f} % on {sampled['scored']} sampled utterances with "
            "references.",
        )
    if sampled["reasons"]:
        told = ", ".join(f"{entry['items']} {name}" for name, entry in sampled["reasons"].items())
        _say(console, f"Left out of the sample: {told}.")
    _say(console, f"Not in it: {'; '.join(result['leaves_out'])}.")
    if not result["fits"]:
        _say(
            console,
            f"The disk is too small: {gigabytes(result['free_bytes'])} are free. A run is refused; "
            "cluster.check_disk: false overrides that.",
        )
    _say(
        console,
        f"Estimate: {result['estimate']}  ({clock(result['wall_spent_seconds'])}). `uttermill run` "
        "with the same settings goes on from there.")  # fmt: skip


def status(result: dict[str, Any], console: Console) -> None:
    table = _table(result["out"], ("stage", "<"), ("done", ">"), ("to compute", ">"))
    for name, entry in result["stages"].items():
        table.add_row(name, str(entry["items_done"]), str(entry["items_to_compute"]))
    console.print(table)
    newest = result["dataset"] or "none yet"
    _say(console, f"{result['shards']} shards; newest dataset: {newest}")


def ledger(result: dict[str, Any], console: Console) -> None:
    funnel(result, console)
    for key in ("dataset", "language"):
        table = _table(
            f"by {key}", (key, "<"), ("outcome", "<"), ("reason", "<"), ("items", ">"),
            ("audio", ">"),
        )  # fmt: skip
        for row in result[f"by_{key}"]:
            table.add_row(
                str(row[key] or "–"), row["outcome"], row["reason"], str(row["items"]),
                clock(row["hours"] * 3600),
            )  # fmt: skip
        console.print(table)
    for code, meaning in result["meanings"].items():
        _say(console, f"{code}: {meaning}", "dim")


def items(result: dict[str, Any], console: Console) -> None:
    """One line an item: paths are long, and a table would cut them."""
    for row in result["items"]:
        span = "" if row["start"] is None else f" {row['start']:.2f}-{row['end']:.2f} s"
        value = "" if row["value"] is None else f" ({row['value']:g}, limit {row['threshold']:g})"
        detail = f": {row['detail']}" if row["detail"] else ""
        line = f"{row['outcome']} {row['stage']}.{row['reason']}{value}{detail}"
        _say(console, f"{row['source_path']}{span}  {line}")
    _say(console, f"{len(result['items'])} items.")


def report(result: dict[str, Any], console: Console) -> None:
    _say(console, f"Report: {result['report']}")


def what_if(result: dict[str, Any], console: Console) -> None:
    table = _table("", ("", "<"), ("items", ">"), ("hours", ">"), ("of these not heard yet", ">"))
    for name in ("now", "then"):
        entry = result[name]
        waiting = entry["not_yet_transcribed"]
        table.add_row(name, str(entry["items"]), f"{entry['hours']:.3f}", str(waiting["items"]))
    console.print(table)
    change = result["difference"]
    _say(console, f"{change['items']:+d} items, {change['hours']:+.3f} hours")


def verify(result: dict[str, Any], console: Console) -> None:
    if result["ok"]:
        _say(console, "Whole: every file, hash, clip, text and count is as published.")
    if read := result.get("checkpoints"):
        _say(console, f"Read too: {read['parts']} checkpoints, {read['blobs']} blobs.")
    for fault in result["faults"]:
        _say(console, f"fault: {fault}")


def prune(result: dict[str, Any], console: Console) -> None:
    table = _table("", ("", "<"), ("items", ">"), ("files", ">"), ("bytes", ">"), ("freed", ">"))
    for kind, entry in result["kinds"].items():
        numbers = (f"{entry[n]:,}" for n in ("items", "files", "bytes", "freed"))
        table.add_row(kind, *numbers)
    console.print(table)
    for kind in ("versions", "runs"):
        if names := result[kind]:
            _say(console, f"{kind}: {', '.join(names)}")
    if result["uncut"]:
        _say(
            console,
            f"{result['uncut']} recordings have still to be cut: audio and transcripts of their "
            "shards stay until a run has done it.",
        )
    freed = f"{result['freed']:,} bytes"
    if not any(entry["items"] for entry in result["kinds"].values()):
        _say(console, "Nothing to remove.")
    elif result["removed"]:
        _say(console, f"Removed; {freed} are free.")
    else:
        _say(console, f"Nothing was removed yet; --yes removes it and frees {freed}.")
    _say(console, f"Kept versions: {', '.join(result['kept']) or 'none yet'}.")


def shelves(result: dict[str, Any], console: Console) -> None:
    for shelf, held in result.items():
        table = _table(shelf, ("plug-in", "<"), ("what it does", "<"), ("settings", "<"))
        for name, entry in held.items():
            table.add_row(name, entry["about"], ", ".join(entry["settings"]))
        console.print(table)


def columns(result: dict[str, Any], console: Console) -> None:
    for name, held in result.items():
        table = _table(name, ("column", "<"), ("type", "<"), ("unit", "<"), ("meaning", "<"))
        for entry in held:
            table.add_row(entry["column"], entry["type"], entry["unit"], entry["meaning"])
        console.print(table)


class _Plain(Table):
    """A table whose cells are shown as they are: what names of the user's hold is no markup."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        super().add_row(*(Text(str(cell)) for cell in cells), **options)


def _table(title: str, *columns: tuple[str, str]) -> Table:
    shown = Text(title, style="table.title") if title else None
    table = _Plain(title=shown, title_justify="left", box=None, pad_edge=False)
    for name, side in columns:
        table.add_column(Text(name), justify="right" if side == ">" else "left")
    return table


def _say(console: Console, words: str, style: str | None = None) -> None:
    """A sentence as it is, on one line however long."""
    console.print(words, style=style, markup=False, highlight=False, soft_wrap=True)
