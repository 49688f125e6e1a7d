"""A recogniser behind HTTP: any server with OpenAI's `/v1/audio/transcriptions`.

The name of the model is part of the recipe; the address of the server is not. With this plug-in,
and with no other, audio leaves the machine. A server's answers may change from day to day; texts
that are stored are kept. `tasks.plugins.served.client` decides whose fault it is when a clip gets
no answer, with a clip of silence as the control.

A waiting worker does not count as hanging as long as `patience` plus one `timeout` stays below
`cluster.item_timeout`, as it does by default.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, SecretStr, model_validator

from ..base import language_codes, masking
from ..base.arrays import RATE, Float32s
from ..base.errors import ConfigError, shortened
from ..base.json_types import JsonObject
from ..plugins.served import client
from ..plugins.served.client import Body, Client, Failed, Server, Service
from ..settings import SECRET
from ..settings.base import WORDS
from ..settings.transcribe import ServerSettings
from . import SpeechClip, Transcript, Word, _pieces, _words

# The answer of a transcription server as a Transcript.
#
# `json` has a text, and log-probabilities of tokens where they were asked for; `verbose_json`
# also has the language, segments with Whisper's scores, and words. Servers leave out different
# parts, so each part is optional and used only where it is valid. Some invent scores that they do
# not have: vLLM fills in -1.0, others 0.0. A score that equals one of these constants in every
# segment is ignored.


FILLED_IN = frozenset((-1.0, 0.0))


def parse(body: bytes) -> JsonObject:
    """The answer's object. ValueError when it is not a JSON object with a text."""
    answer: JsonObject = json.loads(body)
    if not isinstance(answer, dict) or not isinstance(answer.get("text"), str):
        raise ValueError("not a JSON object with a text")
    return answer


def transcript(
    answer: JsonObject, forced: str | None, timed: bool = False, seconds: float = math.inf
) -> Transcript:
    """The transcript in an answer. Scores are combined as for long clips of our own Whisper:
    log-probability is the mean over tokens, no-speech the mean over time, compression ratio the
    worst segment's. `timed`: the words' times are wanted; `seconds`: of the clip."""
    segments = _objects(answer.get("segments"))
    text = " ".join(answer["text"].split())
    lengths, tokens = [], []
    for segment in segments:
        start, end = _number(segment.get("start")), _number(segment.get("end"))
        lengths.append(1.0 if start is None or end is None else max(end - start, 1e-3))
        listed = segment.get("tokens")
        tokens.append(len(listed) + 1.0 if isinstance(listed, list) else 1.0)
    logprob = _mean(_real(segments, "avg_logprob"), tokens)
    if logprob is None or logprob > 0:  # of tokens, as OpenAI's newer models give them
        scores = _real(_objects(answer.get("logprobs")), "logprob")
        logprob = _words.mean([score for score in scores if score is not None])
    ratios = _real(segments, "compression_ratio")
    words = _timed(answer, segments, text, seconds) if timed else None
    return Transcript(
        text=text,
        language=forced or code(answer.get("language")),
        language_probability=None if forced else _share(answer.get("language_probability")),
        avg_logprob=logprob,
        no_speech_probability=_share(_mean(_real(segments, "no_speech_prob"), lengths)),
        compression_ratio=max((one for one in ratios if one and one > 0), default=None),
        words=words,
        text_end=words[-1].end if words else None,
    )


def _objects(listed: object) -> list[JsonObject]:
    """The objects of a list; none if it is not a list."""
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def code(name: object) -> str | None:
    """ISO code of a language's name (`english`) or code (`en`, `en-US`); None when unknown."""
    if not isinstance(name, str):
        return None
    word = name.strip().lower()
    first = language_codes.base(word)
    return language_codes.OF_NAMES.get(word) or (
        first if re.fullmatch("[a-z]{2,3}", first) else None
    )


def _real(entries: list[JsonObject], name: str) -> list[float | None]:
    """The score of each entry; all None if they are filled-in constants."""
    scores = [_number(entry.get(name)) for entry in entries]
    return [None] * len(scores) if {*scores} - {None} <= FILLED_IN else scores


def _mean(values: list[float | None], weights: list[float]) -> float | None:
    given = [pair for pair in zip(values, weights, strict=True) if pair[0] is not None]
    total = sum(weight for _, weight in given)
    return sum((value or 0.0) * weight for value, weight in given) / total if total else None


def _timed(
    answer: JsonObject, segments: list[JsonObject], text: str, seconds: float
) -> tuple[Word, ...] | None:
    """Words with times, of the answer or of its segments, written as in its text; None if there are
    none, if they differ from the text, or if a time lies outside the clip."""
    listed = answer.get("words")
    if not isinstance(listed, list):
        parts = [segment.get("words") for segment in segments]
        listed = [word for part in parts if isinstance(part, list) for word in part]
    timed: list[Word] = []
    last = 0.0
    for entry in listed:
        word = entry.get("word") if isinstance(entry, dict) else None
        start, end = (_number(entry.get(n)) if word else None for n in ("start", "end"))
        if not isinstance(word, str) or start is None or end is None or end > seconds + 1.0:
            return None
        begin = min(max(start, last), seconds)
        last = min(max(end, begin), seconds)
        timed.append(Word(word, begin, last, _share(entry.get("probability"))))
    return _words.aligned(text, timed) if timed or not text else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _share(value: object) -> float | None:
    number = _number(value)
    return number if number is not None and 0 <= number <= 1 else None


