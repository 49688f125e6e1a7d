"""A filter for tests with an annotation of each kind, of which one may be wrong on purpose."""

from pathlib import Path
from typing import Any

import numpy as np

from uttermill.tasks.api import (
    Array,
    Clip,
    Event,
    Events,
    Label,
    StageSettings,
    Threshold,
    Transient,
    Vector,
)

VERSION = 1
COLUMNS = {"tagging_peak": ("1", "largest magnitude")}
ANNOTATIONS = {
    "tagging_length": Label("how long the clip is", ("short", "long")),
    "tagging_voice": Vector("first samples", 3),
    "tagging_level": Array("magnitude", 10.0, "1"),
    "tagging_sounds": Events("what is heard", ("start", "Loud part")),
}
WRONG: dict[str, dict[str, Any]] = {
    "outside": {"tagging_length": "middling"},
    "number": {"tagging_length": 3},
    "longer": {"tagging_voice": [1.0, 2.0, 3.0, 4.0]},
    "nan": {"tagging_voice": [1.0, float("nan"), 3.0]},
    "square": {"tagging_level": [[1.0], [2.0]]},
    "endless": {"tagging_level": [0.0] * 1000},
    "late": {"tagging_sounds": [Event(0.0, 1e6, "start")]},
    "backwards": {"tagging_sounds": [Event(0.5, 0.1, "start")]},
    "unknown": {"tagging_sounds": [Event(0.0, 0.1, "end")]},
    "scoreless": {"tagging_sounds": [Event(0.0, 0.1, "start", float("inf"))]},
    "shapeless": {"tagging_sounds": ["start"]},
}


class Settings(StageSettings):
    fault: str = ""
    long: float = 0.5  # s
    measured: str | None = Transient(None, "File with a line for each clip.")
    allowed_length: tuple[str, ...] | None = Threshold(None, "Lengths kept.")
    max_sounds_share: dict[str, float] = Threshold({}, "Largest share kept, by label.")


def measure(clip: Clip, settings: Settings) -> dict[str, Any]:
    if settings.measured:
        with Path(settings.measured).open("a") as file:
            file.write(f"{clip.num_samples}\n")
    samples = np.concatenate([np.abs(block).max(1) for block in clip.blocks()])
    loud = min(0.25, clip.seconds)
    given: dict[str, Any] = {
        "tagging_peak": float(samples.max()),
        "tagging_length": "long" if clip.seconds > settings.long else "short",
        "tagging_voice": samples[:3],
        "tagging_level": [float(part.max()) for part in np.array_split(samples, 10)]
        if clip.seconds < 2
        else None,
        "tagging_sounds": [Event(0.1, loud, "Loud part", 0.5), Event(0.0, 0.05, "start")],
    }
    if settings.fault == "lacking":
        del given["tagging_voice"]
    return given | WRONG.get(settings.fault, {})
