"""A recogniser that misbehaves on the clip of one length."""

from collections.abc import Iterator, Sequence

from tests.plugins import poison
from uttermill.tasks.asr import SpeechClip, Transcript

VERSION = 1
LISTENS = False


class Settings(poison.Settings):
    pass


def weights(settings: Settings) -> str:
    return "poison"


class Backend:
    RATE = 16000

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        for clip in clips:
            wanted = self.settings.seconds
            if wanted == 0 or abs(len(clip.samples) / self.RATE - wanted) < 1e-3:
                if self.settings.how == "item_error":
                    yield Transcript("", error="it does not please")
                    continue
                poison.harm(self.settings.how)
            yield Transcript(f"{len(clip.samples) // 1000} samples", "en", 1.0, -0.1, 0.0, 1.0)
