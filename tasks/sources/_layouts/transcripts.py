"""Layouts whose texts are in many small files, or in one for a tree of audio: LibriSpeech, VCTK,
AISHELL."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from ...base.errors import ItemError
from ...storage import bounds, regular, urls
from .. import _text_encoding
from .._delimited import Form, records
from .._paths import EXTENSIONS, is_there, stem
from .folders import audio_below, by_stem, entries, files_below
from .rows import Described, FileRow, Found, Rows

TRANS = ".trans.txt"
MICROPHONES = ("", "_mic1", "_mic2")  # of VCTK 0.92; the first that is there


def _certain(rows: Rows, root: str) -> bool:
    """Whether the audio of one of the first rows exists."""
    first = (row.what for row in islice(rows(), 20))
    return any(isinstance(what, Described) and is_there(root, str(what.audio)) for what in first)


def librispeech(folder: str) -> Found | None:
    """LibriSpeech: `<speaker>/<chapter>/<speaker>-<chapter>.trans.txt`, `<id> <TEXT>`, with the
    audio `<id>.flac` beside it."""
    if not files_below(folder, lambda name: name.endswith(TRANS), depth=5):
        return None

    def rows() -> Iterator[FileRow]:
        for home, folders, files in os.walk(folder):
            folders.sort(key=os.fsencode)
            for name in sorted(files, key=os.fsencode):
                path = os.path.join(home, name)
                if name.endswith(TRANS) and os.path.isfile(path):
                    yield from _trans(folder, path, {*files})

    if not _certain(rows, folder):
        return None
    says = f"LibriSpeech (*{TRANS}): text by id, audio <id> beside it, speaker from the id"
    return Found("librispeech", folder, rows, (says,))


def _trans(root: str, path: str, audio_names: set[str]) -> Iterator[FileRow]:
    home = os.path.relpath(os.path.dirname(path), root)
    before = "" if home == "." else f"{home}/"

    def described(name: str, text: str) -> Described:
        after = next((e for e in EXTENSIONS[1:] if name + e in audio_names), ".flac")
        return Described(f"{before}{name}{after}", text, name.partition("-")[0], id=name)

    return _by_id(path, described)


def _by_id(path: str, described: Callable[[str, str], Described]) -> Iterator[FileRow]:
    """The rows of a list of ids with their texts."""
    form = Form(path, "utf-8", " ", ("id", "text"), False, frozenset((1, 2)))
    for number, record in records(form):
        if isinstance(record, ValueError):
            yield FileRow(path, number, record)
        else:
            what = described(str(record["id"]), str(record.get("text") or ""))
            yield FileRow(path, number, what)


def vctk(folder: str) -> Found | None:
    """VCTK: `txt/<speaker>/<id>.txt`, and the audio in a folder whose name begins with `wav`; of
    two microphones the first."""
    if not os.path.isdir(os.path.join(folder, "txt")):
        return None
    names = [name for name in entries(folder) if name.startswith("wav")]
    wavs = sorted((n for n in names if os.path.isdir(f"{folder}/{n}")), reverse=True)
    if not wavs:
        return None

    def rows() -> Iterator[FileRow]:
        for speaker in sorted(entries(os.path.join(folder, "txt"))):
            audio_names = {stem(name): name for name in entries(f"{folder}/{wavs[0]}/{speaker}")}
            for name in sorted(entries(f"{folder}/txt/{speaker}")):
                if name.endswith(".txt"):
                    yield _spoken(folder, wavs[0], speaker, name.removesuffix(".txt"), audio_names)

    if not _certain(rows, folder):
        return None
    says = f"VCTK (txt/<speaker>/<id>.txt): audio {wavs[0]}/<speaker>/<id>, of two microphones mic1"
    return Found("vctk", folder, rows, (says,))


def _spoken(root: str, wavs: str, speaker: str, name: str, audio_names: dict[str, str]) -> FileRow:
    path = f"{root}/txt/{speaker}/{name}.txt"
    audio = next(
        (audio_names[name + m] for m in MICROPHONES if name + m in audio_names), f"{name}.wav"
    )
    try:
        with urls.streamed(path) as file:
            data = file.read(bounds.MAX_TEXT_BYTES + 1)
        text, _ = _text_encoding.decode(data)
    except (OSError, regular.NotAFile) as error:
        why = getattr(error, "strerror", None) or "the text cannot be read"
        return FileRow(path, 1, ValueError(why))
    except ItemError as error:
        return FileRow(path, 1, ValueError(error.detail))
    return FileRow(path, 1, Described(f"{wavs}/{speaker}/{audio}", text.strip(), speaker, id=name))


#: Where AISHELL-1, -2 and -3 have their texts.
_AISHELL = re.compile(r"aishell_transcript\w*(?:\.\d+)?\.txt|content\.txt|trans\.txt")
_SPEAKER = re.compile(r"(?:BAC\d{3})?([A-Z]{1,3}\d{4})")
_BETWEEN_HAN = re.compile("(?<=[\u3400-\u9fff]) +(?=[\u3400-\u9fff])")


def aishell(folder: str) -> Found | None:
    """AISHELL-1, -2 and -3: one list of texts by id, with spaces between words, or pinyin after
    each character; the audio lies below, by id."""
    lists = [
        f"{folder}/{path}"
        for path in files_below(folder, lambda name: bool(_AISHELL.fullmatch(name)), ("wav",), 3)
    ]
    if not lists:
        return None
    paths: dict[str, str] = {}

    def rows() -> Iterator[FileRow]:
        if not paths:
            paths.update(by_stem(folder))
        for path in lists:
            yield from _by_id(path, partial(_of_aishell, paths, path.endswith("content.txt")))

    if next(audio_below(folder), None) is None or not _certain(rows, folder):
        return None
    name = os.path.relpath(lists[0], folder)
    says = f"AISHELL ({name}): text by id without the spaces between its words, audio below, by id"
    return Found("aishell", folder, rows, (says,))


def _of_aishell(paths: dict[str, str], with_pinyin: bool, key: str, text: str) -> Described:
    name = stem(key)
    match, audio = _SPEAKER.match(name), paths.get(name, f"{name}.wav")
    return Described(audio, _chinese(text, with_pinyin), match and match[1], "zh", name)


def _chinese(text: str, with_pinyin: bool) -> str:
    if with_pinyin:  # 广 guang3 州 zhou1
        text = " ".join(text.split()[0::2])
    return _BETWEEN_HAN.sub("", text)
