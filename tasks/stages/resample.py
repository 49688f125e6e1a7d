"""Stage resample: kept utterances in, int16 PCM at the target rate out, exact to the sample.

An item is an utterance. A unit is some minutes of a recording's utterances that lack PCM; all units
of a recording share one decode. Before: a span of a recording. After: a row with `num_samples`, the
PCM's hash, and its place in a blob.

If the job enhances, an utterance has a second item: the PCM of the enhanced clip, with scores of
both clips. Each is a separate unit, so that one that kills the enhancer fails alone. The turns of a
call's window are items, too: the PCM of each comes from its own channel.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby

import numpy as np
import pyarrow as pa

from .. import plugins
from ..audio import Clip
from ..audio.types import regroup
from ..base.arrays import Float32s, Int16s
from ..base.errors import ItemError
from ..base.logs import log
from ..base.schema import AUDIO, ENHANCED, AnyRow
from ..enhance import Enhancer
from ..recording import Locator, unreachable
from ..recording.tracks import locator_of
from ..resamplers import soxr_hq
from ..segmenters import KnownSpans, Span
from ..settings.job import Job
from ..shard_store import clip_choice, enhanced, requests, shard_view
from ..shard_store.blobs import MadeAudio
from ..shard_store.stored_shard import Wanted
from ..shard_store.utterance import Utterance
from . import cutting, pcm
from .contract import OfRecording
from .cutting import StreamFacts
from .pcm import Converted, code_of, failed_row, pcm_row

SCHEMA = AUDIO
UNIT_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Unit(OfRecording):
    """Spans of a recording to convert, ordered by end, with the recipes of their PCM."""

    spans: tuple[Converted, ...]
    rate: int
    enhanced: bool = False
    scores: tuple[tuple[str, float | None], ...] = ()  # of the original clip, if known
    beside: bool = False  # enhanced clips of the recording are made too, and count its audio
    channel: int | None = None  # the only one to read; None: all channels used

    @property
    def items(self) -> int:
        return len(self.spans)

    @property
    def seconds(self) -> float:
        return 0.0 if self.beside else sum(e - s for s, e, _ in self.spans) / self.rate


def schema_of(rows: Sequence[AnyRow]) -> pa.Schema:
    return ENHANCED if any("measures" in row for row in rows) else AUDIO


def todo(shard: shard_view.ShardView) -> tuple[list[Unit], int]:
    """Units of PCM that kept utterances lack, and the number of those that exist."""
    lacking: dict[str, Wanted] = {}  # by recipe
    reused = 0
    for wanted in chain.from_iterable(map(partial(wanted_by, shard), shard.resampled())):
        audio = wanted.span[2]
        if audio in shard.audio or audio in lacking:  # also of equal bytes, or given twice
            reused += 1
        else:
            lacking[audio] = wanted
    for blob in sorted({shard.lost[audio] for audio in lacking.keys() & shard.lost.keys()}):
        log.warning("audio blob %s is missing or truncated; its items are computed again", blob)
    groups: dict[tuple[str, int | None], list[Wanted]] = {}  # of one decode
    for wanted in lacking.values():
        name = wanted.utterance.recording["recording"]
        groups.setdefault((name, wanted.channel), []).append(wanted)
    return [*chain.from_iterable(map(_units, groups.values()))], reused


def wanted_by(shard: shard_view.ShardView, u: Utterance) -> Iterator[Wanted]:
    """All PCM that an utterance needs, stored or not."""
    outcome = u.outcome
    broken = outcome.outcome == "failed" and outcome.stage == "resample"
    passed = outcome.stage != "filter" and outcome is not clip_choice.NOT_CHOSEN
    if passed and not broken:
        yield from shard.companions(u)
    if u.pcm is not None or u.for_window or outcome.stage == "resample":
        yield Wanted(u, (u.start, u.end, u.audio))


def _units(group: Sequence[Wanted]) -> Iterator[Unit]:
    """Units of one recording and channel, each by end: of up to UNIT_SECONDS, as memory holds a
    unit's PCM; of each enhanced clip by itself."""
    u, channel = group[0].utterance, group[0].channel
    ordered = sorted(group, key=lambda wanted: (wanted.span[1], wanted.span[0]))
    clean = [wanted for wanted in ordered if wanted.enhanced]
    piece: list[Converted] = []
    samples = 0
    for start, end, audio in (wanted.span for wanted in ordered if not wanted.enhanced):
        if piece and samples + end - start > UNIT_SECONDS * u.rate:
            yield Unit(u.recording, tuple(piece), u.rate, beside=bool(clean), channel=channel)
            piece, samples = [], 0
        piece.append((start, end, audio))
        samples += end - start
    if piece:
        yield Unit(u.recording, tuple(piece), u.rate, beside=bool(clean), channel=channel)
    for wanted in clean:
        scores = enhanced.before(wanted.utterance.measures)
        yield Unit(u.recording, (wanted.span,), u.rate, True, scores)


