"""A recogniser behind HTTP: any server with OpenAI's `/v1/audio/transcriptions`.

Which model answered changes the text and is in the recipe; where it stands does not. The settings
name the network: with this plug-in, and with no other, audio leaves the machine. What such a server
answers may change from day to day; a text that is stored stays.

Whose fault is a failure? A clip that the server refuses (400, 413, 422) costs that clip. Before
the first clip was heard, and when all tries for a clip were in vain, a clip of silence is sent as a
control: if that is answered, the clip was at fault; if not, the server or the settings, and the run
stops with what it has. So an outage does not quarantine a corpus, and one clip that crashes a
server does not stop a corpus for ever.

A worker that waits is not taken for one that hangs as long as `patience` and one `timeout` together
stay below `cluster.item_timeout`, as by default.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, SecretStr, field_validator, model_validator

from tasks import masking
from tasks.asr import SpeechClip, Transcript, _openai_answer
from tasks.asr._openai_http import PATH, Refused, Server, Unanswered
from tasks.errors import ConfigError, RunError
from tasks.settings import SECRET, TRANSIENT, StageSettings

VERSION = 1
RATE = 16000
SHORTEST = RATE // 10  # samples; OpenAI refuses shorter clips, so they get silence behind them


class Settings(StageSettings):
    url: str | None = Field(
        default=None, json_schema_extra=TRANSIENT,
        description="Base address, as http://gpu-box:8000/v1; which model it runs, `model` says.",
    )  # fmt: skip
    model: str | None = Field(
        default=None, min_length=1, json_schema_extra=TRANSIENT,
        description="Name of the model, as the server knows it; part of the recipe by `weights`.",
    )  # fmt: skip
    api_key: SecretStr | None = Field(
        default=None, json_schema_extra=SECRET,
        description="Key; better `api_key_env`, since Prefect's retry knows no secrets.",
    )  # fmt: skip
    api_key_env: str | None = Field(
        default=None, min_length=1, json_schema_extra=TRANSIENT,
        description="Environment variable with the key, set where the run starts and on workers.",
    )  # fmt: skip
    language: str | None = Field(
        default=None, description="Language of clips whose source forces none: ISO 639-1."
    )
    prompt: str | dict[str, str] | None = Field(
        default=None, description="Text before each clip that sets the style; or one per language."
    )
    temperature: float = Field(default=0.0, ge=0, le=1, description="0: the likeliest words.")
    response_format: Literal["json", "verbose_json"] = Field(
        default="verbose_json",
        description="verbose_json also gives language and scores; some models know json only.",
    )
    timeout: float = Field(
        default=60.0, gt=0, json_schema_extra=TRANSIENT, description="Seconds for one request."
    )
    retries: int = Field(
        default=5, ge=0, json_schema_extra=TRANSIENT, description="Tries after the first one."
    )
    backoff: float = Field(
        default=1.0, ge=0, json_schema_extra=TRANSIENT,
        description="Seconds before the second try; doubled each time, up to 30.",
    )  # fmt: skip
    patience: float = Field(
        default=300.0, gt=0, json_schema_extra=TRANSIENT,
        description="Seconds for all tries of a clip; with `timeout` less than item_timeout.",
    )  # fmt: skip
    parallel: int = Field(
        default=4, ge=1, le=256, json_schema_extra=TRANSIENT,
        description="Requests of a worker that are under way at once, at most.",
    )  # fmt: skip
    ca_file: str | None = Field(
        default=None, json_schema_extra=TRANSIENT,
        description="PEM file of the authority that signed the server's certificate.",
    )  # fmt: skip

    @field_validator("url")
    @classmethod
    def _checked(cls, value: str | None) -> str | None:
        if value is None:
            return None
        wrong = "is no address as http://host:8000/v1"
        try:
            parts = urlsplit(value)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
                raise ValueError(wrong)
        except ValueError:
            raise ValueError(wrong) from None
        if not value.isascii() or not value.isprintable() or " " in value:
            raise ValueError(wrong)
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError("takes no credentials, `?` or `#`: a key belongs into api_key_env")
        return value.rstrip("/").removesuffix(PATH)

    @field_validator("ca_file")
    @classmethod
    def _absolute(cls, value: str | None) -> str | None:
        if value is not None and not os.path.isabs(value):
            raise ValueError("must begin with `/`: workers may run in another folder")
        return value

    @model_validator(mode="after")
    def _one_key(self) -> Settings:
        if self.api_key is not None and self.api_key_env is not None:
            raise ValueError("api_key and api_key_env are given: one is enough")
        return self


def weights(settings: Settings) -> str:
    """The model's name: more is not known of it. ConfigError when something lacks; no request."""
    for name in ("url", "model"):
        if getattr(settings, name) is None:
            raise ConfigError(
                f"transcribe.backend.{name} is missing: openai_api needs the server's url "
                "(http://host:8000/v1, say) and a model that it has"
            )
    if settings.ca_file is not None and not Path(settings.ca_file).is_file():
        raise ConfigError(f"transcribe.backend.ca_file {settings.ca_file!r} is no file here")
    key(settings)
    return f"openai_api:{settings.model}"


