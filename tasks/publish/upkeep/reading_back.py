"""Every format of a version reads back: order, texts, decoded samples, hashes.

A version of more than LEAST bytes is read by as many processes as this one may use cores; each
output shard is read once.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from tasks import plugins, storage
from tasks.base.errors import RunError
from tasks.base.json_types import DatasetJson
from tasks.base.schema import UTTERANCES_FILE
from tasks.formats import Output, OutputShard
from tasks.plugins.contracts import Format
from tasks.publish.dataset import datacard
from tasks.publish.output_shards import format_shards
from tasks.publish.output_shards.layout import PublishedShard, published_shards
from tasks.settings import Plugin, StageSettings
from tasks.storage import tables, versions

LEAST = 1 << 28  # bytes; a smaller version is read before other processes have started
AT_ONCE = 32  # output shards of a call


class Portion(NamedTuple):
    """Some output shards of one format. Small: sent to other processes."""

    version: Path
    plugin: Plugin
    first: int  # of `shards` among all
    shards: list[PublishedShard]
    derived: dict[str, pa.Array]  # of their rows


def faults(version: Path, described: DatasetJson, seen: set[str]) -> Iterator[str]:
    """The faults, in words; `seen` gets the files that were read."""
    portions = _portions(version, described)
    size = sum(entry["bytes"] for entry in described["files"].values())
    for texts, files in _read_all(portions, _cores() if size > LEAST else 1):
        seen.update(files)
        yield from texts


def _cores() -> int:
    """That this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _portions(version: Path, described: DatasetJson) -> Iterator[Portion]:
    path = version / UTTERANCES_FILE
    schema = tables.schema(path)
    shards = published_shards(tables.row_groups(path, ["shard", "split", "generation"]))
    for plugin in datacard.formats_of(described).values():
        derived = format_shards.derived(plugin, schema, partial(tables.read, path))
        for first in range(0, len(shards), AT_ONCE):
            some = shards[first : first + AT_ONCE]
            low, rows = some[0].first, sum(shard.clips for shard in some)
            columns = {name: values.slice(low, rows) for name, values in derived.items()}
            yield Portion(version, plugin, first, some, columns)


Read = tuple[list[str], list[str]]  # faults, and files that were read


def _read_all(portions: Iterator[Portion], workers: int) -> Iterator[Read]:
    """What `read` finds of each, in order. RunError when a process died."""
    if workers < 2:
        yield from map(read, portions)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        waiting: list[Future[Read]] = []
        try:
            # Not all at once: a portion holds what its format derives.
            waiting += [pool.submit(read, portion) for portion in islice(portions, 2 * workers)]
            while waiting:
                yield waiting.pop(0).result()
                waiting += [pool.submit(read, portion) for portion in islice(portions, 1)]
        except BrokenProcessPool as error:
            raise RunError(
                "a process that read the version back died, by a fault of a decoder or for want of "
                "memory; run `uttermill verify` once more"
            ) from error


#: The rows of a version: a process reads neighbouring portions of it.
_held = lru_cache(maxsize=1)(tables.Slices)


def read(portion: Portion) -> Read:
    """Faults of some output shards, and the files that were read."""
    module, settings = plugins.FORMATS.resolve(portion.plugin)
    described = versions.described(portion.version)
    table = _held(portion.version / UTTERANCES_FILE)
    faults: list[str] = []
    seen: list[str] = []
    begin = 0
    for index, published_shard in enumerate(portion.shards, portion.first):
        split, number, _, first, count = published_shard
        columns = {name: values.slice(begin, count) for name, values in portion.derived.items()}
        begin += count
        rows = format_shards.with_columns(table.read(first, count), columns)
        files = module.files(split, number, format_shards.visible(module, rows), settings)
        shard = OutputShard(portion.plugin.use, split, number, index, count, tuple(files))
        seen += files
        faults += _shard(portion.version, described, module, settings, shard, rows)
    return faults, seen


def _shard(
    version: Path,
    described: DatasetJson,
    module: Format,
    settings: StageSettings,
    shard: OutputShard,
    rows: pa.Table,
) -> list[str]:
    faults: list[str] = []
    with _noted(shard, faults), storage.of(version).reading(version, shard.files) as home:
        out = Output(home)
        with _noted(shard, faults):
            faults += module.check(shard, format_shards.rows_for(module, rows), out, settings)
        for name in filter(lambda name: (home / name).is_file(), shard.files):
            digest = out.hashes.get(name) or storage.hashed(home / name)
            faults += differs(name, digest, described)
    return faults


@contextmanager
def _noted(shard: OutputShard, faults: list[str]) -> Iterator[None]:
    """Inside, any way in which a damaged file can fail is added to the faults of the shard."""
    try:
        yield
    except RunError:
        raise
    except Exception as error:  # of the format's reader, and of the libraries under it
        faults.append(f"{shard.path} cannot be read: {error}")


def differs(name: str, digest: tuple[str, int], described: DatasetJson) -> list[str]:
    """Whether a file, by its digest, is not the one that was published, in words."""
    entry = described["files"].get(name)
    if entry is None or digest == (entry["sha256"], entry["bytes"]):
        return []
    return [f"{name} is not the file that was published (hash or size differs)"]
