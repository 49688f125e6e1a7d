"""One utterance: everything known about it, and its outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from tasks import scoring
from tasks.base.schema import Row
from tasks.recording import Segment, ids
from tasks.shard_store.decision_log import Decision
from tasks.shard_store.language_vote import Vote
from tasks.shard_store.shared_windows import Company


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a span: packaged, dropped, failed, or pending (`stage` still has to run)."""

    outcome: str
    stage: str
    reason: str = ""
    value: float | None = None
    threshold: float | None = None
    detail: str = ""


def failed(stage: str, row: Row) -> Outcome:
    """The outcome of an unusable item, from its row."""
    return Outcome("failed", stage, row["error_code"], detail=row["error_detail"] or "")


@dataclass
class Utterance:
    """An utterance: samples [start, end) of a recording at `rate` Hz, its native sample rate."""

    recording: Row
    start: int
    end: int
    rate: int
    given: int | None
    measures: dict[str, float | None]
    audio: str  # recipe of its PCM
    outcome: Outcome
    segment: Segment | None = None
    turn: Segment | None = None  # the source's segment that it was cut from
    fingerprints: dict[str, bytes] = field(default_factory=dict)
    whole: bool = False  # the utterance is the whole recording
    part_text: str | None = None  # words of `turn` in this part, where the source has their times
    company: Company | None = None  # the utterances of its window, if it shares one
    companion: bool = False  # dropped, but heard: it shares its window with one that is not
    pcm: Row | None = None  # the PCM that recognisers hear
    packed: Row | None = None  # the PCM that is packaged
    beside: Row | None = None  # the enhanced clip, where both are packaged
    enhanced: str | None = None  # recipe of its enhanced PCM; None: nothing is enhanced
    hears: str | None = None  # recipe of the heard PCM, if it is not `audio`
    heard: Row | None = None
    others: tuple[Row, ...] = ()  # what further recognisers heard
    missing: tuple[int, ...] = ()  # which of those still have to hear it
    llm_answer: Row | None = None  # a language model's answer for its text
    llm_unanswered: bool = False  # one is asked, and has not answered
    voted: str | None = None  # the recording's language, if it overrules the detected one
    vote: Vote | None = None  # of its recording
    #: `TextValues` of its transcript.
    texts: dict[str, float | str | None] = field(default_factory=dict)
    voice: str | None = None  # name of the diarizer's speaker
    person: Decision | None = None  # a person's decision on it

    @property
    def spared(self) -> bool:
        """Whether a person decided to keep it, whatever the verdicts."""
        return self.person is not None and self.person.keeps

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / self.rate

    def _stated(self, name: str) -> str | None:
        """The source's value for the segment, else for the whole recording."""
        segment = self.segment or self.turn
        own = getattr(segment, name) if segment else None
        stated: str | None = own if own is not None else self.recording[name]
        return stated

    @property
    def source_id(self) -> str | None:
        own = self.segment.source_id if self.segment else None
        return own if own is not None else self.recording["source_id"]

    @property
    def speaker(self) -> str | None:
        return self._stated("speaker") or self.voice

    @property
    def language(self) -> str | None:
        return self._stated("language")

    @property
    def forced(self) -> str | None:
        """Language given to the recogniser; None: it detects one."""
        return self.language or self.voted

    @cached_property
    def reference(self) -> str | None:
        """The text that a person wrote, else the source's text of exactly this span, cleaned: a
        recording's text is an utterance's only where the utterance is the whole recording. A part
        of a segment has the text of its words, if they have times."""
        if self.person is not None and self.person.text:
            return scoring.clean(self.person.text) or None
        if self.segment is not None:
            return scoring.clean(self.segment.text or "") or None
        if self.part_text is not None:
            return scoring.clean(self.part_text) or None
        return scoring.clean(self.recording["text"] or "") or None if self.whole else None

    @cached_property
    def id(self) -> str:
        start, end = self.start / self.rate, self.end / self.rate
        key = self.segment.source_id if self.segment else None
        return ids.utterance_id(self.recording["dataset"], self.recording["path"], start, end, key)
