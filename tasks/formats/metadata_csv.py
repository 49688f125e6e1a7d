"""Lists of clips as voices' trainers read them, and one WAV or FLAC file a clip.

metadata_csv/<split>/wavs/<id>.wav      16-bit mono, at `resample.rate`

and the lists of the profile, one a split, whose paths are relative to the list's own folder:

    ljspeech        <split>/metadata.csv         id|text|normalised        no header, no quotes
    hf_audiofolder  <split>/metadata.csv         file_name,transcription,speaker,language
    f5              <split>/metadata.csv         audio_file|text
    gpt_sovits      <split>.list                 path|speaker|language|text   no header, no quotes
    piper           <split>/metadata.csv         path|speaker|text            no header
    coqui, xtts     metadata_<split>.csv         audio_file|text|speaker_name
    styletts2       <split>_list.txt             path|text|number             no header, no quotes
    kokoro          <split>_list.txt             the same
    vits            <split>_filelist.txt         path|number|text             no header, no quotes

`normalised` is the text with its numbers in words. Where a profile has no quotes, a separator in a
text becomes a blank. `piper` and `vits` have no speaker column if there is one voice. Numbers of
speakers are explained in `speakers.json`; a clip without a speaker has the speaker `unknown`
(`hf_audiofolder`: none). A name that two datasets give to their speakers follows the dataset's.
If the rule `phonemes` makes IPA of the texts, `styletts2`, `kokoro` and `piper` have it in place of
the text, and other profiles if `phonemes` says so.
In `hf_audiofolder` a blank follows a text such as "None", which pandas would take for missing, and
what `package.publish` names has columns of its own: labels as they are, all else as JSON.

The first groups of a split lie in `wavs/` itself, later ones in folders in it, so that no folder
has more than FOLDER_GROUPS * FOLDER_CLIPS files.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TextIO

import pyarrow as pa
from pydantic import model_validator

from .. import scoring
from ..base import language_codes
from ..base.control_characters import escaped
from ..base.schema import UTTERANCES_FILE, AnyRow, ClipRow
from ..recording import ids
from ..settings import Threshold
from ..storage import tables, write_atomic
from . import Bound, OutputShard, ReaderLimits, _clips, _free, _lists, _wavs

# The layouts of `metadata_csv`: what each trainer's reader takes, from its own loading code.
#
# A list's paths are relative to the list's own folder. Where `quoted`, the reader uses Python's
# `csv`, so a text may hold separators and quotes; the others cut a line at each separator.

Name = Literal[
    "ljspeech",
    "hf_audiofolder",
    "f5",
    "gpt_sovits",
    "piper",
    "coqui",
    "styletts2",
    "kokoro",
    "xtts",
    "vits",
]
Field = Literal["id", "path", "text", "normalised", "speaker", "number", "language"]


@dataclass(frozen=True, slots=True)
class Profile:
    """`columns`: header and content of each, in order."""

    list: str  # of a split, in the format's folder
    columns: tuple[tuple[str, Field], ...]
    separator: str = "|"
    header: bool = False
    quoted: bool = False
    flac: bool = False  # its reader takes FLAC too
    tabs: bool = True  # a text may hold some
    bare_language: bool = False  # a code without script or region
    lossy: bool = False  # and Opus and MP3, as it decodes with libsndfile or FFmpeg
    one_voice: bool = False  # a corpus of one speaker has no column for it
    numbered: bool = False  # speakers are numbers, which `speakers.json` names
    phonemes: bool = False  # its reader takes IPA for the text, if the version has it
    readme: bool = False  # `datasets` learns the splits from a README.md, and reads with pandas


_COQUI = Profile(
    "metadata_{split}.csv",
    (("audio_file", "path"), ("text", "text"), ("speaker_name", "speaker")),
    header=True,
    quoted=True,
    flac=True,
)
_STYLETTS2 = Profile(
    "{split}_list.txt",
    (("path", "path"), ("text", "text"), ("speaker", "number")),
    flac=True,
    lossy=True,
    numbered=True,
    phonemes=True,
)
PROFILES: Mapping[Name, Profile] = {
    "ljspeech": Profile(
        "{split}/metadata.csv",
        (("id", "id"), ("text", "text"), ("normalised", "normalised")),
    ),
    "hf_audiofolder": Profile(
        "{split}/metadata.csv",
        (
            ("file_name", "path"),
            ("transcription", "text"),
            ("speaker", "speaker"),
            ("language", "language"),
        ),
        separator=",",
        header=True,
        quoted=True,
        flac=True,
        lossy=True,
        readme=True,
    ),
    "f5": Profile(
        "{split}/metadata.csv",
        (("audio_file", "path"), ("text", "text")),
        header=True,
        quoted=True,
        flac=True,
    ),
    "gpt_sovits": Profile(
        "{split}.list",
        (
            ("vocal_path", "path"),
            ("speaker_name", "speaker"),
            ("language", "language"),
            ("text", "text"),
        ),
        tabs=False,  # its next list separates fields by them
        bare_language=True,
    ),
    "piper": Profile(
        "{split}/metadata.csv",
        (("path", "path"), ("speaker", "speaker"), ("text", "text")),
        quoted=True,
        flac=True,
        lossy=True,
        one_voice=True,
        phonemes=True,
    ),
    "coqui": _COQUI,
    "styletts2": _STYLETTS2,
    "kokoro": _STYLETTS2,
    "xtts": _COQUI,
    "vits": Profile(
        "{split}_filelist.txt",
        (("path", "path"), ("speaker", "number"), ("text", "text")),
        one_voice=True,
        numbered=True,
    ),
}

#: Characters that end a line for some reader; a run of them in a text becomes one blank.
_BREAKS = "\n\r\v\f\x1c-\x1e\x85\u2028\u2029"

#: What `pandas.read_csv` reads as missing, quoted or not, unless a blank follows.
_MISSING = frozenset(
    (
        *("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
        *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
    )
)


class Writer:
    """Lines of one list."""

    def __init__(
        self, profile: Profile, columns: Sequence[Field], file: TextIO, more: Sequence[str] = ()
    ) -> None:
        """`more`: names of columns after those of the profile."""
        self._profile, self._columns, self._more, self._file = profile, columns, more, file
        separators = "" if profile.quoted else re.escape(profile.separator)
        separators += "" if profile.tabs else "\t"
        self._unfit = re.compile(rf" *[{_BREAKS}{separators}]+ *")
        self._csv = csv.writer(file, delimiter=profile.separator, lineterminator="\n")

    def write(self, fields: Mapping[Field, str], more: Sequence[str] = ()) -> None:
        self._put([*(self._said(fields[name]) for name in self._columns), *map(self._said, more)])

    def write_header(self) -> None:
        if self._profile.header:
            headers = [header for header, name in self._profile.columns if name in self._columns]
            self._put([*headers, *self._more])

    def _said(self, text: str) -> str:
        """A field that its reader keeps: pandas takes some words for a missing value."""
        text = self._unfit.sub(" ", text).strip()
        return f"{text} " if self._profile.readme and text in _MISSING else text

    def _put(self, line: list[str]) -> None:
        if self._profile.quoted:
            self._csv.writerow(line)
        else:
            self._file.write(self._profile.separator.join(line) + "\n")


VERSION = 1
COLUMNS = _wavs.COLUMNS
LISTED = ("id", "dataset", "text", "speaker", "language")
LISTS = (".csv", ".list", ".txt")
check_weights, rates = _clips.check_weights, _clips.rates
UNKNOWN = "unknown"
PHONEMES = "phonemes"  # the column of the rule of that name
#: F5-TTS' `CustomDataset` (model/dataset.py) and GPT-SoVITS' `TextAudioSpeakerLoader` have their
#: bounds in the code; XTTS' `GPTArgs` counts samples at 22050 Hz; VITS' `TextAudioLoader`
#: (data_utils.py) takes texts as the list has them.
#: The others take any length, but a line such as `id||` teaches a voice nothing.
TEXT = Bound("", "min", "characters", 1)
LIMITS = {
    "ljspeech": ReaderLimits("LJSpeech's layout", "", (TEXT,)),
    "f5": ReaderLimits(
        "F5-TTS",
        "model/dataset.py",
        (TEXT, Bound("duration", "min", "seconds", 0.3), Bound("duration", "max", "seconds", 30.0)),
    ),
    "gpt_sovits": ReaderLimits(
        "GPT-SoVITS",
        "module/data_utils.py",
        (TEXT, Bound("duration", "min", "seconds", 0.6), Bound("duration", "max", "seconds", 54.0)),
        languages=("zh", "ja", "en", "ko", "yue"),  # `prepare_datasets/1-get-text.py`
    ),
    "piper": ReaderLimits("Piper", "", (TEXT,)),
    "coqui": ReaderLimits("coqui-tts", "", (TEXT,)),
    "styletts2": ReaderLimits("StyleTTS2", "", (TEXT,)),
    "kokoro": ReaderLimits("Kokoro's trainer", "", (TEXT,)),
    "xtts": ReaderLimits(
        "XTTS' trainer", "GPTArgs", (TEXT, Bound("max_wav_length", "max", "seconds", 11.6))
    ),
    "vits": ReaderLimits(
        "VITS",
        "data",
        (
            Bound("min_text_len", "min", "characters", 1),
            Bound("max_text_len", "max", "characters", 190),
        ),
    ),
}
HEADERS = ("file_name,", "audio_file|")  # beginnings of lists that have one
FOLDER_GROUPS, FOLDER_CLIPS = 50, 1000
#: How each profile's trainer reads the files, with the sample rate of its published settings.
TRAINERS = {
    "ljspeech": "What reads LJSpeech takes the folder metadata_csv/{split} as it is (22050 Hz).",
    "hf_audiofolder": 'datasets.load_dataset("metadata_csv", split="{split}"), as it is.',
    "f5": "F5-TTS (24000 Hz): python -m f5_tts.train.datasets.prepare_csv_wavs THAT_LIST OUT",
    "gpt_sovits": "GPT-SoVITS (32000 Hz; zh ja en ko yue): THAT_LIST as its annotation file.",
    "piper": "Piper (22050 Hz): python -m piper.train fit --data.csv_path "
    "metadata_csv/{split}/metadata.csv --data.sample_rate {rate} --data.num_speakers …",
    "coqui": 'coqui-tts (22050 Hz): BaseDatasetConfig(formatter="coqui", path="metadata_csv", '
    'meta_file_train="metadata_{split}.csv")',
    "styletts2": "StyleTTS2 (24000 Hz): root_path metadata_csv, train_data "
    "metadata_csv/{split}_list.txt; its second column is IPA if transcribe.verdicts has phonemes.",
    "kokoro": "Kokoro's trainers read the lists of StyleTTS2 (24000 Hz): train_data "
    "metadata_csv/{split}_list.txt.",
    "xtts": 'XTTS (22050 Hz): BaseDatasetConfig(formatter="coqui", path="metadata_csv", '
    'meta_file_train="metadata_{split}.csv", language=…)',
    "vits": "VITS (data.sampling_rate {rate}): python preprocess.py --text_index 2 --filelists "
    "THAT_LIST; it makes phonemes. --text_index 1 for one voice.",
}


class Settings(_clips.EncodedSettings):
    """Which trainer reads it, and how its audio is stored."""

    profile: Name = Threshold(
        "ljspeech",
        "Layout to write, by trainer: columns, separator, header, quotes, folders, names of lists.",
    )

    phonemes: bool | None = Threshold(
        None,
        "Whether lists have the column `phonemes` of the rule of that name in place of the text. "
        "Default: those of styletts2, kokoro and piper, if there is such a column.",
    )

    @model_validator(mode="after")
    def _refuse_what_is_not_read(self) -> Settings:
        profile = PROFILES[self.profile]
        if self.audio == "flac" and not profile.flac:
            raise ValueError(
                f"audio flac: readers of {self.profile} accept WAV only; set audio: wav"
            )
        if self.audio in _clips.LOSSY and not profile.lossy:
            also = " and FLAC" if profile.flac else ""
            raise ValueError(
                f"audio {self.audio}: readers of {self.profile} accept WAV{also} only; set "
                "audio: wav"
            )
        return self


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    home = f"metadata_csv/{split}/wavs"
    keys = rows["id"].to_pylist()
    return [f"{home}/{_folder(number, i)}{key}.{settings.audio}" for i, key in enumerate(keys)]


def _folder(number: int, index: int) -> str:
    """A clip's folder in `wavs/`, which the first clips of neighbouring output shards share."""
    place = number // FOLDER_GROUPS, index // FOLDER_CLIPS
    return "" if place == (0, 0) else f"{place[0]:05d}-{place[1]:03d}/"


