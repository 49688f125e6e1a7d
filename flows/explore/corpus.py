"""Looks recordings and utterances up in the checkpoints of an OUT."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from ...tasks import storage
from ...tasks.base.arrays import Int32s
from ...tasks.base.errors import ConfigError, MillError
from ...tasks.base.json_types import JsonObject
from ...tasks.insight import judged
from ...tasks.recording import Locator
from ...tasks.recording.tracks import locator_of
from ...tasks.scoring import near_texts
from ...tasks.settings import FilterSettings
from ...tasks.settings.job import Job
from ...tasks.shard_store import hidden, manifest
from ...tasks.shard_store.utterance import Utterance
from ...tasks.storage import queries, versions
from ...tasks.storage.queries import identifier, literal
from ..run import run_folder
from . import loading
from .loading import Column, SqlValue

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


T = TypeVar("T")
HELD = 8  # shards whose utterances stay in memory
BATCH = 50_000  # texts read at once
ANSWER = 32_000_000  # characters of the texts of a response, at most
AUDIBLE = FilterSettings(non_finite="silence")  # the rest can be played
DATABASE = "explore.duckdb"
ROWS = 16  # fetched at once


@dataclass(frozen=True, eq=False)  # compared by identity, because a job is large
class Run:
    """A run's folder, and its job; None if this release cannot read its settings."""

    folder: Path
    job: Job | None


@lru_cache(1)
def _shards(out: Path, run: Run | None) -> dict[str, str]:
    """The shard of each recording, as of the last run."""
    shards = manifest.shards(out)
    return {name: shard for shard in shards for name in manifest.recordings(out, shard)}


@lru_cache(HELD)
def _decided(run: Run, shard: str, recording: str) -> Mapping[str, Utterance]:
    if run.job is None:
        return {}
    view = judged.of_recordings(run.job, shard, [recording])
    return {u.id: u for u in view.transcribed()}


@dataclass(frozen=True, slots=True)
class Items:
    """The table of a version."""

    number: int
    name: str
    columns: Mapping[str, Column]

    @property
    def compared_text(self) -> str:
        """The column by which texts are compared."""
        return "normalised" if "normalised" in self.columns else "text"

    @property
    def labels(self) -> list[str]:
        """The columns of the sources' labels."""
        return [name for name in self.columns if name.startswith(loading.LABEL)]

    @property
    def listed(self) -> str:
        """Its columns, for SQL."""
        return ", ".join(map(identifier, self.columns))


class Gone(MillError):
    """The requested thing is not in this OUT, or no longer."""


class Ended(MillError):
    """The explorer is ending."""


