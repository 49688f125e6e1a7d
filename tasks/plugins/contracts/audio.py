"""Plug-ins that take samples: diarizers, filters, enhancers, resamplers and levels.

Diarizers say who speaks when in a whole recording, before it is cut. Filters measure one utterance
and set limits on what they measure. Enhancers remove noise, music or other voices from an
utterance, before it is resampled. Resamplers change the sample rate of one
channel. Levels change loudness or spectrum after that, before the samples become int16.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .base import MeasuringPlugin, PluginSettings, VersionedPlugin

if TYPE_CHECKING:
    from ...audio import Clip
    from ...base.arrays import Float32s
    from ...recording import Segment
    from ...recording.turns import Turn

    Blocks = Iterator[Float32s]


class Diarizer(Protocol):
    """Finds who speaks when in one recording, which it gets block by block. Its memory may grow by
    some hundred bytes a second at most."""

    def push(self, block: Float32s) -> None:
        """Takes the next block, float32 [n, channels]; its size must not change the turns."""

    def finish(self) -> tuple[Turn, ...]:
        """Called at the end of the recording; returns its turns, by start."""


class DiarizerPlugin(VersionedPlugin):
    @abstractmethod
    def start(self, settings: PluginSettings, rate: int, given: Sequence[Segment]) -> Diarizer:
        """A diarizer for one recording of `rate` Hz; `given` are the source's own segments."""

    #: Whether the recipe of its turns includes the speakers of the source's segments.
    USES_SPEAKERS: bool = False
    #: Whether it gets the output of `tasks.audio.channels.Heard` for several channels.
    LISTENS: bool = False


class Filter(MeasuringPlugin, VersionedPlugin):
    @abstractmethod
    def measure(self, clip: Clip, settings: PluginSettings) -> Mapping[str, Any]:
        """Every column of COLUMNS, a number, and every one of ANNOTATIONS, as its kind defines it;
        None, which is never rejected, if there is nothing to judge. `clip` has the native rate and
        all channels, float32 in ±1. ItemError if the utterance cannot be measured at all, with a
        code that is none of `errors.IN_THE_FILE`: those count without this filter, too."""

    #: Not measured if a cheap filter already rejects the utterance.
    COSTLY: bool = False
    #: Measured again once the whole recording is decoded: `clip` then has its faults and length.
    AFTER_ALL: bool = False
    #: (clip, settings) -> bytes to store beside the measures, for `reject`.
    fingerprint: Callable[[Clip, PluginSettings], bytes] | None = None


class Enhancer(Protocol):
    """Cleans one utterance, float32 [n] mono in ±1, block by block. Output sample n corresponds to
    input sample n, and there are as many; memory does not grow with the length."""

    def push(self, samples: Float32s) -> Float32s:
        """Takes the next samples; returns the finished output, possibly none."""

    def finish(self) -> Float32s:
        """Called at the end of the utterance; returns the rest of the output."""


class EnhancerPlugin(VersionedPlugin):
    @property
    @abstractmethod
    def RATE(self) -> int:
        """Hz, of its input and output; the caller resamples."""

    @abstractmethod
    def start(self, settings: PluginSettings) -> Enhancer:
        """An enhancer for one utterance. It gets finite samples in blocks of one size, so the
        result cannot depend on how the recording was decoded."""


class Resampler(VersionedPlugin):
    @abstractmethod
    def resample(
        self, samples: Float32s, src_hz: int, dst_hz: int, settings: PluginSettings
    ) -> Float32s:
        """float32 [n] to float32 [about n * dst_hz / src_hz], anti-aliased. Never called with
        equal rates; the caller makes the length exact and clamps."""

    #: (blocks, src_hz, dst_hz, settings) -> blocks: `resample` in bounded memory, for long clips.
    stream: Callable[[Blocks, int, int, PluginSettings], Blocks] | None = None


class Level(VersionedPlugin):
    @abstractmethod
    def apply(self, samples: Float32s, rate: int, settings: PluginSettings) -> Float32s:
        """float32 [n] mono in units of full scale to float32 [n]; a pure function that does not
        change its input. It gets the whole utterance, never an empty one or samples that are not
        finite. The result may exceed full scale: the caller clamps. ItemError if it must refuse
        it."""
