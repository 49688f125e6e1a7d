"""The source's segments if there are any; else short recordings whole, long ones as by `vad`."""

from collections.abc import Sequence

from pydantic import Field

from ..base.arrays import Float32s
from ..recording import Segment
from ..recording.turns import Voices
from ..speech.silero import identity as identity
from . import Segmenter, Span, vad
from . import given as given_segmenter
from ._detector import SpeechSettings

VERSION = 5
LISTENS = True


class Settings(SpeechSettings, given_segmenter.Settings):
    """As of `vad` with its own rules, and the length up to which a recording is taken whole.

    Not `merge`: it is about speaker turns, and the source's segments are utterances here.
    """

    whole_up_to: float = Field(30.0, ge=0, le=3600, description="Longest recording taken whole, s.")
    whole_without_text_up_to: float | None = Field(
        None,
        ge=0,
        le=3600,
        description="Longest recording without a text of its own that is taken whole, s; default: "
        "whole_up_to. A text is that of the whole recording, and lost where it is cut.",
    )


def without_text(settings: Settings) -> Settings:
    longest = settings.whole_without_text_up_to
    return settings if longest is None else settings.model_copy(update={"whole_up_to": longest})


class Undecided:
    """Starts the detector only when more than `whole_up_to` seconds were decoded.

    The header's length is not trusted. The blocks held until then are the same objects that the
    caller keeps for the utterance they may become, so they take no extra memory.
    """

    def __init__(self, settings: Settings, rate: int) -> None:
        self._settings, self._rate = settings, rate
        self._held: list[Float32s] = []
        self._count = 0
        self._detector: Segmenter | None = None

    def push(self, block: Float32s) -> list[Span]:
        if self._detector is not None:
            return self._detector.push(block)
        self._count += len(block)
        self._held.append(block)
        if self._count <= self._settings.whole_up_to * self._rate:
            return []
        self._detector = vad.start(self._settings, self._rate, ())
        spans = [span for waiting in self._held for span in self._detector.push(waiting)]
        self._held.clear()
        return spans

    def finish(self) -> list[Span]:
        if self._detector is not None:
            return self._detector.finish()
        return [Span(0, self._count)] if self._count else []

    @property
    def needed_from(self) -> int:
        return self._detector.needed_from if self._detector is not None else 0


def at_turns(settings: Settings, rate: int, given: Sequence[Segment], voices: Voices) -> Segmenter:
    if given or len({turn.speaker for turn in voices.turns}) < 2:
        return start(settings, rate, given)
    return vad.at_turns(settings, rate, given, voices)


def start(settings: Settings, rate: int, given: Sequence[Segment]) -> Segmenter:
    if given:
        return given_segmenter.start(settings, rate, given)
    return Undecided(settings, rate)
