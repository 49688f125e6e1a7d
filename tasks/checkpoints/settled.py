"""What the last run found or left complete, so that the next one need not look at it again.

    OUT/manifests/package/settled.json    of each shard, and of the newest version, a key and counts

A shard's key is a hash of all that its stages go by: the settings with their recipes, the code, and
name, size, time of change and inode of each of its files (on an object store, size and ETag). Where
it is as it was noted, the shard lacks nothing; where all are, and what package goes by, the newest
version is today's. It decides what is looked at, never what is made: with another key, or without
the file, every item is looked up in the manifests as ever.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tasks import plugins, storage
from tasks.checkpoints.manifest import write_atomic
from tasks.dataset import datacard, versions
from tasks.job import Done, Job
from tasks.recording.guard import stat_guard
from tasks.settings import split_lists
from tasks.stages import stage

FORMAT = 1  # of the file
STAGES = ("shard", *stage.PER_SHARD)

Guards = dict[str, list[tuple[str, str]]]  # shard: name and guard of each of its files


@dataclass(frozen=True, slots=True)
class Version:
    """What package told of a version when it published it, or found it unchanged."""

    number: int
    clips: int
    summary: dict[str, Any]
    balance: dict[str, Any]


class Settled:
    """What is settled when a run begins, after the shard stage, and what is when it ends."""

    def __init__(self, job: Job, shards: Sequence[str]) -> None:
        self._job, self._shards = job, sorted(shards)
        told = datacard.settings(job)
        self._settings = _digest(
            [told[name] for name in stage.PER_SHARD], job.filter.measure_all,
            {**datacard.recipes(job), "weights": stage.weights_of(job)}, datacard.libraries(),
            _code(), _plugins(job),
        )  # fmt: skip
        self._lists: list[str] = []
        self._keys = self._now()
        self._noted = _read(job.out)
        self._ran: set[str] = set()
        self._items: dict[str, dict[str, int]] = {}
        for shard in self._shards:
            known = self._noted["shards"].get(shard)
            if known and known["key"] == self._keys[shard]:
                self._items[shard] = known["items"]

    def items(self, shard: str) -> Mapping[str, int] | None:
        """How many items each stage has of a shard that lacks nothing; None: look."""
        return None if shard in self._ran else self._items.get(shard)

    def saw(self, dones: Iterable[Done]) -> None:
        """What the stages of one shard found and made."""
        for done in dones:
            self._items.setdefault(done.shard, {})[done.stage] = done.computed + done.reused
            if done.ran:
                self._ran.add(done.shard)

    def version(self) -> Version | None:
        """After `decide`: the newest version, when package would make the same of today's data."""
        known = self._noted.get("version")
        if known is None or self._ran or known["key"] != self._version_key():
            return None
        return Version(known["number"], known["clips"], known["summary"], known["balance"])

    def decide(self) -> None:
        """All stages have run, and package is about to read what they made and the splits' lists:
        what changes from now on is gathered by the next run."""
        self._lists = [each.sha256 for each in split_lists.read(self._job.package)]
        if self._ran:
            now = self._now()
            # Of a shard that nobody touched the key of the beginning: what was looked at is noted.
            self._keys |= {shard: now[shard] for shard in self._ran}

    def save(self, version: Version, changed: Iterable[str]) -> None:
        """Note it for the next run, but for shards in which recordings changed under this one; only
        while holding OUT's lock."""
        unsettled = set(changed)
        told: dict[str, Any] = {
            "format": FORMAT,
            "shards": {
                shard: {"key": self._keys[shard], "items": self._items[shard]}
                for shard in self._shards
                if shard not in unsettled
                and self._items.get(shard, {}).keys() == set(stage.PER_SHARD)
            },
        }
        if not unsettled:
            told["version"] = {
                "key": self._version_key(), "number": version.number, "clips": version.clips,
                "summary": version.summary, "balance": version.balance,
            }  # fmt: skip
        if told != self._noted:
            whole = {**told, "sha256": _digest(told)}
            write_atomic(_path(self._job.out), json.dumps(whole, sort_keys=True).encode())

    def _now(self) -> dict[str, str]:
        found = _guards(self._job.out)
        return {shard: _digest(self._settings, found.get(shard, [])) for shard in self._shards}

    def _version_key(self) -> str:
        newest = versions.newest(self._job.out)
        described = versions.described(newest) if newest else {}
        package = self._job.package
        formats = [plugins.load("formats", plugin.use).VERSION for plugin in package.formats]
        return _digest(
            [self._keys[shard] for shard in self._shards], package.model_dump(mode="json"),
            formats, self._lists,
            [source.model_dump(mode="json") for source in self._job.sources],
            datacard.settings(self._job),
            newest.name if newest else None, described.get(datacard.SEAL),
        )  # fmt: skip


def _path(out: Path) -> Path:
    return out / "manifests" / "package" / "settled.json"


def _read(out: Path) -> dict[str, Any]:
    try:
        noted: dict[str, Any] = json.loads(storage.read(_path(out)))
    except (OSError, ValueError):
        noted = {}
    if not isinstance(noted, dict) or noted.pop("sha256", None) != _digest(noted):
        return {"shards": {}}
    return noted if noted["format"] == FORMAT else {"shards": {}}


def _guards(out: Path) -> Guards:
    """Of each shard's manifests and blobs what changes when one is written, cut or replaced."""
    found: Guards = {}
    for root in (*(f"manifests/{name}" for name in STAGES), "audio"):
        for name, mark in _files(out / root):
            found.setdefault(name.split("/", 1)[0], []).append((f"{root}/{name}", mark))
    for files in found.values():
        files.sort()
    return found


def _files(root: Path) -> Iterator[tuple[str, str]]:
    """`<shard>/<file>` and its guard, of all files of all shards."""
    if storage.is_remote(root):
        for name, seen in storage.under(*storage.files_in(root)).items():
            yield name, seen.mark
        return
    for folder in _scanned(root):
        if folder.is_dir():
            for entry in _scanned(folder.path):
                with suppress(FileNotFoundError):  # a temporary file of a worker that is late
                    yield (
                        f"{folder.name}/{entry.name}",
                        stat_guard(entry.stat(follow_symlinks=False)),
                    )


def _scanned(folder: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except FileNotFoundError:
        return []


@cache
def _code() -> str:
    """Hash of this package's source: another release, or a developer's change, decides anew."""
    home = Path(__file__).parents[1]
    sha = hashlib.sha256()
    for path in sorted(home.rglob("*.py")):
        sha.update(f"{path.relative_to(home)}\0".encode() + path.read_bytes())
    return sha.hexdigest()


def _plugins(job: Job) -> list[str]:
    """Hashes of plug-ins that are not this package's, with the files that lie beside them."""
    chosen = {
        "segmenters": (job.filter.segmenter,), "filters": job.filter.filters,
        "resamplers": (job.resample.resampler,), "levels": job.resample.levels,
        "asr": (job.transcribe.backend,), "text": job.transcribe.verdicts,
        "formats": job.package.formats,
    }  # fmt: skip
    pairs = ((shelf, plugin.use) for shelf, some in chosen.items() for plugin in some)
    modules = {plugins.load(shelf, use).__file__ or "" for shelf, use in pairs if "." in use}
    homes = {Path(file).parent for file in modules - {""}}
    files = sorted(path for home in homes for path in home.glob("*.py"))
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
