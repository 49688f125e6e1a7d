"""The recogniser `fake` behind a gate."""

from collections.abc import Iterator, Sequence

from tests.plugins import gate
from uttermill.tasks.asr import SpeechClip, Transcript, fake

VERSION = fake.VERSION
Settings = fake.Settings
weights = fake.weights
LISTENS = fake.LISTENS


class Backend(fake.Backend):
    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        for clip in clips:
            gate.wait("transcribe", len(clip.samples) / self.RATE)
            yield from super().transcribe([clip])