class Corpus:
    """An OUT as it is explored; `home` is a disposable local folder. `readable`: the folders whose
    tables are read, by default the OUT's."""

    read_only = False

    def __init__(self, out: Path, home: Path, readable: Sequence[Path] | None = None) -> None:
        self.out, self._home = out, home
        self._run: Run | None = None
        if readable is None:  # the folder may be a user's link to a larger disk
            local = storage.store_of(out).mounted(out) is not None
            readable = [(out / "datasets").resolve()] if local else []
        self._database = queries.connect(home, readable, name=DATABASE)
        self._made: dict[str, Any] = {}
        self._making: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._asking = threading.Lock()
        self._cursors: set[DuckDBPyConnection] = set()
        self._ending = False

    def versions(self) -> list[int]:
        """Numbers of the published versions, newest first; ConfigError without any."""
        numbers = [versions.number(place) for place in versions.all_of(self.out)][::-1]
        if not numbers:
            raise ConfigError(versions.none_yet(self.out))
        return numbers

    def number(self, asked: int | None) -> int:
        """The requested version, else the newest; Gone if it does not exist."""
        numbers = self.versions()
        if asked is None:
            return numbers[0]
        if asked not in numbers:
            raise Gone(f"there is no version {asked}; there are {', '.join(map(str, numbers))}")
        return asked

    def place(self, number: int) -> Path:
        return versions.numbered(self.out, number)

    def items(self, asked: int | None = None) -> Items:
        """The table of a version; read on first use, and again once a run has begun to hide texts,
        or does not any more."""
        number, job = self.number(asked), self.job()
        heard = job is not None and not hidden.hides(job)
        name = f"items_{number}{'_heard' if heard else ''}"

        def read() -> Items:
            with self.cursor() as cursor:
                place = self.place(number)
                columns = loading.load(cursor, self.out, place, self._home, name, heard)
            return Items(number, name, columns)

        return self._once(name, read)

    def _once(self, key: str, make: Callable[[], T]) -> T:
        """What `make` gives at the first request; all others get the same."""
        with self._making[key]:
            if key not in self._made:
                self._made[key] = make()
        result: T = self._made[key]
        return result

    def locator(self, recording: str) -> Locator | None:
        """Where a recording's bytes lie; None if no checkpoint has it."""
        if (shard := _shards(self.out, self.run()).get(recording)) is not None:
            for row in manifest.listed(self.out, shard).to_pylist():
                if row["recording"] == recording:
                    return locator_of(row, AUDIBLE)
        return None

    def _utterances(self, recording: str) -> tuple[str, Mapping[str, Utterance]]:
        """The shard of a recording, and its utterances by id, as the last run judged them: a run
        may end while the explorer is open."""
        run = self.run()
        shard = _shards(self.out, run).get(recording)
        return (shard, _decided(run, shard, recording)) if run and shard else ("", {})

    def utterance(self, recording: str, key: str | None) -> tuple[str, Utterance] | None:
        """(shard, utterance) by its id."""
        shard, utterances = self._utterances(recording)
        return (shard, utterances[key]) if key is not None and key in utterances else None

    def muted(self, recording: str) -> list[tuple[float, float]]:
        """(start, end) in s of the spans of a recording that rules on text mute."""
        places: list[tuple[float, float]] = []
        for one in self._utterances(recording)[1].values():
            if one.muted and (packed := judged.packed(one)):
                begin, rate = one.start / one.rate, packed["rate"]
                spans = hidden.muted_spans(one.muted)
                places += [(begin + low / rate, begin + high / rate) for low, high in spans]
        return places

    def copied(self, items: Items) -> Path:
        """A database of its own with the table `items` of a version, and the views `ledger` (all of
        it) and `utterances` (the packaged ones), for `sandbox`; made on first use."""
        place = self._home / f"sql-{items.name}.duckdb"

        def copy() -> Path:
            with self.cursor() as cursor:
                cursor.execute(
                    f"ATTACH {literal(str(place))} AS copied; CREATE TABLE copied.items AS "
                    f"SELECT item, {items.listed} FROM {items.name} ORDER BY item; "
                    "CREATE VIEW copied.ledger AS SELECT * FROM copied.items; "
                    "CREATE VIEW copied.utterances AS SELECT * FROM copied.items "
                    "WHERE outcome = 'packaged'; DETACH copied"
                )
            return place

        return self._once(str(place), copy)

    def text_groups(self, items: Items) -> Int32s:
        """The group of each item's text, equal and near-equal ones in one; -1 for none, int32
        [items]; computed on first use."""

        def compare() -> Int32s:
            text = identifier(items.compared_text)
            with self.cursor() as cursor:
                relation = cursor.sql(f"SELECT {text} FROM {items.name} ORDER BY item")
                batches = self._while_going_on(relation.to_arrow_reader(BATCH))
                return near_texts.groups(batches, scratch=self._home).astype(np.int32)

        return self._once(f"texts of {items.name}", compare)

    def _while_going_on(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Array]:
        for batch in batches:
            self.going_on()
            yield batch.column(0)

    @contextmanager
    def cursor(self) -> Iterator[DuckDBPyConnection]:
        """A connection for one thread; raises Ended once the explorer ends."""
        with self._asking:
            self.going_on()
            cursor = self._database.cursor()
            self._cursors.add(cursor)
        try:
            yield cursor
        finally:
            with self._asking:
                self._cursors.discard(cursor)
            cursor.close()

    def rows(self, sql: str, values: Sequence[SqlValue] = ()) -> list[JsonObject]:
        """The rows of a query, by column; ConfigError if their texts are more than ANSWER."""
        rows, size = list[JsonObject](), 0
        for batch in self.batches(sql, values):
            rows += batch
            size += sum(len(v) for row in batch for v in row.values() if isinstance(v, str))
            if size > ANSWER:
                raise ConfigError(
                    f"an answer holds up to {ANSWER:,} characters of text; ask for fewer rows"
                )
        return rows

    def batches(self, sql: str, values: Sequence[SqlValue] = ()) -> Iterator[list[JsonObject]]:
        """The rows of a query, by column; floats that JSON cannot hold are None."""

        def plain(value: object) -> object:
            return None if isinstance(value, float) and not math.isfinite(value) else value

        with self.cursor() as cursor:
            result = cursor.execute(sql, list(values))
            names = [column[0] for column in result.description]
            while batch := result.fetchmany(ROWS):
                yield [dict(zip(names, map(plain, row), strict=True)) for row in batch]

    def run(self) -> Run | None:
        """The last run that ended well, one object until the next run; None if OUT has none."""
        try:
            folder = run_folder.newest(self.out, ended_well=True)
        except ConfigError:
            return None
        if (run := self._run) is None or run.folder != folder:
            settings = run_folder.known_settings(self.out, ended_well=True)
            self._run = run = Run(folder, settings.job() if settings else None)
        return run

    def job(self) -> Job | None:
        """The job of the last run that ended well; None if OUT has no run."""
        run = self.run()
        return run.job if run else None

    def going_on(self) -> None:
        """Raises Ended if the explorer is ending; long work calls this now and then."""
        if self._ending:
            raise Ended("the explorer ends")

    def end(self) -> None:
        """Interrupt all queries, and let none begin."""
        with self._asking:
            self._ending = True
            for cursor in self._cursors:
                cursor.interrupt()

    def close(self) -> None:
        self.end()
        self._database.close()
