"""Drops outliers in seconds per character: texts that are far too short or long for their clips.

Emilia's rule (He et al. 2024, arXiv 2407.05361): keep q1 - 1.5 IQR <= seconds / characters <=
q3 + 1.5 IQR, characters without punctuation and spaces, quartiles by linear interpolation over all
transcribed utterances with characters, whatever verdicts on text say. (Emilia also transcribes what
its filters drop later; here that is not transcribed, and not counted.) Emilia's quartiles are per
recording (`per: recording`); the default is per language of a dataset with at least `min_group`
utterances, and its bounds are frozen when the first version is published.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from tasks.json_types import JsonObject
from tasks.plugins.rules import Rejection, Rule
from tasks.settings import THRESHOLD, StageSettings

LEFT_OUT = str.maketrans("", "", ",.!?\"'，。！？“”‘’ ")


class Settings(StageSettings):
    per: Literal["language", "recording"] = Field(
        "language",
        json_schema_extra=THRESHOLD,
        description="language: of each dataset, frozen; recording: as Emilia does it.",
    )
    width: float = Field(
        1.5,
        ge=0,
        json_schema_extra=THRESHOLD,
        description="Interquartile ranges beyond a quartile.",
    )
    min_group: int = Field(
        20,
        ge=1,
        json_schema_extra=THRESHOLD,
        description="Smaller groups have no bounds; 1 is Emilia's.",
    )


def verdict(settings: Settings) -> tuple[Rule, ...]:
    """No rule on a single text: `decide` compares all."""
    return ()


def characters(text: str) -> int:
    return len(text.translate(LEFT_OUT))


def quartiles(values: NDArray[np.float64]) -> list[float]:
    """First and third, by linear interpolation."""
    return [float(quartile) for quartile in np.percentile(values, [25, 75])]


def bounds(low: float, high: float, width: float) -> tuple[float, float]:
    """Lowest and highest value that are kept."""
    margin = width * (high - low)
    return low - margin, high + margin


def decide(
    rows: pa.Table, settings: Settings, frozen: JsonObject
) -> tuple[dict[str, Rejection], JsonObject]:
    """Rejections of kept rows outside the bounds of their group, and the quartiles to freeze, by
    group."""
    chars = np.array([characters(text or "") for text in rows["text"].to_pylist()], np.float64)
    has = chars > 0
    ratio = np.divide(rows["seconds"].to_numpy(), chars, where=has, out=np.zeros(len(chars)))
    members: dict[str, list[int]] = {}
    for index, key in enumerate(_groups(rows, settings)):
        if has[index]:
            members.setdefault(key, []).append(index)
    stay = settings.per == "language"
    known: dict[str, list[float]] = dict(frozen) if stay else {}
    for key, group in sorted(members.items()):
        if key not in known and len(group) >= settings.min_group:
            known[key] = quartiles(ratio[group])
    kept, ids = rows["kept"].to_numpy(zero_copy_only=False), rows["id"].to_pylist()
    found = {}
    for key, group in members.items():
        if key not in known:
            continue
        first, third = known[key]
        low, high = bounds(first, third, settings.width)
        for index in group:
            if kept[index] and not low <= ratio[index] <= high:
                fast = ratio[index] < low
                found[ids[index]] = Rejection(
                    "fast_speech" if fast else "slow_speech",
                    float(ratio[index]),
                    low if fast else high,
                    "seconds per character",
                )
    return found, known if stay else {}


def _groups(rows: pa.Table, settings: Settings) -> list[str]:
    if settings.per == "recording":
        found: list[str] = rows["recording"].to_pylist()
        return found
    pairs = zip(rows["dataset"].to_pylist(), rows["language"].to_pylist(), strict=True)
    return [f"{dataset}/{language}" for dataset, language in pairs]
