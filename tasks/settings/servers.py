"""Settings of models behind HTTP: where the server is, and how hard it is asked."""

from __future__ import annotations

import os
from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from tasks.settings.base import TRANSIENT, StageSettings


class ServerSettings(StageSettings):
    """How a server is reached and asked. Only the model's name is part of a recipe, by those who
    ask: `recipe()` is without it."""

    PATH: ClassVar[str] = ""  # behind the base address; may be given with it

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
    api_key_env: str | None = Field(
        default=None,
        min_length=1,
        json_schema_extra=TRANSIENT,
        description="Environment variable that holds the key where the run starts and on workers.",
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
        description="Time limit of all tries together, s; with timeout, less than item_timeout.",
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
        return value.rstrip("/").removesuffix(cls.PATH)

    @field_validator("ca_file")
    @classmethod
    def _absolute(cls, value: str | None) -> str | None:
        if value is not None and not os.path.isabs(value):
            raise ValueError("must begin with `/`: workers may run in another folder")
        return value


class LlmText(ServerSettings):
    """A language model that writes punctuation and case: any server with OpenAI's
    `/v1/chat/completions`."""

    PATH: ClassVar[str] = "/chat/completions"

    prompt: str = Field(
        default="The user sends the transcript of something that was said. Write it with "
        "punctuation and capital letters. Keep every word, in its order and spelling: add none, "
        "leave none out, correct nothing, and write no number in figures that is in words. Answer "
        "with that text alone.",
        min_length=1,
        description="What the model is told before each text.",
    )
    temperature: float | None = Field(
        default=0.0,
        ge=0,
        le=2,
        description="Randomness; 0: the likeliest text; null: not sent, for models that refuse it.",
    )
