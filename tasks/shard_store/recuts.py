"""Clips that a person cut again: new boundaries for an utterance of a stored cut.

The new clip replaces the old one. It has another id, since ids contain times, and gets measures,
PCM and a text as any other clip. Samples that no clip covers any more are `unsegmented`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..base.schema import CutRow, RecordingRow
from ..recording import Segment, ids
from .cuts import Cut, segment_of
from .decision_log import Decision

LEFT = "cut_by_person"  # reason of samples that no clip covers any more


def asked(people: Mapping[str, Decision]) -> dict[str, Decision]:
    """The decisions that cut a clip again, by utterance id."""
    return {name: d for name, d in people.items() if d.decision == "recut"}


def applied(
    cut: Cut,
    recording: RecordingRow,
    given: Sequence[Segment] | None,
    recuts: Mapping[str, Decision],
) -> Cut:
    """The cut with the clips that `recuts` (by utterance id) cut again; unchanged without any."""
    spans: list[CutRow] = []
    left: list[CutRow] = []
    people = {}
    for span in cut.spans:
        decision, moved = _moved(span, cut, recording, given, recuts)
        if decision is None:
            spans.append(span)
            continue
        people[moved["start"], moved["end"], moved["given"]] = decision
        spans.append(moved)
        start, end = span["start"], span["end"]
        left.append({**span, "kind": "unsegmented", "start": start, "end": end, "reason": LEFT})
    return replace(cut, spans=[*spans, *left], recut=people) if people else cut


def _moved(
    span: CutRow,
    cut: Cut,
    recording: RecordingRow,
    given: Sequence[Segment] | None,
    recuts: Mapping[str, Decision],
) -> tuple[Decision | None, CutRow]:
    """The last decision on the span, and the resulting span: a clip may be cut again repeatedly."""
    last, seen = None, set[str]()
    while span["kind"] == "utterance":
        name = _id(span, cut.rate, recording, given)
        decision = recuts.get(name)
        if decision is None or decision.start is None or decision.end is None or name in seen:
            break
        seen.add(name)
        start = min(max(round(decision.start * cut.rate), 0), cut.decoded)
        end = min(max(round(decision.end * cut.rate), 0), cut.decoded)
        if start >= end:  # it lies beyond the recording
            break
        last, span = decision, {**span, "start": start, "end": end}
    return last, span


def _id(span: CutRow, rate: int, recording: RecordingRow, given: Sequence[Segment] | None) -> str:
    segment = segment_of(span, rate, given)
    key = segment.source_id if segment else None
    start, end = span["start"] / rate, span["end"] / rate
    return ids.utterance_id(recording["dataset"], recording["path"], start, end, key)