def compute(units: list[Unit], job: Job) -> Iterator[list[MadeAudio]]:
    """Rows of each unit, in order; `pcm` in a row is its int16 samples, which are not stored yet.

    Consecutive units of a recording share one decode.
    """
    for _, group in groupby(units, key=lambda unit: (unit.name, unit.enhanced, unit.channel)):
        yield from _convert(list(group), job)


def failure(unit: Unit, code: str, detail: str) -> list[MadeAudio]:
    return [failed_row(span, unit.name, code, detail) for span in unit.spans]


def _convert(units: list[Unit], job: Job) -> Iterator[list[MadeAudio]]:
    """Rows of the units of one recording. After a decoding error all later spans fail."""
    recording, channel = units[0].recording, units[0].channel
    locator = locator_of(recording, job.filter, channel)
    clips = _Clips(locator, [span for unit in units for span in unit.spans])
    for unit in units:
        rows = [_row(unit, span, clips, job) for span in unit.spans]
        try:
            # If the file changed meanwhile, the samples do not belong to its digest.
            same = partial(cutting.unchanged, locator, recording["guard"])
            yield rows if unreachable.patience.read(same) else []
        except ItemError as error:
            yield failure(unit, *code_of(error))


def _row(unit: Unit, span: Converted, clips: _Clips, job: Job) -> MadeAudio:
    settings = job.resample
    if unit.channel is not None:
        settings = requests.of_one_channel(settings)
    try:
        clip = clips.next()
        if not unit.enhanced:  # a long clip is decoded here
            samples = unreachable.patience.read(partial(pcm.of_clip, clip, settings))
            return pcm_row(span, unit.name, samples, settings.rate)
        work = partial(enhanced_clip, clip, job, unit.scores)
        samples, scores = unreachable.patience.read(work)
    except (ItemError, MemoryError) as error:
        return failed_row(span, unit.name, *code_of(error))
    return {**pcm_row(span, unit.name, samples, settings.rate), "measures": list(scores)}


class _Clips:
    """The clips of spans, ordered by end, from one decode; from a new one after a failed read. An
    error that another read does not mend is raised for all later clips."""

    def __init__(self, locator: Locator, spans: list[Converted]) -> None:
        self._locator, self._spans = locator, [Span(start, end) for start, end, _ in spans]
        self._clips: Iterator[Clip] | None = None
        self._error: ItemError | MemoryError | None = None

    def next(self) -> Clip:
        if self._error is not None:
            raise self._error
        try:
            clip = unreachable.patience.read(self._next)
        except (ItemError, MemoryError) as error:
            self._error = error
            raise
        del self._spans[0]
        return clip

    def _next(self) -> Clip:
        if self._clips is None:
            self._clips = self._decoded()
        try:
            return next(self._clips)
        except ItemError:
            self._clips = None
            raise

    def _decoded(self) -> Iterator[Clip]:
        first, spans, facts = min(span.start for span in self._spans), [*self._spans], StreamFacts()

        def begin(rate: int, first_sample: int) -> KnownSpans:
            return KnownSpans(spans, first_sample)

        for _, clip in cutting.spans(self._locator, facts, begin, first):
            assert clip is not None
            yield clip


