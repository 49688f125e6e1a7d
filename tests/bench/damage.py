"""Random damage in the middle of files of each format: the share of damage to samples that is
noticed.

python -m tests.bench.damage [CASES] [--json]     CASES for each kind; 200 by default
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tests.audio.test_damage import (
    DITHER,
    LENGTHS,
    dropped,
    flipped,
    heard,
    outcome,
    removed,
    swapped,
    zeroed,
)
from tests.helpers.sounding import KINDS, SECONDS, whole


def of_kind(kind: str, cases: int, folder: Path) -> dict[str, Any]:
    """Counts of outcomes by damage: of bytes that change, and of bytes that go."""
    data = whole(kind, seconds=12.0 if kind in ("vorbis", "opus") else SECONDS)
    good, _ = heard(data, folder)
    found: dict[str, Counter[str]] = {"changed": Counter(), "gone": Counter()}
    damages = (flipped, removed, zeroed, dropped, swapped)
    for number in range(cases):
        chance = random.Random(f"{kind} {number}")
        damage = damages[number % len(damages)]
        what = "gone" if damage in (removed, dropped) else "changed"
        noise = DITHER.get(kind, 1e-4)
        found[what][outcome(damage(data, chance), good, folder, noise)] += 1
    return {"kind": kind, **{what: dict(counts) for what, counts in found.items()}}


def share(counts: dict[str, int]) -> str:
    """`seen | noticed`: all that differs is under a fault; there is a fault, wherever."""
    seen, part = counts.get("seen", 0), counts.get("part", 0)
    differ = seen + part + counts.get("missed", 0)
    if not differ:
        return "none | none"
    return f"{100 * seen / differ:.1f} % of {differ} | {100 * (seen + part) / differ:.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="?", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        rows = [of_kind(kind, args.cases, Path(name)) for kind in KINDS]
    if args.json:
        print(json.dumps({"cases": args.cases, "rows": rows}))
        return
    print("| kind | bytes changed: seen | noticed | bytes gone: seen | noticed |")
    print("|---|---:|---:|---:|---:|")
    for row in rows:
        plain = " (no checksum)" if row["kind"] in LENGTHS else ""
        print(f"| {row['kind']}{plain} | {share(row['changed'])} | {share(row['gone'])} |")


if __name__ == "__main__":
    main()
