"""OUT/reviews.jsonl: decisions by people, a JSON object a line, appended and never changed.

    {"id": "…", "decision": "keep", "who": "ada", "when": "2026-01-31T12:00:00Z", "note": "…"}
    {"id": "…", "decision": "retext", "text": "the right words", …}

Of several decisions on one utterance the last counts; `undo` leaves it to the settings again.
Writers take a lock and append in one write, so that several at once lose nothing, and what a run
has read stays as it was. In a bucket each batch is an object below OUT/reviews instead, after
those of an OUT/reviews.jsonl that was copied there (`tasks.storage.append_log`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from tasks.base.errors import ConfigError
from tasks.base.json_types import JsonObject, parsed
from tasks.storage import append_log, containment

NAME = containment.DECISIONS_FILE
FOLDER = "reviews"  # of a bucket
DECISIONS = ("keep", "drop", "retext", "undo")
RETEXT = ("re-text", "text")  # other words for `retext`
SAME = {"why": "note", "utterance": "id"}  # other names of keys
HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair: no text in UTF-8 holds one
LONGEST = 20_000  # characters of a text or a note


@dataclass(frozen=True, slots=True)
class Decision:
    """What one person decided on one utterance. `when`: RFC 3339, UTC; it never gets into a
    version."""

    id: str
    decision: str
    text: str | None = None
    note: str = ""
    who: str = ""
    when: str = ""

    @property
    def keeps(self) -> bool:
        """Whether no rule drops the utterance: who wrote its text wants it kept."""
        return self.decision in ("keep", "retext")

    @property
    def words(self) -> str:
        """The decision for the ledger, without the time."""
        done = {"keep": "kept", "drop": "dropped", "retext": "text written"}[self.decision]
        return f"{done} by {self.who or 'a person'}{f': {self.note}' if self.note else ''}"


def path(out: Path) -> Path:
    return out / NAME


def now() -> str:
    """The time of a decision that states none."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def checked(given: JsonObject, when: str, place: str = "") -> Decision:
    """A decision from JSON; ConfigError, which begins with `place`, if it is none. `when` is
    taken where the decision states no time of its own."""
    prefix = f"{place}: " if place else ""
    given = {SAME.get(name, name): value for name, value in given.items()}
    if given.get("decision") in RETEXT or ("decision" not in given and given.get("text")):
        given["decision"] = "retext"
    fields = set(Decision.__dataclass_fields__)
    if unknown := sorted(set(given) - fields):
        raise ConfigError(f"{prefix}unknown key {unknown[0]!r}; use {', '.join(sorted(fields))}")
    for name, value in given.items():
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{prefix}{name} must be a text")
        if value is not None and HALF.search(value):
            raise ConfigError(
                f"{prefix}{name} has half of a surrogate pair, which no file can hold"
            )
        if value is not None and len(value) > LONGEST:
            raise ConfigError(f"{prefix}{name} is longer than {LONGEST} characters")
    values = {name: value for name, value in given.items() if value is not None}
    decision = Decision(**{"id": "", "decision": "", "when": when, **values})
    if not decision.id:
        raise ConfigError(f"{prefix}it names no utterance; give its id")
    if decision.decision not in DECISIONS:
        raise ConfigError(f"{prefix}decision is {decision.decision!r}; use {', '.join(DECISIONS)}")
    if (decision.decision == "retext") != bool((decision.text or "").strip()):
        raise ConfigError(f"{prefix}give a text with the decision retext, and only with it")
    return decision


def append(out: Path, decisions: Sequence[Decision]) -> None:
    """Append decisions, all or none."""
    if not decisions:
        return
    data = b"".join(_line(decision) for decision in decisions)
    append_log.append(path(out), out / FOLDER, data)


def _line(decision: Decision) -> bytes:
    values = {name: value for name, value in asdict(decision).items() if value}
    return json.dumps(values, ensure_ascii=False).encode() + b"\n"


def read(data: bytes) -> list[Decision]:
    """The decisions in a file's bytes, oldest first. A line that is none is passed over: only a
    crash while it was written can have left it."""
    decisions = []
    for line in data.split(b"\n"):
        if line.strip():
            try:
                given = parsed(line)
                decisions.append(checked(given if isinstance(given, dict) else {}, ""))
            except (ValueError, ConfigError):
                continue
    return decisions


def stored(out: Path) -> bytes:
    """The file's bytes, up to its last whole line; on an object store, those of all its parts."""
    data = append_log.read(path(out), out / FOLDER)
    return data[: data.rfind(b"\n") + 1]


def last(decisions: Iterable[Decision]) -> dict[str, Decision]:
    """The decision that counts for each utterance; none for those of `undo`."""
    last_by_id: dict[str, Decision] = {}
    for decision in decisions:
        if decision.decision == "undo":
            last_by_id.pop(decision.id, None)
        else:
            last_by_id[decision.id] = decision
    return last_by_id
