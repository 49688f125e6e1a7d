"""The fake recogniser, whose texts follow from all utterances of a window of up to 4 s."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from uttermill.tasks.asr import SpeechClip, Transcript, fake

VERSION = fake.VERSION
Settings = fake.Settings
weights = fake.weights
LISTENS = fake.LISTENS


def shared_seconds(settings: fake.Settings) -> float:
    return 4.0


class Backend(fake.Backend):
    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        for clip, alone in zip(clips, super().transcribe(clips), strict=True):
            if clip.window is None:
                yield alone
                continue
            window = fake.heard(SpeechClip(clip.window.samples), self._settings.seed)
            count = len(clip.window.bounds)
            yield replace(alone, text=f"{clip.place} of {count}: {window}")
