"""A folder of audio files and archives, at any depth, with the texts beside; or one such file.

Recordings come in the byte order of their relative paths, under a URL too. Links to files in the
tree are followed; a link to a folder in it is ignored, so that adding one never renames a
recording. Links out of the tree are followed only with `follow_links`, and visit no folder twice.
"""

import fnmatch
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from .. import storage
from ..base.errors import ItemError
from ..recording import Ignored, Locator, Recording, unreachable
from ..recording.file_kinds import ReadFile, first_bytes, is_recording
from ..recording.guard import of_file, stat_error
from ..recording.names import display_text, is_utf8, recording_name, safe_name
from ..recording.packed import Member
from ..settings import SourceSettings, StageSettings
from ..settings.base import WORDS
from ..storage import regular, urls
from ..storage.local import stat_guard
from . import _text_encoding, table
from ._archives import MOST, Archive, is_archive, listed
from ._beside.choice import Texts, TextsSettings
from ._beside.folders import FolderTexts
from ._folders import Object, objects_below
from ._labels import of_record
from ._lists import PARENT_FOLDER, Entries, failed, refusal
from ._paths import RESULTS, Boundary, is_results, results_above, skip_reason, source_root

#: Kinds of sources that read one file, by its ending.
_KINDS = {
    ".jsonl": "jsonl",
    ".parquet": "hf_parquet",
    **dict.fromkeys((".csv", ".tsv", ".psv", ".txt", ".json"), "table"),
}
_PACKED = (".7z", ".rar", ".gz", ".bz2", ".xz", ".zst")


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


def recordings(settings: Settings) -> Entries:
    entries = _recordings(settings)
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


def _recordings(settings: Settings) -> Entries:
    root, status = source_root(settings.path)
    is_url, name = storage.is_url(root), os.path.basename(root)
    boundary = _boundary(root, status, settings)
    if not is_url and (results := results_above(root)):
        raise refusal(
            settings.path,
            f"lies in {display_text(results)}, which holds results of uttermill; name the folder "
            "of the recordings they were made from",
        )
    if stat.S_ISDIR(status.st_mode):
        if is_url:
            return _objects(root, settings)
        try:
            os.scandir(root).close()
        except OSError as error:
            raise refusal(settings.path, f"cannot be listed ({error.strerror})") from None
        return _walk(root, status, settings, boundary)
    if stat.S_ISREG(status.st_mode) and _is_read(name, settings):
        return _archive(name, root, settings)
    if (is_url or stat.S_ISREG(status.st_mode)) and is_recording(name, root):
        return _alone(root, of_file(recording_name(name), root), settings, boundary)
    what = "not an audio file" if is_url else f"neither a folder nor an audio file{_hint(root)}"
    raise refusal(settings.path, f"is {what}")


def _boundary(root: str, status: os.stat_result, settings: Settings) -> Boundary:
    folder = root if stat.S_ISDIR(status.st_mode) else os.path.dirname(root)
    return Boundary(folder, settings.follow_links or storage.is_url(root))


def notes(settings: Settings) -> list[str]:
    """Lists in the folder that name its recordings and are not read."""
    root, status = source_root(settings.path)
    is_local = stat.S_ISDIR(status.st_mode) and not storage.is_url(root)
    if not is_local or settings.texts == "none":
        return []
    return [*table.unread_lists(root, _boundary(root, status, settings))]


def _hint(path: str) -> str:
    """What to do about a file that is not a folder; empty if its name does not tell."""
    ending = os.path.splitext(path)[1].lower()
    if ending in _PACKED:
        return "; unpack it first"
    if ending in (".yaml", ".yml"):
        return "; settings are given without --source: `uttermill run FILE`"
    may_be = "if it is a list, " if ending == ".txt" else ""
    return f"; {may_be}give the source kind: {_KINDS[ending]}" if ending in _KINDS else ""


def _objects(root: str, settings: Settings) -> Entries:
    entries = list(objects_below(root, settings.system_folders))
    objects = {entry.relative: entry for entry in entries if isinstance(entry, Object)}

    def recording(relative: str) -> Recording:
        _, url, size, guard = objects[relative]
        return Recording(safe_name(relative), display_text(url), Locator(url), size, guard)

    names = (entry if isinstance(entry, Ignored) else entry.relative for entry in entries)
    return _whole([*names], f"{root}/", settings, recording)


