"""Builds the HTML file of a report from all parts, within a budget of bytes."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from ...accounting import broken
from ...accounting.broken import Broken
from ...base import masking
from ...base.counting import counted
from ...base.json_types import JsonObject, Summary
from ...base.schema import UTTERANCES_FILE
from ...publish import foreseen, reason_meanings
from ...publish.corpus import limits
from ...publish.dataset import composition
from ...scoring import near_texts
from ...settings.job import Job
from ...shard_store import manifest
from ...storage import queries, tables, versions
from .. import source_languages
from . import clip_table, clips, ledger_facts, measure_charts, number_words, worker_time
from .ledger_facts import Ledger
from .outcome_columns import Columns, LabelHours

if TYPE_CHECKING:
    from jinja2 import Template


FAILED = 500  # failed recordings that are listed
BYTES = 15_000_000  # the file is smaller
PLAYER = 300  # bytes of a player without its data
SETTINGS = 200_000  # characters of settings, at most


@dataclass(frozen=True, slots=True)
class Request:
    """The input of a report. Without a version, `ledger` is a table of the work done so far."""

    job: Job
    ledger: Path | pa.Table
    counts: Summary
    run: str  # its id
    version: str | None = None
    scores: Mapping[str, float | None] = field(default_factory=dict)  # scored, wer, cer
    summary: JsonObject = field(default_factory=dict)  # of the run, with times and the machine
    settings: str = ""  # of the run, as text
    libraries: Mapping[str, str] = field(default_factory=dict)
    metrics: Path | None = None  # of the run; None: there are none


def build(request: Request, limit: int = BYTES) -> bytes:
    """The HTML file, smaller than `limit` bytes: clips that do not fit are left out."""
    job, ledger, version = request.job, Ledger(request.ledger), None
    if request.version and isinstance(request.ledger, Path):
        version = request.ledger.parent
    described: JsonObject = {**versions.described(version)} if version else {}
    # First, while other steps hold no memory.
    frequent = texts_of_version(version, job.package.memory)
    schema = limits.outcomes_schema(job)
    with foreseen.version(job, manifest.shards(job.out)) as next_version:
        columns = Columns(job, schema, next_version.utterances(schema.names))
    about = reason_meanings.units(job)
    chosen = clips.choose(ledger, job.package.seed, columns)
    clips.look_up(job, chosen)
    chosen = clip_table.first(chosen)
    meanings = reason_meanings.meanings(job, request.counts["reasons"])
    steps = ledger_facts.funnel(request.counts, meanings)
    sums, failed = ledger.sums(), list[Broken]()
    if request.counts["recordings"]["failed"]:
        failed = broken.of_parts(ledger.portions(*broken.COLUMNS), FAILED)
    context: JsonObject = {  # the variables of page.html
        "request": request,
        "steps": steps,
        "counted": counted,
        "words": number_words,
        "broken": [Broken(*map(masking.text, recording)) for recording in failed],
        "shares": [(kind, ledger_facts.shares(sums, kind)) for kind in ("dataset", "language")],
        "languages": [*source_languages.of_sources(job).items()],
        "speakers": request.counts.get("speakers", {}),
        "dialogues": described.get("dialogues"),
        "silent_backchannels": 0,
        "measured": _measured(columns, request, about) if len(columns.seconds) else None,
        "labels": _labels(columns, described.get("annotations", {})),
        "agreeing": measure_charts.of_agreement(columns),
        "frequent": frequent,
        "settings": masking.text(request.settings)[:SETTINGS],
        "clips": chosen,
        "clip_table": clip_table,
        "about": about,
        "reasons": clip_table.groups(request.counts, chosen),
        "work": worker_time.page_data(request.metrics),
        "kilobits": clips.BIT_RATE // 1000,
        "megabytes": BYTES // 1_000_000,
        "left_out": len(chosen),
    }
    if version and context["dialogues"]:
        turns = tables.row_groups(version / UTTERANCES_FILE, ("turns",))
        context["silent_backchannels"] = composition.silent_backchannels(turns)
    for sample in chosen:  # placeholders with the length of a player without its data
        sample.media = clips.Media(why="-" * PLAYER)
    bare = _render(context)
    context["left_out"] = clip_table.embed(job, chosen, limit - len(bare) - 1)
    return _render(context)


def _labels(
    columns: Columns, annotations: Mapping[str, JsonObject]
) -> list[tuple[str, list[LabelHours]]]:
    """Hours by the values of each label; for labels by corpus-wide bounds, of packaged utterances
    only, by the version's `annotations`."""
    labels = {name: columns.label_hours(name) for name in columns.labels}
    for name, about in annotations.items():
        if name not in labels:
            counted = [(r["value"], r["utterances"], r["hours"]) for r in about.get("values", ())]
            labels[name] = [LabelHours(*row, *row[1:]) for row in counted]
    return [(name, rows) for name, rows in labels.items() if rows]


