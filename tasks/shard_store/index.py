"""The index of an OUT: which checkpoints exist, and the last run's notes about them.

    OUT/manifests/index.json    files: every committed file, so that a missing one is noticed
                                shards, version: complete shards and the version, with their keys
                                code: hash of the release and libraries that checked the shards
                                settings: hash of the settings under which they are complete

A damaged file is found by the hash in its name; the index finds a deleted one. It only saves work
and reports losses, never changes results: without it, every item is looked up in the manifests.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from .. import storage
from ..base.counting import counted
from ..base.errors import CorruptManifest
from ..base.json_types import JsonObject
from ..base.logs import log
from ..storage import versions
from ..storage.local import is_temporary
from ..storage.versions import STAGES
from . import manifest
from .recipe import digest

ROOTS = (*(f"manifests/{name}" for name in STAGES), "audio")
LISTINGS = "manifests/shard"  # of recordings, without which no other checkpoint is read
NAMED = 5  # files listed in a message
OF_A_REQUEST = 1000  # objects in one answer of an object store's listing

Notes = JsonObject  # on one shard or the version: `key`, and the facts that are valid for it


class Index:
    """The committed files of an OUT at the last listing, and the last run's notes.

    Notes may be written only while holding OUT's lock.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self._noted = _read(out)
        self.refresh()

    def refresh(self) -> None:
        self.files: dict[str, str] = {}  # guard of each file, by its name relative to OUT
        self.temporaries: list[str] = []  # files that were being written when a run died
        self.foreign: set[str] = set()  # links, and files that no run writes
        self._list(ROOTS)

    def look(self, shards: Collection[str], roots: Sequence[str] = ROOTS) -> None:
        """List the files of some shards again, below these roots."""
        homes = [f"{root}/{shard}" for shard in sorted(shards) for root in roots]
        if storage.store_of(self.out).remote and len(homes) > len(self.files) / OF_A_REQUEST:
            homes = [*roots]  # fewer requests than one for each folder
        below = set(homes)
        self.files = {
            name: guard
            for name, guard in self.files.items()
            if (home := name.rpartition("/")[0]) not in below
            and home.rpartition("/")[0] not in below
        }
        self._list(homes)

    def _list(self, homes: Iterable[str]) -> None:
        store = storage.store_of(self.out)
        for home in homes:
            for name, guard in store.guards(self.out / home):
                if manifest.OWN.fullmatch(whole := f"{home}/{name}") and guard:
                    self.files[whole] = guard
                elif is_temporary(name):
                    self.temporaries.append(whole)
                else:
                    self.foreign.add(whole)

    def guards(self) -> dict[str, list[tuple[str, str]]]:
        """(name, guard) of the files of each shard, sorted; a guard changes if its file does."""
        by_shard: dict[str, list[tuple[str, str]]] = {}
        for name in sorted(self.files):
            by_shard.setdefault(name.split("/")[-2], []).append((name, self.files[name]))
        return by_shard

    def gone(self) -> list[str]:
        """Files that the last run noted and that are missing, sorted, except those whose rows or
        PCM are in another file, because a kill came before that was noted."""
        gone = filter(manifest.OWN.fullmatch, sorted({*self._noted["files"]} - self.files.keys()))
        return [name for name in gone if not manifest.replaced(self.out, name)]

    def repair(self, out: Path, fault: CorruptManifest) -> None:
        """`manifest.repair`; the removed file is no longer in `files`."""
        if manifest.repair(out, fault):
            self.files.pop(fault.path.removeprefix(f"{out}/"), None)

    def warn_of_foreign(self) -> None:
        if self.foreign:
            sentence = "%s: not written by uttermill, so not read, and left where it lies"
            log.warning(sentence, named(sorted(self.foreign)))

    def gone_in_words(self) -> list[str]:
        """What is gone of the last run's checkpoints and of its version."""
        words, newest = list[str](), versions.newest(self.out)
        if gone := self.gone():
            files = counted(len(gone), "checkpoint file is", "checkpoint files are")
            words.append(f"{files} gone since the last run ({named(gone)})")
        elif newest and not any(name.startswith(LISTINGS) for name in self.files):
            words.append(f"all checkpoints of {newest} are gone")
        number = (self._noted.get("version") or {}).get("number", 0)
        if number > (versions.number(newest) if newest else 0):
            words.append(f"{versions.numbered(self.out, number)} is gone, which was the newest")
        return words

    def warn_of_gone(self) -> None:
        for words in self.gone_in_words():
            log.warning("%s; what was in there is made again", words)

    def noted_shards(self, keys: Mapping[str, str], code: str | None) -> dict[str, dict[str, int]]:
        """Items of each stage of the shards that are noted under these keys and this `code` (None:
        any)."""
        if code not in (None, self._noted.get("code")):
            return {}
        notes, shards = self._noted["shards"], keys.keys() & self._noted["shards"].keys()
        return {name: notes[name]["items"] for name in shards if notes[name]["key"] == keys[name]}

    @property
    def settings(self) -> str | None:
        """Hash of the settings under which the noted shards are complete."""
        settings: str | None = self._noted.get("settings")
        return settings

    def noted_version(self, key: str) -> Notes | None:
        """The note about the newest version under this key."""
        note: Notes | None = self._noted.get("version")
        return note if note and note["key"] == key else None

    def note_files(self) -> None:
        self._write({**self._noted, "files": sorted(self.files)})

    def note(
        self, shards: Mapping[str, Notes], code: str, settings: str, version: Notes | None
    ) -> None:
        """Write the list of files, and the shards and the version that are complete while their
        keys stay the same. `code`, `settings`: hashes of those that checked them."""
        noted = {"files": sorted(self.files), "shards": dict(shards), "code": code}
        noted["settings"] = settings
        self._write(noted | ({"version": version} if version else {}))

    def forget(self, names: Iterable[str]) -> None:
        """Drop files from the index before deleting them, so that a kill in between reports no
        loss."""
        noted = set(self._noted["files"])
        remaining = noted.difference(names)
        if remaining != noted:
            self._write({**self._noted, "files": sorted(remaining)})

    def _write(self, noted: Notes) -> None:
        if noted == self._noted:
            return
        data = json.dumps({**noted, "sha256": digest(noted)}, sort_keys=True)
        storage.write_atomic(_path(self.out), data.encode())
        self._noted = noted