def _whole(
    files: Sequence[str | Ignored],
    home: str,
    settings: Settings,
    recording: Callable[[str], Recording],
    read: ReadFile | None = None,
) -> Entries:
    """The entries of all files of a store or an archive, by their relative names. `home`: what
    comes before these, empty in an archive; `recording`: a file as one; `read`: reads it."""
    names: dict[str, list[str]] = {}
    for file in files:
        if isinstance(file, str):
            above, name = _split(file)
            names.setdefault(above, []).append(name)
    folders: dict[str, FolderTexts | None] = {}
    for file in files:
        if isinstance(file, Ignored):
            yield file
            continue
        above, name = _split(file)
        if above not in folders:
            folders[above] = _texts(home + above, names.pop(above), read, settings=settings)
        if aside := _aside(recording(file).path, name, folders[above]):
            yield aside
        elif is_recording(name, home + file, read or first_bytes):
            yield _told(settings, folders[above], name, recording(file))
        elif home:
            yield from _other(file, home + file, settings)
        else:
            reason = "archive_in_archive" if is_archive(name) else "extension"
            yield Ignored(recording(file).path, reason)


def _split(path: str) -> tuple[str, str]:
    """(folder with its slash, name) of a file's path."""
    above, slash, name = path.rpartition("/")
    return above + slash, name


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


def _alone(path: str, recording: Recording, settings: Settings, boundary: Boundary) -> Entries:
    """A recording that is the whole source, and the texts beside it."""
    home, name = os.path.split(path)
    stem = os.path.splitext(name)[0]
    chosen = settings.texts.ext if isinstance(settings.texts, TextsSettings) else None
    named = [f"{stem}.{ending}" for ending in (*Texts(chosen).endings, "info.json")]
    if not storage.is_url(path):
        with suppress(OSError):  # its folder cannot be listed
            files = [entry.name for entry in _entries(home or ".") if not _is_folder(entry)]
            named = [file for file in files if file.startswith(f"{stem}.") and file != name]
    near = []
    for beside in named if settings.texts != "none" else ():
        if outside := boundary.left_out(beside, f"{home}/{beside}"):
            yield outside
        elif urls.named(f"{home}/{beside}"):
            near.append(beside)
    texts = _texts(f"{home}/", [name, *near], opener=boundary.opener, settings=settings)
    yield _told(settings, texts, name, recording)
    for beside in near:
        if aside := _aside(recording_name(beside), beside, texts):
            yield aside


def _aside(path: str, name: str, texts: FolderTexts | None) -> Ignored | None:
    reason = texts and texts.aside(name)
    return Ignored(path, *reason) if reason else None


def _told(
    settings: Settings, texts: FolderTexts | None, name: str, recording: Recording
) -> Recording:
    """A recording with speaker and labels from its path, and its text."""
    path, how = recording.path, settings.speaker
    if isinstance(settings.labels, LabelPattern):
        match = re.search(settings.labels.pattern, path)
        names = of_record(match.groupdict(), settings.label_names) if match else ()
        recording = replace(recording, labels=names)
    if isinstance(how, SpeakerPattern):
        match = re.search(how.pattern, path)
        recording = replace(recording, speaker=(match and match["speaker"]) or None)
    elif how == PARENT_FOLDER:
        recording = replace(recording, speaker=os.path.basename(os.path.dirname(path)) or None)
    return texts.with_sidecars(name, recording) if texts else recording


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a circular link
        return False


def _entries(path: str) -> Iterator[os.DirEntry[str]]:
    """In the byte order of whole paths, in which a folder sorts as `name/`. Raises OSError if the
    folder still cannot be listed after retries."""

    def scanned() -> list[os.DirEntry[str]]:
        try:
            with os.scandir(path) as entries:
                return sorted(
                    entries,
                    key=lambda entry: os.fsencode(entry.name) + b"/" * _is_folder(entry),
                )
        except OSError as error:
            raise unreachable.item_error(error) from error

    try:
        return iter(unreachable.patience.read(scanned))
    except ItemError as error:
        raise error.__cause__ or error from None


def _listed(
    path: str, settings: Settings, boundary: Boundary
) -> tuple[Iterator[os.DirEntry[str]], FolderTexts | None]:
    entries = list(_entries(path))
    names = (
        entry.name
        for entry in entries
        if not skip_reason(entry.name, settings.system_folders)
        and not _is_folder(entry)
        and not (entry.is_symlink() and boundary.outside(entry.path))
    )
    home = f"{path.rstrip('/')}/"
    return iter(entries), _texts(home, names, opener=boundary.opener, settings=settings)


def _reached_anyway(path: str, real_root: str, settings: Settings) -> bool:
    """Whether a linked folder is inside the tree, where the walk visits it anyway."""
    real = os.path.realpath(path)
    if real == real_root:
        return True
    prefix = real_root.rstrip("/") + "/"
    parts = real[len(prefix) :].split("/")
    skipped = any(skip_reason(part, settings.system_folders) for part in parts)
    return real.startswith(prefix) and not skipped


