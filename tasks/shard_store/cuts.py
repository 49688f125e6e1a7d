"""The filter stage's results for each recording: its spans and their measures, by recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ..base.errors import IN_THE_FILE
from ..base.schema import CutRow, MeasureValue, RecordingRow, SegmentRow
from ..plugins.annotation_kinds import Label
from ..plugins.rules import judge
from ..recording import Segment, TimedWord
from ..recording.faults import Fault, touching
from ..recording.limits import REFUSED, Limits, Refusal
from ..settings import Plugin
from ..settings.stages import DAMAGE
from ..storage import tables
from . import annotated
from .annotated import cheap_rules, costly
from .decision_log import Decision

#: How far a source's segment may end beyond its recording, s: times are rounded, and an AAC header
#: counts up to 132 ms of padding; words are longer. Kaldi's `extract-segments` allows 0.5 s, Lhotse
#: 0.025 s.
MOST_BEYOND = 0.15
#: How far captions that people made may be from what is said, s; a recogniser hears its words where
#: they are, and moving them made texts worse.
ROUGH = 0.5
TURNS = "turns"  # kind of the row of a recording's turns
RECUT = "recut"  # kind of rows with measures of clips that a person cut again; not spans of a cut

Key = tuple[int, int, int | None]  # start, end, index of the source's segment


@dataclass(slots=True)
class Cut:
    """A recording after the filter stage. `decoded` is its length in samples at `rate` Hz."""

    decoded: int = 0
    rate: int = 0
    channels: int = 0
    error_code: str | None = None
    error_detail: str | None = None
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()  # oddities without loss of samples
    known: bool = False  # whether the row of kind `recording` was read
    refusal: Refusal | None = None  # set if the recording is beyond a current limit
    spans: list[CutRow] = field(default_factory=list)
    measures: dict[Key, dict[str, MeasureValue]] = field(default_factory=dict)
    #: Includes fingerprints.
    annotations: dict[Key, dict[str, bytes | None]] = field(default_factory=dict)
    recut: Mapping[Key, Decision] = field(default_factory=dict)  # clips that a person cut again

    def within(self, limits: Limits, channels: int, size: int) -> Cut | None:
        """This cut, or the refusal of a recording beyond a current limit. None if a lower limit
        refused it: its rest is unknown."""
        refusal = None
        if self.decoded:
            refusal = limits.of_decoded(self.rate, channels, size, self.decoded)
        if refusal is not None:
            return Cut.refused(refusal, self.rate)
        return None if self.error_code in REFUSED else self

    @classmethod
    def refused(cls, refusal: Refusal, rate: int) -> Cut:
        """The cut of a recording beyond a limit; `rate`: its native rate, Hz."""
        code, detail = refusal.code, refusal.detail
        return cls(refusal.decoded, rate, 0, code, detail, known=True, refusal=refusal)

    def count_faults(self) -> None:
        """Compute the measure of damage from the faults, for utterances without a stored one."""
        for span in self.spans:
            if span["kind"] == "utterance" and span["end"] > span["start"]:
                start, end = span["start"], span["end"]
                measures = self.measures.setdefault((start, end, span["given"]), {})
                if DAMAGE not in measures:
                    measures[DAMAGE] = float(touching(self.faults, start, end))

    def lacks(self, key: Key, chosen: tuple[Plugin, ...], measure_all: bool) -> tuple[Plugin, ...]:
        """Filters that have not measured the utterance yet. Once a cheap one rejects it, costly
        ones are skipped, unless `measure_all`."""
        measures = self.measures.get(key, {})
        measured, stored = measures.keys(), self.annotations.get(key, {}).keys()
        missing = []
        for plugin in chosen:
            names = annotated.stored_by(plugin.use)
            if not (names.measures <= measured and names.kept <= stored):
                missing.append(plugin)
        if measure_all or not any(map(costly, missing)):
            return tuple(missing)
        if judge(measures, cheap_rules(chosen)) is None:
            return tuple(missing)
        return tuple(plugin for plugin in missing if not costly(plugin))


def seconds_beyond(segment: Segment, cut: Cut) -> float:
    """How far a source's segment ends beyond the decoded audio, s; 0 if it does not. A segment
    without an end is beyond it if its last word begins there."""
    if not cut.rate:
        return 0.0
    length, end = cut.decoded / cut.rate, segment.end
    if end is None and segment.words and segment.words[-1].start > length:
        end = segment.words[-1].end
    return 0.0 if end is None else max(end - length, 0.0)


def no_samples(segment: Segment, cut: Cut) -> str:
    end = "the end" if segment.end is None else f"{segment.end:.9g} s"
    length = cut.decoded / cut.rate
    if segment.end == 0.0:
        return "it ends before the recording's audio begins"
    if segment.start < length:
        return f"{segment.start:.9g} s to {end} is shorter than a sample"
    return f"{segment.start:.9g} s to {end} is beyond the recording's end, at {length:.2f} s"


def segments_of(recording: RecordingRow) -> tuple[Segment, ...] | None:
    """The spans that the source lists; None if it lists the recording as a whole.

    NeMo's manifests give the length to read. If that is about the file's length, the recording
    counts as whole; otherwise it is a single span with the recording's text, speaker and language.
    """
    if (given := recording["segments"]) is not None:
        late = (recording.get("start_seconds") or 0.0) if recording.get("film_time") else 0.0
        rough = ROUGH if recording.get("captions") == "by_hand" else 0.0
        return tuple(_segment(segment, late, rough) for segment in given)
    length, header = recording.get("length"), recording.get("header_seconds")
    if length is None or (header is not None and abs(length - header) <= MOST_BEYOND):
        return None
    name, text = recording["source_id"], recording["text"]
    return (Segment(0.0, length, name, text, recording["speaker"], recording["language"]),)


def segment_of(span: CutRow, rate: int, given: Sequence[Segment] | None) -> Segment | None:
    """The source's segment for a span, or a segment with the sentence that the segmenter found
    there; None without either."""
    if given is not None and span["given"] is not None:
        return given[span["given"]]
    if (text := span.get("text")) is None:
        return None
    return Segment(span["start"] / rate, span["end"] / rate, text=text)


def speakers_of(recording: RecordingRow) -> tuple[Segment, ...] | None:
    """Who speaks according to the source: its RTTM file, else its segments."""
    if (turns := recording.get("rttm")) is None:
        return segments_of(recording)
    return tuple(Segment(t["start"], t["end"], speaker=t["speaker"]) for t in turns)


def _segment(stored: SegmentRow, late: float, rough: float) -> Segment:
    """A segment in the recording's time, which begins `late` seconds into that of the segment. What
    lies before the first sample has no length, and fails as one beyond the last does."""

    def moved(seconds: float) -> float:
        return max(round(seconds - late, 6), 0.0) if late else seconds

    words, end = stored.get("words"), stored["end"]
    timed = None
    if words:
        timed = tuple(
            TimedWord(word["word"], moved(word["start"]), moved(word["end"])) for word in words
        )
    return Segment(
        moved(stored["start"]),
        None if end is None else moved(end),
        stored["source_id"],
        stored["text"],
        stored["speaker"],
        stored["language"],
        timed,
        labels=tuple(stored.get("labels") or ()),
        rough=rough,
    )


def merge(
    cuts_by_recipe: dict[str, Cut], table: pa.Table, usable: set[str], failures_stand: bool
) -> None:
    """Add the rows of one part to `cuts_by_recipe`; the first cut of a recipe stays, unless it was
    refused for a limit.

    `usable`: filters whose stored measures have the current recipe; `failures_stand`: whether
    failures count that a filter may have caused.
    """
    columns, labels, kept = set[str](), dict[str, tuple[str, Label]](), set[str]()
    for use in usable:
        names = annotated.stored_by(use)
        columns, labels, kept = columns | names.columns, labels | names.labels, kept | names.kept
    every: list[CutRow] = table.drop_columns(["measures"]).to_pylist()
    rows = [
        (row, measured)
        for row, measured in zip(every, tables.mappings(table["measures"]), strict=True)
        if row["kind"] != TURNS
        and (failures_stand or not row["error_code"] or row["error_code"] in IN_THE_FILE)
    ]
    fresh = {row["cut"] for row, _ in rows if row["kind"] == "recording"}
    fresh -= {
        name for name, cut in cuts_by_recipe.items() if cut.known and cut.error_code not in REFUSED
    }
    first: dict[str, str] = {}  # equal files share a recipe: take the first one's spans
    for row, measured in rows:
        if first.setdefault(row["cut"], row["recording"]) != row["recording"]:
            continue
        if row["error_code"] and row["cut"] not in fresh:  # from a filter chosen later
            cut = cuts_by_recipe[row["cut"]]
            cut.error_code, cut.error_detail = row["error_code"], row["error_detail"]
            continue
        if row["cut"] not in cuts_by_recipe:
            cuts_by_recipe[row["cut"]] = Cut()
        cut = cuts_by_recipe[row["cut"]]
        if row["cut"] in fresh:
            if row["kind"] == "recording":
                cut.known = True
                cut.decoded, cut.rate, cut.channels = row["decoded"], row["rate"], row["channels"]
                cut.error_code, cut.error_detail = row["error_code"], row["error_detail"]
                cut.notes = tuple(row.get("notes") or ())
                cut.faults = tuple(Fault(**fault) for fault in row.get("faults") or ())
            elif row["kind"] != RECUT:
                cut.spans.append(row)
        if row["kind"] in ("utterance", RECUT):
            if not columns.issuperset(measured):
                measured = {k: v for k, v in measured.items() if k in columns}
            key = row["start"], row["end"], row["given"]
            measures = cut.measures.setdefault(key, {})
            measures.update(measured)
            prints = row.get("prints")
            if labels and prints:
                measures.update(
                    (labels[k][0], v if v is None else labels[k][1].decoded(v))
                    for k, v in prints
                    if k in labels
                )
            if kept and prints:
                cut.annotations.setdefault(key, {}).update((k, v) for k, v in prints if k in kept)
