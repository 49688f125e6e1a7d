"""Filters measure one utterance and set limits on what they measure."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from .base import Columns, PluginSettings, VersionedPlugin
from .corpuswide import CorpusWide

if TYPE_CHECKING:
    from ...audio import Clip
    from ..annotation_kinds import Annotations
    from ..rules import Rule


class Filter(CorpusWide, VersionedPlugin):
    __name__: str

    @property
    @abstractmethod
    def COLUMNS(self) -> Columns:
        """(unit, one line of documentation) of every column of `measure`: named like the filter, or
        `<filter>_<part>`; a single one may have any name. Its limits are the settings `min` and
        `max`, or `min_<part>` and `max_<part>`, marked THRESHOLD."""

    @abstractmethod
    def measure(self, clip: Clip, settings: PluginSettings) -> Mapping[str, Any]:
        """Every column of COLUMNS, a number, and every one of ANNOTATIONS, as its kind defines it;
        None if there is nothing to judge: None is never rejected.

        `clip` has the native rate and all channels, float32 in ±1. ItemError if the utterance
        cannot be measured at all.
        """

    #: Annotations of an utterance, by name, which is also the column's. For a label, the setting
    #: `allowed` lists the values that are kept; for events, `min_share` and `max_share` limit the
    #: share of the utterance in which a label happens, by label. If the name is `<filter>_<part>`,
    #: they are `allowed_<part>` and `min_<part>_share`.
    ANNOTATIONS: Annotations = MappingProxyType({})
    #: Reasons for an utterance below and above the limits of a column; default: `low_<column>` and
    #: `high_<column>`.
    REASONS: Mapping[str, tuple[str, str]] = MappingProxyType({})
    #: Not measured if a cheap filter already rejects the utterance.
    COSTLY: bool = False
    #: Measured again once the whole recording is decoded: `clip` then has its faults and length.
    AFTER_ALL: bool = False
    #: (clip, settings) -> bytes to store beside the measures, for `reject`.
    fingerprint: Callable[[Clip, PluginSettings], bytes] | None = None

    def verdict(self, settings: PluginSettings) -> tuple[Rule, ...]:
        """Limits on its columns, from the settings alone. Default: those that the contract names,
        if its settings have them. Override only where these do not fit."""
        from .. import annotation_kinds
        from ..rules import Limit

        values = dict(settings)
        rules = annotation_kinds.rules(self.__name__, self.ANNOTATIONS, self.REASONS, values)
        for column, (low, high) in limits(self.__name__, self.COLUMNS).items():
            if low in values or high in values:
                reasons = self.REASONS.get(column, (f"low_{column}", f"high_{column}"))
                rules.append(Limit(column, values.get(low), values.get(high), *reasons))
        return tuple(rules)


def limits(module: str, columns: Collection[str]) -> dict[str, tuple[str, str]]:
    """The names of the two settings that limit each column of a filter in `module`."""
    name = module.rpartition(".")[2]
    parts = {column: column.removeprefix(name) for column in columns}
    if len(columns) == 1 and [*columns] == [*parts.values()]:  # its name differs from the module's
        parts = dict.fromkeys(columns, "")
    return {column: (f"min{part}", f"max{part}") for column, part in parts.items()}
