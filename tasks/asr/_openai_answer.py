"""The answer of a transcription server as a Transcript.

`json` has a text, and log-probabilities of tokens where they were asked for; `verbose_json` also
has the language, segments with Whisper's scores, and words. Servers leave out different parts, so
each part is optional and used only where it is valid. Some invent scores that they do not have:
vLLM fills in -1.0, others 0.0. A score that equals one of these constants in every segment is
ignored.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Required, TypedDict

from tasks.asr import Transcript, Word, _tokens
from tasks.base import language_codes


class Segment(TypedDict, total=False):
    """What is read of a segment; a server may put anything there."""

    start: object
    end: object
    tokens: object
    avg_logprob: object
    no_speech_prob: object
    compression_ratio: object
    words: object


class Answer(TypedDict, total=False):
    """What is read of an answer: a text, and beside it what a server may leave out."""

    text: Required[str]
    language: object
    language_probability: object
    segments: object  # of Segment, if all is well
    words: object
    logprobs: object


def parse(body: bytes) -> Answer:
    """The answer's object. ValueError when it is not a JSON object with a text."""
    answer: Answer = json.loads(body)
    if not isinstance(answer, dict) or not isinstance(answer.get("text"), str):
        raise ValueError("not a JSON object with a text")
    return answer


FILLED_IN = frozenset((-1.0, 0.0))


def transcript(
    answer: Answer, forced: str | None, timed: bool = False, seconds: float = math.inf
) -> Transcript:
    """The transcript in an answer. Scores are combined as for long clips of our own Whisper:
    log-probability is the mean over tokens, no-speech the mean over time, compression ratio the
    worst segment's. `timed`: the words' times are wanted; `seconds`: of the clip."""
    segments = _objects(answer.get("segments"))
    text = " ".join(answer["text"].split())
    no_speech = _mean(segments, "no_speech_prob", _seconds)
    logprob = _mean(segments, "avg_logprob", _tokens_of)
    if logprob is None or logprob > 0:
        logprob = _tokens.mean(_logprobs(answer))
    timed_words = _words(answer, segments, text, seconds) if timed else None
    return Transcript(
        text=text,
        language=forced or code(answer.get("language")),
        language_probability=None if forced else _share(answer.get("language_probability")),
        avg_logprob=logprob,
        no_speech_probability=_share(no_speech),
        compression_ratio=max(
            (value for value in _real(segments, "compression_ratio") if value and value > 0),
            default=None,
        ),
        words=timed_words,
        text_end=timed_words[-1].end if timed_words else None,
    )


def _objects(listed: object) -> list[Segment]:
    """The objects of a list; none if it is no list."""
    entries: list[Segment | None] = listed if isinstance(listed, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]


def code(name: object) -> str | None:
    """ISO code of a language's name (`english`) or code (`en`, `en-US`); None when unknown."""
    if not isinstance(name, str):
        return None
    word = name.strip().lower()
    first = language_codes.base(word)
    return language_codes.OF_NAMES.get(word) or (
        first if re.fullmatch("[a-z]{2,3}", first) else None
    )


def _mean(segments: list[Segment], name: str, weight: Callable[[Segment], float]) -> float | None:
    values = _real(segments, name)
    weighted = [(value, weight(s)) for value, s in zip(values, segments, strict=True)]
    given = [(value, share) for value, share in weighted if value is not None]
    total = sum(share for _, share in given)
    return sum(value * share for value, share in given) / total if total else None


def _seconds(segment: Segment) -> float:
    start, end = _number(segment.get("start")), _number(segment.get("end"))
    return max(end - start, 1e-3) if start is not None and end is not None else 1.0


def _real(segments: list[Segment], name: str) -> list[float | None]:
    """The score of each segment; all None if they are filled-in constants."""
    scores = [_number(s.get(name)) for s in segments]
    return [None] * len(scores) if {*scores} - {None} <= FILLED_IN else scores


def _logprobs(answer: Answer) -> list[float]:
    """Log-probabilities of tokens, as OpenAI's newer models give them."""
    listed = answer.get("logprobs")
    tokens = [t for t in listed if isinstance(t, dict)] if isinstance(listed, list) else []
    values = [value for t in tokens if (value := _number(t.get("logprob"))) is not None]
    return [] if {*values} <= FILLED_IN else values


def _words(
    answer: Answer, segments: list[Segment], text: str, seconds: float
) -> tuple[Word, ...] | None:
    """Words with times, of the answer or of its segments, written as in its text; None if there
    are none, if they are others, or if a time lies outside the clip."""
    listed = answer.get("words")
    if not isinstance(listed, list):
        parts = [s.get("words") for s in segments]
        listed = [word for part in parts if isinstance(part, list) for word in part]
    timed: list[Word] = []
    last = 0.0
    for entry in listed:
        word = entry.get("word") if isinstance(entry, dict) else None
        start, end = (_number(entry.get(n)) if word else None for n in ("start", "end"))
        if not isinstance(word, str) or start is None or end is None or end > seconds + 1.0:
            return None
        begin = min(max(start, last), seconds)
        last = min(max(end, begin), seconds)
        timed.append(Word(word, begin, last, _share(entry.get("probability"))))
    return _tokens.aligned(text, timed) if timed or not text else None


def _tokens_of(segment: Segment) -> float:
    tokens = segment.get("tokens")
    return len(tokens) + 1.0 if isinstance(tokens, list) else 1.0


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _share(value: object) -> float | None:
    number = _number(value)
    return number if number is not None and 0 <= number <= 1 else None
