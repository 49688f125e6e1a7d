"""Japanese: numerals as figures; characters stay, since Japanese has its own forms."""

from __future__ import annotations

from .. import _plain
from . import _han


def normalise(text: str) -> str:
    text = _han.signs_read(
        _plain.compatible(text).replace("ゼロ", "零"), "マイナス", r"\1パーセント"
    )
    return _han.in_figures(_plain.folded(text, "ja"))
