"""An engine with Whisper's shape and no weights: it hears what a clip's first sample says."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import ctranslate2
import numpy as np
from numpy.typing import NDArray

from uttermill.tasks.asr import SpeechClip, Transcript, Word, faster_whisper
from uttermill.tasks.asr._whisper.results import BeamResult, Context, Language, Window

Span = tuple[float, float]  # s
CODES = ["de", "en", "zh"]
_SPECIAL = {"<|transcribe|>": 1, "<|startoftranscript|>": 2, "<|startofprev|>": 3,
            "<|notimestamps|>": 4, "<|endoftext|>": 90_000}  # fmt: skip
_LANGUAGES = {f"<|{code}|>": 10 + number for number, code in enumerate(CODES)}
WORDS = ("silence", "one", "two", "three", "four", "five", "six", "loop", "我們聽見", "nine")
LOOP = 7  # this word is said forty times, unless the engine may not repeat itself


def clip(number: int, seconds: float = 1.5, language: str | None = None) -> SpeechClip:
    """A clip that is heard as `WORDS[number]`."""
    samples = np.zeros(round(seconds * 16000), np.float32)
    samples[0] = number / 100
    return SpeechClip(samples, language)


class StubWhisper:
    """Stands for `faster_whisper.WhisperModel`; `fits`: windows that one search may have."""

    max_length = 448

    def __init__(self, fits: int = 99, device: str = "cpu", multilingual: bool = True) -> None:
        self.fits = fits
        self.searches: list[int] = []
        self.encoded: list[int] = []
        self.frames: list[int] = []  # of each window
        self.supported_languages = CODES if multilingual else ["en"]
        self.model = SimpleNamespace(
            device=device, is_multilingual=multilingual, encode=self._encode,
            detect_language=self._detect, generate=self._generate,
        )  # fmt: skip
        self.hf_tokenizer = SimpleNamespace(
            token_to_id=lambda token: _SPECIAL.get(token, _LANGUAGES.get(token)),
            encode=lambda text, **_: SimpleNamespace(ids=[5] * len(text.split())),
            decode=lambda tokens: " " + " ".join(WORDS[token - 100] for token in tokens),
        )

    def feature_extractor(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.full((2, 3000), samples[0], np.float32)

    def add_word_timestamps(self, segments: Any, *_: Any, **__: Any) -> None:
        """Every token is a word; together they fill the window."""
        segment = segments[0][0]
        step = segment["end"] / len(segment["tokens"])
        segment["words"] = [
            {"word": " " + WORDS[token - 100], "start": n * step, "end": (n + 1) * step,
             "probability": 0.9}
            for n, token in enumerate(segment["tokens"])
        ]  # fmt: skip

    def get_prompt(self, tokenizer: Any, before: Sequence[int], **_: Any) -> list[int]:
        return [*before, *tokenizer.sot_sequence]

    def _encode(self, mels: Any, to_cpu: bool = False) -> Any:
        host = np.array(mels)
        self.encoded.append(len(host))
        self.frames += [host.shape[2]] * len(host)
        return ctranslate2.StorageView.from_array(np.ascontiguousarray(host[:, :, :2]))

    def _detect(self, encoded: Any) -> list[list[tuple[str, float]]]:
        return [[("<|en|>", 0.9), ("<|de|>", 0.1)] for _ in np.array(encoded)]

    def _generate(self, encoded: Any, prompts: list[list[int]], **options: Any) -> list[Any]:
        host = np.array(encoded)
        assert len({len(prompt) for prompt in prompts}) == 1
        assert len(host) == len(prompts)
        self.searches.append(len(host))
        if len(host) > self.fits:
            raise RuntimeError("CUDA failed with error out of memory")
        return [self._said(round(float(one[0, 0]) * 100), options) for one in host]

    def _said(self, number: int, options: dict[str, Any]) -> Any:
        once = number != LOOP or "no_repeat_ngram_size" in options
        silent = number == 0
        return SimpleNamespace(
            sequences_ids=[[100 + number] * (1 if once else 40)],
            scores=[-3.0 if silent else -0.2],
            no_speech_prob=0.9 if silent else 0.1,
        )


class Ear:
    """Windows that hear each of `sentences` as one word, and stop after `many`."""

    def __init__(self, sentences: Sequence[Span], many: int = 99, logprob: float = -0.2) -> None:
        self.sentences, self.many, self.logprob = sentences, many, logprob
        self.heard: list[Span] = []
        self.told: list[Context | None] = []
        self.searches: list[int] = []

    def hear(
        self, asked: Any, detect: bool = True, timed: bool = False, before: Any = ()
    ) -> list[Window]:
        self.told += before or [None] * len(asked)
        self.searches.append(len(asked))
        return [self._one(each[0]) for each in asked]

    def length(self, piece: SpeechClip) -> int:
        return 30

    def _one(self, piece: SpeechClip) -> Window:
        first, last = float(piece.samples[0]), float(piece.samples[-1])
        self.heard.append((round(first, 2), round(last, 2)))
        inside = [s for s in self.sentences if first <= s[0] and s[1] <= last + 0.01][: self.many]
        said = tuple(Word(f" w{a:g}", a - first, b - first, 0.9) for a, b in inside)
        text = "".join(word.word for word in said).strip()
        return Window(
            BeamResult(text, self.logprob, 0.0, (1,) * len(said)), Language("en", 0.9), said
        )


def heard(ear: Ear, clips: Sequence[SpeechClip], **options: Any) -> list[Transcript]:
    backend = faster_whisper.Backend(faster_whisper.Settings(**options), StubWhisper())
    backend._windows = ear  # type: ignore[assignment]
    return list(backend.transcribe(clips))
