"""Which clips Whisper hears together: those of a window that they share, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tasks.asr import SharedWindow, SpeechClip
from tasks.asr._whisper_passages import divided
from tasks.asr._whisper_results import Context
from tasks.asr._whisper_windows import SECONDS, ForcedClip
from tasks.speech_rate import RATE


@dataclass(frozen=True, slots=True)
class Request:
    """Audio that Whisper hears as one window, or in its long form; and its clips by index.

    `window`: if several utterances share it; the first is number `first` of their passage. `then`:
    the window after this one, which is heard after its text.
    """

    asked: ForcedClip
    clips: dict[int, SpeechClip]
    window: SharedWindow | None = None
    first: int = 0
    then: Request | None = None

    @property
    def seconds(self) -> float:
        return len(self.asked[0].samples) / RATE

    @property
    def earliest(self) -> int:
        """The lowest index of a clip that waits for this window or for one after it."""
        later = [] if self.then is None else [self.then.earliest]
        return min([*self.clips, *later])


#: A request, and what was said before it.
Told = tuple[Request, Context | None]


def requests_of(asked: dict[int, ForcedClip]) -> list[Request]:
    """A request for each clip, and the first of those for each passage in one language."""
    found: list[Request] = []
    passages: dict[tuple[int, str | None], dict[int, SpeechClip]] = {}
    for index, (clip, language) in asked.items():
        if clip.window is None:
            found.append(Request((clip, language), {index: clip}))
        else:
            passages.setdefault((id(clip.window), language), {})[index] = clip
    for (_, language), clips in passages.items():
        found += _of_passage(clips, language)
    return found


def _of_passage(clips: dict[int, SpeechClip], language: str | None) -> Iterator[Request]:
    """Requests for the windows of a passage, up to the last with one of `clips`: those of 30 s at
    most as one chain, which an utterance that is longer divides."""
    passage = next(iter(clips.values())).window
    assert passage is not None
    then: Request | None = None
    for places, window in reversed(divided(passage)):
        own = {index: clip for index, clip in clips.items() if clip.place in places}
        several = window if len(places) > 1 else None
        asked = SpeechClip(window.samples, language, several), language
        request = Request(asked, own, several, places.start, then)
        if is_long(request.asked[0]):
            if then is not None:
                yield then
            then = None
            if own:
                yield Request(request.asked, own)
        elif own or then is not None:
            then = request
    if then is not None:
        yield then


def is_long(clip: SpeechClip) -> bool:
    return len(clip.samples) > SECONDS * RATE
