"""Lists that sources read: lines, fields, and how bad lines are reported. A line that cannot be
understood, or that names something unusable, becomes a `Recording` with an `error`, so it counts in
the failed fraction. `Ignored` is only for lines that are left out on purpose."""

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from ..base import language_codes
from ..base.errors import UNREACHABLE, ConfigError, ItemError
from ..recording import Ignored, Locator, Recording, TimedWord
from ..recording.guard import display_path
from ..recording.names import REST, display_text, is_utf8, recording_name
from ..settings import SourceSettings
from ..settings.base import READ, WORDS
from ..storage import bounds

PARENT_FOLDER = "parent_folder"  # where a recording's path names its speaker
Entries = Iterator[Recording | Ignored]

#: Labels that aligners write for silence.
SILENT = frozenset(("", "<eps>", "<sil>", "sil", "SIL"))


class SpeakerSettings(SourceSettings):
    """Settings of a source whose entries may name a speaker."""

    speaker: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        None,
        description="Who speaks in a recording for which the source names nobody: a name, or "
        "parent_folder.",
        json_schema_extra=WORDS,
    )

    def speaker_of(self, path: str) -> str | None:
        if self.speaker == PARENT_FOLDER:
            return os.path.basename(os.path.dirname(path)) or None
        return self.speaker


class ListSettings(SpeakerSettings):
    """Settings of a source that is one list of files."""

    root: str | None = Field(
        None,
        description="Folder that relative paths start from; default: the list's folder.",
        json_schema_extra=READ,
    )


def refusal(path: str, what: str) -> ConfigError:
    """What is wrong with a whole source, in a sentence about its path."""
    space = "" if what.startswith(":") else " "
    return ConfigError(f"source {display_text(path)!r}{space}{what}")


def failed(path: str, source_path: str, file: str, code: str, detail: str) -> Recording:
    """A recording that the listing shows to be unusable; `file` is where its bytes should be."""
    return Recording(path, source_path, Locator(file), 0, "", error=(code, detail))


def unlisted(name: str, path: str, error: ItemError) -> Recording:
    """The part of a container that cannot be listed, as one failed recording."""
    rest = failed(f"{name}{REST}", f"{display_path(path)}{REST}", path, error.code, error.detail)
    # With an offset: the whole file would be probed as a recording once it can be read.
    return replace(rest, locator=Locator(path, offset=0)) if error.code == UNREACHABLE else rest


def unopened(name: str, path: str, error: tuple[str, str]) -> Recording:
    """A container that cannot be opened."""
    if error[0] == UNREACHABLE:
        return unlisted(name, path, ItemError(*error))
    return failed(name, display_path(path), path, *error)


def bad_line(file: str, number: int | str, why: str | ItemError | ValueError) -> Recording:
    """An unusable line as a failed recording named `<list>:<line>`."""
    code, why = (why.code, why.detail) if isinstance(why, ItemError) else ("unreadable", str(why))
    return failed(line_name(file, number), f"{display_text(file)}:{number}", file, code, why)


def again(reason: str, first: str | None, text: str | None) -> str:
    """Why a repeated entry is skipped: `reason`, or `other_text` if its text contradicts that of
    the first one, which counts."""
    return reason if text in (None, first) else "other_text"


def line_name(file: str, number: int | str) -> str:
    return recording_name(f"{os.path.basename(file)}:{number}")


def json_object(line: str | None) -> dict[str, object]:
    """A line as a JSON object, a conversation about one audio as its `audio` and `text`; ValueError
    says what is wrong. None: as `urls.lines` gives it."""
    if line is None:
        raise ValueError("the line is too long")
    value = json_value(line)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return conversation(value)


#: pandas writes NaN where a value is missing.
_JSON = json.JSONDecoder(parse_constant=lambda name: None if name == "NaN" else float(name))


def json_value(text: str) -> object:
    """A text as JSON, NaN as None; ValueError says what is wrong."""
    try:
        return _JSON.decode(text)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"not JSON: {display_text(str(error))}") from None


