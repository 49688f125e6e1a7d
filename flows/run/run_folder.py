"""The folders of runs, OUT/runs/<id>/: settings.json, run.log, and summary.json or error.json.

Whatever depends on the clock or the machine is kept there and never in a dataset. A run also has a
scratch folder in TMPDIR, which the next run removes if this one is killed.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from ...tasks import storage
from ...tasks.base import masking
from ...tasks.base.errors import ConfigError, MillError
from ...tasks.base.json_types import JsonObject
from ...tasks.base.logs import log, sent_to
from ...tasks.plugins import trusted
from ...tasks.settings.job import Job
from ...tasks.storage import owners, write_atomic
from ...tasks.storage.temporary import scratch as scratch
from ..settings import PrepareSettings, parse
from . import SETTINGS as SETTINGS
from . import SUMMARY as SUMMARY
from . import prometheus

ESTIMATE_SETTINGS = "estimate-settings.json"  # in the folder of an estimate, instead of SETTINGS
ERROR = "error.json"  # in the folder of a run that has failed, instead of SUMMARY
_NUMBERED = re.compile(r"r([0-9]{6,9})-")
PREFECT_NOTE = "prefect.json"
LAST_FLOW_RUNS = 50  # of an OUT, checked for records left open


class RunLog(logging.StreamHandler[TextIO]):
    """A log that, on a full disk, neither fails the run nor prints tracebacks: other writes do."""

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handleError(record)


class Run:
    """A run's local `folder`, and the `place` where its files are found later: the same, unless OUT
    is remote."""

    def __init__(self, folder: Path, place: Path) -> None:
        self.folder, self.place = folder, place
        self.is_away = False  # the store that holds OUT

    def finish(self, result: JsonObject) -> None:
        write_atomic(self.folder / SUMMARY, json.dumps(result, indent=1).encode())

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Inside, an error is written to the run's folder: a run with neither summary nor error was
        killed."""
        try:
            yield
        except BaseException as error:
            record = {"error": masking.sentence(f"{error}" or type(error).__name__)}
            with suppress(OSError):  # of a full disk, which may be the error
                write_atomic(self.folder / ERROR, json.dumps(record).encode())
            out = self.place.parent.parent
            if isinstance(error, storage.Away) and error.is_of(out):
                self.is_away = True
            else:
                prometheus.write_failure(self.place.parent)
            raise


@contextmanager
def record(out: Path, settings: PrepareSettings, name: str = SETTINGS) -> Iterator[Run]:
    """Make the run's folder, write its settings to the file `name`, and its log to run.log. Only
    folders with the default name count as runs. Call it while holding OUT's lock."""
    # `r000012-20261126T020000.000000Z`: runs are ordered by their number, because a clock that was
    # ahead once would stay the newest for ever. The time is for people.
    last = max((order(folder.name)[0] for folder in folders(out)), default=0)
    place = out / "runs" / f"r{last + 1:06d}-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    kept = settings.rooted().model_dump_json(indent=1).encode()
    store = storage.store_of(out)
    for temp in [*store.temporaries(out / "runs")]:  # of a killed run: this one holds OUT's lock
        store.remove(temp)
    write_atomic(place / name, kept)
    with ExitStack() as uploading:
        folder = store.mounted(place)
        if folder is None:
            folder = uploading.enter_context(scratch()) / place.name
            write_atomic(folder / name, kept)
        run = Run(folder, place)
        if folder != place:
            uploading.callback(_upload, run)
        file = uploading.enter_context((folder / "run.log").open("x", encoding="utf-8"))
        with sent_to(RunLog(file), "%(asctime)s %(levelname)s %(message)s"):
            yield run


def placed(job: Job, scratch: Path, local: bool) -> Job:
    """The job with this scratch folder. If not all workers are `local`, they share a folder in OUT:
    other machines do not see this disk."""
    seen = scratch / "listing" if local else job.listing / scratch.name
    return replace(job, scratch=scratch, common=seen)


def order(name: str) -> tuple[int, str]:
    """Sorts names of run folders, oldest first. Those of earlier releases have a time only."""
    numbered = _NUMBERED.match(name)
    return int(numbered[1]) if numbered else 0, name


def _upload(run: Run) -> None:
    folder, place = run.folder, run.place
    if run.is_away:
        log.warning("the log of the run is not in %s, because its store is away", place)
        return
    try:
        with storage.store_of(place).writing(place) as home:
            shutil.copytree(folder, home, dirs_exist_ok=True)
    except (MillError, OSError) as error:
        log.warning("the log of the run is not in %s: %s", place, owners.words(error, folder))


