"""The layout of an OUT: one number for its files, and for the code that makes what is in them.

OUT/manifests/layout holds the number of the release that wrote OUT, and the last version that
another layout published; if it is lost, the newest version's dataset.json tells both.

Raise LAYOUT when a change to the code alters what a stage stores, how it is stored, or what is
published: decoding, cutting, resampling, scoring, columns, names. (A change to a plug-in raises its
VERSION instead.) A run on an OUT of another layout removes the checkpoints, and publishes as if
there were no versions yet; these stay. OUT may hold folders `manifests` and `audio` of others: only
what lies where runs store it is removed.
"""

from __future__ import annotations

import re
from pathlib import Path

from .. import storage
from ..base.errors import ConfigError
from ..base.logs import log
from ..base.schema import DATASET_FILE
from . import publication

LAYOUT = 2
NAME = "manifests/layout"
STAGES = ("shard", "filter", "resample", "transcribe")
WRITTEN = re.compile(r"(\d{1,9}) (\d{1,9})\n")
SHARD = re.compile(r"shard-\d{6,}")
#: What runs keep beside the shards' checkpoints.
OTHERS = ("manifests/package", "manifests/.listing")
FILES = ("manifests/index.json", "manifests/mixed.json")


def differs(out: Path) -> str:
    """How the layout of an OUT differs from this release's, in words; "" if it does not."""
    layout, _ = _written(out) or _published(out)
    if layout == LAYOUT or (layout is None and not _shards(out, "manifests/shard")):
        return ""
    return f"{out} has the layout of another release: {layout or 'none'}, not {LAYOUT}"


def refuse(out: Path) -> None:
    """ConfigError for an OUT of another layout; for commands that look at what runs stored."""
    if sentence := differs(out):
        raise ConfigError(f"{sentence}; `uttermill run` computes everything in it once again")


def foreign_versions(out: Path) -> int:
    """The number of the last version that another layout published; 0 if there is none."""
    return (_written(out) or _published(out))[1]


def begin(out: Path, newest: int) -> None:
    """Remove the checkpoints of another layout, and note this release's; `newest`: the number of
    the newest version, 0 without one. Only while holding OUT's lock."""
    sentence, foreign = differs(out), foreign_versions(out)
    if sentence:
        foreign = newest
        log.warning("%s; everything is computed once again", sentence)
        store = storage.store_of(out)
        for home in ("audio", *(f"manifests/{stage}" for stage in STAGES)):
            for name in _shards(out, home):
                store.clear(out / home / name)
        for name in OTHERS:
            store.clear(out / name)
        for name in FILES:
            if storage.exists(out / name):
                store.remove(out / name)
    if sentence or _written(out) is None:
        storage.write_atomic(out / NAME, f"{LAYOUT} {foreign}\n".encode())


def _shards(out: Path, home: str) -> list[str]:
    """Names of the folders of shards in a folder of OUT."""
    return [name for name in storage.store_of(out).folders(out / home) if SHARD.fullmatch(name)]


def _written(out: Path) -> tuple[int, int] | None:
    """Both numbers; None if the file is lost or damaged, or there is none yet."""
    try:
        numbers = WRITTEN.fullmatch(storage.read(out / NAME).decode(errors="replace"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return (int(numbers[1]), int(numbers[2])) if numbers else None


def _published(out: Path) -> tuple[int | None, int]:
    """Both numbers by the newest version; (None, 0) without one, or if it does not tell."""
    names = filter(publication.VERSION.fullmatch, storage.store_of(out).folders(out / "datasets"))
    for name in sorted(names, key=lambda name: int(name[1:]), reverse=True):
        try:
            described = storage.read_json(out / "datasets" / name / DATASET_FILE)
            layout = int(described["recipes"]["layout"])
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError):
            break
        return layout, 0 if layout == LAYOUT else int(name[1:])
    return None, 0