# From a decoded clip to the enhanced one, with its DNSMOS before and after.
#
# The channel that resample would take is brought to the enhancer's rate and back in blocks whose
# sizes follow from the clip alone; `limit_db` below it, the original is added again. Length and
# alignment stay the same.

HELD_SECONDS = 120.0  # a longer clip lies in a temporary file


def enhanced_clip(
    clip: Clip, job: Job, original_scores: enhanced.Scores = ()
) -> tuple[Int16s, enhanced.Scores]:
    """The enhanced clip's PCM as resample stores it, and the scores of both clips;
    `original_scores`: empty if unknown. ItemError as by `pcm.of_clip`."""
    clean = _held(_stream(clip, job), clip)
    scorer, settings = plugins.FILTERS.resolve(enhanced.scorer(job))
    before = original_scores or tuple(scorer.measure(clip, settings).items())
    after = scorer.measure(clean, settings).items()
    scores = (*before, *((enhanced.after(name), value) for name, value in after))
    return pcm.of_clip(clean, job.resample.model_copy(update={"mono": "first"})), scores


def _held(blocks: Iterable[Float32s], clip: Clip) -> Clip:
    if clip.seconds <= HELD_SECONDS:
        return Clip.from_samples(np.concatenate(list(blocks)), clip.rate)
    with tempfile.TemporaryFile() as file:
        for block in blocks:
            file.write(block.data)
        file.flush()
        return Clip.of_pieces([np.memmap(file, np.float32, "r").reshape(-1, 1)], clip.rate)


def _stream(clip: Clip, job: Job) -> Iterator[Float32s]:
    """The enhanced clip, float32 [num_samples] in blocks."""
    module, settings = plugins.ENHANCE.resolve(job.enhance)
    limit = dict(settings).get("limit_db")
    kept = np.float32(0.0 if limit is None else 10 ** (-limit / 20))
    waiting: deque[Float32s] = deque()  # blocks of the original to add

    def originals() -> Iterator[Float32s]:
        monos = (pcm.to_mono(block, job.resample.mono, clip.weights) for block in clip.blocks())
        for block in regroup(monos, pcm.BLOCK):
            waiting.append(pcm.finite(block))
            yield block

    noisy = _at_rate(originals(), clip.rate, module.RATE)
    back = _at_rate(_run(module.start(settings), noisy), module.RATE, clip.rate)
    due = clip.num_samples
    for block in back:
        block = block[:due]
        due -= len(block)
        yield _mixed(block, _take(waiting, len(block)), kept)
    if due:  # a resampler may return a sample too few
        yield _mixed(np.zeros(due, np.float32), _take(waiting, due), kept)


def _run(enhancer: Enhancer, blocks: Iterable[Float32s]) -> Iterator[Float32s]:
    for block in blocks:
        yield enhancer.push(block)
    yield enhancer.finish()


def _at_rate(blocks: Iterator[Float32s], src_hz: int, dst_hz: int) -> Iterator[Float32s]:
    return (
        blocks if src_hz == dst_hz else soxr_hq.stream(blocks, src_hz, dst_hz, soxr_hq.Settings())
    )


def _take(waiting: deque[Float32s], count: int) -> Float32s:
    """The next `count` samples of the original."""
    pieces = []
    while count:
        block = waiting.popleft()
        pieces.append(block[:count])
        if len(block) > count:
            waiting.appendleft(block[count:])
        count -= len(pieces[-1])
    return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)


def _mixed(clean: Float32s, original: Float32s, kept: np.float32) -> Float32s:
    return (1 - kept) * clean + kept * original if kept else clean
