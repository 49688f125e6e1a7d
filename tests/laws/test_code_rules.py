"""Rules over the text of the product: what is caught, and what is written once."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from uttermill.tasks.base.errors import MOST_DETAIL
from uttermill.tasks.base.schema import DATASET_FILE, LEDGER_FILE, UTTERANCES_FILE

ROOT = Path(__file__).parents[2]
MOST_LINES = 60  # of a function
SOURCES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for folder in ("flows", "tasks")
    for path in sorted((ROOT / folder).rglob("*.py"))
}


def unexplained(source: str) -> list[int]:
    """Lines on which whatever comes is caught, neither raised again nor explained by a comment."""
    lines = source.splitlines()
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ExceptHandler):
            broad = node.type is None or ast.unparse(node.type) in ("Exception", "BaseException")
            about = lines[node.lineno - 2 : node.body[0].end_lineno]
            told = any("#" in line for line in about) or isinstance(node.body[-1], ast.Raise)
            found += [node.lineno] if broad and not told else []
    return found


def test_what_catches_everything_says_why() -> None:
    found = {name: unexplained(source) for name, source in SOURCES.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}
    assert unexplained("try:\n    f()\nexcept Exception:\n    g()\n") == [3]  # a control


def test_names_of_published_files_and_the_length_of_a_detail_are_written_once() -> None:
    once = [DATASET_FILE, LEDGER_FILE, UTTERANCES_FILE]
    written = Counter[str]()
    cuts = []
    for name, source in SOURCES.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and node.value in once:
                written[node.value] += 1
            if isinstance(node, ast.Slice) and isinstance(node.upper, ast.Constant):
                cuts += [name] if node.upper.value == MOST_DETAIL else []
    assert (written, cuts) == (dict.fromkeys(once, 1), [])


def lengths(source: str) -> list[tuple[str, int]]:
    """Each function, with its lines."""
    return [
        (node.name, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_no_function_is_longer_than_a_screen() -> None:
    assert [
        (name, function, count)
        for name, source in SOURCES.items()
        for function, count in lengths(source)
        if count > MOST_LINES
    ] == []
    assert lengths("def f():\n    a = 1\n    return a\n") == [("f", 3)]  # a control
