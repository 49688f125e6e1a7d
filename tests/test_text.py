"""Verdicts on text: reasons, values and what a null does."""

from __future__ import annotations

from typing import Any

import pytest

from tasks import plugins
from tasks.asr import SpeechClip, fake
from tasks.errors import ConfigError
from tasks.rules import Rule, judge
from tasks.settings import Plugin, TranscribeSettings, role


def rules(use: str, **options: Any) -> tuple[Rule, ...]:
    module, settings = plugins.resolve("text", Plugin(use=use, **options))
    return tuple(module.verdict(settings))


@pytest.mark.parametrize(
    ("use", "options", "row", "reason"),
    [
        ("empty_text", {}, {"text_chars": 0}, "empty_text"),
        ("empty_text", {}, {"text_chars": 1}, None),
        ("empty_text", {"min_chars": 3}, {"text_chars": 2}, "empty_text"),
        ("language", {}, {"language": "de", "language_probability": 0.9}, None),
        ("language", {}, {"language": "de", "language_probability": 0.79}, "language_uncertain"),
        ("language", {}, {"language": "de", "language_probability": None}, None),
        ("language", {"allowed": ["en", "es"]}, {"language": "de"}, "wrong_language"),
        ("language", {"allowed": ["en", "es"]}, {"language": "es"}, None),
        ("language", {"allowed": ["en"]}, {"language": None}, None),
        (
            "language",
            {"allowed": ["en"], "min_probability": 0.5},
            {"language": "en", "language_probability": 0.4},
            "language_uncertain",
        ),
    ],
)
def test_verdict(
    use: str, options: dict[str, Any], row: dict[str, Any], reason: str | None
) -> None:
    rejection = judge(row, rules(use, **options))
    assert (rejection.reason if rejection else None) == reason


def test_a_rejection_names_value_and_threshold() -> None:
    rejection = judge({"language": "en", "language_probability": 0.25}, rules("language"))
    assert rejection is not None
    assert (rejection.value, rejection.threshold) == (0.25, 0.8)


@pytest.mark.parametrize("allowed", [["english"], ["EN"], ["e"], [], ["e1"]])
def test_languages_are_codes(allowed: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"text\.language\.allowed"):
        rules("language", allowed=allowed)


@pytest.mark.parametrize("use", plugins.names("text"))
def test_every_setting_of_a_verdict_is_a_threshold(use: str) -> None:
    model = plugins.load("text", use).Settings
    assert {role(model, field) for field in model.model_fields} <= {"threshold"}


def test_fake_rows_pass_the_default_verdicts() -> None:
    import numpy as np

    clips = [SpeechClip(np.zeros(n, np.float32)) for n in (0, 1600, 160000)]
    default = [
        r for p in TranscribeSettings.model_validate({}).verdicts for r in rules(p.use, **p.options)
    ]
    for heard in fake.Backend(fake.Settings()).transcribe(clips):
        row = {
            "text": heard.text, "text_chars": len(heard.text or ""), "language": heard.language,
            "language_probability": heard.language_probability,
            "avg_logprob": heard.avg_logprob, "compression_ratio": heard.compression_ratio,
            "no_speech_probability": heard.no_speech_probability,
        }  # fmt: skip
        assert judge(row, default) is None
