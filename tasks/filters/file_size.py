"""Size of the utterance's encoded recording, in bytes."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from ..audio import Clip
from ..settings import StageSettings, Threshold

VERSION = 1
COLUMNS = {"file_size": ("bytes", "encoded size of the whole recording")}
REASONS = {"file_size": ("too_small", "too_large")}

#: Powers of 1000 (`k`, `kB`) and, with an `i`, of 1024 (`Ki`, `KiB`).
_SIZE = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*(?:([kmgt])(i?))?b?(?:ytes?)?\s*", re.IGNORECASE)


def parse_size(value: object) -> object:
    """Bytes from `20KiB`, `1.5MB` or `800`; other types are returned for pydantic to check.

    >>> parse_size("1.5MB"), parse_size("20KiB"), parse_size(7)
    (1500000, 20480, 7)
    """
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(value)
    if match is None:
        raise ValueError(f"{value!r} is not a size; write 1500000, 1.5MB or 20KiB")
    power = " kmgt".index((match[2] or " ").lower())
    return round(float(match[1]) * (1024 if match[3] else 1000) ** power)


Size = Annotated[int, BeforeValidator(parse_size), Field(ge=0)]


class Settings(StageSettings):
    min: Size | None = Threshold(None, "Smallest recording kept: 20KiB, 1.5MB, 800.")
    max: Size | None = Threshold(None, "Largest recording kept: 20KiB, 1.5MB, 800.")


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    return {"file_size": float(clip.recording_bytes)}
