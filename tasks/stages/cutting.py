"""Decodes a recording in blocks: to find who speaks in it, and to yield each span with its samples
once it is final."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from io import FileIO
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np

from .. import audio, plugins
from ..audio import Clip
from ..audio.channels import Beside
from ..audio.types import Weights
from ..base.arrays import Float32s
from ..base.errors import ItemError
from ..base.schema import CutRow, MeasureValue, RecordingRow, TurnRow
from ..plugins import annotation_kinds
from ..plugins.annotation_kinds import Annotations
from ..plugins.contracts import Filter, SegmenterPlugin
from ..plugins.rules import Rule, judge
from ..recording import Locator, Segment, turns, unreachable
from ..recording.faults import Fault, touching
from ..recording.limits import Limits
from ..recording.tracks import locator_of
from ..recording.turns import Turn, Voices, voices_in
from ..segmenters import Segmenter, Span
from ..settings import Plugin, StageSettings
from ..settings.job import Job
from ..shard_store import annotated, cuts
from ..storage import urls

Turns = tuple[Turn, ...]
HELD_SECONDS = 120.0  # in memory; earlier samples of a longer utterance lie in a file
HELD_BYTES = 1 << 30  # of that file; an utterance that needs more is decoded again when it is read


@dataclass(slots=True)
class StreamFacts:
    """Facts from decoding a recording of so many encoded bytes; filled in while `spans` is
    iterated."""

    bytes: int = 0
    rate: int = 0
    channels: int = 0
    weights: Weights | None = None  # of the channels in their mix; None: the plain mean
    decoded: int = 0
    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    beside: Beside | None = None  # levels of the file's other channels; None: they are mixed


class _Tail:
    """The last blocks of a stream: samples `first` to `end` of the recording, those up to `start`
    in a temporary file."""

    def __init__(self, start: int) -> None:
        self.first = self.start = self.end = start
        self._blocks: deque[Float32s] = deque()
        self._file: FileIO | None = None

    def push(self, block: Float32s) -> None:
        self._blocks.append(block)
        self.end += len(block)

    def release(self, needed: int, most: int) -> None:
        """Forget what precedes sample `needed`, and keep at most `most` samples in memory."""
        while self._blocks and self.start + len(self._blocks[0]) <= max(needed, self.end - most):
            block = self._blocks.popleft()
            self.start += len(block)
            if self.start > needed and self.first <= needed and self._written(block):
                continue
            self.close()
            self.first = self.start

    def _written(self, block: Float32s) -> bool:
        """Whether the file holds the block now; not if it is full, or its disk."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
            self.first = self.start - len(block)
        data = np.ascontiguousarray(block).data
        try:
            return self._file.tell() < HELD_BYTES and self._file.write(data) == data.nbytes
        except OSError:
            return False

    def close(self) -> None:
        """Clips that were cut stay usable."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def cut(self, start: int, end: int) -> list[Float32s]:
        """Samples `start` to `end`, as pieces of the blocks; nothing is copied."""
        pieces, position = [], self.start
        if self._file is not None and start < self.start:
            shape = self.start - self.first, self._blocks[0].shape[1]
            stored = np.memmap(self._file, np.float32, "r", shape=shape)
            pieces.append(stored[start - self.first : end - self.first])
        for block in self._blocks:
            low, high = max(start - position, 0), min(end - position, len(block))
            if low < high:
                pieces.append(block[low:high])
            position += len(block)
        return pieces


def spans(
    locator: Locator,
    facts: StreamFacts,
    begin: Callable[[int, int], Segmenter],
    first: int = 0,
    limits: Limits | None = None,
) -> Iterator[tuple[Span, audio.Clip | None]]:
    """Decode once; yield every span as soon as it is final, utterances with their clip.

    `begin(rate, start)` makes the segmenter; decoding starts at sample `start`: `first`, before
    which nothing is wanted, if the format can seek exactly, else 0. ItemError if the recording
    cannot be decoded to its end, or is beyond the limits.

    The clip of an utterance that is too long to hold is decoded again each time it is read.
    """
    with ExitStack() as opened:
        stream = opened.enter_context(audio.open_stream(locator, limits))
        facts.rate, facts.channels = stream.rate, stream.channels
        facts.weights, facts.beside = stream.weights, stream.beside
        listened = stream.listened()
        start = first if first and stream.skip_to(first) else 0
        facts.decoded = start
        tail = opened.enter_context(closing(_Tail(start)))
        segmenter = begin(stream.rate, start)
        tail_samples = int(HELD_SECONDS * stream.rate)
        for block in stream.blocks():
            tail.push(block)
            facts.decoded += len(block)
            mono = listened.push(block)
            for span in segmenter.push(mono) if len(mono) else ():
                yield span, _clip(span, tail, facts, locator)
            tail.release(segmenter.needed_from, tail_samples)
        facts.faults, facts.notes = stream.faults, stream.notes
        rest = listened.finish()
        last = [] if rest is None else segmenter.push(rest)
        for span in chain(last, segmenter.finish()):
            yield span, _clip(span, tail, facts, locator)


def _clip(span: Span, tail: _Tail, facts: StreamFacts, locator: Locator) -> audio.Clip | None:
    if span.kind != "utterance" or span.end <= span.start:
        return None
    if span.start >= tail.first:
        pieces = tail.cut(span.start, span.end)
        return audio.Clip.of_pieces(pieces, facts.rate, facts.weights, facts.bytes)
    source, form = (locator, span.start, span.end), (facts.rate, facts.channels)
    count = span.end - span.start
    return audio.Clip(*form, count, None, facts.bytes, source=source, weights=facts.weights)


def unchanged(locator: Locator, guard: str) -> bool:
    """Whether a recording's file is still the one that was hashed; call it after decoding.
    ItemError `unreachable` if that cannot be determined."""
    with unreachable.listed():
        return urls.guard(locator.path) == guard


# Who speaks in a recording, before it is cut: a separate decode, unless its turns are known.


def turns_of(
    recipe: str | None, stored: Turns | None, recording: RecordingRow, job: Job
) -> tuple[Turns | None, list[CutRow]]:
    """A recording's turns, and the row to store if they are new; None without diarization.
    ItemError if it cannot be decoded to its end, or is beyond a limit."""
    if recipe is None or stored is not None:
        return stored, []
    module, settings = plugins.DIARIZERS.resolve(job.speakers)
    if module.USES_SPEAKERS and (wrong := recording.get("rttm_error")):
        raise ItemError("bad_rttm", wrong)
    locator, limits = locator_of(recording, job.filter), Limits.from_settings(job.filter)
    with audio.open_stream(locator, limits) as stream:
        diarizer = module.start(settings, stream.rate, cuts.speakers_of(recording) or ())
        for block in stream.listened().process(stream.blocks()):
            diarizer.push(block)
        rate = stream.rate
    turns = diarizer.finish()
    row: CutRow = {
        "cut": recipe,
        "recording": recording["recording"],
        "kind": cuts.TURNS,
        "start": 0,
        "end": 0,
        "rate": rate,
        "turns": [cast(TurnRow, asdict(turn)) for turn in turns],
        "measures": [],
    }
    return turns, [row]


def voices(turns: Turns | None, job: Job, rate: int) -> Voices | None:
    """The turns in the form for segmenters, at the recording's rate; None if there are none."""
    if not turns:
        return None
    _, settings = plugins.DIARIZERS.resolve(job.speakers)
    values = settings.model_dump()
    shortest, mixed = values.get("min_turn_seconds", 0.0), values.get("mixed", False)
    edge, second = values.get("edge_seconds", 0.0), values.get("max_second_voice")
    most = 1.0 if second is None else second
    return Voices(turns, round(shortest * rate), mixed, round(edge * rate), most)


