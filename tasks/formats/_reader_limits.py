"""The clips that WeNet's usual reader drops, as data: the `READER` of both of its formats.

A reader that filters by length drops clips silently; no training log shows the loss. The numbers
are the reader's defaults; a trainer's own settings may differ.
"""

from __future__ import annotations

from tasks.plugins.contracts.formats import Bound, ReaderLimits

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
