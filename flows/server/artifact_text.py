"""The text of a run's artifact in Prefect's UI: its progress, its result, or its failure.

Paths and errors are escaped and masked, so that no file name acts as markup.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ...tasks.base import masking
from ...tasks.base.counting import counted
from ...tasks.base.errors import ConfigError, MillError, NothingLeft, OutLocked, TooManyFailed
from ...tasks.base.json_types import JsonObject
from ...tasks.publish.reason_meanings import MEANINGS
from .. import formatting
from ..formatting import clock, speed_of
from ..progress import Standing, left_in_words

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
