"""Settings of the recogniser openai_api, with the model and the key that they name."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, SecretStr, model_validator

from tasks import masking
from tasks.errors import ConfigError
from tasks.served import asking
from tasks.settings import SECRET
from tasks.settings.servers import ServerSettings

WHERE = "transcribe.backend"


class Settings(ServerSettings):
    PATH: ClassVar[str] = "/audio/transcriptions"

    api_key: SecretStr | None = Field(
        None,
        json_schema_extra=SECRET,
        description="Key; prefer api_key_env, since Prefect stores parameters without secrets.",
    )
    language: str | None = Field(
        None, description="Language of clips whose source forces none: ISO 639-1."
    )
    prompt: str | dict[str, str] | None = Field(
        None, description="Text before each clip that sets the style; or one per language."
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
    """The model's name, the only known fact about it. ConfigError when a setting is missing or
    wrong; no request is sent."""
    asking.check(settings, WHERE, "openai_api")
    key(settings)
    return f"openai_api:{settings.model}"


def key(settings: Settings) -> str:
    """The key, or an empty string. ConfigError when its variable is not set or it is invalid."""
    own = settings.api_key.get_secret_value() if settings.api_key else ""
    if own == masking.HIDDEN:
        raise ConfigError(
            f"{WHERE}.api_key was hidden when these settings were written: give it again, or name "
            f"a variable in {WHERE}.api_key_env"
        )
    return asking.key(settings, WHERE, own)
