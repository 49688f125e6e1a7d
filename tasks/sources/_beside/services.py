"""Transcripts in JSON, recognised by their keys: of Whisper's programs (WhisperX, whisper.cpp, the
pipelines of transformers), of services (AWS, Azure, Google, Deepgram, AssemblyAI, Speechmatics,
Rev.ai, ElevenLabs, Gladia), of aligners (Vosk, aeneas, Gentle) and of podcasts. All have segments,
or words one after the other, whose keys have a few names. Their language is ignored: it is a
guess, and would be forced on the recogniser."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, TypeAlias

from ...base.errors import ItemError
from ...recording import TimedWord
from ...recording.locator import Channels
from .._lists import json_value, seconds_field, text_field, timed_words
from .._text_encoding import BAD_TEXT
from .cues import Cue, Cues, NoTranscript, joined

#: An object of a transcript. A service may change what it writes: no value is taken unchecked.
Entry: TypeAlias = Mapping[str, object]

#: Names of what a segment or a word has; a dot leads into a value, or a list, and after times stand
#: their units in a second.
_TEXT = (
    *("punctuated_word", "word", "text", "transcript", "display", "value", "body", "lines"),
    *("alternatives.0.content", "alternatives.0.transcript", "nBest.0.display"),
)
_SPEAKER = (
    *("speaker", "speaker_label", "speaker_id", "speakerLabel", "speakerTag"),
    "alternatives.0.speaker",
)
_CHANNEL = ("channel", "channelTag", "channel_label")
_IN_SECONDS = ("start", "start_time", "startTime", "startOffset", "begin", "ts", "timestamp.0")
_START = {
    **dict.fromkeys(_IN_SECONDS, 1.0),
    **{"offsets.from": 1e3, "offsetMilliseconds": 1e3, "offsetInTicks": 1e7},
}
_END = {
    **dict.fromkeys(("end", "end_time", "endTime", "endOffset", "end_ts", "timestamp.1"), 1.0),
    "offsets.to": 1e3,
}
_LENGTH = {"durationMilliseconds": 1e3, "durationInTicks": 1e7}
_RESULT_END = {"resultEndTime": 1.0, "resultEndOffset": 1.0}  # of Google
#: Kinds of items that belong to the word before them.
_MARKS = ("punctuation", "punct", "spacing")


class _Form(NamedTuple):
    """`path`: of a list of segments, or of words; `words`: of a segment's, None in a list of words;
    `units`: of time in a second; `first`: the number of the first channel."""

    path: str
    words: str | None = "words"
    units: float = 1.0
    first: int = 0


#: The most specific first.
_FORMS = (
    _Form("results.utterances"),  # Deepgram
    _Form("results.channels", "alternatives.0.words"),
    _Form("results.audio_segments", "items"),  # AWS
    _Form("results.items", None),
    _Form("results", None),  # Speechmatics
    _Form("response.results", "alternatives.0.words", first=1),  # Google
    _Form("results", "alternatives.0.words", first=1),
    _Form("recognizedPhrases", "nBest.0.words"),  # Azure
    _Form("phrases"),
    _Form("monologues", "elements"),  # Rev.ai
    _Form("result.transcription.utterances"),  # Gladia
    _Form("transcription"),  # whisper.cpp
    _Form("segments"),  # Whisper, podcasts
    _Form("chunks"),  # transformers
    _Form("fragments"),  # aeneas
    _Form("utterances", units=1e3, first=1),  # AssemblyAI
    _Form("words", None),  # OpenAI, ElevenLabs, Gentle, AssemblyAI
    _Form("result", None),  # Vosk
)
LOOKED = 100  # entries by which a form is recognised


def cues(text: str) -> Cues:
    """The cues. Raises NoTranscript for other JSON, ItemError `bad_text` for a broken one."""
    try:
        value = json_value(text)
    except ValueError as error:
        raise ItemError(BAD_TEXT, str(error)) from None
    transcript = {"segments": value} if isinstance(value, list) else value
    form = next((form for form in _FORMS if _fits(form, transcript)), None)
    if form is None or not isinstance(transcript, dict):
        raise NoTranscript("JSON that is not a transcript of a known kind")
    result = Cues()
    try:
        for cue in _cues(form, transcript):
            result.add(cue)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        why = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise ItemError(BAD_TEXT, f"its JSON does not have the form of its kind ({why})") from None
    return result


def _at(value: object, path: str) -> object:
    """What a path leads to; None if it leads nowhere."""
    for part in path.split("."):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def _first(entry: Entry, names: Iterable[str]) -> object:
    return next((value for name in names if (value := _at(entry, name)) not in (None, "")), None)


def _fits(form: _Form, transcript: object) -> bool:
    entries = _at(transcript, form.path)
    if entries == []:
        return form.path == "segments" and _at(transcript, "text") is not None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return False
    if form.words is None:
        return any(_is_timed(entry) for entry in entries[:LOOKED])
    return any(
        _is_timed(entry) or isinstance(_at(entry, form.words), list) or _first(entry, _RESULT_END)
        for entry in entries[:LOOKED]
    )


def _is_timed(entry: Entry) -> bool:
    return all(_first(entry, names) is not None for names in (_TEXT, _START, {**_END, **_LENGTH}))


def _objects(value: object) -> list[Entry]:
    """A list of objects, empty if absent."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise ValueError("a value is not a list of objects")
    return value


