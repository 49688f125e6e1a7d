"""The recogniser `fake`, which aligns texts and doubts words that begin with `un`; it raises for a
text with `burst`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from uttermill.tasks.asr import SpeechClip, Transcript, fake

VERSION = 1
LISTENS = False
Settings = fake.Settings
weights = fake.weights
ALIGNED: list[str] = []  # the texts, in this process


class Backend(fake.Backend):
    def align(self, clips: Sequence[SpeechClip], texts: Sequence[str]) -> Iterator[Transcript]:
        for heard, text in zip(super().align(clips, texts), texts, strict=True):
            ALIGNED.append(text)
            if "burst" in text:
                raise ValueError("this text bursts")
            words = tuple(
                replace(word, probability=0.05 if word.word.startswith(" un") else 0.9)
                for word in heard.words or ()
            )
            yield replace(heard, words=words)
