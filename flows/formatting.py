"""Numbers for people: durations, hours of audio, speed, sizes, error rates; changed settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..tasks.base.counting import counted
from ..tasks.base.json_types import JsonObject, JsonValue
from ..tasks.recording import yaml_text


def hours(seconds: float) -> str:
    """`3.25 h`."""
    return f"{seconds / 3600:.2f} h"


def long_hours(hours: float) -> str:
    """`27,000.00 h`."""
    return f"{hours:,.2f} h"


def clock(seconds: float) -> str:
    """`1:02:05` or `2:05`."""
    whole = max(0, round(seconds))
    minutes, rest = divmod(whole, 60)
    above, minutes = divmod(minutes, 60)
    return f"{above}:{minutes:02d}:{rest:02d}" if above else f"{minutes}:{rest:02d}"


def speed_of(audio_seconds: float, wall_seconds: float) -> str:
    """`84 x real time`, or "" if nothing was computed."""
    if audio_seconds <= 0 or wall_seconds <= 0:
        return ""
    speed = audio_seconds / wall_seconds
    return f"{speed:.0f} x real time" if speed >= 10 else f"{speed:.1f} x real time"


def about(seconds: float) -> str:
    """`45 s`, `12 min`, `3.4 h`: for a forecast."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def gigabytes(size: float) -> str:
    """Bytes as `1.25 GB`, or below 10 MB as `3.20 MB`."""
    return f"{size / 1e9:,.2f} GB" if size >= 1e7 else f"{size / 1e6:,.2f} MB"


def error_rates(result: JsonObject) -> str:
    return (
        f"WER {100 * result['wer']:.1f} %, CER {100 * result['cer']:.1f} % on "
        f"{counted(result['scored'], 'packaged utterance')} with references."
    )


def new_in_words(result: JsonObject) -> str:
    """The sentence about new recordings; empty where all or none are."""
    new = result["new"]
    if new["recordings"] in (0, result["recordings"]["in"]):
        return ""
    return (
        f"New in this run: {counted(new['recordings'], 'recording')}, {new['failed']:,} failed; "
        f"{counted(new['packaged'], 'utterance')} packaged, {new['dropped']:,} dropped."
    )


def forecast(interval: Mapping[str, float] | None, words: Callable[[float], str]) -> list[str]:
    """A forecast as three cells: expected, low, high; `unknown` without one."""
    ends = ("expected", "low", "high")
    return [words(interval[end]) for end in ends] if interval else ["unknown", "", ""]


def forecast_rows(result: JsonObject) -> list[list[str]]:
    """Hours kept, time and disk by an estimate, as `estimate --json` prints it: a title, and the
    cells of a forecast."""
    rows = [["hours kept", *forecast(result["hours"]["kept"], long_hours)]]
    if len(result["datasets"]) > 1:
        for name, entry in result["datasets"].items():
            title = f"  {name}, of {entry['hours_in']:,.2f} h"
            rows.append([title, *forecast(entry["kept"], long_hours)])
    workers = " + ".join(f"{count} {kind}" for kind, count in result["workers"].items())
    noun = "worker" if sum(result["workers"].values()) == 1 else "workers"
    rows.append([f"time on {workers} {noun}", *forecast(result["wall_seconds"], clock)])
    rows.append(["CPU time", *forecast(result["cpu_seconds"], clock)])
    rows.append(["disk", *forecast(result["disk_bytes"], gigabytes)])
    return rows


def changed(change: JsonObject) -> str:
    """`resample.rate 16000 → 24000`, or what the setting asks for."""
    if change["setting"] == "package.resplit" and change["after"] is True:
        return "package.resplit: the splits will be drawn again"
    if change["before"] is None:
        what = "added" if change["after"] == "in use" else f"set to {_short(change['after'])}"
        return f"{change['setting']} {what}"
    if change["after"] is None and change["before"] == "in use":
        return f"{change['setting']} removed"
    return f"{change['setting']} {_short(change['before'])} → {_short(change['after'])}"


def _short(value: JsonValue) -> str:
    if isinstance(value, dict):
        value = {name: inner for name, inner in value.items() if inner not in (None, [], {})}
    text = value if isinstance(value, str) else yaml_text.on_one_line(value)
    return text if len(text) <= 40 else f"{text[:37]}…"