def _seconds(entry: Entry, names: Mapping[str, float], units: float) -> float | None:
    """Seconds of a number, of a text such as `1.300s`, or of protobuf's Duration."""
    for name, per_second in names.items():
        if (value := _at(entry, name)) is not None:
            if isinstance(value, dict):
                value = float(value.get("seconds") or 0) + float(value.get("nanos") or 0) / 1e9
            seconds = seconds_field(value.removesuffix("s") if isinstance(value, str) else value)
            return None if seconds is None else seconds / per_second / units
    return None


def _times(entry: Entry, units: float) -> tuple[float | None, float | None]:
    start, end = (_seconds(entry, names, units) for names in (_START, _END))
    length = _seconds(entry, _LENGTH, units)
    return start, start + length if start is not None and length is not None else end


def _text(entry: Entry) -> str:
    text = _first(entry, _TEXT)
    lines = text if isinstance(text, list) else [text]
    return " ".join(filter(None, map(text_field, lines)))


def _words(items: Iterable[Entry], units: float) -> tuple[TimedWord, ...]:
    """Words with their times; none if these are not in order."""
    rows: list[dict[str, object]] = []
    for item in items:
        word = _text(item)
        if item.get("type") in _MARKS:
            if rows:
                rows[-1]["word"] = f"{rows[-1]['word']}{word}"
            continue
        start, end = _times(item, units)
        rows.append({"word": word, "start": start, "end": end})
    try:
        return timed_words(rows) or ()
    except ValueError:
        return ()


