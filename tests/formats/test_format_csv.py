"""`metadata_csv`: each profile is read as its trainer reads it, by the same calls of Python.

The readers here follow the trainers' own loading code, named at each, without a function of ours;
`python -m tests.readers` runs those that install themselves.
"""

import csv
import gc
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
import soundfile as sf
from scipy.io import wavfile

from tests.formats.test_format_lhotse import datasets  # noqa: F401  (a fixture)
from tests.helpers import corpus, published, tiers
from tests.helpers.published import Row
from uttermill.flows.cli import queries
from uttermill.tasks import plugins
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.formats import metadata_csv
from uttermill.tasks.formats.metadata_csv import PROFILES
from uttermill.tasks.settings import Plugin

PLAIN, HOSTILE = "plain words", 'a|b, "quoted" ; \\ it\'s'
TEXTS = (
    PLAIN, '"Yes," she said', HOSTILE, "四 \U00020bb7\U0001f600", "line\nbreak\u2028and\ttab",
    "None",
)  # fmt: skip
SPEAKERS = ("anna", 'b|o\nb, "jr"', "\U00020bb7", None, "anna", "unknown")
QUOTED = ("hf_audiofolder", "f5", "piper", "coqui", "xtts")


def rows() -> list[list[Row]]:
    """Two groups of train and one of dev."""
    made = [
        published.row(n, text=text, speaker=speaker)
        for n, (text, speaker) in enumerate(zip(TEXTS, SPEAKERS, strict=True))
    ]
    return [made[:4], made[4:], [published.row(6, split="dev", speaker="zoe")]]


class Clip(NamedTuple):
    path: Path
    text: str
    speaker: str | int | None = None
    language: str | None = None
    normalised: str | None = None


def ljspeech(home: Path, split: str) -> Iterator[Clip]:
    """coqui-ai-TTS `formatters.ljspeech`; most readers split like it."""
    root = home / "metadata_csv" / split
    with open(root / "metadata.csv", encoding="utf-8") as lines:
        for line in lines:
            key, text, normalised = line.rstrip("\n").split("|")
            yield Clip(root / "wavs" / (key + ".wav"), text, normalised=normalised)


