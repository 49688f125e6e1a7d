"""Drops utterances whose text begins or ends elsewhere than their audio: a bad cut.

Reference and hypothesis are aligned with the fewest edits. The difference of their word counts
before the first word that both have, and after the last, is what is missing or extra at that edge.
Characters are words if a script has no spaces. Null without a reference, and if the two have no
word in common. Not among the defaults: small recognisers also leave out a short first word.
"""

from rapidfuzz.distance import Levenshtein

from ..scoring import spoken, words
from . import ScoredTranscript, StageSettings, Threshold

COLUMNS = {
    "edge_errors_first": ("words", "missing or extra before the first word that was heard right"),
    "edge_errors_last": ("words", "missing or extra after the last word that was heard right"),
}
REASONS = {"edge_errors_first": ("", "first_word"), "edge_errors_last": ("", "last_word")}


class Settings(StageSettings):
    max_first: float | None = Threshold(0, "Most words missing or extra at the start.", ge=0)
    max_last: float | None = Threshold(0, "Most words missing or extra at the end.", ge=0)


def measure(heard: ScoredTranscript, settings: Settings) -> dict[str, float | None]:
    if heard.reference_normalised is None or heard.normalised is None:
        return dict.fromkeys(COLUMNS)
    reference = words(spoken(heard.reference_normalised, heard.language))
    heard_words = words(spoken(heard.normalised, heard.language))
    equal = [block for block in Levenshtein.opcodes(reference, heard_words) if block.tag == "equal"]
    if not equal:
        return dict.fromkeys(COLUMNS)
    first, last = equal[0], equal[-1]
    after = (len(reference) - last.src_end) - (len(heard_words) - last.dest_end)
    return {
        "edge_errors_first": float(abs(first.src_start - first.dest_start)),
        "edge_errors_last": float(abs(after)),
    }
