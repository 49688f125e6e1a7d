"""Where a test stops or kills a process of a run: files in the folder that UTTERMILL_GATE names.

    <stage>-<seconds>.kill   the first process that passes removes it and kills itself with -9
    <stage>-<seconds>.hold   whoever passes writes `<stage>-<seconds>.held` and waits until the
                             file is gone
    <stage>.hold             so does each item of the stage
    trace                    whoever passes adds the line `<stage> <its pid>`
    pace                     holds the seconds that whoever passes sleeps

`seconds` is the length of the clip at hand. Without such files the wrapped plug-ins `gated_*` are
the real ones, so that a quiet run and a disturbed one have equal settings.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

VARIABLE = "UTTERMILL_GATE"
TRACE, PACE = "trace", "pace"


def name(stage: str, seconds: float) -> str:
    return f"{stage}-{seconds:.1f}"


def wait(stage: str, seconds: float) -> None:
    folder = Path(os.environ[VARIABLE])
    with suppress(FileNotFoundError):  # one short write at the end of a file is never torn
        trace = os.open(folder / TRACE, os.O_WRONLY | os.O_APPEND)
        os.write(trace, f"{stage} {os.getpid()}\n".encode())
        os.close(trace)
    with suppress(FileNotFoundError):
        time.sleep(float((folder / PACE).read_text()))
    try:
        (folder / f"{name(stage, seconds)}.kill").unlink()
    except FileNotFoundError:
        pass
    else:
        os.kill(os.getpid(), signal.SIGKILL)
    for held in (name(stage, seconds), stage):
        hold = folder / f"{held}.hold"
        if hold.exists():
            (folder / f"{held}.held").touch()
            while hold.exists():
                time.sleep(0.02)
