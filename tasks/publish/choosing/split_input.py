"""The input of splits, weights and hours per speaker: some tens of bytes a clip in memory, names in
temporary files."""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...base.arrays import Bools, Int32s, Int64s, UInt64s
from ...corpus import rejections
from ...settings import PackageSettings, package
from ...shard_store import clip_choice
from ...storage.long_columns import joined
from .. import seeded_hash
from ..name_table import TALKING, Names
from ..speakers import Speakers
from . import split_allocation, weights
from .components import KINDS, speakers_in
from .split_by_list import MatchedList

#: Columns that choice, weights and splits read; `labels` only if a source keeps labels, `turns`
#: only if clips hold several turns.
COLUMNS = (
    *("id", "dataset", "recording", "channel", "source_id", "speaker", "language", "labels"),
    *("sha256", "num_samples", "sample_rate", "normalised", "turns"),
)
WORDS = "words"  # a kind of names: whole texts, in which near-equal ones are searched for
#: The columns that give a row's nodes (`columns_of`).
NODES = ("dataset", "recording", "channel", "speaker", "sha256", "normalised")


class Candidates(ExitStack):
    """Clips that pass choice and weights: added in batches, read after `finish`."""

    number: Int32s  # of each clip, among all that were added
    length: Int64s  # µs
    order: Int32s  # the clips sorted by id
    turn: UInt64s  # draw that orders the clips of a speaker for `max_hours_per_speaker`
    published: Bools  # whether in the newest version
    rejected: pa.Table  # REJECTED: clips that choice and weights drop; `at`: their numbers

    def __init__(self, settings: PackageSettings, scratch: Path | None = None) -> None:
        super().__init__()
        self._settings = settings
        self._texts = bool(settings.splits) and (
            settings.disjoint is None or "text" in settings.disjoint
        )
        # Raises ConfigError for a wrong list, so it comes before any file is opened.
        self.listed = [MatchedList(split_list) for split_list in package.read_list(settings)]
        self.memory, self.scratch = settings.memory, scratch
        kinds = ("id", *KINDS, WORDS)
        # Half of the memory: arrays of all clips and a database of near-equal texts need the rest.
        self.names = self.enter_context(Names(kinds, settings.memory, scratch, divisor=2))
        self.chosen_by = clip_choice.Named(settings)
        self._numbers, self._lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
        self._turns, self._published = [np.zeros(0, np.uint64)], [np.zeros(0, bool)]
        self._rejected = [rejections.REJECTED.empty_table()]
        self._added = 0

    def __len__(self) -> int:
        return len(self.names)

    def add(self, rows: pa.Table, published: Bools, linked: Speakers | None = None) -> None:
        """Add the next clips (COLUMNS); `published`: which are in the newest version; `linked`: the
        speakers across recordings, for the people in `turns`."""
        numbers = np.arange(self._added, self._added + len(rows), dtype=np.int32)
        self._added += len(rows)
        if clip_choice.restricts(self._settings):
            self.chosen_by.add(rows)
            good = clip_choice.chosen(self._settings, rows)
            self._rejected.append(rejections.rejected(numbers[~good], clip_choice.REASON))
            rows, numbers, published = rows.filter(pa.array(good)), numbers[good], published[good]
        if self._settings.weights:
            draw, weight = weights.draws(self._settings, rows)
            out = draw >= weight
            rejected = rejections.rejected(numbers[out], "weight", draw[out], weight[out])
            self._rejected.append(rejected)
            rows, numbers, published = rows.filter(pa.array(~out)), numbers[~out], published[~out]
        for matched_list in self.listed:
            matched_list.add(len(self), rows)
        self._numbers.append(numbers)
        self._lengths.append(split_allocation.microseconds(rows))
        self._published.append(published)
        if self._settings.max_hours_per_speaker is not None:
            head, ids = f"{self._settings.seed}:speaker_hours", rows["id"].to_pylist()
            self._turns.append(seeded_hash.draws(head, ids))
        words = words_of(rows) if self._texts else pa.nulls(len(rows), pa.string())
        named = {"id": rows["id"], **columns_of(rows, self._texts), WORDS: words}
        self.names.add(named, talking_in(rows, linked))

    def finish(self) -> None:
        """Make the attributes, once all clips are added."""
        self.rejected = pa.concat_tables(self._rejected)
        self.number, self.length = joined(self._numbers), joined(self._lengths)
        self.turn, self.published = joined(self._turns), joined(self._published)
        self.order = self.names.ordered("id")


def columns_of(rows: pa.Table, texts: bool = True) -> dict[str, pa.ChunkedArray | pa.Array]:
    """The names of each row's nodes (columns NODES), by kind (KINDS). Names of texts are the sha256
    of their normalised form; null without `texts`."""
    words = words_of(rows).to_pylist() if texts else [None] * len(rows)
    hashes = [hashlib.sha256(text.encode()).hexdigest() if text else None for text in words]
    names = speakers_in(rows), _files_in(rows), rows["sha256"], pa.array(hashes, pa.string())
    return dict(zip(KINDS, names, strict=True))


def talking_in(rows: pa.Table, linked: Speakers | None = None) -> pa.Table:
    """The people in the `turns` of these rows (TALKING), each once a row, named as `speakers_in`
    names speakers. `linked`: the speakers across recordings."""
    if "turns" not in rows.column_names:
        return TALKING.empty_table()
    turns = rows["turns"].combine_chunks()
    spoken, row = pc.list_flatten(turns), pc.list_parent_indices(turns)
    if not pa.types.is_struct(spoken.type) or spoken.type.get_field_index("speaker") < 0:
        return TALKING.empty_table()  # clips of one voice, with turns by `package.publish`
    people = pa.table(
        {"dataset": rows["dataset"].take(row), "speaker": pc.struct_field(spoken, "speaker")}
    )
    if linked is not None:
        people = linked.called(people)
    talking = pa.table({"row": row, "name": speakers_in(people)}).cast(TALKING)
    named = talking.filter(pc.is_valid(talking["name"]))
    return named.group_by(TALKING.names, use_threads=False).aggregate([]).select(TALKING.names)


def _files_in(rows: pa.Table) -> pa.ChunkedArray:
    """The name of each row's recording, without its channel: the channels of a call must share a
    split, because each side is faintly audible in the other."""
    names = rows["recording"]
    if "channel" not in rows.column_names or rows["channel"].null_count == len(rows):
        return names
    of_file = pc.replace_substring_regex(names, r"#\d+$", "")
    return pc.if_else(pc.is_valid(rows["channel"]), of_file, names)


def words_of(rows: pa.Table) -> pa.ChunkedArray | pa.Array:
    """Each row's normalised text; null without the column."""
    if "normalised" not in rows.column_names:
        return pa.nulls(len(rows), pa.string())
    return rows["normalised"]
