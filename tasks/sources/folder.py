"""A folder of audio files and archives, at any depth, with the texts beside; or one such file.

Recordings come in the byte order of their relative paths, under a URL too. Links to files in the
tree are followed; a link to a folder in it is ignored, so that adding one never renames a
recording. Links out of the tree are followed only with `follow_links`, and visit no folder twice.
Results of uttermill are not recordings.

A recording's text is the file of the same stem in its folder, see `tasks/sources/_beside`. Its
speaker may be in its path.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from .. import storage
from ..base.errors import ConfigError, ItemError
from ..recording import Ignored, Locator, Recording, unreachable
from ..recording.file_kinds import ReadFile, first_bytes, is_recording
from ..recording.guard import of_file, stat_error
from ..recording.names import display_text, recording_name, safe_name
from ..settings import SourceSettings, StageSettings
from ..settings.base import WORDS
from ..storage import regular, urls
from ..storage.local import stat_guard
from . import _text_encoding
from ._archives import Archive, is_archive
from ._beside import tables
from ._beside.choice import Texts, TextsSettings
from ._beside.folders import AHEAD, FolderTexts
from ._containers import Object, objects_below
from ._labels import of_record
from ._lists import PARENT_FOLDER, failed
from ._paths import (
    RESULTS,
    Boundary,
    is_results,
    results_above,
    skip_reason,
    source_root,
)

#: Kinds of sources that read one file, by its ending.
_KINDS = {
    ".jsonl": "jsonl",
    ".parquet": "hf_parquet",
    **dict.fromkeys((".csv", ".tsv", ".psv", ".txt", ".json"), "table"),
}
_PACKED = (".7z", ".rar", ".gz", ".bz2", ".xz", ".zst")
OTHER_ENDING = "extension"  # why a file is skipped


def _names_a_speaker(pattern: str) -> str:
    if "speaker" in _groups(pattern):
        return pattern
    raise ValueError("it has no group (?P<speaker>…)")


def _names_labels(pattern: str) -> str:
    if _groups(pattern):
        return pattern
    raise ValueError("it has no named group, such as (?P<emotion>…)")


def _groups(pattern: str) -> tuple[str, ...]:
    try:
        return tuple(re.compile(pattern).groupindex)
    except re.error as error:
        raise ValueError(f"it is not a regular expression: {error}") from None


class SpeakerPattern(StageSettings):
    """Where a recording's path names its speaker."""

    pattern: Annotated[str, AfterValidator(_names_a_speaker)] = Field(
        description="Regular expression with a group `(?P<speaker>…)`, looked for in the "
        "recording's path below the source's, extension included."
    )


class LabelPattern(StageSettings):
    """Where a recording's path names its labels."""

    pattern: Annotated[str, AfterValidator(_names_labels)] = Field(
        description="Regular expression with a group for each label, such as `(?P<emotion>…)`, "
        "looked for in the recording's path below the source's, extension included."
    )


Pattern = Annotated[str, Field(min_length=1, max_length=200)]


