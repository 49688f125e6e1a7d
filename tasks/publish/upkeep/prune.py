"""`prune`: remove what no kept version and no current settings need.

    versions     older than the newest `keep`; never the newest, never what `latest` names
    manifests    parts none of whose rows is needed (`needed.py`)
    audio        blobs that no remaining part names
    runs         folders of old runs, where a number to keep is given
    staging      what dead runs left: temporary files, a version that was never published

The newest version carries everything that later ones need of older ones (frozen bounds, the layout,
what left the sources). A recording that left its source is needed while a kept version holds it.
Versions share files by hard links: bytes count as freed where the last link goes. Only while
holding OUT's lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tasks import plugins, storage
from tasks.accounting import summary
from tasks.base.errors import ConfigError, RunError
from tasks.base.json_types import JsonObject
from tasks.base.schema import LEDGER_FILE
from tasks.corpus import outcome_table
from tasks.publish.unchanged import UpToDate
from tasks.publish.upkeep import needed
from tasks.publish.upkeep.needed import KeptSettings
from tasks.settings import (
    FilterSettings,
    Plugin,
    ResampleSettings,
    StageSettings,
    TranscribeSettings,
)
from tasks.settings.job import Job
from tasks.shard_store import manifest
from tasks.shard_store.index import STAGES, Index
from tasks.storage import lock, publication, tables, versions
from tasks.storage.versions import Proved

#: Of the settings in dataset.json, those that name checkpoints. A step that is off is not there.
MODELS: dict[str, type[StageSettings] | type[Plugin]] = {
    "speakers": Plugin,
    "filter": FilterSettings,
    "enhance": Plugin,
    "resample": ResampleSettings,
    "transcribe": TranscribeSettings,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What to remove, by kind: files, or folders with their contents."""

    out: Path
    kept: tuple[str, ...]  # versions
    goes: dict[str, tuple[Path, ...]]
    uncut: int  # recordings that the newest run still has to cut; see `needed.Unneeded`

    def as_dict(self) -> JsonObject:
        """Items, files and bytes of each kind; `freed` are those that nothing else links to."""
        files = {kind: [*_files(self.out, paths)] for kind, paths in self.goes.items()}
        freed = _freed(files)
        kinds = {
            kind: {
                "items": len(paths),
                "files": len(files[kind]),
                "bytes": sum(file.size for file in files[kind]),
                "freed": freed[kind],
            }
            for kind, paths in self.goes.items()
        }
        return {
            "out": str(self.out),
            "kept": list(self.kept),
            "kinds": kinds,
            "versions": [path.name for path in self.goes["versions"]],
            "runs": [path.name for path in self.goes["runs"]],
            "uncut": self.uncut,
            "freed": sum(freed.values()),
        }


def kept(out: Path, keep: int) -> list[Path]:
    """Versions that stay: the newest `keep`, and what `latest` names."""
    if keep < 1:
        raise ConfigError("the newest version always stays; keep at least 1")
    older = versions.beyond(out, keep)
    return [path for path in versions.all_of(out) if path not in older]


def plan(
    out: Path, kept: Sequence[Path], settings: Sequence[KeptSettings], runs: Sequence[Path] = ()
) -> Plan:
    """What may go when these versions stay, and the results of these settings.

    `runs`: folders of runs that may go.
    """
    shards = manifest.shards(out)
    whole = _whole(out, shards, settings)
    incomplete = [shard for shard in shards if shard not in whole]
    live = _live(kept) if kept and incomplete else None
    of_shards = [needed.unneeded(out, shard, settings, live) for shard in incomplete]
    goes = {
        "versions": tuple(path for path in versions.all_of(out) if path not in kept),
        "manifests": tuple(path for unneeded in of_shards for path in unneeded.manifests),
        "audio": tuple(path for unneeded in of_shards for path in unneeded.audio),
        "runs": tuple(runs),
        "staging": tuple(_staging(out)),
    }
    names = tuple(path.name for path in kept)
    return Plan(out, names, goes, sum(unneeded.uncut for unneeded in of_shards))


