"""What the stable reasons of the ledger mean, apart from those of rules, which follow from their
limits (`tasks/publish/reason_meanings.py`)."""

from __future__ import annotations

from typing import Final

from ..base.errors import CODES
from .ledger import NOT_PUBLISHED, NOT_PUBLISHED_MEANS, PENDING, PENDING_MEANS
from .summary import REMOVED, REMOVED_MEANS

MEANINGS: Final = {
    **CODES,
    PENDING: PENDING_MEANS,
    NOT_PUBLISHED: NOT_PUBLISHED_MEANS,
    REMOVED: REMOVED_MEANS,
    # Of listing.
    "track_not_read": "an audio track that the source's setting `track` does not choose",
    "subtitles_not_read": "subtitles inside a film that has no text beside it",
    "beyond_full_scale": "its loudest samples are beyond full scale, and are cut off there",
    "channels_mixed": "the mean of its channels was taken, by the source's setting `channels`",
    "channels_apart": "each of its channels is a recording of its own, by the setting `channels`",
    # Of cutting.
    "non_speech": "no speech was found there",
    "below_min_seconds": "shorter than the segmenter's minimum",
    "outside_segments": "between the segments that the source names",
    "no_segments": "the source names no segment of the recording",
    "not_in_audio": "its text was not found in the recording",
    "no_text": "the source gives no text to find in the recording",
    "not_in_text": "speech that the given text does not have",
    "no_word_times": "the recogniser gives no times of words, by which its text would be aligned",
    "tail": "the rest of the recording is too short for a window",
    "short_turn": "a turn shorter than the segmenter's minimum",
    "turn_edge": "the edge of a turn, near to another voice",
    "overlap": "several voices speak at once",
    "no_turns": "nobody takes a turn in it",
    "no_pause": "no pause to cut at was found within the longest window",
    "short_dialogue": "the conversation there is shorter than the segmenter's minimum",
    # Of rules over the whole corpus.
    "duplicate": "another copy of it is packaged",
    "repeated_text": "more clips have its text than may",
    "fast_speech": "faster than the source's other clips, by seconds a character",
    "slow_speech": "slower than the source's other clips, by seconds a character",
    "language_uncertain": "the recogniser is not certain of its language",
    "language_unlikely": "its language is unlikely in this source, in which another one is spoken",
    "language_unknown": "no language is likely for it in this source",
    # Of packaging.
    "in_test_set": "it has a text, the sound, a voice or a speaker of a test set",
    "not_chosen": "left out by package.only or package.without",
    "weight": "not drawn by its dataset's weight",
    "speaker_hours": "more of its speaker than the most hours",
    "split_conflict": "it belongs together with clips of two splits",
    "text_in_two_splits": "another split has its text",
}
