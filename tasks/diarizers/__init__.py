"""Shelf of diarizers: who speaks when in a recording.

`tasks.plugins.contracts.diarizers` says what one has.
"""

from tasks.plugins.contracts.diarizers import Diarizer
from tasks.recording.turns import Turn

__all__ = ["Diarizer", "Turn"]
