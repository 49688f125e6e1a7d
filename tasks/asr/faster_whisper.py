"""Whisper through CTranslate2: batches across files on CPU and GPU.

A clip of up to 30 s is one window: log-mel spectrogram, padded to 30 s; one pass of the encoder a
batch; the language, where none is forced, from the same encoder output; then beam search without
timestamps. The batch changes speed only: on CPU, tokens and scores are the same in any batch.
Longer clips go through the engine's own long-form path, one at a time.

Nothing is ever downloaded: `model` is `base`, out of two PyPI wheels, or a folder.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from tasks.asr import SpeechClip, Transcript, _bundled
from tasks.errors import ConfigError
from tasks.settings import TRANSIENT, StageSettings

VERSION = 1
RATE = 16000
WINDOW_SECONDS = 30
#: Whisper's own limits (Radford et al. 2022, section 4.5): a text that compresses better than this
#: runs in a loop; less likely than this where speech is doubtful, it is silence.
LOOP_RATIO = 2.4
SILENCE_PROBABILITY = 0.6
SILENCE_LOGPROB = -1.0
_LOOP_RETRY: dict[str, Any] = {"no_repeat_ngram_size": 3}
#: Codes that lists use, and Whisper's for the same language.
_ALIASES = {"jv": "jw", "nb": "no", "cmn": "zh", "iw": "he", "fil": "tl", "in": "id"}


class Settings(StageSettings):
    # Where the model lies does not change a text; which model it is, `weights` says to the recipe.
    model: str = Field(
        default="base", json_schema_extra=TRANSIENT,
        description="base (bundled), or the folder of a CTranslate2 Whisper model.",
    )  # fmt: skip
    sha256: str | None = Field(
        default=None, pattern="^[0-9a-f]{64}$", json_schema_extra=TRANSIENT,
        description="Expected sha256 of model.bin; another one is refused.",
    )  # fmt: skip
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", json_schema_extra=TRANSIENT,
        description="auto takes a GPU where there is one; texts may differ between devices, "
        "and what is stored stays.",
    )  # fmt: skip
    compute_type: str = Field(
        default="auto",
        description="auto: float16 on a GPU, int8 on a CPU; else CTranslate2's name.",
    )
    beam_size: int = Field(default=5, ge=1, le=50, description="Hypotheses kept in beam search.")
    language: str | None = Field(
        default=None, description="Forces a language on clips whose source forces none."
    )
    prompt: str | dict[str, str] | None = Field(
        default=None, description="Text before each clip that sets the style; or one per language."
    )
    batch_size: int = Field(
        default=4, ge=1, json_schema_extra=TRANSIENT,
        description="Clips of up to 30 s at once; 8 take twice the memory, no less time on a CPU.",
    )  # fmt: skip
    threads: int | None = Field(
        default=None, ge=1, json_schema_extra=TRANSIENT,
        description="CPU threads of a worker; default: OMP_NUM_THREADS, which workers set to 1.",
    )  # fmt: skip


def weights(settings: Settings) -> str:
    """sha256 of model.bin. ConfigError when the model is missing or another than expected."""
    folder = locate(settings)
    found = _bundled.SHA256 if settings.model == "base" else _hash(folder / "model.bin")
    if settings.sha256 not in (None, found):
        raise ConfigError(
            f"transcribe.backend.sha256 is {settings.sha256}, but model.bin of {settings.model!r} "
            f"has {found}: another model than you expect"
        )
    return found


def locate(settings: Settings) -> Path:
    """The model's folder. ConfigError with the remedy when there is none: nothing is fetched."""
    if settings.model == "base":
        return _bundled.folder()
    folder = Path(settings.model).expanduser()
    if not folder.is_dir():
        raise ConfigError(
            f"transcribe.backend.model {settings.model!r} is neither `base` (bundled) nor a folder "
            "here; models are never downloaded: fetch a CTranslate2 Whisper model (for example "
            "Systran/faster-whisper-small from Hugging Face) and give its folder"
        )
    lacking = [
        n for n in ("model.bin", "config.json", "tokenizer.json") if not (folder / n).exists()
    ]
    if lacking:
        # Without tokenizer.json the engine would fetch one.
        raise ConfigError(f"transcribe.backend.model {settings.model!r} lacks {', '.join(lacking)}")
    return folder


