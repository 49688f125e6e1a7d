"""Keeps names that come from data inside their folder.

Anybody who writes into an OUT chooses the names in its manifests, lists and notes, and can put
links there, so only `inside` turns such a name into a place. OUT itself, and the folders in it, may
be links (`check`); below them only `datasets/latest` is one.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from ..base.errors import ConfigError, UnsafePlace
from . import regular

#: The folders that a run makes in its OUT.
OUT_FOLDERS = ("manifests", "audio", "datasets", "runs")
DECISIONS_FILE = "reviews.jsonl"  # of people, in OUT
LATEST = "latest"  # in datasets/: names the newest version
_STEP = re.compile(r"[^\x00-\x1f\x7f/\\]+")
_LONGEST, _LONGEST_STEP = 4096, 255  # bytes, the limits of file systems and object stores
_SHOWN = 80  # characters of a name in a message

#: What a run keeps directly in these folders of OUT.
_KEPT = {
    "manifests": r"shard|filter|resample|transcribe|package|layout|\.listing|index\.json"
    r"|mixed\.json",
    "manifests/package": r"facts|guards\.json",
    "audio": r"shard-[0-9]{6,}",
    "datasets": r"v[0-9]{4,}|latest|\.staging|\.pruned-[^/]+",
    "runs": r"(?:r[0-9]+-)?[0-9]{8}T[0-9.]+Z|\.pruned-[^/]+",
}
#: Those among them that are folders.
_FOLDER = re.compile(r"shard|filter|resample|transcribe|package|facts|v[0-9]{4,}")


def inside(home: Path, name: str) -> Path:
    """`home / name` for a name from data; UnsafePlace if it leads elsewhere, or over a link."""
    check_name(name)
    if isinstance(home, Path):
        text = os.fspath(home)
        for step in name.split("/"):
            text = f"{text}/{step}"
            if os.path.islink(text):
                raise UnsafePlace(
                    f"{text} is a link, but uttermill's own files belong there: remove it"
                )
    return home / name


def check_name(name: str) -> None:
    """UnsafePlace if a name leads out of its folder, or cannot be a file's name."""
    good = isinstance(name, str)
    for step in name.split("/") if good else ():
        try:
            size = len(step.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:
            size = 0
        named = bool(_STEP.fullmatch(step)) and step not in (".", "..")
        good = good and named and 0 < size <= _LONGEST_STEP
    if not good:
        raise UnsafePlace(f"the name {str(name)[:_SHOWN]!r} leads out of its folder")
    if len(os.fsencode(name)) > _LONGEST:
        raise UnsafePlace(f"the name {name[:_SHOWN]!r}… is too long for a file's")


def check(out: Path) -> None:
    """ConfigError if a command would follow a link out of an OUT, or to nothing, or if a file is
    where OUT has a folder. OUT's own folders may be links of the user or root to folders that hold
    only uttermill's files."""
    if not isinstance(out, Path):
        return
    for place in (*reversed(out.parents), out, *map(out.joinpath, OUT_FOLDERS)):
        if place.is_symlink() and not place.is_dir():
            raise ConfigError(
                f"{place} is a link to {os.readlink(place)}, and no folder is there; mount or make "
                "that folder, or remove the link"
            )
    for top in OUT_FOLDERS:
        link = out / top
        if not link.is_symlink():
            if link.is_file():
                raise _not_a_folder(link)
            continue
        if os.lstat(link).st_uid not in (os.geteuid(), 0):
            raise ConfigError(f"{link} is a link that another user made: replace it with a folder")
        names = (entry.name for entry in regular.entries(link))  # file managers leave hidden ones
        ours = re.compile(rf"{_KEPT[top]}|\..*|lost\+found", re.DOTALL)
        if stranger := next((name for name in names if not ours.fullmatch(name)), None):
            raise ConfigError(
                f"{link} is a link to a folder that holds {stranger!r}, which is not uttermill's: "
                "point it at an empty folder"
            )
    if (decisions := out / DECISIONS_FILE).is_symlink():
        raise ConfigError(f"{decisions} is a link: replace it with the file that it points to")
    for folder in ("manifests", "manifests/package", "datasets"):
        kept = _KEPT[folder]
        for entry in regular.entries(out / folder):
            if _FOLDER.fullmatch(entry.name) and entry.is_file():
                raise _not_a_folder(entry.path)
            if entry.is_symlink() and entry.name != LATEST and re.fullmatch(kept, entry.name):
                raise ConfigError(
                    f"{entry.path} is a link, but uttermill's own files belong there: remove it; "
                    f"to have them on another disk, make {out / folder.split('/')[0]} the link"
                )


def _not_a_folder(path: str | Path) -> ConfigError:
    return ConfigError(f"{path} is a file, where OUT has a folder; remove it")
