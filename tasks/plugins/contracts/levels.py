"""Levels change an utterance's loudness or spectrum after resampling, before it becomes int16."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from .base import PluginSettings, VersionedPlugin

if TYPE_CHECKING:
    from ...base.arrays import Float32s


class Level(VersionedPlugin):
    @abstractmethod
    def apply(self, samples: Float32s, rate: int, settings: PluginSettings) -> Float32s:
        """float32 [n] mono in units of full scale to float32 [n]; a pure function that does not
        change its input. ItemError if it must refuse the utterance.

        It gets the whole utterance (4 bytes a sample: 38 MB for 600 s at 16 kHz), because most
        levels first need the loudest sample or the mean. It never gets an empty utterance or
        samples that are not finite. The result may exceed full scale: the caller clamps.
        """