def lists_annotations(settings: Settings) -> bool:
    """Only for `hf_audiofolder`: the readers of other profiles take no further columns."""
    return PROFILES[settings.profile].readme


def reader(settings: Settings) -> ReaderLimits | None:
    return LIMITS.get(settings.profile)


def snippet(settings: Settings) -> tuple[str, str]:
    return _lists.snippet("csv", TRAINERS[settings.profile])


write, check = _wavs.write, _wavs.check


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    """Write the list of each split, and the files that explain them."""
    profile = PROFILES[settings.profile]
    voices = Voices(home)
    columns = [field for _, field in profile.columns]
    if profile.one_voice and len(voices.numbers) < 2:
        columns = [field for field in columns if field not in ("speaker", "number")]
    root = home / "metadata_csv"
    more = _free.listed(home) if lists_annotations(settings) else []
    spoken = _phonemes(home, settings)
    for split, clips in _lists.clips(shards, home, (*LISTED, *spoken, *more)):
        path = root / profile.list.format(split=split)
        with path.open("w", encoding="utf-8", newline="") as file:
            lines = Writer(profile, columns, file, more)
            lines.write_header()
            folder = f"{path.parent.relative_to(home).as_posix()}/"
            for name, row in clips:
                lines.write(_fields(name, folder, row, voices, profile), _told(row, more))
    if profile.numbered:
        numbers = json.dumps(voices.numbers, ensure_ascii=False, indent=1)
        write_atomic(root / "speakers.json", f"{numbers}\n".encode())
    if profile.readme:
        _lists.write_splits(shards, root, "{split}/**")


