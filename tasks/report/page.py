"""All parts as one HTML file: what a template shows, and the budget of bytes."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import pyarrow as pa

from tasks import masking
from tasks.corpuswide import decisions
from tasks.job import Job
from tasks.report import clips, curves, distributions, facts, samples, words, workers
from tasks.report.columns import Columns, units
from tasks.report.facts import Ledger
from tasks.rules import Limit

BYTES = 15_000_000  # of the file, below
TEXT = 600  # characters of a name or text that are shown
SETTINGS = 200_000  # characters of the settings that are shown


@dataclass(frozen=True, slots=True)
class Request:
    """What a report is of. Without a version, `ledger` is the table of what is done so far."""

    job: Job
    ledger: Path | pa.Table
    counts: Mapping[str, Any]  # recordings, utterances, seconds, reasons: as in dataset.json
    run: str  # its id
    version: str | None = None
    scores: Mapping[str, Any] = field(default_factory=dict)  # scored, wer, cer
    summary: Mapping[str, Any] = field(default_factory=dict)  # of the run; clock and machine
    settings: str = ""  # of the run, as text
    libraries: Mapping[str, str] = field(default_factory=dict)
    metrics: Path | None = None  # of the run; None: there are none


def build(asked: Request, limit: int = BYTES) -> bytes:
    """The file, of less than `limit` bytes: clips are left out before it grows beyond."""
    job, ledger = asked.job, Ledger(asked.ledger)
    found = samples.choose(ledger, job.package.seed)
    samples.look_up(job, found)
    steps = facts.funnel(asked.counts)
    _explain(job, steps)
    context = {
        "asked": asked, "steps": steps, "tiles": _tiles(asked), "words": words,
        "shares": [(kind, facts.shares(ledger, kind)) for kind in ("dataset", "language")],
        "measured": _measured(job, asked), "now": None,
        "settings": masking.text(asked.settings)[:SETTINGS],
        "reasons": _reasons(steps, found), "work": workers.of(asked.metrics),
    }  # fmt: skip
    rows = [_row(sample, steps) for sample in found]
    bare = _render({**context, "rows": [{**row, "media": clips.Media(why="-" * 90)}
                                        for row in rows]})  # fmt: skip
    left = limit - len(bare) - 1
    studio = clips.Studio(job.out, job.resample.rate, found)
    # One of each reason first: a budget that does not reach costs the later ones of all.
    order = sorted(range(len(found)), key=lambda i: (_place(found, i), i))
    for index in order:
        media = studio.make(found[index]) if left > 0 else clips.Media(why=words.NO_ROOM)
        if media.size > left:
            media = clips.Media(why=words.NO_ROOM)
        left -= media.size
        rows[index]["media"] = media
    return _render({**context, "rows": rows})


def _place(found: Sequence[samples.Sample], index: int) -> int:
    """How many samples of the same reason stand before this one."""
    name = _name(found[index])
    return sum(_name(other) == name for other in found[:index])


def _name(sample: samples.Sample) -> str:
    row = sample.row
    return "packaged" if sample.kept else f"{row['stage']}.{row['reason']}"


def _tiles(asked: Request) -> list[tuple[str, str, str]]:
    """(number, what it is, more about it): what a reader wants to know first."""
    counts = asked.counts
    seconds, recordings, utterances = (counts[k] for k in ("seconds", "recordings", "utterances"))
    whole = seconds["in"]
    share = words.percent(seconds["packaged"] / whole) if whole else "–"
    tiles = [
        (words.length(whole), "audio in", f"{recordings['in']:,} recordings"),
        (words.length(seconds["packaged"]), "packaged" if asked.version else "ready to package",
         f"{utterances['packaged']:,} utterances"),
        (share, "of the audio kept", f"{utterances['dropped']:,} utterances dropped"),
        (f"{recordings['failed']:,}", "recordings failed",
         "none" if not recordings["failed"] else
         f"{words.percent(recordings['failed'] / max(recordings['in'], 1))} of them"),
    ]  # fmt: skip
    for name, title in (("wer", "word error rate"), ("cer", "character error rate")):
        if asked.scores.get(name) is not None:
            tiles.append((words.percent(asked.scores[name]), title,
                          f"{asked.scores['scored']:,} packaged with references"))  # fmt: skip
    return tiles


def _explain(job: Job, steps: list[dict[str, Any]]) -> None:
    """What a limit's reason means, in its own numbers."""
    from tasks.report.columns import asked_of

    for asked in asked_of(job):
        rule = asked.rule
        if isinstance(rule, Limit):
            sides = ((rule.low, "below", rule.min), (rule.high, "above", rule.max))
        else:
            sides = ((rule.reason, "is none of", ", ".join(rule.values)),)  # type: ignore[assignment]
        for reason, word, limit in sides:
            for step in steps:
                if reason and step["reason"] == reason and not step["meaning"]:
                    shown = words.number(limit) if isinstance(limit, float) else limit
                    step["meaning"] = f"{rule.column} {word} {shown}"


