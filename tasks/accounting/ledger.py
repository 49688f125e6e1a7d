"""The ledger: every decoded sample of every recording has exactly one outcome.

The unit is a decoded sample at the native rate. Where spans overlap, a sample belongs to the span
whose outcome comes first in PRECEDENCE, and counts as overlap in the others. Every number is a sum
over spans, never a remainder, so that a lost span causes a mismatch.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from ..base.errors import ConservationError
from ..base.schema import LedgerRow, RecordingRow
from ..recording.tracks import PEAK, SUBTITLES, not_read, part_of
from ..shard_store.cuts import Cut
from ..shard_store.shard_view import ShardView
from ..shard_store.utterance import Outcome, Utterance

PRECEDENCE = ("packaged", "dropped", "failed", "non_speech", "unsegmented")
#: Outcome and reason of spans that are still to be computed. No version has it.
PENDING = "pending"
PENDING_MEANS = "no run has come to it yet, or the file changed meanwhile; the next run takes it"
#: Reason of a clip that is to be packaged, and that no version holds; its outcome is PENDING.
NOT_PUBLISHED = "not_published"
NOT_PUBLISHED_MEANS = "it is to be packaged, but no version holds it yet"
_RANKS = (PENDING, *PRECEDENCE)
#: A recording with any of these outcomes has not failed as a whole.
SOUND = ("packaged", "dropped", PENDING)
CHANGED = Outcome("failed", "filter", "changed")
Span = tuple[int, int, Outcome, Utterance | None]  # start, end
Row = tuple[Any, ...]  # values in the order of LEDGER, then the utterance, None without one
TRACK_NOT_READ, CHANNELS_APART = "track_not_read", "channels_apart"
SUBTITLES_NOT_READ, BEYOND_FULL_SCALE = "subtitles_not_read", "beyond_full_scale"


def check_cover(name: str, decoded: int, spans: Iterable[tuple[int, int]]) -> None:
    """Raises ConservationError unless the spans cover exactly the samples 0 to `decoded`. `name`:
    of the recording."""
    covered = 0
    for start, end in sorted(spans):
        if start > covered:
            raise ConservationError(f"{name}: samples {covered} to {start} are in no span")
        covered = max(covered, end)
    if covered != decoded:
        raise ConservationError(
            f"{name}: spans end at {covered}, but {decoded} samples were decoded"
        )


def exclusive(spans: Sequence[tuple[int, int]]) -> list[int]:
    """The number of samples that each span accounts for. Where spans overlap, the earliest in the
    list gets the samples.

    A sweep over the boundaries in O(n log n), because a recording of 10 hours has thousands of
    spans.
    """
    if all(one[1] <= other[0] for one, other in pairwise(sorted(spans))):  # most recordings
        return [max(end - start, 0) for start, end in spans]
    owned = [0] * len(spans)
    starts: dict[int, list[int]] = {}
    for index, (start, end) in enumerate(spans):
        if start < end:
            starts.setdefault(start, []).append(index)
    edges = sorted({edge for start, end in spans if start < end for edge in (start, end)})
    active: list[int] = []
    for low, high in pairwise(edges):
        for index in starts.get(low, ()):
            heapq.heappush(active, index)
        while active and spans[active[0]][1] <= low:
            heapq.heappop(active)
        if active:
            owned[active[0]] += high - low
    return owned


def of_shard(
    view: ShardView, utterances: Iterable[Utterance], uncut: Outcome = CHANGED
) -> list[Row]:
    """The ledger's rows of one shard; `uncut`: the outcome of recordings that are not cut. A copy
    has a row with as many samples as were decoded from its original."""
    by_recording: dict[str, list[Utterance]] = {}
    for utterance in utterances:
        by_recording.setdefault(utterance.recording["recording"], []).append(utterance)
    rows: list[Row] = []
    for recording in view.recordings:
        if (original := view.originals.get(recording["recording"])) is None:
            of_recording = by_recording.get(recording["recording"], [])
            rows += _of_recording(recording, view.cut_of(recording), of_recording, uncut)
        elif (cut := view.cut_of(original)) is None or not cut.known:
            rows += _rows(recording, 1, [(0, 0, uncut, None)], [0])
        else:
            detail = f"the same bytes as {original['source_path']}"
            outcome = Outcome("dropped", "filter", "duplicate", detail=detail)
            rows += _whole(recording, cut, outcome)
    return rows


def _of_recording(
    recording: RecordingRow, cut: Cut | None, utterances: Sequence[Utterance], uncut: Outcome
) -> list[Row]:
    """The rows of one recording: utterances, then gaps, each by PRECEDENCE, then by start. Raises
    ConservationError if they do not account for all decoded samples."""
    if code := recording["error_code"]:
        outcome = Outcome("failed", "shard", code, detail=recording["error_detail"] or "")
        return _rows(recording, 1, [(0, 0, outcome, None)], [0])
    if cut is None or not cut.known:
        return _rows(recording, 1, [(0, 0, uncut, None)], [0])
    if cut.error_code:
        outcome = Outcome("failed", "filter", cut.error_code, detail=cut.error_detail or "")
        if (refusal := cut.refusal) is not None:
            outcome = outcome._replace(value=refusal.value, threshold=refusal.threshold)
        return _whole(recording, cut, outcome)
    spans = [(u.start, u.end, u.outcome, u) for u in utterances]
    spans.sort(key=lambda s: (_RANKS.index(s[2].outcome), s[0], s[1], s[3].id))
    gaps: list[Span] = [
        (g["start"], g["end"], Outcome(g["kind"], "filter", g["reason"] or g["kind"]), None)
        for g in cut.spans
        if g["kind"] != "utterance"
    ]
    # What is told of a recording, and what was never decoded of it, has a row of 0 s.
    without_text = recording["text"] is None and recording["segments"] is None
    for note in cut.notes:
        if not_read(note) is not None:
            reason = TRACK_NOT_READ
        elif note.startswith(SUBTITLES) and without_text:
            reason = SUBTITLES_NOT_READ
        elif note.startswith(PEAK):
            reason = BEYOND_FULL_SCALE
        else:
            continue
        gaps.append((0, 0, Outcome("unsegmented", "shard", reason, detail=note), None))
    if division := recording.get("division"):
        reason = "channels_mixed" if recording.get("parts") is None else CHANNELS_APART
        gaps.append((0, 0, Outcome("unsegmented", "shard", reason, detail=division), None))
    gaps.sort(key=lambda g: (_RANKS.index(g[2].outcome), g[0], g[1]))
    every: list[Span] = [*spans, *gaps]
    owned = exclusive([(start, end) for start, end, _, _ in every])
    check(recording["recording"], cut.decoded, owned)
    return _rows(recording, cut.rate, every, owned)


def _whole(recording: RecordingRow, cut: Cut, outcome: Outcome) -> list[Row]:
    return _rows(recording, cut.rate or 1, [(0, cut.decoded, outcome, None)], [cut.decoded])


def assigned_again(rows: Sequence[LedgerRow]) -> list[LedgerRow]:
    """The rows of one recording with their samples assigned anew, after outcomes have changed."""

    def span(row: LedgerRow) -> tuple[int, int]:
        return round(row["start"] * row["sample_rate"]), round(row["end"] * row["sample_rate"])

    def place(row: LedgerRow) -> tuple[bool, int, int, int, str]:
        rank = _RANKS.index(row["outcome"])
        return row["utterance"] is None, rank, *span(row), row["utterance"] or ""

    ordered = sorted(rows, key=place)
    owned = exclusive([span(row) for row in ordered])
    assigned: list[LedgerRow] = []
    for row, samples in zip(ordered, owned, strict=True):
        start, end = span(row)
        overlap = end - start - samples
        seconds = samples / row["sample_rate"]
        assigned.append({**row, "samples": samples, "seconds": seconds, "overlap_samples": overlap})
    check(rows[0]["recording"], sum(row["samples"] for row in rows), owned)
    return assigned


def check(name: str, decoded: int, owned: Sequence[int]) -> None:
    """Raises ConservationError unless the samples of rows add up to `decoded`. `name`: of the
    recording."""
    total = sum(owned)
    if total != decoded:
        raise ConservationError(
            f"{name}: {decoded} samples were decoded, the ledger accounts for {total}"
        )


def _rows(
    recording: RecordingRow, rate: int, spans: Iterable[Span], owned: Sequence[int]
) -> list[Row]:
    """Rows of one recording; `owned`: the samples that each span accounts for."""
    track, channel = part_of(recording)
    name, path, dataset = recording["recording"], recording["source_path"], recording["dataset"]
    stated, rows = recording["language"], list[Row]()
    for (start, end, outcome, utterance), samples in zip(spans, owned, strict=True):
        result, stage, reason, value, threshold, detail = outcome
        part, language, clip = (channel, track), stated, None
        if utterance is not None:
            heard, clip = utterance.transcript, utterance.id
            language = (heard.get("language") if heard else None) or utterance.language
        elif reason == TRACK_NOT_READ:
            part = None, not_read(detail) or None
        elif reason == CHANNELS_APART:
            part = None, track  # the row is about the whole file
        place = start / rate, end / rate, samples, samples / rate, end - start - samples, rate
        why = result, stage, reason, value, threshold, detail or None, language
        rows.append((name, path, dataset, clip, *part, *place, *why, utterance))
    return rows
