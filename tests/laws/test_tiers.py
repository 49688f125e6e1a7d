"""What a call of pytest runs by default, and what its `-m` and its files change."""

import threading
from pathlib import Path

import pytest

from tests import trace
from tests.helpers import tiers
from uttermill.flows import formatting
from uttermill.tasks.base import environment

BOTH = {"full", "nightly"}


@pytest.mark.parametrize(
    ("expression", "arguments", "left_out"),
    [
        ("", [], BOTH),
        ("", ["tests/laws"], BOTH),
        ("", ["tests/laws/test_tiers.py"], {"nightly"}),
        ("", ["tests/laws/test_tiers.py::test_few"], {"nightly"}),
        ("full or not full", [], {"nightly"}),
        ("cluster", ["tests/laws"], {"nightly"}),
        ("nightly", [], set()),
        ("cluster and not nightly", [], set()),
    ],
)
def test_what_a_call_leaves_out(expression: str, arguments: list[str], left_out: set[str]) -> None:
    assert tiers.left_out(expression, arguments) == left_out


def test_few() -> None:
    """The first value is of the quick tier, others that are named of the full one."""
    marks = {p.values[0]: [mark.name for mark in p.marks] for p in tiers.few("abcd", "b", "d")}
    assert marks == {"a": ["nightly"], "b": [], "c": ["nightly"], "d": ["full"]}


def test_covering() -> None:
    """Each value once by day, one combination of them in the quick tier."""
    marks = {p.values: [mark.name for mark in p.marks] for p in tiers.covering("ab", "xyz")}
    assert {"".join(values) for values, names in marks.items() if names == []} == {"ax"}
    assert {"".join(values) for values, names in marks.items() if names == ["full"]} == {"by", "az"}
    assert len(marks) == 6


def test_each_process_begins_with_other_modules() -> None:
    files = [Path(name) for name in "abcdefg"]
    turns = [tiers.turned(files, number, 3) for number in range(3)]
    assert ["".join(map(str, turn)) for turn in turns] == ["abcdefg", "cdefgab", "efgabcd"]


def test_modules_without_a_test_of_the_full_tier_are_left(tmp_path: Path) -> None:
    plain, marked = tmp_path / "test_a.py", tmp_path / "test_b.py"
    plain.write_text("def test_a() -> None: ...\n")
    marked.write_text("@pytest.mark.full\ndef test_b() -> None: ...\n")
    assert tiers.left_to_others(plain, "full")
    assert not tiers.left_to_others(plain, "full or not full")
    assert not tiers.left_to_others(marked, "full")
    assert not tiers.left_to_others(tmp_path, "full")


# `python -m tests.trace`: what it counts as a call, and that it sees a whole run.


def test_calls_of_the_product_are_counted_in_all_threads() -> None:
    with trace.entered() as calls:
        formatting.clock(61.0)
        worker = threading.Thread(target=formatting.clock, args=(61.0,))
        worker.start()
        worker.join()
    assert calls[formatting.clock.__code__] == 2
    assert {code.co_filename for code in calls} == {formatting.__file__}, "not those of threading"


def test_a_generator_is_one_call() -> None:
    with trace.entered() as calls, environment.setting({"UTTERMILL_TRACED": "1"}):
        pass
    assert calls[environment.setting.__wrapped__.__code__] == 1  # type: ignore[attr-defined]


@pytest.mark.full
def test_one_recording_passes_all_five_stages() -> None:
    counted = trace.passed()
    assert 50 < counted["modules"] <= counted["functions"] <= counted["calls"]