VERSION = 2  # 2: constants in place of scores are null
SHORTEST = RATE // 10  # samples; OpenAI refuses shorter clips, so they are padded with silence
WHERE = "transcribe.backend"


class Settings(ServerSettings):
    PATH: ClassVar[str] = "/audio/transcriptions"

    api_key: SecretStr | None = Field(
        None,
        json_schema_extra=SECRET,
        description="Key; prefer api_key_env, since Prefect stores parameters without secrets.",
    )
    language: str | None = Field(
        None,
        description="Language of clips whose source forces none: ISO 639-1.",
        json_schema_extra=WORDS,
    )
    prompt: str | dict[str, str] | None = Field(
        None,
        description="Text before each clip that sets the style; or one per language.",
        json_schema_extra=WORDS,
    )
    temperature: float = Field(
        0.0, ge=0, le=1, description="Randomness, 0 to 1; 0: the likeliest words."
    )
    response_format: Literal["json", "verbose_json"] = Field(
        "verbose_json",
        description="verbose_json also gives language and scores; some models know json only.",
    )
    word_timestamps: bool = Field(
        False,
        description="Ask for the times of words, and store them: the column word_times. Needs "
        "verbose_json.",
    )
    token_logprobs: bool = Field(
        False, description="Ask for log-probabilities of tokens (gpt-4o-transcribe, with json)."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        if self.word_timestamps and self.response_format != "verbose_json":
            raise ValueError("word_timestamps needs response_format verbose_json")
        if self.api_key is not None and self.api_key_env is not None:
            raise ValueError("api_key and api_key_env are both given: give only one")
        return self


def weights(settings: Settings) -> str:
    """The model's name, the only known fact about it. ConfigError when a setting is missing or
    wrong; no request is sent."""
    client.check(settings, WHERE, "openai_api")
    key(settings)
    return f"openai_api:{settings.model}"


def key(settings: Settings) -> str:
    """The key, or an empty string. ConfigError when its variable is not set or it is invalid."""
    given = settings.api_key.get_secret_value() if settings.api_key else ""
    if given == masking.HIDDEN:
        raise ConfigError(
            f"{WHERE}.api_key was hidden when these settings were written: give it again, or name "
            f"a variable in {WHERE}.api_key_env"
        )
    return client.key(settings, WHERE, given)


SERVICE = Service(WHERE, "transcription server", "clips", Settings.PATH, parse)
HINT = f"{WHERE}.model, .language, .prompt and .response_format (some models know json only)"


class Backend:
    RATE = RATE

    def __init__(self, settings: Settings) -> None:
        weights(settings)
        self._settings = settings
        self._client = Client(settings, SERVICE, key(settings))

    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        """One transcript per clip, in order; up to `parallel` requests at once."""
        return self._client.each(clips, self._hear)

    def _hear(self, server: Server[JsonObject], clip: SpeechClip) -> Transcript:
        language = clip.language or self._settings.language
        if refused := _pieces.fault(clip):
            return Transcript("", error=refused)
        if not len(clip.samples):
            return Transcript("", language, no_speech_probability=1.0)
        silence = partial(self._silence, len(clip.samples))
        try:
            answer = self._client.ask(server, self._sent(clip.samples, language), silence, HINT)
        except Failed as fault:
            return Transcript("", error=shortened(masking.sentence(str(fault))))
        seconds = len(clip.samples) / RATE
        return transcript(answer, language, self._settings.word_timestamps, seconds)

    def _silence(self, samples: int, as_large: bool) -> Body:
        """A clip of silence that any server accepts, of a second at least."""
        silence = np.zeros(max(samples if as_large else 0, RATE), np.float32)
        return self._sent(silence, self._settings.language)

    def _sent(self, samples: Float32s, language: str | None) -> Body:
        settings = self._settings
        prompt = settings.prompt
        if isinstance(prompt, dict):
            prompt = prompt.get(language or "")
        fields: dict[str, str | list[str] | None] = {
            "model": settings.model,
            "response_format": settings.response_format,
            "temperature": f"{settings.temperature:g}",
            "language": language,
            "prompt": prompt,
            # Without `segment`, a server that is asked for words leaves the scores out.
            "timestamp_granularities[]": ["word", "segment"] if settings.word_timestamps else None,
            "include[]": ["logprobs"] if settings.token_logprobs else None,
        }
        return {
            "data": {name: value for name, value in fields.items() if value},
            "files": {"file": ("clip.wav", wav(samples), "audio/wav")},
        }


def wav(samples: Float32s) -> bytes:
    """The clip as a 16-bit WAV file; samples that were int16 / 32768 are restored exactly."""
    from ..audio import write_wav_bytes

    wide = np.rint(_pieces.padded(samples, SHORTEST) * 32768.0)
    return write_wav_bytes(np.clip(wide, -32768, 32767).astype(np.int16), RATE)