def segmenter_of(
    module: SegmenterPlugin,
    settings: StageSettings,
    rate: int,
    given: Sequence[Segment],
    turn_voices: Voices | None,
) -> Segmenter:
    """The segmenter of a recording; it cuts at turns if they are known and clips may hold only one
    voice, or if its clips hold turns."""
    if module.HOLDS_TURNS:
        assert module.at_turns is not None
        return module.at_turns(settings, rate, given, turn_voices or Voices(()))
    if turn_voices is None or turn_voices.mixed or module.at_turns is None:
        return module.start(settings, rate, given)
    return module.at_turns(settings, rate, given, turn_voices)


def voice_of(span: Span, turns: Turns | None) -> int | None:
    """The speaker of an utterance: of the turn it was cut from, else the one who speaks longest in
    it."""
    if span.voice is not None or span.kind != "utterance" or not turns:
        return span.voice
    heard = voices_in(turns, span.start, span.end)
    return min(heard, key=lambda speaker: (-heard[speaker], speaker)) if heard else None


# Runs filters on one utterance: when it is decoded, and once its whole recording is known; looks
# plug-ins up once for all recordings.


class Step(NamedTuple):
    """A filter to apply to many clips, looked up once."""

    plugin: Plugin
    module: Filter
    settings: StageSettings
    annotations: Annotations


