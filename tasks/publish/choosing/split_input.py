"""The input of splits, weights and hours per speaker: some tens of bytes a clip in memory, names in
temporary files."""

import hashlib
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...base.arrays import Bools, Float64s, Int32s, Int64s, UInt64s
from ...base.counting import counted
from ...base.errors import RunError
from ...base.json_types import ListDescription
from ...settings import PackageSettings, package
from ...settings.package import SplitList
from ...shard_store import clip_choice
from ...storage import sorted_keys, tables
from ...storage.tables import joined
from ..corpus import rejections
from ..speakers import Speakers
from .components import KINDS, TALKING, Names, Sides, agreed, microseconds, speakers_in

#: Columns that choice, weights and splits read; `labels` only if a source keeps labels, `turns`
#: only if clips hold several turns.
COLUMNS = (
    *("id", "dataset", "recording", "channel", "source_id", "speaker", "language", "labels"),
    *("sha256", "num_samples", "sample_rate", "normalised", "turns"),
)
WORDS = "words"  # a kind of names: whole texts, in which near-equal ones are searched for
#: The columns that give a row's nodes (`columns_of`).
NODES = ("dataset", "recording", "channel", "speaker", "sha256", "normalised")


ListDescriptions = dict[str, ListDescription]  # by split: `split_lists` of dataset.json


class MatchedList:
    def __init__(self, named: SplitList) -> None:
        self.named = named
        self._names = pa.array(named.names, pa.string())
        self._hits = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]

    def add(self, first: int, rows: pa.Table) -> None:
        """Match the next clips, numbered from `first` on."""
        columns = [rows[name] for name in ("id", "recording", "source_id", "speaker")]
        columns.append(pc.binary_join_element_wise(rows["dataset"], rows["speaker"], "/"))
        for column in columns:
            name_index = pc.index_in(column, self._names)
            hit = np.flatnonzero(name_index.is_valid().to_numpy())
            if len(hit):
                self._hits.append((first + hit, name_index.drop_null().to_numpy().astype(np.int64)))

    def hits(self, rows: Bools) -> tuple[Bools, list[str]]:
        """Which clips of `rows` (bool, by number) the list names, and the names that match none."""
        clip, name = (np.concatenate(column) for column in zip(*self._hits, strict=True))
        good = rows[clip]
        hit = np.zeros(len(rows), bool)
        hit[clip[good]] = True
        met = pc.is_in(self._names, self._names.take(np.unique(name[good])))
        return hit, self._names.filter(pc.invert(met)).to_pylist()


class Candidates(ExitStack):
    """Clips that pass choice and weights: added in batches, read after `finish`."""

    number: Int32s  # of each clip, as it was added with
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

    def __len__(self) -> int:
        return len(self.names)

    def add(
        self, rows: pa.Table, numbers: Int32s, published: Bools, linked: Speakers | None = None
    ) -> None:
        """Add the next clips (COLUMNS) with their numbers; `published`: which are in the newest
        version; `linked`: the speakers across recordings, for the people in `turns`."""
        if clip_choice.restricts(self._settings):
            self.chosen_by.add(rows)
            good = clip_choice.chosen(self._settings, rows)
            self._rejected.append(rejections.rejected(numbers[~good], clip_choice.REASON))
            rows, numbers, published = rows.filter(pa.array(good)), numbers[good], published[good]
        if self._settings.weights:
            draw, weight = weight_draws(self._settings, rows)
            out = draw >= weight
            rejected = rejections.rejected(numbers[out], "weight", draw[out], weight[out])
            self._rejected.append(rejected)
            rows, numbers, published = rows.filter(pa.array(~out)), numbers[~out], published[~out]
        for matched_list in self.listed:
            matched_list.add(len(self), rows)
        self._numbers.append(numbers)
        self._lengths.append(microseconds(rows))
        self._published.append(published)
        if self._settings.max_hours_per_speaker is not None:
            head, ids = f"{self._settings.seed}:speaker_hours", rows["id"].to_pylist()
            self._turns.append(sorted_keys.draws(head, ids))
        words = words_of(rows) if self._texts else pa.nulls(len(rows), pa.string())
        named = {"id": rows["id"], **columns_of(rows, self._texts), WORDS: words}
        self.names.add(named, talking_in(rows, linked))

    def finish(self) -> None:
        self.rejected = pa.concat_tables(self._rejected)
        self.number, self.length = joined(self._numbers), joined(self._lengths)
        self.turn, self.published = joined(self._turns), joined(self._published)
        self.order = self.names.ordered("id")