class Settings(SourceSettings):
    kind: Literal["folder"] = "folder"
    texts: Literal["none", "auto"] | TextsSettings = Field(
        "auto",
        description="Texts beside the recordings, in files of the same stem: auto, none, or "
        "`{ext: srt, tier: NAME}` for those of one ending, or of one tier.",
    )
    encoding: Annotated[str, AfterValidator(_text_encoding.checked)] | None = Field(
        None,
        description="Encoding of texts that are neither UTF-8 nor UTF-16, and of names in archives "
        "that are not UTF-8: `gbk`, `cp1251`.",
        json_schema_extra=WORDS,
    )
    speaker: (
        Literal["none", "parent_folder"]
        | SpeakerPattern
        | Annotated[str, Field(min_length=1, max_length=200)]
    ) = Field(
        "none",
        description="Who speaks in a recording: none (unknown), parent_folder, `{pattern: REGEX}` "
        "with a group `(?P<speaker>…)` that is found in its path, or a name, of one for whom no "
        "text has another.",
    )
    include: tuple[Pattern, ...] | None = Field(
        None,
        description="Patterns of recordings to take, as of files in a shell, of their paths below "
        "the source's: [`*.mp3`, `day1`]; `*` stands for folders, too. Default: all.",
        json_schema_extra=WORDS,
    )
    exclude: tuple[Pattern, ...] | None = Field(
        None,
        description="Patterns of recordings to skip, as `excluded`.",
        json_schema_extra=WORDS,
    )
    labels: LabelPattern | tuple[Pattern, ...] | None = Field(
        None,
        description="Labels of a recording, for package.only and package.without: `{pattern: "
        "REGEX}` with a group for each, such as `(?P<emotion>…)`, that is found in its path; or "
        "names of what yt-dlp's X.info.json beside it says: [title, licence], and captions, which "
        "is by_hand or automatic.",
    )
    system_folders: bool = Field(
        False, description="Also read what lies in recycle bins, snapshots and thumbnail folders."
    )
    archives: bool = Field(
        True,
        description="Read what lies in .zip, .tar, .tar.gz, .tgz and .tar.zst, in place; off: they "
        "are skipped.",
    )

    def speaker_of(self, path: str) -> str | None:
        named = isinstance(self.speaker, str) and self.speaker not in ("none", PARENT_FOLDER)
        return str(self.speaker) if named else None

    @property
    def label_names(self) -> tuple[str, ...]:
        if isinstance(self.labels, LabelPattern):
            return _groups(self.labels.pattern)
        return tuple(dict.fromkeys(self.labels or ()))


def recordings(settings: Settings) -> Iterator[Recording | Ignored]:
    """Walks lazily. ConfigError at once if the path cannot be read."""
    return _chosen(_recordings(settings), settings)


def _chosen(
    entries: Iterator[Recording | Ignored], settings: Settings
) -> Iterator[Recording | Ignored]:
    """The entries, without the recordings that the settings exclude."""
    if not (settings.include or settings.exclude):
        return entries
    takes, skips = _matching(settings.include or ("*",)), _matching(settings.exclude or ())

    def excluded(path: str) -> bool:
        return not takes.match(path) or bool(settings.exclude and skips.match(path))

    return (
        Ignored(entry.path, "excluded")
        if isinstance(entry, Recording) and excluded(entry.path)
        else entry
        for entry in entries
    )


def _matching(patterns: Sequence[str]) -> re.Pattern[str]:
    """A folder's name stands for what lies in it."""
    plain = [pattern.removeprefix("./").rstrip("/") for pattern in patterns]
    folders = (f"{pattern}/*" for pattern in plain)
    return re.compile("|".join(map(fnmatch.translate, [*plain, *folders])))


def gives(settings: Settings) -> str:
    texts = "no text" if settings.texts == "none" else "text from files of the same stem beside it"
    return f"folder: audio from files by their names and content, {texts}"


def _recordings(settings: Settings) -> Iterator[Recording | Ignored]:
    root, status = source_root(settings.path)
    if storage.is_url(root):
        return _objects(root, settings) if stat.S_ISDIR(status.st_mode) else _object(root, settings)
    if results := results_above(root):
        raise ConfigError(
            f"source {display_text(settings.path)!r} lies in {display_text(results)}, which holds "
            "results of uttermill; name the folder of the recordings they were made from"
        )
    boundary = _boundary(root, status, settings)
    if stat.S_ISDIR(status.st_mode):
        try:
            os.scandir(root).close()
        except OSError as error:
            raise ConfigError(
                f"source {display_text(settings.path)!r} cannot be listed ({error.strerror})"
            ) from None
        return _walk(root, status, settings, boundary)
    name = os.path.basename(root)
    if stat.S_ISREG(status.st_mode) and is_recording(name, root):
        return _alone(root, _recording(name, root, status), settings, boundary)
    if stat.S_ISREG(status.st_mode) and _reads(name, settings):
        return _archive(name, root, settings)
    raise ConfigError(
        f"source {display_text(settings.path)!r} is neither a folder nor an audio file{_hint(root)}"
    )


def _boundary(root: str, status: os.stat_result, settings: Settings) -> Boundary:
    folder = root if stat.S_ISDIR(status.st_mode) else os.path.dirname(root)
    return Boundary(folder, settings.follow_links)


