"""Lists of clips as voices' trainers read them, and one WAV or FLAC file a clip.

metadata_csv/<split>/wavs/<id>.wav      16-bit mono, at `resample.rate`

and the lists of the profile, one a split, as PROFILES has them. `normalised` is the text with its
numbers in words. Where a profile has no quotes, a separator in a text becomes a blank. `piper` and
`vits` have no speaker column if there is one voice. Numbers of speakers are explained in
`speakers.json`; a clip without a speaker has the speaker `unknown` (`hf_audiofolder`: none). A name
that two datasets give to their speakers follows the dataset's. If the rule `phonemes` makes IPA of
the texts, `styletts2`, `kokoro` and `piper` have it in place of the text, and other profiles if
`phonemes` says so. In `hf_audiofolder` a blank follows a text such as "None", which pandas would
take for missing, and what `package.publish` names has columns of its own: labels as they are, all
else as JSON.

The first groups of a split lie in `wavs/` itself, later ones in folders in it, so that no folder
has more than FOLDER_GROUPS * FOLDER_CLIPS files.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

import pyarrow as pa
from pydantic import model_validator

from .. import scoring, storage
from ..base import language_codes
from ..base.masking import escaped
from ..base.schema import UTTERANCES_FILE, AnyRow, ClipRow
from ..recording.names import OVER_ALL
from ..settings import Threshold
from ..storage import tables, write_atomic
from . import Bound, OutputShard, ReaderLimits, _clips, _lists

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
#: A line such as `id||` teaches a voice nothing.
TEXT = Bound("", "min", "characters", 1)


def _lasting(least: float, most: float) -> tuple[Bound, Bound]:
    low = Bound("duration", "min", "seconds", least)
    return low, replace(low, side="max", limit=most)


@dataclass(frozen=True, slots=True)
class Profile:
    """What a trainer's reader takes, from its own loading code. `columns`: header and content of
    each, in order. Where `quoted`, the reader uses Python's `csv`, so a text may hold separators
    and quotes; the others cut a line at each separator."""

    list: str  # of a split, in the format's folder, from which its paths start
    columns: dict[str, Field]
    trainer: str  # how it reads the files, with the sample rate of its published settings
    limits: ReaderLimits | None = None
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

    @property
    def unfit(self) -> re.Pattern[str]:
        """What a text must not hold, with the blanks around it."""
        separators = "" if self.quoted else re.escape(self.separator)
        separators += "" if self.tabs else "\t"
        return re.compile(rf" *[{_BREAKS}{separators}]+ *")


_LONGEST_TEXT = Bound("max_text_len", "max", "characters", 190)  # of VITS
_COQUI = Profile(
    "metadata_{split}.csv",
    {"audio_file": "path", "text": "text", "speaker_name": "speaker"},
    'coqui-tts (22050 Hz): BaseDatasetConfig(formatter="coqui", path="metadata_csv", '
    'meta_file_train="metadata_{split}.csv")',
    ReaderLimits("coqui-tts", "", (TEXT,)),
    header=True,
    quoted=True,
    flac=True,
)
_STYLETTS2 = Profile(
    "{split}_list.txt",
    {"path": "path", "text": "text", "speaker": "number"},
    "StyleTTS2 (24000 Hz): root_path metadata_csv, train_data metadata_csv/{split}_list.txt; its "
    "second column is IPA if transcribe.verdicts has phonemes.",
    ReaderLimits("StyleTTS2", "", (TEXT,)),
    flac=True,
    lossy=True,
    numbered=True,
    phonemes=True,
)
PROFILES: Mapping[Name, Profile] = {
    "ljspeech": Profile(
        "{split}/metadata.csv",
        {"id": "id", "text": "text", "normalised": "normalised"},
        "What reads LJSpeech takes the folder metadata_csv/{split} as it is (22050 Hz).",
        ReaderLimits("LJSpeech's layout", "", (TEXT,)),
    ),
    "hf_audiofolder": Profile(
        "{split}/metadata.csv",
        {
            **{"file_name": "path", "transcription": "text"},
            **{"speaker": "speaker", "language": "language"},
        },
        'datasets.load_dataset("metadata_csv", split="{split}"), as it is.',
        separator=",",
        header=True,
        quoted=True,
        flac=True,
        lossy=True,
        readme=True,
    ),
    "f5": Profile(
        "{split}/metadata.csv",
        {"audio_file": "path", "text": "text"},
        "F5-TTS (24000 Hz): python -m f5_tts.train.datasets.prepare_csv_wavs THAT_LIST OUT",
        # In the code of its `CustomDataset`.
        ReaderLimits("F5-TTS", "model/dataset.py", (TEXT, *_lasting(0.3, 30.0))),
        header=True,
        quoted=True,
        flac=True,
    ),
    "gpt_sovits": Profile(
        "{split}.list",
        {
            **{"vocal_path": "path", "speaker_name": "speaker"},
            **{"language": "language", "text": "text"},
        },
        "GPT-SoVITS (32000 Hz; zh ja en ko yue): THAT_LIST as its annotation file.",
        # In the code of its `TextAudioSpeakerLoader`; languages: `prepare_datasets/1-get-text.py`.
        ReaderLimits(
            *("GPT-SoVITS", "module/data_utils.py", (TEXT, *_lasting(0.6, 54.0))),
            languages=("zh", "ja", "en", "ko", "yue"),
        ),
        tabs=False,  # its next list separates fields by them
        bare_language=True,
    ),
    "piper": Profile(
        "{split}/metadata.csv",
        {"path": "path", "speaker": "speaker", "text": "text"},
        "Piper (22050 Hz): python -m piper.train fit --data.csv_path metadata_csv/{split}/"
        "metadata.csv --data.sample_rate {rate} --data.num_speakers …",
        ReaderLimits("Piper", "", (TEXT,)),
        quoted=True,
        flac=True,
        lossy=True,
        one_voice=True,
        phonemes=True,
    ),
    "coqui": _COQUI,
    "styletts2": _STYLETTS2,
    "kokoro": replace(
        _STYLETTS2,
        trainer="Kokoro's trainers read the lists of StyleTTS2 (24000 Hz): train_data "
        "metadata_csv/{split}_list.txt.",
        limits=ReaderLimits("Kokoro's trainer", "", (TEXT,)),
    ),
    "xtts": replace(
        _COQUI,
        trainer='XTTS (22050 Hz): BaseDatasetConfig(formatter="coqui", path="metadata_csv", '
        'meta_file_train="metadata_{split}.csv", language=…)',
        # It counts samples at 22050 Hz.
        limits=ReaderLimits(
            "XTTS' trainer", "GPTArgs", (TEXT, Bound("max_wav_length", "max", "seconds", 11.6))
        ),
    ),
    "vits": Profile(
        "{split}_filelist.txt",
        {"path": "path", "speaker": "number", "text": "text"},
        "VITS (data.sampling_rate {rate}): python preprocess.py --text_index 2 --filelists "
        "THAT_LIST; it makes phonemes. --text_index 1 for one voice.",
        # `TextAudioLoader` (data_utils.py) takes texts as the list has them.
        ReaderLimits("VITS", "data", (replace(TEXT, setting="min_text_len"), _LONGEST_TEXT)),
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


VERSION = 1
COLUMNS = _clips.FILE_COLUMNS
LISTED = ("id", "dataset", "text", "speaker", "language")
LISTS = (".csv", ".list", ".txt")
check_weights, rates = _clips.check_weights, _clips.rates
UNKNOWN = "unknown"
PHONEMES = "phonemes"  # the column of the rule of that name
HEADERS = ("file_name,", "audio_file|")  # beginnings of lists that have one
FOLDER_GROUPS, FOLDER_CLIPS = 50, 1000


class Settings(_clips.EncodedSettings):
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
        lossy = self.audio in _clips.LOSSY and not profile.lossy
        if lossy or (self.audio == "flac" and not profile.flac):
            accepted = "WAV and FLAC" if profile.flac else "WAV"
            raise ValueError(
                f"audio {self.audio}: readers of {self.profile} accept {accepted} only; set "
                "audio: wav"
            )
        return self


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    """The first clips of neighbouring output shards share a folder in `wavs/`."""
    paths = []
    for index, key in enumerate(rows["id"].to_pylist()):
        place = number // FOLDER_GROUPS, index // FOLDER_CLIPS
        folder = "" if place == (0, 0) else f"{place[0]:05d}-{place[1]:03d}/"
        paths.append(f"metadata_csv/{split}/wavs/{folder}{key}.{settings.audio}")
    return paths


def lists_annotations(settings: Settings) -> bool:
    """Only for `hf_audiofolder`: the readers of other profiles take no further columns."""
    return PROFILES[settings.profile].readme


def reader(settings: Settings) -> ReaderLimits | None:
    return PROFILES[settings.profile].limits


def snippet(settings: Settings) -> tuple[str, str]:
    return _lists.snippet("csv", PROFILES[settings.profile].trainer)


write, check = _clips.write, _clips.check


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    profile = PROFILES[settings.profile]
    voices = Voices(home)
    listed = profile.columns
    if profile.one_voice and len(voices.numbers) < 2:
        listed = {name: of for name, of in listed.items() if of not in ("speaker", "number")}
    root, unfit = home / "metadata_csv", profile.unfit
    more = _lists.published(home) if lists_annotations(settings) else []
    spoken = needs(settings)
    if settings.phonemes is None and profile.phonemes:
        schema = tables.schema(home / UTTERANCES_FILE)
        spoken = (PHONEMES,) if PHONEMES in schema.names else ()
    for split, clips in _lists.clips(shards, home, (*LISTED, *spoken, *more)):
        path = root / profile.list.format(split=split)
        folder = f"{path.parent.relative_to(home).as_posix()}/"
        quoting: Any = {} if profile.quoted else {"quoting": csv.QUOTE_NONE, "quotechar": None}
        with path.open("w", encoding="utf-8", newline="") as file:
            out = csv.writer(file, delimiter=profile.separator, lineterminator="\n", **quoting)
            if profile.header:
                out.writerow([*listed, *more])
            for name, row in clips:
                fields, columns = _fields(name, folder, row, voices, profile), cast(AnyRow, row)
                given = ("" if columns[one] is None else columns[one] for one in more)
                # Texts as they are, lists as JSON.
                beside = (one if isinstance(one, str) else json.dumps(one) for one in given)
                cells = (*(fields[of] for of in listed.values()), *beside)
                out.writerow([_cell(text, unfit, profile.readme) for text in cells])
    if profile.numbered:
        numbers = json.dumps(voices.numbers, ensure_ascii=False, indent=1)
        write_atomic(root / "speakers.json", f"{numbers}\n".encode())
    if profile.readme:
        _lists.write_splits(shards, root, "{split}/**")


def _cell(text: str, unfit: re.Pattern[str], by_pandas: bool) -> str:
    cell = unfit.sub(" ", text).strip()
    return f"{cell} " if by_pandas and cell in _MISSING else cell


def needs(settings: Settings) -> tuple[str, ...]:
    return (PHONEMES,) if settings.phonemes else ()


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
        shared = speaker in self._shared and not OVER_ALL.fullmatch(speaker)
        plain = escaped(f"{dataset}_{speaker}" if shared else speaker).replace("|", "_").strip()
        if plain == speaker != UNKNOWN:
            return speaker
        digest = hashlib.sha256(f"{dataset}\0{speaker}".encode()).hexdigest()
        return f"{plain}-{digest[:8]}"


def listing(home: Path, split: str, head: str) -> list[str]:
    """The lines of the lists, with the full path of each clip; a header comes once."""
    full: list[str] = []
    for pattern in sorted({profile.list for profile in PROFILES.values()}):
        for path in sorted((home / "metadata_csv").glob(pattern.format(split=split))):
            lines = storage.read(path).decode().split("\n")[:-1]
            folder = path.parent.relative_to(home).as_posix()
            header = lines[0].startswith(HEADERS)
            full += lines[: header and not full]
            for line in lines[header:]:
                # `id|…` or `path|…`: neither holds a separator.
                name = re.split("[|,]", line, maxsplit=1)[0]
                inside = name if "." in name else f"wavs/{name}"
                full.append(_lists.under(head, f"{folder}/{inside}") + line[len(name) :])
    return full
