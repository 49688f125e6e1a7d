"""Settings of models behind HTTP: the server's address, and limits on requests."""

from __future__ import annotations

import os
from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from .base import WORDS, StageSettings, Transient


class ServerSettings(StageSettings):
    """How to reach a server, and limits on requests. Only the model's name belongs to a recipe, and
    callers add it: `recipe()` leaves it out."""

    PATH: ClassVar[str] = ""  # follows the base address; `url` may include it

    url: str | None = Transient(None, "Base address, such as http://gpu-box:8000/v1.")
    model: str | None = Transient(
        None, "Name of the model on the server; part of the recipe.", min_length=1, mark=WORDS
    )
    api_key_env: str | None = Transient(
        None,
        "Environment variable that holds the key where the run starts and on workers.",
        min_length=1,
    )
    timeout: float = Transient(60.0, "Time limit of a request, s.", gt=0)
    retries: int = Transient(5, "Most tries after the first one.", ge=0)
    backoff: float = Transient(
        1.0, "Pause before the second try, s; doubled each time, up to 30 s.", ge=0
    )
    patience: float = Transient(
        300.0, "Time limit of all tries together, s; with timeout, less than item_timeout.", gt=0
    )
    parallel: int = Transient(
        16,
        "Most requests of a worker at the same time: it begins with 4, sends more while the server "
        "keeps up, and half as many when it pushes back.",
        ge=1,
        le=256,
    )
    ca_file: str | None = Transient(
        None, "PEM file of the authority that signed the server's certificate."
    )

    @field_validator("url")
    @classmethod
    def _checked(cls, value: str | None) -> str | None:
        if value is None:
            return None
        wrong = "is not an address like http://host:8000/v1"
        try:
            parts = urlsplit(value)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
                raise ValueError(wrong)
        except ValueError:
            raise ValueError(wrong) from None
        if not value.isascii() or not value.isprintable() or " " in value:
            raise ValueError(wrong)
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError(
                "takes no credentials, `?` or `#`: put a key into the variable of api_key_env"
            )
        return value.rstrip("/").removesuffix(cls.PATH)

    @field_validator("ca_file")
    @classmethod
    def _absolute(cls, value: str | None) -> str | None:
        if value is not None and not os.path.isabs(value):
            raise ValueError("must begin with `/`: workers may run in another folder")
        return value


class ChatSettings(ServerSettings):
    """Requests to a language model on any server with OpenAI's `/v1/chat/completions`."""

    PATH: ClassVar[str] = "/chat/completions"

    temperature: float | None = Field(
        0.0,
        ge=0,
        le=2,
        description="Randomness; 0: the likeliest answer; null: not sent, for models that refuse "
        "it.",
    )


class ChatServer(ServerSettings):
    """A language model on such a server, by its name."""

    PATH: ClassVar[str] = ChatSettings.PATH

    model: str | None = Field(
        None, description="Name of the model on the server.", min_length=1, json_schema_extra=WORDS
    )


class LlmText(ChatSettings):
    """A language model that writes punctuation and case: any server with OpenAI's
    `/v1/chat/completions`."""

    prompt: str = Field(
        "The user sends the transcript of something that was said. Write it with "
        "punctuation and capital letters. Keep every word, in its order and spelling: add none, "
        "leave none out, correct nothing, and write no number in figures that is in words. Answer "
        "with that text alone.",
        min_length=1,
        description="Instruction that precedes each text.",
        json_schema_extra=WORDS,
    )
