"""One clip, transcribed until its text covers its speech.

Of 40 clips of 20 to 30 s with several speakers, Whisper lost about half of the words of five, with
good scores. The times of the words (cross-attention) show it in two ways: no word where there is
speech, or one word that is stretched over what was skipped. Such a hole is transcribed as a window
of its own, from pause to pause, because the times of the words beside a hole are wrong, too; if
that brings nothing, the hole alone. The words are inserted where they were said.

Of clips of more than 30 s, the engine cuts windows at the timestamps that it predicts. It computes
the spectrogram of its whole input at once, at 25 kB for each 0.01 s, so it gets pieces of five
minutes. A piece ends at the first window that would reach beyond it, and the next piece starts with
that window: the windows are those of a single pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import ceil
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import speech
from ...base.arrays import RATE, Float32s
from ...speech import Span
from .. import SpeechClip, Transcript, Word
from .loading import Settings
from .results import (
    APPENDED,
    HOP,
    PREPENDED,
    SILENCE_LOGPROB,
    BeamResult,
    Language,
    Window,
    ordered,
)
from .windows import LOOP_RATIO, LOOP_RETRY, SECONDS

if TYPE_CHECKING:
    from faster_whisper import WhisperModel
    from faster_whisper.transcribe import Segment

WIDEST_SECONDS = 25.0  # that are transcribed again for one hole
PAUSE_SECONDS = 0.2  # shortest pause at which a text is parted
EDGE_SECONDS = 0.15  # of speech by which the edge of a word may be wrong
ROUNDS = 6  # most further windows of one clip, or for each 30 s of a longer one


@dataclass(slots=True)
class Hearing:
    """A clip and its text so far. `parts`: texts, each with words timed in seconds of the clip.

    `again`: the text comes from a window that the clip shared, and is doubtful: the whole clip is
    transcribed by itself, and the better of the two texts stays. `foreign`: that text is not in the
    clip's language, and does not stay. `tells`: its own language is detected then.
    """

    clip: SpeechClip
    language: Language
    parts: list[tuple[BeamResult, tuple[Word, ...]]] = field(default_factory=list)
    aligned: bool = True
    #: What was transcribed again without a usable text: from pause to pause, and alone.
    tried: list[Span] = field(default_factory=list)
    silent: list[Span] = field(default_factory=list)
    rounds: int = 0
    again: bool = False
    foreign: bool = False
    tells: bool = False

    @property
    def seconds(self) -> float:
        return len(self.clip.samples) / RATE

    @property
    def forced_language(self) -> str | None:
        """The language in which missed spans are transcribed; None: the clip's own is detected,
        where a text in its window's language is doubtful."""
        stated = self.language.probability is None
        detects = self.again and self.tells and not self.foreign and not stated
        return None if detects else self.language.code

    @property
    def words(self) -> tuple[Word, ...]:
        heard = [word for _, words in self.parts for word in words]
        return ordered(sorted(heard, key=lambda word: (word.start, word.end)), self.seconds)

    def missed(self) -> list[Span]:
        """Spans with speech that no word accounts for and that have not been tried yet."""
        if self.again:
            return [(0.0, self.seconds)]
        most = ROUNDS * ceil(self.seconds / SECONDS)
        if not self.aligned or self.rounds >= most or not self.words:
            return []
        return [
            hole.span if _covered(hole.span, self.tried) else self._to_pauses(hole)
            for hole in self.holes()
            if not _covered(hole.span, self.silent)
        ]

    def _to_pauses(self, hole: Hole) -> Span:
        """The hole, each of whose edges that lies within speech is moved to the nearest pause that
        parts words from words; alone if that is too long. It never grows to the start of the clip:
        from there, Whisper would skip the same again."""
        pauses = [*_pauses(self.words, self.clip.speech)]
        start, end = hole.span
        inner = [(first + EDGE_SECONDS, last - EDGE_SECONDS) for first, last in self.clip.speech]
        if any(first < start < last for first, last in inner):
            start = max((pause for pause in pauses if pause <= start), default=start)
        if any(first < end < last for first, last in inner):
            end = min((pause for pause in pauses if pause >= end), default=self.seconds)
        return (start, end) if end - start <= WIDEST_SECONDS else hole.span

    def holes(self) -> list[Hole]:
        return holes(self.words, self.clip.speech, self.seconds)

    def cut(self, span: Span) -> SpeechClip:
        """The samples of a span as a clip of its own."""
        start, end = (round(edge * RATE) for edge in span)
        return SpeechClip(np.ascontiguousarray(self.clip.samples[start:end]))

    def add(self, span: Span, window: Window) -> None:
        """Insert the words of a window of `span`, if its scores are good enough, in place of a word
        that was stretched over it."""
        if self.again:
            self._choose(window)
            return
        heard, words = window.heard, window.words
        doubtful = heard.avg_logprob < SILENCE_LOGPROB or heard.ratio > LOOP_RATIO
        if not words or heard.silent or doubtful:
            self._fail(span)
            return
        moved = tuple(replace(w, start=w.start + span[0], end=w.end + span[0]) for w in words)
        others = []
        for part, part_words in self.parts:  # the words whose middle lies outside
            outside = (w for w in part_words if not span[0] <= (w.start + w.end) / 2 <= span[1])
            others.append((part, tuple(outside)))
        before, after = (sum(len(left) for _, left in parts) for parts in (self.parts, others))
        if len(words) <= before - after:  # the stretched word again, or less
            self._fail(span)
            return
        self.parts = [*others, (heard, moved)]

    def _fail(self, span: Span) -> None:
        alone = any(hole.span == span for hole in self.holes())
        (self.silent if alone else self.tried).append(span)

    def _choose(self, window: Window) -> None:
        """Take the window of the whole clip, unless the previous text covers as much of the speech
        with better scores."""
        self.again = False
        alone = begun(self.clip, window)
        before, after = (_left_out(hearing) for hearing in (self, alone))
        surer = window.heard.avg_logprob >= self.parts[0][0].avg_logprob
        if self.foreign or not self.aligned or after < before or (after == before and surer):
            self.parts, self.aligned = alone.parts, alone.aligned
            if window.language.probability is not None:
                self.language = window.language

    def transcript(self, with_words: bool) -> Transcript:
        """All parts as one. Log-probability: mean over tokens; compression: the worst part's."""
        first = self.parts[0][0]
        heard = [part for part, _ in self.parts]
        text, words = first.text, self.words
        if len(heard) > 1:
            text = " ".join("".join(word.word for word in words).split())
        longest = max(self.holes(), key=lambda hole: hole.speech, default=Hole(0.0, 0.0, 0.0))
        weights = [len(part.tokens) + 1 for part in heard]
        return Transcript(
            text="" if first.silent else text,
            language=self.language.code,
            language_probability=self.language.probability,
            avg_logprob=float(np.average([part.avg_logprob for part in heard], weights=weights)),
            no_speech_probability=first.no_speech,
            compression_ratio=max(part.ratio for part in heard),
            text_probability=first.probability if len(heard) == 1 else None,
            words=(words if self.aligned else None) if with_words else None,
            text_end=(words[-1].end if words else 0.0) if self.aligned else None,
            hole=(longest.start, longest.speech) if self.aligned else None,
            detected_language=self.language.detected,
            detected_probability=self.language.detected_probability,
        )


