"""The layouts of `metadata_csv`: what each trainer's reader takes, from its own loading code.

A list's paths are relative to the list's own folder. Where `quoted`, the reader uses Python's
`csv`, so a text may hold separators and quotes; the others cut a line at each separator.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TextIO

Name = Literal[
    "ljspeech",
    "hf_audiofolder",
    "f5",
    "gpt_sovits",
    "piper",
    "coqui",
    "styletts2",
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
    bare_language: bool = False  # a code has no script and no region
    lossy: bool = False  # and Opus and MP3, as it decodes with libsndfile or FFmpeg
    one_voice: bool = False  # a corpus of one speaker has no column for it
    numbered: bool = False  # speakers are numbers, which `speakers.json` names
    readme: bool = False  # `datasets` learns the splits from a README.md, and reads with pandas


_COQUI = Profile(
    "metadata_{split}.csv",
    (("audio_file", "path"), ("text", "text"), ("speaker_name", "speaker")),
    header=True,
    quoted=True,
    flac=True,
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
        tabs=False,  # its next list parts fields by them
        bare_language=True,
    ),
    "piper": Profile(
        "{split}/metadata.csv",
        (("path", "path"), ("speaker", "speaker"), ("text", "text")),
        quoted=True,
        flac=True,
        lossy=True,
        one_voice=True,
    ),
    "coqui": _COQUI,
    "styletts2": Profile(
        "{split}_list.txt",
        (("path", "path"), ("text", "text"), ("speaker", "number")),
        flac=True,
        lossy=True,
        numbered=True,
    ),
    "xtts": _COQUI,
    "vits": Profile(
        "{split}_filelist.txt",
        (("path", "path"), ("speaker", "number"), ("text", "text")),
        one_voice=True,
        numbered=True,
    ),
}

#: What ends a line for some reader; such a run in a text becomes one blank.
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
        """`more`: names of columns behind those of the profile."""
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
        """A field as its reader gives it back: pandas takes some words for a missing value."""
        text = self._unfit.sub(" ", text).strip()
        return f"{text} " if self._profile.readme and text in _MISSING else text

    def _put(self, line: list[str]) -> None:
        if self._profile.quoted:
            self._csv.writerow(line)
        else:
            self._file.write(self._profile.separator.join(line) + "\n")
