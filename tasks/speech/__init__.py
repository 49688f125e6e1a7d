"""Voice activity detection: Silero's probabilities, and speech regions by hysteresis."""

from tasks.base.arrays import RATE
from tasks.speech.regions import Span, spans, within