def hf_audiofolder(home: Path, split: str) -> Iterator[Clip]:
    root = home / "metadata_csv" / split
    with open(root / "metadata.csv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, strict=True):
            assert [*row] == ["file_name", "transcription", "speaker", "language"]
            path = root / row["file_name"]
            yield Clip(path, row["transcription"], row["speaker"] or None, row["language"])


def f5(home: Path, split: str) -> Iterator[Clip]:
    """F5-TTS `read_audio_text_pairs`, as of 1.0; of 1.1 on, paths have to be absolute."""
    root = home / "metadata_csv" / split
    assert (root / "wavs").is_dir()
    with open(root / "metadata.csv", newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, delimiter="|")
        assert next(reader) == ["audio_file", "text"]
        for path, text in reader:
            yield Clip(root / path.strip(), text.strip())


def gpt_sovits(home: Path, split: str) -> Iterator[Clip]:
    """GPT-SoVITS `1-get-text.py`: names of files alone must tell clips apart. It writes the texts
    into a list with tabs, whose reader leaves out a line of other than four fields."""
    path = home / "metadata_csv" / f"{split}.list"
    with open(path, encoding="utf8") as file:
        lines = file.read().strip("\n").split("\n")
    for line in lines:
        wav, speaker, language, text = line.split("|")
        assert "\t" not in text
        assert language in {"zh", "ja", "en", "ko", "yue"}
        yield Clip(path.parent / wav, text, speaker, language)


def piper(home: Path, split: str) -> Iterator[Clip]:
    """piper1-gpl `VitsDataModule` with several speakers; `audio_dir` is the list's folder."""
    path = home / "metadata_csv" / split / "metadata.csv"
    with open(path, encoding="utf-8") as file:
        for row in csv.reader(file, delimiter="|"):
            assert len(row) == 3
            yield Clip(path.parent / row[0], row[-1], row[1])


def coqui(home: Path, split: str) -> Iterator[Clip]:
    """coqui-ai-TTS `formatters.coqui`; XTTS' recipes name it."""
    root = home / "metadata_csv"
    with open(root / f"metadata_{split}.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="|"):
            yield Clip(root / row["audio_file"], row["text"], row["speaker_name"])


def styletts2(home: Path, split: str) -> Iterator[Clip]:
    """StyleTTS2 `FilePathDataset`."""
    root = home / "metadata_csv"
    with open(root / f"{split}_list.txt", encoding="utf-8") as file:
        for line in file.readlines():
            path, text, speaker = line.strip().split("|")
            yield Clip(root / path, text, int(speaker))


def vits(home: Path, split: str) -> Iterator[Clip]:
    """VITS `load_filepaths_and_text` and `TextAudioSpeakerLoader`, which reads WAV by SciPy."""
    root = home / "metadata_csv"
    with open(root / f"{split}_filelist.txt", encoding="utf-8") as file:
        for path, sid, text in [line.strip().split("|") for line in file]:
            assert wavfile.read(root / path)[0] == published.RATE
            yield Clip(root / path, text, int(sid))


READERS: dict[str, Callable[[Path, str], Iterator[Clip]]] = {
    "ljspeech": ljspeech, "hf_audiofolder": hf_audiofolder, "f5": f5, "gpt_sovits": gpt_sovits,
    "piper": piper, "coqui": coqui, "styletts2": styletts2, "kokoro": styletts2,
    "xtts": coqui, "vits": vits,
}  # fmt: skip


def on_one_line(text: str, profile: str) -> str:
    text = text.replace("\n", " ").replace("\u2028", " ")
    text = text.replace("\t", " ") if profile == "gpt_sovits" else text
    return text if profile in QUOTED else text.replace("|", " ")


@pytest.mark.parametrize("audio", ["wav", "flac"])
@pytest.mark.parametrize("profile", READERS)
def test_every_clip_comes_back(tmp_path: Path, profile: str, audio: str) -> None:
    if audio == "flac" and not PROFILES[profile].flac:  # type: ignore[index]
        plugin = Plugin.model_validate({"use": "metadata_csv", "profile": profile, "audio": audio})
        with pytest.raises(ConfigError, match=f"readers of {profile} accept WAV only"):
            plugins.resolve("formats", plugin)
        return
    *train, dev = rows()
    published.publish(tmp_path, "metadata_csv", [*train, dev], profile=profile, audio=audio)
    for split, groups in (("train", train), ("dev", [dev])):
        wanted = [row for group in groups for row in group]
        found = list(READERS[profile](tmp_path, split))
        assert [clip.path.stem for clip in found] == [row["id"] for row in wanted]
        assert [published.sha256(clip.path) for clip in found] == [row["sha256"] for row in wanted]
        texts = [on_one_line(row["text"], profile) for row in wanted]
        assert [clip.text.rstrip(" ") for clip in found] == texts
        if found[0].language is not None:
            assert {clip.language for clip in found} == {"en"}
        if profile == "hf_audiofolder":
            assert [clip.speaker is None for clip in found] == [not r["speaker"] for r in wanted]


@pytest.mark.parametrize("profile", [name for name in READERS if name not in ("ljspeech", "f5")])
def test_no_two_speakers_become_one(tmp_path: Path, profile: str) -> None:
    """Nor a nameless one and one who is called `unknown`; nor two of one name in two datasets."""
    train, more, dev = rows()
    train.append(published.row(7, speaker='b_o\\nb, "jr"', text="another"))
    more.append(published.row(8, speaker="zoe", dataset="e", text="hers"))
    published.publish(tmp_path, "metadata_csv", [train, more, dev], profile=profile)
    people = {
        (row["dataset"], row["speaker"] or ""): clip.speaker
        for split, wanted in (("train", [*train, *more]), ("dev", dev))
        for row, clip in zip(wanted, READERS[profile](tmp_path, split), strict=True)
    }
    assert len({*people.values()}) == len(people) == 8
    if not PROFILES[profile].numbered:  # type: ignore[index]
        assert (people["d", "anna"], people["d", "\U00020bb7"]) == ("anna", "\U00020bb7")
        return
    names = json.loads((tmp_path / "metadata_csv/speakers.json").read_text("utf-8"))
    assert sorted(names.values()) == list(range(8))
    assert names["anna"] == people["d", "anna"]


def test_one_voice_needs_no_column(tmp_path: Path) -> None:
    for profile, name in (("piper", "train/metadata.csv"), ("vits", "train_filelist.txt")):
        group = [published.row(n, speaker="anna") for n in range(2)]
        published.publish(tmp_path / profile, "metadata_csv", [group], profile=profile)
        lines = (tmp_path / profile / "metadata_csv" / name).read_text("utf-8").splitlines()
        assert [line.count("|") for line in lines] == [1, 1]


def test_gpt_sovits_knows_languages_without_their_regions(tmp_path: Path) -> None:
    given = ("en-US", "zh-Hant-TW", "ja_JP", "yue")
    group = [published.row(n, language=language) for n, language in enumerate(given)]
    published.publish(tmp_path, "metadata_csv", [group], profile="gpt_sovits")
    found = [clip.language for clip in gpt_sovits(tmp_path, "train")]
    assert found == ["en", "zh", "ja", "yue"]


def test_numbers_are_words_in_the_normalised_column(tmp_path: Path) -> None:
    texts = {
        "It's 21!": "It's twenty-one!", "No figures, Sir?": "No figures, Sir?",
        "In 1990 (or 5 % later) …": "In nineteen ninety (or five percent later) …",
    }  # fmt: skip
    group = [published.row(n, text=text) for n, text in enumerate(texts)]
    published.publish(tmp_path, "metadata_csv", [group])
    found = {clip.text: clip.normalised for clip in ljspeech(tmp_path, "train")}
    assert found == texts


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_datasets_reads_the_folder(
    tmp_path: Path,
    datasets: ModuleType,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It asks for torchcodec, though it decodes nothing here; and it leaves lists open."""
    for name in ("torchcodec", "torchcodec.encoders"):
        monkeypatch.setitem(sys.modules, name, stub := ModuleType(name))
        monkeypatch.setattr(stub, "AudioEncoder", None, raising=False)
    *train, dev = rows()
    published.publish(tmp_path, "metadata_csv", [*train, dev], profile="hf_audiofolder")
    home = str(tmp_path / "metadata_csv")
    read = datasets.load_dataset(home, cache_dir=str(tmp_path / "cache"))
    assert set(read) == {"train", "dev"}
    for split, wanted in (("train", [*train[0], *train[1]]), ("dev", dev)):
        plain = read[split].cast_column("audio", datasets.Audio(decode=False))
        for entry, row in zip(plain, wanted, strict=True):
            assert entry["transcription"].rstrip(" ") == on_one_line(row["text"], "hf_audiofolder")
            assert published.sha256(entry["audio"]["path"]) == row["sha256"]
    gc.collect()  # what it left open, while its warnings are ignored


def test_no_folder_has_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 clips and more: later groups, and what is beyond a thousand in one, lie deeper."""
    monkeypatch.setattr(metadata_csv, "FOLDER_GROUPS", 2)
    monkeypatch.setattr(metadata_csv, "FOLDER_CLIPS", 3)
    groups = [[published.row(n) for n in range(low, low + 5)] for low in range(0, 25, 5)]
    published.publish(tmp_path, "metadata_csv", groups)
    found = list(ljspeech(tmp_path, "train"))
    assert [clip.path.stem for clip in found] == [row["id"] for group in groups for row in group]
    assert all(clip.path.is_file() for clip in found)
    sizes = {f: len(names) for f, _, names in os.walk(tmp_path / "metadata_csv/train/wavs")}
    assert max(sizes.values()) == 6
    assert len(sizes) == 6


@pytest.mark.full
@pytest.mark.parametrize("profile", tiers.few(READERS, *list(READERS)[:2]))
def test_a_list_has_full_paths_and_its_header_once(tmp_path: Path, profile: str) -> None:
    corpus.make(tmp_path / "in", 6)
    package = {
        "formats": [{"use": "metadata_csv", "profile": profile}],
        "splits": {"dev": 0.3}, "tar_hours": 2.0 / 3600,
    }  # fmt: skip
    version = corpus.run(corpus.job(tmp_path, package=package))[0].path
    told = queries.data_list(version, None, use="metadata_csv", split="*")["paths"]
    headers = [line for line in told if line.startswith(("file_name,", "audio_file|"))]
    assert headers == told[: profile in ("hf_audiofolder", "f5", "coqui", "xtts")]
    names = [line.replace(",", "|").split("|")[0] for line in told if line not in headers]
    paths = [name if "." in Path(name).name else f"{name}.wav" for name in names]
    assert len(paths) == 6
    assert all(Path(path).is_absolute() and sf.info(path).frames for path in paths)
    part = queries.data_list(version, "s3://b", use="metadata_csv", split="dev")["paths"]
    assert all("s3://b/metadata_csv/dev/wavs/" in line for line in part[len(headers) :])
