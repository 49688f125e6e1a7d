"""Methods to find speech in a recording: our segmenter, Silero's own function, and a plain pass.

Each takes blocks of mono samples at 16 kHz and returns utterances as ranges of samples.
"""

from collections.abc import Callable, Iterable

import numpy as np

from tests.helpers.corpus_speech import RATE, Floats
from uttermill.tasks.segmenters import vad

Range = tuple[int, int]
Way = Callable[[Iterable[Floats]], list[Range]]


def ours(**options: float) -> Way:
    """The segmenter `vad`, streaming."""

    def run(blocks: Iterable[Floats]) -> list[Range]:
        segmenter = vad.start(vad.Settings.model_validate(options), RATE, ())
        spans = [span for block in blocks for span in segmenter.push(block[:, None])]
        spans += segmenter.finish()
        return [(span.start, span.end) for span in spans if span.kind == "utterance"]

    return run


def silero(pad_ms: int, window_seconds: float | None = None) -> Way:
    """Silero's `get_speech_timestamps` on the whole recording, or on independent windows."""

    def run(blocks: Iterable[Floats]) -> list[Range]:
        samples = np.concatenate(list(blocks))
        step = round(window_seconds * RATE) if window_seconds else len(samples)
        found = []
        for at in range(0, len(samples), step):
            found += [(at + a, at + b) for a, b in _timestamps(samples[at : at + step], pad_ms)]
        return found

    return run


def plain(least: float = 3.0, most: float = 30.0, gap: float = 2.0) -> Way:
    """One pass of the detector, with short pauses closed; no second pass, and no levels."""

    def run(blocks: Iterable[Floats]) -> list[Range]:
        joined: list[Range] = []
        for start, end in _timestamps(np.concatenate(list(blocks)), 100):
            begin = joined[-1][0] if joined else start
            near = joined and start - joined[-1][1] < gap * RATE
            if near and end - begin <= most * RATE:
                joined[-1] = (begin, end)
            else:
                joined.append((start, end))
        return [(a, b) for a, b in joined if b - a >= least * RATE]

    return run


def _timestamps(samples: Floats, pad_ms: int) -> list[Range]:
    from faster_whisper.vad import get_speech_timestamps

    found = get_speech_timestamps(
        samples, min_speech_duration_ms=250, min_silence_duration_ms=100, speech_pad_ms=pad_ms
    )
    return [(each["start"], each["end"]) for each in found]


WAYS: dict[str, Way] = {
    "ours": ours(),
    "plain pass, 3 s least": plain(),
    "silero": silero(30),
    "silero, pads of 100 ms": silero(100),
    "silero, 30 s windows": silero(100, 30),
}
