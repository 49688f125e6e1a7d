"""Whisper through CTranslate2: batches across files on CPU and GPU.

Clips of up to 30 s are transcribed several at once (`_whisper/windows.py`), those of one recording
in shared windows and one after another (`_whisper/passages.py`), longer ones through the engine's
long form, one at a time; speech that the texts miss is transcribed again
(`_whisper/whole_clips.py`). Clips of a batch have similar lengths and windows of one length; a
forced language may have its own batch size.

Nothing is ever downloaded: `model` is `base`, from two PyPI wheels, or a model on this machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..base import language_codes
from ..base.arrays import RATE
from . import Abilities, SpeechClip, Transcript, _model_folder, _pieces
from ._whisper import given_text, loading
from ._whisper.loading import Settings as Settings
from ._whisper.loading import code
from ._whisper.loading import model_bytes as model_bytes
from ._whisper.loading import weights as weights
from ._whisper.passages import PASSAGE_SECONDS, Request, apart, is_long, requests_of, told_after
from ._whisper.results import Context, Language, Window, in_script
from ._whisper.whole_clips import Hearing, Long, begun
from ._whisper.windows import ForcedClip, Windows, tokenizer_of
from ._words import words_of

if TYPE_CHECKING:
    from faster_whisper import WhisperModel

VERSION = 12
SCORES = (
    *("language_probability", "avg_logprob", "no_speech_probability", "compression_ratio"),
    "word_times",
)


def wants_gpu(settings: Settings) -> bool:
    return settings.device != "cpu"


def gpu_fault(settings: Settings) -> str | None:
    from ..plugins import gpu

    return gpu.ctranslate2_fault()


def abilities(settings: Settings) -> Abilities:
    """Any length: longer clips are transcribed window by window. OpenAI's weights are under MIT;
    others have the licence in their folder's model card."""
    bundled = settings.model == "base"
    licence, languages = ("MIT", None) if bundled else _model_folder.card(settings.model)
    return Abilities(languages or language_codes.WHISPER, None, SCORES, licence)


def language_fault(settings: Settings, language: str) -> str | None:
    return None if code(language) in language_codes.WHISPER else language_codes.unknown(language)


def shared_seconds(settings: Settings) -> float:
    return PASSAGE_SECONDS if settings.share_windows else 0.0


#: A clip's index, with its text so far; with a transcript if it is long or has failed.
ClipResult = tuple[int, Hearing | Transcript]
#: A request, and the text before it.
Told = tuple[Request, Context | None]


