"""Drops outliers in seconds per character: texts that are far too short or long for their clips.

Emilia's rule (He et al. 2024, arXiv 2407.05361): keep q1 - 1.5 IQR <= seconds / characters <= q3 +
1.5 IQR, characters without punctuation and spaces, quartiles by linear interpolation over all
transcribed utterances with characters, whatever rules on text say. Here figures count as spoken.
(Emilia counts them as written, and also transcribes, and counts, what its filters drop later.)
Emilia's quartiles are per recording (`per: recording`); the default is per language of a dataset
with at least `min_group` utterances, and its bounds are frozen when the first version is published.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..base.arrays import Float64s, Int64s, UInt64s
from ..base.json_types import JsonObject
from ..scoring import said
from . import Rejection, Rows, StageSettings, Threshold

LEFT_OUT = str.maketrans("", "", ",.!?\"'，。！？“”‘’ ")


class Settings(StageSettings):
    per: Literal["language", "recording"] = Threshold(
        "language", "language: of each dataset, frozen; recording: as Emilia does it."
    )
    width: float = Threshold(1.5, "Interquartile ranges beyond a quartile.", ge=0)
    min_group: int = Threshold(20, "Smaller groups have no bounds; 1 is Emilia's.", ge=1)


def characters(text: str | None, language: str | None = None) -> int:
    """Without punctuation and spaces; of figures, those of their words."""
    return len(said(text or "", language).translate(LEFT_OUT))


def quartiles(values: Float64s) -> list[float]:
    """First and third, by linear interpolation."""
    return [float(quartile) for quartile in np.percentile(values, [25, 75])]


def bounds(low: float, high: float, width: float) -> tuple[float, float]:
    """Lowest and highest value kept."""
    margin = width * (high - low)
    return low - margin, high + margin


def reject(
    rows: Rows, settings: Settings, frozen: JsonObject
) -> tuple[Iterable[tuple[int, Rejection]], JsonObject]:
    """Rejections of kept rows outside the bounds of their group, and the quartiles to freeze, by
    group."""
    stay = settings.per == "language"
    columns = ("dataset", "language") if stay else ("recording",)
    names: dict[int, str] = {}  # of groups whose quartiles are frozen, which are few
    ratio, group = np.zeros(len(rows)), np.zeros(len(rows), np.uint64)
    kept = np.zeros(len(rows), bool)
    start = 0
    for table in rows.tables("text", "seconds", "kept", "language", columns[0]):
        some = slice(start, start + len(table))
        start = some.stop
        texts = (table[name].to_pylist() for name in ("text", "language"))
        chars = np.array([*map(characters, *texts)], np.float64)
        ratio[some] = np.divide(
            table["seconds"].to_numpy(), chars, where=chars > 0, out=np.full(len(chars), np.nan)
        )
        group[some] = _groups(table.select(columns), names if stay else {})
        kept[some] = table["kept"].to_numpy()
    quartiles_of: dict[str, list[float]] = dict(frozen) if stay else {}
    fresh: dict[str, list[float]] = {}
    outside = list[tuple[Int64s, float, float]]()  # rows, and the bounds that they break
    judged = np.flatnonzero(~np.isnan(ratio))
    judged = judged[np.argsort(group[judged], kind="stable")]
    edges = np.flatnonzero(np.diff(group[judged])) + 1
    for members in np.split(judged, edges) if len(judged) else ():
        name = names.get(int(group[members[0]]), "")
        pair = quartiles_of.get(name)
        if pair is None:
            if len(members) < settings.min_group:
                continue
            pair = fresh[name] = quartiles(ratio[members])
        low, high = bounds(pair[0], pair[1], settings.width)
        inside = (low <= ratio[members]) & (ratio[members] <= high)
        outside.append((members[kept[members] & ~inside], low, high))
    return _rejections(outside, ratio), quartiles_of | dict(sorted(fresh.items())) if stay else {}


def _groups(table: pa.Table, names: dict[int, str]) -> UInt64s:
    """The hash of each row's group; `names` gets the groups' names, by hash."""
    texts = (pc.fill_null(column, "None") for column in table.columns)
    joined = pc.binary_join_element_wise(*texts, "/")
    coded = joined.dictionary_encode().combine_chunks()
    names_of = coded.dictionary.to_pylist()
    data = b"".join(hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names_of)
    hashes = np.frombuffer(data, "<u8").astype(np.uint64)
    names.update(zip(hashes.tolist(), names_of, strict=True))
    codes: UInt64s = hashes[coded.indices.to_numpy()]
    return codes


def _rejections(
    outside: Iterable[tuple[Int64s, float, float]], ratio: Float64s
) -> Iterator[tuple[int, Rejection]]:
    for rows, low, high in outside:
        for row, value in zip(rows.tolist(), ratio[rows].tolist(), strict=True):
            fast = value < low
            reason = "fast_speech" if fast else "slow_speech"
            yield row, Rejection(reason, value, low if fast else high, "seconds per character")
