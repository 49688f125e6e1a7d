"""Which clips Whisper hears together: those of a shared window, and windows of one length."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.asr import SharedWindow, SpeechClip
from tasks.asr._whisper_windows import SECONDS, ForcedClip
from tasks.speech_rate import RATE


@dataclass(frozen=True, slots=True)
class Request:
    """Audio that Whisper hears as one window, or in its long form; and its clips by index."""

    asked: ForcedClip
    clips: dict[int, SpeechClip]
    window: SharedWindow | None = None

    @property
    def seconds(self) -> float:
        return len(self.asked[0].samples) / RATE


def requests_of(asked: dict[int, ForcedClip]) -> list[Request]:
    """One request for each clip, or for all clips of a shared window in one language."""
    found: dict[tuple[int, str | None], Request] = {}
    for index, (clip, language) in asked.items():
        if clip.window is None:
            found[index, language] = Request((clip, language), {index: clip})
            continue
        key = -id(clip.window), language
        if key not in found:
            stream = SpeechClip(clip.window.samples, language, clip.window)
            found[key] = Request((stream, language), {}, clip.window)
        found[key].clips[index] = clip
    return list(found.values())


def is_long(clip: SpeechClip) -> bool:
    return len(clip.samples) > SECONDS * RATE
