"""Runs everything that a stage computes with on a clip that all of it can process.

What crashes, fails or hangs on that clip does not work on this machine, and no item is to blame. A
worker tries each model once, before its first item; a process that isolates items tries everything.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Protocol, TypeVar

import numpy as np

from .. import plugins
from ..audio import Clip
from ..base.arrays import RATE, Float32s
from ..base.errors import ItemError, MillError, RunError
from ..base.logs import log
from ..plugins.contracts.asr import Backend, EmittingBackend, SpeechClip
from ..plugins.contracts.base import LoadedPlugin
from ..settings import Plugin, StageSettings
from ..settings.job import Job
from ..settings.transcribe import ServerSettings
from ..shard_store import enhanced
from ..shard_store.requests import Recognition, Request
from . import cutting, transcribe
from .contract import Work

SECONDS = 1.87  # s: an unlikely length for an item
REPEATED = 3  # times: a voice long enough for a diarizer
Heard = TypeVar("Heard", covariant=True)


class Listener(Protocol[Heard]):
    def push(self, block: Float32s) -> object: ...
    def finish(self) -> Heard: ...


@dataclass(frozen=True, slots=True)
class Trial:
    """A plug-in by its name for people, and a call that runs it. `model`: it uses one; `libraries`:
    those that it imports on first use."""

    name: str
    plugin: Plugin | None
    run: Callable[[], object] = field(compare=False)
    model: bool = field(compare=False)
    libraries: tuple[str, ...] = field(default=(), compare=False)


#: Trials that have passed in this process, or in a child.
_passed: set[Trial] = set()


def check(stage: str, job: Job, units: Sequence[Work]) -> None:
    """Try each model that the stage needs for these units and that was not yet tried in this
    process. RunError that names the failing one."""
    for trial in trials(stage, job, units):
        if trial.model and trial not in _passed:
            attempt(trial)
            _passed.add(trial)


def attempt(trial: Trial) -> None:
    """Run the trial. RunError if a model raises an error that no clip of speech justifies."""
    if not trial.model:
        with suppress(Exception):  # in code without a model: an item's error says more
            trial.run()
        return
    try:
        trial.run()
    except ItemError:  # it may refuse any clip
        pass
    except (MillError, MemoryError):
        raise
    except Exception as error:  # from any library
        raise RunError(blamed(trial, "fails", f"{type(error).__name__}: {error}")) from error


def blamed(trial: Trial, fate: str, how: str) -> str:
    made_of = f" ({', '.join(trial.libraries)})" if trial.libraries else ""
    return (
        f"{trial.name} {fate} in its self-test on {platform.node()} ({how}); no recording is to "
        f"blame: reinstall what it is made of{made_of}, or choose another one"
    )


def untried(stage: str, job: Job, units: Sequence[Work] | None) -> list[Trial]:
    return [trial for trial in trials(stage, job, units) if trial not in _passed]


def passed(done: Sequence[Trial]) -> None:
    """Record trials that ran in another process of this machine."""
    _passed.update(done)


def trials(stage: str, job: Job, units: Sequence[Work] | None = None) -> Iterator[Trial]:
    """Everything that the stage computes with; `units`: only what these need. Servers are not
    contacted."""
    if stage == "probe":
        if any(source.options.get("channels") == "auto" for source in job.sources):
            from .. import speech  # here: the main process does not need it

            yield Trial("the voice detector", None, partial(speech.spans, sound(RATE)), True)
    elif stage == "filter":
        yield from _of_filter(job)
    elif stage == "resample":
        yield from _of_resample(job)
    elif stage == "transcribe":
        chosen = job.transcribe.recognisers
        needed = {*range(len(chosen))} if units is None else set()
        for unit in units or ():
            if isinstance(unit, Request):
                asked = unit.asked
                needed.add(asked.recogniser if isinstance(asked, Recognition) else 0)
        for number in sorted(needed):
            yield from _recogniser(
                chosen[number], partial(transcribe.backend_of, chosen[number], chosen)
            )


def sound(rate: int) -> Float32s:
    """A hoarse voice, in syllables: float32 [SECONDS * rate], the same each time."""
    return _sound(rate).copy()  # a plug-in may write into its input


@cache
def _sound(rate: int) -> Float32s:
    time = np.arange(round(SECONDS * rate)) / rate
    noise = np.random.default_rng(0).standard_normal(len(time)).clip(-3, 3)
    turned = np.cumsum(120 + 15 * np.sin(2 * np.pi * 1.3 * time))  # 120 Hz with vibrato
    buzz = sum(
        np.exp(-(((n * 120 - 600) / 700) ** 2)) * np.sin(2 * np.pi * n * turned / rate)
        for n in range(1, 25)
    )
    syllables = 0.35 + 0.3 * np.sin(2 * np.pi * 4 * time)
    samples: Float32s = (syllables * (0.2 * buzz + 0.02 * noise)).astype(np.float32)
    return samples


def _of_filter(job: Job) -> Iterator[Trial]:
    segmenter, settings = plugins.SEGMENTERS.resolve(job.filter.segmenter)
    hears = segmenter.hears(settings)
    if hears is not None:
        from . import whole_transcript

        load = partial(whole_transcript.backend_of, hears)
        yield from _recogniser(hears, load, segmenter.wants_emissions(settings))
    else:
        cut = partial(pushed, lambda: segmenter.start(settings, RATE, ()))
        yield _trial("segmenter", job.filter.segmenter, segmenter, settings, cut)
    if job.speakers.use != "none":
        diarizer, of_turns = plugins.DIARIZERS.resolve(job.speakers)
        turns = partial(pushed, lambda: diarizer.start(of_turns, RATE, ()))
        yield _trial("diarizer", job.speakers, diarizer, of_turns, turns)
    for step in cutting.steps(job.filter.all_filters):
        if not step.module.AFTER_ALL:
            yield _filter(step.plugin)


def _of_resample(job: Job) -> Iterator[Trial]:
    resampler, chosen = plugins.RESAMPLERS.resolve(job.resample.resampler)

    def convert() -> object:
        return resampler.resample(sound(44100), 44100, job.resample.rate, chosen)

    yield _trial("resampler", job.resample.resampler, resampler, chosen, convert)
    if job.enhance.use != "none":
        enhancer, settings = plugins.ENHANCE.resolve(job.enhance)

        def enhance() -> object:
            stream = enhancer.start(settings)
            return stream.push(sound(enhancer.RATE)), stream.finish()

        yield _trial("enhancer", job.enhance, enhancer, settings, enhance)
        yield _filter(enhanced.scorer(job))


def _recogniser(
    plugin: Plugin, load: Callable[[], Backend], emitting: bool = False
) -> Iterator[Trial]:
    """`emitting`: only its scores of tokens are used, as by `aligned`."""
    module, settings = plugins.ASR.resolve(plugin)
    if module.Backend.RATE is not None and not isinstance(settings, ServerSettings):
        hear = partial(_hear, plugin, load, emitting)
        yield _trial("recogniser", plugin, module, settings, hear, module.LISTENS)


def _filter(plugin: Plugin) -> Trial:
    module, settings = plugins.FILTERS.resolve(plugin)

    def measure() -> object:
        return module.measure(Clip.from_samples(sound(RATE), RATE, SECONDS), settings)

    return _trial("filter", plugin, module, settings, measure)


def _trial(
    kind: str,
    chosen: Plugin,
    module: LoadedPlugin,
    settings: StageSettings,
    run: Callable[[], object],
    listens: bool = False,
) -> Trial:
    model = listens or bool(module.identity(settings) or module.model_bytes(settings))
    return Trial(f"the {kind} {chosen.use}", chosen, run, model, tuple(module.ENGINES))


def pushed(start: Callable[[], Listener[Heard]]) -> Heard:
    listener = start()
    listener.push(np.tile(sound(RATE), REPEATED)[:, None])
    return listener.finish()


def _hear(plugin: Plugin, load: Callable[[], Backend], emitting: bool) -> None:
    backend = load()
    samples = sound(backend.RATE or RATE)
    if emitting:
        if isinstance(backend, EmittingBackend):
            backend.emissions(samples)
        return
    (heard,) = backend.transcribe([SpeechClip(samples)])
    if heard.error:
        log.warning(
            "the recogniser %s refuses a clip that is known to be good: %s", plugin.use, heard.error
        )
