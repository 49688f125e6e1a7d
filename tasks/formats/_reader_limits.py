"""The clips that a format's usual reader drops, as data: a plug-in's `READER`.

A reader that filters by length drops clips silently; no training log shows the loss. The numbers
are the reader's defaults; a trainer's own settings may differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: `frames`: 10 ms of audio. `characters`: code points of the stripped text, one token each for a
#: character tokenizer; a BPE model makes fewer tokens of the same text.
Measure = Literal["seconds", "frames", "characters", "characters_per_frame"]
FRAMES_PER_SECOND = 100


@dataclass(frozen=True, slots=True)
class Bound:
    """The reader drops a clip whose `measure` lies beyond `limit`; a value equal to it is kept."""

    setting: str  # as the reader's own settings call it
    side: Literal["min", "max"]
    measure: Measure
    limit: float


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """All bounds of a reader, in the order in which it applies them."""

    reader: str  # for people
    where: str  # the part of the trainer's settings that holds the bounds
    bounds: tuple[Bound, ...]
    splits: tuple[str, ...] | None = None  # that it filters; None: all


#: WeNet calls `processor.filter` (wenet/dataset/processor.py) on every sample of every data list;
#: the settings' `dataset_conf.filter_conf` overrides these defaults. The recipes in `examples/`
#: that train on characters (AISHELL) keep `token_max_length: 200` and raise `max_length` to 40960;
#: LibriSpeech, on BPE, has 400. `frames` are counted before resampling and augmentation.
WENET = ReaderLimits(
    "WeNet's usual reader",
    "dataset_conf.filter_conf",
    (
        Bound("min_length", "min", "frames", 10),
        Bound("max_length", "max", "frames", 10240),
        Bound("token_min_length", "min", "characters", 1),
        Bound("token_max_length", "max", "characters", 200),
        Bound("min_output_input_ratio", "min", "characters_per_frame", 0.0005),
        Bound("max_output_input_ratio", "max", "characters_per_frame", 1),
    ),
)
