"""Roll-up captions, as machines write them: each line is shown again above the next.

    00:01.000 --> 00:02.565        you<00:01.315><c> don't</c><00:01.630><c> mean</c>
    00:02.565 --> 00:02.575        you don't mean
    00:02.575 --> 00:04.125        you don't mean / thought<00:02.890><c> me</c>

Each word is said once, in the cue in which it is new; times before words are theirs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ...recording import TimedWord
from . import spoken
from .cues import Cue

LEAST = 3  # cues that repeat what the one before them shows
SHARE = 0.4  # of the cues
PAUSE = 0.5  # s: cues further apart are not one clip
LONGEST = 30.0  # s of a clip, the default of `given`
_ENDED = re.compile(r"""[.!?…。！？][\"'’”»)\]]*$""")
_TIME = re.compile(r"<((?:\d+:)?\d\d:\d\d\.\d{3})>")


def unrolled(cues: Sequence[Cue]) -> list[Cue] | None:
    """The cues with the words that are new in each, joined up to a pause; None if they are not
    roll-up captions."""
    ordered = sorted(cues, key=lambda cue: cue.start)
    lines = [_lines(cue.text) for cue in ordered]
    shown = [[word for line in some for word in _words(line)] for some in lines]
    repeated = [_repeated(before, some) for before, some in zip([[], *shown], lines, strict=False)]
    if sum(map(bool, repeated)) < max(LEAST, SHARE * len(ordered)):
        return None
    fresh: list[Cue] = []
    for cue, some, count in zip(ordered, lines, repeated, strict=True):
        if words := _timed(cue, some)[count:]:
            text = " ".join(word.word for word in words)
            fresh.append(replace(cue, text=text, words=words if _TIME.search(cue.text) else None))
    return _joined(fresh)


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _words(line: str) -> list[str]:
    return spoken.untagged(line).split()


def _repeated(before: list[str], lines: list[str]) -> int:
    """How many words at the start of a cue the one before it shows: whole lines, or all that it
    shows, where a line grows."""
    words = [_words(line) for line in lines]
    for count in range(len(lines), 0, -1):
        first = [word for line in words[:count] for word in line]
        if first and before[-len(first) :] == first:
            return len(first)
    every = [word for line in words for word in line]
    return len(before) if before and every[: len(before)] == before else 0


def _timed(cue: Cue, lines: list[str]) -> tuple[TimedWord, ...]:
    """The words of a cue, each up to the next; a word without a time begins with the cue, or where
    the one before it does."""
    starts: list[tuple[str, float]] = []
    for line in lines:
        now = cue.start
        for n, piece in enumerate(_TIME.split(line)):
            if n % 2:
                now = _seconds(piece)
            else:
                starts += [(word, now) for word in _words(piece)]
    ends = [*(start for _, start in starts[1:]), cue.end or cue.start]
    return tuple(
        TimedWord(word, start, max(end, start))
        for (word, start), end in zip(starts, ends, strict=True)
    )


def _seconds(clock: str) -> float:
    seconds = 0.0
    for part in clock.split(":"):
        seconds = 60 * seconds + float(part)
    return round(seconds, 3)


def sentences(cues: Sequence[Cue]) -> list[Cue]:
    """Cues of one sentence as one, in a file that ends its sentences with a mark."""
    ended = [_ENDED.search(spoken.untagged(cue.text).rstrip()) is not None for cue in cues]
    if sum(ended) < max(LEAST, SHARE * len(cues)):
        return [*cues]
    clips: list[Cue] = []
    for number, cue in enumerate(cues):
        begins = _words(cue.text)[:1]
        small = bool(begins) and begins[0][:1].islower()
        if clips and small and not ended[number - 1] and follows(clips[-1], cue):
            clips[-1] = both(clips[-1], cue)
        else:
            clips.append(cue)
    return clips


def _joined(cues: Sequence[Cue]) -> list[Cue]:
    """Cues that follow each other without a pause, as one."""
    clips: list[Cue] = []
    for cue in cues:
        last = clips[-1] if clips else None
        if last is None or not follows(last, cue):
            clips.append(cue)
        else:
            clips[-1] = both(last, cue)
    return clips


def follows(last: Cue, cue: Cue) -> bool:
    """Whether a cue may continue the clip of the one before it."""
    if last.end is None or cue.end is None:
        return False
    near = -PAUSE <= cue.start - last.end < PAUSE and cue.end - last.start <= LONGEST
    return near and (last.speaker, last.channels) == (cue.speaker, cue.channels)


def both(last: Cue, cue: Cue) -> Cue:
    words = last.words + cue.words if last.words and cue.words else None
    end = max(last.end or 0.0, cue.end or 0.0)
    return replace(last, end=end, text=f"{last.text}\n{cue.text}", words=words)
