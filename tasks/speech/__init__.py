"""Where somebody speaks: Silero's probabilities, and the stretches of speech that they show."""

from tasks.speech.silero import RATE
from tasks.speech.stretches import PAUSE_WINDOWS, STEP, Span, spans, stretches, within

__all__ = ["PAUSE_WINDOWS", "RATE", "STEP", "Span", "spans", "stretches", "within"]
