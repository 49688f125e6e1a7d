"""Rejections by corpus-wide plug-ins, which see all transcribed utterances, a table at a time.

These rejections are entered into the outcomes that the shards already have: deciding them again
would cost as much as the first time, and weights affect every shard.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ... import plugins
from ...base.arrays import Bools, Float32s, Float64s, Int64s
from ...base.json_types import HeldOutSet, JsonObject
from ...plugins.contracts.base import Rows
from ...plugins.rules import Rejection
from ...scoring.text_sketches import BANDS, LEAST, ROWS, Known
from ...settings.job import Job
from ...shard_store import decision_log
from ...speech.embedding import SIZE
from ...storage import queries, tables
from .. import corpus
from . import held_out
from .held_out import HeldOut, Owner

#: Rejections: `at` is the number of a row or of a clip, the other columns say why.
REJECTED = pa.schema(
    {
        "at": pa.int64(),
        "reason": pa.dictionary(pa.int16(), pa.string()),
        "value": pa.float64(),
        "threshold": pa.float64(),
        "detail": pa.large_string(),
    }
)
AT_ONCE = 1 << 16  # rejections that are Python objects at a time

RowTables = Callable[[Sequence[str]], Iterable[pa.Table]]  # tables with the given columns of ROW


class TranscribedRows:
    """Implements `Rows` of the contract for corpus-wide rules; holds three bytes a row in memory.

    `published` returns for an array of ids which of them are in the newest version; it is called
    only if a rule needs it. Rows whose ids are in `spared` are never rejected.
    """

    def __init__(
        self,
        parts: RowTables,
        published: Callable[[pa.ChunkedArray], Bools],
        spared: Collection[str] = (),
        memory: str = queries.MEMORY,
        scratch: Path | None = None,
    ) -> None:
        self._parts, self._is_published = parts, published
        self.memory, self.scratch = memory, scratch
        spared_ids = pa.array(list(spared), pa.string())
        kept, spared_flags = [np.zeros(0, bool)], [np.zeros(0, bool)]
        for table in parts(["id", "kept"]):
            kept.append(table["kept"].to_numpy())
            spared_flags.append(pc.is_in(table["id"], spared_ids).to_numpy())
        self.kept, self._spared = np.concatenate(kept), np.concatenate(spared_flags)

    def __len__(self) -> int:
        return len(self.kept)

    @cached_property
    def _published(self) -> Bools:
        flags = (self._is_published(table["id"]) for table in self._parts(["id"]))
        return np.concatenate([np.zeros(0, bool), *flags])

    def published(self, numbers: Int64s) -> Bools:
        return self._published[numbers]

    def tables(self, *columns: str) -> Iterator[pa.Table]:
        """These columns of ROW, a table at a time; `kept` takes account of earlier rejections."""
        computed = {"kept": self.kept}
        if "published" in columns:
            computed["published"] = self._published
        stored = [name for name in columns if name not in computed]
        begin = 0
        for table in self._parts(stored or ["kept"]):
            rows = slice(begin, begin + len(table))
            begin = rows.stop
            arrays = {
                n: pa.array(computed[n][rows]) if n in computed else table[n] for n in columns
            }
            yield pa.table(arrays)

    def by_id(self) -> Int64s:
        ids = (table["id"] for table in self.tables("id"))
        return queries.order(ids, self.memory, self.scratch)

    def reject(self, rejections: Iterable[tuple[int, Rejection]]) -> Iterator[pa.Table]:
        """Mark these rows as rejected, except spared ones; yields tables (REJECTED) in the order
        given."""
        rest = iter(rejections)
        while batch := list(islice(rest, AT_ONCE)):
            rows = [(n, r.reason, r.value, r.threshold, r.detail or None) for n, r in batch]
            table = pa.table(tables.columns_of(REJECTED.names, rows), schema=REJECTED)
            table = table.filter(pa.array(~self._spared[table["at"].to_numpy()]))
            self.kept[table["at"].to_numpy()] = False
            yield table


def rejected(
    rows: NDArray[np.integer],
    reason: str,
    values: Float64s | None = None,
    thresholds: Float64s | None = None,
    details: pa.Array | None = None,
) -> pa.Table:
    """A table (REJECTED) with the same reason for all rows; `rows`: their numbers."""
    codes = pa.array(np.zeros(len(rows), np.int16))
    columns = {
        "at": pa.array(rows, pa.int64()),
        "reason": pa.DictionaryArray.from_arrays(codes, pa.array([reason])),
        "value": pa.nulls(len(rows)) if values is None else values,
        "threshold": pa.nulls(len(rows)) if thresholds is None else thresholds,
        "detail": pa.nulls(len(rows)) if details is None else details,
    }
    return pa.table(columns).cast(REJECTED)


class OfCorpus(NamedTuple):
    rejected: pa.Table  # REJECTED
    frozen: JsonObject  # state of each plug-in, by `<kind>.<plug-in>`: `filters.duplicate`
    test_sets: list[HeldOutSet]


def of_corpus(
    job: Job, parts: RowTables, published: Callable[[pa.ChunkedArray], Bools], frozen: JsonObject
) -> OfCorpus:
    """Rejections of rows of `parts`, first of those that meet a test set, then by all corpus-wide
    plug-ins. For the parameters see `TranscribedRows`."""
    spared = [key for key, decision in decision_log.by_utterance(job).items() if decision.keeps]
    rows = TranscribedRows(parts, published, spared, job.package.memory, job.scratch)
    rejections = [REJECTED.empty_table()]
    sets = held_out.read(job)
    met = [*_meetings(job, rows, sets)]
    rejections += rows.reject((row, rejection) for row, _, rejection in met)
    numbers = pa.array([row for row, *_ in met], pa.int64())
    dropped = pc.is_in(numbers, pa.concat_tables(rejections)["at"]).to_pylist()
    clips = Counter(number for (_, number, _), drops in zip(met, dropped, strict=True) if drops)
    test_sets = [held_out.described(one, clips[number]) for number, one in enumerate(sets)]
    # The state of plug-ins that this job does not use is passed on, too.
    kept_frozen = {} if job.package.refit else dict(frozen)
    for shelf, plugin in corpus.chosen(job):
        name = f"{shelf}.{plugin.use}"
        module, settings = plugins.MEASURING[shelf].resolve(plugin)
        before = kept_frozen.get(name, {})
        assert module.reject is not None  # by `corpus.chosen`
        rejected_rows, state = module.reject(rows, settings, before)
        if state is not None:
            kept_frozen[name] = state
        rejections += rows.reject(rejected_rows)
    return OfCorpus(pa.concat_tables(rejections), kept_frozen, test_sets)


def entered(outcomes: pa.Table, rejected: pa.Table | None, of: pa.Array) -> pa.Table:
    """The outcomes of a batch's utterances (some of OUTCOME_COLUMNS), with these rejections
    (REJECTED; `at`: the utterance's number) where the outcome is one `of` these."""
    if rejected is None:
        return outcomes
    place = np.full(len(outcomes), -1)
    place[rejected["at"].to_numpy()[::-1]] = np.arange(len(rejected))[::-1]  # the first counts
    applies = pc.and_(pa.array(place >= 0), pc.is_in(outcomes["outcome"], of))
    late = {"outcome": pa.scalar("dropped"), "stage": pa.scalar("package")}
    for field in outcomes.schema:
        if (new := late.get(field.name)) is None:
            values = rejected[field.name].cast(field.type).combine_chunks()
            new = values.take(pa.array(place, mask=place < 0))
        old = outcomes[field.name]
        outcomes = tables.replaced(outcomes, field.name, pc.if_else(applies, new, old))
    return outcomes


def overlapping(ledger: pa.Table) -> pa.Array:
    """Names of recordings with overlapping spans, in which a rejection moves samples from one span
    to another."""
    return pc.unique(ledger["recording"].filter(pc.greater(ledger["overlap_samples"], 0)))


# Clips that meet an item of a test set (`held_out`): by near-equal text, or by sound.

REASON = "in_test_set"
LEAST_SHARE = round((LEAST / BANDS) ** (1 / ROWS), 3)  # of the pairs of words in both texts


class Meeting(NamedTuple):
    """A clip that meets an item."""

    row: int
    owner: Owner  # of the item
    what: str  # it has of the item
    value: float | None = None
    threshold: float | None = None


def _meetings(
    job: Job, rows: Rows, sets: Sequence[HeldOut]
) -> Iterator[tuple[int, int, Rejection]]:
    """The kept rows that meet an item, each once: by text, sound, voice or speaker; with the number
    of the item's set."""
    done = set[int]()
    ways: dict[str, Callable[[Rows, Sequence[HeldOut]], Iterator[Meeting]]] = {
        "high": _by_text,
        "print": partial(_by_sound, job),
        "voice": _by_voice,
        "speaker": _by_speaker,
    }
    for column, meetings in ways.items():
        if any(one.items[column].null_count < len(one.items) for one in sets):
            met = [meeting for meeting in meetings(rows, sets) if meeting.row not in done]
            done |= {meeting.row for meeting in met}
            for row, (number, item), what, value, limit in met:
                detail = f"{what} of {item} in the test set {sets[number].name}"
                yield row, number, Rejection(REASON, value, limit, detail)


def _by_text(rows: Rows, sets: Sequence[HeldOut]) -> Iterator[Meeting]:
    owners, sketches = held_out.texts_of(sets)
    lookup, first = Known(sketches), 0
    for table in rows.tables("normalised", "kept"):
        text = pc.if_else(pc.equal(table["normalised"], ""), None, table["normalised"])
        kept = pc.if_else(table["kept"], text, pa.scalar(None, pa.string()))
        met = lookup.meet(kept.combine_chunks())
        for place in np.flatnonzero(met.item >= 0).tolist():
            share = round(float(met.share[place]), 3)
            how = "the text" if share == 1 else "nearly the text"
            yield Meeting(first + place, owners[int(met.item[place])], how, share, LEAST_SHARE)
        first += len(table)


def _by_sound(job: Job, rows: Rows, sets: Sequence[HeldOut]) -> Iterator[Meeting]:
    from ...filters import duplicate

    _, settings = plugins.FILTERS.resolve(held_out.fingerprinting(job))
    assert isinstance(settings, duplicate.Settings)
    owners, items = held_out.having(sets, "print")
    for copy in duplicate.met(items["print"], rows, settings):
        what = f"the {'samples' if copy.exact else 'sound'}"
        yield Meeting(copy.row, owners[copy.item], what, copy.error, settings.max_error)


def _by_voice(rows: Rows, sets: Sequence[HeldOut]) -> Iterator[Meeting]:
    """The rows whose voice is that of an item; of several, the nearest counts."""
    for number, one in enumerate(sets):
        items, first = one.items.filter(one.items["voice"].is_valid()), 0
        names, voices, least = items["item"].to_pylist(), vectors(items["voice"]), one.voice_cosine
        for table in rows.tables("voice", "kept") if names else ():
            heard = pc.and_(table["kept"], table["voice"].is_valid())
            places = np.flatnonzero(heard.to_numpy(zero_copy_only=False))
            cosines = vectors(table["voice"].filter(heard)) @ voices.T
            for place, row in zip(places.tolist(), cosines, strict=True):
                nearest = int(row.argmax())
                cosine = round(float(row[nearest]), 6)
                if cosine >= least:
                    owner = number, names[nearest]
                    yield Meeting(first + place, owner, "the voice", cosine, least)
            first += len(table)


def _by_speaker(rows: Rows, sets: Sequence[HeldOut]) -> Iterator[Meeting]:
    """The rows in which somebody speaks whom a set names."""
    owners, items = held_out.having(sets, "speaker")
    first_owner = dict(zip(reversed(items["speaker"].to_pylist()), reversed(owners), strict=True))
    first = 0
    for table in rows.tables("speakers", "kept"):
        kept = table["kept"].to_pylist()
        for place, speakers in enumerate(table["speakers"].to_pylist()):
            name = next((name for name in speakers or () if name in first_owner), None)
            if kept[place] and name is not None:
                yield Meeting(first + place, first_owner[name], f"the speaker {name}")
        first += len(table)


def vectors(embeddings: pa.ChunkedArray) -> Float32s:
    """Embeddings by the filter `voice`, float32 [n, SIZE]."""
    data = b"".join(embeddings.to_pylist())
    return np.frombuffer(data, "<f4").reshape(-1, SIZE)
