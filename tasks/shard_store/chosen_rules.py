"""The chosen plug-ins on text, the rules of these and of filters, and which filters are costly."""

from __future__ import annotations

from functools import lru_cache

from .. import plugins
from ..plugins.contracts import Measuring
from ..plugins.contracts.text import TextVerdict
from ..plugins.rules import Rule
from ..settings import Plugin, StageSettings


def costly(plugin: Plugin) -> bool:
    """Whether a filter is so slow that it skips utterances that cheap ones reject."""
    return plugins.FILTERS.load(plugin.use).COSTLY


def filter_rules(chosen: tuple[Plugin, ...]) -> tuple[Rule, ...]:
    """Rules of all filters, cheap ones first, so that a row's reason does not depend on whether its
    costly measures were skipped."""
    return rules_of("filters", tuple(sorted(chosen, key=costly)))


def cheap_rules(chosen: tuple[Plugin, ...]) -> tuple[Rule, ...]:
    return rules_of("filters", tuple(p for p in chosen if not costly(p)))


@lru_cache(maxsize=64)
def rules_of(shelf: Measuring, chosen: tuple[Plugin, ...]) -> tuple[Rule, ...]:
    """Rules of all chosen plug-ins of a kind, in the order of the settings."""
    rules: list[Rule] = []
    for plugin in chosen:
        module, settings = plugins.MEASURING[shelf].resolve(plugin)
        rules.extend(module.verdict(settings))
    return tuple(rules)


@lru_cache(maxsize=64)
def text_plugins(chosen: tuple[Plugin, ...]) -> tuple[tuple[str, TextVerdict, StageSettings], ...]:
    """(name, plug-in, its checked settings) of all chosen plug-ins on text, in their order."""
    return tuple((plugin.use, *plugins.TEXT.resolve(plugin)) for plugin in chosen)
