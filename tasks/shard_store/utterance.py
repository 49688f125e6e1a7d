"""An utterance with what is stored for it, its outcome, and the language of its recording."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import exp
from typing import NamedTuple

from .. import scoring
from ..base.schema import AnyRow, EnhancedRow, MeasureValue, RecordingRow, TranscriptRow
from ..recording import Segment
from ..recording.locator import SECOND
from ..scoring import scripts
from ..scoring.speech_by_language import SURE
from .decision_log import Decision
from .requests import Asked, ChannelTurn, Request, Window


class Outcome(NamedTuple):
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
PACKAGED = Outcome("packaged", "package", "packaged")


def failed(stage: str, row: EnhancedRow | TranscriptRow) -> Outcome:
    """The outcome of an unusable item, from its row."""
    return Outcome("failed", stage, row["error_code"] or "", detail=row["error_detail"] or "")


@dataclass(eq=False, slots=True)
class Utterance:
    """An utterance: samples [start, end) of a recording at `rate` Hz, its native sample rate.

    Filled in as far as its shard's results go: once it is cut, and has its measures; with its PCM;
    with its transcripts; with its texts. `outcome` is that after the last of these steps."""

    id: str
    recording: RecordingRow
    start: int
    end: int
    rate: int
    given: int | None
    measures: Mapping[str, MeasureValue]  # later with the scores of its enhanced clip
    audio: str  # recipe of its PCM
    outcome: Outcome
    language: str | None = None  # that the source states, for the segment or the whole recording
    segment: Segment | None = None
    turn: Segment | None = None  # the source's segment that it was cut from
    annotations: Mapping[str, bytes | None] = field(default_factory=dict)  # and fingerprints
    whole: bool = False  # the utterance is the whole recording
    part_text: str | None = None  # the source's words in this part, if they have times
    window: Window | None = None  # its window of the recogniser, if it shares one
    enhanced: str | None = None  # recipe of its enhanced PCM; None: nothing is enhanced
    voice: str | None = None  # name of the diarizer's speaker
    person: Decision | None = None  # a person's decision on it
    spared: bool = False  # a person decided to keep it, so that no rule drops it
    moved: bool = False  # a person cut it again, with other boundaries
    passes: bool = True  # no limit of filters rejects it, and it is chosen

    for_window: bool = False  # dropped, but recognised, because its window has a kept one
    pcm: EnhancedRow | None = None  # the PCM for recognisers
    packed: EnhancedRow | None = None  # the PCM that is packaged
    beside: EnhancedRow | None = None  # the enhanced clip, where both are packaged
    sides: tuple[EnhancedRow, ...] = ()  # the PCM of both channels, where a format writes them
    hears: str | None = None  # recipe of the recognisers' PCM, if not `audio`

    transcript: TranscriptRow | None = None
    others: tuple[TranscriptRow, ...] = ()  # transcripts of further recognisers
    voted: str | None = None  # the recording's language, if it overrules the detected one
    vote: Vote | None = None  # of its recording

    texts: AnyRow = field(default_factory=dict)  # `TextValues` of its transcript
    aligned: TranscriptRow | None = None  # its source's text with the times of words
    rewritten: TranscriptRow | None = None  # a language model's answer for its text
    in_channels: tuple[ChannelTurn, ...] = ()  # its turns, by their own channels
    muted: str | None = None  # where words are silenced, see `hidden`
    missing: tuple[Request[Asked], ...] = ()  # what the transcribe stage can do for it now
    _reference: str | None = field(default="", init=False)  # "": not looked up yet

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
    def seconds(self) -> float:
        return (self.end - self.start) / self.rate

    @property
    def forced(self) -> str | None:
        """Language given to the recogniser; None: it detects one."""
        return self.language or self.voted

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
            if segment:
                stated.update(segment.labels)
        if not stated:
            return None
        return sorted((name, value) for name, value in stated.items() if name not in SECOND) or None

    def second(self, name: str) -> str | None:
        """The source's second text of the segment, or of the recording if the utterance is all of
        it; or that text's language. `name`: of SECOND."""
        if self.segment:
            return dict(self.segment.labels).get(name)
        return dict(self.recording.get("labels") or ()).get(name) if self.whole else None

    @property
    def reference(self) -> str | None:
        """The text that a person wrote, else `stated` without marks of sounds."""
        if self._reference == "":
            if self.person is not None and self.person.text:
                self._reference = scoring.clean(self.person.text) or None
            else:
                stated = self.stated
                self._reference = scoring.unmarked(stated) or None if stated else None
        return self._reference

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


