"""CTM and TextGrid of clips whose words lack times, have none, or say odd things."""

import re
from typing import Any

import pytest

from uttermill.tasks.base.schema import ClipRow, WordRow
from uttermill.tasks.formats import textgrid


def word(text: str, start: float, end: float, sure: float | None = 0.5) -> WordRow:
    return {"word": text, "start": start, "end": end, "probability": sure}


def row(*words: WordRow, **changes: Any) -> ClipRow:
    facts: dict[str, Any] = {"id": "a_1", "text": "one two", "num_samples": 16_000}
    return {**facts, "sample_rate": 16_000, "reference_words": [*words], **changes}  # type: ignore[typeddict-item]


def intervals(clip: ClipRow) -> list[tuple[float, float, str]]:
    """Those of the tier `words`."""
    grid = textgrid._content(clip).decode().partition('name = "words"')[2]
    fields = re.findall(r'xmin = (\S+)\n\s+xmax = (\S+)\n\s+text = "(.*)"', grid)
    return [(float(start), float(end), text) for start, end, text in fields]


def test_gaps_are_empty_intervals() -> None:
    assert intervals(row(word(" one", 0.1, 0.4), word(" two", 0.4, 0.7))) == [
        (0.0, 0.1, ""),
        (0.1, 0.4, "one"),
        (0.4, 0.7, "two"),
        (0.7, 1.0, ""),
    ]


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        ((word("a", 0, 0), word("b", 0, 1)), ["a b"]),
        ((word("a", 0, 1), word("b", 1, 1)), ["a b"]),
        ((word("a", 0.5, 0.5),), ["a"]),
        ((word("a", 0, 2),), ["a"]),
        ((word('say "x"', 0, 1),), ['say_""x""']),
        ((), [""]),
    ],
    ids=["first", "last", "only", "beyond", "quotes", "none"],
)
def test_no_word_is_lost(words: tuple[WordRow, ...], texts: list[str]) -> None:
    found = intervals(row(*words))
    assert [text for *_, text in found] == texts
    assert found[0][0] == 0
    assert found[-1][1] == 1
    assert all(end > start for start, end, _ in found)