def notes(settings: Settings) -> list[str]:
    """Lists in the folder that name its recordings and are not read."""
    root, status = source_root(settings.path)
    is_local = stat.S_ISDIR(status.st_mode) and not storage.is_url(root)
    if not is_local or settings.texts == "none":
        return []
    return [*tables.sentences(root, _boundary(root, status, settings))]


def _hint(path: str) -> str:
    """What to do about a file that is not a folder; empty if its name does not tell."""
    ending = os.path.splitext(path)[1].lower()
    if ending in _PACKED:
        return "; unpack it first"
    if ending in (".yaml", ".yml"):
        return "; settings are given without --source: `uttermill run FILE`"
    may_be = "if it is a list, " if ending == ".txt" else ""
    return f"; {may_be}give the source kind: {_KINDS[ending]}" if ending in _KINDS else ""


def _unlisted(relative: str, path: str, error: OSError) -> Recording:
    detail = f"the folder cannot be listed: {error.strerror}"
    return failed(recording_name(relative), display_text(path), path, "unreadable", detail)


def _objects(root: str, settings: Settings) -> Iterator[Recording | Ignored]:
    if settings.texts == "none":
        for entry in objects_below(root, settings.system_folders):
            yield from [entry] if isinstance(entry, Ignored) else _of_object(entry, None, settings)
        return
    listed = list(objects_below(root, settings.system_folders))
    names = _by_folder(listed)
    folders: dict[str, FolderTexts | None] = {}
    for start in range(0, len(listed), AHEAD):
        block = listed[start : start + AHEAD]
        for above, those in _by_folder(block).items():
            if above not in folders:
                home = f"{root}/{above}/" if above else f"{root}/"
                folders[above] = _texts(home, names.pop(above), settings=settings)
            if texts := folders[above]:
                texts.ahead(those)
        for entry in block:
            if isinstance(entry, Ignored):
                yield entry
            else:
                texts = folders[entry.relative.rpartition("/")[0]]
                yield from _of_object(entry, texts, settings)


def _by_folder(entries: Sequence[Object | Ignored]) -> dict[str, list[str]]:
    """The names of objects by the folder that they are in."""
    names: dict[str, list[str]] = {}
    for entry in entries:
        if isinstance(entry, Object):
            above, _, name = entry.relative.rpartition("/")
            names.setdefault(above, []).append(name)
    return names


def _of_object(
    entry: Object, texts: FolderTexts | None, settings: Settings
) -> Iterator[Recording | Ignored]:
    name = entry.relative.rpartition("/")[2]
    if aside := _aside(entry.relative, name, texts):
        yield aside
    elif is_recording(name, entry.url):
        path, locator = safe_name(entry.relative), Locator(entry.url)
        recording = Recording(path, display_text(entry.url), locator, entry.size, entry.guard)
        yield _told(settings, texts, name, recording)
    elif _reads(name, settings):
        yield from _archive(entry.relative, entry.url, settings)
    else:
        yield Ignored(recording_name(entry.relative), OTHER_ENDING)


def _object(url: str, settings: Settings) -> Iterator[Recording | Ignored]:
    name = os.path.basename(url)
    if _reads(name, settings):
        return _archive(name, url, settings)
    if not is_recording(name, url):
        raise ConfigError(f"source {display_text(settings.path)!r} is not an audio file")
    return _alone(url, of_file(recording_name(name), url), settings)


def _texts(
    home: str,
    names: Iterable[str],
    read_file: ReadFile | None = None,
    opener: regular.Opener = regular.read,
    *,
    settings: Settings,
) -> FolderTexts | None:
    """The texts of a folder's recordings, or None. `home`: its path, with `/`."""
    if settings.texts == "none":
        return None
    chosen = TextsSettings() if settings.texts == "auto" else settings.texts
    tiers = (chosen.tier,) if isinstance(chosen.tier, str) else chosen.tier or ()
    language, beside = chosen.language or settings.language, isinstance(settings.labels, tuple)
    labels = settings.label_names if beside else ()
    wanted = Texts(chosen.ext, tiers, settings.encoding, language, settings.language, labels)
    folder_texts = FolderTexts(home, names, wanted, read_file, opener)
    return folder_texts if folder_texts.any else None


