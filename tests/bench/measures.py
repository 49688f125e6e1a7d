"""Speed of every filter's measure, as a multiple of real time on one core (seconds of audio for
each CPU second of all threads together).

    python -m tests.bench.measures [filter …]

Each measure gets a new clip of 20 s, so that it also pays for results that it would share with
others.
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np

from uttermill.tasks import plugins
from uttermill.tasks.audio import Clip
from uttermill.tasks.base import shelves
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.plugins.contracts import FilterModule

SECONDS = 20
RUNS = 5
CLIPS = {"16 kHz mono": (16_000, 1), "48 kHz stereo": (48_000, 2)}


def babble(rate: int, channels: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Noise in syllables, over a noise floor."""
    rng = np.random.default_rng(0)
    at = np.arange(SECONDS * rate) / rate
    level = 0.1 * np.maximum(np.sin(2 * np.pi * 2 * at), 0.01)
    return (level[:, None] * rng.standard_normal((len(at), channels))).astype(np.float32)


def speed(module: FilterModule, rate: int, channels: int) -> float:
    """Median of the runs; the first one, which loads models, is left out."""
    samples, settings = babble(rate, channels), module.Settings()
    spent = []
    for _ in range(RUNS + 1):
        clip = Clip.of(samples, rate)
        began = time.process_time()
        module.measure(clip, settings)
        spent.append(max(time.process_time() - began, 1e-6))
    return SECONDS / statistics.median(spent[1:])


def main() -> None:
    print(f"{'× real time':20}" + "".join(f"{name:>16}" for name in CLIPS))
    for name in sys.argv[1:] or shelves.names("filters"):
        module = plugins.FILTERS.load(name)
        try:
            speeds = [f"{speed(module, *clip):16,.0f}" for clip in CLIPS.values()]
        except ConfigError as error:
            speeds = [f"  {error}"]
        print(f"{name:20}" + "".join(speeds), flush=True)


if __name__ == "__main__":
    main()
