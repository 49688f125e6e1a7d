"""What both of WeNet's formats have: `units.txt`, and the clips that its usual reader drops.

    <blank> 0
    <unk> 1
    <sos/eos> 2
    a 3          a character and its number a line, by code point; `▁` is a blank between words

WeNet splits a line at white space, so no other kind of blank can be a unit: it becomes `<unk>`.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc

from ..base.schema import UTTERANCES_FILE
from ..plugins.contracts.formats import Bound, ReaderLimits
from ..settings.package import REST
from ..storage import tables, write_atomic

#: WeNet calls `processor.filter` (wenet/dataset/processor.py) on every sample of every data list;
#: the settings' `dataset_conf.filter_conf` overrides these defaults. The recipes in `examples/`
#: that train on characters (AISHELL) keep `token_max_length: 200` and raise `max_length` to 40960;
#: LibriSpeech, on BPE, has 400. `frames` are counted before resampling and augmentation.
READER = ReaderLimits(
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
_SNIPPET = """\
list="$(mktemp -d)/{split}.list"
uttermill list . --format {use} --split {split} > "$list"
echo "$list"  # for WeNet's train.py: --data_type {kind} --train_data
# Its char tokenizer: tokenizer_conf.symbol_table_path is {use}/units.txt here.
"""
NAME = "units.txt"
SPECIAL = ("<blank>", "<unk>", "<sos/eos>")
BLANK = "▁"


def snippet(kind: str) -> tuple[str, str]:
    """For the data card. `kind`: as WeNet calls the format."""
    return "bash", _SNIPPET.replace("{kind}", kind)


def write_units(home: Path, folder: str) -> None:
    """Write the units of the texts of `train`; of all splits if there is no `train`."""
    train, others = set[str](), set[str]()
    for part in tables.row_groups(home / UTTERANCES_FILE, ["split", "text"]):
        in_train = pc.equal(part["split"], REST)
        for characters, chosen in ((train, in_train), (others, pc.invert(in_train))):
            characters.update(*map(str.strip, part["text"].filter(chosen).to_pylist()))
    write_atomic(home / folder / NAME, text_of(train or others).encode())


def text_of(characters: set[str]) -> str:
    letters = sorted({BLANK if c == " " else c for c in characters if c == " " or not c.isspace()})
    return "".join(f"{unit} {number}\n" for number, unit in enumerate((*SPECIAL, *letters)))