class Backend:
    RATE = RATE

    def __init__(self, settings: Settings, model: WhisperModel | None = None) -> None:
        """`model`: one already loaded."""
        self._settings = settings
        self._model = model or loading.load(settings)
        self._windows = Windows(self._model, settings)
        self._long = Long(self._model, settings)
        self._limit = _pieces.Limit()
        # A full batch takes one window from each of that many passages.
        self.chunk_seconds = PASSAGE_SECONDS * settings.size_of(None, self._device)
        self._codes = set(self._model.supported_languages)
        loading.check_languages(settings, self._codes)

    def warm(self) -> None:
        """Prepare for the first clip. ConfigError when the GPU cannot be used after all."""
        loading.warm(self._model)

    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        """One transcript per clip, in order; each search is made on demand.

        Clips whose text misses speech wait until there are enough for a batch.
        """
        done: dict[int, Transcript] = {}
        asked: dict[int, ForcedClip] = {}
        for index, clip in enumerate(clips):
            request = self._asked(clip)
            if isinstance(request, Transcript):
                done[index] = request
            else:
                asked[index] = request
        steps = self._steps(self._plan(requests_of(asked)))
        waiting: dict[int, Hearing] = {}
        for index in range(len(clips)):
            while index not in done:
                step = next(steps, None)
                for i, one in step or ():
                    self._finish_or_wait(i, one, waiting, done)
                most = self._settings.size_of(None, self._device)
                if step is None or len(waiting) >= most:
                    self._hear_missed(waiting, done, most)
            yield done.pop(index)

    def align(self, clips: Sequence[SpeechClip], texts: Sequence[str]) -> Iterator[Transcript]:
        """When each word of a text is said in its clip; transcribes clips above 30 s first."""
        for clip, text in zip(clips, texts, strict=True):
            try:
                yield self._aligned(clip, text)
            except (RuntimeError, ValueError, MemoryError) as error:  # the engine refuses it
                yield _failed(error)

    def _aligned(self, clip: SpeechClip, text: str) -> Transcript:
        asked = self._asked(clip)
        if isinstance(asked, Transcript):
            return replace(asked, text=text, words=())
        language = self._windows.language(*asked)
        if not is_long(clip):
            return self._aligned_window(clip, language, text)
        words = words_of(f" {text.strip()}")
        heard = self._long.hear(clip, language).words
        parts = []
        for piece in given_text.pieces(words, heard, clip.samples):
            window = SpeechClip(np.ascontiguousarray(clip.samples[piece.start : piece.end]))
            spoken = "".join(words[piece.first : piece.last])
            parts.append((piece, self._aligned_window(window, language, spoken)))
        return given_text.joined(text, words, parts)

    def _aligned_window(self, clip: SpeechClip, language: Language, text: str) -> Transcript:
        tokenizer = tokenizer_of(self._model, language.code)
        encoded = self._windows.encode([clip])
        return given_text.transcript(self._model, tokenizer, encoded, text, clip.samples)

    def _finish_or_wait(
        self,
        index: int,
        result: Hearing | Transcript,
        waiting: dict[int, Hearing],
        done: dict[int, Transcript],
    ) -> None:
        """Put a clip into `done` when its text covers its speech, else into `waiting`."""
        if isinstance(result, Hearing):
            if result.missed():
                waiting[index] = result
                return
            result = result.transcript(self._settings.word_timestamps)
        done[index] = in_script(result, self._settings.chinese)

    def _hear_missed(
        self, waiting: dict[int, Hearing], done: dict[int, Transcript], most: int
    ) -> None:
        """Transcribe one missed span of each of the first `most` waiting clips, in one batch."""
        order = sorted(waiting)[:most]
        spans = [waiting[i].missed()[0] for i in order]
        asked: list[ForcedClip] = [
            (waiting[i].cut(span), waiting[i].forced_language)
            for i, span in zip(order, spans, strict=True)
        ]

        def hear(asked: list[ForcedClip]) -> list[Window | Transcript]:
            return list(self._windows.hear(asked, detect=False))

        heard = _pieces.halved(asked, hear, _failed, self._limit)
        for i, span, window in zip(order, spans, heard, strict=True):
            hearing = waiting.pop(i)
            if isinstance(window, Window):
                hearing.rounds += 1
                hearing.add(span, window)
                self._finish_or_wait(i, hearing, waiting, done)
            else:
                done[i] = window

    def _asked(self, clip: SpeechClip) -> ForcedClip | Transcript:
        """The clip and the code of its language; or its transcript if it needs no model."""
        stated = clip.language or self._settings.language
        language = code(stated) if stated else None
        if not self._model.model.is_multilingual:
            language = "en"
        elif language is not None and language not in self._codes:
            return Transcript("", error=language_codes.unknown(str(stated)))
        if not len(clip.samples):
            words = () if self._settings.word_timestamps else None
            return Transcript("", language, no_speech_probability=1.0, words=words)
        if fault := _pieces.fault(clip):
            return Transcript("", error=fault)
        return clip, language

    def _plan(self, requests: list[Request]) -> list[list[Request]]:
        """Batches, longest windows first; a clip of more than 30 s is batched alone."""
        groups: dict[tuple[int, int, bool], list[Request]] = {}
        for request in requests:
            clip, language = request.asked
            most = 1 if is_long(clip) else self._settings.size_of(language, self._device)
            alike = most, self._windows.length(clip), request.window is not None
            groups.setdefault(alike, []).append(request)
        plan_of_all: list[list[Request]] = []
        for (most, *_), members in groups.items():
            plan_of_all += _pieces.batches(members, lambda request: request.seconds, most)
        return sorted(plan_of_all, key=lambda batch: (-batch[0].seconds, batch[0].earliest))

    @property
    def _device(self) -> str:
        return "cuda" if self._model.model.device == "cuda" else "cpu"

    def _steps(self, plan: list[list[Request]]) -> Iterator[list[ClipResult]]:
        """The results of each search: of a batch's requests, then of the windows that follow them,
        and so on to the ends of their passages."""
        for batch in plan:
            turn: list[Told] = [(request, None) for request in batch]
            while turn:
                heard = _pieces.halved(turn, self._hear, _failed, self._limit)
                results, following = list[ClipResult](), list[Told]()
                for (request, before), one in zip(turn, heard, strict=True):
                    clips = request.clips
                    if not isinstance(one, Window):
                        results += [(index, one) for index in clips]
                    elif request.window is None:
                        results += [(index, begun(clip, one)) for index, clip in clips.items()]
                    else:
                        results += apart(one, clips, request.window, request.first).items()
                    if request.then is not None:
                        following.append((request.then, told_after(one, before)))
                yield results
                turn = following

    def _hear(self, turn: list[Told]) -> list[Window | Hearing | Transcript]:
        asked, before = [request.asked for request, _ in turn], [context for _, context in turn]
        clip, language = asked[0]
        if is_long(clip):  # it is a turn of its own
            return [self._long.hear(clip, self._windows.language(clip, language))]
        return list(self._windows.hear(asked, before=before))


def _failed(error: Exception) -> Transcript:
    return Transcript("", error=_pieces.engine_fault(error))
