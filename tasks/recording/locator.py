"""Entries of a source's listing: recordings, where their bytes are, and their segments. Treat them
as immutable; use `dataclasses.replace`. Types with millions of objects are not frozen: that takes
six times as long to make, half of a listing's time."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

#: Numbers of a file's channels, from 0, in order.
Channels = tuple[int, ...]
#: Names and values, in the order in which the source's settings name them.
Labels = tuple[tuple[str, str], ...]
#: Names under which labels carry a second text of a clip, such as a translation, and its language.
SECOND = SECOND_TEXT, SECOND_LANGUAGE = "second_text", "second_language"


@dataclass(slots=True, unsafe_hash=True)
class Locator:
    """Where the encoded bytes of a recording are.

    A whole file (`path`), a byte range of it (`offset`, `length`: a tar member), or a cell of a
    Parquet file (`row`, `column`). `path` may hold surrogate escapes for names that are not UTF-8
    (`os.fsdecode`); `dumps` preserves them. `track`: audio track, from 0; None: the one flagged as
    default, or the first that is not silent. `channels`: channels to decode; None: all. `or_only`:
    if the file has a single channel, take that one. `apart` (the setting, apart or auto) and
    `every_track`: divide the file when it is probed. `silenced`: read NaN and infinite samples as
    zero; None: they are an error. `headerless`: extension of a file without a header, as in
    `file_kinds.headerless`. `packing`: `zip`, `gzip` or `zstd`. In a ZIP archive, `offset` is
    the member's header and `length` its packed bytes; `unpacked` and `crc` are its size and
    checksum. In a compressed tar, `offset` and `length` count unpacked bytes.
    `inside`: the length of the part of `path` that names a folder; a link that leads out of it is
    not followed.
    """

    path: str
    offset: int | None = None
    length: int | None = None
    row: int | None = None
    column: str | None = None
    track: int | None = None
    channels: Channels | None = None
    or_only: bool | None = None
    apart: str | None = None
    every_track: bool | None = None
    silenced: bool | None = None
    packing: str | None = None
    unpacked: int | None = None
    crc: int | None = None
    headerless: str | None = None
    inside: int | None = None

    def dumps(self) -> str:
        """JSON without the fields that are None."""
        slots = self.__slots__
        return json.dumps({n: value for n in slots if (value := getattr(self, n)) is not None})

    @classmethod
    def loads(cls, text: str) -> Locator:
        fields = json.loads(text)
        if "channels" in fields:
            fields["channels"] = tuple(fields["channels"])
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class TimedWord:
    """A word as the source writes it, and its time in seconds of the recording."""

    word: str
    start: float
    end: float


@dataclass(slots=True, unsafe_hash=True)
class Segment:
    """A span of a recording that the source names, in seconds; `end` None means to the end.
    `words`: its words with times, in order, if the source has them. `channels`: the file's channels
    that the segment belongs to; None: unstated. `labels` do not count in comparisons. `rough`:
    how far its times may be from those of the speech, s; captions are shown about then."""

    start: float
    end: float | None
    source_id: str | None = None
    text: str | None = None
    speaker: str | None = None
    language: str | None = None
    words: tuple[TimedWord, ...] | None = None
    channels: Channels | None = None
    labels: Labels = field(default=(), compare=False)
    rough: float = 0.0


@dataclass(slots=True, unsafe_hash=True)
class Recording:
    """One recording as listed. `path` is its name in the dataset: relative, unique, stable.

    `source_path` is the original path for people (an absolute path, or `archive.tar!member`).
    `guard` changes whenever the bytes may have changed (`recording.guard`). `error` is (code,
    detail) if the listing already shows that the recording is unusable: a missing file, a Kaldi
    pipe. `length`: use only this many seconds from its start; None: all of it. `film_time`: the
    times of its segments are those of the container, in which its first sample may come late; else
    they count from that sample. `captions`: by_hand or automatic, if its segments are captions,
    whose times are rough.
    """

    path: str
    source_path: str
    locator: Locator
    size: int
    guard: str
    source_id: str | None = None
    text: str | None = None
    speaker: str | None = None
    language: str | None = None
    segments: tuple[Segment, ...] | None = None
    error: tuple[str, str] | None = None
    length: float | None = None
    labels: Labels = ()
    film_time: bool | None = None
    captions: str | None = None


@dataclass(frozen=True, slots=True)
class Ignored:
    """A file or member that a source skips: a stable reason, and a sentence for people. `members`:
    how many members of an archive it stands for; `path` is the first of them."""

    path: str
    reason: str
    detail: str = ""
    members: int = 1
