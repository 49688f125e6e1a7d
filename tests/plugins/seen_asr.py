"""A recogniser that wants a GPU but needs none: it writes down where it ran, and which one it saw.

UTTERMILL_SEEN names the file; a line is what `seen.note` writes.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from tests.plugins import poison, seen
from uttermill.tasks.asr import SpeechClip, Transcript, fake

VERSION = 1


class Settings(poison.Settings):
    fault: str = ""
    device: str = "auto"
    items: int = 0  # how many clips the filters measure; each call waits to meet one of theirs


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
                if self.settings.items:
                    seen.wait_until(partial(_met, self.settings.items, began))
                if abs(seconds - self.settings.seconds) < 1e-3:
                    poison.harm(self.settings.how)
            yield Transcript(fake.heard(clip), "en", 1.0, -0.1, 0.0, 1.0)


def _met(items: int, since: float, noted: list[dict[str, Any]]) -> bool:
    """Whether a filter call is on or began after `since`, or none will: all have ended."""
    filtered = [line for line in noted if line["stage"] == "filter"]
    ended = sum(1 for line in filtered if line["ended"])
    begun = len(filtered) - ended
    return ended == items or begun > ended or any(line["began"] > since for line in filtered)
