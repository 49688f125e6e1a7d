"""What the usual reader of a format refuses, which a format plug-in declares as `READER`.

A reader that filters by length drops clips without a word: the loss shows in no log of the training
run. The numbers are the defaults that come with the reader; a trainer's own settings may differ.
"""

from __future__ import annotations

from tasks.formats import Bound, ReaderLimits

#: WeNet calls `processor.filter` (wenet/dataset/processor.py) on every sample of every data list,
#: with the settings' `dataset_conf.filter_conf` over these defaults. The recipes in `examples/`
#: that train on characters (AISHELL) keep `token_max_length: 200` and raise `max_length` to 40960;
#: LibriSpeech, on BPE, has 400. `frames` count the audio before it is resampled or augmented.
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

#: NeMo's ASR settings (examples/asr/conf: Conformer, FastConformer, CTC and transducer) have these
#: in `model.train_ds`; the validation and test sets have none. `AudioText` (nemo/collections/
#: common/parts/preprocessing/collections.py) applies them to the manifest's `duration`.
NEMO = ReaderLimits(
    "NeMo's usual ASR settings",
    "model.train_ds",
    (
        Bound("min_duration", "min", "seconds", 0.1),
        Bound("max_duration", "max", "seconds", 16.7),
    ),
    splits=("train",),
)

#: Amphion's `EmiliaDataset` (models/base/emilia_dataset.py) takes another clip in place of one
#: above `preprocess.max_dur`, 30 s unless it is set. Its least, 3 s, is never compared.
EMILIA = ReaderLimits(
    "Amphion's EmiliaDataset", "preprocess", (Bound("max_dur", "max", "seconds", 30.0),)
)
