"""OUT/runs/<id>/prefect.json: the flow run of a run, its process, and whether Prefect has recorded
all of it. Knows no Prefect: a run with nothing to do reads it."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from tasks import storage

NOTE = "prefect.json"
LAST_RUNS = 50  # of an OUT that are checked for records they left open


def write(place: Path, flow_run: str, owner: str, recorded: bool = False) -> None:
    note = {"flow_run": flow_run, "owner": owner, "recorded": recorded}
    storage.write_atomic(place / NOTE, json.dumps(note).encode())


def close(place: Path) -> None:
    """Note that Prefect knows how the run in this folder ended."""
    with suppress(OSError, ValueError, KeyError):  # without it, the next run looks after the record
        note = storage.read_json(place / NOTE)
        write(place, note["flow_run"], note["owner"], recorded=True)


def is_open(place: Path) -> bool:
    """Whether Prefect may still believe that the run in this folder is going on."""
    try:
        return not storage.read_json(place / NOTE).get("recorded")
    except (OSError, ValueError):  # it never had a flow run
        return False


def last(out: Path) -> dict[str, str]:
    """The last flow runs of OUT, newest first, with the process of each (of its last try)."""
    names = storage.of(out).tree(out / "runs")
    found: dict[str, str] = {}
    for name in [name for name in names if name.endswith(f"/{NOTE}")][: -LAST_RUNS - 1 : -1]:
        with suppress(OSError, ValueError, KeyError):  # a folder that is being removed
            note = storage.read_json(out / "runs" / name)
            found.setdefault(note["flow_run"], note["owner"])
    return found
