"""Preload of every worker: imports all libraries before the first task, or refuses to start.

Dask imports this module (`worker.preload: [uttermill.tasks.preload]`) before the worker joins the
scheduler. The checks are at module level because an exception here prevents the start, while one in
`dask_setup` would only be logged. Like the command line, this module is the start of a process: it
may set the process's signal handlers.

`import librosa` loads nothing, and `librosa.core.audio` may put lazy proxies of samplerate and
resampy into `sys.modules`; before Python 3.13, two threads that use such a proxy at the same time
break it. So engines are imported first, used once, and checked to be real modules: those that the
run's settings may need, or all if the settings are unknown. Importing the others would take most of
a short run.
"""

from __future__ import annotations

import faulthandler
import logging
import multiprocessing
import shutil
import signal
import sys
import tempfile
import time
import types
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

from .base import environment
from .base.errors import RunError
from .base.process_memory import importing, without_pandas
from .runs import libraries
from .stages.spawn_check import OF_WORKER, command_line, die_first, die_with_parent, started_afresh


def warm(modules: dict[str, str]) -> tuple[str, ...]:
    """Import modules and read their attributes; RunError for a missing one, or a lazy proxy."""
    for name, attribute in modules.items():
        try:
            getattr(import_module(name), attribute)
        except (ImportError, AttributeError, OSError) as error:
            raise RunError(
                f"this worker lacks {name} ({error}); install uttermill with its dependencies "
                f"into {sys.executable}"
            ) from error
        if type(sys.modules[name]) is not types.ModuleType:
            raise RunError(
                f"{name} is a lazy proxy; preload uttermill.tasks.preload before anything else"
            )
    return tuple(modules)


def agree(expected: str | None, installed: str) -> None:
    """RunError if the client that started this worker runs another version."""
    if expected is not None and expected != installed:
        raise RunError(
            f"this worker has uttermill {installed} and the client {expected}; "
            f"install {expected} here"
        )


#: The GPUs visible to this worker, as its nanny set them before the imports below.
VISIBLE = environment.visible_gpus()

if not started_afresh(command_line()):
    raise RunError(
        "this process was forked or is not a Dask worker; set "
        "distributed.worker.multiprocessing-method to spawn"
    )
die_with_parent()
die_first(OF_WORKER)
environment.check_current_folder(prefect=False)
if (encoding := sys.getfilesystemencoding()) != "utf-8":  # which would change ids
    raise RunError(
        f"this worker reads names of files as {encoding}; start it with PYTHONUTF8=1 in its "
        "environment"
    )
agree(environment.client_version(), version("uttermill"))
# Ctrl-C and TERM reach the whole process group, but the client decides when its workers end, or the
# nanny (`flows.cluster.leaving`): the worker of a preempted node first finishes its call.
signal.signal(signal.SIGINT, signal.SIG_IGN)
if multiprocessing.parent_process() is not None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

# Errors of calls reach the client, which reports them; Dask would also print them here.
logging.getLogger("distributed.worker").addFilter(
    lambda record: not str(record.msg).startswith("Compute Failed")
)

if environment.client_version() is None:  # started by others: its log says what died in an import
    faulthandler.enable()
with importing():
    without_pandas()
    MODULES = warm(libraries.of_worker(environment.engines()))
faulthandler.disable()
#: Unix time at the end of the imports above.
LOADED_AT = time.time()
#: Unix time of `dask_setup`, which Dask calls before the worker joins; None if it was not called.
READY_AT: float | None = None
#: Temporary directory of this worker, inside its directory.
TEMP: Path | None = None


class Worker(Protocol):
    """The part of Dask's worker that we use."""

    local_directory: str


def dask_setup(worker: Worker) -> None:
    """Give the worker its own temporary directory, which is removed with it."""
    global READY_AT, TEMP
    TEMP = Path(worker.local_directory) / "tmp"
    TEMP.mkdir(parents=True, exist_ok=True)
    environment.set_temporary_folder(TEMP)
    tempfile.tempdir = None  # forget the cached directory
    READY_AT = time.time()


def dask_teardown(worker: Worker) -> None:
    """Remove the temporary directory; after a kill, `Cluster.close` does."""
    if TEMP is not None:
        shutil.rmtree(TEMP, ignore_errors=True)
