"""The language that Whisper base detects, and what limits on its probability drop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.bench.verdict_defaults import LOUD, all_of, is_short, rates
from tests.bench.verdict_listening import Row
from tests.bench.verdict_tables import Drops, by, of, table
from uttermill.tasks.plugins.rules import Limit, Within
from uttermill.tasks.settings import TranscribeSettings

LIMITS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
UNLESS = (None, -0.3, -0.5, -0.7)  # avg_logprob from which on a guess is believed
WRONG = ("foreign", "sounds")
HEAD = ("limit", "unless avg_logprob ≥", "clean sentences: dropped", "of a word or two",
        "clean, right text: dropped", "noisy ≥ 10 dB, right text: dropped",
        "wrong language: kept", "sounds: kept")  # fmt: skip


def rule(limit: float, unless: float | None) -> Drops:
    sure = () if unless is None else (Within("avg_logprob", min=unless),)
    return by((Limit("language_probability", min=limit, low="language_uncertain", unless=sure),))


def groups(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Clean and noisy ones whose language was heard rightly, and what ought not to be kept. A clip
    in which nothing was heard is in none: another verdict drops it."""
    heard = [row for row in rows if row.values["text"]]
    clean = [r for r in heard if r.group == "clean" and r.right_language]
    spoken = [r for r in heard if r.language and not r.right_language]
    loud = [r for r in heard if r.group == "mixed" and (r.snr or 0) >= LOUD and not r.wrong]
    return {
        "clean": [r for r in clean if not is_short(r)],
        "short": [r for r in clean if is_short(r)],
        "right": [r for r in clean if not r.wrong],
        "loud": [r for r in loud if r.right_language],
        "foreign": spoken,
        "sounds": [r for r in heard if r.group == "sound"],
    }


def report(rows: Sequence[Row]) -> tuple[str, dict[str, Any]]:
    found: dict[str, dict[str, list[int]]] = {}
    cells = []
    members = groups(rows)
    for unless in UNLESS:
        for limit in LIMITS:
            each = rates(members, WRONG, rule(limit, unless))
            shown = "–" if unless is None else str(unless)
            found[f"{limit} {shown}"] = each
            cells.append([str(limit), shown, *(of(*pair) for pair in each.values())])
    each = rates(members, WRONG, all_of(TranscribeSettings().verdicts))
    found["defaults"] = each
    cells.append(["all defaults", "", *(of(*pair) for pair in each.values())])
    close, told = close_languages(rows)
    return table(HEAD, cells) + "\n\n" + close, {"limits": found, "close": told}


def close_languages(rows: Sequence[Row]) -> tuple[str, dict[str, Any]]:
    """What espeak-ng's voices are taken for, and what the defaults make of it."""
    drops = all_of(TranscribeSettings().verdicts)
    found: dict[str, Any] = {}
    cells = []
    for language in dict.fromkeys(row.kind for row in rows if row.group == "close"):
        members = [row for row in rows if row.group == "close" and row.kind == language]
        right = [row for row in members if row.right_language]
        others = [row for row in members if not row.right_language]
        taken = Counter(row.values["language"] for row in others).most_common()
        dropped = sum(drops(row.values) for row in right)
        kept = sum(not drops(row.values) for row in others)
        found[language] = {
            "clips": len(members), "right": len(right), "taken_for": dict(taken),
            "right_dropped": dropped, "wrong_kept": kept,
        }  # fmt: skip
        cells.append([
            language, of(len(right), len(members)), ", ".join(f"{c} {n}" for c, n in taken) or "–",
            of(dropped, len(right)), of(kept, len(others)),
        ])  # fmt: skip
    head = ("spoken", "detected", "taken for", "right: dropped", "wrong: kept")
    return table(head, cells), found