# The language of a recording, by a vote of its clips: a clip of two seconds is weak evidence of its
# language, and fifty such clips are strong evidence. If most of a recording's speech is in one
# language, clips detected in another are transcribed again in it, unless their own evidence is
# strong. The surer of their two texts stays: in a language that is not spoken, Whisper writes by
# sound ("Zhongqiu"), translates, or invents.
#
# Where a recording has no language, doubtful clips are transcribed again in the main language of
# their source (`source_languages`). That vote waits for all shards, so that neither the order of
# recordings nor their division into shards changes a text. Corpus-wide, the rule `language` judges
# a source's clips.


LEAST_CLIPS = 3  # for a vote
LEAST_SHARE = 0.5  # below it, a recording has several languages or no speech
#: A clip this certain of another language, and this long, keeps it: speakers do switch. Clips that
#: are together this long, and such a share of the recording, keep it, too, and so do likely ones.
SURE_SECONDS = 5.0
SURE_SHARE = 0.03
LIKELY = 0.5
#: Nats by which the mean log-probability of a clip's own text exceeds that in the recording's
#: language if it stays. Whisper base: of 18 clips of 1 to 5 s in Mandarin, Spanish and German,
#: 15 exceeded their text in English by more; of 20 doubtful English ones, none did in the language
#: that came next.
SURER = 0.1


@dataclass(frozen=True)
class Vote:
    #: By language, the mean of its probability over the seconds of all clips, with 0 for clips in
    #: other languages. The sum is 1 if every clip is certain, and small for music.
    shares: Mapping[str, float]
    #: The languages of which enough clips are certain.
    sure: frozenset[str] = frozenset()

    @cached_property
    def language(self) -> str | None:
        """The language of the recording; None if no language has `LEAST_SHARE`."""
        best = max(self.shares, key=lambda code: (self.shares[code], code))
        return best if self.shares[best] >= LEAST_SHARE else None

    def overrules(
        self, row: TranscriptRow, seconds: float, voter: TranscriptRow | None = None
    ) -> bool:
        """Whether a clip of `seconds` is transcribed again in the recording's language. `voter`:
        the row with the language that the clip voted for, if that is not the recogniser's."""
        detected = row.get("detected_language")
        if self.language is None or detected is None or detected == self.language:
            return False
        language, probability = _heard_language(voter or row)
        sure = probability >= SURE and seconds >= SURE_SECONDS
        sure = sure or (language in self.sure and probability >= LIKELY)
        return language == self.language or not sure


def is_surer(row: TranscriptRow, in_it: TranscriptRow, margin: float = SURER) -> bool:
    """Whether a clip keeps its own text, beside the one in its recording's language or source's."""
    written, written_in_it = (scripts.fits(one["text"], one["language"]) for one in (row, in_it))
    if written != written_in_it:
        return written
    score, score_in_it = row["avg_logprob"], in_it["avg_logprob"]
    return score is not None and score_in_it is not None and score > score_in_it + margin


def more_probable(row: TranscriptRow, in_it: TranscriptRow) -> TranscriptRow:
    """The row of a clip that keeps its text: the odds of its language, times how much likelier that
    text is than the one in the other language, if each word is a token."""
    p, score, score_in_it = row["language_probability"], row["avg_logprob"], in_it["avg_logprob"]
    if not p or score is None or score_in_it is None or score <= score_in_it:
        return row
    likelier = exp((score - score_in_it) * (len(scoring.words(row["normalised"] or "")) + 1))
    return {**row, "language_probability": p * likelier / (p * likelier + 1 - p)}


def is_doubtful(row: TranscriptRow, spoken: Sequence[str]) -> bool:
    """Whether a clip may not be in the language that was heard: in none of its source's (`spoken`),
    without certainty."""
    language, probability = _heard_language(row)
    foreign = bool(spoken) and language is not None and language not in spoken
    return foreign and probability < SURE and bool((row["text"] or "").strip())


def vote_of(clips: Iterable[tuple[TranscriptRow, float]]) -> Vote | None:
    """The vote of (row of TRANSCRIPTS, seconds of the clip); None if too few clips have a
    language."""
    weights, certain = dict[str, float](), dict[str, float]()
    voters, total = 0, 0.0
    for row, seconds in clips:
        detected, probability = _heard_language(row)
        if detected and (row["text"] or "").strip():
            weights[detected] = weights.get(detected, 0.0) + probability * seconds
            if probability >= SURE:
                certain[detected] = certain.get(detected, 0.0) + seconds
            voters, total = voters + 1, total + seconds
    if voters < LEAST_CLIPS or not total:
        return None
    least = max(SURE_SECONDS, SURE_SHARE * total)
    sure = frozenset(code for code, length in certain.items() if length >= least)
    return Vote({code: weight / total for code, weight in sorted(weights.items())}, sure)


def _heard_language(row: TranscriptRow) -> tuple[str | None, float]:
    """Language and probability that the recogniser detected; some detect neither."""
    return row.get("detected_language"), float(row.get("detected_probability") or 0.0)
