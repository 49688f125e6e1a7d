"""Builds the HTML file of a report from all parts, within a budget of bytes."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...accounting import broken, summary
from ...accounting.broken import Broken
from ...accounting.summary import REMOVED
from ...base import masking
from ...base.counting import counted
from ...base.json_types import JsonObject, Summary
from ...base.schema import LEDGER, LEDGER_FILE, UTTERANCES_FILE
from ...publish import foreseen, reason_meanings
from ...publish.corpus import limits
from ...publish.dataset import composition
from ...settings.job import Job
from ...shard_store import manifest
from ...storage import tables, versions
from .. import frequent_texts, source_languages
from . import clip_table, clips, measure_charts, number_words, worker_time
from .spans import Hours, Spans, folded

if TYPE_CHECKING:
    from jinja2 import Template


FAILED = 500  # failed recordings that are listed
LARGE = 8  # reasons that the funnel shows; smaller ones are folded
ROWS = 40  # of a table by dataset or language; smaller ones are summed in the last
VALUES = 30  # shown of a label
TEXTS, LONGEST_TEXT = 20, 200  # frequent texts, and characters shown of each
#: Place of each stage in the funnel.
ORDER = {"shard": 0, "filter": 1, "enhance": 2, "resample": 3, "transcribe": 4, "package": 5}
BYTES = 15_000_000  # the file is smaller
PLAYER = 300  # bytes of a player without its data
SETTINGS = 200_000  # characters of settings, at most


def build(
    job: Job,
    run: str,
    version: Path | None,
    ended: Mapping[str, Any] = MappingProxyType({}),
    settings: str = "",
    metrics: Path | None = None,
    limit: int = BYTES,
) -> bytes:
    """The HTML file, smaller than `limit` bytes: clips that do not fit are left out. `run`: its id;
    `version`: what the report is on; None: on the work done so far; `ended`: the run's summary,
    with times and the machine; `settings`: of the run, as text; `metrics`: its file of them."""
    described: JsonObject = {**versions.described(version)} if version else {}
    # First, while other steps hold no memory.
    frequent = version and frequent_texts.of_version(version, TEXTS, job.package.memory)
    counts, spans = _counted(job, version)
    about = reason_meanings.units(job)
    chosen = clips.choose(spans, job.package.seed)
    clips.look_up(job, chosen)
    chosen = clip_table.first(chosen)
    meanings = reason_meanings.meanings(job, counts["reasons"])
    table = version / UTTERANCES_FILE if version and described.get("dialogues") else None
    turns = tables.row_groups(table, ("turns",)) if table else ()
    shares = {kind: folded(spans.hours_by(kind), ROWS) for kind in ("dataset", "language")}
    context: JsonObject = {  # the variables of page.html
        "version": version,
        "run": run,
        "counts": counts,
        "summary": ended,
        "scores": summary.errors_of(version) if version else {},
        "libraries": described.get("libraries"),
        "steps": funnel(counts, meanings),
        "counted": counted,
        "words": number_words,
        "broken": _failed(spans),
        "shares": shares,
        "languages": [*source_languages.of_sources(job).items()],
        "speakers": counts.get("speakers", {}),
        "dialogues": described.get("dialogues"),
        "silent_backchannels": composition.silent_backchannels(turns),
        "measured": _measured(spans, counts, about) if len(spans.seconds) else None,
        "labels": _labels(spans, described.get("annotations", {})),
        "agreeing": measure_charts.of_agreement(spans),
        "frequent": frequent or (),
        "longest_text": LONGEST_TEXT,
        "settings": masking.text(settings)[:SETTINGS],
        "clips": chosen,
        "clip_table": clip_table,
        "about": about,
        "reasons": clip_table.groups(counts, chosen),
        "work": worker_time.page_data(metrics),
        "kilobits": clips.BIT_RATE // 1000,
        "megabytes": BYTES // 1_000_000,
        "left_out": len(chosen),
    }
    for sample in chosen:  # placeholders with the length of a player without its data
        sample.media = clips.Media(why="-" * PLAYER)
    bare = _render(context)
    context["left_out"] = clip_table.embed(job.out, chosen, limit - len(bare) - 1)
    return _render(context)


def _counted(job: Job, version: Path | None) -> tuple[Summary, Spans]:
    """The counts and the spans of a version, or of the work done so far."""
    shards = manifest.shards(job.out)
    counts: Summary
    if version:
        counts = versions.described(version)
        ledger = tables.row_groups(version / LEDGER_FILE, LEDGER.names)
    else:
        every = pa.concat_tables([LEDGER.empty_table(), *foreseen.unpublished(job, shards)])
        counts, ledger = summary.of_ledger(every), iter([every])
    schema = limits.outcomes_schema(job)
    with foreseen.version(job, shards) as next_version:
        return counts, Spans(job, schema, next_version.utterances(schema.names), ledger)


def _failed(spans: Spans) -> list[Broken]:
    failed = spans.database.sql(broken.ROWS).to_arrow_table()
    return [Broken(*map(masking.text, one)) for one in broken.of_ledger(failed, FAILED)]


def _labels(spans: Spans, annotations: Mapping[str, JsonObject]) -> dict[str, list[Hours]]:
    """Hours by the values of each label; for labels by corpus-wide bounds, of packaged utterances
    only, by the version's `annotations`."""
    labels = dict[str, list[Hours]]()
    for name in spans.labels:
        rows = [row for row in spans.hours_by(name, "outcomes") if row.value is not None]
        labels[name] = folded(rows, VALUES)
    for name, about in annotations.items():
        if name not in labels:
            counted = [(r["value"], r["utterances"], r["hours"]) for r in about.get("values", ())]
            labels[name] = [Hours(*row, *row[1:]) for row in counted]
    return {name: rows for name, rows in labels.items() if rows}


