"""Enhancers take noise, music or other voices out of an utterance, before it is resampled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tasks.plugins.contracts.base import LoadedPlugin, PluginSettings, VersionedModule

if TYPE_CHECKING:
    from tasks.base.arrays import Float32s


class Enhancer(Protocol):
    """Hears one utterance, float32 [n] mono in units of full scale. Its output has the length of
    its input, sample for sample in place; its memory does not grow with the length."""

    def push(self, samples: Float32s) -> Float32s:
        """The next samples; those that are final, maybe none."""

    def finish(self) -> Float32s:
        """The utterance ended; the rest."""


class EnhancerModule(VersionedModule, Protocol):
    #: Hz, of its input and output; the caller resamples.
    RATE: int

    def start(self, settings: PluginSettings) -> Enhancer:
        """An enhancer for one utterance. It is pushed finite samples in blocks of one size, so the
        result cannot depend on how the recording was decoded."""


class EnhancerPlugin(EnhancerModule, LoadedPlugin, Protocol):
    pass
