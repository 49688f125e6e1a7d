"""Music under speech: whether it occurs, in how much of an utterance, and how loud it is.

The model of `sounds` detects it. Under speech, its probability is low in many windows, but not
negligible: `threshold` is below a half; for YAMNet, 0.01 is right.

    music_share     windows in which music is at least as likely as `threshold`, over all windows
    music_evidence  (m + 0.001) / √(o + 0.01) of the clip at -20 dBFS; mean probabilities m of
                    music, o of the likeliest class that is neither music nor speech
    music_level     power of the pauses over that of the speech less it, dB; -20 is faint

At its own level, a quiet clip is too faint for the model, and rooms and noise make it unsure of
music and of much else: hence the level, and the other class.

Frames of 32 ms are speech if Silero gives 0.5 or more, and a pause if it gives less than 0.1 to
them and to two on each side. All sound in the pauses counts as music: with noise as loud as the
music, the level is 3 dB high. Null is the share of samples that are not finite, and the level
without music, or with less than 0.2 s of pauses or of speech.
"""

import math
from itertools import repeat

import numpy as np
from pydantic import Field

from ..audio import Clip
from ..settings import Threshold
from . import _derived as derived
from . import _sounds
from ._sounds import check_weights as check_weights
from ._sounds import known_models as known_models

VERSION = 1
ENGINES = _sounds.ENGINES
COSTLY = True
COLUMNS = {
    "music_share": ("1", "share of the windows in which music is heard"),
    "music_evidence": ("1", "how much likelier music is than other sounds than speech"),
    "music_level": ("dB", "level of what sounds in the pauses, beside that of the speech"),
}
REASONS = {
    "music_share": ("little_music_heard", "music_heard"),
    "music_evidence": ("no_music_likely", "music_likely"),
    "music_level": ("faint_music", "loud_music"),
}
MUSIC = [*_sounds.GROUPS].index("music")
LEVEL, MOST_GAIN = 0.1, 1000.0  # RMS of the scaled clip, and largest gain
LEAST_MUSIC, LEAST_OTHER = 1e-3, 1e-2
FRAME = 512  # samples at 16 kHz, the voice detector's
SPEECH, PAUSE, AROUND = 0.5, 0.1, 2  # probabilities; frames on each side
LEAST = 7  # frames: 0.2 s
AT_ONCE = 1024  # frames that are held
LOWEST, HIGHEST = -100.0, 20.0  # dB


class Settings(_sounds.ModelFolder):
    threshold: float = Field(0.2, gt=0, lt=1, description="Least probability of music.")
    min_share: float | None = Threshold(None, "Smallest share kept.", ge=0, le=1)
    max_share: float | None = Threshold(
        None, "Largest share kept; 0.3 drops most clips with music under the speech.", ge=0, le=1
    )
    min_evidence: float | None = Threshold(None, "Least evidence kept.", ge=0)
    max_evidence: float | None = Threshold(
        None, "Most evidence kept; 1 drops most clips with music under the speech.", ge=0
    )
    min_level: float | None = Threshold(None, "Lowest level kept, dB.")
    max_level: float | None = Threshold(None, "Highest level kept, dB; -15, say.")


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    likely = _sounds.heard(clip, settings.model)[:, MUSIC]
    if not len(likely) or not np.isfinite(likely).all():
        return dict.fromkeys(COLUMNS)
    share = float((likely >= settings.threshold).mean())
    return {
        "music_share": share,
        "music_evidence": evidence(clip, settings.model),
        "music_level": level(clip) if share else None,
    }


def evidence(clip: Clip, model: str) -> float:
    """How much likelier music is than other sounds, in a clip of finite samples."""
    power, count = 0.0, 0
    for block in derived.blocks_16k(clip):
        power += float(np.square(block, dtype=np.float64).sum())
        count += len(block)
    gain = min(LEVEL / math.sqrt(power / count), MOST_GAIN) if power else 1.0
    tagger = _sounds.tagger(model)
    means = tagger.classes(clip, gain).mean(axis=0)
    music = means[tagger.groups["music"][0]]
    for group in ("music", "speech"):
        means[tagger.groups[group]] = 0.0
    return float((music + LEAST_MUSIC) / math.sqrt(means.max() + LEAST_OTHER))


def level(clip: Clip) -> float | None:
    """Level of the pauses relative to the speech, dB."""
    probabilities = derived.speech_probabilities(clip)
    many = derived.frames(derived.blocks_16k(clip), FRAME, FRAME, repeat(AT_ONCE))
    powers = np.concatenate(
        [np.zeros(0), *(np.square(frames, dtype=np.float64).mean(axis=1) for frames in many)]
    )
    if (count := min(len(powers), len(probabilities))) < LEAST:
        return None
    powers, probabilities = powers[:count], probabilities[:count]
    near = np.convolve(probabilities >= PAUSE, np.ones(2 * AROUND + 1), "same")[:count] > 0.5
    speech, pause = probabilities >= SPEECH, ~near
    if min(speech.sum(), pause.sum()) < LEAST:
        return None
    under = float(powers[pause].mean())
    spoken = max(float(powers[speech].mean()) - under, 0.0)
    return derived.bounded_decibels(under, spoken, LOWEST, HIGHEST)
