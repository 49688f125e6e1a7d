"""Filters measure one utterance and set limits on what they measure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from tasks.plugins.contracts.base import LoadedPlugin, PluginSettings, VersionedModule
from tasks.plugins.contracts.corpuswide import Reject

if TYPE_CHECKING:
    from tasks.audio import Clip
    from tasks.plugins.rules import Rule


class FilterModule(VersionedModule, Protocol):
    COLUMNS: dict[str, tuple[str, str]]
    """(unit, one line of documentation) of every column of `measure`: named as the filter, or
    `<filter>_<part>`. Its limits are the settings `min` and `max`, or `min_<part>` and
    `max_<part>`, marked THRESHOLD."""

    def measure(self, clip: Clip, settings: PluginSettings) -> dict[str, float | None]:
        """Every column of COLUMNS; None if there is nothing to judge: it is never rejected.

        `clip` has the native rate and all channels, float32 in ±1. ItemError when the utterance
        cannot be measured at all.
        """

    def verdict(self, settings: PluginSettings) -> tuple[Rule, ...]:
        """Limits on its columns, from the settings alone."""


class Filter(FilterModule, LoadedPlugin, Protocol):
    COLUMNS: dict[str, tuple[str, str]]

    #: Not measured where a cheap filter already rejects the utterance.
    COSTLY: bool = False
    #: Measured again when the whole recording is decoded: `clip` then knows its faults and length.
    AFTER_ALL: bool = False
    #: (clip, settings) -> bytes that are kept beside the measures, for `reject`.
    fingerprint: Callable[[Clip, PluginSettings], bytes] | None = None
    #: A verdict over the whole corpus.
    reject: Reject | None = None
