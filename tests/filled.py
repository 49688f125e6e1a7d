"""A filter's module with the defaults of its contract, for tests that import the module itself."""

from __future__ import annotations

from typing import Any

from tasks.plugins.contracts import Filter
from tasks.plugins.contracts.members import Filled
from tasks.plugins.rules import Rule


def verdict(module: Any, settings: Any) -> tuple[Rule, ...]:
    found: tuple[Rule, ...] = Filled(module, Filter).verdict(settings)
    return found