def _whole(out: Path, shards: Sequence[str], settings: Sequence[KeptSettings]) -> set[str]:
    """Shards of which nothing may go: the last run left them complete under settings that stay,
    and they have one part of each stage, so that each is needed. They are not read."""
    index = Index(out)
    index.warn_of_foreign()
    counts = Counter(name.rpartition("/")[0] for name in index.files)
    complete = {
        shard
        for shard in shards
        if all(counts[f"manifests/{stage}/{shard}"] == 1 for stage in STAGES)
        and counts[f"audio/{shard}"] <= 1
    }
    asked = [kept for kept in settings if kept.current] or settings
    states = [UpToDate(kept.job, shards, index, any_code=True) for kept in asked]
    return {
        shard
        for shard in complete
        if states and all(all((state.items(shard) or {"": 0}).values()) for state in states)
    }


def settings_of(out: Path, kept: Sequence[Path]) -> list[KeptSettings]:
    """Settings of published versions, as `dataset.json` has them."""
    settings = []
    for version in kept:
        described = versions.described(version)
        stages: JsonObject = {
            name: plugins.checked(model, described["settings"][name], f"{version.name}: {name}")
            for name, model in MODELS.items()
            if name in described["settings"]
        }
        job = Job(out, **stages)
        settings.append(KeptSettings(job, described["recipes"]["weights"], current=False))
    return settings


def carry_out(plan: Plan, job: Job) -> None:
    """Remove it. After a kill at any point, all that is needed is there, and the next prune removes
    the rest. `job` has the settings of the newest run that ended well."""
    lock.check(plan.out)
    _remove(plan.out, plan.goes["staging"])
    publication.of(plan.out).withdraw((*plan.goes["versions"], *plan.goes["runs"]))
    # Parts before the blobs that they name: no part is left without its audio.
    checkpoints = (*plan.goes["manifests"], *plan.goes["audio"])
    if checkpoints:
        answers = outcome_table.where(job)  # valid for the current parts
        Index(plan.out).forget(p.relative_to(plan.out).as_posix() for p in checkpoints)
        _remove(plan.out, checkpoints)
        if answers is not None:
            outcome_table.seal(job, [path.name for path in storage.names(answers, ".parquet")])


def _live(kept: Iterable[Path]) -> set[str]:
    """Recordings of the kept versions, except those that had left their source."""
    recordings: set[str] = set()
    for version in kept:
        proved = Proved(version)
        try:
            for path in tables.parts(version / LEDGER_FILE):
                if not proved.is_whole(path):  # it may be read all the same, as something else
                    raise OSError(f"{path.name} is not the file that was published")
            for names in summary.live_recordings(version):
                recordings.update(names.to_pylist())
        except (OSError, pa.ArrowException) as error:
            raise RunError(
                f"cannot tell what {version.name} needs, because its ledger is damaged ({error}); "
                "nothing was removed: look at `uttermill verify`, and remove the version by hand"
            ) from error
    return recordings


def _staging(out: Path) -> Iterator[Path]:
    """What only a dead run, or a dead prune, leaves."""
    store = storage.of(out)
    listing = out / "manifests" / ".listing"
    if store.is_folder(listing):
        yield listing
    folders = [
        path
        for home in (versions.home(out), out / "runs")
        for path in publication.of(out).leftovers(home)
    ]
    yield from folders
    for root in ("manifests", "audio", "datasets", "runs"):
        for temp in sorted(store.temporaries(out / root)):
            if listing not in temp.parents and not set(folders) & set(temp.parents):
                yield temp


def _freed(files: Mapping[str, Iterable[storage.File]]) -> dict[str, int]:
    """Bytes that come free by kind: of files whose every link goes, once."""
    links: Counter[object] = Counter()
    freed = dict.fromkeys(files, 0)
    for kind, members in files.items():
        for file in members:
            links[file.inode] += 1
            if links[file.inode] == file.links:
                freed[kind] += file.size
    return freed


def _files(out: Path, paths: Iterable[Path]) -> Iterator[storage.File]:
    for path in paths:
        yield from storage.of(out).files(path)


def _remove(out: Path, paths: Iterable[Path]) -> None:
    store = storage.of(out)
    for path in paths:
        store.remove_tree(path)
        store.remove(path)
