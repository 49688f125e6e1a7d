"""Counts of what rules drop, wrongly and rightly, over clips that were heard once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tests.bench.verdict_listening import Row, Values
from uttermill.tasks.plugins.rules import Rule, judge

Drops = Callable[[Values], bool]
Cells = list[list[str]]


@dataclass(frozen=True, slots=True)
class Count:
    """What a rule does to a set of clips, wrong texts being those to drop."""

    right: int
    right_dropped: int
    wrong: int
    wrong_dropped: int

    @property
    def precision(self) -> float | None:
        dropped = self.right_dropped + self.wrong_dropped
        return self.wrong_dropped / dropped if dropped else None

    @property
    def recall(self) -> float | None:
        return self.wrong_dropped / self.wrong if self.wrong else None

    @property
    def false_drops(self) -> float | None:
        return self.right_dropped / self.right if self.right else None


def by(rules: Iterable[Rule]) -> Drops:
    chosen = tuple(rules)
    return lambda values: judge(values, chosen) is not None


def count(
    rows: Iterable[Row], drops: Drops, wrong: Callable[[Row], bool], stated: bool = False
) -> Count:
    """`stated`: as the clips are heard where the source states their language."""
    found = [[0, 0], [0, 0]]
    for row in rows:
        found[wrong(row)][drops(row.stated if stated else row.values)] += 1
    (right_kept, right_dropped), (wrong_kept, wrong_dropped) = found
    return Count(
        right_kept + right_dropped, right_dropped, wrong_kept + wrong_dropped, wrong_dropped
    )


def percent(part: float | None) -> str:
    return "–" if part is None else f"{100 * part:.1f} %"


def of(part: int, whole: int) -> str:
    return f"{part} of {whole}" if whole else "–"


def table(head: Sequence[str], cells: Cells) -> str:
    """Markdown."""
    lines = [head, ["---"] * len(head), *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
