"""What the commands print that read results: status, ledger, what-if, verify, prune, lists."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from flows.cli.show.tables import funnel, say, table
from flows.progress import clock


def status(result: dict[str, Any], console: Console) -> None:
    shown = table(result["out"], ("stage", "<"), ("done", ">"), ("to compute", ">"))
    for name, entry in result["stages"].items():
        shown.add_row(name, str(entry["items_done"]), str(entry["items_to_compute"]))
    console.print(shown)
    newest = result["dataset"] or "none yet"
    say(console, f"{result['shards']} shards; newest dataset: {newest}")


def ledger(result: dict[str, Any], console: Console) -> None:
    funnel(result, console)
    for key in ("dataset", "language"):
        shown = table(
            f"by {key}",
            (key, "<"),
            ("outcome", "<"),
            ("reason", "<"),
            ("items", ">"),
            ("audio", ">"),
        )
        for row in result[f"by_{key}"]:
            shown.add_row(
                row[key] or "–",
                row["outcome"],
                row["reason"],
                row["items"],
                clock(row["hours"] * 3600),
            )
        console.print(shown)
    for code, meaning in result["meanings"].items():
        say(console, f"{code}: {meaning}", "dim")


def items(result: dict[str, Any], console: Console) -> None:
    """Print one line per item: paths are long, and a table would cut them."""
    for row in result["items"]:
        span = "" if row["start"] is None else f" {row['start']:.2f}-{row['end']:.2f} s"
        value = "" if row["value"] is None else f" ({row['value']:g}, limit {row['threshold']:g})"
        detail = f": {row['detail']}" if row["detail"] else ""
        line = f"{row['outcome']} {row['stage']}.{row['reason']}{value}{detail}"
        say(console, f"{row['source_path']}{span}  {line}")
    say(console, f"{len(result['items'])} items.")


def report(result: dict[str, Any], console: Console) -> None:
    say(console, f"Report: {result['report']}")


def what_if(result: dict[str, Any], console: Console) -> None:
    waiting = ("of these not transcribed yet", ">")
    shown = table("", ("", "<"), ("items", ">"), ("hours", ">"), waiting)
    for name in ("now", "then"):
        entry = result[name]
        later = entry["not_yet_transcribed"]["items"]
        shown.add_row(name, entry["items"], f"{entry['hours']:.3f}", later)
    console.print(shown)
    change = result["difference"]
    say(console, f"{change['items']:+d} items, {change['hours']:+.3f} hours")


def verify(result: dict[str, Any], console: Console) -> None:
    if result["ok"]:
        say(console, "OK: every file, hash, clip, text and count is as published.")
    if read := result.get("checkpoints"):
        say(console, f"Also read: {read['parts']} checkpoints, {read['blobs']} blobs.")
    for fault in result["faults"]:
        say(console, f"fault: {fault}")


def prune(result: dict[str, Any], console: Console) -> None:
    shown = table("", ("", "<"), ("items", ">"), ("files", ">"), ("bytes", ">"), ("freed", ">"))
    for kind, entry in result["kinds"].items():
        numbers = (f"{entry[n]:,}" for n in ("items", "files", "bytes", "freed"))
        shown.add_row(kind, *numbers)
    console.print(shown)
    for kind in ("versions", "runs"):
        if names := result[kind]:
            say(console, f"{kind}: {', '.join(names)}")
    if result["uncut"]:
        say(
            console,
            f"{result['uncut']} recordings are not segmented yet: audio and transcripts of their "
            "shards stay until a run has done that.",
        )
    freed = f"{result['freed']:,} bytes"
    if not any(entry["items"] for entry in result["kinds"].values()):
        say(console, "Nothing to remove.")
    elif result["removed"]:
        say(console, f"Removed; this freed {freed}.")
    else:
        say(console, f"Nothing was removed; --yes removes it and frees {freed}.")
    say(console, f"Kept versions: {', '.join(result['kept']) or 'none yet'}.")


def shelves(result: dict[str, Any], console: Console) -> None:
    for shelf, held in result.items():
        shown = table(shelf, ("plug-in", "<"), ("what it does", "<"), ("settings", "<"))
        for name, entry in held.items():
            shown.add_row(name, entry["about"], ", ".join(entry["settings"]))
        console.print(shown)


def columns(result: dict[str, Any], console: Console) -> None:
    for name, held in result.items():
        shown = table(name, ("column", "<"), ("type", "<"), ("unit", "<"), ("meaning", "<"))
        for entry in held:
            shown.add_row(entry["column"], entry["type"], entry["unit"], entry["meaning"])
        console.print(shown)
