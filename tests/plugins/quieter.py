"""An enhancer for tests: it multiplies, at a rate of its own, and harms its process at one length.

Each clip that it hears is a line in `heard`, a file, where one is named.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from tests.plugins import poison
from uttermill.tasks.enhance import EnhancerSettings
from uttermill.tasks.settings import TRANSIENT

VERSION = 1
RATE = 16_000


class Settings(EnhancerSettings):
    gain: float = 0.5
    seconds: float = -1.0
    how: poison.How = "nothing"
    limit_db: float | None = None
    keep_if_better: bool = Field(False, json_schema_extra={"role": "threshold"})
    heard: str | None = Field(None, json_schema_extra=TRANSIENT)


class Quieter:
    def __init__(self, settings: Settings) -> None:
        self.settings, self.count = settings, 0

    def push(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        self.count += len(samples)
        return samples * np.float32(self.settings.gain)

    def finish(self) -> NDArray[np.float32]:
        if abs(self.count / RATE - self.settings.seconds) < 1e-3:
            poison.harm(self.settings.how)
        if self.settings.heard:
            with Path(self.settings.heard).open("a") as file:
                file.write(f"{self.count}\n")
        return np.zeros(0, np.float32)


def start(settings: Settings) -> Quieter:
    return Quieter(settings)
