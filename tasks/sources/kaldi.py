"""A Kaldi data folder: `wav.scp`, and `text`, `segments`, `utt2spk` and `reco2file_and_channel` if
they exist.

With `segments`, a recording carries its utterances; one without any carries an empty tuple, as
Kaldi does not use it.
"""

import os
import re
import stat
import struct
from array import array
from dataclasses import dataclass, field, replace
from typing import BinaryIO, Literal

from pydantic import Field

from .. import storage
from ..base.errors import ItemError
from ..recording import Ignored, Locator, Recording, Segment, unreachable
from ..recording.file_kinds import known
from ..recording.guard import display_path, of_file
from ..recording.locator import Channels
from ..recording.names import display_text, recording_name, safe_name
from ..recording.tracks import channel_side
from ..settings.base import READ
from ..storage import urls
from . import _lists
from ._columns import channels_field
from ._folders import key_of, not_listed, some_below
from ._lists import Entries, SpeakerSettings
from ._paths import Boundary, list_file, list_root, resolve, source_root

SIDES = "reco2file_and_channel"


class Settings(SpeakerSettings):
    kind: Literal["kaldi"] = "kaldi"
    root: str | None = Field(
        None,
        description="Folder that relative paths in wav.scp start from; default: path.",
        json_schema_extra=READ,
    )


@dataclass
class _Tables:
    """The optional files by utterance, and what was used of them."""

    text: dict[str, str | None] = field(default_factory=dict)
    speaker: dict[str, str | None] = field(default_factory=dict)
    segments: dict[str, list[Segment]] | None = None
    utterances: set[str] = field(default_factory=set)
    channels: dict[str, Channels | None] = field(default_factory=dict)


def gives(settings: Settings) -> str:
    folder, _ = source_root(settings.path)
    roles = {"text": "text", "speaker": "utt2spk", "times": "segments", "channel": SIDES}
    parts = (f"{role} from {n}" for role, n in roles.items() if urls.named(f"{folder}/{n}"))
    return ", ".join(["Kaldi: audio from wav.scp", *parts])


def recordings(settings: Settings) -> Entries:
    folder, status = source_root(settings.path)
    if not stat.S_ISDIR(status.st_mode):
        raise _lists.refusal(settings.path, "is not a Kaldi data folder")
    present = {n for n in ("text", "utt2spk", "segments", SIDES) if urls.named(f"{folder}/{n}")}
    boundary = Boundary(folder, settings.follow_links or storage.is_url(folder))
    for name in ("wav.scp", *sorted(present)):
        path = list_file(os.path.join(folder, name))
        if outside := boundary.outside(path):
            raise _lists.refusal(
                settings.path,
                f": {name} is a link that leads out of it, to {display_text(outside)}; set "
                "`follow_links: true` to read it",
            )
    root = list_root(os.path.join(folder, "wav.scp"), settings.root)
    return _list(folder, root, present)


def _list(folder: str, root: str, present: set[str]) -> Entries:
    tables, sides = _Tables(), dict[str, str | None]()
    for file, table in (("text", tables.text), ("utt2spk", tables.speaker), (SIDES, sides)):
        if file in present:
            yield from _table(os.path.join(folder, file), table)
    written = {key: (rest or "").split() for key, rest in sides.items()}
    names = {fields[1] for fields in written.values() if len(fields) == 2}
    tables.channels = {k: channel_side(f[1], names) for k, f in written.items() if len(f) == 2}
    if "segments" in present:
        tables.segments = {}
        yield from _segments(os.path.join(folder, "segments"), tables)
    keys: set[str] = set()
    named = array("q")
    for entry in _recordings(os.path.join(folder, "wav.scp"), root, tables, keys):
        if isinstance(entry, Recording):
            named.append(key_of(folder, os.path.normpath(entry.locator.path)))
        yield entry
    yield from _orphans(tables, keys)
    # Audio in the folder that no line names; most such folders hold none, and many other files.
    if not storage.is_url(folder) and next(some_below(folder, known, depth=100), None):
        yield from not_listed(folder, named)


def _split(line: str) -> tuple[str, str]:
    """(key, rest). Kaldi separates by spaces and tabs; the rest may contain more of them."""
    key, *rest = re.split(r"[ \t]+", line.strip(" \t\r"), maxsplit=1)
    return key, rest[0] if rest else ""


def _table(path: str, into: dict[str, str | None]) -> Entries:
    for number, line in urls.lines(path):
        if line is None:
            yield _lists.bad_line(path, number, "the line is too long")
            continue
        key, rest = _split(line)
        if key in into:
            text = rest.strip() if os.path.basename(path) == "text" else None
            yield Ignored(
                _entry(path, key, number), _lists.again("duplicate_key", into[key], text or None)
            )
            continue
        try:
            into[key] = _lists.text_field(rest)
        except ValueError as error:
            yield _lists.bad_line(path, number, error)


def _entry(path: str, key: str, number: int) -> str:
    return recording_name(f"{os.path.basename(path)}:{number}:{key}")


