"""Counts the published clips that a run writes again, because the content of their tar changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ... import plugins, scoring
from ...accounting import summary
from ...base.arrays import Bools
from ...base.json_types import JsonValue
from ...base.schema import UTTERANCES_FILE
from ...publish import published_columns
from ...publish.output_shards import format_shards
from ...publish.output_shards.layout import LAYOUT_SETTINGS
from ...settings.job import Job
from ...shard_store import decision_log, decisions, recipe, whole_job
from ...shard_store.shard_view import ShardView
from ...shard_store.utterance import FinalUtterance
from ...storage import long_columns, tables, versions
from ...storage.versions import Proved

#: Columns of a version that follow from what sources say of a recording.
DESCRIBED = ("source_id", "text", "text_source", "speaker", "language", "labels")
COLUMNS = ["shard", "recording", "num_samples", "sample_rate"]


class Rewriting(NamedTuple):
    """Numbers of clips."""

    clips: int  # in the newest version
    staying: int  # that the next version keeps, and known new ones
    written: int  # of `staying`, those that are written to new tars
    seconds: float  # audio of `written`
    differing: int = 0  # of which people or sources say something else now


class Wordings(NamedTuple):
    """The texts that people wrote for an utterance."""

    text: str | None  # the current one; None: withdrawn
    others: frozenset[str]  # earlier ones

    def differs(self, published: str) -> bool:
        """Whether a published text differs from the one by these decisions."""
        return published in self.others if self.text is None else published != self.text


def wordings(job: Job) -> dict[str, Wordings]:
    """By id, the `Wordings` of each utterance whose text a person ever wrote."""
    written: dict[str, set[str]] = {}
    for decision in decision_log.read(decision_log.stored(job.out)):
        if decision.text:
            written.setdefault(decision.id, set()).add(scoring.clean(decision.text))
    latest, by_id = decisions.of(job), {}
    for name, texts in written.items():
        text = latest[name].text if name in latest else None
        current = scoring.clean(text) if text else None
        by_id[name] = Wordings(current, frozenset(texts - {current}))
    return by_id


def described(view: ShardView, utterances: Sequence[FinalUtterance]) -> pa.Table:
    """What will be published of utterances of a shard, as far as it follows from what their
    sources say."""
    rows = published_columns.rows_of(view, utterances, strict=False)
    linked = recipe.across_recordings(view.job) is not None
    names = [name for name in DESCRIBED if name in rows.column_names]
    return rows.select(["id", *(name for name in names if name != "speaker" or not linked)])


class Statements:
    """What people and sources say now of clips, whose published rows may say something else."""

    def __init__(self, worded: Mapping[str, Wordings], tables: Sequence[pa.Table]) -> None:
        self._worded = worded
        self._described = pa.concat_tables(tables) if tables else None

    @property
    def columns(self) -> list[str]:
        """Those of a version that `differs` goes by."""
        names = [] if self._described is None else self._described.column_names
        return [*dict.fromkeys([*names, *(["id", "text"] if self._worded else [])])]

    def differs(self, rows: pa.Table, columns: Collection[str]) -> Bools:
        """Whether something else is said of clips in these columns than is published; [rows]."""
        flags = np.zeros(len(rows), bool)
        if self._worded and "text" in columns:
            worded_rows = pc.is_in(rows["id"], pa.array([*self._worded], pa.string()))
            for row in np.flatnonzero(worded_rows.to_numpy()):
                name, text = (rows[column][int(row)].as_py() for column in ("id", "text"))
                flags[row] = self._worded[name].differs(text)
        if self._described is not None:
            places = pc.index_in(rows["id"], self._described["id"])
            stated = np.flatnonzero(places.is_valid())
            now, then = self._described.take(places.drop_null()), rows.take(stated)
            for name in {*now.column_names} & {*columns}:
                values = now[name].to_pylist(), _column(then, name)
                flags[stated] |= [value != other for value, other in zip(*values, strict=True)]
        return flags


def _column(rows: pa.Table, name: str) -> list[object]:
    """Values of a column, which earlier versions may lack."""
    return rows[name].to_pylist() if name in rows.column_names else [None] * len(rows)


def of_version(
    job: Job,
    before: Job | None,
    stay: Mapping[str, float],
    scanned: Set[str],
    gone: Set[str],
    statements: Statements,
) -> Rewriting:
    """The clips of the next version, and those of them that are written again. `stay`: by id,
    seconds of utterances in the recordings `scanned` that are packaged unchanged, except perhaps
    for what the `statements` say of them. Clips of other recordings stay too, unless those are in
    `gone` (removed or changed)."""
    newest = versions.newest(job.out)
    if newest is None:
        return Rewriting(0, len(stay), len(stay), sum(stay.values()))
    writes_all = before is None or _writes_all(job, before) or _all_differ(job, newest)
    kept = pa.array([*stay], pa.string())
    new, proved = dict(stay), Proved(newest)
    columns = {*COLUMNS, *(["id"] if stay else []), *statements.columns}
    seen = _seen(job)
    clips = staying_then = written_then = differing = 0
    seconds = 0.0
    place = newest / UTTERANCES_FILE
    columns &= {*tables.schema(place).names}  # other settings may have given other columns
    for table in tables.row_groups(place, [*columns], proved):  # of whole tars
        is_kept = np.zeros(len(table), bool)
        if stay:
            is_kept = pc.is_in(table["id"], kept).to_numpy()
            for name in table["id"].filter(pa.array(is_kept)).to_pylist():
                new.pop(name, None)
        coded = long_columns.coded(table["recording"])
        names = coded.dictionary.to_pylist()
        others = np.array([name in scanned or name in gone for name in names], bool)
        staying = written = ~others[coded.indices.to_numpy()] | is_kept
        other = staying & statements.differs(table, DESCRIBED)
        differing += int(other.sum())
        if not writes_all:
            tars = table["shard"].combine_chunks().dictionary_encode().indices.to_numpy()
            same = staying & ~statements.differs(table, seen)
            written = staying & np.isin(tars, np.unique(tars[~same]))
        clips += len(table)
        staying_then += int(staying.sum())
        written_then += int(written.sum())
        seconds += float(summary.seconds_of(table)[written].sum())
    seconds += sum(new.values())
    return Rewriting(clips, staying_then + len(new), written_then + len(new), seconds, differing)


def _seen(job: Job) -> set[str]:
    """The columns of DESCRIBED that formats write into the files of clips."""
    none = pa.table({name: pa.nulls(0) for name in DESCRIBED})
    formats = (plugins.FORMATS.load(plugin.use) for plugin in job.package.formats)
    return {name for module in formats for name in format_shards.seen(module, none).column_names}


def _writes_all(job: Job, before: Job) -> bool:
    """Whether all tars are written again: further or changed formats, another layout, or
    `rebalance: full`."""
    now, then = (whole_job.settings_of(one)["package"] for one in (job, before))
    full = job.package.rebalance == "full"
    formats = any(format_ not in then["formats"] for format_ in now["formats"])
    return full or formats or any(now[name] != then[name] for name in LAYOUT_SETTINGS)


def _all_differ(job: Job, newest: Path) -> bool:
    """Whether all of the version's clips get other audio, texts, annotations or splits. That cannot
    be seen from their ids, nor from work to do, if an earlier run had this job's settings."""
    now, then = whole_job.settings_of(job), versions.described(newest)["settings"]
    if now["resample"] != then["resample"] or _of_clips(now) != _of_clips(then):
        return True
    resolved = [plugins.FORMATS.resolve(format_) for format_ in job.package.formats]
    measured = {*published_columns.row_schema(job).names}.symmetric_difference(
        tables.schema(newest / UTTERANCES_FILE).names
    )
    if any(measured.intersection(module.COLUMNS) for module, _ in resolved):
        return True
    holding = (module.holds_annotations(settings) for module, settings in resolved)
    publish, published = ({*settings["package"].get("publish", ())} for settings in (now, then))
    if publish != published and any(holding):
        return True
    # Published clips stay in their split, even if its share changes.
    return bool(now["package"]["splits"]) != bool(then["package"].get("splits"))


def _of_clips(settings: Mapping[str, Mapping[str, JsonValue]]) -> list[JsonValue]:
    """The settings that choose the audio and the text of packaged clips."""
    names = {"transcribe": ("backend", "text"), "package": ("text_form", "audio")}
    return [settings[part].get(name) for part, parts in names.items() for name in parts]
