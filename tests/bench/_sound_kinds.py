"""Results of `sounds` on recordings of known kinds, and the cost of both filters of sounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from tests.bench.corpus_speech import RATE, Floats, read
from uttermill.tasks.audio import Clip
from uttermill.tasks.filters import music, sounds

THRESHOLDS = (0.2, 0.1, 0.05, 0.02)
LEAST = 0.1  # of the time, in which a recording's own group is heard
SPEECH = "clean speech"
LONGEST = 60  # s of a recording that are heard

#: By kind and threshold: the share of the time of each group, and of the recordings in which their
#: own is heard.
Kinds = dict[str, dict[str, dict[str, float]]]


def shares(samples: Floats, model: str, threshold: float) -> dict[str, float]:
    """The share of a recording's time in which each group is detected."""
    clip = Clip.of(samples, RATE)
    events = sounds.measure(clip, sounds.Settings(model=model, threshold=threshold))["sounds"]
    assert isinstance(events, list)
    lengths = dict.fromkeys(sounds.LABELS, 0.0)
    for event in events:
        lengths[event.label] += (event.end - event.start) / clip.seconds
    return lengths


def kinds(folder: Path, clips: Sequence[Floats], model: str) -> Kinds:
    recordings = {
        home.name: [read(path)[: LONGEST * RATE] for path in sorted(home.iterdir())]
        for home in sorted(path for path in folder.iterdir() if path.is_dir())
    }
    found: Kinds = {}
    for kind, every in {SPEECH: clips, **recordings}.items():
        label = "speech" if kind == SPEECH else kind.partition("_")[0]
        for threshold in THRESHOLDS:
            rows = [shares(samples, model, threshold) for samples in every]
            means = {name: float(np.mean([each[name] for each in rows])) for name in sounds.LABELS}
            own = float(np.mean([each[label] >= LEAST for each in rows]))
            row = {**means, "own": own, "count": len(rows)}
            found.setdefault(kind, {})[f"{threshold:g}"] = row
    return found


def lines(found: Kinds) -> Iterator[str]:
    if not found:
        return
    heads = (*sounds.LABELS, "own")
    yield f"{'share of the time, of the recordings, %':36}" + "".join(f"{one:>9}" for one in heads)
    for kind, by_threshold in found.items():
        for threshold, row in by_threshold.items():
            name = f"{kind} ({row['count']:.0f}), {threshold}"
            yield f"{name:36}" + "".join(f"{100 * row[head]:9.2f}" for head in heads)


def costs(clips: Sequence[Floats], model: str) -> Mapping[str, float]:
    """CPU s for an hour of clips of `sounds`, of `music`, and of both together, in turn, so that
    the machine's load affects all alike."""
    one, other = sounds.Settings(model=model), music.Settings(model=model)
    ways: dict[str, Callable[[Clip], object]] = {
        "sounds": lambda clip: sounds.measure(clip, one),
        "music": lambda clip: music.measure(clip, other),
        "both": lambda clip: (sounds.measure(clip, one), music.measure(clip, other)),
    }
    spent = dict.fromkeys(ways, 0.0)
    for samples in clips:
        for name, way in ways.items():
            clip = Clip.of(samples, RATE)
            began = time.process_time()
            way(clip)
            spent[name] += time.process_time() - began
    hours = sum(map(len, clips)) / RATE / 3600
    return {name: seconds / hours for name, seconds in spent.items()}
