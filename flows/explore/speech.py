"""Speech over a recording, as the voice detector hears it; computed when the page asks for it."""

from __future__ import annotations

import numpy as np

from flows.explore.clip import Shards
from flows.explore.corpus import Gone
from tasks import audio
from tasks.errors import ItemError
from tasks.json_types import JsonObject
from tasks.speech import silero
from tasks.speech_rate import RATE

LONGEST = 3600.0  # s that are decoded for one answer
POINTS = 2000  # of an answer: the largest probability of each stretch


def probabilities(shards: Shards, recording: str) -> JsonObject:
    """`values` of stretches of `step` seconds; Gone if it cannot be decoded."""
    locator = shards.locator(recording)
    if locator is None:
        raise Gone("its source is unknown")
    found = []
    try:
        with audio.open_stream(locator) as stream:
            detector = silero.Probabilities(stream.rate)
            for block in stream.blocks():
                found.append(detector.push(block))
                if stream.decoded > LONGEST * stream.rate:
                    break
            found.append(detector.finish())
    except (ItemError, OSError) as error:
        raise Gone(f"its source cannot be decoded: {error}") from None
    values = np.concatenate(found)
    width = max(-(-len(values) // POINTS), 1)
    stretches = np.maximum.reduceat(values, np.arange(0, len(values), width))
    return {
        "step": width * silero.WINDOW / RATE,
        "values": np.round(stretches.astype(float), 3).tolist(),
    }
