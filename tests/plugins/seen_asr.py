"""A recogniser that wants a GPU but needs none: it writes down where it ran, and which one it saw.

UTTERMILL_SEEN names the file; a line is what `seen.note` writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tasks.asr import SpeechClip, Transcript, fake
from tests.plugins import poison, seen

VERSION = 1


class Settings(poison.Settings):
    fault: str = ""
    device: str = "auto"
    waits: float = -1.0  # the clip of this length is heard until a filter has measured another one
    items: int = 0  # how many clips there are to be measured


def wants_gpu(settings: Settings) -> bool:
    return settings.device != "cpu"


def gpu_fault(settings: Settings) -> str | None:
    return settings.fault or None


def weights(settings: Settings) -> str:
    return "seen"


class Backend:
    RATE = 16000

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.warmed = False

    def warm(self) -> None:
        self.warmed = True

    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        assert self.warmed
        for clip in clips:
            seconds = len(clip.samples) / self.RATE
            with seen.note("transcribe", seconds) as began:
                if abs(seconds - self.settings.waits) < 1e-3:
                    seen.wait_for("filter", began, self.settings.items)
                if abs(seconds - self.settings.seconds) < 1e-3:
                    poison.harm(self.settings.how)
            yield Transcript(fake.heard(clip), "en", 1.0, -0.1, 0.0, 1.0)
