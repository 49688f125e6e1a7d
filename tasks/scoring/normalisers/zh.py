"""Chinese (Mandarin and Cantonese): numerals as figures, characters simplified one by one.

Recognisers write simplified or traditional characters at random. The table is OpenCC's
(`opencc-python-reimplemented`); characters that only a phrase disambiguates (乾坤) are simplified
too, on both sides alike.
"""

from __future__ import annotations

from functools import lru_cache

from .. import _plain
from . import _han


@lru_cache(maxsize=1)
def _simplified() -> dict[int, str]:
    from importlib.resources import files

    lines = files("opencc").joinpath("dictionary", "TSCharacters.txt").read_text("utf-8")
    pairs = (line.split()[:2] for line in lines.splitlines() if line.strip())
    return {ord(old): new for old, new in pairs}


def normalise(text: str) -> str:
    text = _plain.compatible(text).translate(_simplified())
    return _han.in_figures(_plain.folded(_han.signs_read(text, "负", r"百分之\1"), "zh"))
