"""Which parameters of a test the plain tier takes, where a few prove the rule and the rest repeat
it in the night (tests/README.md: Tiers and markers)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from itertools import product
from typing import Any

import pytest

nightly = partial(pytest.param, marks=pytest.mark.nightly)


def few(values: Collection[Any], *plain: Any) -> list[Any]:
    """These in the plain tier, and all other values in the night."""
    assert plain, "the plain tier keeps the proof"
    assert all(value in values for value in plain), "each is one of the values"
    return [pytest.param(value) if value in plain else nightly(value) for value in values]


def covering(*names: Collection[Any]) -> list[Any]:
    """All combinations of the values of several parameters; the plain tier takes as few as have
    each value once."""
    axes: list[Sequence[Any]] = [list(values) for values in names]
    plain = {tuple(number % len(axis) for axis in axes) for number in range(max(map(len, axes)))}
    places = product(*(range(len(axis)) for axis in axes))
    return [
        (pytest.param if place in plain else nightly)(
            *(axis[index] for axis, index in zip(axes, place, strict=True))
        )
        for place in places
    ]