def named(files: Sequence[str]) -> str:
    """A text with the first files and the number of others."""
    more = f" and {len(files) - NAMED} more" if len(files) > NAMED else ""
    return ", ".join(files[:NAMED]) + more


def is_there(out: Path) -> bool:
    """Whether this OUT has an index, that is, whether a run has worked in it."""
    return storage.exists(_path(out))


def _path(out: Path) -> Path:
    return out / "manifests" / "index.json"


def _read(out: Path) -> Notes:
    """The stored notes; empty ones if there are none, or if they are damaged."""
    try:
        noted = storage.read_json(_path(out))
    except (OSError, ValueError):
        noted = {}
    sound = isinstance(noted, dict) and noted.pop("sha256", None) == digest(noted)
    return noted if sound else {"files": [], "shards": {}}


# Differences between a run's workers that may change data, if `cluster.mixed` allows them. They are
# stored with OUT's checkpoints, and every version made from these lists them.


def note_mixed(out: Path, differences: Iterable[str]) -> None:
    before = mixed(out)
    if {*differences} - {*before}:
        data = json.dumps(sorted({*before, *differences})).encode()
        storage.write_atomic(out / "manifests" / "mixed.json", data)


def mixed(out: Path) -> list[str]:
    """All recorded differences, sorted; empty if all workers have been alike."""
    place = out / "manifests" / "mixed.json"
    return list(storage.read_json(place)) if storage.exists(place) else []
