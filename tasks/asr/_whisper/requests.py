"""Which clips Whisper hears together: those of a window that they share, and in which order.

A passage, consecutive utterances of a recording, is divided into windows, each of which is heard
after the end of the text before it. Whisper base keeps to words that it knows from there (a talk's
terms, the phrase with which each command begins, how figures are written); without, it mishears one
word anew in each window. A passage ends after some windows, so that a batch has one window of each
of several passages, and a text depends on four minutes at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tasks.asr import SharedWindow, SpeechClip, Transcript
from tasks.asr._whisper.results import SILENCE_LOGPROB, Context, Window
from tasks.asr._whisper.windows import LOOP_RATIO, SECONDS, ForcedClip
from tasks.base.speech_rate import RATE

#: Most audio of a window of several utterances, s: 30 less the silence that follows it.
WINDOW_SECONDS = 29.0
PASSAGE_SECONDS = 8 * WINDOW_SECONDS
#: Most tokens of the text before a window. The engine searches prompts of one length together.
TOKENS = 128


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


def requests_of(asked: dict[int, ForcedClip]) -> list[Request]:
    """A request for each clip, and the first of those for each passage in one language."""
    requests: list[Request] = []
    passages: dict[tuple[int, str | None], dict[int, SpeechClip]] = {}
    for index, (clip, language) in asked.items():
        if clip.window is None:
            requests.append(Request((clip, language), {index: clip}))
        else:
            passages.setdefault((id(clip.window), language), {})[index] = clip
    for (_, language), clips in passages.items():
        requests += _of_passage(clips, language)
    return requests


def _of_passage(clips: dict[int, SpeechClip], language: str | None) -> Iterator[Request]:
    """Requests for the windows of a passage, up to the last with one of `clips`: those of 30 s at
    most as one chain, which an utterance that is longer divides."""
    passage = next(iter(clips.values())).window
    assert passage is not None
    then: Request | None = None
    for places, window in reversed(divided(passage)):
        members = {index: clip for index, clip in clips.items() if clip.place in places}
        several = window if len(places) > 1 else None
        asked = SpeechClip(window.samples, language, several), language
        request = Request(asked, members, several, places.start, then)
        if is_long(request.asked[0]):
            if then is not None:
                yield then
            then = None
            if members:
                yield Request(request.asked, members)
        elif members or then is not None:
            then = request
    if then is not None:
        yield then


def divided(passage: SharedWindow) -> list[tuple[range, SharedWindow]]:
    """Windows of a passage in order, each with the places of its utterances: as many as fit. One
    that does not fit is alone."""
    bounds = passage.bounds
    divisions: list[range] = []
    for place, (_, end) in enumerate(bounds):
        if divisions and end - bounds[divisions[-1].start][0] <= WINDOW_SECONDS * RATE:
            divisions[-1] = range(divisions[-1].start, place + 1)
        else:
            divisions.append(range(place, place + 1))
    windows = []
    for places in divisions:
        first, last = bounds[places[0]][0], bounds[places[-1]][1]
        moved = tuple((bounds[n][0] - first, bounds[n][1] - first) for n in places)
        windows.append((places, SharedWindow(passage.samples[first:last], moved)))
    return windows


def is_long(clip: SpeechClip) -> bool:
    return len(clip.samples) > SECONDS * RATE


def told_after(window: Window | Transcript, before: Context | None) -> Context | None:
    """What the window after this one is told; None where this one failed or its text is of no
    use."""
    if isinstance(window, Transcript):
        return None
    heard = window.heard
    if heard.silent or heard.ratio > LOOP_RATIO or heard.avg_logprob < SILENCE_LOGPROB:
        return None
    language = window.language.code
    earlier = before.tokens if before and before.language == language else ()
    return Context(language, (*earlier, *heard.tokens)[-TOKENS:])
