"""The conversation in a clip, by the turns of `speakers`: turns, silence, overlap, transfers.

A turn may pause for a second; a backchannel, up to a second inside another's turn, is not a turn.
An offset is the time from one person's turn to the next one's, below 0 where they overlap. Null
without diarization, and where nobody speaks.
"""

from statistics import median

from ..audio import Clip
from ..recording import turns
from ..settings import StageSettings, Threshold

VERSION = 1
AFTER_ALL = True
COLUMNS = {
    "dialogue_turns": ("1", "turns in the clip, without backchannels"),
    "dialogue_speakers": ("1", "people who speak in it for 0.25 s or more"),
    "dialogue_backchannels": ("1", "turns of up to a second inside another's"),
    "dialogue_overlap": ("1", "share of the clip in which two or more speak"),
    "dialogue_silence": ("1", "share of the clip in which nobody speaks"),
    "dialogue_main": ("1", "share of the speech that is its main speaker's"),
    "dialogue_turn_seconds": ("s", "median length of a turn"),
    "dialogue_offset": ("s", "median time from a turn to another person's, below 0 in overlap"),
}
REASONS = {
    "dialogue_turns": ("few_turns", "many_turns"),
    "dialogue_speakers": ("few_speakers", "many_speakers"),
    "dialogue_backchannels": ("few_backchannels", "many_backchannels"),
    "dialogue_overlap": ("no_overlap", "overlap"),
    "dialogue_silence": ("no_silence", "silent_dialogue"),
    "dialogue_main": ("no_main_speaker", "monologue"),
    "dialogue_turn_seconds": ("short_turns", "long_turns"),
    "dialogue_offset": ("hasty_turns", "late_turns"),
}


class Settings(StageSettings):
    min_turns: float | None = Threshold(2, "Fewest turns kept.", ge=0)
    max_turns: float | None = Threshold(None, "Most turns kept.", ge=0)
    min_speakers: float | None = Threshold(2, "Fewest speakers kept.", ge=0)
    max_speakers: float | None = Threshold(5, "Most speakers kept.", ge=0)
    min_backchannels: float | None = Threshold(None, "Fewest backchannels kept.", ge=0)
    max_backchannels: float | None = Threshold(None, "Most backchannels kept.", ge=0)
    min_overlap: float | None = Threshold(None, "Smallest share of overlap kept.", ge=0, le=1)
    max_overlap: float | None = Threshold(0.3, "Largest share of overlap kept.", ge=0, le=1)
    min_silence: float | None = Threshold(None, "Smallest share of silence kept.", ge=0, le=1)
    max_silence: float | None = Threshold(0.4, "Largest share of silence kept.", ge=0, le=1)
    min_main: float | None = Threshold(None, "Smallest share of the main speaker kept.", ge=0, le=1)
    max_main: float | None = Threshold(None, "Largest share of the main speaker kept.", ge=0, le=1)
    min_turn_seconds: float | None = Threshold(None, "Shortest median turn kept, s.", ge=0)
    max_turn_seconds: float | None = Threshold(None, "Longest median turn kept, s.", ge=0)
    min_offset: float | None = Threshold(None, "Smallest median offset between turns kept, s.")
    max_offset: float | None = Threshold(None, "Largest median offset between turns kept, s.")


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    if not clip.turns or not clip.num_samples:
        return dict.fromkeys(COLUMNS)
    talk = turns.counts(clip.turns, clip.num_samples, clip.rate)
    return {
        "dialogue_turns": float(len(talk.lengths)),
        "dialogue_speakers": float(talk.speakers),
        "dialogue_backchannels": float(talk.backchannels),
        "dialogue_overlap": talk.overlap / clip.num_samples,
        "dialogue_silence": talk.silence / clip.num_samples,
        "dialogue_main": max(talk.spoken) / sum(talk.spoken),
        "dialogue_turn_seconds": median(talk.lengths) / clip.rate,
        "dialogue_offset": median(talk.offsets) / clip.rate if talk.offsets else None,
    }