def key(settings: Settings) -> str:
    """The key, or nothing. ConfigError when its variable is not set or it is no key."""
    if settings.api_key_env is not None:
        found = os.environ.get(settings.api_key_env, "")
        if not found:
            raise ConfigError(
                f"transcribe.backend.api_key_env names {settings.api_key_env!r}, which is not set "
                "in this process: export it where the run starts and on the workers"
            )
    else:
        found = settings.api_key.get_secret_value() if settings.api_key else ""
    if not found.isascii() or not found.isprintable():
        raise ConfigError("the key of transcribe.backend has characters that no key has")
    return found.strip()


class Backend:
    RATE = RATE

    def __init__(self, settings: Settings) -> None:
        import ssl

        import httpx

        weights(settings)
        self._settings = settings
        self._key = key(settings)
        if self._key == masking.HIDDEN:
            raise ConfigError(
                "transcribe.backend.api_key was hidden when these settings were written: give it "
                "again, or name a variable in transcribe.backend.api_key_env"
            )
        try:
            own = settings.ca_file and ssl.create_default_context(cafile=settings.ca_file)
            self._tls = own or httpx.create_ssl_context()
        except OSError as error:
            raise ConfigError(
                f"transcribe.backend.ca_file {settings.ca_file!r} cannot be used: {error}"
            ) from error
        self._proven = False  # whether the server has heard any clip with these settings

    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        """One transcript a clip, in order; `parallel` requests at once."""
        import httpx

        settings, stop = self._settings, threading.Event()
        headers = {"Accept-Encoding": "identity"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        limits = httpx.Limits(max_connections=settings.parallel)
        # A client for each call: connections last as long as the clips that are in memory.
        with (
            httpx.Client(headers=headers, verify=self._tls, limits=limits) as http,
            ThreadPoolExecutor(settings.parallel, "openai-api") as pool,
        ):
            server = Server(
                http, settings.url or "", settings.model or "", self._key, settings.timeout,
                settings.retries, settings.backoff, settings.patience, stop,
            )  # fmt: skip
            waiting = [pool.submit(self._hear, server, clip) for clip in clips]
            try:
                for heard in waiting:
                    yield heard.result()
            finally:
                stop.set()
                for rest in waiting:
                    rest.cancel()

    def _hear(self, server: Server, clip: SpeechClip) -> Transcript:
        language = clip.language or self._settings.language
        if not np.isfinite(clip.samples).all():
            return Transcript("", error="samples are NaN or infinite")
        if not len(clip.samples):
            return Transcript("", language, no_speech_probability=1.0)
        try:
            answer = server.ask(wav(clip.samples), self._fields(language))
        except Refused as fault:
            if not self._proven:
                self._control(server, RATE, str(fault))
            return _failed(fault)
        except Unanswered as fault:
            if fault.busy:
                raise RunError(_down(server, str(fault))) from None
            self._control(server, len(clip.samples), str(fault))
            return _failed(fault)
        self._proven = True
        return _openai_answer.transcript(answer, language)

    def _control(self, server: Server, samples: int, fault: str) -> None:
        """RunError unless the server answers silence, once."""
        silence = np.zeros(max(samples, RATE), np.float32)
        try:
            server.ask(wav(silence), self._fields(self._settings.language), retries=0)
        except Refused:
            raise RunError(
                f"the transcription server {server.url} takes no clip with these settings: {fault}"
                "; check transcribe.backend.model, .language, .prompt and .response_format (some "
                "models know json only)"
            ) from None
        except Unanswered:
            raise RunError(_down(server, fault)) from None
        self._proven = True

    def _fields(self, language: str | None) -> dict[str, str]:
        """The form beside the audio."""
        settings = self._settings
        prompt = settings.prompt
        if isinstance(prompt, dict):
            prompt = prompt.get(language or "")
        fields: dict[str, Any] = {
            "model": settings.model, "response_format": settings.response_format,
            "temperature": f"{settings.temperature:g}", "language": language, "prompt": prompt,
        }  # fmt: skip
        return {name: value for name, value in fields.items() if value}


def wav(samples: NDArray[np.float32]) -> bytes:
    """The clip as a WAV file of 16 bits; samples that were int16 / 32768 come out as they were."""
    from tasks.audio import write_wav_bytes

    padded = np.pad(samples, (0, max(SHORTEST - len(samples), 0)))
    return write_wav_bytes(np.clip(np.rint(padded * 32768.0), -32768, 32767).astype(np.int16), RATE)


def _down(server: Server, fault: str) -> str:
    return (
        f"the transcription server {server.url} cannot be used now: {fault}; what it has heard is "
        "kept, run it again to go on (transcribe.backend.timeout, .retries and .parallel say how "
        "long and how hard it is asked)"
    )


def _failed(fault: Exception) -> Transcript:
    return Transcript("", error=masking.sentence(f"the transcription server: {fault}")[:500])