def _measured(
    columns: Columns, request: Request, about: Mapping[str, tuple[str, str]]
) -> JsonObject:
    """The section of measures; `about`: (unit, meaning) by measure."""
    about = {**about, "chars_per_second": measure_charts.CHARS_PER_SECOND}
    measures: list[JsonObject] = []
    for name in measure_charts.shown(columns):
        histogram = measure_charts.histogram_of(columns, name)
        if histogram is None:
            continue
        first = name in measure_charts.FIRST
        sliders = measure_charts.sliders(columns, name, histogram["low"], histogram["high"])
        if not first or any(c["today"] is not None for c in sliders):
            sliders = [c for c in sliders if c["today"] is not None]
        unit, meaning = about.get(name, ("", ""))
        unit = "" if unit == "1" else unit
        measures.append(
            {**histogram, "unit": unit, "meaning": meaning, "first": first, "curves": sliders}
        )
    now = measure_charts.kept_now(columns)
    packaged = request.counts["seconds"]["packaged"] / 3600
    names: dict[str, list[str | None]] = {}
    for kind, group, _ in columns.groups:
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
    data = _inert(json.dumps(charts, separators=(",", ":")))
    text = _template().render(
        **context, script=script, style=_file("page.css"), digest=digest, data=data
    )
    return text.encode("utf-8", "replace")


def _inert(data: str) -> str:
    """JSON that can neither close its HTML element nor begin a comment."""
    return data.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _file(name: str) -> str:
    return (resources.files("uttermill.tasks.insight.report") / name).read_text(encoding="utf-8")


# The most frequent texts of packaged clips, such as prompts, adverts and jingles; near-equal texts
# count as one.

MOST_TEXTS = 20  # texts shown
MOST_PARTS = 60  # row groups whose texts are compared: about two million clips
LONGEST_TEXT = 200  # characters shown of each


class FrequentText(NamedTuple):
    """A group of near-equal texts that several clips have."""

    text: str  # normalised; the one with the most clips
    clips: int
    seconds: float
    different: int  # number of texts in the group


class FrequentTexts(NamedTuple):
    """Texts that several clips of a version have."""

    texts: list[FrequentText]  # the most frequent first
    compared: int = 0  # number of row groups whose texts were compared
    parts: int = 0  # number of row groups of the table


def texts_of_version(version: Path | None, memory: str = queries.MEMORY) -> FrequentTexts:
    """Texts of several clips; none without a version. Of a table with more than MOST_PARTS row
    groups, only every second one, or every third, and so on, is read. The database uses up to
    `memory`, then temporary files."""
    columns = ("normalised", "num_samples", "sample_rate")
    if version is None:
        return FrequentTexts([])
    place = version / UTTERANCES_FILE
    count = tables.row_group_count(place)
    step = -(-count // MOST_PARTS) or 1

    def parts() -> Iterator[pa.Table]:
        return tables.row_groups(place, columns, every=step)

    number = near_texts.groups((part["normalised"] for part in parts()), memory)
    has_text = number >= 0
    shared = has_text & (np.bincount(number[has_text], minlength=1)[number] > 1)
    first = 0
    with queries.tables(memory) as database:
        database.execute(
            "CREATE TABLE clips (normalised VARCHAR, num_samples BIGINT, sample_rate INT, "
            "number BIGINT)"
        )
        for part in parts():
            some, first = slice(first, first + len(part)), first + len(part)
            clips = part.append_column("number", pa.array(number[some]))
            queries.add(database, "clips", clips.filter(pa.array(shared[some])))
        rows = database.execute(
            "SELECT first(text ORDER BY clips DESC, text), sum(clips), sum(us), count(*) FROM "
            "(SELECT number, normalised AS text, count(*) AS clips, "
            "sum(round_even(num_samples / sample_rate * 1e6, 0)::BIGINT) AS us "
            "FROM clips GROUP BY number, normalised) "
            f"GROUP BY number ORDER BY 2 DESC, 3 DESC, 1 LIMIT {MOST_TEXTS}"
        ).fetchall()
    texts = [
        FrequentText(
            text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]} …",
            int(clips),
            int(us) / 1e6,
            different,
        )
        for text, clips, us, different in rows
    ]
    return FrequentTexts(texts, -(-count // step), count)
