"""Voice activity detection: Silero's probabilities, and speech regions by hysteresis."""

from ..base.arrays import RATE
from .silero import Span, spans, within
