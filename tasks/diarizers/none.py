"""No diarization: recordings are cut by their pauses alone."""

from collections.abc import Sequence

from ..recording import Segment
from ..settings import StageSettings
from . import Diarizer
from .given import Given

VERSION = 1
Settings = StageSettings  # none


def start(settings: Settings, rate: int, given: Sequence[Segment]) -> Diarizer:
    return Given(rate, ())