def _walk(root: str, status: os.stat_result, settings: Settings, boundary: Boundary) -> Entries:
    real_root = os.path.realpath(root)
    visited = {(status.st_dev, status.st_ino)}
    # A stack of open listings, not recursion: a tree may be deeper than Python's limit.
    stack = [("", *_listed(root, settings, boundary))]
    while stack:
        above, entries, texts = stack[-1]
        if (entry := next(entries, None)) is None:
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
                yield from _file(relative, entry, texts, settings, boundary)
                continue
            if results_above(entry.path) if entry.is_symlink() else is_results(entry.path):
                yield Ignored(recording_name(relative), RESULTS)
                continue
            # Not entry.stat(): at a mount point it gives the inode below the mounted disk.
            folder = os.stat(entry.path)
            if (folder.st_dev, folder.st_ino) in visited or (
                entry.is_symlink() and _reached_anyway(entry.path, real_root, settings)
            ):
                yield Ignored(recording_name(relative), "duplicate_folder")
                continue
            visited.add((folder.st_dev, folder.st_ino))
            stack.append((relative + "/", *_listed(entry.path, settings, boundary)))
        except OSError as error:
            why = f"the folder cannot be listed: {error.strerror}"
            name, path = recording_name(relative), entry.path
            yield failed(name, display_text(path), path, "unreadable", why)


def _is_read(name: str, settings: Settings) -> bool:
    return settings.archives and is_archive(name)


def _archive(relative: str, path: str, settings: Settings, inside: int | None = None) -> Entries:
    """An archive is listed like a folder of its name, in the byte order of its members' names."""
    name = safe_name(relative)
    return listed(name, path, inside, partial(_in_archive, name, settings))


def _in_archive(archive_name: str, settings: Settings, archive: Archive) -> Entries:
    members: list[Member] = []
    for member in archive.members():
        if len(members) == MOST:
            archive.wrong = ItemError("unsupported", f"more than {MOST:,} members; unpack it")
            break
        members.append(replace(member, name=_as_written(member.name, settings.encoding)))
    members.sort(key=lambda member: os.fsencode(member.name))
    files: list[str | Ignored] = []
    by_name: dict[str, Member] = {}
    for member in members:
        name = member.name
        reason = None if member.kind in ("file", "folder") else member.kind
        parts = (part for part in name.split("/") if part != "..")
        skipped = filter(None, (skip_reason(part, settings.system_folders) for part in parts))
        if member.kind == "file":
            reason = next(skipped, "duplicate_name" if name in by_name else None)
        if reason:
            files.append(Ignored(f"{archive_name}/{safe_name(name)}", reason))
        elif member.kind == "file":
            by_name[name] = member
            files.append(name)

    def recording(name: str) -> Recording:
        return archive.recording(archive_name, by_name[name])

    def read(name: str, most: int) -> bytes:
        return archive.read(by_name[name], most)

    return _whole(files, "", settings, recording, read)


def _as_written(name: str, encoding: str | None) -> str:
    """A member's name, which Windows writes into archives in the encoding of its language."""
    if encoding and not is_utf8(name):
        with suppress(ValueError):
            return os.fsencode(name).decode(encoding)
    return name


def _other(relative: str, path: str, settings: Settings, inside: int | None = None) -> Entries:
    """What is no recording: the members of an archive, or a file that is skipped."""
    if _is_read(path, settings):
        return _archive(relative, path, settings, inside)
    return iter([Ignored(recording_name(relative), "extension")])


def _file(
    relative: str,
    entry: os.DirEntry[str],
    texts: FolderTexts | None,
    settings: Settings,
    boundary: Boundary,
) -> Entries:
    """A file as a recording, or the members of an archive."""
    name, path, is_link = recording_name(relative), entry.path, entry.is_symlink()
    if aside := _aside(name, entry.name, texts):
        yield aside
        return
    head = partial(first_bytes, opener=boundary.opener)
    if not is_link and not is_recording(entry.name, path, head):
        yield from _other(relative, path, settings, boundary.inside)
        return
    try:
        status = entry.stat()
    except OSError as error:  # a dangling link, or deleted since the folder was listed
        code, why = stat_error(error)
        if code == "missing":
            why = f"{'a link to nothing' if is_link else 'gone since it was listed'}: {why}"
        yield failed(name, display_text(path), path, code, why)
        return
    if is_link and not is_recording(entry.name, path, head):
        yield from _other(relative, path, settings, boundary.inside)
    elif not stat.S_ISREG(status.st_mode):
        yield Ignored(name, "not_a_file")
    elif is_link and results_above(path):
        yield Ignored(name, RESULTS)
    else:
        where, guard = Locator(path, inside=boundary.inside), stat_guard(status)
        recording = Recording(name, display_text(path), where, status.st_size, guard)
        yield _told(settings, texts, entry.name, recording)
