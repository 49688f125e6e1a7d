"""How many published clips a run writes again because the content of their tars changes."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks import plugins, scoring
from tasks.accounting import summary
from tasks.base.arrays import Bools
from tasks.base.json_types import JsonValue
from tasks.base.schema import UTTERANCES_FILE
from tasks.publish.output_shards.layout import LAYOUT_SETTINGS
from tasks.settings.job import Job
from tasks.shard_store import decision_log, decisions, whole_job
from tasks.storage import long_columns, tables, versions
from tasks.storage.versions import Proved

COLUMNS = ["shard", "recording", "num_samples", "sample_rate"]


class Rewriting(NamedTuple):
    """`clips`: of the newest version; `staying`: those that the next version keeps, and known new
    ones; `written`: how many of these are written to new tars, with `seconds` of audio."""

    clips: int
    staying: int
    written: int
    seconds: float


class Wordings(NamedTuple):
    """What people wrote as the text of an utterance: the text that counts, None if it was taken
    back, and those before."""

    text: str | None
    others: frozenset[str]

    def differs(self, published: str) -> bool:
        """Whether a published text is another than the one by these decisions."""
        return published in self.others if self.text is None else published != self.text


def wordings(job: Job) -> dict[str, Wordings]:
    """By id, of each utterance whose text a person ever wrote."""
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


def of_version(
    job: Job,
    before: Job | None,
    stay: Mapping[str, float],
    scanned: Set[str],
    gone: Set[str],
    worded: Mapping[str, Wordings],
) -> Rewriting:
    """`stay`: seconds, by id, of the utterances of the recordings `scanned` that are packaged
    unchanged, but perhaps for a text that a person wrote (`worded`). Clips of other recordings
    stay too, unless those are in `gone` (left or changed)."""
    newest = versions.newest(job.out)
    if newest is None:
        return Rewriting(0, len(stay), len(stay), sum(stay.values()))
    writes_all = before is None or _writes_all(job, before) or _all_differ(job, newest)
    kept = pa.array([*stay], pa.string())
    new, proved = dict(stay), Proved(newest)
    columns = [*COLUMNS, *(["id"] if stay or worded else []), *(["text"] if worded else [])]
    clips = staying_then = written_then = 0
    seconds = 0.0
    for part in tables.parts(newest / UTTERANCES_FILE):  # of whole tars
        table = tables.read(part, columns=columns, opened=proved)
        is_kept = np.zeros(len(table), bool)
        if stay:
            is_kept = pc.is_in(table["id"], kept).to_numpy()
            for name in table["id"].filter(pa.array(is_kept)).to_pylist():
                new.pop(name, None)
        coded = long_columns.coded(table["recording"])
        names = coded.dictionary.to_pylist()
        others = np.array([name in scanned or name in gone for name in names], bool)
        staying = written = ~others[coded.indices.to_numpy()] | is_kept
        if not writes_all:
            tars = table["shard"].combine_chunks().dictionary_encode().indices.to_numpy()
            same = staying & ~_reworded(table, worded)
            written = staying & np.isin(tars, np.unique(tars[~same]))
        clips += len(table)
        staying_then += int(staying.sum())
        written_then += int(written.sum())
        seconds += float(summary.seconds_of(table)[written].sum())
    seconds += sum(new.values())
    return Rewriting(clips, staying_then + len(new), written_then + len(new), seconds)


def _reworded(table: pa.Table, worded: Mapping[str, Wordings]) -> Bools:
    """Clips whose published text is not the one by the decisions of now; [rows]."""
    flags = np.zeros(len(table), bool)
    if worded:
        worded_rows = pc.is_in(table["id"], pa.array([*worded], pa.string()))
        for row in np.flatnonzero(worded_rows.to_numpy()):
            name, text = (table[column][int(row)].as_py() for column in ("id", "text"))
            flags[row] = worded[name].differs(text)
    return flags


def _writes_all(job: Job, before: Job) -> bool:
    """Whether all tars are written again: further or changed formats, another layout, or
    `rebalance: full`."""
    now, then = (whole_job.settings_of(asked)["package"] for asked in (job, before))
    full = job.package.rebalance == "full"
    formats = any(format_ not in then["formats"] for format_ in now["formats"])
    return full or formats or any(now[name] != then[name] for name in LAYOUT_SETTINGS)


def _all_differ(job: Job, newest: Path) -> bool:
    """Whether the version's clips sound or read otherwise, or are dealt to splits anew. Their ids
    stay, and nothing is left to compute if an earlier run had this job's settings."""
    now, then = whole_job.settings_of(job), versions.described(newest)["settings"]
    if now["resample"] != then["resample"] or _of_clips(now) != _of_clips(then):
        return True
    resolved = (plugins.FORMATS.resolve(format_) for format_ in job.package.formats)
    holding = (module.holds_annotations(settings) for module, settings in resolved)
    publish, published = ({*settings["package"].get("publish", ())} for settings in (now, then))
    if publish != published and any(holding):
        return True
    # What was published in a split stays there, whatever its share is later.
    return bool(now["package"]["splits"]) != bool(then["package"].get("splits"))


def _of_clips(settings: Mapping[str, Mapping[str, JsonValue]]) -> list[JsonValue]:
    """The settings that say which audio and which text of a clip are packaged."""
    names = {"transcribe": ("backend", "text"), "package": ("text_form", "audio")}
    return [settings[part].get(name) for part, parts in names.items() for name in parts]
