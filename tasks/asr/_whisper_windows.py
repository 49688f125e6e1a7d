"""Clips of up to 30 s: each is one window of Whisper, and a batch holds several.

A window is a log-mel spectrogram, padded to a length that depends on the clip alone. A language
that is not forced is detected in the same encoder output as the text. On a CPU the encoder takes
windows one by one, which is a sixth faster than together and holds the activations of one only;
beam search, which reads the same weights for every clip, runs on all windows of one length. A GPU
encodes the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.arrays import Float32s
from tasks.asr import SpeechClip, Word, _whisper_languages, _whisper_model, _whisper_words
from tasks.asr._whisper_results import BeamResult, Context, Language, Window
from tasks.asr._whisper_settings import Settings
from tasks.json_types import JsonObject
from tasks.speech_rate import RATE

if TYPE_CHECKING:
    from ctranslate2 import StorageView
    from ctranslate2.models import WhisperGenerationResult
    from faster_whisper import WhisperModel
    from faster_whisper.tokenizer import Tokenizer

SECONDS = 30
#: Lengths of a window, and the least padding after the clip, s: Whisper was trained on windows of
#: 30 s, and transcribes the end of a clip worse in a shorter window that ends soon after it.
LENGTHS = (15, 20, 25, SECONDS)
ROOM = 8.5
TAIL = RATE // 2  # samples of digital silence after a clip that is heard alone
#: A text with a higher compression ratio is a loop (Radford et al. 2022, section 4.5).
LOOP_RATIO = 2.4
LOOP_RETRY: JsonObject = {"no_repeat_ngram_size": 3}
#: A clip and Whisper's code of its forced language; None: detect it.
ForcedClip = tuple[SpeechClip, str | None]


class Windows:
    """A loaded model for windows. Batching changes the speed only: on a CPU, tokens and scores are
    the same in any batch."""

    def __init__(self, model: WhisperModel, settings: Settings) -> None:
        self._model = model
        self._settings = settings
        self._short = _whisper_model.short_windows(settings)

    def hear(
        self,
        asked: Sequence[ForcedClip],
        detect: bool = True,
        timed: bool = False,
        before: Sequence[Context | None] = (),
    ) -> list[Window]:
        """One window per clip, in order. `detect`: detect the language even if one is forced;
        `timed`: let the model say where its phrases begin and end; `before`: what was said before
        each clip, left out where that was another language.

        RuntimeError, ValueError or MemoryError when the engine refuses the batch.
        """
        by_length: dict[int, list[int]] = {}
        for i, (clip, _) in enumerate(asked):
            by_length.setdefault(self.length(clip), []).append(i)
        found: dict[int, Window] = {}
        for members in by_length.values():
            told = [before[i] if before else None for i in members]
            windows = self._hear_alike([asked[i] for i in members], detect, timed, told)
            found.update(zip(members, windows, strict=True))
        return [found[i] for i in range(len(asked))]

    def length(self, clip: SpeechClip) -> int:
        """Length of a clip's window, s."""
        if not self._short:
            return SECONDS
        least = len(clip.samples) + ROOM * RATE
        return next((length for length in LENGTHS if least <= length * RATE), SECONDS)

    def _hear_alike(
        self,
        asked: Sequence[ForcedClip],
        detect: bool,
        timed: bool,
        before: Sequence[Context | None],
    ) -> list[Window]:
        """`hear` for clips whose windows have the same length."""
        encoded = self.encode([clip for clip, _ in asked])
        forced = [language for _, language in asked]
        languages = _whisper_languages.of_windows(self._model, encoded, forced, detect)
        told = [
            one.tokens if one and one.language == language.code else ()
            for one, language in zip(before, languages, strict=True)
        ]
        heard = self._generate(encoded, [one.code for one in languages], timed, told)
        for i, one in enumerate(heard):
            if one.ratio > LOOP_RATIO:
                # Alone, so that the result does not depend on who else is in the batch; and without
                # the text before it, which may be what is repeated.
                alone = _row(encoded, i), [languages[i].code], timed
                (again,) = self._generate(*alone, **LOOP_RETRY)
                heard[i] = again if again.ratio <= LOOP_RATIO else one
        words = self._words(asked, encoded, heard, languages)
        phrases = [
            _whisper_words.phrases(one.tokens, tokenizer_of(self._model, language.code))
            if timed
            else ()
            for one, language in zip(heard, languages, strict=True)
        ]
        spoken = [
            ()
            if clip.window is None
            else _whisper_languages.of_utterances(
                self._model, _row(encoded, i), clip.window, languages[i]
            )
            for i, (clip, _) in enumerate(asked)
        ]
        return [Window(*one) for one in zip(heard, languages, words, phrases, spoken, strict=True)]

    def language(self, clip: SpeechClip, forced: str | None = None) -> Language:
        """Language of a clip by its first window."""
        window = SpeechClip(clip.samples[: SECONDS * RATE])
        return _whisper_languages.of_windows(self._model, self.encode([window]), [forced])[0]

    def encode(self, clips: Sequence[SpeechClip]) -> StorageView:
        """Encoder output (clips, 50 * seconds, width) of log-mel spectrograms (clips, mels,
        100 * seconds), for clips whose windows are of one length in seconds."""
        import ctranslate2
        from faster_whisper.transcribe import get_ctranslate2_storage

        engine = self._model.model
        mels = [self._spectrogram(clip) for clip in clips]
        if engine.device == "cuda" or len(clips) == 1:
            return engine.encode(get_ctranslate2_storage(np.stack(mels)), to_cpu=False)
        each = [np.array(engine.encode(get_ctranslate2_storage(one[None]))) for one in mels]
        return ctranslate2.StorageView.from_array(np.concatenate(each))

    def _spectrogram(self, clip: SpeechClip) -> Float32s:
        """Log-mel (mels, 100 * seconds of the window) of the clip and half a second of digital
        silence, then zeros; after several utterances, digital silence to the end.

        The zeros with which the engine pads a spectrogram are not the spectrogram of silence. With
        some silence after it, the end of a tightly cut clip is transcribed better; with 30 s of it,
        Chinese worse. Whisper base on 40 clips of LibriSpeech and 50 of AISHELL: 9.7 % WER and
        16.3 % CER; without silence 10.6 and 15.7 to 16.9, with 30 s of it 9.9 and 17.7. Where the
        model says when phrases begin and end, it leaves out the last one, as if it were cut off, if
        zeros follow: in 4 of 9 windows of a talk, and in none with silence.
        """
        length = self.length(clip)
        tail = TAIL if clip.window is None else length * RATE
        padded = np.pad(clip.samples, (0, tail))[: length * RATE]
        mels = self._model.feature_extractor(padded)[:, : length * 100]
        window = np.zeros((len(mels), length * 100), np.float32)
        window[:, : mels.shape[1]] = mels
        return window

    def _generate(
        self,
        encoded: StorageView,
        languages: list[str],
        timed: bool = False,
        before: Sequence[Sequence[int]] = (),
        **options: Any,
    ) -> list[BeamResult]:
        told = before or [()] * len(languages)
        prompts = [self._prompt(*one, timed) for one in zip(languages, told, strict=True)]
        groups: dict[int, list[int]] = {}
        for i, (prompt, _) in enumerate(prompts):
            groups.setdefault(len(prompt), []).append(i)
        heard: dict[int, BeamResult] = {}
        for members in groups.values():  # the engine wants prompts of one length
            results = self._model.model.generate(
                encoded if len(groups) == 1 else _rows(encoded, members),
                [prompts[i][0] for i in members],
                beam_size=self._settings.beam_size,
                max_length=self._model.max_length,
                return_scores=True,
                return_no_speech_prob=True,
                **options,
            )
            for i, result in zip(members, results, strict=True):
                heard[i] = _heard(result, prompts[i][1])
        return [heard[i] for i in range(len(prompts))]

    def _prompt(
        self, language: str, before: Sequence[int], timed: bool
    ) -> tuple[list[int], Tokenizer]:
        """Tokens `[previous text] sot, language, transcribe[, notimestamps]`, and the tokenizer."""
        tokenizer = tokenizer_of(self._model, language)
        text = self._settings.prompt_of(language)
        told = [*(tokenizer.encode(" " + text.strip()) if text else ()), *before]
        return self._model.get_prompt(tokenizer, told, without_timestamps=not timed), tokenizer

    def _words(
        self,
        asked: Sequence[ForcedClip],
        encoded: StorageView,
        heard: Sequence[BeamResult],
        languages: Sequence[Language],
    ) -> list[tuple[Word, ...] | None]:
        """Words with their times, clip by clip, so that the batch cannot change them."""
        return [
            ()
            if one.silent or not one.text
            else _whisper_words.aligned(
                self._model,
                tokenizer_of(self._model, language.code),
                _row(encoded, i),
                one.tokens,
                len(asked[i][0].samples),
            )
            for i, (one, language) in enumerate(zip(heard, languages, strict=True))
        ]


def tokenizer_of(model: WhisperModel, language: str) -> Tokenizer:
    from faster_whisper.tokenizer import Tokenizer

    multilingual = model.model.is_multilingual
    return Tokenizer(model.hf_tokenizer, multilingual, task="transcribe", language=language)


def _row(encoded: StorageView, row: int) -> StorageView:
    return encoded if encoded.shape[0] == 1 else _rows(encoded, [row])


def _rows(encoded: StorageView, rows: list[int]) -> StorageView:
    """Some rows of an encoder output, through host memory."""
    import ctranslate2

    host = np.array(encoded.to_device(ctranslate2.Device.cpu))
    return ctranslate2.StorageView.from_array(np.ascontiguousarray(host[rows]))


def _heard(result: WhisperGenerationResult, tokenizer: Tokenizer) -> BeamResult:
    tokens = result.sequences_ids[0]
    # The engine's score is the mean over tokens; Whisper's counts the end of text as one more.
    logprob = float(result.scores[0] * len(tokens) / (len(tokens) + 1))
    text = tokenizer.decode(tokens).strip()
    return BeamResult(text, logprob, float(result.no_speech_prob), tuple(tokens))
