"""Clips of up to 30 s: each is one window of Whisper, and a batch holds several.

A window is a log-mel spectrogram, padded to a length that depends on the clip alone. A language
that is not forced is detected in the same encoder output as the text. On a CPU the encoder takes
windows one by one, which is a sixth faster than together and holds the activations of one only;
beam search, which reads the same weights for every clip, runs on all windows of one length. A GPU
encodes the whole batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, log
from typing import TYPE_CHECKING, Any

import numpy as np
import soxr

from ...base.arrays import RATE, Float32s
from .. import SharedWindow, SpeechClip, Word
from . import loading, results
from .loading import Settings
from .results import DOUBTFUL, BeamResult, Context, Language, Window
from .short_clips import BRIEF, SLOWER, is_short, likeliest, spoken_once, word_probabilities

if TYPE_CHECKING:
    from ctranslate2 import StorageView
    from faster_whisper import WhisperModel
    from faster_whisper.tokenizer import Tokenizer

SECONDS = 30
#: Lengths of windows, with the longest clip that has room in each, s: Whisper was trained on
#: windows of 30 s, and transcribes the end of a clip worse in a shorter window that ends soon after
#: it. Of 77 clips of 1.5 to 5 s, 112 of 653 words were wrong in 10 s, and 111 in 15 s.
LENGTHS = ((10, 5.0), (15, 6.5), (20, 11.5), (25, 16.5))
TAIL = RATE // 2  # samples of digital silence after a clip with its own window
#: A text with a higher compression ratio is a loop (Radford et al. 2022, section 4.5).
LOOP_RATIO = 2.4
LOOP_RETRY: Mapping[str, Any] = {"no_repeat_ngram_size": 3}
#: A clip and Whisper's code of its forced language, or None to detect it.
ForcedClip = tuple[SpeechClip, str | None]
#: Tokens, and the tokenizer of the language that they name.
Prompt = tuple[list[int], "Tokenizer"]


class Windows:
    """A loaded model for windows. Batching changes the speed only: on a CPU, tokens and scores are
    the same in any batch."""

    def __init__(self, model: WhisperModel, settings: Settings) -> None:
        self._model = model
        self._settings = settings
        self._short = loading.short_windows(settings)

    def hear(
        self,
        asked: Sequence[ForcedClip],
        detect: bool = True,
        before: Sequence[Context | None] = (),
    ) -> list[Window]:
        """One window per clip, in order. `detect`: detect the language even if one is forced;
        `before`: the text before each clip, ignored if its language differs. Where several
        utterances share a window, the model predicts when its phrases begin and end.

        RuntimeError, ValueError or MemoryError when the engine refuses the batch.
        """
        by_length: dict[int, list[int]] = {}
        for i, (clip, _) in enumerate(asked):
            by_length.setdefault(self.length(clip), []).append(i)
        heard: dict[int, Window] = {}
        for members in by_length.values():
            contexts = [before[i] if before else None for i in members]
            windows = self._hear_alike([asked[i] for i in members], detect, contexts)
            heard.update(zip(members, windows, strict=True))
        return [heard[i] for i in range(len(asked))]

    def length(self, clip: SpeechClip) -> int:
        """Length of a clip's window, s."""
        if not self._short:
            return SECONDS
        fits = (length for length, room in LENGTHS if len(clip.samples) <= room * RATE)
        return next(fits, SECONDS)

    def _hear_alike(
        self, asked: Sequence[ForcedClip], detect: bool, before: Sequence[Context | None]
    ) -> list[Window]:
        """`hear` for clips whose windows have the same length."""
        clips = [clip for clip, _ in asked]
        encoded = self.encode(clips)
        forced = [language for _, language in asked]
        languages = languages_of_windows(self._model, encoded, forced, detect)
        prompts = [*map(self._prompt, clips, languages, before)]
        heard = self._generate(encoded, prompts, [*map(self._several, clips)])
        parts = _parts(encoded, [[i] for i in range(len(asked))])
        return [*map(self._window, clips, parts, heard, languages, before)]

    def _window(
        self,
        clip: SpeechClip,
        encoded: StorageView,
        heard: BeamResult,
        language: Language,
        before: Context | None,
    ) -> Window:
        """The window of one clip, from its encoder output (1, frames, width) alone, so that the
        batch cannot change it."""
        loops = heard.ratio > LOOP_RATIO
        if loops or (before and heard.avg_logprob < DOUBTFUL):
            # Without the text before it, which may have misled the model, or be what is repeated.
            prompt, options = self._prompt(clip, language), LOOP_RETRY if loops else {}
            (again,) = self._generate(encoded, [prompt], [self._several(clip)], **options)
            surer = loops or again.avg_logprob > heard.avg_logprob
            heard = again if surer and again.ratio <= LOOP_RATIO else heard
        heard, language = self._likeliest(clip, encoded, heard, language)
        tokenizer = tokenizer_of(self._model, language.code)
        words: tuple[Word, ...] | None = ()
        if heard.text and not heard.silent:
            if heard.probability is not None:
                heard = self._with_slower(clip, heard, language)
            samples = len(clip.samples)
            words = results.aligned(self._model, tokenizer, encoded, heard.tokens, samples)
        if clip.window is None:
            return Window(heard, language, words)
        phrases = results.phrases(heard.tokens, tokenizer)
        spoken = languages_of_utterances(self._model, encoded, clip.window, language)
        return Window(heard, language, words, phrases, spoken)

    def _likeliest(
        self, clip: SpeechClip, encoded: StorageView, heard: BeamResult, language: Language
    ) -> tuple[BeamResult, Language]:
        """The text and its language; where the text is unsure, the likeliest of these and of the
        language's rivals, whose probability they share as their texts are likely. Not where
        utterances share the window: doubtful ones are transcribed again by themselves."""
        several = clip.window is not None
        if several or heard.avg_logprob >= SURE_LOGPROB or not language.rivals:
            return heard, language
        texts = {language.code: heard}
        probabilities = {language.code: language.probability or 1.0, **dict(language.rivals)}
        for code, _ in language.rivals:
            prompt = self._prompt(clip, Language(code))
            texts[code] = self._generate(encoded, [prompt], [self._several(clip)])[0]
        likelihoods = {
            code: log(probabilities[code]) + text.avg_logprob * (len(text.tokens) + 1)
            for code, text in texts.items()
        }
        best = max(likelihoods, key=lambda code: likelihoods[code])
        if best == language.code:
            return heard, language
        share = sum(exp(value - likelihoods[best]) for value in likelihoods.values())
        probability = sum(probabilities.values()) / share
        return texts[best], Language(best, probability, best, probability)

    def _with_slower(self, clip: SpeechClip, heard: BeamResult, language: Language) -> BeamResult:
        """The text of a short clip with the mean probability of its words, as heard and slower."""
        slow = SpeechClip(soxr.resample(clip.samples, RATE, round(RATE * SLOWER)))
        brief = self._short and len(slow.samples) <= BRIEF[1] * RATE
        encoded = self.encode([slow], BRIEF[0] if brief else self.length(slow))
        (texts,) = self._texts(encoded, [self._prompt(slow, language)], True)
        spoken = spoken_once(heard, language.code)
        again = word_probabilities(texts, language.code).get(spoken, 0.0)
        return replace(heard, probability=((heard.probability or 0.0) + again) / 2)

    def _several(self, clip: SpeechClip) -> bool:
        """Whether the likeliest words of a clip are chosen from several texts."""
        return self._settings.beam_size > 1 and is_short(clip)

    def language(self, clip: SpeechClip, forced: str | None) -> Language:
        """Language of a clip by its first window."""
        window = SpeechClip(clip.samples[: SECONDS * RATE])
        return languages_of_windows(self._model, self.encode([window]), [forced])[0]

    def encode(self, clips: Sequence[SpeechClip], length: int | None = None) -> StorageView:
        """Encoder output (clips, 50 * seconds, width) of log-mel spectrograms (clips, mels,
        100 * seconds), for clips whose windows are of one length in seconds, or of `length`."""
        import ctranslate2
        from faster_whisper.transcribe import get_ctranslate2_storage

        engine = self._model.model
        mels = [self._spectrogram(clip, length or self.length(clip)) for clip in clips]
        if engine.device == "cuda" or len(clips) == 1:
            return engine.encode(get_ctranslate2_storage(np.stack(mels)), to_cpu=False)
        outputs = [np.array(engine.encode(get_ctranslate2_storage(one[None]))) for one in mels]
        return ctranslate2.StorageView.from_array(np.concatenate(outputs))

    def _spectrogram(self, clip: SpeechClip, length: int) -> Float32s:
        """Log-mel (mels, 100 * seconds of the window) of the clip and half a second of digital
        silence, then zeros; after several utterances, digital silence to the end.

        The zeros with which the engine pads a spectrogram are not the spectrogram of silence. With
        some silence after it, the end of a tightly cut clip is transcribed better; with 30 s of it,
        Chinese worse. Whisper base on 40 clips of LibriSpeech and 50 of AISHELL: 9.7 % WER and 16.3
        % CER; without silence 10.6 and 15.7 to 16.9, with 30 s of it 9.9 and 17.7. Where the model
        predicts when phrases begin and end, it leaves out the last one, as if it were cut off, if
        zeros follow: in 4 of 9 windows of a talk, and in none with silence.
        """
        tail = TAIL if clip.window is None else length * RATE
        padded = np.pad(clip.samples, (0, tail))[: length * RATE]
        mels = self._model.feature_extractor(padded)[:, : length * 100]
        window = np.zeros((len(mels), length * 100), np.float32)
        window[:, : mels.shape[1]] = mels
        return window

    def _generate(
        self,
        encoded: StorageView,
        prompts: Sequence[Prompt],
        short: Sequence[bool],
        **options: Any,
    ) -> list[BeamResult]:
        """`short`: windows of clips whose likeliest words are chosen from several texts."""
        # The engine wants prompts of one length, and timestamps for all of them or for none.
        groups: dict[tuple[int, int, bool], list[int]] = {}
        for i, (tokens, _) in enumerate(prompts):
            groups.setdefault((len(tokens), tokens[-1], short[i]), []).append(i)
        heard: dict[int, BeamResult] = {}
        parts = _parts(encoded, [*groups.values()])
        for (key, members), part in zip(groups.items(), parts, strict=True):
            several, alike = key[-1], [prompts[i] for i in members]
            for i, texts in zip(members, self._texts(part, alike, several, **options), strict=True):
                code = prompts[i][1].language_code
                heard[i] = likeliest(texts, code) if several else texts[0]
        return [heard[i] for i in range(len(prompts))]

    def _texts(
        self, encoded: StorageView, prompts: Sequence[Prompt], several: bool, **options: Any
    ) -> list[list[BeamResult]]:
        """The likeliest text of each window, or several, best first; prompts of one length."""
        generated = self._model.model.generate(
            encoded,
            [tokens for tokens, _ in prompts],
            beam_size=self._settings.beam_size,
            num_hypotheses=self._settings.beam_size if several else 1,
            max_length=self._model.max_length,
            return_scores=True,
            return_no_speech_prob=True,
            **options,
        )
        texts = []
        for (_, tokenizer), result in zip(prompts, generated, strict=True):
            candidates = []
            for tokens, score in zip(result.sequences_ids, result.scores, strict=True):
                # The engine's score is the mean over tokens; Whisper's counts the end of text as
                # one more.
                logprob = float(score * len(tokens) / (len(tokens) + 1))
                text, silence = tokenizer.decode(tokens).strip(), float(result.no_speech_prob)
                candidates.append(BeamResult(text, logprob, silence, tuple(tokens)))
            texts.append(candidates)
        return texts

    def _prompt(
        self, clip: SpeechClip, language: Language, before: Context | None = None
    ) -> Prompt:
        """Tokens `[previous text] sot, language, transcribe[, notimestamps]`, and the tokenizer."""
        tokenizer = tokenizer_of(self._model, language.code)
        text = self._settings.prompt_of(language.code)
        context = before.tokens if before and before.language == language.code else ()
        previous = [*(tokenizer.encode(" " + text.strip()) if text else ()), *context]
        timed = clip.window is not None
        return self._model.get_prompt(tokenizer, previous, without_timestamps=not timed), tokenizer


