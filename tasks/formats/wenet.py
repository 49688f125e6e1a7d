"""WeNet shards: `<key>.txt` then `<key>.wav`, adjacent, in plain USTAR tars, and a `data.list`.

wenet/<split>/shards_000000000.tar   UTF-8 without a newline; 16-bit mono WAV, header of 44 bytes;
                                     with `facts: true` then `<key>.json`, what `package.publish`
                                     names, which WeNet's reader keeps as the sample's `json`
wenet/<split>/data.list              one tar's path a line
wenet/units.txt                      characters of train's texts, for WeNet's char tokenizer:

    <blank> 0
    <unk> 1
    <sos/eos> 2
    a 3          a character and its number a line, by code point; `▁` is a blank between words

WeNet splits a line at white space, so no other kind of blank can be a unit: it becomes `<unk>`.
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..base.arrays import Int64s
from ..base.schema import UTTERANCES_FILE, ClipRow, published
from ..settings import StageSettings, Threshold
from ..settings.package import REST
from ..storage import tables, write_atomic
from . import Bound, Output, OutputShard, ReaderLimits, ReadPcm, Rows, _clips, _lists, _tars

VERSION = 1
COLUMNS = ("id", "text", *_clips.COLUMNS)
HOLDS_ANNOTATIONS = True
SPECIAL = ("<blank>", "<unk>", "<sos/eos>")
BLANK = "▁"
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


def data_card(kind: str) -> tuple[str, str]:
    """For the data card. `kind`: as WeNet calls the format."""
    return (
        "bash",
        f"""\
list="$(mktemp -d)/{{split}}.list"
uttermill list . --format {{use}} --split {{split}} > "$list"
echo "$list"  # for WeNet's train.py: --data_type {kind} --train_data
# Its char tokenizer: tokenizer_conf.symbol_table_path is {{use}}/units.txt here.
""",
    )


SNIPPET = data_card("shard")


class Settings(StageSettings):
    facts: bool = Threshold(
        False, "Also write <key>.json: what package.publish names, where it names something."
    )


def holds_annotations(settings: Settings) -> bool:
    return settings.facts


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    return [f"wenet/{split}/shards_{number:09d}.tar"]


def offsets(rows: pa.Table, settings: Settings) -> Int64s:
    text = pc.binary_length(pc.cast(rows["text"], pa.binary())).to_numpy().astype(np.int64)
    wav = 44 + 2 * rows["num_samples"].to_numpy()
    sizes = _tars.size_of(text) + _tars.size_of(wav)
    if settings.facts and (names := published(rows.schema)):
        facts = [len(_facts(row)) for row in rows.select(names).to_pylist()]
        sizes += _tars.size_of(np.array(facts, np.int64))
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


def _facts(values: Mapping[str, object]) -> bytes:
    return json.dumps(values, ensure_ascii=False, allow_nan=False, sort_keys=True).encode()


def _members(facts: bool, row: ClipRow, suffix: str) -> dict[str, bytes | ClipRow]:
    key, values = row["id"], _clips.published(row) if facts else {}
    return {
        f"{key}.txt": row["text"].encode(),
        f"{key}.{suffix}": row,
        **({f"{key}.json": _facts(values)} if values else {}),
    }


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    members = partial(_members, settings.facts)
    _tars.write(out, shard.path, rows, pcm, members, _clips.Encoding("wav"))


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    members = partial(_members, settings.facts)
    faults, edges = _tars.check(out, shard.path, rows, members, _clips.Encoding("wav"))
    for row, begin in zip(rows, edges, strict=False):
        # If another format comes first, `shard` and `offset` are its own.
        if row["shard"] == shard.path and row["offset"] != begin:
            faults.append(f"{shard.path}: {row['id']} is at {begin}, not {row['offset']}")
    return faults


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    _lists.write(shards, home)
    write_units(home, "wenet")


listing = partial(_lists.prefixed, "wenet")


def write_units(home: Path, folder: str) -> None:
    """Write the units of the texts of `train`; of all splits if there is no `train`."""
    train, others = set[str](), set[str]()
    for part in tables.row_groups(home / UTTERANCES_FILE, ["split", "text"]):
        in_train = pc.equal(part["split"], REST)
        for characters, chosen in ((train, in_train), (others, pc.invert(in_train))):
            characters.update(*map(str.strip, part["text"].filter(chosen).to_pylist()))
    spoken = (c for c in train or others if c == " " or not c.isspace())
    units = [*SPECIAL, *sorted({BLANK if c == " " else c for c in spoken})]
    lines = "".join(f"{unit} {number}\n" for number, unit in enumerate(units))
    write_atomic(home / folder / "units.txt", lines.encode())