def _cues(form: _Form, transcript: Entry) -> Iterable[Cue]:
    entries = _objects(_at(transcript, form.path))
    if form.words is None:
        yield from _stream(form, transcript, entries)
        return
    if form.path == "results.audio_segments":  # which name their items
        by_id = {item.get("id"): item for item in _objects(_at(transcript, "results.items"))}
        entries = [{**e, "items": [by_id[n] for n in _ids(e) if n in by_id]} for e in entries]
    lists = [_objects(_at(entry, form.words)) for entry in entries]
    if form.path == "results.channels":
        for number, (entry, items) in enumerate(zip(entries, lists, strict=True)):
            yield from _whole(entry, items, form.units, (number,) if len(entries) > 1 else None)
        return
    channels, last = _channels(form, entries), 0.0
    # Google's version 1 gives all words once more in the last result, with their speakers.
    again = lists[-1:] if lists and not _text(entries[-1]) else []
    for some in (again, lists) if form.path.endswith("results") and not any(channels) else ():
        words = [item for items in some for item in items]
        if words and all(_first(item, _SPEAKER) for item in words):
            yield from _turns(words, form.units, None)
            return
    for entry, items, channel in zip(entries, lists, channels, strict=True):
        timed = _words(items, form.units)
        start, end = _times(entry, form.units)
        if not _has_any(entry, _START):
            start = timed[0].start if timed else last
        if not _has_any(entry, {**_END, **_LENGTH}):
            end = timed[-1].end if timed else _seconds(entry, _RESULT_END, form.units)
        elif end is None and entry is not entries[-1]:
            end = math.nan
        text = _text(entry) or joined(timed)
        if text or _has_any(entry, _START):
            last = end or last
            begin = math.nan if start is None else start
            speaker = text_field(_first(entry, _SPEAKER))
            yield Cue(begin, end, text, speaker, timed or None, channel)


def _ids(entry: Entry) -> Sequence[object]:
    named = entry.get("items")
    return named if isinstance(named, list) else ()


def _has_any(entry: Entry, names: Iterable[str]) -> bool:
    return any(name.partition(".")[0] in entry for name in names)


def _channels(form: _Form, entries: Sequence[Entry]) -> list[Channels | None]:
    """The channel of each entry, else that of the one before it, if they are of several."""
    channels: list[Channels | None] = []
    for entry in entries:
        number = re.search(r"\d{1,2}$", str(_first(entry, _CHANNEL)))
        last = channels[-1] if channels else None
        channels.append((max(int(number[0]) - form.first, 0),) if number else last)
    return channels if len({*channels}) > 1 else [None] * len(channels)


def _stream(form: _Form, transcript: Entry, items: list[Entry]) -> Iterable[Cue]:
    """Words one after the other, as turns where several speakers or channels are named."""
    if form.path == "results.items":  # of AWS, whose older files state speakers apart, by time
        labelled = _objects(_at(transcript, "results.speaker_labels.segments"))
        parts = [part for turn in labelled for part in _objects(turn.get("items"))]
        by_start = {part.get("start_time"): part.get("speaker_label") for part in parts}
        items = [{"speaker": by_start.get(item.get("start_time")), **item} for item in items]
    channels = _channels(form, items)
    about = {} if form.path.startswith("results") or any(channels) else transcript
    in_ms = "utterances" in transcript or "audio_url" in transcript  # of AssemblyAI
    for channel in sorted({*channels}, key=str):
        some = [item for item, of in zip(items, channels, strict=True) if of == channel]
        yield from _whole(about, some, 1e3 if in_ms else 1.0, channel)


def _whole(
    about: Entry, items: list[Entry], units: float, channel: Channels | None
) -> Iterable[Cue]:
    """The words of a recording or of one of its channels, as `about` has them as a text."""
    spoken = (item for item in items if item.get("type") not in _MARKS)
    speakers = {text_field(_first(item, _SPEAKER)) for item in spoken}
    text = _text(about)
    if not text or (len(speakers) > 1 and None not in speakers):
        yield from _turns(items, units, channel)
        return
    speaker = next(iter(speakers), None)
    yield Cue(0.0, None, text, speaker, _words(items, units) or None, channel)


def _turns(items: Iterable[Entry], units: float, channel: Channels | None) -> Iterable[Cue]:
    """A cue for each run of words of one speaker; marks have that of the word before them."""
    spoken, last = list[tuple[object, Entry]](), None
    for item in items:
        if item.get("type") not in _MARKS:
            last = _first(item, _SPEAKER)
        spoken.append((last, item))
    for speaker, turn in groupby(spoken, key=lambda pair: pair[0]):
        if words := _words([item for _, item in turn], units):
            times = words[0].start, words[-1].end
            yield Cue(*times, joined(words), text_field(speaker), words, channel)
