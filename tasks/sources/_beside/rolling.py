"""Captions to segments: automatic ones say each word once, and cues of one sentence are joined.

Automatic captions, as video sites write them, show each line again above the next (roll-up):

    00:01.000 --> 00:02.565        you<00:01.315><c> don't</c><00:01.630><c> mean</c>
    00:02.565 --> 00:02.575        you don't mean
    00:02.575 --> 00:04.125        you don't mean / thought<00:02.890><c> me</c>

A word is said in the cue in which it is new, at the time before it. Others show each line alone,
while the next one is said, so that their times overlap: a line is said until the next one begins.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from ... import scoring
from ...recording import TimedWord
from .._lists import clock
from .cues import OVERLAP, Cue, recurring, said, untagged

LEAST = 3  # cues that show what machines do
SHARE = 0.4  # of the cues
PAUSE = 0.5  # s: cues further apart are not one segment
LONGEST = 600.0  # s of a segment, which is cut where the clips are
LONGEST_WORD = 1.0  # s; the next one may begin much later
ALIKE = 0.5  # of the words of automatic captions that those made by hand have
_ENDED = re.compile(r"""[.!?…。！？][\"'’”»)\]]*$""")
_TIME = re.compile(r"<((?:\d+:)?\d\d:\d\d\.\d{3})>")
_OTHER_SPEAKER = re.compile(r"\s*(?:[-‐‑–—]+(?!\d)|>{2,3})")


def automatic(cues: Sequence[Cue]) -> list[Cue] | None:
    """The cues of automatic captions with what is new in each, joined up to a pause; None if they
    are made by hand."""
    ordered = sorted(cues, key=lambda cue: cue.start)
    lines = [[line for line in cue.text.splitlines() if line.strip()] for cue in ordered]
    shown = [[word for line in some for word in _words(line)] for some in lines]
    repeated = [_repeated(before, some) for before, some in zip([[], *shown], lines, strict=False)]
    least = max(LEAST, SHARE * len(ordered))
    if sum(map(bool, repeated)) < least:
        repeated = [0] * len(ordered)
        timed = sum(tagged([cue]) for cue in ordered)
        if timed < least and sum(_overlap(*pair) for pair in pairwise(ordered)) < least:
            return None
        ordered = [
            replace(one, end=following.start) if _overlap(one, following) else one
            for one, following in pairwise(ordered)
        ] + ordered[-1:]
    fresh: list[Cue] = []
    for n, (cue, some, count) in enumerate(zip(ordered, lines, repeated, strict=True)):
        if words := _timed(cue, some)[count:]:
            text = " ".join(word.word for word in words)
            if tagged([cue]):
                end = words[-1].end
                words = tuple(word for word in words if any(map(str.isalnum, word.word)))
                fresh.append(replace(cue, end=end, text=text, words=words or None))
            else:
                fresh.append(replace(cue, text=text))
        elif fresh and shown[n] and shown[n] == shown[n - 1] and cue.text != ordered[n - 1].text:
            fresh[-1] = replace(fresh[-1], end=cue.end)  # it marks another word
    return _joined(fresh)


def tagged(cues: Iterable[Cue]) -> bool:
    """Whether words have times."""
    return any(_TIME.search(cue.text) for cue in cues)


def _overlap(one: Cue, following: Cue) -> bool:
    """Whether a line is shown while the next is said; cues of equal times are of two languages."""
    return one.start + OVERLAP < following.start < (one.end or 0.0) - OVERLAP


def _words(line: str) -> list[str]:
    return untagged(line).split()


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
                now = clock(piece)
            else:
                starts += [(word, now) for word in _words(piece)]
    ends = [*(start for _, start in starts[1:]), cue.end or cue.start]
    return tuple(
        TimedWord(word, start, max(min(end, start + LONGEST_WORD), start))
        for (word, start), end in zip(starts, ends, strict=False)  # of no word, if all is markup
    )


def sentences(cues: Sequence[Cue]) -> list[Cue]:
    """Cues of one sentence as one, in a file that ends its sentences with a mark."""
    ended = [_ENDED.search(untagged(cue.text).rstrip()) is not None for cue in cues]
    if sum(ended) < max(LEAST, SHARE * len(cues)):
        return [*cues]
    return _joined(cues, ended)


def unmarked(cues: Sequence[Cue]) -> bool:
    """Whether no sentence begins with a capital or ends with a mark, as machines write."""
    text = "\n".join(untagged(cue.text) for cue in cues)
    cased = any(map(str.islower, text)) and not any(map(str.isupper, text))
    return len(cues) >= LEAST and cased and re.search(r"[.!?…]\B", text) is None


def _joined(cues: Sequence[Cue], ended: Sequence[bool] = ()) -> list[Cue]:
    """Cues that follow each other without a pause, or the end of a sentence, as one. Each keeps its
    time, as its words do, so that the whole can be cut."""
    names = recurring(cue.text for cue in cues)
    runs: list[list[Cue]] = []
    for n, cue in enumerate(cues):
        last = runs[-1][-1] if runs else None
        goes_on = last is not None and not (ended and ended[n - 1]) and _follows(last, cue, names)
        if goes_on and (cue.end or 0.0) - runs[-1][0].start <= LONGEST:
            runs[-1].append(cue)
        else:
            runs.append([cue])
    return [_whole(run, names) if len(run) > 1 else run[0] for run in runs]


def _follows(last: Cue, cue: Cue, names: frozenset[str]) -> bool:
    """Whether a cue may continue the one before it: without a pause, in the same voice, and both
    with words that are understood."""
    if last.end is None or cue.end is None or not -PAUSE <= cue.start - last.end < PAUSE:
        return False
    if _OTHER_SPEAKER.match(untagged(cue.text)):
        return False
    heard = [said(one.text, names) for one in (last, cue)]
    if any(says.unheard or not says.text for says in heard):
        return False
    voices = [one.speaker or says.speaker for one, says in zip((last, cue), heard, strict=True)]
    return voices[1] in (None, voices[0]) and last.channels == cue.channels


def _whole(run: Sequence[Cue], names: frozenset[str]) -> Cue:
    words: list[TimedWord] = []
    for cue in run:
        text = said(cue.text, names).text
        words += cue.words or (TimedWord(text, cue.start, cue.end or cue.start),)
    end = max(cue.end or 0.0 for cue in run)
    return replace(run[0], end=end, text="\n".join(cue.text for cue in run), words=tuple(words))


def alike(automatic: Sequence[str], by_hand: Sequence[str]) -> bool:
    """Whether two texts say the same, one as a machine heard it: not if one is a translation."""
    texts = (scoring.normalise(" ".join(some), "") for some in (automatic, by_hand))
    heard, written = (Counter(scoring.words(text)) for text in texts)
    return (heard & written).total() >= ALIKE * heard.total()
