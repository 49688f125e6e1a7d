"""Voice activity detection: Silero's probabilities, and speech regions by hysteresis."""

from ..base.arrays import RATE
from .regions import Span, spans, within
