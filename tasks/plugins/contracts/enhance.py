"""Enhancers remove noise, music or other voices from an utterance, before it is resampled."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Protocol

from .base import PluginSettings, VersionedPlugin

if TYPE_CHECKING:
    from ...base.arrays import Float32s


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
