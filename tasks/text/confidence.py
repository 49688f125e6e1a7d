"""Drops texts that are likely wrong: speech buried in noise, music or other voices.

    confidence = avg_logprob + ln(1 - no_speech_probability) + ALLOWANCE / (n + 1)
    n = max(words, WORDS_PER_SECOND * seconds)

In nats: how likely the recogniser finds a token of the text, and speech at all, which together find
wrong texts better than either alone. The default minimum is that of an even chance, ln(1/2).
Without `avg_logprob` there is no confidence; an unknown probability of no speech adds nothing. vLLM
writes -1 for scores that it does not have; its compression ratio of -1 tells them from real ones.

Short clips get an allowance: the end of the text and a full stop are tokens too, uncertain without
context, and a single word in a window of 30 s looks like silence. A long clip with one word gets
little: that is often noise.
"""

from math import log

from . import Exemption, ScoredTranscript, Threshold

COLUMNS = {
    "confidence": ("nats", "log-probability of text and speech together; more in short clips")
}
REASONS = {"confidence": ("low_confidence", "")}
ALLOWANCE = 3.0  # nats
WORDS_PER_SECOND = 2.0  # of slow speech
LEAST = 1e-6  # of a probability, so that its logarithm is finite


class Settings(Exemption):
    min: float | None = Threshold(
        -0.7,
        "Least log-probability of text and speech together, nats; short clips get an allowance.",
    )


def measure(heard: ScoredTranscript, settings: Settings) -> dict[str, float | None]:
    if heard.avg_logprob is None or (heard.compression_ratio or 0) < 0:
        return {"confidence": None}
    count = len(heard.heard_words)
    total = heard.avg_logprob + ALLOWANCE / (max(count, WORDS_PER_SECOND * heard.seconds) + 1)
    if heard.no_speech_probability is not None:
        total += log(max(1 - heard.no_speech_probability, LEAST))
    return {"confidence": total}
