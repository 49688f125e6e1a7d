"""What a call of pytest runs by default, and what its `-m` and its files change."""

from pathlib import Path

import pytest

from tests.helpers import tiers

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
