"""Layouts in JSON: GigaSpeech and WenetSpeech, one object for a corpus; Emilia-Pipe, one list for a
recording; SpeechBrain, an object with an entry for each utterance."""

import codecs
import json
import os
import re
from collections import ChainMap
from collections.abc import Iterator
from functools import partial

from ...base.errors import ItemError
from ...recording.file_kinds import HEAD
from ...storage import urls
from .._delimited import Record
from .._folders import entries, files_below
from .._lists import conversation, utterance
from .._paths import EXTENSIONS
from .._rows import Described, FileRow, Found, Records

HEAD_BYTES = 1 << 16  # in which `"audios": [` begins
MOST_CHARACTERS = 64 << 20  # of one recording with its segments
STEP = 1 << 20
#: A SpeechBrain manifest begins with an utterance's id and its object.
_MAPPING = re.compile(r'\A\ufeff?\s*\{(?=\s*"(?:[^"\\]|\\.)*"\s*:\s*\{)')
_KEY = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:\s*')
_AUDIOS = re.compile(r'"audios"\s*:\s*\[(?=\s*\{)')
_LIST = re.compile(r"\A\ufeff?\s*\[(?=\s*[{\]])")
_LANGUAGE = re.compile(r'"language"\s*:\s*"([^"]{1,40})"')
_BETWEEN = re.compile(r"[\s,]*")
#: How GigaSpeech writes punctuation in `text_tn`.
_MARKS = {" <COMMA>": ",", " <PERIOD>": ".", " <QUESTIONMARK>": "?", " <EXCLAMATIONPOINT>": "!"}


def corpus(path: str) -> Found | None:
    """GigaSpeech or WenetSpeech: `{"language", "audios": [{"path", "segments": [{"sid",
    "begin_time", "end_time", "text_tn" or "text"}]}]}`, as a file or in a folder."""
    file = path
    if os.path.isdir(path):
        lists = files_below(path, lambda name: name.endswith(".json"), depth=1)
        whole = [f"{path}/{name}" for name in lists if _is_corpus(f"{path}/{name}")]
        if len(whole) != 1:
            return None
        file = whole[0]
    elif not path.endswith(".json") or not _is_corpus(path):
        return None
    root, name = os.path.dirname(file), os.path.basename(file)
    title = "WenetSpeech" if "wenet" in name.lower() else "GigaSpeech"
    says = f"{title} ({name}): audio from 'path', segments with 'text_tn' or 'text', 'sid', times"
    return Found(title.lower(), root, lambda: _segments(file), (says,), whole=os.path.isdir(path))


def _is_corpus(path: str) -> bool:
    try:
        with urls.streamed(path) as file:
            return _AUDIOS.search(file.read(HEAD_BYTES).decode("utf-8", "replace")) is not None
    except OSError:
        return False


def _segments(path: str) -> Iterator[FileRow]:
    number = 0

    def wrong(what: str) -> FileRow:
        return FileRow(path, number, ValueError(what))

    for language, audio in _audios(path):
        number += 1
        if not isinstance(audio, dict):
            yield wrong(str(audio) if isinstance(audio, ValueError) else "no JSON object")
            continue
        segments = audio.get("segments")
        if not isinstance(segments, list):
            yield wrong("the recording has no list of segments")
            continue
        for segment in segments:
            if not isinstance(segment, dict):
                yield wrong("a segment is no JSON object")
                continue
            text = segment.get("text_tn", segment.get("text"))
            if isinstance(text, str):
                for tag, mark in _MARKS.items():
                    text = text.replace(tag, mark)
            described = Described(
                audio.get("path"),
                text,
                segment.get("speaker"),
                audio.get("language") or language,
                segment.get("sid"),
                segment.get("begin_time"),
                segment.get("end_time"),
                record=ChainMap(segment, audio),
            )
            yield FileRow(path, number, described)


def whole(path: str) -> Records | None:
    """The records of a file that is one list of objects, or SpeechBrain's mapping of ids to
    utterances, whatever its size; None if it has a line for each. OSError if it cannot be read."""
    with urls.streamed(path) as file:
        head = file.read(HEAD).decode("utf-8", "replace")
    if _LIST.match(head):
        return Records(partial(_entries, path, _LIST))
    is_mapping = _MAPPING.match(head) and '"wav"' in head
    return Records(partial(_entries, path, _MAPPING)) if is_mapping else None


