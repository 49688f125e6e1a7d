"""Counts the clips that the usual readers of a version's formats would drop, and names a remedy.

Each warning names a setting of uttermill and one of the trainer.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, cast

from ... import plugins
from ...base import language_codes
from ...base.counting import counted
from ...plugins.contracts.formats import FRAMES_PER_SECOND, Bound, ReaderLimits
from ...settings import Plugin
from ...storage.queries import literal
from ..published import Dataset

_FRAMES = f"num_samples / sample_rate * {FRAMES_PER_SECOND}"
_WHITE = literal("".join(filter(str.isspace, map(chr, range(0x3001)))))
_CHARACTERS = f"length(trim(coalesce(text, ''), {_WHITE}))"
#: SQL of every `Measure` of a clip.
MEASURES = {
    "seconds": "num_samples / sample_rate",
    "frames": _FRAMES,
    "characters": _CHARACTERS,
    "characters_per_frame": f"coalesce({_CHARACTERS} / nullif({_FRAMES}, 0), 0)",
}
#: Settings of segmenters that make clips shorter, and longer.
SHORTER = ("target_seconds", "max_seconds", "whole_up_to")
LONGER = ("min_seconds",)


class ReaderDrop(TypedDict):
    """The clips of a split that one bound of a trainer's reader drops."""

    format: str
    split: str
    clips: int  # of the split
    dropped: int  # a clip counts for the first bound that it breaks
    setting: str  # of the trainer; `language`: the reader reads only some languages; empty: none
    limit: float | None
    warning: str  # a sentence for people


def of_version(version: Path, formats: Sequence[Plugin], segmenter: Plugin) -> list[ReaderDrop]:
    """One entry for each bound that drops clips of a split, in the order of formats and splits."""
    entries: list[ReaderDrop] = []
    for use, (module, settings) in {p.use: plugins.FORMATS.resolve(p) for p in formats}.items():
        if (reader := module.reader(settings)) is None:
            continue
        for split, counts in _count(version, reader).items():
            clips = counts.total()
            about = {"format": use, "split": split, "clips": clips}
            if n := counts[0]:
                says = _other_language(use, split, reader, n, clips)
                entry = {"dropped": n, "setting": "language", "limit": None, "warning": says}
                entries.append(cast(ReaderDrop, {**about, **entry}))
            for place, bound in enumerate(reader.bounds, 1):
                if n := counts[place]:
                    says = _sentence(use, split, reader, bound, n, clips, segmenter)
                    entry = {"dropped": n, "setting": bound.setting, "limit": bound.limit}
                    entries.append(cast(ReaderDrop, {**about, **entry, "warning": says}))
    return entries


def _count(version: Path, reader: ReaderLimits) -> dict[str, Counter[int | None]]:
    """For each split, the number of clips by what drops them: 0 their language, from 1 on the first
    of the bounds that they break, None nothing."""
    query, codes = Dataset(version).query, reader.languages
    languages = query("SELECT DISTINCT language FROM utterances")["language"].to_pylist()
    foreign = [n or "" for n in languages if codes and language_codes.base(n or "") not in codes]
    tests = [f"coalesce(language, '') IN ({', '.join(map(literal, foreign)) or 'NULL'})"]
    for bound in reader.bounds:
        sign = "<" if bound.side == "min" else ">"
        tests.append(f"{MEASURES[bound.measure]} {sign} '{bound.limit!r}'::DOUBLE")
    cases = " ".join(f"WHEN {test} THEN {place}" for place, test in enumerate(tests))
    sql = f"SELECT split, CASE {cases} END AS place, count(*) AS n FROM utterances GROUP BY ALL"
    counts: dict[str, Counter[int | None]] = {}
    for row in query(f"{sql} ORDER BY split").to_pylist():
        if reader.splits is None or row["split"] in reader.splits:
            counts.setdefault(row["split"], Counter())[row["place"]] = row["n"]
    return counts


def _other_language(use: str, split: str, reader: ReaderLimits, dropped: int, clips: int) -> str:
    codes = ", ".join(reader.languages or ())
    return (
        f"{use}: {reader.reader} would drop {dropped} of {counted(clips, 'clip')} of split {split} "
        f"(it reads only the languages {codes}); leave others out with package.only.language, or "
        f"add theirs in the trainer's {reader.where}"
    )


def _sentence(
    use: str,
    split: str,
    reader: ReaderLimits,
    bound: Bound,
    dropped: int,
    clips: int,
    segmenter: Plugin,
) -> str:
    change = "raise" if bound.side == "max" else "lower"
    remedy = _remedy(bound, segmenter)
    if dropped == clips and bound.needs_text:
        remedy = "if the trainer needs texts, choose a recogniser with transcribe.backend"
    if not bound.setting:
        return (
            f"{use}: {dropped} of {counted(clips, 'clip')} of split {split} "
            f"{'has' if dropped == 1 else 'have'} {_meaning(bound)}, which {reader.reader} needs; "
            f"{remedy}"
        )
    return (
        f"{use}: {reader.reader} would drop {dropped} of {counted(clips, 'clip')} of split {split} "
        f"({bound.setting} {bound.limit:g}: {_meaning(bound)}); {remedy}, or "
        f"{change} {bound.setting} in the trainer's {reader.where}"
    )


def _meaning(bound: Bound) -> str:
    if bound.measure == "characters_per_frame":
        word = "more" if bound.side == "max" else "fewer"
        return f"{word} than {bound.limit * FRAMES_PER_SECOND:g} characters a second"
    if bound.measure == "characters":
        if bound.side == "min":
            return "no text"
        return f"text longer than {bound.limit:g} characters"
    frames = FRAMES_PER_SECOND if bound.measure == "frames" else 1
    word = "longer" if bound.side == "max" else "shorter"
    return f"{word} than {bound.limit / frames:g} s"


def _remedy(bound: Bound, segmenter: Plugin) -> str:
    """A remedy by settings of uttermill; of a segmenter, it names only settings that it has."""
    if bound.measure == "characters_per_frame":
        return "drop them with char_rate in transcribe.verdicts"
    if bound.needs_text:
        return "drop them with empty_text in transcribe.verdicts"
    fields = plugins.SEGMENTERS.load(segmenter.use).Settings.model_fields
    names = [name for name in (SHORTER if bound.side == "max" else LONGER) if name in fields]
    if bound.side == "max":
        if not names:
            return "cut them at pauses with filter.segmenter.use=vad"
        return f"shorten them with filter.segmenter.{'/'.join(names)}"
    if not names:
        return "drop them with filter.filters.duration.min"
    return f"lengthen them with filter.segmenter.{names[0]}"
