"""Lists a source, or opens a recording, in a process of its own, and tells its peak of memory.

`python -m tests.helpers.listed_apart '{"kind": …}'` prints one JSON object; so does
`{"locator": …}`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.helpers import memory

ROOT = Path(__file__).parents[2]
LIMIT = 3 << 30  # of address space: what is not refused ends the process, not the machine


def told(asked: dict[str, Any]) -> dict[str, Any]:
    """What a process of its own says; its standard error if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.helpers.listed_apart", json.dumps(asked)],
        cwd=ROOT, timeout=120, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def listed(asked: dict[str, Any]) -> dict[str, Any]:
    from tasks.base.errors import ConfigError
    from tasks.plugins import resolve_source
    from tasks.settings import Source
    from tasks.stages.listing import entries
    from tasks.stages.listing.skipped import SkippedEntries

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
    from tasks.base.errors import ItemError
    from tasks.recording import Locator
    from tasks.recording.container import as_file

    before, size, detail = memory.peak(), 0, ""
    try:
        with as_file(Locator(**asked)) as file:
            while block := file.read(1 << 20):
                size += len(block)
    except ItemError as error:
        detail = error.detail
    return {"size": size, "detail": detail, "took": memory.peak() - before}


if __name__ == "__main__":
    import pyarrow.parquet  # noqa: F401 - a part of no measure

    given = json.loads(sys.argv[1])
    memory.limit(LIMIT)
    print(json.dumps(read(given["locator"]) if "locator" in given else listed(given)))