def text_field(value: object) -> str | None:
    """A string or number as text, None if empty, NaN or absent; ValueError for anything else."""
    if not isinstance(value, str):
        if value is None or value != value:
            return None
        if isinstance(value, ValueError):  # put in place of a text when the table was read
            raise value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"a text is expected, not {type(value).__name__}")
        # pandas turns whole numbers beside missing ones into floats.
        value = str(int(value) if isinstance(value, float) and value.is_integer() else value)
    text = value.strip()
    if not is_utf8(text):
        raise ValueError("a text is not valid UTF-8")
    if len(text) > bounds.MAX_TEXT_BYTES:
        raise ValueError(bounds.too_long(len(text)))
    return text or None


#: What pandas and others write where a value is missing.
_ABSENT = frozenset(("NaN", "nan", "None", "null", "NULL", "-", "<NA>", "NaT", "N/A"))
#: Languages in which `null` is a word: zero.
_NULL_IS_A_WORD = frozenset(("de", "nb", "nn", "no", "et", "lb"))


def is_absent(value: object) -> bool:
    """Whether a cell is a blank text, or one that stands for a missing value."""
    return isinstance(value, str) and (not (text := value.strip()) or text in _ABSENT)


def cell_field(value: object) -> str | None:
    """`text_field` of a cell of a table, in which a missing value may be written `NaN` or `-`."""
    return None if isinstance(value, str) and value.strip() in _ABSENT else text_field(value)


def reference_field(value: object, language: str | None) -> str | None:
    """`cell_field` of a text in `language`."""
    is_word = value == "null" and language_codes.base(language or "") in _NULL_IS_A_WORD
    return "null" if is_word else cell_field(value)


def language_field(value: object, stated: str | None) -> str | None:
    """The code of a language in a cell (`tasks.base.language_codes.read`), None if absent.
    `stated`: the source's language, which replaces a code that cannot be read; without it, that is
    a ValueError."""
    written = cell_field(value)
    code = language_codes.read(written) if written else ""
    if code is None and not stated:
        raise ValueError(language_codes.fault(written or "") or f"{written!r} is not a language")
    return code or None


def seconds_field(value: object) -> float | None:
    """Finite seconds, None if absent; ValueError for anything else."""
    if value is None:
        return None
    wrong = ValueError(f"a time is not a number of seconds, such as 1.5: {str(value)[:20]!r}")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise wrong
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        raise wrong from None
    if not math.isfinite(seconds):
        raise ValueError("a time is not a finite number of seconds")
    return seconds


#: A time as spreadsheets and editors write it: `1:02:03.45`.
_CLOCK = re.compile(r"(?:\d{1,5}:)?\d{1,2}:\d{1,2}(?:[.,]\d{1,6})?")


def clock(text: str) -> float:
    """Seconds of `01:02:03,450`, `02:03.45`, or `00:02:03:450`."""
    *higher, seconds = re.sub(r",|:(?=\d{3}$)", ".", "".join(text.split())).split(":")
    minutes = 0
    for part in higher:
        minutes = 60 * minutes + int(part)
    return round(60 * minutes + float(seconds), 3)


def seconds_cell(value: object) -> float | None:
    """`seconds_field` of a cell of a table, in which a missing value may be written `NaN`, and a
    time by the clock."""
    if isinstance(value, str) and _CLOCK.fullmatch(value.strip()):
        return clock(value)
    return None if is_absent(value) else seconds_field(value)


def timed_words(value: object) -> tuple[TimedWord, ...] | None:
    """Words with their times from `{word, start, end}` or `[word, start, duration]`, None if absent
    or empty, or if no word has times; ValueError for anything else, and if they are not in order of
    time. Words without times (as of figures in WhisperX) share the gap between their neighbours."""
    if value is None:
        return None
    if not isinstance(value, list):
        raise ValueError("word times must be a list")
    words: list[TimedWord] = []
    untimed: list[str] = []
    for item in value:
        word, start, end = _timed_word(item)
        if word in SILENT:
            continue
        if start is None or end is None:
            untimed.append(word)
            continue
        if not 0 <= start <= end or (words and start < words[-1].start):
            raise ValueError("word times are negative, or not in order")
        words += _shared(untimed, min(words[-1].end, start) if words else start, start)
        words.append(TimedWord(word, start, end))
        untimed = []
    if words:
        words += _shared(untimed, words[-1].end, words[-1].end)
    return tuple(words) or None


def _shared(words: list[str], start: float, end: float) -> list[TimedWord]:
    """Words in equal parts of a gap."""
    step = (end - start) / max(len(words), 1)
    return [TimedWord(w, start + n * step, start + (n + 1) * step) for n, w in enumerate(words)]