def _hash(path: Path) -> str:
    status = path.stat()
    return _hashed(str(path), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=16)
def _hashed(path: str, size: int, mtime_ns: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class _Heard:
    """What beam search gave for one window."""

    text: str
    avg_logprob: float
    no_speech: float

    @property
    def ratio(self) -> float:
        return compression_ratio(self.text)


class Backend:
    RATE = RATE

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._model = load(settings)
        self._features = self._model.feature_extractor
        try:
            self._forced = self._code(settings.language) if settings.language else None
        except ValueError as error:
            raise ConfigError(f"transcribe.backend.language: {error}") from None

    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        """One transcript a clip, in order; each batch is computed when it is asked for."""
        done: dict[int, Transcript] = {}
        batches = iter(_batches(clips, self._settings.batch_size))
        for index in range(len(clips)):
            while index not in done:
                batch = next(batches)
                done.update(zip(batch, self._some([clips[i] for i in batch]), strict=True))
            yield done.pop(index)

    def _some(self, clips: list[SpeechClip]) -> list[Transcript]:
        """A batch; if the engine refuses it, its halves, and in the end the one bad clip."""
        try:
            if len(clips) == 1:
                return [self._single(clips[0])]
            return self._windows(clips)
        except (RuntimeError, ValueError, MemoryError) as error:
            if _device_lost(error):
                raise
            if len(clips) == 1:
                return [Transcript("", error=f"{type(error).__name__}: {error}"[:500])]
        half = len(clips) // 2
        return [*self._some(clips[:half]), *self._some(clips[half:])]

    def _single(self, clip: SpeechClip) -> Transcript:
        if not np.isfinite(clip.samples).all():
            return Transcript("", error="samples are NaN or infinite")
        if not len(clip.samples):
            return Transcript("", self._language(clip), no_speech_probability=1.0)
        return self._long(clip) if _is_long(clip) else self._windows([clip])[0]

    def _windows(self, clips: list[SpeechClip]) -> list[Transcript]:
        """Clips of at most 30 s in one batch."""
        encoded = self._encode(clips)
        languages = self._languages(clips, encoded)
        heard = self._generate(encoded, [code for code, _ in languages])
        for i, one in enumerate(heard):
            if one.ratio > LOOP_RATIO:
                # Alone, so that the result does not depend on who else is in the batch.
                again = self._generate(
                    self._encode(clips[i : i + 1]), [languages[i][0]], **_LOOP_RETRY
                )[0]
                heard[i] = again if again.ratio <= LOOP_RATIO else one
        return [
            _transcript(one, code, probability)
            for one, (code, probability) in zip(heard, languages, strict=True)
        ]

    def _encode(self, clips: list[SpeechClip]) -> Any:
        """Encoder output (clips, 1500, width) of log-mel spectrograms (clips, mels, 3000)."""
        from faster_whisper.transcribe import get_ctranslate2_storage

        stack = np.stack([self._spectrogram(clip.samples) for clip in clips])
        return self._model.model.encode(get_ctranslate2_storage(stack), to_cpu=False)

    def _spectrogram(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Log-mel (mels, 3000) of the clip followed by digital silence up to 30 s, as OpenAI does.

        The engine's own loop adds zeros to the spectrogram instead, which are not silence there:
        on 40 clips of LibriSpeech that is 11.8 % WER against 10.9 %.
        """
        padded = np.zeros(WINDOW_SECONDS * RATE, np.float32)
        padded[: len(samples)] = samples
        mels: NDArray[np.float32] = self._features(padded)[:, : WINDOW_SECONDS * 100]
        return mels

    def _languages(self, clips: list[SpeechClip], encoded: Any) -> list[tuple[str, float | None]]:
        """Code and probability of each clip; a forced language has none."""
        forced = [self._language(clip) for clip in clips]
        if all(forced):
            return [(code, None) for code in forced if code]
        detected = self._model.model.detect_language(encoded)
        return [
            (code, None) if code else (best[0][0][2:-2], float(best[0][1]))
            for code, best in zip(forced, detected, strict=True)
        ]

    def _language(self, clip: SpeechClip) -> str | None:
        if not self._model.model.is_multilingual:
            return "en"
        return self._code(clip.language) if clip.language else self._forced

    def _code(self, language: str) -> str:
        """Whisper's code of a language: `en` for `en-US`. ValueError when it knows none."""
        code = re.split("[-_]", language.strip().lower())[0]
        code = _ALIASES.get(code, code)
        if code not in self._model.supported_languages:
            raise ValueError(f"the model does not know the language {language!r}")
        return code

    def _generate(self, encoded: Any, languages: list[str], **options: Any) -> list[_Heard]:
        prompts = [self._prompt(code) for code in languages]
        groups: dict[int, list[int]] = {}
        for i, (prompt, _) in enumerate(prompts):
            groups.setdefault(len(prompt), []).append(i)
        heard: dict[int, _Heard] = {}
        for members in groups.values():  # the engine wants prompts of one length
            part = encoded if len(groups) == 1 else _pick(encoded, members)
            results = self._model.model.generate(
                part,
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

    def _prompt(self, language: str) -> tuple[list[int], Any]:
        """Tokens `[previous text] sot, language, transcribe, notimestamps`, and the tokenizer."""
        tokenizer = self._tokenizer(language)
        text = self._text_prompt(language)
        before = tokenizer.encode(" " + text.strip()) if text else []
        return self._model.get_prompt(tokenizer, before, without_timestamps=True), tokenizer

    def _tokenizer(self, language: str) -> Any:
        from faster_whisper.tokenizer import Tokenizer

        return Tokenizer(
            self._model.hf_tokenizer,
            self._model.model.is_multilingual,
            task="transcribe",
            language=language,
        )

    def _text_prompt(self, language: str) -> str | None:
        prompt = self._settings.prompt
        return prompt.get(language) if isinstance(prompt, dict) else prompt

    def _long(self, clip: SpeechClip) -> Transcript:
        """More than 30 s: the engine cuts windows at the timestamps that it hears."""
        language, probability = self._language(clip), None
        if language is None:
            window = SpeechClip(clip.samples[: WINDOW_SECONDS * RATE])
            language, probability = self._languages([window], self._encode([window]))[0]
        segments = self._segments(clip, language)
        if _loops(segments):
            again = self._segments(clip, language, **_LOOP_RETRY)
            segments = segments if _loops(again) else again
        return long_transcript(segments, language, probability)

    def _segments(self, clip: SpeechClip, language: str, **options: Any) -> list[Any]:
        segments, _ = self._model.transcribe(
            clip.samples.astype(np.float32),
            language=language,
            beam_size=self._settings.beam_size,
            temperature=0.0,  # others draw lots
            condition_on_previous_text=False,  # else one loop goes on to the end
            vad_filter=False,
            initial_prompt=self._text_prompt(language),
            **options,
        )
        return list(segments)


def load(settings: Settings) -> Any:
    """The engine's model, ready to run. ConfigError names what a device or compute type lacks."""
    import ctranslate2
    from faster_whisper import WhisperModel

    folder = locate(settings)
    gpus = ctranslate2.get_cuda_device_count()
    if settings.device == "cuda" and not gpus:
        raise ConfigError(
            "transcribe.backend.device is cuda, but CTranslate2 finds no CUDA device: it needs an "
            "NVIDIA driver, a GPU in CUDA_VISIBLE_DEVICES and a build with CUDA (none for ARM "
            "on PyPI); or set device: cpu"
        )
    device = "cuda" if settings.device != "cpu" and gpus else "cpu"
    compute = settings.compute_type
    if compute == "auto":
        compute = "float16" if device == "cuda" else "int8"
    try:
        model = WhisperModel(
            str(folder),
            device=device,
            compute_type=compute,
            cpu_threads=settings.threads or 0,
            local_files_only=True,
        )
        if device == "cuda":
            _warm(model)  # only the first run shows a missing cuBLAS or cuDNN
    except (RuntimeError, ValueError) as error:
        raise ConfigError(
            f"Whisper model {settings.model!r} cannot run on {device} as {compute}: {error}"
        ) from error
    return model


def _warm(model: Any) -> None:
    mels = model.feature_extractor.mel_filters.shape[0]
    model.encode(np.zeros((mels, 3000), np.float32))


def _is_long(clip: SpeechClip) -> bool:
    return len(clip.samples) > WINDOW_SECONDS * RATE


def _batches(clips: Sequence[SpeechClip], size: int) -> Iterator[list[int]]:
    """Indices, of like lengths together: beam search ends with the longest text of its batch.

    Long, empty and non-finite clips are batches of their own.
    """
    order = sorted(range(len(clips)), key=lambda i: (-len(clips[i].samples), i))
    batch: list[int] = []
    for i in order:
        samples = clips[i].samples
        if _is_long(clips[i]) or not len(samples) or not np.isfinite(samples).all():
            yield [i]
            continue
        batch.append(i)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _pick(encoded: Any, rows: list[int]) -> Any:
    """Some rows of an encoder output, through host memory."""
    import ctranslate2

    host = np.array(encoded.to_device(ctranslate2.Device.cpu))
    return ctranslate2.StorageView.from_array(np.ascontiguousarray(host[rows]))


def _heard(result: Any, tokenizer: Any) -> _Heard:
    tokens = result.sequences_ids[0]
    # The engine's score is the mean over tokens; Whisper's counts the end of text as one more.
    logprob = result.scores[0] * len(tokens) / (len(tokens) + 1)
    return _Heard(tokenizer.decode(tokens).strip(), float(logprob), float(result.no_speech_prob))


def _transcript(heard: _Heard, language: str, probability: float | None) -> Transcript:
    silent = heard.no_speech > SILENCE_PROBABILITY and heard.avg_logprob < SILENCE_LOGPROB
    return Transcript(
        text="" if silent else heard.text,
        language=language,
        language_probability=probability,
        avg_logprob=heard.avg_logprob,
        no_speech_probability=heard.no_speech,
        compression_ratio=heard.ratio,
    )


def long_transcript(segments: list[Any], language: str, probability: float | None) -> Transcript:
    """Segments of the engine as one text. Silent windows, it leaves out by itself.

    Log-probability: mean over tokens; no-speech: mean over time; compression ratio: the worst
    window's, since that of a long text grows with its length.
    """
    if not segments:
        return Transcript("", language, probability, no_speech_probability=1.0)
    tokens = [len(s.tokens) + 1 for s in segments]
    seconds = [max(s.end - s.start, 1e-3) for s in segments]
    return Transcript(
        text=" ".join("".join(s.text for s in segments).split()),
        language=language,
        language_probability=probability,
        avg_logprob=float(np.average([s.avg_logprob for s in segments], weights=tokens)),
        no_speech_probability=float(
            np.average([s.no_speech_prob for s in segments], weights=seconds)
        ),
        compression_ratio=max(s.compression_ratio for s in segments),
    )


def _loops(segments: list[Any]) -> bool:
    return any(s.compression_ratio > LOOP_RATIO for s in segments)


def compression_ratio(text: str) -> float:
    """Bytes of UTF-8 per byte of its zlib stream; 0 for no text."""
    data = text.encode()
    return len(data) / len(zlib.compress(data))


def _device_lost(error: Exception) -> bool:
    """A GPU that fails in another way than by lack of memory fails for every clip after it."""
    text = str(error).lower()
    return ("cuda" in text or "cublas" in text or "cudnn" in text) and "out of memory" not in text
