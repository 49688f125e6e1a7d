"""The rows that the filter stage stores of a recording: how it decoded, and each span of it."""

from __future__ import annotations

from tasks.base.errors import shortened
from tasks.base.schema import CutRow, FaultRow
from tasks.recording.faults import Fault
from tasks.segmenters import Span
from tasks.stages.cutting import StreamFacts
from tasks.stages.measuring import Measured


def of_recording(cut: str, recording: str, facts: StreamFacts) -> CutRow:
    return {
        "cut": cut,
        "recording": recording,
        "kind": "recording",
        "start": 0,
        "end": facts.decoded,
        "rate": facts.rate,
        "channels": facts.channels,
        "decoded": facts.decoded,
        "measures": [],
        "decode_faults": len(facts.faults),
        "faults": [_fault(fault) for fault in facts.faults],
        "notes": facts.notes,
    }


def _fault(fault: Fault) -> FaultRow:
    return {"start": fault.start, "end": fault.end, "what": fault.what, "shifts": fault.shifts}


def of_failure(cut: str, recording: str, code: str, detail: str, decoded: int, rate: int) -> CutRow:
    """Of a recording that cannot be used; its decoded prefix is counted as failed."""
    return {
        "cut": cut,
        "recording": recording,
        "kind": "recording",
        "start": 0,
        "end": decoded,
        "rate": rate,
        "channels": 0,
        "decoded": decoded,
        "error_code": code,
        "error_detail": shortened(detail),
        "measures": [],
    }


def of_span(
    cut: str, recording: str, facts: StreamFacts, span: Span, measured: Measured, voice: int | None
) -> CutRow:
    """`voice`: number of its speaker."""
    return {
        "cut": cut,
        "recording": recording,
        "kind": span.kind,
        "start": span.start,
        "end": span.end,
        "given": span.given,
        "reason": span.reason,
        "rate": facts.rate,
        "channels": facts.channels,
        "measures": list(measured.measures.items()),
        "prints": list(measured.stored.items()),
        "turn": span.turn,
        "text": span.text,
        "match": span.match,
        "voice": voice,
    }
