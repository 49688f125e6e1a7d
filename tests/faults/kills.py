"""Seeded kills with -9: who dies, in which stage, how far into it. One seed, one plan.

A plan is a list of chains. A chain is one OUT that suffers its kills one after the other, each
later in the line than the one before, so that each has work left to hit; then it has to end well.
"""

import os
import random
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.request import urlopen

import psutil
import pyarrow.parquet as pq
import soundfile as sf

from tests.faults.command import Site, Started, soon
from tests.plugins import gate

VICTIMS = ("worker", "workers", "run", "server")
STAGES = ("shard", "filter", "resample", "transcribe", "package", "publish")
ANY = "any"  # at any moment of a run, its start and its end too
MOMENTS = (ANY, *STAGES)
LONGEST = 5  # kills of one chain
MOST_ITEMS = 4  # of a stage that pass before the kill
SPREAD = 0.08  # s between an item and the kill: the pace of some items, and of a commit


@dataclass(frozen=True)
class Kill:
    victim: str
    moment: str
    items: int  # that pass the stage's gate first; `any` has none
    delay: float  # share of the time within which it strikes: the moment itself is random
    patient: bool  # whether the next run waits until all of the killed one is gone

    def __str__(self) -> str:
        return f"{self.victim} in {self.moment} (item {self.items}, {self.delay:.2f})"


def plan(count: int, seed: int) -> list[tuple[Kill, ...]]:
    """Chains with `count` kills in all; every 28 of them hit each victim at each moment."""
    dice = random.Random(seed)
    victims, moments = (dice.sample(names, len(names)) for names in (VICTIMS, MOMENTS))
    kills = [
        Kill(
            victims[number % len(victims)], moments[number % len(moments)],
            dice.randint(1, MOST_ITEMS), dice.random(), dice.random() < 0.5,
        )
        for number in range(count)
    ]  # fmt: skip
    dice.shuffle(kills)
    # A server of its own takes a run some seconds, so those that need one share their chains.
    kills.sort(key=lambda kill: kill.victim != "server")
    chains: list[tuple[Kill, ...]] = []
    while kills:
        chosen: list[Kill] = []
        for kill in list(kills):
            if len(chosen) < LONGEST and kill.moment not in {other.moment for other in chosen}:
                chosen.append(kill)
                kills.remove(kill)
        length = dice.choice((1, 3, 4, LONGEST))  # what is cut off goes back
        kills = chosen[length:] + kills
        chains.append(tuple(sorted(chosen[:length], key=lambda k: MOMENTS.index(k.moment))))
    return chains


@dataclass
class Tally:
    """What was really hit."""

    chains: int = 0  # that ended well
    hits: Counter[tuple[str, str]] = field(default_factory=Counter)  # victim and stage

    @property
    def kills(self) -> int:
        return sum(self.hits.values())

    def missed(self) -> list[str]:
        """Stages and victims that no kill has hit."""
        hit = {name for pair in self.hits for name in pair}
        return [name for name in (*STAGES, *VICTIMS) if name not in hit]


# The runs that are killed


#: Neither Prefect's server nor multiprocessing's tracker probes anything.
PROBED = """
import sys
words = " ".join(sys.orig_argv)
if ".server.door" not in words and "resource_tracker" not in words:
    import tests.plugins.gated_probe
"""


def gated_site(home: Path, api: str) -> Site:
    """A site of which every stage passes gates, also the one that has no plug-in to wrap."""
    site = Site(home, api)
    site.begin_with(PROBED)
    return site


def gated(site: Site, out: str, workers: int = 2) -> Path:
    """Settings of a run whose stages pass gates; see `tests.plugins.gate`."""
    return site.settings(
        out,
        shard={"settle_seconds": 0, "hours": 0.0013},  # twelve recordings in four shards
        filter={
            "segmenter": {"use": "whole"},
            "filters": [{"use": "tests.plugins.gated_filter"}, {"use": "silence"}],
        },
        resample={"resampler": {"use": "tests.plugins.gated_resampler"}},
        transcribe={"backend": {"use": "tests.plugins.gated_asr"}},
        package={"formats": ["tests.plugins.gated_wenet"]},
        cluster={"workers": workers, "cache_gb": 0},  # so that resampling is done in its own stage
    )


def with_own_server(site: Site) -> Site:
    """The same site for runs that start a Prefect server, on a database that is made already."""
    home = site.home / "prefect"
    home.mkdir()
    of_the_tests = Path(os.environ["PREFECT_HOME"]) / "prefect.db"
    with (
        closing(sqlite3.connect(of_the_tests)) as made,
        closing(sqlite3.connect(home / "prefect.db")) as copy,
    ):
        made.backup(copy)
    return replace(site, api="", environment={**site.environment, "PREFECT_HOME": str(home)})


def database(site: Site) -> Path:
    return Path(site.environment["PREFECT_HOME"]) / "prefect.db"


def end(processes: list[psutil.Process]) -> int:
    """-9 to each; how many there still were."""
    count = 0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
            count += 1
    return count


def server_of(run: Started) -> list[psutil.Process]:
    """The run's own Prefect server."""
    with suppress(psutil.Error):
        return [
            child for child in psutil.Process(run.pid).children()
            if any(word.endswith(".server.door") for word in child.cmdline())
        ]  # fmt: skip
    return []