def _segments(path: str, tables: _Tables) -> Entries:
    assert tables.segments is not None
    for number, line in urls.lines(path):
        fields = re.split(r"[ \t]+", line.strip(" \t\r")) if line is not None else []
        if len(fields) not in (4, 5):
            yield _lists.bad_line(path, number, "not `utterance recording start end [channel]`")
            continue
        utterance, recording, start, end, *channel = fields
        if utterance in tables.utterances:
            yield Ignored(_entry(path, utterance, number), "duplicate_key")
            continue
        try:
            begin, finish = _lists.checked_span(
                _lists.seconds_field(start), _lists.seconds_field(end)
            )
            channels = channels_field(channel)
            if channel and channels is None:
                raise ValueError(f"{channel[0][:20]!r} is not a channel; they count from 0")
        except ValueError as error:
            yield _lists.bad_line(path, number, error)
            continue
        tables.utterances.add(utterance)
        segment = Segment(
            begin,
            finish,
            display_text(utterance),
            tables.text.get(utterance),
            tables.speaker.get(utterance),
            channels=channels,
        )
        tables.segments.setdefault(recording, []).append(segment)


def _recordings(scp: str, root: str, tables: _Tables, keys: set[str]) -> Entries:
    for number, line in urls.lines(scp):
        if line is None:
            yield _lists.bad_line(scp, number, "the line is too long")
            continue
        key, written = _split(line)
        if key in keys:
            yield Ignored(_entry(scp, key, number), "duplicate_key")
            continue
        keys.add(key)
        yield _recording(scp, root, tables, key, written)


def _recording(scp: str, root: str, tables: _Tables, key: str, written: str) -> Recording:
    path = safe_name(key)
    source_path = display_path(scp)
    if written.endswith("|") or written.startswith("|") or written == "-":
        return _lists.failed(path, source_path, scp, "unsupported", PIPE)
    if not written.strip():  # a vertical tab, say, which Kaldi does not split at
        return _lists.failed(
            path, source_path, scp, "unreadable", "wav.scp names no file for this key"
        )
    try:
        file = resolve(root, written)
    except ItemError as wrong:
        return _lists.failed(path, source_path, scp, wrong.code, wrong.detail)
    recording = of_file(path, file)
    place = _PLACE.fullmatch(file)
    if recording.error and recording.error[0] == "missing" and place:
        recording = _in_ark(path, place)
    segments = None if tables.segments is None else tuple(tables.segments.get(key, ()))
    locator, channels = recording.locator, tables.channels.get(key)
    if channels is not None:  # `or_only`: `wav.scp` may name a file of that side alone
        locator = replace(locator, channels=channels, or_only=True)
    return replace(
        recording,
        locator=locator,
        source_id=display_text(key),
        text=tables.text.get(key) if segments is None else None,
        speaker=tables.speaker.get(key),
        segments=segments,
    )


def _orphans(tables: _Tables, keys: set[str]) -> Entries:
    """Entries of the optional files about recordings or utterances that do not exist."""
    for recording, segments in (tables.segments or {}).items():
        if recording not in keys:
            for segment in segments:
                yield Ignored(recording_name(f"segments:{segment.source_id}"), "no_recording")
    utterances = keys if tables.segments is None else tables.utterances
    for name, table in (("text", tables.text), ("utt2spk", tables.speaker)):
        for key in table:
            if key not in utterances and not (name == "utt2spk" and key in keys):
                yield Ignored(recording_name(f"{name}:{key}"), "no_utterance")


# Audio in Kaldi archives, by the offset that `wav.scp` gives: `wav.ark:1234`.

_PLACE = re.compile(r"(?P<file>.+):(?P<offset>\d{1,18})(?P<range>\[.*\])?", re.DOTALL)
_STREAMED = (0, 0x7FFFF000 + 36, 0xFFFFFFFF)  # sizes in the header of a piped WAV
_HEAD = 16  # bytes
PIPE = (
    "a pipe in wav.scp is never run; where you trust its commands, run them once: "
    "`wav-copy scp:wav.scp ark,scp:$PWD/wav.ark,new.scp`, and take new.scp for wav.scp"
)


def _in_ark(name: str, place: re.Match[str]) -> Recording:
    """The recording at an offset; failed if no audio is there."""
    path, offset = place["file"], int(place["offset"])
    whole = of_file(name, path)
    if whole.error:
        return whole
    named = replace(whole, source_path=f"{display_path(path)}:{offset}", size=0)
    try:
        if place["range"]:
            raise ItemError("unsupported", "a range of an archive's entry; put it into `segments`")
        with unreachable.opened(path) as file:
            start, length = _audio(file, offset)
            if start + length > file.seek(0, os.SEEK_END):
                raise ItemError("truncated", "the archive ends within it")
    except ItemError as error:
        return replace(named, error=(error.code, error.detail))
    return replace(named, size=length, locator=Locator(path, offset=start, length=length))


def _audio(file: BinaryIO, offset: int) -> tuple[int, int]:
    """(start, size) of the audio, in bytes: a WAV as `wav-copy` writes it, or any file after its
    length, as kaldiio writes it. Raises ItemError."""
    file.seek(offset)
    head = file.read(_HEAD)
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        [size] = struct.unpack_from("<L", head, 4)
        if size in _STREAMED:
            what = "a WAV without its length in the header; copy the archive with wav-copy"
            raise ItemError("unsupported", what)
        return offset, size + 8
    if head[:5] == b"AUDIO" and len(head) == _HEAD and 0 < head[5] <= 8:
        return offset + 6 + head[5], int.from_bytes(head[6 : 6 + head[5]], "little")
    what = "matrices" if head[:2] == b"\0B" else "no WAV"
    raise ItemError("unsupported", f"{what} at this offset of the archive; audio is expected")
