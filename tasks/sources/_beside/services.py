"""Transcripts in JSON: of Whisper's programs (also WhisperX and whisper.cpp), and of the services
of AWS, Google, Deepgram and AssemblyAI, recognised by their keys. Their language is ignored: it is
a guess, and would be forced on the recogniser."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import TypeAlias

from ...base.errors import ItemError
from ...recording import TimedWord
from .._lists import json_value, seconds_field, text_field, timed_words
from .._text_encoding import BAD_TEXT
from .cues import Cue, Cues, NoTranscript, joined

#: An object of a transcript. A service may change what it writes: no value is taken unchecked.
Entry: TypeAlias = Mapping[str, object]


def cues(text: str) -> Cues:
    """The cues. Raises NoTranscript for other JSON, ItemError `bad_text` for a broken one."""
    try:
        value = json_value(text)
    except ValueError as error:
        raise ItemError(BAD_TEXT, str(error)) from None
    transcript = value if isinstance(value, dict) else {}
    read = next((read for recognised, read in _KINDS if recognised(transcript)), None)
    if read is None:
        raise NoTranscript("JSON that is not a transcript of a known kind")
    result = Cues()
    try:
        for cue in read(transcript):
            result.add(cue)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        why = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise ItemError(BAD_TEXT, f"its JSON does not have the form of its kind ({why})") from None
    return result


def _object(value: object) -> Entry:
    if not isinstance(value, dict):
        raise ValueError("a value is not an object")
    return value


def _objects(value: object) -> list[Entry]:
    """A list of objects, empty if absent."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise ValueError("a value is not a list of objects")
    return value


def _seconds(value: object) -> float:
    """Seconds of a number, or of a text such as `1.300s`; NaN if absent."""
    if isinstance(value, dict):  # protobuf's Duration
        value = float(value.get("seconds") or 0) + float(value.get("nanos") or 0) / 1e9
    seconds = seconds_field(value.removesuffix("s") if isinstance(value, str) else value)
    return float("nan") if seconds is None else seconds


def _words(items: Iterable[Entry], text: str, scale: float = 1.0) -> tuple[TimedWord, ...]:
    """Words whose text is under the key `text`; none if their times are not in order."""
    rows = [
        {"word": i.get(text), **{edge: _scaled(i.get(edge), scale) for edge in ("start", "end")}}
        for i in items
    ]
    try:
        return timed_words(rows) or ()
    except ValueError:
        return ()


def _scaled(value: object, scale: float) -> float | None:
    seconds = seconds_field(value)
    return None if seconds is None else seconds * scale


def _whisper(value: Entry) -> Iterable[Cue]:
    for segment in _objects(value.get("segments")):
        text = text_field(segment.get("text")) or ""
        words = _words(_objects(segment.get("words")), "word")
        start, end = _seconds(segment.get("start")), _seconds(segment.get("end"))
        yield Cue(start, end, text, text_field(segment.get("speaker")), words or None)


def _openai_words(value: Entry) -> Iterable[Cue]:
    words = _words(_objects(value.get("words")), "word")
    yield Cue(0.0, None, text_field(value.get("text")) or joined(words), words=words or None)


def _whisper_cpp(value: Entry) -> Iterable[Cue]:
    for segment in _objects(value["transcription"]):
        times = (_seconds(_object(segment["offsets"]).get(edge)) for edge in ("from", "to"))
        start, end = (time / 1000 for time in times)
        yield Cue(start, end, text_field(segment.get("text")) or "")


def _aws(value: Entry) -> Iterable[Cue]:
    results = _object(value["results"])
    items = _objects(results.get("items"))
    if segments := _objects(results.get("audio_segments")):
        for segment in segments:
            named = segment.get("items")
            ids = {*named} if isinstance(named, list) else set()
            words = _aws_words([item for item in items if item.get("id") in ids])
            text = text_field(segment.get("transcript")) or ""
            start, end = _seconds(segment.get("start_time")), _seconds(segment.get("end_time"))
            speaker = text_field(segment.get("speaker_label"))
            yield Cue(start, end, text, speaker, words or None)
        return
    labels = results.get("speaker_labels")
    turns = _objects(labels.get("segments")) if isinstance(labels, dict) else []
    labelled = (item for turn in turns for item in _objects(turn.get("items")))
    # Older files state speakers apart, by start time.
    by_start = {item.get("start_time"): item.get("speaker_label") for item in labelled}
    spoken, last = list[tuple[object, Entry]](), None
    for item in items:
        if item.get("type") != "punctuation":  # which has the speaker of the word before it
            last = item.get("speaker_label") or by_start.get(item.get("start_time"))
        spoken.append((last, item))
    yield from _turns(spoken, _aws_words)


def _turns(
    items: Iterable[tuple[object, Entry]],
    words_of: Callable[[list[Entry]], tuple[TimedWord, ...]],
) -> Iterable[Cue]:
    """A cue for each run of items of one speaker; `items`: (speaker, item)."""
    for speaker, turn in groupby(items, key=lambda pair: pair[0]):
        if words := words_of([item for _, item in turn]):
            yield Cue(words[0].start, words[-1].end, joined(words), text_field(speaker), words)


