"""One clip of up to 30 s, transcribed until its text covers its speech.

Whisper may end a text at a pause, or skip a sentence, and report good scores: of 40 clips of 20 to
30 s with several speakers, five lost about half of their words. The times of the words
(cross-attention), compared with the detected speech, show it. Skipped speech is transcribed as a
window of its own, and its words are inserted where they were said.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tasks import speech
from tasks.asr import SpeechClip, Transcript, Word
from tasks.asr._whisper.results import SILENCE_LOGPROB, BeamResult, Language, Window, ordered
from tasks.asr._whisper.windows import LOOP_RATIO
from tasks.base.arrays import RATE
from tasks.speech import Span

LEAST_SECONDS = 0.8  # of speech without words; a word may end up to 0.5 s before its speech
#: Most speech of a word, s, and more for each of its characters, as figures are one word.
WORD_SECONDS, CHARACTER_SECONDS = 2.5, 0.25
LEAD_SECONDS = 0.2  # of audio before skipped speech
ROUNDS = 6  # most further windows of one clip


@dataclass(slots=True)
class Hearing:
    """A clip and its text so far. `parts`: texts, each with words timed in seconds of the clip.

    `again`: the text comes from a window that the clip shared, and is doubtful: the whole clip is
    transcribed by itself, and the better of the two texts stays. `foreign`: that text is not in the
    clip's language, and does not stay.
    """

    clip: SpeechClip
    language: Language
    parts: list[tuple[BeamResult, tuple[Word, ...]]] = field(default_factory=list)
    aligned: bool = True
    silent: list[Span] = field(default_factory=list)  # transcribed again, without a usable text
    rounds: int = 0
    again: bool = False
    foreign: bool = False

    @property
    def seconds(self) -> float:
        return len(self.clip.samples) / RATE

    @property
    def words(self) -> tuple[Word, ...]:
        heard = [word for _, words in self.parts for word in words]
        return ordered(sorted(heard, key=lambda word: (word.start, word.end)), self.seconds)

    def missed(self) -> list[Span]:
        """Spans with speech and no words that have not been tried yet."""
        if self.again:
            return [(0.0, self.seconds)]
        if not self.aligned or self.rounds >= ROUNDS or not self.words:
            return []
        return [
            span
            for span in self.uncovered()
            if not any(first <= span[0] and span[1] <= last for first, last in self.silent)
        ]

    def uncovered(self) -> list[Span]:
        """Spans with speech and no words."""
        return uncovered(self.words, self.clip.speech, self.seconds)

    def drawn_out(self) -> float:
        """Speech in words that is more than they can be, s: the engine stretches the last word of a
        phrase over what the text leaves out."""
        over = (
            speech.within(self.clip.speech, word.start, word.end)
            - WORD_SECONDS
            - CHARACTER_SECONDS * len(word.word.strip())
            for word in self.words
        )
        return sum(seconds for seconds in over if seconds > 0)

    def cut(self, span: Span) -> SpeechClip:
        """The samples of a span as a clip of its own."""
        start, end = (round(edge * RATE) for edge in span)
        return SpeechClip(np.ascontiguousarray(self.clip.samples[start:end]))

    def add(self, span: Span, window: Window) -> None:
        """Insert the words of a window of `span`, if its scores are good enough."""
        if self.again:
            self._choose(window)
            return
        heard, words = window.heard, window.words
        doubtful = heard.avg_logprob < SILENCE_LOGPROB or heard.ratio > LOOP_RATIO
        if not words or heard.silent or doubtful:
            self.silent.append(span)
            return
        moved = [replace(w, start=w.start + span[0], end=w.end + span[0]) for w in words]
        self.parts.append((heard, tuple(moved)))

    def _choose(self, window: Window) -> None:
        """Take the window of the whole clip, unless the previous text covers as much of the speech
        with better scores."""
        self.again = False
        alone = begun(self.clip, window)
        before, after = (_left_out(hearing) for hearing in (self, alone))
        surer = window.heard.avg_logprob >= self.parts[0][0].avg_logprob
        if self.foreign or not self.aligned or after < before or (after == before and surer):
            self.parts, self.aligned = alone.parts, alone.aligned

    def transcript(self, with_words: bool) -> Transcript:
        """All parts as one. Log-probability: mean over tokens; compression: the worst part's."""
        first = self.parts[0][0]
        heard = [part for part, _ in self.parts]
        text = first.text
        if len(heard) > 1:
            text = " ".join("".join(word.word for word in self.words).split())
        words = self.words
        weights = [len(part.tokens) + 1 for part in heard]
        return Transcript(
            text="" if first.silent else text,
            language=self.language.code,
            language_probability=self.language.probability,
            avg_logprob=float(np.average([part.avg_logprob for part in heard], weights=weights)),
            no_speech_probability=first.no_speech,
            compression_ratio=max(part.ratio for part in heard),
            words=(words if self.aligned else None) if with_words else None,
            text_end=(words[-1].end if words else 0.0) if self.aligned else None,
            detected_language=self.language.detected,
            detected_probability=self.language.detected_probability,
        )


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
    return sum(end - start for start, end in hearing.uncovered()) + hearing.drawn_out()


def uncovered(words: tuple[Word, ...], spans: tuple[Span, ...], seconds: float) -> list[Span]:
    """Spans between words, before the first and after the last, with `LEAST_SECONDS` of speech;
    each from shortly before that speech to the next word, or to the end."""
    gaps: list[Span] = []
    covered = 0.0
    for start, end in [*((word.start, word.end) for word in words), (seconds, seconds)]:
        if speech.within(spans, covered, start) >= LEAST_SECONDS:
            # Speech that continues from the last word is cut there; other speech keeps its lead.
            begins = next(
                max(covered, first - LEAD_SECONDS) for first, last in spans if last > covered
            )
            gaps.append((begins, start))
        covered = max(covered, end)
    return gaps
