"""Speech in noise: which measures detect a wrong text, and which of them the default rules drop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log
from typing import Any

import numpy as np
from scipy.stats import rankdata

from tests.bench import verdict_defaults
from tests.bench.verdict_clips import KINDS, LEVELS
from tests.bench.verdict_defaults import BEFORE, all_of
from tests.bench.verdict_listening import WRONG, Row, Values
from tests.bench.verdict_tables import Count, Drops, by, count, of, percent, table
from uttermill.tasks.plugins.rules import Limit
from uttermill.tasks.settings import TranscribeSettings

FALSE = 0.05  # share of right texts that a measure may cost in the table of measures
CONFIDENCE = (-0.4, -0.5, -0.6, -0.7, -0.8, -0.9, -1.0)
#: Larger is worse.
MEASURES: dict[str, Callable[[Values], float | None]] = {
    "confidence": lambda v: -v["confidence"],
    "avg_logprob": lambda v: -v["avg_logprob"],
    "no_speech_probability": lambda v: v["no_speech_probability"],
    "language_probability": lambda v: -v["language_probability"],
    "confidence + ln(language_probability)": lambda v: (
        -v["confidence"] - log(max(v["language_probability"], 1e-6))
    ),
    "disagreement with a greedy decode": lambda v: v.get("disagreement"),
    "avg_logprob - disagreement": lambda v: (
        v["disagreement"] - v["avg_logprob"] if "disagreement" in v else None
    ),
    "snr": lambda v: None if v["snr"] is None else -v["snr"],
    "dnsmos_ovrl": lambda v: _negative(v.get("dnsmos_ovrl")),
    "dnsmos_bak": lambda v: _negative(v.get("dnsmos_bak")),
    "speech_ratio": lambda v: -v["speech_ratio"],
    "compression_ratio": lambda v: v["compression_ratio"],
    "char_rate": lambda v: _negative(v["char_rate_alphabetic"] or v["char_rate_syllabic"]),
}


def _negative(value: float | None) -> float | None:
    return None if value is None else -value


def wrong_text(row: Row) -> bool:
    return row.wrong


def wrong_stated(row: Row) -> bool:
    return row.stated_wer is not None and row.stated_wer > WRONG


def report(rows: Sequence[Row]) -> tuple[str, dict[str, Any]]:
    parts = {
        "levels": by_level(rows),
        "curve": curve(rows),
        "measures": measures(rows),
        "defaults": verdict_defaults.report(rows),
    }
    return "\n\n".join(text for text, _ in parts.values()), {n: d for n, (_, d) in parts.items()}


def by_level(rows: Sequence[Row]) -> tuple[str, dict[str, Any]]:
    """Wrong texts that are dropped, and right ones, by kind of noise and level."""
    mixed = [row for row in rows if row.group == "mixed" and row.values["text"]]
    found: dict[str, Any] = {}
    cells = []
    sets: dict[str, Drops] = {
        "before": all_of(BEFORE),
        "now": all_of(TranscribeSettings().verdicts),
    }
    for name, drops in sets.items():
        for kind in KINDS:
            line = [name, kind]
            for snr in LEVELS:
                each = count(
                    (r for r in mixed if r.kind == kind and r.snr == snr), drops, wrong_text
                )
                found[f"{name} {kind} {snr}"] = _plain(each)
                line.append(
                    f"{of(each.wrong_dropped, each.wrong)}; {of(each.right_dropped, each.right)}"
                )
            cells.append(line)
    head = ("rules", "noise", *(f"{snr} dB" for snr in LEVELS))
    return table(head, cells), found


def curve(rows: Sequence[Row]) -> tuple[str, dict[str, Any]]:
    """Limits on `confidence` beside the defaults, with the language detected and stated."""
    mixed = [row for row in rows if row.group == "mixed"]
    clean = [row for row in rows if row.group == "clean"]
    sets: dict[str, Drops] = {"all, before": all_of(BEFORE)}
    for limit in CONFIDENCE:
        sets[f"confidence {limit}"] = by((Limit("confidence", min=limit, low="low_confidence"),))
    sets["all"] = all_of(TranscribeSettings().verdicts)
    found: dict[str, Any] = {}
    cells = []
    for name, drops in sets.items():
        line = [name]
        for stated, wrong in ((False, wrong_text), (True, wrong_stated)):
            noisy = count(_heard(mixed, stated), drops, wrong, stated)
            quiet = count(_heard(clean, stated), drops, wrong, stated)
            found[f"{name}{' stated' * stated}"] = {"mixed": _plain(noisy), "clean": _plain(quiet)}
            line += [percent(noisy.precision), percent(noisy.recall),
                     percent(noisy.false_drops), percent(quiet.false_drops)]  # fmt: skip
        cells.append(line)
    part = ("precision", "recall", "noisy, right: dropped", "clean, right: dropped")
    return table(("rules", *part, *(f"{name} ¹" for name in part)), cells), found


def measures(rows: Sequence[Row]) -> tuple[str, dict[str, Any]]:
    """Area under the curve of each measure, and the wrong texts that it finds at the limit that
    costs 5 % of the right ones; over noisy clips in which something was heard."""
    mixed = _heard([row for row in rows if row.group == "mixed"], False)
    found: dict[str, Any] = {}
    for name, take in MEASURES.items():
        pairs = [(take(row.values), row.wrong) for row in mixed]
        known = [(value, wrong) for value, wrong in pairs if value is not None]
        if known:
            found[name] = _separates(known) | {"clips": len(known)}
    cells = [
        [name, f"{f['area']:.3f}", percent(f["recall"]), str(f["clips"])]
        for name, f in sorted(found.items(), key=lambda item: -item[1]["area"])
    ]
    return table(("measure", "area", "recall at 5 % false drops", "clips"), cells), found


def _separates(known: Sequence[tuple[float, bool]]) -> dict[str, float]:
    values = np.array([value for value, _ in known])
    wrong = np.array([is_wrong for _, is_wrong in known])
    ones, zeros = int(wrong.sum()), int((~wrong).sum())
    if not ones or not zeros:
        return {"area": float("nan"), "recall": float("nan")}
    ranks = rankdata(values)[wrong].sum() - ones * (ones + 1) / 2
    limit = np.quantile(values[~wrong], 1 - FALSE)
    return {"area": float(ranks / (ones * zeros)), "recall": float((values[wrong] > limit).mean())}


def _heard(rows: Sequence[Row], stated: bool) -> list[Row]:
    return [row for row in rows if (row.stated if stated else row.values)["text"]]


def _plain(each: Count) -> dict[str, int]:
    return {
        "right": each.right, "right_dropped": each.right_dropped,
        "wrong": each.wrong, "wrong_dropped": each.wrong_dropped,
    }  # fmt: skip
