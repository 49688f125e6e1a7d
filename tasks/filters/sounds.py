"""Which sounds an utterance holds, and when: speech, music, singing, laughter, applause, noise.

`uttermill models fetch sounds` installs a model of speech, music and singing, FireRedVAD's. The
other groups take a model of AudioSet's classes, such as YAMNet, in a local folder, `model`: one
graph (`.onnx`, see `_sounds.py`), and the list of its classes (`yamnet_class_map.csv`,
`class_labels_indices.csv` or `labels.txt`). Windows of the channel mean are 0.96 s every 0.48 s
(YAMNet: 0.975), or of a graph's own length, every half of that; a group is as likely as its
likeliest class. An event is a run of windows, each by its middle, in which a group reaches
`threshold`; its score is the largest. Music under speech seldom does: limit its mean instead.

    sounds_music_mean   mean over the windows of the probability of music
    sounds_music_score  the largest

Null for samples that are not finite.
"""

from itertools import groupby

import numpy as np
from pydantic import Field

from ..audio import Clip
from ..base.arrays import Float64s
from ..base.errors import ConfigError
from ..plugins.annotation_kinds import Event, Events
from ..settings import Threshold
from . import _sounds
from ._sounds import known_models as known_models

VERSION = 1
ENGINES = _sounds.ENGINES
COSTLY = True
LABELS = (*_sounds.GROUPS, _sounds.OTHER)
COLUMNS = {
    "sounds_music_mean": ("1", "mean probability of music"),
    "sounds_music_score": ("1", "largest probability of music"),
}
ANNOTATIONS = {"sounds": Events("sounds that are heard, by group", LABELS)}
REASONS = {
    "sounds_music_mean": ("little_music", "much_music"),
    "sounds_music_score": ("no_music", "music"),
}


class Settings(_sounds.ModelFolder):
    threshold: float = Field(0.2, gt=0, lt=1, description="Least probability of an event.")
    min_music_mean: float | None = Threshold(None, "Smallest mean kept.", ge=0, le=1)
    max_music_mean: float | None = Threshold(
        None, "Largest mean kept; 0.1 drops most clips with music under the speech.", ge=0, le=1
    )
    min_music_score: float | None = Threshold(None, "Smallest probability kept.", ge=0, le=1)
    max_music_score: float | None = Threshold(None, "Largest probability kept.", ge=0, le=1)
    min_share: dict[str, float] = Threshold({}, "Smallest share kept, by label: {speech: 0.5}.")
    max_share: dict[str, float] = Threshold({}, "Largest share kept, by label: {applause: 0.1}.")


def check_weights(settings: Settings) -> None:
    """Raises ConfigError if the model cannot be used, or does not hear what a limit is on."""
    _sounds.check_weights(settings)
    heard = _sounds.tagger(settings.model).groups
    if unheard := sorted({*settings.min_share, *settings.max_share} - {*heard}):
        raise ConfigError(
            f"the filter sounds has a limit on {unheard[0]}, but its model hears only "
            f"{', '.join(heard)}: leave that limit out, or name an AudioSet model in `model`"
        )


def measure(clip: Clip, settings: Settings) -> dict[str, object]:
    tagger = _sounds.tagger(settings.model)
    scores = _sounds.heard(clip, settings.model)
    if not len(scores) or not np.isfinite(scores).all():
        return dict.fromkeys((*COLUMNS, *ANNOTATIONS))
    music = scores[:, LABELS.index("music")]
    spans = _sounds.spans(tagger, len(scores), clip.seconds)
    return {
        "sounds_music_mean": float(music.mean()),
        "sounds_music_score": float(music.max()),
        "sounds": events(scores, spans, settings.threshold),
        **{f"sounds_{label}": None for label in LABELS[scores.shape[1] :]},  # cannot be heard
    }


def events(scores: Float64s, spans: list[tuple[float, float]], threshold: float) -> list[Event]:
    """Runs of windows [windows, groups] in which a group is likely."""
    runs = []
    for label, likely in zip(LABELS, scores.T.tolist(), strict=False):
        windows = zip(spans, likely, strict=True)
        for heard, run in groupby(windows, lambda window: window[1] >= threshold):
            if heard:
                [*places], [*values] = zip(*run, strict=True)
                runs.append(Event(places[0][0], places[-1][1], label, max(values)))
    return runs
