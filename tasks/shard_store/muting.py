"""Replaces hidden words by silence; the clip keeps its length and all other samples.

The published column `muted`: "16000-24000 40000-41000", spans in samples of the clip, with the
first included and the last excluded. Fades are outside of these spans.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..base.arrays import Int16s

PAD_S = 0.05  # s added on each side of a word, whose times are not exact
FADE = 64  # samples


def places(words: Iterable[tuple[float, float]], rate: int, samples: int) -> str | None:
    """The `muted` of a clip; None without hidden words. `words`: (start, end) of these, s;
    `samples`: length of the clip."""
    merged: list[list[int]] = []
    for start, end in sorted(words):
        low = max(round((start - PAD_S) * rate), 0)
        high = min(round((end + PAD_S) * rate), samples)
        if merged and low <= merged[-1][1] + 2 * FADE:
            merged[-1][1] = max(merged[-1][1], high)
        elif low < high:
            merged.append([low, high])
    return " ".join(f"{low}-{high}" for low, high in merged) or None


def spans(muted: str) -> list[tuple[int, int]]:
    """(first sample, end) of each span."""
    pairs = (place.split("-") for place in muted.split())
    return [(int(low), int(high)) for low, high in pairs]


def silenced(pcm: Int16s, muted: str | None) -> Int16s:
    """The clip, int16 [samples], with silence in the spans of `muted`."""
    if not muted:
        return pcm
    gain = np.ones(len(pcm) + 2 * FADE, np.float32)  # a margin, for fades beyond the clip
    fade = np.linspace(1, 0, FADE, dtype=np.float32)
    for low, high in spans(muted):
        gain[low : low + FADE] = np.minimum(gain[low : low + FADE], fade)
        gain[low + FADE : high + FADE] = 0
        gain[high + FADE : high + 2 * FADE] = np.minimum(
            gain[high + FADE : high + 2 * FADE], fade[::-1]
        )
    muted_pcm: Int16s = np.rint(pcm * gain[FADE : FADE + len(pcm)]).astype("<i2")
    return muted_pcm
