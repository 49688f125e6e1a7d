"""An utterance in its three phases: after cutting, with transcripts, final; and its outcome in
each.

The object of a phase is immutable, and the next phase contains it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from .. import scoring
from ..base.schema import AnyRow, EnhancedRow, MeasureValue, RecordingRow, TranscriptRow
from ..recording import Segment, ids
from ..recording.locator import SECOND
from .decision_log import Decision
from .language_vote import Vote
from .own_channels import ChannelTurn
from .requests import Asked, Request, Window


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a span: packaged, dropped, failed, or pending (`stage` still has to run)."""

    outcome: str
    stage: str
    reason: str = ""
    value: float | None = None
    threshold: float | None = None
    detail: str = ""


#: Singletons; compare them with `is`.
UNMEASURED = Outcome("pending", "filter", "pending")
UNCONVERTED = Outcome("pending", "resample", "pending")
UNHEARD = Outcome("pending", "transcribe", "pending")


def failed(stage: str, row: EnhancedRow | TranscriptRow) -> Outcome:
    """The outcome of an unusable item, from its row."""
    return Outcome("failed", stage, row["error_code"] or "", detail=row["error_detail"] or "")


@dataclass(frozen=True)
class CutUtterance:
    """An utterance after cutting: samples [start, end) of a recording at `rate` Hz, its native
    sample rate; `outcome` of the filters."""

    recording: RecordingRow
    start: int
    end: int
    rate: int
    given: int | None
    measures: Mapping[str, MeasureValue]
    audio: str  # recipe of its PCM
    outcome: Outcome
    segment: Segment | None = None
    turn: Segment | None = None  # the source's segment that it was cut from
    annotations: Mapping[str, bytes | None] = field(default_factory=dict)  # and fingerprints
    whole: bool = False  # the utterance is the whole recording
    part_text: str | None = None  # the source's words in this part, if they have times
    window: Window | None = None  # its window of the recogniser, if it shares one
    enhanced: str | None = None  # recipe of its enhanced PCM; None: nothing is enhanced
    voice: str | None = None  # name of the diarizer's speaker
    person: Decision | None = None  # a person's decision on it
    moved: bool = False  # a person cut it again, with other boundaries

    @property
    def decided(self) -> str:
        """The person's decision, for the ledger; empty without one. If a clip that was a whole
        recording has new boundaries, the recording's text does not apply any more, which is
        noted."""
        words = [self.person.words] if self.person else []
        if self.moved and self.recording["text"] and self.reference is None:
            words.append("the text of the recording is not that of this part: write one")
        return "; ".join(words)

    @property
    def spared(self) -> bool:
        """Whether a person decided to keep the utterance, so that no rule drops it."""
        return self.person is not None and self.person.keeps

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / self.rate

    @property
    def source_id(self) -> str | None:
        stated = self.segment.source_id if self.segment else None
        return stated if stated is not None else self.recording["source_id"]

    @property
    def speaker(self) -> str | None:
        """The source's name for the segment, else for the whole recording, else the diarizer's."""
        segment = self.segment or self.turn
        stated = segment.speaker if segment else None
        return (stated if stated is not None else self.recording["speaker"]) or self.voice

    @property
    def labels(self) -> list[tuple[str, str]] | None:
        """The source's labels of the recording, overridden by those of the segment, sorted by
        name."""
        stated = dict(self.recording.get("labels") or ())
        for segment in (self.turn, self.segment):
            stated |= dict(segment.labels) if segment else {}
        labels = ((name, value) for name, value in stated.items() if name not in SECOND)
        return sorted(labels) or None

    def second(self, name: str) -> str | None:
        """The source's second text of the segment, or of the recording if the utterance is all of
        it; or that text's language. `name`: of SECOND."""
        if self.segment:
            return dict(self.segment.labels).get(name)
        return dict(self.recording.get("labels") or ()).get(name) if self.whole else None

    @property
    def language(self) -> str | None:
        """The language that the source states for the segment, else for the whole recording."""
        segment = self.segment or self.turn
        stated = segment.language if segment else None
        return stated if stated is not None else self.recording["language"]

    @cached_property
    def id(self) -> str:
        start, end = self.start / self.rate, self.end / self.rate
        key = self.segment.source_id if self.segment else None
        return ids.utterance_id(self.recording["dataset"], self.recording["path"], start, end, key)

    @cached_property
    def reference(self) -> str | None:
        """The text that a person wrote, else `stated` without marks of sounds."""
        if self.person is not None and self.person.text:
            return scoring.clean(self.person.text) or None
        return scoring.unmarked(self.stated) or None

    @property
    def stated(self) -> str:
        """The source's text of exactly this span, cleaned: a recording's text is an utterance's
        only if the utterance is the whole recording. A part of a segment has the text of its words,
        if they have times."""
        if self.segment is not None:
            timed = self.part_text if self.moved else None
            text = self.segment.text if timed is None else timed
        elif self.part_text is not None:
            text = self.part_text
        else:
            text = self.recording["text"] if self.whole else None
        return scoring.clean(text) if text else ""


@dataclass(frozen=True, slots=True)
class HeardUtterance:
    """An utterance with its PCM and transcripts, as far as they exist."""

    cut: CutUtterance
    outcome: Outcome
    measures: Mapping[str, MeasureValue]  # with the scores of its enhanced clip
    for_window: bool = False  # dropped, but recognised, because its window has a kept one
    pcm: EnhancedRow | None = None  # the PCM for recognisers
    packed: EnhancedRow | None = None  # the PCM that is packaged
    beside: EnhancedRow | None = None  # the enhanced clip, where both are packaged
    sides: tuple[EnhancedRow, ...] = ()  # the PCM of both channels, where a format writes them
    hears: str | None = None  # recipe of the recognisers' PCM, if not `cut.audio`
    transcript: TranscriptRow | None = None
    others: tuple[TranscriptRow, ...] = ()  # transcripts of further recognisers
    voted: str | None = None  # the recording's language, if it overrules the detected one
    vote: Vote | None = None  # of its recording

    @property
    def forced(self) -> str | None:
        """Language given to the recogniser; None: it detects one."""
        return self.cut.language or self.voted


@dataclass(frozen=True, slots=True)
class FinalUtterance:
    """An utterance after the rules on its text; `outcome` is the last one."""

    cut: CutUtterance
    heard: HeardUtterance
    outcome: Outcome
    texts: AnyRow = field(default_factory=dict)  # `TextValues` of its transcript
    aligned: TranscriptRow | None = None  # its source's text with the times of words
    rewritten: TranscriptRow | None = None  # a language model's answer for its text
    in_channels: tuple[ChannelTurn, ...] = ()  # its turns, by their own channels
    muted: str | None = None  # where words are silenced, see `hidden`
    missing: tuple[Request[Asked], ...] = ()  # what the transcribe stage can do for it now
