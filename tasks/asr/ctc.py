"""Any CTC model as an ONNX graph over samples: wav2vec 2.0, MMS, HuBERT and their like.

A folder holds one graph (`model.onnx`), which takes float32 samples [1, N] at 16 kHz and returns
scores [1, T, V], and the V tokens: `tokens.txt` (a token and its number a line) or `vocab.json`.
Texts are the likeliest token of each frame, repetitions and blanks left out. The segmenter
`aligned` takes the scores themselves (`engine: ctc`), and so do times of a given text's words
(`_words.py`).
"""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from pydantic import Field

from ..base.arrays import RATE, Float32s, Float64s
from ..base.errors import ConfigError
from ..base.json_types import parsed
from ..models import onnx_session
from ..plugins.contracts.asr import SPACES, Alphabet
from ..settings import StageSettings, Transient
from . import Abilities, SpeechClip, Transcript, _model_folder, _pieces, _words
from ._pieces import EngineResult, Piece

VERSION = 1
SHORTEST = RATE // 10  # samples; the convolutions of a graph need some, so clips are padded
ENGINES = {"onnxruntime": "InferenceSession"}
EXAMPLE = "onnx-community/wav2vec2-base-960h-ONNX"
BLANKS = ("<blk>", "<blank>", "<pad>", "[PAD]", "<eps>", "blank")
SPECIAL = ("<", "[")  # tokens that begin so are never written


class Settings(StageSettings):
    model: str | None = Transient(
        None, "Folder of the model: model.onnx, and tokens.txt or vocab.json."
    )
    max_seconds: float = Field(
        30.0, ge=1, description="Most audio at once, s; longer clips are cut where it is quietest."
    )
    word_timestamps: bool = Field(
        False, description="Also store when each word was said, in s: the column word_times."
    )
    threads: int = Transient(1, "CPU threads of a worker.", ge=1)


def abilities(settings: Settings) -> Abilities:
    licence, languages = _model_folder.card(settings.model)
    return Abilities(languages, settings.max_seconds, ("avg_logprob", "word_times"), licence)


def weights(settings: Settings) -> str:
    files = _files(settings)
    alphabet(files[1])
    return _model_folder.identity(files)


def model_bytes(settings: Settings) -> int:
    return _model_folder.size(_files(settings))


def _files(settings: Settings) -> tuple[Path, Path, *tuple[Path, ...]]:
    """Graph, tokens and, if it exists, the file that says how samples are scaled."""
    folder = _model_folder.folder(settings.model, "ctc", EXAMPLE)
    graph = folder / "model.onnx"
    names = (folder / "tokens.txt", folder / "vocab.json")
    tokens = next((path for path in names if path.is_file()), None)
    if not graph.is_file() or tokens is None:
        raise ConfigError(
            f"transcribe.backend.model {settings.model!r} lacks model.onnx or its tokens: "
            f"tokens.txt or vocab.json"
        )
    scaling = folder / "preprocessor_config.json"
    _model_folder.checked(tokens, scaling)
    return (graph, tokens, scaling) if scaling.is_file() else (graph, tokens)


def alphabet(path: Path) -> Alphabet:
    """The tokens in a file. Raises ConfigError if it has no tokens, or no blank."""
    try:
        text = _model_folder.text_of(path)
        if path.suffix == ".json":
            numbers = {str(token): int(number) for token, number in parsed(text).items()}
        else:
            lines = (line.rsplit(maxsplit=1) for line in text.splitlines() if line.strip())
            numbers = {(parts[0] if len(parts) > 1 else " "): int(parts[-1]) for parts in lines}
        if sorted(numbers.values()) != list(range(len(numbers))) or not numbers:
            raise ValueError("the numbers of its tokens must run from 0 without a gap")
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ConfigError(f"{path} holds no tokens: {error}") from error
    blank = next((numbers[name] for name in BLANKS if name in numbers), None)
    if blank is None:
        raise ConfigError(f"{path} has no blank token: one of {', '.join(BLANKS)}")
    return Alphabet(tuple(sorted(numbers, key=lambda token: numbers[token])), blank)


