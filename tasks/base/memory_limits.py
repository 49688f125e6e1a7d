"""How much memory this process may use, and how many processes the kernel killed for lack of it.
Slurm's `--mem`, systemd's `MemoryMax` and containers put it into a control group; the limits of all
groups up to the root apply, so all are read, in v1 and v2."""

from __future__ import annotations

import os
import re
import resource
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

ROOT = Path("/")
#: Files with a limit in bytes. No limit: `max` in v2, a number beyond all memory in v1.
FILES = {"cgroup": ("memory.limit_in_bytes",), "cgroup2": ("memory.max", "memory.high")}
#: Files that count processes killed for lack of memory.
KILLS = {"cgroup": "memory.oom_control", "cgroup2": "memory.events"}


class Limit(NamedTuple):
    bytes: int
    source: str  # in words


class Group(NamedTuple):
    """A control group for memory. `folder` holds its files; `name` is as in /proc/self/cgroup."""

    kind: str  # cgroup, cgroup2: the file system's type
    folder: Path
    name: str


def of_run(root: Path = ROOT) -> Limit:
    """The lowest limit on all processes of this group together. `root`: of the file system."""
    limits = [Limit(psutil.virtual_memory().total, "the machine's memory")]
    for kind, folder, name in groups(root):
        for file in FILES[kind]:
            text = next(iter(_lines(folder / file)), "")
            if text.isdecimal():
                limits.append(Limit(int(text), f"{file} of the cgroup {name}"))
        if kind == "cgroup":  # includes groups above the mount, as in a container
            size = _named(folder / "memory.stat", "hierarchical_memory_limit")
            if size is not None:
                limits.append(Limit(size, f"the memory limit above the cgroup {name}"))
    if (size := of_process(resource.RLIMIT_RSS)) is not None:  # no kernel enforces it
        limits.append(Limit(size, "ulimit -m"))
    return min(limits)


def of_process(kind: int) -> int | None:
    """A limit on each single process, bytes, by its number in `resource`; None: unlimited."""
    soft = resource.getrlimit(kind)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def kills(root: Path = ROOT) -> int:
    """Processes that the kernel has killed for lack of memory, in this process's groups and, where
    it counts them, on the machine. Only differences between two calls mean something."""
    files = [group.folder / KILLS[group.kind] for group in groups(root)]
    return sum(_named(path, "oom_kill") or 0 for path in (*files, root / "proc/vmstat"))


def groups(root: Path = ROOT) -> list[Group]:
    """The process's memory groups, each from the leaf up to the top that is mounted."""
    result: list[Group] = []
    named = _names(root)
    for kind, (top, place) in _mounts(root).items():
        if (name := named.get(kind)) is None:
            continue
        inside = os.path.relpath(name, top)
        # A group beside or above the mounted one is invisible: the nearest visible one is the top.
        parts = () if ".." in (*Path(top).parts, *Path(inside).parts) else Path(inside).parts
        for length in range(len(parts), -1, -1):
            below = Path(*parts[:length])
            result.append(Group(kind, root / place.lstrip("/") / below, str(Path(top) / below)))
    return result


def _names(root: Path) -> dict[str, str]:
    """The process's group by kind: lines are `number:controllers:name`."""
    names: dict[str, str] = {}
    for line in _lines(root / "proc/self/cgroup"):
        number, controllers, name = line.split(":", 2)
        if number == "0" and not controllers:
            names["cgroup2"] = name
        elif "memory" in controllers.split(","):
            names["cgroup"] = name
    return names


def _mounts(root: Path) -> dict[str, tuple[str, str]]:
    """By kind: which group is mounted, and where. Of several mounts the last one counts."""
    mounts: dict[str, tuple[str, str]] = {}
    for line in _lines(root / "proc/self/mountinfo"):
        mount, _, file_system = line.partition(" - ")
        kind, _, options = file_system.split(" ", 2)
        if kind == "cgroup2" or (kind == "cgroup" and "memory" in re.split("[, ]", options)):
            top, place = (  # a space is \040
                re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), path)
                for path in mount.split(" ")[3:5]
            )
            mounts[kind] = top, place
    return mounts


def _named(path: Path, name: str) -> int | None:
    """The number after a name at the start of a line."""
    for line in _lines(path):
        first, _, rest = line.partition(" ")
        if first == name and rest.isdecimal():
            return int(rest)
    return None


def _lines(path: Path) -> list[str]:
    with suppress(OSError):  # no Linux, no such group, or a file that this kernel lacks
        return path.read_text(errors="replace").splitlines()
    return []
