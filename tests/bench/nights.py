"""A month of nights: what an OUT, its versions and Prefect's database grow to, and memory.

    python -m tests.bench.nights [--nights 30] [--json]

The real command (fake recogniser, workers that stay, one Prefect server) prepares a folder that
gets two recordings a night. One night the folder is empty, as a share that is not mounted, so the
run refuses; one night a file is cut short, and comes whole the night after. A line for each night:
exit code, seconds, clips, files in OUT and in its newest version, MB of OUT (files that versions
share count once), MB of Prefect's database, MB in the memory of its server and of the process of
the runs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.faults.command import Site
from tests.helpers import corpus
from tests.helpers.shared_cluster import serving

PER_NIGHT = 2
AWAY, CUT = 10, 20  # the nights with a fault
MB = 1e6


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.nights")
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    wrong = 0
    with (
        tempfile.TemporaryDirectory() as top,
        prefect(Path(top)) as (url, pid, database),
        serving(Path(top) / "scratch", workers=1) as cluster,
    ):
        site = Site(Path(top), url)
        chosen = site.settings("out", cluster=cluster)
        for night in range(1, options.nights + 1):
            code, line = one(site, chosen, night)
            line["database_mb"] = mb(database.parent.glob("prefect.db*"))
            line["server_mb"] = resident(pid)
            line["process_mb"] = resident(os.getpid())
            wrong += code != (1 if night == AWAY else 0)
            shown = json.dumps(line) if options.json else " | ".join(map(str, line.values()))
            if night == 1 and not options.json:
                print(" | ".join(line))
            print(shown, flush=True)
    return 1 if wrong else 0


def one(site: Site, chosen: Path, night: int) -> tuple[int, dict[str, float]]:
    """The run of a night: its exit code and numbers."""
    new = range(PER_NIGHT * night, PER_NIGHT * (night + 1))
    added = [corpus.add(site.source, number % 10, number, f"r{number:03d}.wav") for number in new]
    whole = added[0].read_bytes()
    if night == CUT:
        added[0].write_bytes(whole[: len(whole) // 2])
    if night == AWAY:
        site.source.rename(site.home / "away")
        site.source.mkdir()
    ended = site.run(chosen)
    if night == AWAY:
        site.source.rmdir()
        (site.home / "away").rename(site.source)
    added[0].write_bytes(whole)
    out = site.home / "out"
    files = [path for path in out.rglob("*") if path.is_file()]
    line = {
        "night": night,
        "exit": int(ended.code),
        "seconds": round(ended.seconds, 1),
        "clips": ended.result.get("utterances", {}).get("packaged", 0),
        "files": len(files),
        "version_files": len(corpus.content(out / "datasets/latest")),
        "out_mb": mb(iter(files)),
    }
    return int(ended.code), line


def mb(files: Iterator[Path]) -> float:
    """What they take, with linked ones once."""
    stats = {(s := path.stat()).st_ino: s.st_size for path in files if not path.is_symlink()}
    return round(sum(stats.values()) / MB, 2)


def resident(pid: int) -> float:
    return round(psutil.Process(pid).memory_info().rss / MB)


@contextmanager
def prefect(home: Path) -> Iterator[tuple[str, int, Path]]:
    """A server with a new database: its URL, process and file."""
    place = home / "prefect"
    os.environ["PREFECT_HOME"] = str(place)
    from uttermill.flows.server.server import LocalServer

    with LocalServer() as server:
        server.wait_ready()
        # The password that a client needs, and the token beside it, as `serve` gives them.
        os.environ["PREFECT_API_AUTH_STRING"] = server.auth
        os.environ["PREFECT_CLIENT_CSRF_SUPPORT_ENABLED"] = "true"
        yield server.url, server.pid, place / "prefect.db"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
