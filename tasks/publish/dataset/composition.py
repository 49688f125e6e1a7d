"""A version's hours, durations, speakers, labels and conversations, computed over columns, never
row by row."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...accounting import summary
from ...base import json_types
from ...base.arrays import Float64s, Int64s
from ...recording.locator import SECOND_LANGUAGE, SECOND_TEXT
from ...recording.names import are_over_all
from ...storage import tables

#: Lower edges of the histogram of durations, s; a bin ends where the next begins.
EDGES = (0.0, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 60.0)
LARGEST = 20  # speakers, or values of a label, that are listed
COLUMNS = ("dataset", "split", "language", "speaker", "num_samples", "sample_rate")
KEYS = ("dataset", "split", "language", "speaker", "sample_rate")
SUMMED = ("samples", "items")
LABEL_COLUMNS = ("labels", "num_samples", "sample_rate")
LABEL_KEYS = ("label", "value", "sample_rate")


def of_utterances(parts: Iterable[pa.Table]) -> json_types.Composition:
    """`splits`, `packaged` (utterances and hours of every split, dataset and language),
    `durations` (s) and `speakers`. `parts`: a version's utterances (COLUMNS), divided in any
    way."""
    lengths: dict[str, list[Float64s]] = {}
    sums = []
    for part in parts:
        seconds = summary.seconds_of(part)
        names = part["split"].to_numpy(zero_copy_only=False)
        for name in pc.unique(part["split"]).to_pylist():
            lengths.setdefault(name, []).append(seconds[names == name])
        sums.append(summary.sums_by(_counted(part), KEYS, SUMMED))
    kept = summary.sums_by(pa.concat_tables(sums), KEYS, SUMMED)
    splits = {name: np.concatenate(lengths[name]) for name in sorted(lengths)}
    every = np.concatenate([np.empty(0), *splits.values()])
    by_split = {name: kept.filter(pc.equal(kept["split"], name)) for name in splits}
    of_all = speakers(kept)
    return {
        "splits": {
            name: {
                "utterances": len(splits[name]),
                "hours": _hours(part),
                "durations": durations(splits[name], _hours(part)),
                "speakers": speakers(part),
            }
            for name, part in by_split.items()
        },
        "packaged": _with_hours(
            summary.hours_by(kept, "split", "dataset", "language"), "split", "dataset", "language"
        ),
        "durations": durations(every, _hours(kept)),
        "speakers": {**of_all, "largest": most} if (most := largest(kept)) else of_all,
    }


def durations(seconds: Float64s, hours: float) -> json_types.Durations:
    """Minimum, mean, median, maximum in s, rounded to µs, and a histogram; None without utterances.
    `hours`: their sum, from exact integers, because a sum of floats depends on its order."""
    if not len(seconds):
        return {"min": None, "mean": None, "median": None, "max": None, "histogram": []}
    counts = np.diff(np.searchsorted(np.sort(seconds), [*EDGES, np.inf]))
    return {
        "min": round(float(seconds.min()), 6),
        "median": round(float(np.median(seconds)), 6),
        "max": round(float(seconds.max()), 6),
        "mean": round(hours * 3600 / len(seconds), 6),
        "histogram": [
            {"from": low, "to": high, "utterances": int(count)}
            for low, high, count in zip(EDGES, [*EDGES[1:], None], counts, strict=True)
        ],
    }


def speakers(kept: pa.Table) -> json_types.Speakers:
    """The number of speakers, and the hours of known and unknown ones. Equal names from two
    datasets are two speakers; names across recordings (`spk_…`) belong to no dataset."""
    return {
        "count": _known(kept).group_by(["dataset", "speaker"]).aggregate([]).num_rows,
        "hours_known": _hours(kept.filter(pc.is_valid(kept["speaker"]))),
        "hours_unknown": _hours(kept.filter(pc.is_null(kept["speaker"]))),
    }


def largest(kept: pa.Table) -> list[json_types.SpeakerHours]:
    rows = summary.hours_by(_known(kept), "dataset", "speaker")
    rows.sort(key=lambda row: (-row["hours"], row["speaker"], row["dataset"] or ""))
    return _with_hours(rows[:LARGEST], "speaker", "dataset")


def _with_hours(rows: Iterable[json_types.HoursBy], *columns: str) -> list[Any]:
    return [
        {**{name: row[name] for name in columns}, "hours": row["hours"], "utterances": row["items"]}
        for row in cast(Iterable[Any], rows)
    ]


def of_annotations(table: Path) -> dict[str, json_types.JsonObject]:
    """Kind, meaning and unit of each annotation column of `utterances.parquet`, by column, and for
    each label its values with the most hours."""
    declared: dict[str, json_types.JsonObject] = {}
    for field in tables.schema(table):
        if b"annotation" in (field.metadata or {}):
            facts = {name.decode(): text.decode() for name, text in field.metadata.items()}
            rate = {"rate": float(facts["rate"])} if "rate" in facts else {}
            about = {"kind": facts["annotation"], "meaning": facts["doc"], "unit": facts["unit"]}
            declared[field.name] = {**about, **rate}
    names = [name for name, about in declared.items() if about["kind"] == "label"]
    rows = tables.row_groups(table, [*names, *LABEL_COLUMNS[1:]]) if names else ()
    for row in of_labels(rows, names) if names else ():
        hours = {name: value for name, value in row.items() if name != "label"}
        declared[row["label"]].setdefault("values", []).append(hours)
    return declared


def of_second_texts(table: Path) -> dict[str, int]:
    """How many clips of `utterances.parquet` have a second text, by its language."""
    counts = Counter[str]()
    for part in tables.row_groups(table, [SECOND_TEXT, SECOND_LANGUAGE]):
        languages = part[SECOND_LANGUAGE].filter(part[SECOND_TEXT].is_valid())
        counts.update(languages.to_pylist())
    return dict(sorted(counts.items()))


def of_personal_data(table: Path) -> dict[str, int]:
    """The number of clips of `utterances.parquet` with personal data, and the number of places of
    each kind; empty if the rule `pii` was not used."""
    names, counts = tables.schema(table).names, Counter[str]()
    if "pii" not in names:
        return counts
    kinds = [name for name in names if name.startswith("pii_") and name != "pii_untimed"]
    for part in tables.row_groups(table, ["pii", *kinds]):
        counts["clips"] += pc.sum(pc.greater(part["pii"], 0)).as_py() or 0
        for name in kinds:
            counts[name.removeprefix("pii_")] += int(pc.sum(part[name]).as_py() or 0)
    return counts


def of_labels(parts: Iterable[pa.Table], names: Sequence[str]) -> list[json_types.LabelHours]:
    """For each of these labels, the LARGEST values by hours, descending. `parts`: the version's
    utterances (LABEL_COLUMNS, or columns of the labels in place of `labels`), divided in any
    way."""
    sums = []
    for part in parts:
        counted = _counted(part)
        for name in names:
            stated = "labels" in part.column_names
            values = pc.map_lookup(part["labels"], name, "first") if stated else part[name]
            labelled = counted.append_column("value", values)
            labelled = labelled.append_column("label", pa.array([name] * len(part)))
            known_values = labelled.filter(pc.is_valid(values))
            sums.append(summary.sums_by(known_values, LABEL_KEYS, SUMMED))
    rows = summary.hours_by(
        summary.sums_by(pa.concat_tables(sums), LABEL_KEYS, SUMMED), "label", "value"
    )
    rows.sort(key=lambda row: (names.index(row["label"]), -row["hours"], row["value"]))
    by_label = groupby(rows, key=lambda row: row["label"])
    return _with_hours((row for _, some in by_label for row in [*some][:LARGEST]), "label", "value")


def _counted(part: pa.Table) -> pa.Table:
    counted = part.append_column("items", pa.array(np.ones(len(part), np.int64)))
    return counted.rename_columns({"num_samples": "samples"})


def _known(kept: pa.Table) -> pa.Table:
    """Rows with a speaker; for names across recordings, `dataset` becomes null."""
    rows = kept.filter(pc.is_valid(kept["speaker"]))
    nowhere = pa.scalar(None, pa.string())
    dataset = pc.if_else(are_over_all(rows["speaker"]), nowhere, rows["dataset"])
    return tables.replaced(rows, "dataset", dataset)


def _hours(kept: pa.Table) -> float:
    return sum((float(row["hours"]) for row in summary.hours_by(kept)), 0.0)


# Conversations, from the column `turns`: turns, floor transfers, backchannels. Times are counted in
# steps of 10 ms, so that sums do not depend on the order of rows.

DIALOGUE_COLUMNS = ("turns", "num_samples", "sample_rate", "dialogue_overlap", "dialogue_silence")
STEP = 0.01  # s
#: First and last step of turns' lengths and of offsets between turns, s; values beyond count there.
LENGTHS, OFFSETS = (0.0, 600.0), (-30.0, 30.0)
MOST_SPEAKERS = 99


def of_dialogues(parts: Iterable[pa.Table]) -> json_types.Dialogues:
    """The statistics of utterances (those of DIALOGUE_COLUMNS that they have)."""
    lengths, offsets = (_steps(bounds, np.zeros(0)) for bounds in (LENGTHS, OFFSETS))
    speakers = np.zeros(MOST_SPEAKERS + 1, np.int64)
    windows = turns = backchannels = overlapping = transfers = 0
    shares: dict[str, list[int]] = {}
    for part in parts:
        column = part["turns"].combine_chunks()
        row = pc.list_parent_indices(column).to_numpy(zero_copy_only=False)
        start, end, number, backchannel = (
            column.flatten().field(name).to_numpy(zero_copy_only=False)
            for name in ("start", "end", "number", "backchannel")
        )
        windows += len(column) - column.null_count
        turns += len(start)
        people = np.unique(np.stack([row, number]), axis=1)[0]  # each once in a row
        counts = np.unique(people, return_counts=True)[1]
        speakers += np.bincount(counts, minlength=MOST_SPEAKERS + 1)[: MOST_SPEAKERS + 1]
        floor = ~np.asarray(backchannel, bool)
        backchannels += int((~floor).sum())
        start, end, row, number = (values[floor] for values in (start, end, row, number))
        another = (row[1:] == row[:-1]) & (number[1:] != number[:-1])
        offset = (start[1:] - end[:-1])[another]  # to another person's turn, negative in overlap
        lengths += _steps(LENGTHS, end - start)
        offsets += _steps(OFFSETS, offset)
        overlapping += int((offset < 0).sum())
        transfers += len(offset)
        for name in ("dialogue_overlap", "dialogue_silence"):
            if name in part.column_names:  # ms of the share, and of all clips that have one
                share, milliseconds = part[name].to_numpy(), 1000 * summary.seconds_of(part)
                valued = ~np.isnan(share)
                sums = shares.setdefault(name.removeprefix("dialogue_"), [0, 0])
                sums[0] += int(np.rint((share * milliseconds)[valued]).sum())
                sums[1] += int(np.rint(milliseconds[valued]).sum())
    return {
        "windows": windows,
        "turns": turns - backchannels,
        "backchannels": backchannels,
        "turn_seconds": _spread(lengths, LENGTHS[0]),
        "floor_transfers": transfers,
        "offset_seconds": _spread(offsets, OFFSETS[0]),
        "transfers_in_overlap": overlapping,
        "shares": {name: part / whole if whole else None for name, (part, whole) in shares.items()},
        "speakers": [
            {"speakers": number, "windows": int(count)}
            for number, count in enumerate(speakers)
            if number and count
        ],
    }


def silent_backchannels(parts: Iterable[pa.Table]) -> int:
    """The number of backchannels without a recognised word, in tables with `turns`."""
    count = 0
    for part in parts:
        flat = part["turns"].combine_chunks().flatten()
        silent = pc.and_(flat.field("backchannel"), pc.equal(flat.field("text"), ""))
        count += pc.sum(silent).as_py() or 0
    return count


def _steps(bounds: tuple[float, float], seconds: Float64s) -> Int64s:
    """The number of these times in each step of STEP within `bounds`, s."""
    low, high = bounds
    count = round((high - low) / STEP)
    steps = np.clip(np.rint((seconds - low) / STEP).astype(np.int64), 0, count)
    return np.bincount(steps, minlength=count + 1)


def _spread(steps: Int64s, low: float) -> json_types.TimeSpread | None:
    """5 %, 50 % and 95 % quantiles, s; None without any time. `low`: the time of the first step."""
    whole = np.cumsum(steps)
    if not whole[-1]:
        return None
    places = np.searchsorted(whole, np.array([0.05, 0.5, 0.95]) * whole[-1])
    least, median, most = (round(low + int(place) * STEP, 2) for place in places)
    return {"5 %": least, "median": median, "95 %": most}
