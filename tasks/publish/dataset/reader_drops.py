"""Counts the clips that the usual readers of a version's formats would drop, and names a remedy.

Reads columns of `utterances.parquet` a row group at a time, so that memory does not grow with the
version. Each warning names a setting of uttermill and one of the trainer.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ... import plugins
from ...base import language_codes
from ...base.arrays import Float64s, Int64s
from ...base.counting import counted
from ...base.schema import UTTERANCES_FILE
from ...plugins.contracts.formats import FRAMES_PER_SECOND, Bound, ReaderLimits
from ...settings import Plugin
from ...storage import tables

COLUMNS = ("split", "text", "num_samples", "sample_rate", "language")
#: Settings of segmenters that make clips shorter, and longer.
SHORTER = ("target_seconds", "max_seconds", "whole_up_to")
LONGER = ("min_seconds",)

Values = Mapping[str, Float64s]


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
    resolved = {plugin.use: plugins.FORMATS.resolve(plugin) for plugin in formats}
    readers = {use: module.reader(settings) for use, (module, settings) in resolved.items()}
    limits = {use: reader for use, reader in readers.items() if reader is not None}
    entries: list[ReaderDrop] = []
    for (use, split), counts in _count(version, limits).items():
        reader, (clips, foreign, *all_dropped) = limits[use], counts.tolist()
        bounds = zip(reader.bounds, all_dropped, strict=True)
        drops: list[tuple[str, float | None, int, str]] = [
            ("language", None, foreign, _other_language(use, split, reader, foreign, clips)),
            *(
                (b.setting, b.limit, n, _sentence(use, split, reader, b, n, clips, segmenter))
                for b, n in bounds
            ),
        ]
        entries += [
            {
                "format": use,
                "split": split,
                "clips": clips,
                "dropped": dropped,
                "setting": setting,
                "limit": limit,
                "warning": warning,
            }
            for setting, limit, dropped, warning in drops
            if dropped
        ]
    return entries


def _count(version: Path, limits: Mapping[str, ReaderLimits]) -> dict[tuple[str, str], Int64s]:
    """For each (format, split), the number of clips, of clips that the reader drops for their
    language, and of clips that each bound drops from the rest; int64 [2 + bounds]. In the order of
    formats, then of splits."""
    if not limits:
        return {}
    counts: dict[tuple[str, str], Int64s] = {}
    for batch in tables.row_groups(version / UTTERANCES_FILE, COLUMNS):
        values = measures(batch)
        splits = batch["split"].to_numpy(zero_copy_only=False)
        languages = pc.unique(batch["language"]).to_pylist()
        for use, reader in limits.items():
            taken = np.ones(len(batch), bool)  # whether the reader takes each clip's language
            if (codes := reader.languages) is not None:
                some = [name for name in languages if language_codes.base(name or "") in codes]
                taken = pc.is_in(batch["language"], pa.array(some, pa.string())).to_numpy(False)
            for split in pc.unique(batch["split"]).to_pylist():
                if reader.splits is not None and split not in reader.splits:
                    continue
                inside = splits == split
                remaining = inside & taken
                dropped = [inside.sum(), (inside & ~taken).sum()]
                for bound in reader.bounds:
                    value, limit = values[bound.measure], bound.limit
                    beyond = remaining & (value < limit if bound.side == "min" else value > limit)
                    dropped.append(beyond.sum())
                    remaining &= ~beyond
                counts[use, split] = counts.get((use, split), 0) + np.array(dropped, np.int64)
    order = list(limits)
    return dict(sorted(counts.items(), key=lambda item: (order.index(item[0][0]), item[0][1])))


def measures(batch: pa.Table) -> dict[str, Float64s]:
    """Every `Measure` of the rows; float64 [rows]."""
    text = pc.utf8_trim_whitespace(pc.fill_null(batch["text"], ""))
    characters = pc.utf8_length(text).to_numpy(zero_copy_only=False).astype(np.float64)
    seconds = batch["num_samples"].to_numpy() / batch["sample_rate"].to_numpy()
    frames = seconds * FRAMES_PER_SECOND
    rate = np.divide(characters, frames, out=np.zeros_like(frames), where=frames > 0)
    return {
        "seconds": seconds,
        "frames": frames,
        "characters": characters,
        "characters_per_frame": rate,
    }


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
