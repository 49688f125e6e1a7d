"""The share of words that are probably wrong: no estimate where the scores tell nothing."""

from __future__ import annotations

import pytest

from tests.text.test_text import reason
from uttermill.tasks.settings import Plugin
from uttermill.tasks.text import ScoredTranscript, expected_wer


def transcript(text: str, logprob: float | None, ratio: float | None = 1.2) -> ScoredTranscript:
    return ScoredTranscript(
        text, "asr", 3.0, hypothesis=text, language="en", avg_logprob=logprob,
        no_speech_probability=0.0, compression_ratio=ratio,
    )  # fmt: skip


def expected(text: str, logprob: float | None, ratio: float | None = 1.2) -> float | None:
    return expected_wer.measure(transcript(text, logprob, ratio), expected_wer.Settings())[
        "expected_wer"
    ]


SENTENCE = "the mayor opened the new bridge"


def test_it_grows_with_the_recognisers_doubt() -> None:
    shares = [expected(SENTENCE, score) for score in (0.0, -0.1, -0.3, -0.6, -1.0, -30.0)]
    assert shares == sorted(shares, key=lambda share: share or 0.0)
    assert shares[0] == pytest.approx(0.034, abs=0.001)
    assert shares[-1] == pytest.approx(1.0)


def test_a_short_text_is_doubted_less() -> None:
    assert (expected("open the door", -0.6) or 0) < (expected(SENTENCE, -0.6) or 0)
    assert reason(transcript("ten of clubs", -0.57), Plugin(use="expected_wer")) is None


@pytest.mark.parametrize(
    ("text", "logprob", "ratio"),
    [("five", -0.9, 1.0), ("oh no", -0.9, 1.0), (SENTENCE, None, 1.2), (SENTENCE, -0.9, None),
     (SENTENCE, -0.9, -1.0), ("", -0.9, 1.0)],
)  # fmt: skip
def test_there_is_no_estimate_without_its_scores_or_of_few_words(
    text: str, logprob: float | None, ratio: float | None
) -> None:
    assert expected(text, logprob, ratio) is None


@pytest.mark.parametrize(("logprob", "dropped"), [(-0.2, False), (-0.4, False), (-0.65, True)])
def test_the_default_limit(logprob: float, dropped: bool) -> None:
    found = reason(transcript(SENTENCE, logprob), Plugin(use="expected_wer"))
    assert found == ("text_doubtful" if dropped else None)


def test_a_text_of_the_source_is_not_judged() -> None:
    """Its real error rate is known."""
    heard = ScoredTranscript(
        SENTENCE, "reference", 3.0, hypothesis="a mare opened no fridge", reference=SENTENCE,
        avg_logprob=-0.9, no_speech_probability=0.0, compression_ratio=1.0, wer=0.8,
    )  # fmt: skip
    estimate = expected_wer.measure(heard, expected_wer.Settings())["expected_wer"]
    assert estimate is not None
    assert estimate > expected_wer.Settings().max  # type: ignore[operator]
    assert reason(heard, Plugin(use="expected_wer")) is None
