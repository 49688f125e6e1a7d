"""Lists sources and opens recordings, each in a process of its own, and tells its peak of memory.

`python -m tests.helpers.listed_apart` reads questions from its input, `{"kind": …}` or
`{"locator": …}`, one in a line, and prints an answer to each. It imports once, which takes a
second, and forks for each question.
"""

import json
import os
import signal
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.helpers import memory

ROOT = Path(__file__).parents[2]
#: What each answer needs, and no measure has in it.
MODULES = (
    "pyarrow.parquet",
    "uttermill.tasks.plugins",
    "uttermill.tasks.recording.container",
    "uttermill.tasks.stages.listing",
)
LONGEST = 120  # s; an answer
LIMIT = 3 << 30  # of address space: what is not refused ends the process, not the machine
Told = Callable[[dict[str, Any]], dict[str, Any]]


@contextmanager
def telling() -> Iterator[Told]:
    """What answers questions, meanwhile."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.helpers.listed_apart"],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin
        assert process.stdout
        asks, answers = process.stdin, process.stdout

        def told(asked: dict[str, Any]) -> dict[str, Any]:
            print(json.dumps(asked), file=asks, flush=True)
            found: dict[str, Any] = json.loads(answers.readline())
            assert "fault" not in found, found["fault"]
            return found

        yield told


def listed(asked: dict[str, Any]) -> dict[str, Any]:
    from uttermill.tasks.base.errors import ConfigError
    from uttermill.tasks.plugins import resolve_source
    from uttermill.tasks.settings import Source
    from uttermill.tasks.stages.listing import entries
    from uttermill.tasks.stages.listing.skipped import SkippedEntries

    rows: Counter[str] = Counter()
    details: list[str] = []
    before = memory.peak()
    try:
        source, chosen = resolve_source(Source(**asked))
        for batch in entries.batches("x", chosen, source.recordings(chosen), SkippedEntries()):
            codes = batch.rows["error_code"].to_pylist()
            rows.update(code or "good" for code in codes)
            details += [d for d in batch.rows["error_detail"].to_pylist() if d]
    except ConfigError as error:
        details.append(str(error))
    return {"rows": rows, "details": details[:1] + details[-1:], "took": memory.peak() - before}


def read(asked: dict[str, Any]) -> dict[str, Any]:
    from uttermill.tasks.base.errors import ItemError
    from uttermill.tasks.recording import Locator
    from uttermill.tasks.recording.container import as_file

    before, size, detail = memory.peak(), 0, ""
    try:
        with as_file(Locator(**asked)) as file:
            while block := file.read(1 << 20):
                size += len(block)
    except ItemError as error:
        detail = error.detail
    return {"size": size, "detail": detail, "took": memory.peak() - before}


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """In this process, which may be killed for want of memory."""
    memory.limit(LIMIT)
    return read(asked["locator"]) if "locator" in asked else listed(asked)


def answer_in_a_fork(asked: dict[str, Any]) -> str:
    """One line: an answer, or the fault of a process that gave none."""
    receiver, sender = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(LONGEST)
        try:
            told = json.dumps(answer(asked))
        except BaseException:
            told = json.dumps({"fault": traceback.format_exc()})
        with open(sender, "w") as pipe:
            pipe.write(told)
        os._exit(0)
    os.close(sender)
    with open(receiver) as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    return told or json.dumps({"fault": f"its process ended with status {status}"})


if __name__ == "__main__":
    for name in MODULES:
        import_module(name)
    for line in sys.stdin:
        print(answer_in_a_fork(json.loads(line)), flush=True)
