"""Filters measure one utterance and set limits on what they measure."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .base import MeasuringPlugin, PluginSettings, VersionedPlugin

if TYPE_CHECKING:
    from ...audio import Clip


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
