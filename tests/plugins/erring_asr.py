"""The fake recogniser that errs: clips of less than 0.9 s are doubtful, and `wrong` of its words in
all clips, or in those alone, are others. `HEARD` counts clips by name in this process."""

from collections import Counter
from collections.abc import Iterator, Sequence

from pydantic import Field

from uttermill.tasks.asr import SpeechClip, Transcript, fake
from uttermill.tasks.settings import StageSettings

VERSION = 1
LISTENS = False
HEARD: Counter[str] = Counter()


class Settings(StageSettings):
    name: str = Field("a", description="Who it is.")
    wrong: int = Field(0, description="How many of the first words are others.")
    refuses: bool = Field(False, description="Refuses doubtful clips.")


def weights(settings: Settings) -> str:
    return f"erring {settings.name}"


class Backend:
    RATE = 16000

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        own = self._settings
        for clip in clips:
            HEARD[own.name] += 1
            doubtful = len(clip.samples) < 0.9 * self.RATE
            words = fake.heard(clip).split()
            words[: own.wrong] = [f"{own.name}rong"] * min(own.wrong, len(words))
            yield Transcript(
                " ".join(words).capitalize() + ".", "en", avg_logprob=-0.9 if doubtful else -0.1,
                error="no" if doubtful and own.refuses else None,
            )  # fmt: skip
