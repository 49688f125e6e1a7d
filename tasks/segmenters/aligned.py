"""Cuts the sentences of the recording's text where they are spoken: an audiobook with its book.

A recogniser hears the whole recording first (`hears`); its words are matched with the text
(`_by_words.py`), or the text with the scores of a CTC model, and each sentence that was said
becomes an utterance with its own text. Speech that is not in the text is `unsegmented`
(`not_in_text`), pauses are `non_speech`. A run of sentences missing from the audio becomes one
utterance of no samples at that place, which is dropped as `not_in_audio`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, groupby, pairwise
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from .. import plugins
from ..base.arrays import Float32s
from ..base.errors import ConfigError
from ..base.json_types import JsonObject
from ..plugins.contracts.segmenters import RecordingTranscript
from ..recording import Segment, TimedWord
from ..scoring import ctc_path
from ..scoring.alphabet import Spelling
from ..settings import Plugin, StageSettings
from ..settings.base import Shelf
from ..shard_store import recipe
from . import KnownSpans, Segmenter, Span, _by_words
from ._sentences import Pauses, Sentence, sentences

LISTENS = True
VERSION = 5  # 5: pauses between sentences are `non_speech`
LEAST_SURE = 0.3  # least confidence of a sentence that was said, by a CTC model
TOUCH = 0.01  # s of speech at the ends of a pause that may be rounding


class Settings(StageSettings):
    engine: Literal["by_recogniser", "ctc"] = Field(
        "by_recogniser",
        description="by_recogniser: by the words that a recogniser hears; ctc: by the scores of a "
        "CTC model, the backend ctc, without a transcript.",
    )
    backend: Annotated[Plugin, Shelf("asr", "recogniser")] = Field(
        Plugin.model_validate({"use": "faster_whisper", "word_timestamps": True}),
        description="Recogniser of the whole recording; it must give the times of words.",
    )

    def recipe(self) -> JsonObject:
        """The settings without the recogniser, whose own recipe is in `identity`."""
        return {name: value for name, value in super().recipe().items() if name != "backend"}


def hears(settings: Settings) -> Plugin:
    return settings.backend


def identity(settings: Settings) -> str:
    recogniser, options = plugins.ASR.resolve(settings.backend)
    return recipe.digest(recipe.of_plugin("asr", settings.backend), recogniser.weights(options))


def model_bytes(settings: Settings) -> int:
    recogniser, options = plugins.ASR.resolve(settings.backend)
    return recogniser.model_bytes(options)


def check_weights(settings: Settings) -> None:
    """Raises ConfigError if the recogniser cannot do what the engine needs."""
    recogniser, _ = plugins.ASR.resolve(settings.backend)
    if settings.engine == "ctc" and not hasattr(recogniser.Backend, "emissions"):
        raise ConfigError(
            "filter.segmenter.engine ctc needs the backend ctc, with a folder of a CTC model; "
            f"{settings.backend.use} emits no scores of tokens"
        )


def wants_emissions(settings: Settings) -> bool:
    return settings.engine == "ctc"


def wants_gpu(settings: Settings) -> bool:
    recogniser, options = plugins.ASR.resolve(settings.backend)
    return recogniser.wants_gpu(options)


def gpu_fault(settings: Settings) -> str | None:
    recogniser, options = plugins.ASR.resolve(settings.backend)
    return recogniser.gpu_fault(options)


class Aligned(KnownSpans):
    """Gives each sentence as soon as its end is decoded, after a span for the gap before it:
    `non_speech` if nobody speaks in it, else `unsegmented` for `reason`. `speech`: spans of speech,
    s; None if unknown."""

    def __init__(
        self,
        sentences: Sequence[Sentence],
        rate: int,
        reason: str,
        speech: Sequence[tuple[float, float]] | None = None,
    ) -> None:
        self._reason, self._rate = reason, rate
        self._edges = None if speech is None else [*chain.from_iterable(speech)]
        self._done = 0  # samples covered
        spans: list[Span] = []
        end = 0
        for spoken, run in groupby(sentences, lambda sentence: sentence.span is not None):
            if not spoken:
                text = " ".join(sentence.text for sentence in run)
                spans.append(Span(end, end, text=text, match=0.0))
                continue
            for sentence in run:
                start, stop = (round(second * rate) for second in sentence.span or ())
                start = max(start, end)
                end = max(start, stop)
                spans.append(Span(start, end, text=sentence.text, match=sentence.match))
        super().__init__(spans)

    def push(self, block: Float32s) -> list[Span]:
        return self._with_gaps(super().push(block))

    def finish(self) -> list[Span]:
        return self._with_gaps(super().finish()) + self._gap(self.at)

    def _with_gaps(self, spans: Sequence[Span]) -> list[Span]:
        covered: list[Span] = []
        for span in spans:
            start, end = min(span.start, self.at), min(span.end, self.at)
            covered += [*self._gap(start), replace(span, start=start, end=end)]
            self._done = max(self._done, end)
        return covered

    def _gap(self, end: int) -> list[Span]:
        """What no sentence covers, up to `end`."""
        if self._done >= end:
            return []
        if self._speaks(self._done / self._rate + TOUCH, end / self._rate - TOUCH):
            return [Span(self._done, end, "unsegmented", reason=self._reason)]
        return [Span(self._done, end, "non_speech")]

    def _speaks(self, start: float, end: float) -> bool:
        """Whether somebody may speak between two times, s."""
        if self._edges is None:
            return True
        first = bisect_right(self._edges, start)
        return first % 2 == 1 or bisect_left(self._edges, end) > first


def start(settings: Settings, rate: int, given: Sequence[Segment]) -> Segmenter:
    return Aligned((), rate, "no_text")


def start_heard(settings: Settings, rate: int, text: str, heard: RecordingTranscript) -> Segmenter:
    spoken = _by_scores if settings.engine == "ctc" else _by_words.spoken
    return Aligned(spoken(text, heard), rate, "not_in_text", heard.speech)


def _by_scores(text: str, heard: RecordingTranscript) -> list[Sentence]:
    """All sentences of the text in order; the spans of found ones ascend and do not overlap.

    The likeliest path of the whole text through the emissions of a CTC model (`ctc_path.py`) says
    when each token is heard, which sentences are skipped, and which speech is not in the text. A
    sentence's confidence is the geometric mean of its tokens' probabilities, each at its likeliest
    frame. As with a recogniser (`_by_words.py`), a sentence begins and ends in the adjacent pause;
    frames of other speech count as words."""
    written = sentences(text)
    emissions = heard.emissions
    if emissions is None or not emissions.pieces:
        return [Sentence(sentence, None, 0.0) for sentence in written]
    spelling = Spelling(emissions.alphabet)
    spelled = [spelling.words(sentence, heard.language or "") for sentence in written]
    tokens = [[*chain.from_iterable(words)] for words in spelled]
    places = [n for n, numbers in enumerate(tokens) if numbers]  # of sentences with tokens
    whole = np.array([*chain.from_iterable(tokens)], np.int64)
    edges = np.cumsum([0, *(len(tokens[n]) for n in places)])
    frames = np.concatenate([scores for _, _, scores in emissions.pieces])
    path = ctc_path.align(frames, whole, edges[:-1], emissions.alphabet.blank)
    sure = list(ctc_path.confidence(frames, whole, path))
    # The pieces of the recording are concatenated without the pauses between them.
    spans = [
        np.linspace(start, start + seconds, len(scores) + 1)
        for start, seconds, scores in emissions.pieces
    ]
    starts, ends = np.concatenate([s[:-1] for s in spans]), np.concatenate([s[1:] for s in spans])
    result = [Sentence(sentence, None, 0.0) for sentence in written]
    words: list[TimedWord] = []
    own_words: dict[int, tuple[TimedWord, TimedWord]] = {}  # first and last one of a sentence
    beside = ~np.isin(frames.argmax(axis=1), spelling.silent)
    for n, (low, high) in zip(places, pairwise(edges.tolist()), strict=True):
        logs = np.log(np.maximum(sure[low:high], 1e-9))
        result[n] = replace(result[n], match=float(np.exp(logs.mean())))
        if result[n].match < LEAST_SURE:
            continue
        beside[path.starts[low] : path.ends[high - 1]] = False
        begin, index = len(words), low
        for word in spelled[n]:
            head, tail = path.starts[index], path.ends[index + len(word) - 1] - 1
            words.append(TimedWord("", float(starts[head]), float(ends[tail])))
            index += len(word)
        own_words[n] = words[begin], words[-1]
    speech_edges = [*chain.from_iterable(heard.speech)]
    beside &= np.searchsorted(speech_edges, starts, "right") % 2 == 1  # a pause has no speech
    strange = zip(starts[beside].tolist(), ends[beside].tolist(), strict=True)
    words += [TimedWord("", start, end) for start, end in strange]
    words.sort(key=lambda word: word.start)
    order = {id(word): index for index, word in enumerate(words)}
    pauses = Pauses(words, heard.speech)
    for n, (first, last) in own_words.items():
        span = pauses.around(order[id(first)], order[id(last)])
        result[n] = replace(result[n], span=span if span[1] > span[0] else None)
    return result
