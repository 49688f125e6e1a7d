"""Marks of sounds in published texts, `package.text_marks`: "well [laughs] that is it".

A sound is an event that a filter such as `sounds` found in the clip. Its mark stands before the
first word whose middle comes after the event's start. Without times of words, a text stays as it
is; so does the column `normalised`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ..base.errors import ConfigError
from ..base.schema import WordRow
from ..plugins.annotation_kinds import Events
from ..settings.job import Job
from ..shard_store import annotated
from ..shard_store.utterance import FinalUtterance

NEAR = 40  # characters beyond its length within which a word is looked for
_EDGES = re.compile(r"^\W+|\W+$")
_OPENING = "([{<\"'“‘«„¿¡（「『"


class Sound(NamedTuple):
    start: float  # s of the clip
    mark: str


def check(job: Job) -> None:
    """Raises ConfigError for a sound that no chosen filter finds, and if words get no times."""
    marks = job.package.text_marks
    if not marks:
        return
    kinds = [one.kind for one in annotated.of_job(job) if isinstance(one.kind, Events)]
    labels = sorted({label for kind in kinds for label in kind.labels or ()})
    anything = any(kind.labels is None for kind in kinds)
    for label in marks:
        if label not in labels and not anything:
            others = f"; there are: {', '.join(labels)}" if labels else ": `sounds` finds some"
            raise ConfigError(f"package.text_marks: no filter finds {label!r}{others}")
    timed = any(one.options.get("word_timestamps") for one in job.transcribe.recognisers)
    if not (timed or job.transcribe.reference_words):
        raise ConfigError(
            "package.text_marks needs to know when words are said: set "
            "transcribe.backend.word_timestamps=true, for sources' texts "
            "transcribe.reference_words=true"
        )


def sounds(job: Job, utterance: FinalUtterance) -> list[Sound]:
    """The sounds of a clip that get a mark, in order."""
    marks = job.package.text_marks
    events = [
        event
        for one in annotated.of_job(job)
        if isinstance(one.kind, Events)
        for event in annotated.value_of(one, utterance) or ()
    ]
    return sorted(
        Sound(one["start"], marks[one["label"]]) for one in events if one["label"] in marks
    )


def marked(text: str, words: Sequence[WordRow], heard: Iterable[Sound]) -> str:
    """The text with the marks of sounds at their places; unchanged without words."""
    if not words or not text:
        return text
    places = _places(text, words)
    middles = [(word["start"] + word["end"]) / 2 for word in words]
    inserted = list[tuple[int, str]]()
    for start, mark in heard:
        later = (place for place, middle in zip(places, middles, strict=True) if middle >= start)
        entry = next(later, len(text)), mark
        if entry not in inserted:
            inserted.append(entry)
    pieces, last = list[str](), 0
    for place, mark in sorted(inserted, key=lambda entry: entry[0]):
        pieces += [text[last:place].strip(), mark]
        last = place
    return " ".join(piece for piece in (*pieces, text[last:].strip()) if piece)


def _places(text: str, words: Sequence[WordRow]) -> list[int]:
    """Where each word begins in a text, whose case and punctuation may differ; a word that it
    lacks is where the one before it ends."""
    places, end = list[int](), 0
    for word in words:
        core = _EDGES.sub("", word["word"])
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
    return dict(count_by_label)
