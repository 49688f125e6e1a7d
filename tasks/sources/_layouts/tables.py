"""Layouts that are tables beside folders of audio: LJSpeech, M-AILABS, Common Voice, AudioFolder,
VoxPopuli, MLS, Emilia's lists."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...base import language_codes
from ...base.errors import ConfigError
from ...recording.file_kinds import known
from .. import _channels, _columns
from .._delimited import Form, Record, form_of, records
from .folders import by_stem, files_below, homes
from .rows import (
    Found,
    Part,
    Records,
    Roles,
    delimited,
    json_lines,
    of_parts,
    placed,
)

_LOCALE = re.compile(r"[a-z]{2,3}_[A-Z]{2}")


def _form(
    path: str, separator: str | None, header: bool | None, widths: Sequence[int] = ()
) -> Form | None:
    """The form of a table; None if it is not one. With `widths`: without header and quotes."""
    try:
        form = form_of(path, separator, header)
    except ConfigError:
        return None
    if not widths:
        return form
    names = tuple(str(number + 1) for number in range(max(widths)))
    return Form(path, form.encoding, separator, names, False, frozenset(widths), quotes=False)


def _lj(folder: str, file: str, before: str = "") -> Part | None:
    """A part of rows `id|text|normalised text`, with audio in a folder beside it."""
    path = os.path.join(folder, file)
    form = _form(path, "|", False, (2, 3))
    if form is None:
        return None
    roles: Roles = {"audio": ("1",), "text": ("3", "2"), "id": ("1",)}
    part = Part(path, delimited(form), roles)
    first = next(iter(part.records.head), {"1": ""})
    cells = [str(cell) for cell in first.values()]
    if _columns.first("audio", cells) is not None:
        return None  # a header that tells more
    if _columns.first("id", cells[:1]) is not None:
        part = Part(path, delimited(replace(form, header=True)), roles)
    elif known(cells[0]):
        second_cells = [record.get("2") for record in part.records.head]
        if not _columns.are_texts(second_cells):  # speakers, as in `path|speaker|text`
            return None
        part = Part(path, part.records, {"audio": ("1",), "text": ("3", "2")})
    return _there(part, folder, [f"{before}{subfolder}" for subfolder in ("wavs/", "wav/", "")])


def _there(part: Part, root: str, folders: Sequence[str] = ("",)) -> Part | None:
    """The part with the place of its audio; None if none of its first files exists."""
    moved, present = placed(part, root, folders)
    return moved if present else None


def ljspeech(folder: str) -> Found | None:
    """LJSpeech: `metadata.csv` without a header, `id|text|normalised text`, and `wavs/`; or only
    the list."""
    home, name = (folder, "metadata.csv") if os.path.isdir(folder) else os.path.split(folder)
    part = _lj(home, name) if os.path.isfile(os.path.join(home, name)) else None
    if part is None:
        return None
    return of_parts("ljspeech", "LJSpeech", home, [part], whole=os.path.isdir(folder))


def m_ailabs(folder: str) -> Found | None:
    """M-AILABS: `<locale>/by_book/<gender>/<speaker>/<book>/`, each book as LJSpeech."""
    parts = []
    for relative in files_below(folder, lambda name: name == "metadata.csv", ("wavs",)):
        place = os.path.join(os.path.abspath(folder), relative).split("/")[:-1]
        if "by_book" not in place:
            continue
        after = place[place.index("by_book") + 1 :]  # mix/<book>, or <gender>/<speaker>/<book>
        before = relative[: -len("metadata.csv")]
        form = _form(os.path.join(folder, relative), "|", False, (2, 3))
        if form is None:
            continue
        locale = next((name for name in reversed(place) if _LOCALE.fullmatch(name)), None)
        roles: Roles = {"audio": ("1",), "text": ("3", "2"), "id": ("1",)}
        speaker = after[1] if len(after) > 2 else None
        part = Part(form.path, delimited(form), roles, speaker=speaker, language=locale)
        if (moved := _there(part, folder, [f"{before}wavs/", before])) is not None:
            parts.append(moved)
    return of_parts("m_ailabs", "M-AILABS", folder, parts) if parts else None


_CV_SPLITS = ("train.tsv", "dev.tsv", "test.tsv")


def common_voice(folder: str) -> Found | None:
    """Common Voice: `clips/` and `validated.tsv`, which holds what train, dev and test do; of one
    language, or a folder for each."""
    parts = []
    for before in homes(folder):
        home = os.path.join(folder, before)
        if not os.path.isdir(os.path.join(home, "clips")):
            continue
        names = ["validated.tsv"] if os.path.isfile(f"{home}/validated.tsv") else _CV_SPLITS
        for name in names:
            path = os.path.join(home, name)
            form = _form(path, "\t", True) if os.path.isfile(path) else None
            if form is None or not {"path", "sentence"} <= {*form.names}:
                continue
            roles = _columns.by_name(form.names)
            code = os.path.basename(os.path.dirname(path))
            language = code if language_codes.read(code) and len(code) < 6 else None
            part = Part(path, delimited(form), roles, language=language)
            if (moved := _there(part, folder, [f"{before}clips/"])) is not None:
                parts.append(moved)
    return of_parts("common_voice", "Common Voice", folder, parts) if parts else None


_METADATA = ("metadata.csv", "metadata.tsv", "metadata.jsonl")


def audiofolder(folder: str) -> Found | None:
    """Hugging Face's AudioFolder: `metadata.csv` or `metadata.jsonl` with `file_name`, in the
    folder or in those below, one for each split; other names of columns will do (F5-TTS, XTTS)."""
    parts = []
    for relative in files_below(folder, _METADATA.__contains__, depth=4):
        part = _metadata(os.path.join(folder, relative))
        before = relative[: relative.rfind("/") + 1]
        if part is not None and (moved := _there(part, folder, [before])) is not None:
            parts.append(moved)
    return of_parts("audiofolder", "AudioFolder", folder, parts) if parts else None


def _metadata(path: str) -> Part | None:
    form = None
    if path.endswith(".jsonl"):
        part = Part(path, json_lines(path), {"audio": ("file_name",)})
        names = [*dict.fromkeys(name for record in part.records.head for name in record)]
        rows = part.records
    else:
        form = _form(path, None, None)
        names = [*form.names] if form else []
        rows = delimited(form) if form else json_lines(path)
    roles = _columns.by_name(names)
    if "channel" in roles and _channels.are_others(rows.head, roles["channel"][0]):
        del roles["channel"]
    header = path.endswith(".jsonl") or (form is not None and form.header)
    return Part(path, rows, roles) if header and "audio" in roles else None


def voxpopuli(folder: str) -> Found | None:
    """VoxPopuli: `asr_train.tsv` with `id`, `raw_text`, `normalized_text`, in the folder of a
    language; its audio lies somewhere below, by id."""
    parts = []
    for relative in files_below(folder, _is_vox_list, depth=3):
        path = os.path.join(folder, relative)
        form = _form(path, "\t", True)
        if form is None or not {"id", "normalized_text"} <= {*form.names}:
            continue
        home = os.path.dirname(relative)
        code = os.path.basename(os.path.dirname(path))
        roles: Roles = {
            "audio": ("audio",),
            "text": ("normalized_text", "raw_text"),
            "id": ("id",),
            "speaker": ("speaker_id",),
        }
        rows = _located(form, folder, home)
        part = Part(path, rows, roles, language=code if len(code) == 2 else None)
        if (moved := _there(part, folder)) is not None:
            parts.append(moved)
    return of_parts("voxpopuli", "VoxPopuli", folder, parts) if parts else None


def _is_vox_list(name: str) -> bool:
    return re.fullmatch(r"asr_\w+\.tsv", name) is not None


def _located(form: Form, folder: str, below: str) -> Records:
    """The records of a table whose `id` is the name of the audio, with its path as `audio`."""
    paths: dict[str, str] = {}

    def rows() -> Iterator[tuple[int, Record]]:
        if not paths:
            paths.update(by_stem(folder, below))
        for number, record in records(form):
            if isinstance(record, dict):
                name = str(record.get("id") or "")
                record["audio"] = paths.get(name, os.path.join(below, name))
            yield number, record

    return Records(rows)


def mls(folder: str) -> Found | None:
    """MLS: `<split>/transcripts.txt`, id and text, and `<split>/audio/<speaker>/<book>/<id>`."""
    parts = []
    for before in homes(folder):
        path = os.path.join(folder, before, "transcripts.txt")
        if not (os.path.isfile(path) and os.path.isdir(os.path.join(folder, before, "audio"))):
            continue
        form = _form(path, "\t", False, (2,))
        if form is None:
            continue
        named = re.search(r"mls_([a-z]+)", os.path.abspath(path))
        roles: Roles = {"audio": ("audio",), "text": ("2",), "id": ("1",), "speaker": ("speaker",)}
        language = language_codes.read(named[1]) if named else None
        part = Part(path, _of_mls(form), roles, language=language)
        if (moved := _there(part, folder, [f"{before}audio/"])) is not None:
            parts.append(moved)
    return of_parts("mls", "MLS", folder, parts) if parts else None


def _of_mls(form: Form) -> Records:
    """Its records with the path of the audio below `audio/`, and the speaker."""

    def rows() -> Iterator[tuple[int, Record]]:
        for number, record in records(form):
            if isinstance(record, dict):
                speaker, book, *_ = [*str(record["1"]).split("_"), ""]
                record |= {"audio": f"{speaker}/{book}/{record['1']}", "speaker": speaker}
            yield number, record

    return Records(rows)


def emilia(folder: str) -> Found | None:
    """Emilia's lists: `*.jsonl` of `{"id", "wav", "text", "speaker", "language", "dnsmos"}`."""
    parts = []
    for relative in files_below(folder, lambda name: name.endswith(".jsonl"), depth=2):
        path, home = os.path.join(folder, relative), os.path.dirname(relative)
        part = Part(path, json_lines(path), {"audio": ("wav",)})
        names = {name for record in part.records.head[:10] for name in record}
        if not {"wav", "text", "id"} <= names or not names & {"dnsmos", "speaker"}:
            continue
        part = Part(path, part.records, {"audio": ("wav",), **_columns.by_name([*names])})
        before = f"{home}/" if home else ""
        if (moved := _there(part, folder, [before, f"{before}mp3/", f"{before}../"])) is not None:
            parts.append(moved)
    return of_parts("emilia", "Emilia", folder, parts) if parts else None
