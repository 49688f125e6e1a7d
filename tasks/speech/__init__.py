"""Voice activity detection: Silero's probabilities, and speech regions by hysteresis."""

from tasks.speech.regions import Span, spans, within
from tasks.speech_rate import RATE
