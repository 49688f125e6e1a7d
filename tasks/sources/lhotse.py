"""Lhotse's cuts, `cuts.jsonl` or `cuts.jsonl.gz`: spans of recordings with supervisions.

    {"type": "MonoCut", "start": 5.0, "duration": 40.0, "recording": {"sources": [{"type": "file",
     "source": "a.wav"}], …}, "supervisions": [{"start": 5.0, "duration": 20.0, "text": …,
     "alignment": {"word": [["HELLO", 10.5, 0.4], …]}}]}

Each supervision is a segment, and a cut without any is one itself. Shar folders are read with
`kind: tar`. Labels are in `custom` of the supervision, in the supervision itself (`gender`), or in
`custom` of the cut: the first of these that has the name.
"""

import gzip
import zlib
from collections import ChainMap
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import BinaryIO, Literal, cast

from ..base.errors import ItemError
from ..recording import TimedWord
from ..recording.locator import Channels
from ..recording.names import display_text
from ..storage import bounds, urls
from . import _columns, _labels
from ._columns import LOOKED, channels_field
from ._lists import Entries, ListSettings, json_object, seconds_field, timed_words
from ._paths import list_file, list_root, text_list
from ._rows import Described, FileRow, Found, listed

PACKED = ".jsonl.gz"
#: Transforms that leave times and sound as they are.
HARMLESS = ("Resample",)
JOINED = ("MixedCut", "PaddingCut")
#: Keys of supervisions that are used, or that repeat what the recording says.
_USED = {"id", "recording_id", "start", "duration", "channel", "text", "language", "speaker"}
_USED |= {"alignment", "custom"}
_REMEDY = "save its sound (`CutSet.save_audios`) and list that"
SLACK = 0.5  # s; words may reach a little beyond their supervision


class Settings(_labels.LabelSettings, ListSettings):
    kind: Literal["lhotse"] = "lhotse"


def recordings(settings: Settings) -> Entries:
    path = _path(settings)
    rows, root = partial(_rows, path), list_root(path, settings.root)
    return listed(Found("lhotse", root, rows, (), whole=False), settings)


def notes(settings: Settings) -> list[str]:
    first = (row.what for row in islice(_rows(_path(settings)), LOOKED))
    stated = [what.record for what in first if isinstance(what, Described)]
    used = {*settings.kept_names, *_USED}
    given = {name for record in stated for name, value in record.items() if value is not None}
    roles = ", ".join(name for name in ("text", "speaker", "language", "channel") if name in given)
    words = " with times of words" if "alignment" in given else ""
    says = f"Lhotse's cuts: audio from 'recording', times{words}" + (roles and f", {roles}")
    says += " from the supervisions" + _columns.not_used(stated, used)
    return [says, *_labels.notes(stated, settings, "key")]


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
                yield from (FileRow(path, number, what) for what in _spans(json_object(line)))
            except (ItemError, ValueError) as error:
                yield FileRow(path, number, error)
    except ItemError as error:
        yield FileRow(path, number + 1, error)


def _spans(cut: dict[str, object]) -> Iterator[Described | ItemError | ValueError]:
    """A cut's supervisions, or the cut itself. ItemError or ValueError if none can be used."""
    audio, present = _source(cut)
    alone: dict[str, object] = {"id": cut.get("id"), "duration": cut.get("duration")}
    supervisions = cut.get("supervisions") or []
    if not isinstance(supervisions, list):
        raise ValueError("the supervisions are not a list")
    if not all(isinstance(one, dict) for one in supervisions):
        raise ValueError("a supervision is not an object")
    for one in supervisions or [alone]:
        try:
            yield _described(one, cut, audio, present)
        except (ItemError, ValueError) as error:
            yield error


def _described(
    one: dict[str, object], cut: dict[str, object], audio: str, present: Channels | None
) -> Described:
    """A supervision. `audio`: the cut's file as written; `present`: all channels of the file if
    stated."""
    start = _number(cut, "start")
    begin = start + (seconds_field(one.get("start")) or 0.0)
    end = begin + _number(one, "duration")
    channels = channels_field(one.get("channel", cut.get("channel")))
    return Described(
        audio,
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


def _stated(supervision: dict[str, object], cut: dict[str, object]) -> ChainMap[str, object]:
    """All values that may be labels; of equal names, the first counts."""
    of_both = supervision.get("custom"), supervision, cut.get("custom")
    return ChainMap(*(values for values in of_both if isinstance(values, dict)))


def _source(cut: dict[str, object]) -> tuple[str, Channels | None]:
    """The path of a cut's recording, as written, and all channels of its file if stated.
    ItemError or ValueError unless it is one file, and its sound that of the cut."""
    if cut.get("type") in JOINED:
        what = "a cut that is padded, or mixed or joined from several"
        raise ItemError("unsupported", f"{what}; {_REMEDY}")
    recording = cut.get("recording")
    sources = recording.get("sources") if isinstance(recording, dict) else None
    transforms = recording.get("transforms") if isinstance(recording, dict) else None
    for transform in transforms if isinstance(transforms, list) else ():
        name = transform.get("name") if isinstance(transform, dict) else None
        if name not in HARMLESS:
            what = f"a recording that lhotse changes by {display_text(str(name))[:40]}"
            raise ItemError("unsupported", f"{what} when it loads it; {_REMEDY}")
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
    words = timed_words(alignment.get("word")) if isinstance(alignment, dict) else None
    if not words:
        return None
    least, most = begin - SLACK, end + SLACK
    for moved in (0.0, offset):
        if least <= words[0].start + moved and words[-1].end + moved <= most:
            return tuple(TimedWord(w.word, w.start + moved, w.end + moved) for w in words)
    return None
