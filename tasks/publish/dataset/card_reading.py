"""How to read each format of a version: a snippet that runs unchanged in the version's folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tasks.base.json_types import DatasetJson


class Snippet(NamedTuple):
    """Code, and its language as Markdown's fences name it."""

    language: str
    code: str


_WENET = """\
list="$(mktemp -d)/{split}.list"
uttermill list . --format {use} --split {split} > "$list"
echo "$list"  # for WeNet's train.py: --data_type {kind} --train_data
# Its char tokenizer: tokenizer_conf.symbol_table_path is {use}/units.txt here.
"""
_LISTED = """\
list="$(mktemp -d)/{split}.{ending}"
uttermill list . --format {use} --split {split} > "$list"  # with full paths
echo "$list"
# {trainer}
"""
_TIMED_WORDS = """\
uttermill list . --format {use} --split {split}  # {what}
"""
_STREAMED = """\
import io

import soundfile
from {package} import StreamingDataset

clips = StreamingDataset({place})
for number in range(len(clips)):  # any clip, in any order
    clip = clips[number]
    samples, rate = soundfile.read(io.BytesIO(clip["audio"]))
    print(clip["id"], len(samples) / rate, clip["text"])
"""
#: How each profile's trainer reads the files, with the sample rate of its published settings.
_TRAINERS = {
    "ljspeech": "What reads LJSpeech takes the folder metadata_csv/{split} as it is (22050 Hz).",
    "hf_audiofolder": 'datasets.load_dataset("metadata_csv", split="{split}"), as it is.',
    "f5": "F5-TTS (24000 Hz): python -m f5_tts.train.datasets.prepare_csv_wavs THAT_LIST OUT",
    "gpt_sovits": "GPT-SoVITS (32000 Hz; zh ja en ko yue): THAT_LIST as its annotation file.",
    "piper": "Piper (22050 Hz): python -m piper.train fit --data.csv_path "
    "metadata_csv/{split}/metadata.csv --data.sample_rate {rate} --data.num_speakers …",
    "coqui": 'coqui-tts (22050 Hz): BaseDatasetConfig(formatter="coqui", path="metadata_csv", '
    'meta_file_train="metadata_{split}.csv")',
    "styletts2": "StyleTTS2 (24000 Hz): root_path metadata_csv, train_data "
    "metadata_csv/{split}_list.txt; make IPA of its second column first.",
    "xtts": 'XTTS (22050 Hz): BaseDatasetConfig(formatter="coqui", path="metadata_csv", '
    'meta_file_train="metadata_{split}.csv", language=…)',
    "vits": "VITS (data.sampling_rate {rate}): python preprocess.py --text_index 2 --filelists "
    "THAT_LIST; it makes phonemes. --text_index 1 for one voice.",
    "ms_swift": "ms-swift: swift sft --dataset THAT_LIST",
    "llama_factory": "LLaMA-Factory: dataset_dir chat_jsonl, media_dir chat_jsonl, dataset {split}",
    "qwen_audio": "Qwen2-Audio: processor.apply_chat_template(line['messages']) for each line",
}
_FIRST_PROFILE = {"metadata_csv": "ljspeech", "chat_jsonl": "ms_swift"}
_SNIPPETS = {
    "metadata_csv": ("bash", _LISTED.replace("{ending}", "csv")),
    "chat_jsonl": ("bash", _LISTED.replace("{ending}", "jsonl")),
    "ctm": ("bash", _TIMED_WORDS.replace("{what}", "a line a word: id 1 start duration word")),
    "textgrid": (
        "bash",
        _TIMED_WORDS.replace("{what}", "Praat's files, one a clip, named by its id"),
    ),
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
    "features": (
        "python",
        """\
import glob
import io

import numpy
import webdataset

tars = sorted(glob.glob("features/{split}/*.tar"))
for sample in webdataset.WebDataset(tars, shardshuffle=False):
    arrays = {{k: numpy.load(io.BytesIO(v)) for k, v in sample.items() if k.endswith(".npy")}}
    print(sample["__key__"], {{k: a.shape for k, a in arrays.items()}}, sample["txt"].decode())
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
    "mds": (
        "python",
        _STREAMED.replace("{package}", "streaming").replace(
            "{place}", 'local="mds", split="{split}", batch_size=1'
        ),
    ),
    "litdata": (
        "python",
        _STREAMED.replace("{package}", "litdata").replace("{place}", '"litdata/{split}"'),
    ),
    "lance": (
        "python",
        """\
import io

import lance
import soundfile

clips = lance.dataset("lance/{split}")
for clip in clips.to_table().to_pylist():  # or clips.take([7, 3]), for these alone
    samples, rate = soundfile.read(io.BytesIO(clip["audio"]))
    print(clip["id"], len(samples) / rate, clip["text"])
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


def snippet(name: str, split: str, facts: DatasetJson, tars: Mapping[str, int]) -> Snippet | None:
    """The snippet for a format and a split; None for a format that is not part of uttermill.
    `tars`: number of output shards, by split."""
    if name not in _SNIPPETS:
        return None
    language, code = _SNIPPETS[name]
    formats = {entry["use"]: entry for entry in facts["settings"]["package"]["formats"]}
    group = "train_ds" if split == "train" else "validation_ds"
    rate = facts["settings"]["resample"]["rate"]
    trainer = _TRAINERS.get(formats[name].get("profile", _FIRST_PROFILE.get(name)), "")
    filled = code.format(
        use=name,
        split=split,
        audio=formats[name].get("audio", "wav"),
        rate=rate,
        trainer=trainer.format(split=split, rate=rate),
        last=tars.get(split, 1) - 1,
        group=group,
    )
    return Snippet(language, filled)
