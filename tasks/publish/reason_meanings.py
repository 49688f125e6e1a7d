"""The meaning of each reason in a version: of rules, the limits that give it, with their values and
what they measure."""

from collections.abc import Iterable
from typing import Final

from ..accounting import ledger, summary
from ..base import schema
from ..base.errors import CODES
from ..plugins.rules import Allowed
from ..settings.job import Job
from ..shard_store import enhanced
from ..shard_store.text_values import text_columns
from .corpus import limits


def meanings(job: Job, names: Iterable[str]) -> dict[str, str]:
    """By `<stage>.<reason>`, in words; a reason of a user's own plug-in is spelled out."""
    measures = units(job)
    by_rule: dict[str, dict[str, None]] = {}
    for stage, rules in limits.rules_by_stage(job).items():
        for rule in rules:
            if isinstance(rule, Allowed):
                ways = [(rule.reason, f"is not one of {', '.join(rule.values)}")]
            else:
                sides = (rule.min, "below", rule.low), (rule.max, "above", rule.high)
                ways = [
                    (code, f"{side} {n:g}") for n, side, code in sides if n is not None and code
                ]
            for reason, limit in ways:
                unit, meaning = measures.get(rule.column, ("", ""))
                unit = "" if unit in ("", "1") else f"{unit}, "
                words = f"{rule.column} {limit}{f' ({unit}{meaning})' if meaning else ''}"
                by_rule.setdefault(f"{stage}.{reason}", {})[words] = None
    codes = {name: name.partition(".")[2] for name in names}
    return {
        name: " or ".join(by_rule.get(name, ())) or MEANINGS.get(code, code.replace("_", " "))
        for name, code in codes.items()
    }


def units(job: Job) -> dict[str, tuple[str, str]]:
    """(unit, meaning) of every measure."""
    about = {field.name: schema.about(field) for field in schema.TRANSCRIPTS}
    about["text_chars"] = ("characters", "length of the text")
    about["wer"] = ("", "word errors / words of the reference")
    about["cer"] = ("", "character errors / characters of the reference")
    about["seconds"] = ("s", "length of the utterance")
    return {**about, **enhanced.measures(job), **text_columns(job.transcribe.verdicts)}


# What the stable reasons of the ledger mean, apart from those of rules, which follow from their
# limits (`tasks/publish/reason_meanings.py`).


MEANINGS: Final = {
    **CODES,
    ledger.PENDING: ledger.PENDING_MEANS,
    ledger.NOT_PUBLISHED: ledger.NOT_PUBLISHED_MEANS,
    summary.REMOVED: summary.REMOVED_MEANS,
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
    "wrong_script": "its text is in a script in which its language is not written",
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