def columns_of(rows: pa.Table, texts: bool = True) -> dict[str, pa.ChunkedArray | pa.Array]:
    """The names of each row's nodes (columns NODES), by kind (KINDS). Names of texts are the sha256
    of their normalised form; null without `texts`."""
    words = words_of(rows).to_pylist() if texts else [None] * len(rows)
    hashes = [hashlib.sha256(text.encode()).hexdigest() if text else None for text in words]
    files = rows["recording"]
    if "channel" in rows.column_names and rows["channel"].null_count < len(rows):
        # Without its channel: the channels of a call must share a split, because each side is
        # faintly audible in the other.
        of_file = pc.replace_substring_regex(files, r"#\d+$", "")
        files = pc.if_else(pc.is_valid(rows["channel"]), of_file, files)
    names = speakers_in(rows), files, rows["sha256"], pa.array(hashes, pa.string())
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


def words_of(rows: pa.Table) -> pa.ChunkedArray | pa.Array:
    if "normalised" not in rows.column_names:
        return pa.nulls(len(rows), pa.string())
    return rows["normalised"]


def weight_draws(settings: PackageSettings, rows: pa.Table) -> tuple[Float64s, ...]:
    """(draw, weight) of each row (columns dataset, id), both from 0 to 1; float64 [rows]. A clip is
    packaged if draw < weight; without a weight of its dataset, the draw is NaN and the weight 1.
    A draw depends only on the seed and the clip's id, so a higher weight only adds clips."""
    weight = np.ones(rows.num_rows)
    dataset = tables.coded(rows["dataset"])
    codes = dataset.indices.to_numpy(zero_copy_only=False)
    for code, name in enumerate(dataset.dictionary.to_pylist()):
        weight[codes == code] = settings.weights.get(name, 1.0)
    some = np.flatnonzero(weight < 1)
    draw = np.full(rows.num_rows, np.nan)
    if len(some):
        ids = rows["id"].take(some).to_pylist()
        draw[some] = sorted_keys.draws(f"{settings.seed}:weight", ids) / 2**64  # from 0 to 1
    return draw, weight


# Lists of names: a component that one names goes into its split.


class Matches(NamedTuple):
    split: Sides  # of each row, index into the names of splits; -1: no list names it
    described: ListDescriptions
    notes: list[str]  # for people


def match(clips: Candidates, rows: Int32s, names: list[str]) -> Matches:
    """The split that the lists give to each clip in `rows`, as an index into `names`. Raises
    RunError if two lists name the same clip."""
    split = np.full(len(rows), -1, np.int16)
    described, notes = ListDescriptions(), list[str]()
    among = np.zeros(len(clips), bool)
    among[rows] = True
    for matched_list in clips.listed:
        hit_clips, unmatched = matched_list.hits(among)
        hit = hit_clips[rows]
        both = hit & (split >= 0)
        named = matched_list.named
        if both.any():
            raise RunError(_two_lists(clips, rows[np.argmax(both)], named.split))
        split[hit] = names.index(named.split)
        described[named.split] = {
            "sha256": named.sha256,
            "names": len(named.names),
            "unmatched": len(unmatched),
            "unmatched_first": unmatched[:20],
        }
        if unmatched:
            notes.append(
                f"package.splits.{named.split}.list: {len(unmatched)} of "
                f"{counted(len(named.names), 'name')} match no packaged clip: "
                f"{', '.join(unmatched[:5])}"
            )
    return Matches(split, described, notes)


def extend(
    clips: Candidates,
    rows: Int32s,
    component: Int32s,
    matched: Sides,
    of_component: Sides,
    names: list[str],
) -> Sides:
    """The split of each component: that of its rows that a list matched (`matched`), else
    `of_component`. Raises RunError if two lists name clips of one component."""
    by_list, torn = agreed(component, matched, len(of_component) - 1)
    if torn.any():
        row = int(np.argmax((component >= 0) & torn[component] & (matched >= 0)))
        raise RunError(_two_lists(clips, rows[row], names[matched[row]]))
    return np.where(by_list >= 0, by_list, of_component)


def _two_lists(clips: Candidates, row: np.int32, split: str) -> str:
    key, recording = (clips.names.named(k, np.array([row]))[0] for k in ("id", "recording"))
    return (
        f"package.splits: the list of {split} names {key} ({recording}), and another split's list "
        "names a clip with the same recording, speaker or samples; such clips must be in one split:"
        " remove one of the two names"
    )
