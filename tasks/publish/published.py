"""A published dataset version, for programs: its tables as Arrow, its clips as samples.

`uttermill.load` opens one. It only reads, and needs neither Prefect nor the sources.
"""

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from .. import audio, storage
from ..base.arrays import Int16s
from ..base.errors import ConfigError, ItemError, UnsafePlace
from ..base.json_types import DatasetJson, JsonObject
from ..base.schema import LEDGER_FILE, UTTERANCES_FILE
from ..storage import queries, regular, tables, versions

ENCODED, DECODED = 400_000_000, 200_000_000  # bytes, samples of a clip: an hour at 48 kHz


@dataclass(frozen=True, slots=True)
class Clip:
    """A published clip: `row` is its row of `utterances.parquet`; `samples` int16 [num_samples] at
    `rate` Hz, mono."""

    row: dict[str, Any]
    samples: Int16s
    rate: int


@dataclass(frozen=True, slots=True)
class Dataset:
    """A published version. Its files never change, so everything is read when it is asked for.
    RunError if a table is damaged."""

    path: Path

    @property
    def version(self) -> int:
        return versions.number(self.path)

    @property
    def description(self) -> DatasetJson:
        """dataset.json: counts, hours, settings, recipes, and the sha256 of every file."""
        return versions.described(self.path)

    @property
    def utterances(self) -> pa.Table:
        """`utterances.parquet`, a row a clip; `uttermill schema` tells the columns and their
        units."""
        return tables.read(self.path / UTTERANCES_FILE, opened=versions.Proved(self.path))

    @property
    def ledger(self) -> pa.Table:
        """`ledger.parquet`, a row for every span of every recording."""
        return tables.read(self.path / LEDGER_FILE, opened=versions.Proved(self.path))

    def query(self, sql: str) -> pa.Table:
        """The result of a query by DuckDB over the tables `utterances` and `ledger`.

        It can read nothing else. `duckdb.Error` for SQL that DuckDB refuses; RunError if the result
        fits neither into memory nor into the temporary folder.
        """
        with queries.tables(readable=[self.path]) as database:
            files = (("utterances", UTTERANCES_FILE), ("ledger", LEDGER_FILE))
            for name, file in (pair for pair in files if pair[0] in sql.lower()):
                place = storage.store_of(self.path).mounted(self.path / file)
                if place is None or queries.is_pattern(place):
                    database.register(name, tables.read(self.path / file))
                else:
                    parquet = f"read_parquet({queries.literal(str(place))})"
                    database.execute(f"CREATE VIEW {name} AS SELECT * FROM {parquet}")
            return database.sql(sql).to_arrow_table()

    def clip(self, key: str) -> Clip:
        """The clip of this id. ConfigError if there is none, or if it is in no tar."""
        for clip in self.clips(f"id = {queries.literal(key)}"):
            return clip
        raise ConfigError(f"{self.path} has no clip {key!r}")

    def clips(self, where: str = "true") -> Iterator[Clip]:
        """Clips with their samples, in the order of their tars; `where`: a condition in SQL on the
        columns of `utterances`, such as `speaker = 'anna' AND num_samples > 16000`.

        ConfigError if a clip is in no tar that holds WAV or FLAC: of the formats, wenet and
        webdataset write such tars.
        """
        rows = self.query(f'SELECT * FROM utterances WHERE {where} ORDER BY shard, "offset", id')
        for batch in rows.to_batches(max_chunksize=256):
            for row in batch.to_pylist():
                sound = samples_of(self.path, row)
                if sound is None:
                    raise ConfigError(
                        f"the samples of {row['id']} are in no tar of {self.path}: publish it with "
                        "package.formats: [wenet] or [webdataset] first in the list"
                    )
                yield Clip(row, *sound)


def load(place: str | Path) -> Dataset:
    """The version that `place` stands for: an OUT (its newest), `OUT/datasets/latest`, or a version
    itself; a path, or a URL such as `s3://bucket/out`. ConfigError if there is none."""
    version = versions.named(storage.place(str(place)))
    versions.described(version)
    return Dataset(version if storage.store_of(version).remote else version.resolve())


def samples_of(version: Path, row: JsonObject) -> tuple[Int16s, int] | None:
    """The samples of a row of `utterances.parquet` from its tar, int16 [n], and their rate in Hz;
    None if it is in no tar, or if the tar is damaged."""
    if row.get("shard") is None or row.get("offset") is None:
        return None
    try:
        path = storage.inside(version, row["shard"])
    except UnsafePlace:
        return None
    if not storage.exists(path):
        return None
    if isinstance(path, Path):
        regular.check(path)
    with path.open("rb") as file:
        file.seek(row["offset"])
        try:
            with tarfile.open(fileobj=file, mode="r:") as tar:
                for _ in range(3):  # beside the sound lie its text and its facts
                    member = tar.next()
                    if member is None:
                        return None
                    if member.name.endswith((".wav", ".flac")):
                        sound = tar.extractfile(member)
                        return audio.decode_int16(sound.read(ENCODED), DECODED) if sound else None
        except (tarfile.TarError, ItemError, OSError):
            return None
    return None
