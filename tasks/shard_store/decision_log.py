"""OUT/reviews.jsonl: decisions by people, one JSON object per line, appended and never changed.

    {"id": "…", "decision": "keep", "who": "ada", "when": "2026-01-31T12:00:00Z", "note": "…"}
    {"id": "…", "decision": "retext", "text": "the right words", …}
    {"id": "…", "decision": "recut", "start": 12.25, "end": 15.5, …}

`recut` moves the boundaries of a clip, in s from the recording's first sample. The new clip has its
own id, and rules apply to it again, unless the decision has a `text`, which keeps it.

The last decision on an utterance counts; `undo` cancels earlier ones. Writers take a lock and
append in one write, so that concurrent writers lose nothing, and lines that a run has read never
change. In a bucket, each batch is an object below OUT/reviews instead, read after an
OUT/reviews.jsonl that was copied there (`tasks.storage.append_log`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from ..base.counting import counted
from ..base.errors import ConfigError, RunError
from ..base.json_types import Reviews, parsed
from ..base.logs import log
from ..recording import forgotten
from ..settings.job import Job, Pinned
from ..storage import append_log, containment, versions

NAME = containment.DECISIONS_FILE
FOLDER = "reviews"  # in a bucket
DECISIONS = ("keep", "drop", "retext", "recut", "undo")
RETEXT = ("re-text", "text")  # synonyms of `retext`
SAME = {"why": "note", "utterance": "id"}  # synonyms of keys
HALF = re.compile("[\ud800-\udfff]")  # half of a surrogate pair: invalid in UTF-8
TIMES = ("start", "end")
SHORTEST, MOST = 0.1, 1e7  # s: the shortest clip of a recut, the largest time
LONGEST = 20_000  # characters of a text or a note


@dataclass(frozen=True, slots=True)
class Decision:
    """One person's decision on one utterance. `when`: RFC 3339, UTC; it is never published."""

    id: str
    decision: str
    text: str | None = None
    note: str = ""
    who: str = ""
    when: str = ""
    start: float | None = None
    end: float | None = None

    @property
    def keeps(self) -> bool:
        """Whether no rule drops the utterance: it is kept, or a person has written its text."""
        return self.decision == "keep" or bool(self.text)

    @property
    def words(self) -> str:
        note = f": {self.note}" if self.note else ""
        return f"{_DONE[self.decision]} by {self.who or 'a person'}{note}"


_DONE = {"keep": "kept", "drop": "dropped", "retext": "text written", "recut": "cut again"}


def path(out: Path) -> Path:
    return out / NAME


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def checked(entry: Mapping[str, object], when: str, place: str = "") -> Decision:
    """A decision from JSON; raises ConfigError, with `place` at the start, if it is invalid.
    `when`: the default time."""
    prefix = f"{place}: " if place else ""
    given = {SAME.get(name, name): value for name, value in entry.items()}
    if given.get("decision") in RETEXT or ("decision" not in given and given.get("text")):
        given["decision"] = "retext"
    fields = set(Decision.__dataclass_fields__)
    if unknown := sorted(set(given) - fields):
        raise ConfigError(f"{prefix}unknown key {unknown[0]!r}; use {', '.join(sorted(fields))}")
    times = {name: _seconds(given.pop(name), prefix, name) for name in TIMES if name in given}
    for name, value in given.items():
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{prefix}{name} must be a text")
        if value is not None and HALF.search(value):
            raise ConfigError(
                f"{prefix}{name} has half of a surrogate pair, which no file can hold"
            )
        if value is not None and len(value) > LONGEST:
            raise ConfigError(f"{prefix}{name} is longer than {LONGEST} characters")
    texts = {name: value for name, value in given.items() if isinstance(value, str)}
    decision = Decision(
        id=texts.get("id", ""),
        decision=texts.get("decision", ""),
        text=texts.get("text"),
        note=texts.get("note", ""),
        who=texts.get("who", ""),
        when=texts.get("when", when),
        start=times.get("start"),
        end=times.get("end"),
    )
    if not decision.id:
        raise ConfigError(f"{prefix}it names no utterance; give its id")
    if decision.decision not in DECISIONS:
        raise ConfigError(f"{prefix}decision is {decision.decision!r}; use {', '.join(DECISIONS)}")
    written = bool((decision.text or "").strip())
    if written != (decision.decision == "retext") and decision.decision != "recut":
        raise ConfigError(f"{prefix}give a text with the decision retext, and only with it")
    start, end = decision.start, decision.end
    if decision.decision != "recut" and (start is not None or end is not None):
        raise ConfigError(f"{prefix}start and end belong to the decision recut")
    if decision.decision == "recut" and (start is None or end is None or end - start < SHORTEST):
        raise ConfigError(
            f"{prefix}recut needs start and end in seconds, {SHORTEST} s apart at least"
        )
    return decision


