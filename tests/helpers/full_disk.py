"""Fill a real disk, that of OUT or that of a run's scratch folder:
`unshare -rm python -m tests.helpers.full_disk SMALL TMP out|scratch` (test_laws.py)."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.helpers import corpus
from tests.helpers.own_mounts import mount, resize
from uttermill.tasks import pipeline
from uttermill.tasks.base.errors import MillError
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.runs.executor import Executor, Observer
from uttermill.tasks.storage import owners, versions

PAGES = (1, 2, 4, 6, 9, 13, 20, 30, 45)  # of 4 KiB; with the last one, all has room perhaps


def main(small: Path, tmp: Path, which: str) -> int:
    disk = tmp / "disk"
    mount(disk)
    home = disk if which == "out" else tmp
    common = None if which == "out" else disk / "scratch"
    wanted = corpus.content(small / "out/datasets/v0001")
    faults: list[str] = []
    full = 0
    for pages in PAGES:
        resize(disk, pages)
        job = corpus.job(small, out=home / f"out{pages}", common=common)
        try:
            with owners.naming(disk if which == "scratch" else tmp, job.out):
                pipeline.run(job, Executor(), Observer())
        except (OSError, MillError) as error:
            full += 1
            said = owners.sentence(error) if isinstance(error, OSError) else str(error)
            if os.strerror(errno.ENOSPC) not in said or f"no space left on {disk}" not in said:
                faults.append(f"{pages} pages: unclear: {error!r}")
        for version in versions.all_of(job.out):
            faults += [f"{pages} pages: {fault}" for fault in verify(version)]
        resize(disk, 10_000)
        published = pipeline.run(job, Executor(), Observer()).published
        if corpus.content(published.path) != wanted:
            faults.append(f"{pages} pages: other bytes after there was room")
        faults += [f"{pages} pages: left {path}" for path in corpus.temps(job.out)]
        subprocess.run(["rm", "-rf", str(job.out)], check=True)
    print(json.dumps({"full": full, "faults": faults}))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
