"""Numbers, dates, times, prices, codes and spelled letters: errors in counting their spoken words
or characters, and right texts that rules on these counts drop.

    python -m tests.bench.numbers [--json]

Seventy texts in ten languages, as a recogniser writes them, with their spoken forms; espeak-ng says
them, and the voice detector finds the time of speech. "Before": a run of figures counts as one
word, or as four letters for each figure, and a word in capitals as one word. Errors of counts are
relative to the spoken form, as a mean over texts; letters only for scripts that have them.
`dropped` are right texts that the default limits of `completeness` (words in a second of speech)
and `char_rate` drop. Scoring compares the written with the spoken form: words of the reference, and
words that count as wrong.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import gcd

import numpy as np
from scipy.signal import resample_poly

from tests.bench._numbers import NUMBERS
from uttermill.flows.demo.corpus import Line, speak
from uttermill.flows.demo.voice import RATE
from uttermill.tasks import plugins, speech
from uttermill.tasks.base.arrays import RATE as SPEECH_RATE
from uttermill.tasks.base.json_types import JsonObject
from uttermill.tasks.plugins.contracts.text import ScoredTranscript, words
from uttermill.tasks.plugins.rules import Rule, judge
from uttermill.tasks.scoring import Score, said, score, total
from uttermill.tasks.scoring import words as compared
from uttermill.tasks.scoring.readings import agreed
from uttermill.tasks.settings import Plugin

SPEED = 130  # words a minute
LETTERS_PER_FIGURE = 4


@dataclass(frozen=True, slots=True)
class Case:
    """A text as it is written and said; `seconds`: of the clip, `spoken`: of speech in it."""

    language: str
    kind: str
    written: str
    said: str
    seconds: float
    spoken: float


def cases() -> list[Case]:
    named = [
        (language, kind, *pair, voice)
        for language, (voice, pairs) in NUMBERS.items()
        for kind, pair in pairs.items()
    ]
    clips = speak([Line(spoken, voice, SPEED) for *_, spoken, voice in named])
    found = []
    for (language, kind, written, true, _), samples in zip(named, clips, strict=True):
        common = gcd(RATE, SPEECH_RATE)
        heard = resample_poly(samples, SPEECH_RATE // common, RATE // common).astype(np.float32)
        seconds = len(heard) / SPEECH_RATE
        spoken = sum(end - start for start, end in speech.spans(heard))
        found.append(Case(language, kind, written, true, seconds, spoken))
    return found


def counted(case: Case, now: bool) -> int:
    return len(words(said(case.written, case.language) if now else case.written))


def lettered(case: Case, now: bool) -> float:
    """Letters or syllables of the text, by which `char_rate` judges."""
    if now:
        return len("".join(words(said(case.written, case.language))))
    text = "".join(words(case.written))
    figures = sum(map(str.isdecimal, text))
    each = 1 if case.language in ("zh", "ja", "ko") else LETTERS_PER_FIGURE
    return len(text) - figures + each * figures


def dropped(case: Case, now: bool) -> str | None:
    """The reason that a right text is dropped for, of the rules by counts."""
    heard = ScoredTranscript(
        case.written, "asr", case.seconds, case.written, language=case.language
    )
    values: dict[str, float | None] = {
        "words_per_speech_second": counted(case, now) / case.spoken if case.spoken else None
    }
    rules: list[Rule] = []
    for use in ("completeness", "char_rate"):
        module, settings = plugins.TEXT.resolve(Plugin(use=use))
        if module.COLUMNS and now:
            values.update(module.measure(heard, settings))
        rules += module.verdict(settings)
    if not now:
        column = "syllabic" if case.language in ("zh", "ja", "ko") else "alphabetic"
        values[f"char_rate_{column}"] = lettered(case, now) / max(case.seconds, 1.0)
    rejection = judge(values, rules)
    return rejection.reason if rejection else None


def scored(case: Case, now: bool) -> Score:
    if now:
        return score(case.said, case.written, case.language)
    from rapidfuzz.distance import Levenshtein

    one, other = map(compared, agreed(case.said, case.written, case.language))
    return Score(len(one), Levenshtein.distance(one, other), 0, 0)


def error(counts: Callable[[Case, bool], float], case: Case, now: bool) -> float:
    """Of a count, as a share of what is said."""
    true = len(words(case.said)) if counts is counted else len("".join(words(case.said)))
    return abs(counts(case, now) - true) / true


def table(all_cases: list[Case], by: str) -> Iterator[JsonObject]:
    for name in [*dict.fromkeys(getattr(case, by) for case in all_cases), "all"]:
        some = [case for case in all_cases if name in (getattr(case, by), "all")]
        row: JsonObject = {by: name, "texts": len(some)}
        for label, now in (("before", False), ("now", True)):
            whole = total(scored(case, now) for case in some)
            row[label] = {
                "words_off": round(float(np.mean([error(counted, c, now) for c in some])), 3),
                "letters_off": round(float(np.mean([error(lettered, c, now) for c in some])), 3),
                "dropped": sum(dropped(case, now) is not None for case in some),
                "reference_words": whole.words,
                "word_errors": whole.word_errors,
            }
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    all_cases = cases()
    for by in ("kind", "language"):
        for row in table(all_cases, by):
            if asked.json:
                print(json.dumps(row))
                continue
            before, now = row["before"], row["now"]
            print(
                f"{row[by]:<8} {row['texts']:>3} texts: words off {before['words_off']:.0%} -> "
                f"{now['words_off']:.0%}, letters off {before['letters_off']:.0%} -> "
                f"{now['letters_off']:.0%}, dropped {before['dropped']} -> {now['dropped']}, "
                f"word errors {before['word_errors']} of {before['reference_words']} -> "
                f"{now['word_errors']} of {now['reference_words']}"
            )


if __name__ == "__main__":
    main()
