"""Rules over the text of the product: what is caught, and what is written once."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

from uttermill.tasks.base.errors import MOST_DETAIL
from uttermill.tasks.base.schema import DATASET_FILE, LEDGER_FILE, UTTERANCES_FILE

ROOT = Path(__file__).parents[2]
MOST_LINES = 60  # of a function
ONCE = (DATASET_FILE, LEDGER_FILE, UTTERANCES_FILE)


class Facts(NamedTuple):
    """Of one file: lines on which whatever comes is caught, neither raised again nor explained by
    a comment; names of published files; cuts to the length of a detail; lengths of functions."""

    unexplained: list[int]
    written: list[str]
    cuts: int
    lengths: list[tuple[str, int]]


def facts_of(source: str) -> Facts:
    lines = source.splitlines()
    unexplained, written, cuts, lengths = [], [], 0, []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ExceptHandler):
            broad = node.type is None or ast.unparse(node.type) in ("Exception", "BaseException")
            about = lines[node.lineno - 2 : node.body[0].end_lineno]
            told = any("#" in line for line in about) or isinstance(node.body[-1], ast.Raise)
            unexplained += [node.lineno] if broad and not told else []
        elif isinstance(node, ast.Constant) and node.value in ONCE:
            written.append(node.value)
        elif isinstance(node, ast.Slice) and isinstance(node.upper, ast.Constant):
            cuts += node.upper.value == MOST_DETAIL
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lengths.append((node.name, (node.end_lineno or node.lineno) - node.lineno + 1))
    return Facts(unexplained, written, cuts, lengths)


@cache
def product() -> dict[str, Facts]:
    """By file; each is parsed once for all rules."""
    return {
        path.relative_to(ROOT).as_posix(): facts_of(path.read_text())
        for folder in ("flows", "tasks")
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


def test_what_catches_everything_says_why() -> None:
    assert {name: file.unexplained for name, file in product().items() if file.unexplained} == {}
    assert facts_of("try:\n    f()\nexcept Exception:\n    g()\n").unexplained == [3]  # a control


def test_names_of_published_files_and_the_length_of_a_detail_are_written_once() -> None:
    written = Counter(value for file in product().values() for value in file.written)
    assert (written, [name for name, file in product().items() if file.cuts]) == (
        dict.fromkeys(ONCE, 1), [],
    )  # fmt: skip
    control = facts_of(f"a[:{MOST_DETAIL}] = {DATASET_FILE!r}\n")
    assert (control.written, control.cuts) == ([DATASET_FILE], 1)


def test_no_function_is_longer_than_a_screen() -> None:
    assert [
        (name, function, count)
        for name, file in product().items()
        for function, count in file.lengths
        if count > MOST_LINES
    ] == []
    assert facts_of("def f():\n    a = 1\n    return a\n").lengths == [("f", 3)]  # a control
