"""ELAN's files (`.eaf`): XML, of which no entity is taken."""

from __future__ import annotations

from typing import Any
from xml.parsers import expat

from tasks.base.errors import ItemError
from tasks.sources._beside.tiers import Tier
from tasks.sources._text_encoding import BAD_TEXT


class _Reader:
    """Collects tiers. Annotations without times of their own (they refer to others) are none."""

    def __init__(self) -> None:
        self.tiers: list[Tier] = []
        self._times: dict[str, float] = {}  # of slots, s
        self._slots: tuple[str, str] | None = None
        self._said: list[str] | None = None

    def begin(self, tag: str, named: dict[str, str]) -> None:
        if tag == "TIME_SLOT" and named.get("TIME_VALUE"):
            self._times[named.get("TIME_SLOT_ID", "")] = int(named["TIME_VALUE"]) / 1000
        elif tag == "TIER":
            self.tiers.append(Tier(named.get("TIER_ID", ""), [], named.get("PARTICIPANT") or None))
        elif tag == "ALIGNABLE_ANNOTATION":
            self._slots = named.get("TIME_SLOT_REF1", ""), named.get("TIME_SLOT_REF2", "")
        elif tag == "ANNOTATION_VALUE" and self._slots:
            self._said = []

    def text(self, characters: str) -> None:
        if self._said is not None:
            self._said.append(characters)

    def end(self, tag: str) -> None:
        if tag == "ANNOTATION_VALUE" and self._said is not None and self._slots and self.tiers:
            start, end = (self._times.get(slot, float("nan")) for slot in self._slots)
            self.tiers[-1].spans.append((start, end, "".join(self._said)))
            self._said = None
        elif tag == "ALIGNABLE_ANNOTATION":
            self._slots = None


def tiers(data: bytes) -> list[Tier]:
    """The tiers of an ELAN file. ItemError `bad_text`, also where it declares entities: they may
    stand for gigabytes, or for files of this machine."""
    reader, parser = _Reader(), expat.ParserCreate()
    parser.StartElementHandler = reader.begin
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.EntityDeclHandler = _refuse
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise ItemError(BAD_TEXT, f"it is not an ELAN file: {error}") from None
    return reader.tiers


def _refuse(*_: Any) -> None:
    raise ItemError(BAD_TEXT, "it declares XML entities, which are not read")