def _timed_word(item: object) -> tuple[str, float | None, float | None]:
    """A word with its start and end in s, None if it has no times."""
    if isinstance(item, dict):
        text, start, end = item.get("word"), item.get("start"), item.get("end")
        begins, ends = seconds_field(start), seconds_field(end)
    elif isinstance(item, list) and len(item) >= 3:
        text, begins, lasts = item[0], seconds_field(item[1]), seconds_field(item[2])
        ends = None if begins is None or lasts is None else begins + lasts
    else:
        raise ValueError("a word with times must be {word, start, end} or [word, start, duration]")
    if begins is None or ends is None:
        begins = ends = None
    return text_field(text) or "", begins, ends


def checked_span(start: float | None, end: float | None) -> tuple[float, float | None]:
    """(start, end) in seconds; ValueError if impossible. An `end` of -1 (Kaldi) is None: the end;
    `start` None means 0."""
    begin = 0.0 if start is None else start
    finish = None if end == -1 else end
    if begin < 0:
        raise ValueError("the segment starts before 0")
    if finish is not None and finish <= begin:
        raise ValueError("the segment ends before it starts")
    return begin, finish


# Entries of lists that trainers read, as columns: a conversation about one audio (ms-swift,
# LLaMA-Factory, ShareGPT), and an utterance of SpeechBrain.

_ANSWERING = ("assistant", "gpt", "model")
_PARTS = ("audio_url", "audio", "path", "url")
#: What SpeechBrain's recipes replace by the folder of the data.
_DATA_ROOTS = ("{data_root}/", "$data_root/")
_WORDS = ("words", "wrd", "transcript")


def without_data_root(path: str) -> str:
    """A path of SpeechBrain's from the root of its list."""
    return path.partition("/")[2] if path.startswith(_DATA_ROOTS) else path


def conversation(entry: dict[str, object]) -> dict[str, object]:
    """An entry with one audio and one answer as `audio` and `text`; any other entry as it is.
    ValueError if it has several: which belong together is not written there."""
    turns = entry.get("messages", entry.get("conversations"))
    if turns is None and "audios" in entry and isinstance(entry.get("response"), str):
        turns = [{"role": "assistant", "content": entry["response"]}]  # ms-swift's `query`
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        return entry
    stated = entry.get("audios", entry.get("audio"))
    audios: list[object] = [*stated] if isinstance(stated, list) else [stated] if stated else []
    answers: list[object] = []
    for turn in turns:
        content = turn.get("content", turn.get("value"))
        audios += _parts(content, ("audio", "audio_url", "input_audio"), _PARTS)
        if turn.get("role", turn.get("from")) in _ANSWERING:
            answers += [content] if isinstance(content, str) else []
            answers += _parts(content, ("text",), ("text",))
    if not audios:
        return entry
    if len(audios) != 1 or len(answers) != 1:
        raise ValueError(
            f"a conversation with {len(audios)} audios and {len(answers)} answers: it does not say "
            "which text is said where; one of each is read"
        )
    taken = ("messages", "conversations", "audios", "audio", "response")
    others = {name: value for name, value in entry.items() if name not in taken}
    return {**others, "audio": audios[0], "text": answers[0]}


def _parts(content: object, kinds: Sequence[str], names: Sequence[str]) -> list[object]:
    """What the parts of some kinds hold, of a turn whose content is a list of parts."""
    parts = content if isinstance(content, list) else []
    return [
        next((part[name] for name in names if part.get(name)), None)
        for part in parts
        if isinstance(part, dict) and part.get("type") in kinds
    ]


def utterance(key: str, value: Mapping[str, object]) -> dict[str, object]:
    """An entry of SpeechBrain's JSON as a row. ValueError if its times count samples."""
    wav = value.get("wav")
    if isinstance(wav, dict) and ("start" in wav or "stop" in wav):
        raise ValueError("its start and stop count samples; write a list with times in seconds")
    audio = wav.get("file") if isinstance(wav, dict) else wav
    name = next((name for name in _WORDS if isinstance(value.get(name), str)), None)
    row = {"id": key, **value, "wav": without_data_root(audio) if isinstance(audio, str) else audio}
    row.pop("length", None)  # of the file
    row.pop("duration", None)
    if name is not None and "text" not in value:
        row["text"] = row.pop(name)
    return row
