"""From a decoded clip to the enhanced one, with its DNSMOS before and after.

The channel that resample would take is brought to the enhancer's rate and back in blocks whose
sizes follow from the clip alone; `limit_db` below it, the original is added again. Length and
alignment stay the same.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np

from tasks import plugins
from tasks.audio import Clip
from tasks.base.arrays import Float32s, Int16s
from tasks.enhance import Enhancer
from tasks.resamplers import soxr_hq
from tasks.settings.job import Job
from tasks.shard_store import enhanced
from tasks.stages import pcm

HELD_SECONDS = 120.0  # a longer clip lies in a temporary file


def of_clip(
    clip: Clip, job: Job, original_scores: enhanced.Scores = ()
) -> tuple[Int16s, enhanced.Scores]:
    """The enhanced clip's PCM as resample stores it, and the scores of both clips;
    `original_scores`: empty if it has not been scored. ItemError as `pcm.of_clip` raises it."""
    clean = _held(_stream(clip, job), clip)
    scorer, settings = plugins.FILTERS.resolve(enhanced.scorer(job))
    before = original_scores or tuple(scorer.measure(clip, settings).items())
    after = scorer.measure(clean, settings).items()
    scores = (*before, *((enhanced.after(name), value) for name, value in after))
    return pcm.of_clip(clean, job.resample.model_copy(update={"mono": "first"})), scores


def _held(blocks: Iterable[Float32s], clip: Clip) -> Clip:
    if clip.seconds <= HELD_SECONDS:
        return Clip.of(np.concatenate(list(blocks)), clip.rate)
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
    waiting: deque[Float32s] = deque()  # of the original, still to be added

    def originals() -> Iterator[Float32s]:
        monos = (pcm.to_mono(block, job.resample.mono, clip.weights) for block in clip.blocks())
        for block in pcm.evenly(monos):
            waiting.append(pcm.finite(block))
            yield block

    noisy = _at_rate(originals(), clip.rate, module.RATE)
    back = _at_rate(_run(module.start(settings), noisy), module.RATE, clip.rate)
    due = clip.num_samples
    for block in back:
        block = block[:due]
        due -= len(block)
        yield _mixed(block, _take(waiting, len(block)), kept)
    if due:  # a resampler may give a sample too few
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
