"""Settings of the recogniser openai_api, and what they say of its model and key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from tasks import environment
from tasks.asr._openai_http import PATH
from tasks.errors import ConfigError
from tasks.settings import SECRET, TRANSIENT, StageSettings


class Settings(StageSettings):
    url: str | None = Field(
        default=None,
        json_schema_extra=TRANSIENT,
        description="Base address, such as http://gpu-box:8000/v1.",
    )
    model: str | None = Field(
        default=None,
        min_length=1,
        json_schema_extra=TRANSIENT,
        description="Name of the model on the server; part of the recipe.",
    )
    api_key: SecretStr | None = Field(
        default=None,
        json_schema_extra=SECRET,
        description="Key; prefer api_key_env, since Prefect stores parameters without secrets.",
    )
    api_key_env: str | None = Field(
        default=None,
        min_length=1,
        json_schema_extra=TRANSIENT,
        description="Environment variable that holds the key where the run starts and on workers.",
    )
    language: str | None = Field(
        default=None, description="Language of clips whose source forces none: ISO 639-1."
    )
    prompt: str | dict[str, str] | None = Field(
        default=None, description="Text before each clip that sets the style; or one per language."
    )
    temperature: float = Field(
        default=0.0, ge=0, le=1, description="Randomness, 0 to 1; 0: the likeliest words."
    )
    response_format: Literal["json", "verbose_json"] = Field(
        default="verbose_json",
        description="verbose_json also gives language and scores; some models know json only.",
    )
    word_timestamps: bool = Field(
        default=False,
        description="Ask for the times of words, and store them: the column word_times. Needs "
        "verbose_json.",
    )
    token_logprobs: bool = Field(
        default=False,
        description="Ask for log-probabilities of tokens (gpt-4o-transcribe, with json).",
    )
    timeout: float = Field(
        default=60.0, gt=0, json_schema_extra=TRANSIENT, description="Time limit of a request, s."
    )
    retries: int = Field(
        default=5, ge=0, json_schema_extra=TRANSIENT, description="Most tries after the first one."
    )
    backoff: float = Field(
        default=1.0,
        ge=0,
        json_schema_extra=TRANSIENT,
        description="Pause before the second try, s; doubled each time, up to 30 s.",
    )
    patience: float = Field(
        default=300.0,
        gt=0,
        json_schema_extra=TRANSIENT,
        description="Time limit of all tries for a clip, s; with timeout, less than item_timeout.",
    )
    parallel: int = Field(
        default=16,
        ge=1,
        le=256,
        json_schema_extra=TRANSIENT,
        description="Most requests of a worker at the same time: it begins with 4, asks for more "
        "while the server keeps up, and for half as many when it pushes back.",
    )
    ca_file: str | None = Field(
        default=None,
        json_schema_extra=TRANSIENT,
        description="PEM file of the authority that signed the server's certificate.",
    )

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
    def _words_in_full(self) -> Settings:
        if self.word_timestamps and self.response_format != "verbose_json":
            raise ValueError("word_timestamps needs response_format verbose_json")
        return self

    @model_validator(mode="after")
    def _one_key(self) -> Settings:
        if self.api_key is not None and self.api_key_env is not None:
            raise ValueError("api_key and api_key_env are given: one is enough")
        return self


def weights(settings: Settings) -> str:
    """The model's name, which is all that is known of it. ConfigError when a setting is missing or
    wrong; no request is sent."""
    for name, value in (("url", settings.url), ("model", settings.model)):
        if value is None:
            raise ConfigError(
                f"transcribe.backend.{name} is missing: openai_api needs the server's url "
                "(http://host:8000/v1, say) and a model that it has"
            )
    if settings.ca_file is not None and not Path(settings.ca_file).is_file():
        raise ConfigError(f"transcribe.backend.ca_file {settings.ca_file!r} is no file here")
    key(settings)
    return f"openai_api:{settings.model}"


def key(settings: Settings) -> str:
    """The key, or an empty string. ConfigError when its variable is not set or it is invalid."""
    if settings.api_key_env is not None:
        found = environment.secret(settings.api_key_env)
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
