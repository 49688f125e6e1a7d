"""Windows from which a sentence was taken, as if Whisper had skipped it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from uttermill.tasks.asr import SpeechClip
from uttermill.tasks.asr._whisper import results
from uttermill.tasks.asr._whisper.results import BeamResult, Window
from uttermill.tasks.asr._whisper.windows import Windows, tokenizer_of
from uttermill.tasks.speech import Span


class Skipping:
    """The results of `windows`, but without a sentence in the first result of chosen clips."""

    def __init__(self, windows: Windows, model: Any) -> None:
        self._windows, self._model = windows, model
        self._holed: dict[int, Window] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._windows, name)

    def hear(self, asked: Sequence[Any], *more: Any, **options: Any) -> list[Window]:
        return [
            self._holed.pop(id(one[0]))
            if id(one[0]) in self._holed
            else self._windows.hear([one], *more, **options)[0]
            for one in asked
        ]

    def first(self, clip: SpeechClip) -> Window:
        (window,) = self._windows.hear([(clip, None)])
        return window

    def skip(self, clip: SpeechClip, window: Window, span: Span) -> Window | None:
        """Make `hear` return the clip's window without the words of a span, aligned anew; returns
        it, or None if no word is in the span or remains."""
        words = window.words or ()
        left = [w for w in words if not span[0] <= (w.start + w.end) / 2 <= span[1]]
        if not left or len(left) == len(words):
            return None
        text = "".join(word.word for word in left).strip()
        tokenizer = tokenizer_of(self._model, window.language.code)
        tokens = tuple(tokenizer.encode(" " + text))
        encoded = self._windows.encode([clip])
        aligned = results.aligned(self._model, tokenizer, encoded, tokens, len(clip.samples))
        heard = BeamResult(text, window.heard.avg_logprob, window.heard.no_speech, tokens)
        holed = self._holed[id(clip)] = replace(window, heard=heard, words=aligned)
        return holed
