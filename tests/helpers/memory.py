"""Peak memory of this process alone. `ru_maxrss` is not a measure of it: Linux hands the peak of
the process that started this one down through `exec`, and pytest with a model loaded is large."""

import ctypes
import resource
from pathlib import Path


def peak() -> int:
    """Most resident memory since this process began, bytes."""
    return _size("VmHWM")


def peak_without_files() -> int:
    """`peak` without what is mapped of files now, bytes: of the same libraries the system maps some
    60 MB more or less, by how large the writes were that installed them."""
    return _size("VmHWM") - _size("RssFile")


def _size(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def begin_anew() -> None:
    """Let `peak` begin anew, without what was freed before: glibc keeps that, more or less of it
    by how its threads took turns."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def limit(more: int) -> None:
    """Let this process have so many bytes of address space beyond what it has."""
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + more, mapped + more))