def _seconds(value: object, prefix: str, name: str) -> float | None:
    """A time in a recording, s; raises ConfigError if it is invalid."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < MOST:
        raise ConfigError(f"{prefix}{name} must be a number of seconds from 0 up")
    return float(value)


def append(out: Path, decisions: Sequence[Decision]) -> None:
    """Append decisions, all or none."""
    if not decisions:
        return
    data = b"".join(map(line, decisions))
    append_log.append(path(out), out / FOLDER, data)


def line(decision: Decision) -> bytes:
    values = {name: value for name, value in asdict(decision).items() if value not in ("", None)}
    return json.dumps(values, ensure_ascii=False).encode() + b"\n"


@lru_cache(maxsize=2)  # the explorer asks for them every few seconds
def _lines(data: bytes) -> tuple[tuple[Decision, ...], tuple[str, ...]]:
    """The decisions in a file's bytes, oldest first, and what is wrong with each invalid line: a
    person wrote it, or a crash during a write left it."""
    decisions, wrong = [], []
    for number, entry in enumerate(data.split(b"\n"), 1):
        if entry.strip():
            try:
                given = parsed(entry)
                decisions.append(checked(given if isinstance(given, dict) else {}, ""))
            except (ValueError, ConfigError) as error:
                wrong.append(f"line {number}: {error}")
    return tuple(decisions), tuple(wrong)


def read(data: bytes) -> tuple[Decision, ...]:
    """The decisions in a file's bytes, oldest first, without invalid lines."""
    return _lines(data)[0]


def of(out: Path) -> tuple[Decision, ...]:
    """OUT's decisions, oldest first. Warns of invalid lines, once."""
    decisions, wrong = _lines(stored(out))
    if wrong:
        _warn(path(out), wrong)
    return decisions


@lru_cache(maxsize=2)
def _warn(place: Path, wrong: tuple[str, ...]) -> None:
    log.warning(
        "%s: %s left out, first %s; correct or remove what is wrong",
        place,
        counted(len(wrong), "invalid line"),
        wrong[0],
    )


def stored(out: Path) -> bytes:
    """The file's bytes, up to its last whole line; on an object store, those of all its parts."""
    data = append_log.read(path(out), out / FOLDER)
    return data[: data.rfind(b"\n") + 1]


def last(decisions: Iterable[Decision]) -> dict[str, Decision]:
    """The decision that counts for each utterance, by id; none after `undo`."""
    last_by_id: dict[str, Decision] = {}
    for decision in decisions:
        if decision.decision == "undo":
            last_by_id.pop(decision.id, None)
        else:
            last_by_id[decision.id] = decision
    return last_by_id


# The decisions that apply to a job.
#
# A run pins the file of decisions at its beginning (`pinned`): the file's length and hash travel
# with the job, and each worker reads that much of it. Queries between runs use the current file.


def pinned(job: Job) -> Job:
    """The job with the current decisions; unchanged if it already has some."""
    if job.reviews is not None:
        return job
    data = stored(job.out)
    return replace(job, reviews=Pinned(len(data), hashlib.sha256(data).hexdigest()))


def by_utterance(job: Job) -> Mapping[str, Decision]:
    """The decision that counts for each utterance, by id. Raises RunError if the pinned part of the
    file has changed."""
    if job.reviews is None:
        return last(of(job.out))
    if not job.reviews.size:
        return {}
    data = stored(job.out)[: job.reviews.size]
    if hashlib.sha256(data).hexdigest() != job.reviews.sha256:
        raise RunError(
            f"{path(job.out)} was changed during the run, other than by appending; run again"
        )
    return _last(data)


@lru_cache(maxsize=2)
def _last(data: bytes) -> Mapping[str, Decision]:
    return last(read(data))


def warn_of_gone(job: Job, newest: Path) -> None:
    """Warn if OUT has decisions on fewer utterances than its newest version was made with, and
    nothing was removed on request. An undone decision stays in the file."""
    reviews = versions.described(newest).get("reviews")
    then = sum(n for n in reviews.values() if isinstance(n, int)) if reviews else 0
    now = len({decision.id for decision in of(job.out)})
    if now < then and not forgotten.read(job.out).recordings:
        log.warning(
            "%s has decisions by people on %s, and %s was made with %d: the others do not count "
            "any more; restore the file if they should",
            path(job.out),
            counted(now, "utterance"),
            newest.name,
            then,
        )


def identity(by_id: Mapping[str, Decision]) -> str:
    """Hash of the effects of decisions, without their times; empty if there are none."""
    if not by_id:
        return ""
    effects = [
        [d.id, d.decision, d.text, d.who, d.note, *([d.start, d.end] if d.end else [])]
        for _, d in sorted(by_id.items())
    ]
    return hashlib.sha256(json.dumps(effects).encode()).hexdigest()


def described(job: Job) -> Reviews | None:
    """The entry for dataset.json; None without decisions."""
    by_id = by_utterance(job)
    if not by_id:
        return None
    kinds = Counter(decision.decision for decision in by_id.values())
    reviews: Reviews = {
        "keep": kinds["keep"],
        "drop": kinds["drop"],
        "retext": kinds["retext"],
        "sha256": identity(by_id),
    }
    if kinds["recut"]:
        reviews["recut"] = kinds["recut"]
    return reviews