def _entries(path: str, opening: re.Pattern[str]) -> Iterator[tuple[int, Record]]:
    for number, (key, entry) in enumerate(_audios(path, opening), 1):
        if not isinstance(entry, dict):
            yield number, entry if isinstance(entry, ValueError) else ValueError("no JSON object")
            continue
        try:
            yield number, conversation(entry) if opening is _LIST else utterance(key or "", entry)
        except ValueError as error:
            yield number, error


def _audios(path: str, opening: re.Pattern[str] = _AUDIOS) -> Iterator[tuple[str | None, object]]:
    """(language of the corpus, entry) of the list, or (key, entry) of the mapping, that begins at
    `opening`, in a file that may exceed memory; a ValueError as the last entry says why it cannot
    be read on."""
    keyed = opening is _MAPPING
    decoder, reader = codecs.getincrementaldecoder("utf-8")("surrogateescape"), json.JSONDecoder()
    with urls.streamed(path) as file:
        text = decoder.decode(file.read(HEAD_BYTES))
        begun = opening.search(text)
        assert begun is not None, "not looked at before"
        stated = _LANGUAGE.search(text, 0, begun.start())
        position, step, ended = begun.end(), STEP, False
        while True:
            position = _BETWEEN.match(text, position).end()  # type: ignore[union-attr] # matches anything
            if text.startswith("}" if keyed else "]", position):
                if opening is _LIST and text[position + 1 :].strip():
                    yield None, ValueError("the list ends here; what follows it is not read")
                return
            try:
                key = _KEY.match(text, position) if keyed else None
                if keyed and key is None:
                    raise ValueError("no key yet")
                entry, position = reader.raw_decode(text, key.end() if key else position)
            except (ValueError, RecursionError):
                if ended or len(text) - position > MOST_CHARACTERS:
                    why = "the JSON breaks off here, or an entry is too long; the rest is not read"
                    yield None, ValueError(why)
                    return
                data = file.read(step)
                text, position = text[position:] + decoder.decode(data), 0
                step, ended = 2 * step, not data
                continue
            if key is not None:
                yield key[1], entry
            else:
                yield stated[1].lower() if stated else None, entry
            step = STEP


def emilia_pipe(folder: str) -> Found | None:
    """Emilia-Pipe's output: `<name>/<name>.json`, a list of `{"text", "speaker", "language"}`, and
    the clip of entry i as `<name>/<name>_<i>`, with or without zeros before."""
    lists = [
        relative
        for relative in files_below(folder, lambda name: name.endswith(".json"), depth=4)
        if os.path.basename(os.path.dirname(os.path.join(folder, relative))) + ".json"
        == os.path.basename(relative)
    ]
    if not lists or not any(_numbered(folder, relative) for relative in lists[:5]):
        return None

    def rows() -> Iterator[FileRow]:
        for relative in lists:
            yield from _clips(folder, relative)

    says = "Emilia-Pipe (<name>/<name>.json): clips <name>_<number>, text, speaker and language"
    return Found("emilia", folder, rows, (says,))


def _numbered(folder: str, relative: str) -> dict[int, str]:
    """The clips beside a list, by number."""
    home, name = os.path.dirname(relative), os.path.basename(relative).removesuffix(".json")
    clip = re.compile(rf"{re.escape(name)}_(\d+)(\.\w+)")
    matches = (clip.fullmatch(entry) for entry in entries(os.path.join(folder, home)))
    return {
        int(clip[1]): f"{home}/{clip[0]}".lstrip("/")
        for clip in matches
        if clip and clip[2] in EXTENSIONS
    }


def _clips(folder: str, relative: str) -> Iterator[FileRow]:
    path, name = f"{folder}/{relative}", os.path.basename(relative).removesuffix(".json")
    clips = _numbered(folder, relative)
    try:
        listed = whole(path)
        if listed is None:
            raise ValueError("a list of JSON objects is expected")
        for number, entry in listed.rows():
            if isinstance(entry, ValueError):
                yield FileRow(path, number, entry)
                continue
            index, speaker = number - 1, entry.get("speaker")
            audio = clips.get(index, f"{os.path.dirname(relative)}/{name}_{index}.mp3")
            speaker_name = f"{name}_{speaker}" if isinstance(speaker, str) and speaker else None
            text, language = entry.get("text"), entry.get("language")
            what = Described(audio, text, speaker_name, language, entry.get("id"), record=entry)
            yield FileRow(path, number, what)
    except (OSError, ValueError, ItemError) as error:
        yield FileRow(path, 1, ValueError(str(error)))