def _measured(spans: Spans, counts: Summary, about: Mapping[str, tuple[str, str]]) -> JsonObject:
    """The section of measures; `about`: (unit, meaning) by measure."""
    about = {**about, "chars_per_second": measure_charts.CHARS_PER_SECOND}
    measures: list[JsonObject] = []
    for name in measure_charts.shown(spans):
        histogram = measure_charts.histogram_of(spans, name)
        if histogram is None:
            continue
        first = name in measure_charts.FIRST
        sliders = measure_charts.sliders(spans, name, histogram["low"], histogram["high"])
        if not first or any(c["today"] is not None for c in sliders):
            sliders = [c for c in sliders if c["today"] is not None]
        unit, meaning = about.get(name, ("", ""))
        unit = "" if unit == "1" else unit
        measures.append(
            {**histogram, "unit": unit, "meaning": meaning, "first": first, "curves": sliders}
        )
    now = measure_charts.kept_now(spans)
    packaged = counts["seconds"]["packaged"] / 3600
    names: dict[str, list[str | None]] = {}
    for kind, group, _ in spans.groups:
        names.setdefault(kind, []).append(group)
    same = abs(now["hours"] - packaged) <= 1e-6 * max(packaged, 1.0)
    amounts = {"now": now, "same": same, "packaged": packaged}
    return {"measures": measures, "groups": [*names.items()], **amounts}


@cache
def _template() -> Template:
    import jinja2

    blocks: Any = {"trim_blocks": True, "lstrip_blocks": True}
    template: Template = jinja2.Template(
        _file("page.html"), autoescape=True, undefined=jinja2.StrictUndefined, **blocks
    )
    template.environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return template


def _render(context: JsonObject) -> bytes:
    script = _file("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    charts: JsonObject = {}
    if measured := context["measured"]:
        charts = {"now": measured["now"], "measures": measured["measures"]}
    if work := context["work"]:
        charts["work"] = {name: work[name] for name in ("seconds", "busy", "lanes")}
    if agreement := context["agreeing"]:
        charts["agreeing"] = agreement["lines"]
    fixed = {"script": script, "style": _file("page.css"), "digest": digest}
    text = _template().render(**context, **fixed, charts=charts)
    return text.encode("utf-8", "replace")


def _file(name: str) -> str:
    return (resources.files("uttermill.tasks.insight.report") / name).read_text(encoding="utf-8")


def funnel(counts: Summary, meanings: Mapping[str, str]) -> list[JsonObject]:
    """The steps from all audio to the packaged part, in the order of stages, within a stage the
    largest first, and after them the `small` ones, which are folded: `seconds` that a reason
    removes, their `share` of all, what remains `after` it, and whether its recordings are `gone`
    from their source. `counts`: as in dataset.json; `meanings`: of each of its reasons."""
    whole = remaining = counts["seconds"]["in"]
    reasons = counts["reasons"]
    largest = sorted(reasons, key=lambda name: (-reasons[name]["seconds"], name))
    small = {name for name in largest if not reasons[name]["seconds"]} | {*largest[LARGE:]}
    if len(reasons) <= LARGE:
        small = set()
    steps: list[JsonObject] = []
    for name in sorted(largest, key=lambda n: (n in small, ORDER.get(n.partition(".")[0], -1))):
        seconds, (stage, _, reason) = reasons[name]["seconds"], name.partition(".")
        gone = reason == REMOVED
        taken = 0.0 if gone else seconds
        remaining = max(remaining - taken, 0.0)
        steps.append(
            {
                **{"stage": stage, "reason": reason, "name": name, "seconds": seconds},
                **{"items": reasons[name]["items"], "small": name in small, "gone": gone},
                "after": remaining,
                "share": taken / whole if whole else 0.0,
                "meaning": meanings[name],
            }
        )
    return steps