def tokenizer_of(model: WhisperModel, language: str) -> Tokenizer:
    from faster_whisper.tokenizer import Tokenizer

    return Tokenizer(
        model.hf_tokenizer, model.model.is_multilingual, task="transcribe", language=language
    )


def _parts(encoded: StorageView, groups: Sequence[list[int]]) -> list[StorageView]:
    """The encoder output of each group of its windows, through host memory if there are several;
    the groups are all of its windows."""
    if len(groups) == 1:
        return [encoded]
    import ctranslate2

    host = np.array(encoded.to_device(ctranslate2.Device.cpu))
    view = ctranslate2.StorageView.from_array
    return [view(np.ascontiguousarray(host[rows])) for rows in groups]


# Which language is spoken: in a window, and in each utterance of a window that several share.
#
# Whisper translates or misspells speech in a language other than the window's. The decoder names
# the language of whatever part of the encoder output it is given, for a fiftieth of what the
# encoder cost. So an utterance in another language is recognised, and transcribed again by itself.

FRAMES = 50  # of encoder output in a second
HEARD_SECONDS = 1.0  # a shorter utterance is taken to be in the language of its window
#: Least probability of a language other than the window's. Once an utterance reaches the first, the
#: second is enough for the others of its window. Beside likely ones, doubtful ones tell their own.
CERTAIN, LIKELY = 0.9, 0.5
#: If a clip's text is less sure than the first, and its language less probable than the second, the
#: next languages are tried, too: those of the third probability or more. From afar, an English
#: sentence was Latin with 0.81, English with 0.05; its text in English was 10^6 times as likely.
SURE_LOGPROB, UNRIVALLED, LEAST_RIVAL, RIVALS = -0.5, 0.95, 0.02, 3