def newest(out: Path, ended_well: bool = False) -> Path:
    """Folder of OUT's newest run; with `ended_well`, of the newest such run if there is one."""
    last = next(having(out, SETTINGS), None)
    if last is None:
        if next(having(out, ESTIMATE_SETTINGS), None) is not None:
            raise ConfigError(
                f"{out} holds an estimate and no run yet; `uttermill run` with the same settings "
                "continues from there"
            )
        raise ConfigError(f"{out} holds no run; give the OUT of a run")
    good = (path for path in having(out, SETTINGS) if storage.exists(path / SUMMARY))
    return next(good, last) if ended_well else last


def was_killed(out: Path) -> bool:
    """Whether OUT's newest run ended without a trace, as after `kill -9`, or before Prefect had
    recorded its end."""
    last = next(having(out, SETTINGS), None)
    if last is None:
        return False
    if not any(storage.exists(last / name) for name in (SUMMARY, ERROR)):
        return True
    try:
        return not storage.read_json(last / PREFECT_NOTE).get("recorded")
    except (OSError, ValueError):  # it never had a flow run
        return False


def having(out: Path, name: str) -> Iterator[Path]:
    """Folders of runs that hold the file `name`, newest first."""
    return (folder for folder in folders(out) if storage.exists(folder / name))


def folders(out: Path) -> list[Path]:
    home = out / "runs"
    names = sorted(storage.store_of(out).folders(home), key=order, reverse=True)
    return [home / name for name in names]


def settings_of(out: Path, ended_well: bool = False) -> PrepareSettings:
    """Settings of the newest run of OUT; ConfigError if this release cannot read them."""
    return _settings_in(newest(out, ended_well) / SETTINGS, out)


def known_settings(out: Path, ended_well: bool = False) -> PrepareSettings | None:
    """None without a run, if this release cannot read its settings, or if they name a plug-in that
    nobody trusts, which is logged."""
    return _known(lambda: settings_of(out, ended_well))


def estimated_settings(out: Path) -> PrepareSettings | None:
    last = next(having(out, ESTIMATE_SETTINGS), None)
    return _known(lambda: _settings_in(last / ESTIMATE_SETTINGS, out)) if last else None


def _known(settings: Callable[[], PrepareSettings]) -> PrepareSettings | None:
    try:
        return settings()
    except ConfigError as error:
        if isinstance(error, trusted.Untrusted):
            log.warning("%s", error)
        return None


def json_in(path: Path) -> JsonObject:
    """A file of a run that holds a JSON object; ConfigError if it is damaged or gone."""
    try:
        data = storage.read_json(path)
    except FileNotFoundError:
        raise ConfigError(f"{path} was removed meanwhile; run the command again") from None
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise ConfigError(f"{path} is damaged: it holds no JSON object; run again")
    return data


def _settings_in(path: Path, out: Path) -> PrepareSettings:
    data = {**json_in(path), "out": str(out)}  # OUT may have been moved
    trusted.check_settings(data, path)
    try:
        return parse(data)
    except ConfigError as error:
        raise ConfigError(f"{path} has settings that this release does not take: {error}") from None


def write_prefect_note(place: Path, flow_run: str, recorded: bool = False) -> None:
    """`recorded`: whether Prefect knows its end, or is told now."""
    note = {"flow_run": flow_run, "recorded": recorded}
    storage.write_atomic(place / PREFECT_NOTE, json.dumps(note).encode())


def close_prefect_note(place: Path) -> None:
    with suppress(OSError, ValueError, KeyError):  # without it, the next run closes the record
        note = storage.read_json(place / PREFECT_NOTE)
        write_prefect_note(place, note["flow_run"], recorded=True)


def last_flow_runs(out: Path) -> dict[str, bool]:
    """The last flow runs of OUT, newest first, and whether the last try of each is `recorded`."""
    names = storage.store_of(out).tree(out / "runs")
    notes = [name for name in names if name.endswith(f"/{PREFECT_NOTE}")]
    noted: dict[str, bool] = {}
    for name in reversed(notes[-LAST_FLOW_RUNS:]):
        with suppress(OSError, ValueError, KeyError):  # a folder that is being removed
            note = storage.read_json(out / "runs" / name)
            noted.setdefault(note["flow_run"], bool(note.get("recorded")))
    return noted