def _aws_words(items: list[Entry]) -> tuple[TimedWord, ...]:
    rows: list[dict[str, object]] = []
    for item in items:
        content = text_field(_objects(item["alternatives"])[0]["content"]) or ""
        if item.get("type") == "punctuation" and rows:
            rows[-1]["word"] = f"{rows[-1]['word']}{content}"
        else:
            start, end = item.get("start_time"), item.get("end_time")
            rows.append({"word": content, "start": start, "end": end})
    return _words(rows, "word")


def _google(value: Entry) -> Iterable[Cue]:
    results = _objects(_google_results(value))
    _one_channel({result.get("channelTag") for result in results})
    last = 0.0
    nothing: Entry = {}
    alternatives = [next(iter(_objects(r.get("alternatives"))), nothing) for r in results]
    word_lists = [_objects(alternative.get("words")) for alternative in alternatives]
    # Version 1 gives the words of all results once more in the last, with their speakers.
    once_more = word_lists[-1:]
    if alternatives and text_field(alternatives[-1].get("transcript")):
        once_more = []
    for lists in (once_more, word_lists):
        items = [item for words in lists for item in words]
        speakers = [item.get("speakerLabel") or item.get("speakerTag") for item in items]
        if items and all(speakers):
            yield from _turns(zip(speakers, items, strict=True), _google_words)
            return
    for result, alternative, items in zip(results, alternatives, word_lists, strict=True):
        text = text_field(alternative.get("transcript"))
        words = _google_words(items)
        end = _seconds(result.get("resultEndTime", result.get("resultEndOffset")))
        if text is not None:
            begin = words[0].start if words else last
            last = words[-1].end if words else end
            yield Cue(begin, last, text, words=words or None)


def _google_words(items: list[Entry]) -> tuple[TimedWord, ...]:
    rows = [
        {
            "word": item.get("word"),
            "start": _seconds(item.get("startTime", item.get("startOffset", "0s"))),
            "end": _seconds(item.get("endTime", item.get("endOffset"))),
        }
        for item in items
    ]
    return _words(rows, "word")


def _deepgram(value: Entry) -> Iterable[Cue]:
    results = _object(value["results"])
    channels = _objects(results["channels"])
    _one_channel(range(len(channels)))
    if utterances := _objects(results.get("utterances")):
        for utterance in utterances:
            edges = utterance["start"], utterance["end"]
            yield _deepgram_cue(utterance, *edges, utterance.get("speaker"))
        return
    for channel in channels:
        best = _objects(channel.get("alternatives"))[0]
        items = _objects(best.get("words"))
        speakers = [item.get("speaker") for item in items]
        if len({*speakers}) > 1 and None not in speakers:
            yield from _turns(zip(speakers, items, strict=True), _deepgram_words)
        else:
            yield _deepgram_cue(best, 0.0, None, speakers[0] if speakers else None)


def _deepgram_cue(utterance: Entry, start: object, end: object, speaker: object) -> Cue:
    words = _deepgram_words(_objects(utterance.get("words")))
    text = text_field(utterance.get("transcript")) or ""
    return Cue(_seconds(start), seconds_field(end), text, text_field(speaker), words or None)


def _deepgram_words(items: list[Entry]) -> tuple[TimedWord, ...]:
    spelled = all(item.get("punctuated_word") for item in items)
    return _words(items, "punctuated_word" if spelled else "word")


def _assembly(value: Entry) -> Iterable[Cue]:
    for utterance in _objects(value.get("utterances")) or [{**value, "start": 0}]:
        words = _words(_objects(utterance.get("words")), "text", 0.001)
        end = _scaled(utterance.get("end"), 0.001)
        text, speaker = (
            text_field(utterance.get("text")) or "",
            text_field(utterance.get("speaker")),
        )
        yield Cue(_seconds(utterance.get("start")) / 1000, end, text, speaker, words or None)


def _one_channel(channels: Iterable[object]) -> None:
    if len({*channels}) > 1:
        raise ValueError("its lines are of several channels, and a clip holds all channels")


def _results(value: Entry) -> Entry:
    results = value.get("results")
    return results if isinstance(results, dict) else {}


def _google_results(value: Entry) -> object:
    answer = value.get("response")  # of a long-running operation
    return (answer if isinstance(answer, dict) else value).get("results")


def _has_whisper_segments(value: Entry) -> bool:
    segments = value.get("segments")
    if segments == []:
        return "text" in value
    first = segments[0] if isinstance(segments, list) else None
    return isinstance(first, dict) and {"start", "end", "text"} <= first.keys()


#: Which keys identify a kind, the most specific first.
_KINDS: tuple[tuple[Callable[[Entry], bool], Callable[[Entry], Iterable[Cue]]], ...] = (
    (lambda value: "channels" in _results(value), _deepgram),
    (lambda value: "items" in _results(value), _aws),
    (lambda value: isinstance(_google_results(value), list), _google),
    (lambda value: isinstance(value.get("transcription"), list), _whisper_cpp),
    (lambda value: "text" in value and "audio_url" in value, _assembly),
    (lambda value: {"text", "utterances", "words"} <= value.keys(), _assembly),
    (_has_whisper_segments, _whisper),
    (lambda value: "text" in value and isinstance(value.get("words"), list), _openai_words),
)
