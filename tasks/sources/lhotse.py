"""Lhotse's cuts, `cuts.jsonl` or `cuts.jsonl.gz`: spans of recordings with supervisions.

    {"type": "MonoCut", "start": 5.0, "duration": 40.0, "recording": {"sources": [{"type": "file",
     "source": "a.wav"}], …}, "supervisions": [{"start": 5.0, "duration": 20.0, "text": …,
     "alignment": {"word": [["HELLO", 10.5, 0.4], …]}}]}

Each supervision is a segment, and a cut without any is one itself. With word alignments, long
segments are cut at sentence ends. Shar folders hold their audio beside the cuts: read them with
`kind: tar`. Each channel that cuts or supervisions name is a recording of its own; where they name
all that the file has, it is their mix. A cut whose speed was changed fails: its times are not the
file's. Labels are in `custom` of the supervision, in the supervision itself (`gender`), or in
`custom` of the cut: the first of these that has the name.
"""

from __future__ import annotations

import gzip
import zlib
from collections import ChainMap
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import BinaryIO, Literal, cast

from ..base.errors import ItemError
from ..recording import TimedWord
from ..recording.locator import Channels
from ..storage import bounds, urls
from . import _labels
from ._channels import channels_field
from ._columns import LOOKED
from ._layouts.rows import Described, FileRow, Found
from ._lists import Entries, ListSettings, json_object, seconds_field, timed_words
from ._paths import list_file, list_root, text_list
from ._rows import listed

ALIGNMENT = "word"
PACKED = ".jsonl.gz"
RETIMED = ("Speed", "Tempo")  # transforms after which times are not those of the file
SLACK = 0.5  # s; words may reach a little beyond their supervision


class Settings(_labels.LabelSettings, ListSettings):
    kind: Literal["lhotse"] = "lhotse"


def recordings(settings: Settings) -> Entries:
    """Reads the list lazily. ConfigError at once if it cannot be read."""
    path = _path(settings)
    layout = Found("lhotse", list_root(path, settings.root), partial(_rows, path), (), whole=False)
    return listed(layout, settings.language, settings)


def gives(settings: Settings) -> str:
    return "Lhotse's cuts: audio from recording, text, speaker and language from supervisions"


def notes(settings: Settings) -> list[str]:
    """Labels that no supervision has."""
    names, records = settings.kept_names, list[ChainMap[str, object]]()
    with suppress(ItemError):  # `recordings` reports it
        for _, line in islice(lines(_path(settings)), LOOKED if names else 0):
            with suppress(ValueError):
                cut = json_object(line)
                records += [_stated(one, cut) for one in _supervisions(cut)]
    return _labels.notes(records, settings, "key")


def _path(settings: Settings) -> str:
    read = list_file if settings.path.endswith(".gz") else text_list
    return read(settings.path)


def lines(path: str) -> Iterator[tuple[int, str | None]]:
    """Numbered lines. ItemError where a compressed list breaks off, or expands too far."""
    if not path.endswith(".gz"):
        yield from urls.lines(path)
        return
    most = bounds.expanded(urls.status(path).st_size)
    with urls.streamed(path) as packed, gzip.open(packed) as plain:
        try:
            yield from urls.numbered(cast(BinaryIO, plain), most)
        except (OSError, EOFError, zlib.error):
            raise ItemError("unreadable", "the compressed list breaks off here") from None


def _rows(path: str) -> Iterator[FileRow]:
    number = 0
    try:
        for number, line in lines(path):
            try:
                yield from (FileRow(path, number, row) for row in _described(json_object(line)))
            except (ItemError, ValueError) as error:
                yield FileRow(path, number, error)
    except ItemError as error:
        yield FileRow(path, number + 1, error)


def _described(cut: dict[str, object]) -> Iterator[Described]:
    """A row for each supervision of a cut."""
    written, present = _source(cut.get("recording"))
    start, length = _number(cut, "start"), _number(cut, "duration")
    for one in _supervisions(cut) or [{"id": cut.get("id"), "duration": length}]:
        begin = start + (seconds_field(one.get("start")) or 0.0)
        end = begin + _number(one, "duration")
        channels = channels_field(one.get("channel", cut.get("channel")))
        yield Described(
            written,
            one.get("text"),
            one.get("speaker"),
            one.get("language"),
            one.get("id"),
            begin,
            end,
            channel=None if channels == present else channels,
            record=_stated(one, cut),
            words=_words(one.get("alignment"), begin, end, start),
        )


def _supervisions(cut: dict[str, object]) -> list[dict[str, object]]:
    supervisions = cut.get("supervisions") or []
    if not isinstance(supervisions, list):
        raise ValueError("the supervisions are not a list")
    if not all(isinstance(one, dict) for one in supervisions):
        raise ValueError("a supervision is not an object")
    return supervisions


def _stated(supervision: dict[str, object], cut: dict[str, object]) -> ChainMap[str, object]:
    """All values that may be labels; of equal names, the first counts."""
    of_both = supervision.get("custom"), supervision, cut.get("custom")
    return ChainMap(*(values for values in of_both if isinstance(values, dict)))


def _source(recording: object) -> tuple[str, Channels | None]:
    """The path of a recording, as written, and all channels of its file if stated. ValueError
    unless it is one file."""
    sources = recording.get("sources") if isinstance(recording, dict) else None
    transforms = recording.get("transforms") if isinstance(recording, dict) else None
    for transform in transforms if isinstance(transforms, list) else ():
        if isinstance(transform, dict) and transform.get("name") in RETIMED:
            raise ItemError("unsupported", f"a recording changed by {transform['name']}")
    if not isinstance(sources, list) or len(sources) != 1 or not isinstance(sources[0], dict):
        raise ValueError("the cut's recording must be one file")
    kind, written = sources[0].get("type"), sources[0].get("source")
    if kind not in ("file", "url") or not isinstance(written, str):
        raise ItemError("unsupported", f"a recording of type {kind!r}; only files are read")
    return written, channels_field(sources[0].get("channels"))


def _number(values: dict[str, object], name: str) -> float:
    number = seconds_field(values.get(name))
    if number is None:
        raise ValueError(f"{name} is missing")
    return number


def _words(
    alignment: object, begin: float, end: float, offset: float
) -> tuple[TimedWord, ...] | None:
    """Words in seconds of the recording. Lhotse leaves their times as they are when it moves a
    supervision; where they do not fit the recording's clock, the cut's is tried. None if they
    fit neither."""
    words = timed_words(alignment.get(ALIGNMENT)) if isinstance(alignment, dict) else None
    if not words:
        return None
    least, most = begin - SLACK, end + SLACK
    for moved in (0.0, offset):
        if least <= words[0].start + moved and words[-1].end + moved <= most:
            return tuple(TimedWord(w.word, w.start + moved, w.end + moved) for w in words)
    return None
