"""A recogniser behind HTTP: any server with OpenAI's `/v1/audio/transcriptions`.

The name of the model is part of the recipe; the address of the server is not. With this plug-in,
and with no other, audio leaves the machine. A server's answers may change from day to day; texts
that are stored are kept. `tasks.served.client` says whose fault it is when a clip gets no answer;
the control is a clip of silence.

A waiting worker is not taken for a hanging one as long as `patience` plus one `timeout` stays below
`cluster.item_timeout`, as it does by default.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, SecretStr, model_validator

from tasks.asr import SpeechClip, Transcript, _openai_answer, _pieces
from tasks.asr._openai_answer import Answer
from tasks.base import masking
from tasks.base.arrays import RATE, Float32s
from tasks.base.errors import ConfigError, shortened
from tasks.served import client
from tasks.served.client import Client, Failed
from tasks.served.http import Body, Server, Service
from tasks.settings import SECRET
from tasks.settings.base import WORDS
from tasks.settings.servers import ServerSettings

VERSION = 2  # constants that stand for scores are null
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


SERVICE = Service(WHERE, "transcription server", "clips", Settings.PATH, _openai_answer.parse)
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

    def _hear(self, server: Server[Answer], clip: SpeechClip) -> Transcript:
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
        return _openai_answer.transcript(answer, language, self._settings.word_timestamps, seconds)

    def _silence(self, samples: int, as_large: bool) -> Body:
        """A clip that any server hears, of a second at least."""
        silence = np.zeros(max(samples if as_large else 0, RATE), np.float32)
        return self._sent(silence, self._settings.language)

    def _sent(self, samples: Float32s, language: str | None) -> Body:
        """The form that is sent with the audio."""
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
    from tasks.audio import write_wav_bytes

    wide = np.rint(_pieces.padded(samples, SHORTEST) * 32768.0)
    return write_wav_bytes(np.clip(wide, -32768, 32767).astype(np.int16), RATE)