def steps(filters: tuple[Plugin, ...]) -> tuple[Step, ...]:
    """Filters in the order in which they run: cheap ones first."""
    resolved = []
    for plugin in sorted(filters, key=annotated.costly):
        module, settings = plugins.FILTERS.resolve(plugin)
        declared = module.ANNOTATIONS if module.labelled is None else {}
        resolved.append(Step(plugin, module, settings, declared))
    return tuple(resolved)


@dataclass(frozen=True, slots=True)
class Chosen:
    job: Job
    segmenter: SegmenterPlugin
    settings: StageSettings  # of the segmenter
    hears: Plugin | None  # recogniser of whole recordings, if the segmenter cuts by one
    rules: tuple[Rule, ...]
    filters: tuple[Step, ...]
    limits: Limits

    @classmethod
    def from_job(cls, job: Job) -> Chosen:
        segmenter, settings = plugins.SEGMENTERS.resolve(job.filter.segmenter)
        rules = annotated.filter_rules(job.filter.all_filters)
        filters = steps(job.filter.all_filters)
        hears, limits = segmenter.hears(settings), Limits.from_settings(job.filter)
        return cls(job, segmenter, settings, hears, rules, filters, limits)


def after_all(
    result: Measured,
    span: Span,
    facts: StreamFacts,
    recording: RecordingRow,
    speech: Turns | None,
    chosen: Sequence[Step],
) -> None:
    """Add the measures of an utterance that need its whole recording (`facts`) but not its samples.
    `speech`: the recording's turns; None: no diarization."""
    waiting = [step for step in chosen if step.module.AFTER_ALL]
    if not waiting:
        return
    start, end = span.start, span.end
    clip = Clip(
        facts.rate,
        facts.channels,
        end - start,
        recording["header_seconds"],
        recording["size"],
        recording_samples=facts.decoded,
        faults=touching(facts.faults, start, end),
        match=span.match,
        turns=None if speech is None else turns.within(speech, start, end),
        beside=None if facts.beside is None else facts.beside.levels(start, end),
    )
    for step in waiting:
        result.take(step, step.module.measure(clip, step.settings), clip)


class Measured(NamedTuple):
    """The measures of one clip: numbers by column, labels by name, and values stored as bytes: all
    annotations, by `annotation_kinds.key`, and fingerprints, by filter."""

    measures: dict[str, float | None]
    labels: dict[str, str | None]
    stored: dict[str, bytes | None]

    @property
    def values(self) -> Mapping[str, MeasureValue]:
        return {**self.measures, **self.labels} if self.labels else self.measures

    def take(self, step: Step, given: Mapping[str, Any], clip: Clip) -> None:
        """Add one filter's values; RunError for an annotation that is not of its kind."""
        if not step.annotations:
            self.measures.update(given)
            return
        use, declared = step.plugin.use, step.annotations
        taken = annotation_kinds.take(f"the filter {use}", declared, given, clip.seconds)
        self.measures.update(taken.numbers)
        self.labels.update(taken.labels)
        values: Mapping[str, Any] = {**taken.labels, **taken.large}
        for name, value in values.items():
            stored = None if value is None else declared[name].encoded(value)
            self.stored[annotation_kinds.key(use, name)] = stored


def measured(clip: Clip, chosen: Sequence[Step], measure_all: bool = False) -> Measured:
    """Run filters on a clip, cheap ones first; costly ones only if those reject nothing."""
    result = Measured({}, {}, {})
    for step in chosen:
        if step.module.COSTLY and not measure_all:
            rules = annotated.cheap_rules(tuple(step.plugin for step in chosen))
            if judge(result.values, rules) is not None:
                break
        result.take(step, step.module.measure(clip, step.settings), clip)
        if step.module.fingerprint:
            result.stored[step.plugin.use] = step.module.fingerprint(clip, step.settings)
    return result
