"""What a run's processes need of memory, and what they may take.

Measured on 20 clips with one worker, `history: none`: the recogniser `fake` ran in 220 MiB and died
in 180; Whisper base ran in 600 MiB and was killed in 540. Prefect takes 60 MB more in the main
process, and 170 in its server.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass, replace

from tasks.base import memory_limits
from tasks.base.errors import ConfigError
from tasks.base.memory_limits import Limit
from tasks.plugins import engines
from tasks.plugins.loading import resolve
from tasks.settings.job import Job

MAIN = 110_000_000
PREFECT, ITS_SERVER = 60_000_000, 170_000_000
WORKER = 110_000_000
#: Features and batches of a recogniser, beside its weights.
HEARING = 310_000_000
#: What a worker should have beyond the least, for blocks, batches and long recordings.
SPACIOUS = 1_000_000_000
#: Address space of a process, most of it never touched; and more of it with a recogniser.
ADDRESSES, FOR_HEARING = 2_400_000_000, 600_000_000


@dataclass(frozen=True)
class Needs:
    """The least that a run needs, bytes. `models`: name and weights of each that a worker loads."""

    main: int = MAIN + PREFECT + ITS_SERVER
    models: tuple[tuple[str, int], ...] = ()
    hearing: bool = False

    @property
    def worker(self) -> int:
        weights = sum(size for _, size in self.models)
        return WORKER + weights + (HEARING if self.hearing else 0)

    def __str__(self) -> str:
        loaded = ", ".join(f"{name} {in_gb(size)}" for name, size in self.models)
        models = f" (weights: {loaded})" if loaded else ""
        main, worker = in_gb(self.main), in_gb(self.worker)
        return f"{main} for the main process and {worker} for each worker{models}"

    def recorded(self, history: str) -> Needs:
        """Those of a run that records itself as `history` says."""
        return replace(self, main=MAIN + _prefect(history))

    def fitting(self, limit: Limit, beyond: int = 0) -> int:
        """Workers that fit beside the main process, each with so many bytes beyond the least."""
        return max(0, limit.bytes - self.main) // (self.worker + beyond)

    def check(self, limit: Limit) -> None:
        """ConfigError when no worker fits into the limit, or no process into its own."""
        if not self.fitting(limit):
            without = ", set history: none" if self.main > MAIN + PREFECT else ""
            raise ConfigError(
                f"this run may take {in_gb(limit.bytes)} of memory ({limit.source}), and needs at "
                f"least {in_gb(self.main + self.worker)}: {self}; raise the limit (Slurm: --mem, "
                f"systemd: MemoryMax, containers: --memory){without}, or choose smaller models"
            )
        addresses = ADDRESSES + (FOR_HEARING if self.hearing else 0)
        own = memory_limits.of_process(resource.RLIMIT_AS)
        if own is not None and own < addresses:
            raise ConfigError(
                f"each process may take {in_gb(own)} of address space (ulimit -v), and needs "
                f"{in_gb(addresses)}, most of which is never used: ulimit -v unlimited"
            )


def needs(job: Job) -> Needs:
    """The needs of a run that records itself wherever it can. ConfigError for a missing model."""
    found = {}
    for shelf, plugin in engines.chosen(job):
        module, own = resolve(shelf, plugin)
        if size := module.model_bytes(own):
            found[shelf, plugin.use] = size
    hearing = any(shelf in ("asr", "segmenters") for shelf, _ in found)
    models = tuple((use, size) for (_, use), size in found.items())
    return Needs(MAIN + _prefect("auto"), models, hearing)


def _prefect(history: str) -> int:
    if history == "none":
        return 0
    elsewhere = history == "server" or (history == "auto" and "PREFECT_API_URL" in os.environ)
    return PREFECT + (0 if elsewhere else ITS_SERVER)


def in_gb(size: int) -> str:
    return f"{size / 1e9:.2f} GB"