def needs(settings: Settings) -> tuple[str, ...]:
    return (PHONEMES,) if settings.phonemes else ()


def _phonemes(home: Path, settings: Settings) -> tuple[str, ...]:
    """The column in place of the text, if there is to be one."""
    if settings.phonemes is None and PROFILES[settings.profile].phonemes:
        named = PHONEMES in tables.schema(home / UTTERANCES_FILE).names
        return (PHONEMES,) if named else ()
    return needs(settings)


def _fields(
    clip: str, folder: str, row: ClipRow, voices: Voices, profile: Profile
) -> dict[Field, str]:
    spoken = str(row.get(PHONEMES) or "")
    text, language, speaker = row["text"] or "", row["language"] or "", row["speaker"]
    name = voices.name(row["dataset"], speaker)
    return {
        "id": clip.split("/", 3)[3].rpartition(".")[0],  # in `wavs/`
        "path": clip.removeprefix(folder),
        "text": spoken or text,
        "normalised": scoring.figures_read(text, language),
        "speaker": "" if profile.readme and not speaker else name,
        "number": str(voices.numbers[name]),
        "language": language_codes.base(language) if profile.bare_language else language,
    }


def _told(row: ClipRow, more: Sequence[str]) -> list[str]:
    """Cells of what `package.publish` names: texts as they are, lists as JSON."""
    columns: AnyRow = row
    values = (columns[name] for name in more)
    return [
        value or "" if value is None or isinstance(value, str) else json.dumps(value)
        for value in values
    ]


