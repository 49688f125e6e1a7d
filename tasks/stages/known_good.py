"""Runs what a stage computes with on a clip that any of it can take.

What kills the process there is broken on this machine, and no item is to blame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from tasks import plugins
from tasks.audio import Clip
from tasks.base.arrays import Float32s
from tasks.plugins import backends
from tasks.plugins.contracts.asr import SpeechClip
from tasks.settings import Plugin
from tasks.settings.job import Job
from tasks.stages import measuring

RATE, SECONDS = 16000, 1.37  # s: no length that an item is likely to have
Trial = tuple[str, Callable[[], object]]


def trials(stage: str, job: Job) -> Iterator[Trial]:
    """What the stage computes with, by its name for people, and a call that runs it."""
    if stage == "filter":
        segmenter, settings = plugins.SEGMENTERS.resolve(job.filter.segmenter)
        if segmenter.hears(settings) is None:
            cut = partial(_cut, lambda: segmenter.start(settings, RATE, ()))
            yield f"the segmenter {job.filter.segmenter.use}", cut
        for step in measuring.steps(job.filter.filters):
            if not step.after_all:
                clip = Clip.of(sound(RATE), RATE, SECONDS)
                yield f"the filter {step.plugin.use}", partial(step.measure, clip, step.settings)
    elif stage == "resample":
        resampler, chosen = plugins.RESAMPLERS.resolve(job.resample.resampler)
        convert = partial(resampler.resample, sound(44100), 44100, job.resample.rate, chosen)
        yield f"the resampler {job.resample.resampler.use}", convert
    elif stage == "transcribe":
        for plugin in job.transcribe.recognisers:
            yield f"the recogniser {plugin.use}", partial(_hear, plugin)


def sound(rate: int) -> Float32s:
    """Noise in syllables, float32 [SECONDS * rate], the same each time."""
    count = round(SECONDS * rate)
    noise = np.random.default_rng(0).standard_normal(count).clip(-3, 3)
    syllables = 0.35 + 0.3 * np.sin(2 * np.pi * 4 * np.arange(count) / rate)
    samples: Float32s = (0.15 * syllables * noise).astype(np.float32)
    return samples


def _cut(start: Callable[[], plugins.contracts.segmenters.Segmenter]) -> None:
    segmenter = start()
    segmenter.push(sound(RATE)[:, None])
    segmenter.finish()


def _hear(plugin: Plugin) -> None:
    backend = backends.loaded(plugin)
    if backend.RATE is not None:
        list(backend.transcribe([SpeechClip(sound(backend.RATE))]))