def _covered(span: Span, others: Sequence[Span]) -> bool:
    return any(first <= span[0] and span[1] <= last for first, last in others)


def _pauses(words: Sequence[Word], spans: Sequence[Span]) -> Iterator[float]:
    """The middle of each pause over which no word is stretched."""
    for (_, before), (after, _) in pairwise(spans):
        middle = (before + after) / 2
        over = (w for w in words if w.start < middle < w.end)
        if after - before >= PAUSE_SECONDS and not any(
            min(speech.within(spans, w.start, middle), speech.within(spans, middle, w.end))
            > EDGE_SECONDS
            for w in over
        ):
            yield middle


def begun(clip: SpeechClip, window: Window) -> Hearing:
    """A clip after its first window."""
    words = window.words
    return Hearing(clip, window.language, [(window.heard, words or ())], words is not None)


def _left_out(hearing: Hearing) -> float:
    """Speech without words, s; for an empty text, more than the clip has."""
    if not hearing.aligned:
        return 0.0
    if not hearing.words:
        return hearing.seconds + 1.0
    return sum(hole.speech for hole in hearing.holes())


# Holes: speech of a clip that no word of its text accounts for.
LEAST_SECONDS = 0.8  # of speech in a hole; a word may end up to 0.5 s before its speech
#: After the last word: 29 right clips had up to 0.48 s, and more than this without their last two
#: words, of which a limit of 0.8 s saw 72 %.
LAST_SECONDS = 0.6
LEAD_SECONDS = 0.2  # of audio before speech that has no words
#: Speech that a word usually takes, s: a start, and more for each character, or for each figure or
#: letter that is said one by one.
WORD_SECONDS, CHARACTER_SECONDS, SPELLED_SECONDS = 0.2, 0.03, 0.3
#: Slowest pace of a clip, in times that speech: if half of the words take more, they are stretched.
SLOWEST = 2.5
#: A word is stretched if it takes longer than its like in the clip this many times, and so many s
#: more: a word said slowly or with emphasis is not a hole.
MOST, STRETCHED = 2.0, 0.4


