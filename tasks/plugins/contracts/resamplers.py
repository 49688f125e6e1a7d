"""Resamplers change the sample rate of one channel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .base import PluginSettings, VersionedPlugin

if TYPE_CHECKING:
    from ...base.arrays import Float32s

    Blocks = Iterator[Float32s]


class Resampler(VersionedPlugin):
    @abstractmethod
    def resample(
        self, samples: Float32s, src_hz: int, dst_hz: int, settings: PluginSettings
    ) -> Float32s:
        """float32 [n] to float32 [about n * dst_hz / src_hz], anti-aliased. Never called with
        equal rates; the caller makes the length exact and clamps."""

    #: (blocks, src_hz, dst_hz, settings) -> blocks: `resample` in bounded memory, for long clips.
    stream: Callable[[Blocks, int, int, PluginSettings], Blocks] | None = None
