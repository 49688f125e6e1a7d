"""Wrong drops and false accepts of each default filter and verdict on text, and of all."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from tests.bench.verdict_listening import Row
from tests.bench.verdict_tables import Drops, by, of, table
from uttermill.tasks.plugins.rules import Rule
from uttermill.tasks.settings import FilterSettings, Plugin, TranscribeSettings
from uttermill.tasks.shard_store.chosen_rules import rules_of

CLEAN_SHORT = ("digit", "word")
LOUD = 10  # dB: at this level and above speech is heard well
#: The defaults until `confidence` took the place of `logprob`; Emilia's limit on the language.
BEFORE = (
    Plugin.model_validate({"use": "language", "min_probability": 0.8, "unless_logprob": None}),
    Plugin(use="logprob"),
    *(p for p in TranscribeSettings().verdicts if p.use not in ("language", "confidence")),
)
HEAD = ("rule", "clean", "of a word or two", "clean, unseen", "noisy ≥ 10 dB, right",
        "noisy < 10 dB, right", "noisy, wrong: kept", "sounds: kept")  # fmt: skip


def filter_rules() -> tuple[Rule, ...]:
    return rules_of("filters", FilterSettings().filters)


def all_of(verdicts: tuple[Plugin, ...]) -> Drops:
    return by((*filter_rules(), *rules_of("text", verdicts)))


def is_short(row: Row) -> bool:
    return row.kind in CLEAN_SHORT


def groups(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by what ought to happen to them; a clip in which nothing was heard is in none but
    `sounds`: every set of rules drops it."""
    heard = [row for row in rows if row.values["text"]]
    clean = [r for r in heard if r.group == "clean" and not r.wrong]
    unseen = [r for r in heard if r.group == "unseen" and not r.wrong]
    mixed = [r for r in heard if r.group == "mixed"]
    right = [r for r in mixed if not r.wrong]
    return {
        "clean": [r for r in clean if not is_short(r)],
        "short": [r for r in clean if is_short(r)],
        "unseen": unseen,
        "loud": [r for r in right if (r.snr or 0) >= LOUD],
        "faint": [r for r in right if (r.snr or 0) < LOUD],
        "wrong": [r for r in mixed if r.wrong],
        "sounds": [r for r in rows if r.group == "sound"],
    }


def rates(
    members: Mapping[str, Sequence[Row]], wrong: Collection[str], drops: Drops
) -> dict[str, list[int]]:
    """[faults, clips] of each group: dropped ones, and kept ones of the `wrong` groups."""
    found = {}
    for name, rows in members.items():
        dropped = sum(drops(row.values) for row in rows)
        found[name] = [len(rows) - dropped if name in wrong else dropped, len(rows)]
    return found


def report(rows: Sequence[Row]) -> tuple[str, dict[str, Any]]:
    sets: dict[str, Drops] = {
        f"filter `{plugin.use}`": by(rules_of("filters", (plugin,)))
        for plugin in FilterSettings().filters
    }
    for plugin in TranscribeSettings().verdicts:
        sets[f"`{plugin.use}`"] = by(rules_of("text", (plugin,)))
    sets["all, before"] = all_of(BEFORE)
    sets["all"] = all_of(TranscribeSettings().verdicts)
    members = groups(rows)
    found = {name: rates(members, ("wrong", "sounds"), drops) for name, drops in sets.items()}
    cells = [[name, *(of(*pair) for pair in each.values())] for name, each in found.items()]
    checked = references(rows)
    asked = table(("with a reference", "faults"), [[n, of(*pair)] for n, pair in checked.items()])
    return table(HEAD, cells) + "\n\n" + asked, {"alone": found, "references": checked}


def references(rows: Sequence[Row]) -> dict[str, list[int]]:
    """Of clean clips of two words or more: dropped with their own text as the source's reference,
    and kept with the next clip's of the same language; and of noisy ones that the reference
    confirms, dropped. [faults, clips] each."""
    drops = all_of(TranscribeSettings().verdicts)
    clean = [r for r in rows if r.group == "clean" and not is_short(r) and r.said]
    own = [drops(r.beside(str(r.said))) for r in clean]
    other = []
    for language in sorted({str(r.language) for r in clean}):
        members = [r for r in clean if r.language == language]
        for row, following in pairwise(members):
            if following.said != row.said:
                other.append(drops(row.beside(str(following.said))))
    noisy = [r for r in rows if r.group == "mixed" and r.said and r.values["text"] and not r.wrong]
    confirmed = [drops(r.beside(str(r.said))) for r in noisy]
    return {
        "own reference dropped": [sum(own), len(own)],
        "another's reference kept": [len(other) - sum(other), len(other)],
        "noisy, confirmed, dropped": [sum(confirmed), len(confirmed)],
    }
