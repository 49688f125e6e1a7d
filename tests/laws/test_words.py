"""Rules over the text of the product: names and messages hold none of the words that were given up,
what is caught says why, and what is published is named once."""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from uttermill.tasks.base.errors import MOST_DETAIL
from uttermill.tasks.base.schema import DATASET_FILE, LEDGER_FILE, UTTERANCES_FILE

ROOT = Path(__file__).parents[2]
MOST_LINES = 60  # of a function
ONCE = (DATASET_FILE, LEDGER_FILE, UTTERANCES_FILE)

#: Words that no sentence says to a user, and what to say instead.
MESSAGES = {
    r"\bshel(f|ves)\b": "the kind of plug-in: filter, recogniser, format",
    r"\bis the disk sound\b": "check the disk",
    r"\bmend(s|ed|ing)?\b": "repair, correct",
    r"\bleft aside\b": "skipped",
    r"\bquarantined for a death\b": "crashed or timed out",
    r"\bcould not bring\b": "could not download",
    r"\bthe system refused:": "cannot read, cannot write",
    r"(?<!write )(?<!transcribe\.)\bverdicts?\b": "rule, rejection, outcome",
}

#: Names of locals and parameters that do not say of what.
NO_NOUNS = {"found", "each", "at", "known", "held", "own", "told", "said", "here", "there", "made"}

#: Words in names of modules, classes and functions, and what they were replaced by.
NAMES = {
    "callers": "executor",
    "lean": "process_memory",
    "sweeping": "sweep",
    "left_aside": "skipped",
    "LeftAside": "Skipped",
    "up_to_date": "unchanged",
    "judging": "rejections",
    "shard_groups": "shard_batches",
    "ShardGroup": "ShardBatch",
    "GroupFacts": "BatchFacts",
    "group_verdicts": "batch_outcomes",
    "enter_verdicts": "rejections",
    "ClipGroup": "ShardClips",
    "PublishedGroup": "PublishedShard",
}


def names(nodes: Sequence[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            yield node.name


def messages(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Texts of several words, docstrings left out: errors, warnings, log lines, descriptions."""
    quiet = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if not isinstance(node, ast.Constant) or id(node) in quiet:
            continue
        if isinstance(node.value, str) and " " in node.value.strip():
            yield node.value


class Facts(NamedTuple):
    """Of one file: lines on which whatever comes is caught, neither raised again nor explained by
    a comment; names of published files; cuts to the length of a detail; lengths of functions."""

    unexplained: list[int]
    written: list[str]
    cuts: int
    lengths: list[tuple[str, int]]


def facts_of(source: str, nodes: Sequence[ast.AST] = ()) -> Facts:
    lines = source.splitlines()
    unexplained, written, cuts, lengths = [], [], 0, []
    for node in nodes or nodes_of(source):
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


class Words(NamedTuple):
    """What a file says and names."""

    file: str
    messages: list[str]
    names: list[str]
    locals: set[str]
    facts: Facts


@cache
def product() -> list[Words]:
    """Each file is parsed once for all rules."""
    paths = sorted(path for top in ("tasks", "flows") for path in (ROOT / top).rglob("*.py"))
    return [
        Words(
            str(path.relative_to(ROOT)),
            [*messages(nodes)], [path.stem, *names(nodes)], {*locals_of(nodes)},
            facts_of(source, nodes),
        )
        for path in paths for source in [path.read_text()] for nodes in [nodes_of(source)]
    ]  # fmt: skip


def test_no_message_says_a_word_that_was_given_up() -> None:
    assert [
        (words.file, text, f"say: {better}")
        for words in product()
        for text in words.messages
        for word, better in MESSAGES.items()
        if re.search(word, text, re.IGNORECASE)
    ] == []


def test_no_name_holds_a_word_that_was_given_up() -> None:
    assert [
        (words.file, name, f"use: {better}")
        for words in product()
        for name in words.names
        for word, better in NAMES.items()
        if re.search(rf"(^|_){word}(_|$)", name)
    ] == []


def nodes_of(source: str) -> list[ast.AST]:
    return [*ast.walk(ast.parse(source))]


def locals_of(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Names that functions bind, their parameters among them."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    seen: set[int] = set()  # functions inside functions are walked with those around them
    for function in nodes:
        if isinstance(function, functions) and id(function) not in seen:
            for node in ast.walk(function):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id
                elif isinstance(node, ast.arg):
                    yield node.arg
                elif isinstance(node, functions):
                    seen.add(id(node))


def test_a_local_is_named_by_its_noun() -> None:
    assert [(words.file, words.locals & NO_NOUNS) for words in product()
            if words.locals & NO_NOUNS] == []  # fmt: skip


def test_control_they_are_seen() -> None:
    nodes = nodes_of("def left_aside():\n    raise ConfigError(f'no {x} on the shelf')")
    assert [*names(nodes)] == ["left_aside"]
    assert {*locals_of(nodes_of("def f(at):\n    found = [each for each in at]"))} == {
        "at", "each", "found",
    }  # fmt: skip
    assert any("shelf" in text for text in messages(nodes))


def test_the_glossary_is_short_and_in_use() -> None:
    page = (ROOT / "tasks/README.md").read_text()
    table = page[page.index("## Words") : page.index("## Read on")]
    words = [row.split("|")[1].strip() for row in table.splitlines() if row.startswith("| ")][1:]
    assert len(words) <= 30
    assert len({*words}) == len(words)


def test_what_catches_everything_says_why() -> None:
    assert {one.file: one.facts.unexplained for one in product() if one.facts.unexplained} == {}
    assert facts_of("try:\n    f()\nexcept Exception:\n    g()\n").unexplained == [3]  # a control


def test_names_of_published_files_and_the_length_of_a_detail_are_written_once() -> None:
    written = Counter(value for one in product() for value in one.facts.written)
    assert (written, [one.file for one in product() if one.facts.cuts]) == (
        dict.fromkeys(ONCE, 1), [],
    )  # fmt: skip
    control = facts_of(f"a[:{MOST_DETAIL}] = {DATASET_FILE!r}\n")
    assert (control.written, control.cuts) == ([DATASET_FILE], 1)


def test_no_function_is_longer_than_a_screen() -> None:
    assert [
        (one.file, function, count)
        for one in product()
        for function, count in one.facts.lengths
        if count > MOST_LINES
    ] == []
    assert facts_of("def f():\n    a = 1\n    return a\n").lengths == [("f", 3)]  # a control