@dataclass(frozen=True, slots=True)
class Hole:
    """A span of a clip, in s, and the seconds of speech in it that no word accounts for. It
    includes the whole of a word that is stretched over some of it, as that may be said at either
    end; such a word accounts for as much speech as others like it in the clip."""

    start: float
    end: float
    speech: float

    @property
    def span(self) -> Span:
        return self.start, self.end


def holes(words: Sequence[Word], spans: Sequence[Span], seconds: float) -> list[Hole]:
    """Holes in the text of a clip of `seconds`, in order; `spans`: its speech."""
    joined: dict[int, Hole] = {}  # by the place of the last piece
    last = -2
    for place, piece in _pieces(words, spans, seconds):
        if place == last + 1 or (place == last + 2 and place % 2):  # no sound word lies between
            before = joined.pop(last)
            piece = Hole(before.start, piece.end, before.speech + piece.speech)
        joined[place] = piece
        last = place
    least = {2 * len(words): LAST_SECONDS} if words else {}
    return [h for place, h in joined.items() if h.speech >= least.get(place, LEAST_SECONDS)]


def _pieces(
    words: Sequence[Word], spans: Sequence[Span], seconds: float
) -> Iterator[tuple[int, Hole]]:
    """Gaps with speech and stretched words, numbered: word n is 2 n + 1, the gap before it 2 n."""
    paces = [speech.within(spans, word.start, word.end) / _usual(word) for word in words]
    # Of the clip's words, in times their usual one: slow speech is not a hole.
    pace = min(max(median(paces or [1.0]), 1.0), SLOWEST)
    covered = 0.0
    for number, word in enumerate([*words, None]):
        start = seconds if word is None else word.start
        if (missing := speech.within(spans, covered, start)) > 0:
            # Speech that continues from the last word is cut there; other speech keeps its lead.
            first = next(first for first, last in spans if last > covered)
            yield 2 * number, Hole(max(covered, first - LEAD_SECONDS), start, missing)
        if word is None:
            return
        taken = speech.within(spans, word.start, word.end)
        expected = pace * _usual(word)
        if taken > MOST * expected + STRETCHED:
            yield 2 * number + 1, Hole(word.start, word.end, taken - expected)
        covered = max(covered, word.end)


def _usual(word: Word) -> float:
    """Speech that a word usually takes, s."""
    text = word.word.strip()
    spelled = sum(c.isdigit() for c in text) + len(text) * text.isupper()
    return WORD_SECONDS + CHARACTER_SECONDS * len(text) + SPELLED_SECONDS * spelled


