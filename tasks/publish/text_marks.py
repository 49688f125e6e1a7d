"""Marks of sounds in published texts, `package.text_marks`: "well [laughs] that is it".

A sound is one that the source's text states, as captions do: its mark stands in the same place. Or
it is an event that a filter such as `sounds` found in the clip: its mark stands before the first
word whose middle comes after the event's start, if the times of words are known. The column
`normalised` has no marks.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

import pyarrow as pa
import pyarrow.compute as pc

from ..base.errors import ConfigError
from ..base.logs import log
from ..base.schema import WordRow
from ..plugins.annotation_kinds import Events
from ..scoring import cleaning
from ..settings.job import Job
from ..shard_store import annotated
from ..shard_store.utterance import Utterance

NEAR = 40  # characters beyond its length within which a word is looked for
ALIKE = 4  # letters that two forms of a word share: laughs, laughter
_EDGES = re.compile(r"^\W+|\W+$")
_OPENING = "([{<\"'“‘«„¿¡（「『"
Placed = tuple[int, str]  # place in a text, and the mark


def check(job: Job) -> None:
    """Raises ConfigError for a sound that neither a chosen filter nor a source's text can state,
    and if words get no times for those that a filter finds."""
    marks = job.package.text_marks
    kinds = [one.kind for one in annotated.of_job(job) if isinstance(one.kind, Events)]
    labels = sorted({label for kind in kinds for label in kind.labels or ()})
    anything = any(kind.labels is None for kind in kinds)
    by_filter = [label for label in marks if label in labels or anything]
    if job.transcribe.text == "asr" and len(by_filter) < len(marks):
        unknown = next(label for label in marks if label not in by_filter)
        others = f"; there are: {', '.join(labels)}" if labels else ": `sounds` finds some"
        raise ConfigError(
            f"package.text_marks: no filter finds {unknown!r}{others}; and sources' texts, which "
            "may state it, are not published (transcribe.text: asr)"
        )
    timed = any(one.options.get("word_timestamps") for one in job.transcribe.recognisers)
    if by_filter and not (timed or job.transcribe.reference_words):
        raise ConfigError(
            "package.text_marks needs to know when words are said: set "
            "transcribe.backend.word_timestamps=true, for sources' texts "
            "transcribe.reference_words=true"
        )


def marked(
    job: Job, utterance: Utterance, text: str, words: Sequence[WordRow], by_source: bool
) -> str:
    """A clip's text with marks. `words`: with times, if these are known; `by_source`: whether the
    text is the source's, whose place for a mark counts."""
    marks = job.package.text_marks
    events = [
        (event["start"], marks[event["label"]])
        for one in annotated.of_job(job)
        if isinstance(one.kind, Events)
        for event in annotated.value_of(one, utterance) or ()
        if event["label"] in marks
    ]
    person = utterance.person
    by_source = by_source and not (person and person.text)
    by_text = [*stated(text, utterance.stated, marks)] if by_source else []
    stated_marks = {mark for _, mark in by_text}
    by_time = [entry for entry in heard(text, words, events) if entry[1] not in stated_marks]
    return with_marks(text, [*by_text, *by_time])


def with_marks(text: str, placed: Iterable[Placed]) -> str:
    pieces, last = list[str](), 0
    for place, mark in sorted(dict.fromkeys(placed), key=lambda one: one[0]):
        pieces += [text[last:place].strip(), mark]
        last = place
    return " ".join(piece for piece in (*pieces, text[last:].strip()) if piece)


def heard(
    text: str, words: Sequence[WordRow], events: Iterable[tuple[float, str]]
) -> Iterator[Placed]:
    """The marks of events (start in s of the clip, mark); none without words."""
    places = _places(text, [word["word"] for word in words])
    middles = [(word["start"] + word["end"]) / 2 for word in words]
    for start, mark in sorted(events) if words and text else ():
        later = (place for place, middle in zip(places, middles, strict=True) if middle >= start)
        yield next(later, len(text)), mark


def stated(text: str, source: str, marks: Mapping[str, str]) -> Iterator[Placed]:
    """The marks of the sounds that the source's text states."""
    if sounds := cleaning.sounds(source):
        places = [*_places(text, cleaning.without_sounds(source).split()), len(text)]
        for before, name in sounds:
            if label := next((label for label in marks if _alike(name, label)), None):
                yield places[before], marks[label]


def _alike(one: str, other: str) -> bool:
    """Whether two names of sounds share a word, in any of its forms."""
    pairs = product(one.lower().split(), other.lower().split())
    return any(
        long.startswith(short[:ALIKE]) and (len(short) > 2 or not short.isascii())
        for short, long in (sorted(pair, key=len) for pair in pairs)
    )


def _places(text: str, words: Sequence[str]) -> list[int]:
    """Where each word begins in a text, whose case and punctuation may differ; a word that it
    lacks is where the one before it ends."""
    places, end = list[int](), 0
    for word in words:
        core = _EDGES.sub("", word)
        pattern = re.compile(re.escape(core), re.IGNORECASE)
        match = pattern.search(text, end, end + len(core) + NEAR) if core else None
        place = match.start() if match else end
        while place and text[place - 1] in _OPENING:
            place -= 1
        places.append(place)
        end = match.end() if match else end
    return places


def counts(marks: Mapping[str, str], tables: Iterable[pa.Table]) -> dict[str, int]:
    """How often each mark stands in the column `text`, by label."""
    count_by_label: Counter[str] = Counter(dict.fromkeys(marks, 0))
    for table in tables:
        for label, mark in marks.items():
            occurrences = pc.sum(pc.count_substring(table["text"], mark)).as_py()
            count_by_label[label] += int(occurrences or 0)
    for label, count in count_by_label.items():
        if not count:
            log.warning("package.text_marks: no text has the sound %r", label)
    return dict(count_by_label)
