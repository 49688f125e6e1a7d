"""Why a local Prefect server does not start, from what it printed, in words with a remedy.

The cause stands amid its traceback; the last line says only that it failed.
"""

from __future__ import annotations

import re
from pathlib import Path

from prefect import __version__
from prefect.settings import get_current_settings

from flows.machine import NO_THREAD, RAISE

#: What is printed, and what it means. Trying again changes none of these.
CAUSES = (
    (
        r"database or disk is full|No space left on device|Disk quota exceeded",
        "no space left for {database}: free some, or set PREFECT_HOME to another folder",
    ),
    (
        r"file is not a database|database disk image is malformed",
        "{database} is damaged: move it away, and a new one is made, without the old history",
    ),
    (
        r"Can't locate revision identified by",
        "{database} was last used by a release of Prefect newer than {version}, which is here: "
        "upgrade it, or set PREFECT_HOME to another folder",
    ),
    (
        r"attempt to write a readonly database|unable to open database file|disk I/O error"
        r"|locking protocol|Permission denied|Read-only file system|Not a directory|No locks avail"
        r"|Function not implemented|File exists: ",
        "Prefect's home, {home}, cannot be used ({line}): set PREFECT_HOME to a folder of yours on "
        "a local disk",
    ),
    (
        rf"{NO_THREAD}|Resource temporarily unavailable",
        f"this user may start no more threads or processes here: {RAISE}",
    ),
    (r"MemoryError|Cannot allocate memory", "no memory is left for it: give the run more"),
)
#: The last line of a traceback, which names the exception.
_RAISED = re.compile(r"^(?:[\w.]+\.)?\w*(?:Error|Exception|Exit|Interrupt)\b.*", re.MULTILINE)


def lasting(output: str) -> bool:
    """Whether it failed by what stays: another start would fail, too."""
    return _of(output) is not None


def told(output: str) -> str | None:
    """The cause and its remedy; else the last error that is named, else the last line; None if
    nothing was printed."""
    if (cause := _of(output)) is not None:
        return cause
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = _RAISED.findall(output)
    return errors[-1].strip() if errors else lines[-1] if lines else None


def _of(output: str) -> str | None:
    settings = get_current_settings()
    url = settings.server.database.connection_url
    kind, _, file = url.get_secret_value().partition(":///") if url else ("", "", "")
    if not kind.startswith("sqlite"):  # a server's own words about its disk
        return None
    names = {"database": f"Prefect's database {file}", "home": Path(settings.home)}
    raised = "\n".join(_RAISED.findall(output))
    for pattern, words in CAUSES:
        if match := re.search(f"^.*(?:{pattern}).*$", raised, re.MULTILINE):
            line = match[0].rpartition("Error: ")[2].rpartition("] ")[2]
            return words.format(**names, version=__version__, line=line)
    return None