PIECE = 300 * RATE  # samples of a longer clip that the engine gets at once


@dataclass(frozen=True, slots=True)
class Long:
    model: WhisperModel
    settings: Settings

    def hear(self, clip: SpeechClip, language: Language) -> Hearing:
        """The clip's text with the times of its words. RuntimeError, ValueError or MemoryError when
        the engine refuses it."""
        segments: list[Segment] = []
        words: list[Word] = []
        aligned = True
        position = 0
        while position < len(clip.samples):
            piece = clip.samples[position : position + PIECE]
            of_piece = self._piece(piece, language.code)
            step = len(piece)
            if position + len(piece) < len(clip.samples):
                of_piece, step = whole_windows(of_piece, len(piece))
            segments += of_piece
            aligned &= all(segment.words is not None for segment in of_piece)
            offset = position / RATE
            words += [
                Word(word.word, word.start + offset, word.end + offset, word.probability)
                for segment in of_piece
                for word in segment.words or ()
            ]
            position += step
        in_order = ordered(words, len(clip.samples) / RATE)
        return Hearing(clip, language, [(joined(segments), in_order)], aligned)

    def _piece(self, samples: Float32s, language: str) -> list[Segment]:
        segments = self._segments(samples, language)
        if _loops(segments):
            again = self._segments(samples, language, **LOOP_RETRY)
            segments = segments if _loops(again) else again
        return segments

    def _segments(
        self, samples: Float32s, language: str, timed: bool = True, **options: Any
    ) -> list[Segment]:
        """Segments of a piece, without words if the engine cannot align them."""
        try:
            segments, _ = self.model.transcribe(
                samples.astype(np.float32, copy=False),
                language=language,
                beam_size=self.settings.beam_size,
                temperature=0.0,  # above 0 the engine samples at random
                condition_on_previous_text=False,  # else a loop continues to the end
                vad_filter=False,
                initial_prompt=self.settings.prompt_of(language),
                prepend_punctuations=PREPENDED,
                append_punctuations=APPENDED,
                word_timestamps=timed,
                **options,
            )
            return list(segments)
        except IndexError:  # as in `results.aligned`
            if not timed:
                raise
            return self._segments(samples, language, timed=False, **options)


def whole_windows(segments: list[Segment], samples: int) -> tuple[list[Segment], int]:
    """Segments whose windows lie in a piece of `samples`, and the sample where the next one starts.

    That is the first window that reaches beyond the piece. Where silence leaves none, it is the
    last place at which a window would have fitted.
    """
    kept = [s for s in segments if s.seek * HOP + SECONDS * RATE <= samples]
    if len(kept) < len(segments):
        return kept, int(segments[len(kept)].seek * HOP)
    last = max((round(s.end * RATE) for s in kept), default=0)
    return kept, min(max(samples - SECONDS * RATE, last), samples)


def joined(segments: list[Segment]) -> BeamResult:
    """The engine's segments as one result; the engine itself leaves out silent windows.

    Log-probability: mean over tokens; no-speech: mean over time; compression ratio: the worst
    window's, since that of a long text grows with its length.
    """
    if not segments:
        return BeamResult("", 0.0, 1.0)
    tokens = [len(s.tokens) + 1 for s in segments]
    seconds = [max(s.end - s.start, 1e-3) for s in segments]
    return BeamResult(
        " ".join("".join(s.text for s in segments).split()),
        float(np.average([s.avg_logprob for s in segments], weights=tokens)),
        float(np.average([s.no_speech_prob for s in segments], weights=seconds)),
        tuple(token for s in segments for token in s.tokens),
        max(s.compression_ratio for s in segments),
    )


def _loops(segments: list[Segment]) -> bool:
    """Whether a text repeats itself so much that the engine ran in a loop."""
    return any(s.compression_ratio > LOOP_RATIO for s in segments)
