"""The texts of the recordings in one folder, matched by name and read in batches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from ... import storage
from ...base import language_codes
from ...base.errors import ItemError, MillError
from ...recording import Recording, unreachable
from ...recording.file_kinds import ReadFile, first_bytes, is_recording
from ...recording.names import display_text
from ...storage import regular
from .._text_encoding import BAD_TEXT
from .choice import MOST_BYTES, NOT_READ, Read, Texts, kind_of, read
from .cues import NoTranscript

AHEAD = 1024  # names whose texts are read at the same time
THREADS, THREADS_OF_STORE = 8, 32  # a share or a store answers many at once
LEAST = 32  # texts from which on threads pay
EARLY_BYTES = 64 << 10  # a larger text is read in its turn, so that few are in memory

READ, SECOND, ALONE, BAD, OTHER = (
    *("read_as_text", "second_text", "text_without_audio", BAD_TEXT, "no_transcript"),
)
TURNS, TURNS_SAY = "read_as_turns", "who speaks when, for `channels` and `speakers: {use: given}`"

Reason = tuple[str, str]  # why a file is skipped, and more in words


@dataclass(slots=True)
class _Found:
    """What the texts of one stem say; `waiting`: recordings that have yet to take it."""

    waiting: int
    read: Read | None = None
    error: str | None = None


@dataclass(slots=True)
class FolderTexts:
    """`home`: the folder's path or URL, ending in `/`; `names`: of all files in it; `read_file`:
    reads files in an archive; `opener`: opens files of a local folder."""

    home: str
    names: Iterable[str]
    texts: Texts
    read_file: ReadFile | None = None
    opener: regular.Opener = regular.read
    _recordings: dict[str, int] = field(default_factory=dict)  # stems, with how many have it
    _stems: dict[str, str] = field(default_factory=dict)  # of texts
    _turns: set[str] = field(default_factory=set)  # names of RTTM files
    _unread: bool = False  # subtitles of a kind that is not read lie beside a recording
    _near: dict[str, str] = field(default_factory=dict)  # endings that would make a text of a name
    _candidates: dict[str, list[str]] = field(default_factory=dict)  # by stem, best first
    _found: dict[str, _Found] = field(default_factory=dict)
    _reasons: dict[str, Reason] = field(default_factory=dict)  # by name
    _early: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        others = []
        for name in self.names:
            if is_recording(name, self.home + name, self._first_bytes):
                stem = os.path.splitext(name)[0]
                self._recordings[stem] = self._recordings.get(stem, 0) + 1
            else:
                others.append(name)
        turns = (name for name in others if name.endswith(".rttm"))
        self._turns = {name for name in turns if os.path.splitext(name)[0] in self._recordings}
        ranked: dict[str, list[tuple[int, str]]] = {}
        by_language: dict[str, list[tuple[int, str]]] = {}
        for name in others:
            for rank, stem in self._stems_of(name):
                if stem in self._recordings:
                    ranked.setdefault(stem, []).append((rank, name))
                    self._stems[name] = stem
                    break
                near, dot, language = stem.rpartition(".")
                if dot and near in self._recordings:  # `a.en.srt` beside `a.mp4`
                    self._near[name] = f"{language}{name[len(stem) :]}"
                    if self.texts.ext is None and _is_language(language):
                        by_language.setdefault(near, []).append((rank, name))
        for stem, files in by_language.items():
            # Of one language alone, and where nothing has the recording's own name.
            codes = {self._near[name].partition(".")[0].partition("-")[0] for _, name in files}
            if stem not in ranked and len(codes) == 1:
                ranked[stem] = files
                for _, name in files:
                    self._stems[name] = stem
                    del self._near[name]
        endings = ((name, *os.path.splitext(name)) for name in others)
        self._unread = any(
            ending[1:].lower() in NOT_READ and stem in self._recordings
            for _, stem, ending in endings
        )
        self._candidates = {stem: [name for _, name in sorted(r)] for stem, r in ranked.items()}

    def _first_bytes(self, path: str, most: int) -> bytes:
        if self.read_file is not None:
            return self.read_file(path, most)
        return first_bytes(path, most, self.opener)

    @property
    def any(self) -> bool:
        """Whether any recording has turns, a text, or a file with nearly the name of one."""
        return bool(self._candidates or self._near or self._turns or self._unread)

    def _stems_of(self, name: str) -> Iterable[tuple[int, str]]:
        """(rank of its ending, stem of the recordings) for each way to read a file as a text."""
        if kind_of(name) is None:
            return
        for rank, ending in enumerate(self.texts.endings):
            if name.lower().endswith(f".{ending.lower()}"):
                yield rank, name[: -len(ending) - 1]

    def ahead(self, names: Sequence[str]) -> None:
        """Read the texts of the next names."""
        stems = dict.fromkeys(self._stems.get(n) or os.path.splitext(n)[0] for n in names)
        first = [
            self._candidates[stem][0]
            for stem in stems
            if stem in self._candidates and stem not in self._found
        ]
        self._early = {}
        if len(first) >= LEAST and self.read_file is None:
            threads = THREADS_OF_STORE if storage.is_url(self.home) else THREADS
            shares = [first[n::threads] for n in range(threads)]
            with ThreadPoolExecutor(threads) as pool:
                for share in pool.map(self._read_early, shares):
                    self._early.update(share)

    def _read_early(self, names: Sequence[str]) -> dict[str, bytes]:
        contents = {}
        for name in names:
            try:
                data = self._first_bytes(self.home + name, EARLY_BYTES + 1)
            except (OSError, MillError):  # it is tried again in its turn, with patience
                continue
            if len(data) <= EARLY_BYTES:
                contents[name] = data
        return contents

    def of(self, name: str, recording: Recording) -> Recording:
        """The recording with what the text beside it says."""
        stem = os.path.splitext(name)[0]
        if recording.error is not None or stem not in self._candidates:
            return recording
        resolved = self._resolved(stem)
        resolved.waiting -= 1
        error, text = resolved.error, resolved.read
        if not resolved.waiting:
            resolved.read = None
        if error is not None:
            # Without a guard: once the text can be read, the recording counts as new.
            return replace(recording, guard="", error=(BAD_TEXT, error))
        if text is None:
            return recording
        return replace(
            recording,
            text=text.text,
            speaker=text.speaker or recording.speaker,
            segments=text.segments,
            film_time=text.film_time,
        )

    def aside(self, name: str) -> Reason | None:
        """How a text was read, or why it was not; None if the file is not a text of this folder."""
        stem = self._stems.get(name)
        if stem is not None:
            self._resolved(stem)
            return self._reasons.pop(name)
        if name in self._turns:
            return TURNS, TURNS_SAY
        bare, _, ending = name.rpartition(".")
        if ending.lower() in NOT_READ and bare in self._recordings:
            return OTHER, f".{ending} is not read; convert it: ffmpeg -i {name} {bare}.srt"
        if name in self._near:
            return ALONE, f"`texts: {{ext: {display_text(self._near[name])}}}` reads it"
        if self._candidates and [*self._stems_of(name)]:
            return ALONE, "no recording of this folder has its name"
        return None

    def _resolved(self, stem: str) -> _Found:
        if stem not in self._found:
            self._found[stem] = self._read(stem)
        return self._found[stem]

    def _read(self, stem: str) -> _Found:
        resolved = _Found(self._recordings[stem])
        taken = None
        for name in self._candidates[stem]:
            if taken is not None:
                self._reasons[name] = SECOND, f"{display_text(taken)} is read"
                continue
            try:
                resolved.read = self._text(stem, name)
                self._reasons[name] = READ, resolved.read.says
            except NoTranscript as other:
                self._reasons[name] = OTHER, str(other)
                continue
            except ItemError as error:
                self._reasons[name] = BAD, error.detail
                resolved.error = f"{display_text(name)}: {error.detail}"
            taken = name
        return resolved

    def _text(self, stem: str, name: str) -> Read:
        data = self._early.pop(name, None)
        if data is None:
            try:
                data = unreachable.patience.read(
                    partial(_checked, self.home + name, self._first_bytes)
                )
            except ValueError:
                raise ItemError(BAD_TEXT, "no file can have this name") from None
        kind = kind_of(name)
        assert kind is not None
        return read(kind, data, stem, self.texts)


def _is_language(name: str) -> bool:
    """`en`, `pt-BR`, or `en-orig`, as `yt-dlp` names the language of captions."""
    code = name.partition("-")[0]
    return len(code) in (2, 3) and bool(language_codes.read(code))


def _checked(path: str, read_file: ReadFile) -> bytes:
    """The bytes of a text. Raises ItemError."""
    try:
        return read_file(path, MOST_BYTES + 1)
    except (OSError, MillError) as error:
        raise unreachable.item_error(error) from error