def languages_of_windows(
    model: WhisperModel, encoded: StorageView, forced: Sequence[str | None], detect: bool = True
) -> list[Language]:
    """Language of each window; a forced one has no probability."""
    if not model.model.is_multilingual or (all(forced) and not detect):
        return [Language(code or "en") for code in forced]
    languages = []
    for code, best in zip(forced, model.model.detect_language(encoded), strict=True):
        detected, probability = _best(best)
        sure = None if code else probability
        near = () if code or probability >= UNRIVALLED else best[1 : 1 + RIVALS]
        rivals = tuple(_best([one]) for one in near if one[1] >= LEAST_RIVAL)
        languages.append(Language(code or detected, sure, detected, probability, rivals))
    return languages


def languages_of_utterances(
    model: WhisperModel, encoded: StorageView, shared: SharedWindow, language: Language
) -> tuple[Language, ...]:
    """Language of each utterance of a window whose encoder output is (1, frames, width): the
    window's, unless another is likely. A forced `language` is that of all."""
    if language.probability is None:
        return (language,) * len(shared.bounds)
    import ctranslate2

    host = np.array(encoded.to_device(ctranslate2.Device.cpu))
    alone = []  # the language of each utterance by itself, and its probability
    for start, end in shared.bounds:
        spoken = language.code, 0.0
        if end - start >= HEARD_SECONDS * RATE:
            part = host[:, start * FRAMES // RATE : -(-end * FRAMES // RATE)]
            view = ctranslate2.StorageView.from_array(np.ascontiguousarray(part))
            spoken = _best(model.model.detect_language(view)[0])
        alone.append(spoken)
    return tuple(
        Language(code, probability, code, probability)
        if code != language.code and probability >= LIKELY
        else language
        for code, probability in alone
    )


def _best(detected: Sequence[tuple[str, float]]) -> tuple[str, float]:
    """Whisper's code and probability of the most likely language."""
    token, probability = detected[0]
    return token[2:-2], float(probability)
