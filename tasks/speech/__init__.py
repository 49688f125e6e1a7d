"""Voice activity detection: Silero's probabilities, and speech regions by hysteresis; espeak-ng."""

from ..base.arrays import RATE
from .silero import Span, spans, within