def _alone(
    path: str, recording: Recording, settings: Settings, boundary: Boundary | None = None
) -> Iterator[Recording | Ignored]:
    """A recording that is the whole source, and the texts beside it."""
    home, name = os.path.split(path)
    stem = os.path.splitext(name)[0]
    chosen = settings.texts.ext if isinstance(settings.texts, TextsSettings) else None
    named = [f"{stem}.{ending}" for ending in (*Texts(chosen).endings, "info.json")]
    if boundary:  # a local file
        with suppress(OSError):  # its folder cannot be listed
            files = [entry.name for entry in _entries(home or ".") if not _is_folder(entry)]
            named = [file for file in files if file.startswith(f"{stem}.") and file != name]
    if settings.texts == "none":
        named = []
    near = []
    for beside in named:
        if boundary and (outside := boundary.left_out(beside, f"{home}/{beside}")):
            yield outside
        elif urls.named(f"{home}/{beside}"):
            near.append(beside)
    opener = boundary.opener if boundary else regular.read
    texts = _texts(f"{home}/", [name, *near], opener=opener, settings=settings)
    yield _told(settings, texts, name, recording)
    yield from filter(None, (_aside(beside, beside, texts) for beside in near))


def _aside(relative: str, name: str, texts: FolderTexts | None) -> Ignored | None:
    reason = texts and texts.aside(name)
    return Ignored(recording_name(relative), *reason) if reason else None


def _told(
    settings: Settings, texts: FolderTexts | None, name: str, recording: Recording
) -> Recording:
    """A recording with speaker and labels from its path, and its text."""
    if isinstance(settings.labels, LabelPattern):
        match = re.search(settings.labels.pattern, recording.path)
        names = of_record(match.groupdict(), settings.label_names) if match else ()
        recording = replace(recording, labels=names)
    if settings.speaker == PARENT_FOLDER or isinstance(settings.speaker, SpeakerPattern):
        recording = replace(recording, speaker=_speaker(recording.path, settings.speaker))
    return texts.with_sidecars(name, recording) if texts else recording


def _speaker(path: str, how: str | SpeakerPattern) -> str | None:
    if isinstance(how, SpeakerPattern):
        match = re.search(how.pattern, path)
        return (match and match["speaker"]) or None
    return os.path.basename(os.path.dirname(path)) or None


def _recording(
    relative: str, path: str, status: os.stat_result, inside: int | None = None
) -> Recording:
    return Recording(
        recording_name(relative),
        display_text(path),
        Locator(path, inside=inside),
        status.st_size,
        stat_guard(status),
    )


def _order(entry: os.DirEntry[str]) -> bytes:
    """A folder sorts as `name/`, so that the walk follows the byte order of whole paths."""
    name = os.fsencode(entry.name)
    return name + b"/" if _is_folder(entry) else name


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a circular link
        return False


#: A folder's entry, and the texts of the folder's recordings.
Entry = tuple[os.DirEntry[str], FolderTexts | None]


def _entries(path: str) -> Iterator[os.DirEntry[str]]:
    """Raises OSError if the folder still cannot be listed after retries."""
    try:
        return iter(unreachable.patience.read(partial(_scanned, path)))
    except ItemError as error:
        raise error.__cause__ or error from None