def _measured(job: Job, asked: Request) -> dict[str, Any] | None:
    """Everything about measures; None where no table of decisions holds for these settings."""
    path = decisions.where(job)
    if path is None:
        return None
    columns, about = Columns(job, path), units(job)
    about["chars_per_second"] = distributions.CHARS_PER_SECOND
    measures = []
    for name in distributions.shown(columns):
        found = distributions.of(columns, name)
        if found is None:
            continue
        first = name in distributions.FIRST
        sliders = curves.sliders(columns, name, found["low"], found["high"])
        if not first or any(c["today"] is not None for c in sliders):
            sliders = [c for c in sliders if c["today"] is not None]
        unit, meaning = about.get(name, ("", ""))
        unit = "" if unit == "1" else unit
        measures.append({**found, "unit": unit, "meaning": meaning, "first": first,
                         "curves": sliders})  # fmt: skip
    now = curves.now(columns)
    packaged = asked.counts["seconds"]["packaged"] / 3600
    groups = [
        (kind, [name for of, name, _ in columns.groups if of == kind])
        for kind in ("dataset", "language")
    ]
    same = abs(now["hours"] - packaged) <= 1e-6 * max(packaged, 1.0)
    return {"measures": measures, "now": now, "groups": [g for g in groups if g[1]], "same": same,
            "packaged": packaged}  # fmt: skip


def _row(sample: samples.Sample, steps: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What the table of samples shows of one."""
    row = sample.row
    first = [n for n in distributions.FIRST if n in sample.measures]
    return {
        "kept": sample.kept, "reason": _name(sample), "dataset": _shown(row["dataset"]),
        "file": _shown(row["source_path"]), "start": row["start"], "end": row["end"],
        "id": row["utterance"], "language": row["language"], "detail": _shown(row["detail"]),
        "value": row["value"], "threshold": row["threshold"], "outcome": row["outcome"],
        "text": _shown(sample.text), "source": sample.text_source,
        "heard": _shown(sample.heard) if sample.heard != sample.text else None,
        "reference": _shown(sample.reference) if sample.reference != sample.text else None,
        "measures": [(name, words.number(sample.measures[name])) for name in first],
    }  # fmt: skip


def _reasons(steps: Sequence[dict[str, Any]], found: Sequence[samples.Sample]) -> list[Any]:
    """(name, samples, items in all) of each reason that has samples, packaged first."""
    count: dict[str, int] = {}
    for sample in found:
        count[_name(sample)] = count.get(_name(sample), 0) + 1
    items = {step["name"]: step["items"] for step in steps}
    return [(name, number, items.get(name)) for name, number in count.items()]


def _shown(text: str | None) -> str | None:
    """A source's words on one line, without secrets, and not endless."""
    if text is None:
        return None
    shown = masking.sentence(text)
    return shown if len(shown) <= TEXT else shown[:TEXT] + " …"


def _render(context: Mapping[str, Any]) -> bytes:
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(_file),
    )  # fmt: skip
    script = _file("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    measured = context["measured"]
    charts = {**(_charts(measured) if measured else {}), **_work(context["work"])}
    data = json.dumps(charts, separators=(",", ":"))
    text = environment.get_template("page.html").render(
        **context, script=script, style=_file("page.css"), digest=digest, data=_inert(data)
    )
    return text.encode("utf-8", "replace")


def _charts(measured: Mapping[str, Any]) -> dict[str, Any]:
    """What the script draws: the numbers, no texts but names."""
    drawn = ("kind", "name", "kept", "other")
    return {
        "now": measured["now"],
        "measures": [
            {**{key: m[key] for key in ("name", "low", "high", "curves")},
             "groups": [{key: group[key] for key in drawn} for group in m["groups"]]}
            for m in measured["measures"]
        ],
    }  # fmt: skip


def _work(work: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"work": {key: work[key] for key in ("seconds", "busy", "lanes")}} if work else {}


def _inert(data: str) -> str:
    """JSON that ends no element and begins no comment, wherever it came from."""
    return data.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _file(name: str) -> str:
    return (resources.files("tasks.report") / name).read_text(encoding="utf-8")