def answers(server: psutil.Process) -> bool:
    """Whether it has started. Its socket is open before that, and keeps requests waiting."""
    with suppress(psutil.Error, OSError):
        ports = [c.laddr.port for c in server.net_connections("tcp") if c.status == "LISTEN"]
        return any(urlopen(f"http://127.0.0.1:{port}/api/health", timeout=0.5) for port in ports)
    return False


class Watch:
    """Where one run of an OUT is, by the lines that its processes leave at the gates."""

    def __init__(self, site: Site, pace: float) -> None:
        self.trace = site.gate / gate.TRACE
        self.trace.write_text("")
        (site.gate / gate.PACE).write_text(str(pace))

    def lines(self) -> list[tuple[str, int]]:
        """(stage, pid) of each passage of a gate, oldest first."""
        pairs = (line.split() for line in self.trace.read_text().splitlines())
        return [(stage, int(pid)) for stage, pid in pairs]

    def stage(self, pids: set[int]) -> str:
        """Of the last passage of one of these processes, else of any."""
        lines = self.lines()
        if not lines:
            return "start"
        return ([stage for stage, pid in lines if pid in pids] or [lines[-1][0]])[-1]


@dataclass
class Striker:
    """Kills a run by plan; `seconds` is how long a quiet one takes."""

    site: Site
    tally: Tally
    seconds: float
    _served: set[int] = field(default_factory=set)  # runs whose server was killed once

    def strike(self, run: Started, kill: Kill, watch: Watch) -> bool:
        """Wait for the moment, kill, record what was hit; False when the run ended before."""
        if not self._waited(run, kill, watch):
            return False
        lines = watch.lines()
        near = next((pid for stage, pid in reversed(lines) if stage == kill.moment), None)
        victims = self._victims(run, kill.victim, near)
        # A kill that comes after the end of its victim is none.
        if not victims or run.process.poll() is not None or not end(victims):
            return False
        if kill.victim == "run":
            run.process.wait()
        if kill.victim == "server":
            self._served.add(run.pid)
        stage = watch.stage(
            {victim.pid for victim in victims} if kill.victim == "worker" else set()
        )
        self.tally.hits[kill.victim, stage] += 1
        return True

    def _waited(self, run: Started, kill: Kill, watch: Watch) -> bool:
        """Until the moment has come and there is a victim; False when the run ended before."""
        begun = len(watch.lines())
        needed = 1 if kill.moment == "publish" else kill.items

        def over() -> bool:
            return run.process.poll() is not None

        def come() -> bool:
            fresh = [stage for stage, _ in watch.lines()[begun:]]
            # All recordings are probed before the first is filtered, and all shards are done
            # before `package`: no more items of the stages before these will pass.
            done_by = "filter" if kill.moment == "shard" else "package"
            beyond = STAGES[max(STAGES.index(done_by), STAGES.index(kill.moment) + 1) :]
            return fresh.count(kill.moment) >= needed or any(stage in beyond for stage in fresh)

        if kill.moment == ANY:
            soon(over, kill.delay * self.seconds)
        else:
            soon(lambda: come() or over(), every=0.003)
            soon(over, kill.delay * SPREAD, every=0.001)
        soon(lambda: over() or self._victims(run, kill.victim, None))
        return not over()

    def _victims(self, run: Started, victim: str, near: int | None) -> list[psutil.Process]:
        if victim == "run":
            with suppress(psutil.NoSuchProcess):
                return [psutil.Process(run.pid)]
            return []
        if victim == "server":
            # A run gives up a server that is killed at each of its starts, so only the first one
            # may be killed while it starts.
            once = run.pid in self._served
            return [server for server in server_of(run) if not once or answers(server)]
        workers = run.workers()
        if victim == "workers":
            return workers
        return [worker for worker in workers if worker.pid == near] or workers[:1]


# What has to hold afterwards


def leftovers(site: Site, out: Path) -> list[str]:
    """Files of dead runs, in OUT and in TMPDIR: temporary ones, staging and scratch folders.

    Dask keeps one folder for all schedulers of a TMPDIR, with two locks that stay.
    """
    hidden = [p for p in out.rglob("*") if p.name.startswith(".") and p != out / ".lock"]
    named = [p for p in out.rglob("*") if p.name.endswith((".tmp", ".building"))]
    dask = site.temp / "dask-scratch-space"
    scratch = [p for p in (*site.temp.iterdir(), *dask.glob("*"))
               if p != dask and p.name not in ("global.lock", "purge.lock")]  # fmt: skip
    return sorted({str(p) for p in (*hidden, *named, *scratch)})


def strays(site: Site) -> list[str]:
    """Living processes that belong to any run of the site, whoever their parent is by now."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = " ".join([*process.cmdline(), process.cwd()])
            ours = process.environ().get("TMPDIR") == str(site.temp) or str(site.home) in words
            if ours and process.status() != psutil.STATUS_ZOMBIE and process.pid != os.getpid():
                found.append(f"{process.pid}: {words}")
    return found


def unbalanced(site: Site, out: Path) -> list[str]:
    """Recordings of which the ledger has more or fewer samples than the file."""
    rows = pq.read_table(out / "datasets/latest/ledger.parquet").to_pylist()
    counted: Counter[str] = Counter()
    for row in rows:
        counted[Path(row["source_path"]).name] += row["samples"]
    frames = {path.name: sf.info(path).frames for path in site.source.iterdir()}
    return [name for name in sorted({*counted, *frames}) if counted[name] != frames.get(name)]
