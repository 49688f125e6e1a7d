"""Which tests a call of pytest runs, and which parameters of a test are of which tier, where a few
prove the rule and the rest repeat it (tests/README.md: Tiers)."""

import re
from collections.abc import Collection, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

FULL, NIGHTLY, QUICK = "full", "nightly", "quick"
#: What makes a test one of the full tier, unless it is marked `quick`: processes that cost seconds.
COSTLY = ("cluster", "server")
full = partial(pytest.param, marks=pytest.mark.full)
nightly = partial(pytest.param, marks=pytest.mark.nightly)


def left_out(expression: str, arguments: Sequence[str]) -> set[str]:
    """Markers of the tests that a call leaves out by itself, given its `-m` and what it names: both
    slower tiers; only the nightly one if it names files or tests, or has a `-m`; and nothing if
    that names the nightly tier."""
    if NIGHTLY in re.findall(r"\w+", expression):
        return set()
    if expression or any(re.search(r"\.py(::|$)", argument) for argument in arguments):
        return {NIGHTLY}
    return {FULL, NIGHTLY}


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What starts workers or a server is of the full tier, unless it is marked `quick`. So is what
    needs something that not each machine has; it is skipped where that is missing. Then tests of
    other tiers are taken away."""
    from tests.helpers import fetched  # not before conftest.py has set what numpy reads

    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if QUICK not in marks and not marks.isdisjoint(COSTLY):
            item.add_marker(FULL)
        if lacking := [what for mark in item.iter_markers("needs") for what in mark.args]:
            item.add_marker(FULL)
            for reason in filter(None, map(fetched.lacks, lacking)):
                item.add_marker(pytest.mark.skip(reason=reason))
        if FULL in marks and not names_full(item.path):
            raise pytest.UsageError(f"`-m full` would not find {item.nodeid}: see names_full")
    out = left_out(config.option.markexpr, config.args)
    away = [item for item in items if any(item.get_closest_marker(name) for name in out)]
    if away:
        config.hook.pytest_deselected(items=away)
        gone = {id(item) for item in away}
        items[:] = [item for item in items if id(item) not in gone]


@cache
def names_full(module: Path) -> bool:
    """Whether anything in a module may make a test one of the full tier."""
    marks = r"mark\.(full|cluster|server|needs)|\btiers\b|fetched"
    return bool(re.search(marks, module.read_text("utf-8")))


def left_to_others(path: Path, expression: str) -> bool:
    """Whether a module has no test for a call with such a `-m`, so that it need not be imported."""
    return expression == FULL and path.match("test_*.py") and not names_full(path)


@cache
def unit(file: Path) -> str:
    """What one process gets as a whole: a file, or all that use the cluster that a process starts
    for its tests, which takes 25 s of CPU, or all that change this machine's network and those with
    a browser, which drops what it loads when the network changes."""
    text = file.read_text("utf-8")
    if "shared_cluster" in text:
        return "shared_cluster"
    return "network" if re.search(r'\bimport hosts$|needs\("chromium"\)', text, re.M) else str(file)


def turned(files: list[Path], number: int, count: int) -> list[Path]:
    """All of them, for one of so many processes: each begins with other ones."""
    first = len(files) * number // count
    return files[first:] + files[:first]


def few(values: Collection[Any], *plain: Any) -> list[Any]:
    """These by day, the first of them in the quick tier, and all other values in the night."""
    assert plain, "a tier by day keeps the proof"
    assert all(value in values for value in plain), "each is one of the values"

    def tier(value: Any) -> Any:
        if value not in plain:
            return nightly(value)
        return pytest.param(value) if value == plain[0] else full(value)

    return [tier(value) for value in values]


def covering(*names: Collection[Any]) -> list[Any]:
    """All combinations of the values of several parameters; by day as few as have each value once,
    one of them in the quick tier."""
    axes: list[Sequence[Any]] = [list(values) for values in names]
    plain = {tuple(number % len(axis) for axis in axes) for number in range(max(map(len, axes)))}

    def tier(place: tuple[int, ...]) -> Any:
        if place not in plain:
            return nightly
        return full if any(place) else pytest.param

    return [
        tier(place)(*(axis[index] for axis, index in zip(axes, place, strict=True)))
        for place in product(*(range(len(axis)) for axis in axes))
    ]