class Backend:
    RATE = RATE

    def __init__(self, settings: Settings) -> None:
        weights(settings)
        self._settings = settings
        graph, tokens, *scaling = _files(settings)
        self.alphabet = alphabet(tokens)
        self._scaled = bool(scaling) and bool(
            parsed(_model_folder.text_of(scaling[0])).get("do_normalize", True)
        )
        try:
            self._session = onnx_session.session(str(graph), settings.threads)
        except onnx_session.errors() as error:
            raise ConfigError(f"the model {str(graph)!r} cannot be loaded: {error}") from error
        self._input = self._session.get_inputs()[0].name
        self._engine = _pieces.Engine(
            self._hear, round(settings.max_seconds * RATE), 1, settings.word_timestamps
        )

    def emissions(self, samples: Float32s) -> Float32s:
        """Log-probabilities [T, V] of frames that divide the clip evenly. RuntimeError if the graph
        refuses the clip, or returns something else."""
        wide = _pieces.padded(samples, SHORTEST).astype(np.float32)
        if self._scaled:  # as in the training of such models: mean 0, variance 1
            wide = (wide - wide.mean()) / np.sqrt(wide.var() + 1e-7)
        try:
            given = self._session.run(None, {self._input: wide[None]})[0]
        except onnx_session.errors() as error:
            raise RuntimeError(f"ONNX Runtime: {error}") from error
        scores = np.asarray(given, np.float32)
        if scores.ndim != 3 or scores.shape[2] != len(self.alphabet.tokens):
            raise RuntimeError(
                f"the graph gives scores of shape {scores.shape}, which do not fit the "
                f"{len(self.alphabet.tokens)} tokens of its folder"
            )
        scores = scores[0] - scores[0].max(axis=1, keepdims=True)
        logprobs: Float32s = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return logprobs

    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        return self._engine.transcripts(clips, [clip.language for clip in clips])

    def align(self, clips: Sequence[SpeechClip], texts: Sequence[str]) -> Iterator[Transcript]:
        """When each word of a text is said in its clip, of any length."""
        for clip, text in zip(clips, texts, strict=True):
            try:
                yield self._aligned(clip, text)
            except RuntimeError as error:  # the graph refuses it
                yield Transcript(text, clip.language, error=str(error))

    def _aligned(self, clip: SpeechClip, text: str) -> Transcript:
        words = _words.words_of(f" {text.strip()}")
        tokens = _words.spelled(words, self.alphabet, clip.language or "")
        error = _pieces.fault(clip)
        if not error and words and not any(tokens):
            error = "no character of the text is a token of the model"
        if error or not words or not len(clip.samples):
            return Transcript(text, clip.language, error=error or None, words=())
        timed = _words.timed(words, tokens, self.alphabet, *self._whole(clip.samples))
        sure = [math.log(max(w.probability, 1e-6)) for w in timed if w.probability is not None]
        logprob = sum(sure) / len(sure)
        return Transcript(text, clip.language, avg_logprob=logprob, words=timed)

    def _whole(self, samples: Float32s) -> tuple[Float32s, Float64s]:
        """Emissions [T, V] of a clip of any length, and the edges of their frames, s [T + 1]."""
        emissions, edges, begin = list[Float32s](), [np.zeros(1)], 0
        for piece in _pieces.cut(samples, round(self._settings.max_seconds * RATE)):
            emissions.append(self.emissions(piece))
            end = begin + max(len(piece), SHORTEST)
            edges.append(np.linspace(begin, end, len(emissions[-1]) + 1)[1:] / RATE)
            begin += len(piece)
        return np.concatenate(emissions), np.concatenate(edges).clip(max=len(samples) / RATE)

    def _hear(self, pieces: list[Piece]) -> list[EngineResult]:
        return [self._read(samples) for samples, _ in pieces]

    def _read(self, samples: Float32s) -> EngineResult:
        emissions = self.emissions(samples)
        seconds = len(samples) / RATE
        best = emissions.argmax(axis=1)
        new = np.flatnonzero(np.diff(best, prepend=-1))  # the first frame of each run
        step = seconds / max(len(best), 1)
        tokens: list[str] = []
        starts: list[float] = []
        sure: list[float] = []
        space = ""  # a token of its own belongs to the next one
        for frame in new.tolist():
            written = self._written[best[frame]]
            if written == " ":
                space = " "
            elif written is not None:
                tokens.append(written if written.startswith(" ") else space + written)
                starts.append(frame * step)
                sure.append(float(emissions[frame, best[frame]]))
                space = ""
        text = "".join(tokens).strip()
        timed = _words.words(text, tokens, starts, sure, step, seconds)
        return EngineResult(text, timed, tuple(sure))

    @cached_property
    def _written(self) -> list[str | None]:
        """How each token is written; None if it is not."""
        spellings: list[str | None] = []
        for number, token in enumerate(self.alphabet.tokens):
            if token in SPACES:
                spellings.append(" ")
            elif number == self.alphabet.blank or token.startswith(SPECIAL):
                spellings.append(None)
            else:
                spellings.append(token.replace("▁", " "))
        return spellings
