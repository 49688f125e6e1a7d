"""Share of an utterance in which a voice other than its own speaks, alone or over it, by the turns
of `speakers`.

The time of other speakers' turns, and of its own speaker's the probability that a second voice
speaks too, over the time of all turns. `speakers.max_second_voice` has already left the likeliest
parts out of clips. Null without diarization, and where its turns have no such probabilities.
"""

from ..audio import Clip
from ..recording import turns
from ..settings import StageSettings, Threshold

VERSION = 1
AFTER_ALL = True
COLUMNS = {"second_voice": ("1", "share of the speech in which another voice speaks")}
REASONS = {"second_voice": ("one_voice", "several_voices")}


class Settings(StageSettings):
    min: float | None = Threshold(None, "Smallest share kept.", ge=0, le=1)
    max: float | None = Threshold(0.1, "Largest share kept.", ge=0, le=1)


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    if not clip.turns or not any(turn.both for turn in clip.turns):
        return {"second_voice": None}
    spoken = turns.voices_in(clip.turns, 0, clip.num_samples)
    main = min(spoken, key=lambda speaker: (-spoken[speaker], speaker))
    doubt = sum(
        (turn.end - turn.start) * sum(turn.both) / len(turn.both) / 255
        for turn in clip.turns
        if turn.speaker == main and turn.both
    )
    whole = sum(spoken.values())
    return {"second_voice": min((whole - spoken[main] + doubt) / whole, 1.0)}