def _scanned(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return sorted(entries, key=_order)
    except OSError as error:
        raise unreachable.item_error(error) from error


def _listed(path: str, settings: Settings, boundary: Boundary) -> Iterator[Entry]:
    entries = list(_entries(path))
    if settings.texts == "none":
        return ((entry, None) for entry in entries)
    names = (
        entry.name
        for entry in entries
        if not skip_reason(entry.name, settings.system_folders)
        and not _is_folder(entry)
        and not (entry.is_symlink() and boundary.outside(entry.path))
    )
    home = f"{path.rstrip('/')}/"
    texts = _texts(home, names, opener=boundary.opener, settings=settings)
    return _with_texts(entries, texts)


def _with_texts(entries: list[os.DirEntry[str]], texts: FolderTexts | None) -> Iterator[Entry]:
    for start in range(0, len(entries), AHEAD):
        block = entries[start : start + AHEAD]
        if texts:
            texts.ahead([entry.name for entry in block])
        yield from ((entry, texts) for entry in block)


def _reached_anyway(path: str, real_root: str, settings: Settings) -> bool:
    """Whether a linked folder is inside the tree, where the walk visits it anyway."""
    real = os.path.realpath(path)
    if real == real_root:
        return True
    prefix = real_root.rstrip("/") + "/"
    inside = real.startswith(prefix)
    parts = real[len(prefix) :].split("/")
    return inside and not any(skip_reason(part, settings.system_folders) for part in parts)


def _walk(
    root: str, status: os.stat_result, settings: Settings, boundary: Boundary
) -> Iterator[Recording | Ignored]:
    real_root = os.path.realpath(root)
    visited = {(status.st_dev, status.st_ino)}
    # A stack of open listings, not recursion: a tree may be deeper than Python's limit.
    stack = [("", _listed(root, settings, boundary))]
    while stack:
        above, entries = stack[-1]
        entry, texts = next(entries, (None, None))
        if entry is None:
            stack.pop()
            continue
        relative = above + entry.name
        if reason := skip_reason(entry.name, settings.system_folders):
            yield Ignored(recording_name(relative), reason)
            continue
        if entry.is_symlink() and (outside := boundary.left_out(relative, entry.path)):
            yield outside
            continue
        try:
            if not _is_folder(entry):
                yield from _files(relative, entry, texts, settings, boundary)
                continue
            if results_above(entry.path) if entry.is_symlink() else is_results(entry.path):
                yield Ignored(recording_name(relative), RESULTS)
                continue
            if entry.is_symlink() and _reached_anyway(entry.path, real_root, settings):
                yield Ignored(recording_name(relative), "duplicate_folder")
                continue
            # Not entry.stat(): at a mount point it gives the inode below the mounted disk.
            folder_status = os.stat(entry.path)
            if (folder_status.st_dev, folder_status.st_ino) in visited:
                yield Ignored(recording_name(relative), "duplicate_folder")
                continue
            visited.add((folder_status.st_dev, folder_status.st_ino))
            stack.append((relative + "/", _listed(entry.path, settings, boundary)))
        except OSError as error:
            yield _unlisted(relative, entry.path, error)


def _files(
    relative: str,
    entry: os.DirEntry[str],
    texts: FolderTexts | None,
    settings: Settings,
    boundary: Boundary,
) -> Iterator[Recording | Ignored]:
    """A file as a recording, or the members of an archive."""
    item = _file(relative, entry, texts, settings, boundary)
    left_aside = isinstance(item, Ignored) and item.reason == OTHER_ENDING
    if left_aside and _reads(entry.name, settings):
        yield from _archive(relative, entry.path, settings, boundary.inside)
    else:
        yield item


def _reads(name: str, settings: Settings) -> bool:
    return settings.archives and is_archive(name)


def _archive(
    relative: str, path: str, settings: Settings, inside: int | None = None
) -> Iterator[Recording | Ignored]:
    texts = partial(_texts, settings=settings)
    complete = partial(_told, settings)
    encoding = settings.encoding
    archive = Archive(relative, path, settings.system_folders, texts, complete, encoding, inside)
    return archive.listed()


def _file(
    relative: str,
    entry: os.DirEntry[str],
    texts: FolderTexts | None,
    settings: Settings,
    boundary: Boundary,
) -> Recording | Ignored:
    if aside := _aside(relative, entry.name, texts):
        return aside
    is_link = entry.is_symlink()
    head = partial(first_bytes, opener=boundary.opener)
    other = Ignored(recording_name(relative), OTHER_ENDING)
    if not is_link and not is_recording(entry.name, entry.path, head):
        return other
    try:
        status = entry.stat()
    except OSError as error:  # a dangling link, or deleted since the folder was listed
        code, detail = stat_error(error)
        if code == "missing":
            detail = f"{'a link to nothing' if is_link else 'gone since it was listed'}: {detail}"
        return failed(recording_name(relative), display_text(entry.path), entry.path, code, detail)
    if is_link and not is_recording(entry.name, entry.path, head):
        return other
    if not stat.S_ISREG(status.st_mode):
        return Ignored(recording_name(relative), "not_a_file")
    if is_link and results_above(entry.path):
        return Ignored(recording_name(relative), RESULTS)
    return _told(
        settings, texts, entry.name, _recording(relative, entry.path, status, boundary.inside)
    )
