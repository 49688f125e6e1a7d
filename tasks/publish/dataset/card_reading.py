"""How to read each format of a version: one snippet each, which runs as it is in the folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tasks.base.json_types import JsonObject


class Snippet(NamedTuple):
    """`language` as in Markdown's fences."""

    language: str
    code: str


_WENET = """\
list="$(mktemp -d)/{split}.list"
uttermill list . --format {use} --split {split} > "$list"
echo "$list"  # for WeNet's train.py: --data_type {kind} --train_data
# Its char tokenizer: tokenizer_conf.symbol_table_path is {use}/units.txt here.
"""
_SNIPPETS = {
    "wenet": ("bash", _WENET.replace("{kind}", "shard")),
    "wenet_raw": ("bash", _WENET.replace("{kind}", "raw")),
    "webdataset": (
        "python",
        """\
import glob
import io

import soundfile
import webdataset

tars = sorted(glob.glob("webdataset/{split}/*.tar"))
for sample in webdataset.WebDataset(tars, shardshuffle=False):
    samples, rate = soundfile.read(io.BytesIO(sample["{audio}"]))
    print(sample["__key__"], len(samples) / rate, sample["txt"].decode())
""",
    ),
    "lhotse_shar": (
        "python",
        """\
from lhotse import CutSet

for cut in CutSet.from_shar(in_dir="lhotse_shar/{split}"):
    print(cut.id, cut.load_audio().shape, cut.supervisions[0].text)
""",
    ),
    "nemo": (
        "yaml",
        """\
# Of NeMo's model settings; paths start from this folder.
{group}:
  is_tarred: true
  tarred_audio_filepaths: nemo/{split}/audio__OP_0..{last}_CL_.tar
  manifest_filepath: nemo/{split}/tarred_audio_manifest.json
  sample_rate: {rate}
""",
    ),
    "kaldi": (
        "python",
        """\
from lhotse.kaldi import load_kaldi_data_dir

recordings, segments, _ = load_kaldi_data_dir("kaldi/{split}", sampling_rate={rate})
for segment in segments:
    print(segment.id, segment.duration, segment.text)
""",
    ),
    "emilia": (
        "python",
        """\
import glob
import json

import soundfile

for path in sorted(glob.glob("emilia/{split}/*/*.json")):
    with open(path, encoding="utf-8") as file:
        clips = json.load(file)
    for number, clip in enumerate(clips):
        samples, rate = soundfile.read(f"{{path[:-5]}}_{{number}}.{audio}")
        print(clip["id"], len(samples) / rate, clip["text"])
""",
    ),
    "speechbrain": (
        "python",
        """\
import os

import soundfile
from speechbrain.dataio.dataset import DynamicItemDataset

clips = DynamicItemDataset.from_json(
    "speechbrain/{split}.json", replacements={{"data_root": os.getcwd()}}
)
clips.set_output_keys(["id", "wav", "words"])
for clip in clips:
    samples, rate = soundfile.read(clip["wav"])
    print(clip["id"], len(samples) / rate, clip["words"])
""",
    ),
    "hf_parquet": (
        "python",
        """\
import io
import os

import soundfile
from datasets import Audio, load_dataset

rows = load_dataset(os.getcwd(), split="{split}")
# `datasets` decodes by torchcodec; without it, decode the bytes like this.
for row in rows.cast_column("audio", Audio(decode=False)):
    samples, rate = soundfile.read(io.BytesIO(row["audio"]["bytes"]))
    print(row["id"], len(samples) / rate, row["text"])
""",
    ),
}


def snippet(name: str, split: str, facts: JsonObject, tars: Mapping[str, int]) -> Snippet | None:
    """The snippet of a format, for a split; `tars`: output shards of each split. None for a format
    of one's own."""
    if name not in _SNIPPETS:
        return None
    language, code = _SNIPPETS[name]
    formats = {entry["use"]: entry for entry in facts["settings"]["package"]["formats"]}
    group = "train_ds" if split == "train" else "validation_ds"
    filled = code.format(
        use=name,
        split=split,
        audio=formats[name].get("audio", "wav"),
        rate=facts["settings"]["resample"]["rate"],
        last=tars.get(split, 1) - 1,
        group=group,
    )
    return Snippet(language, filled)