class Voices:
    """The speakers of a version, and their names in lists: a source's names belong to its dataset.

    A name is on one line and has no separator: one that must be changed for that gets a hash.
    """

    def __init__(self, home: Path) -> None:
        pairs = set[tuple[str, str]]()
        for part in tables.row_groups(home / UTTERANCES_FILE, ["dataset", "speaker"]):
            distinct = part.group_by(["dataset", "speaker"]).aggregate([]).to_pylist()
            pairs |= {(row["dataset"], row["speaker"] or "") for row in distinct}
        homes: dict[str, set[str]] = {}
        for dataset, speaker in pairs:
            homes.setdefault(speaker, set()).add(dataset)
        self._shared = {speaker for speaker, datasets in homes.items() if len(datasets) > 1}
        self.name = cache(self._name)
        names = sorted({self.name(*pair) for pair in pairs})
        self.numbers = {name: number for number, name in enumerate(names)}

    def _name(self, dataset: str, speaker: str | None) -> str:
        if not speaker:
            return UNKNOWN
        shared = speaker in self._shared and not ids.OVER_ALL.fullmatch(speaker)
        plain = escaped(f"{dataset}_{speaker}" if shared else speaker).replace("|", "_").strip()
        if plain == speaker != UNKNOWN:
            return speaker
        digest = hashlib.sha256(f"{dataset}\0{speaker}".encode()).hexdigest()
        return f"{plain}-{digest[:8]}"


def listing(home: Path, split: str, head: str) -> list[str]:
    """The lines of the lists, with the full path of each clip; a header comes once."""
    root = home / "metadata_csv"
    lines_of_all: list[str] = []
    for pattern in sorted({profile.list for profile in PROFILES.values()}):
        for path in sorted(root.glob(pattern.format(split=split))):
            lines = path.read_text("utf-8").split("\n")[:-1]
            folder = path.parent.relative_to(home).as_posix()
            header = lines[0].startswith(HEADERS)
            lines_of_all += lines[: header and not lines_of_all]
            lines_of_all += [_placed(line, folder, head) for line in lines[header:]]
    return lines_of_all


def _placed(line: str, folder: str, head: str) -> str:
    """`id|…` or `path|…`: neither holds a separator."""
    name = re.split("[|,]", line, maxsplit=1)[0]
    inside = name if "." in name else f"wavs/{name}"
    return _lists.under(head, f"{folder}/{inside}") + line[len(name) :]
