"""Channel layouts: the weight of each channel in the mix to mono, as in FFmpeg.

Mono and stereo are mixed as the plain mean, and so are channels without stated positions, such as
those of a microphone array.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from av.audio.layout import AudioLayout

from .types import Weights

_CLOSE, _AROUND = 2**-0.5, 0.5
#: swresample's share of each position in a centre channel; others (LFE, heights) are left out.
_SHARES = {
    "FC": 1.0,
    **dict.fromkeys(("FL", "FR", "FLC", "FRC"), _CLOSE),
    **dict.fromkeys(("BL", "BR", "BC", "SL", "SR"), _AROUND),
}
#: FFmpeg's names for channels without a position.
_NOWHERE = ("UNK", "UNSD", "NONE", "USR", "AMBI")
#: Positions in Vorbis's order, by number of channels.
_VORBIS = {
    3: ("FL", "FC", "FR"),
    4: ("FL", "FR", "BL", "BR"),
    5: ("FL", "FC", "FR", "BL", "BR"),
    6: ("FL", "FC", "FR", "BL", "BR", "LFE"),
    7: ("FL", "FC", "FR", "SL", "SR", "BC", "LFE"),
    8: ("FL", "FC", "FR", "SL", "SR", "BL", "BR", "LFE"),
}
#: A custom order as FFmpeg writes it: "3 channels (FC+FL+FR)".
_ORDER = re.compile(r"\d+ channels \(([^)]*)\)")


def weights(places: Sequence[str]) -> Weights | None:
    """Weights of channels at these positions, in FFmpeg's words; their sum is at most 1, so that
    the mix cannot exceed full scale. None: the plain mean."""
    if len(places) < 3 or any(place.startswith(_NOWHERE) for place in places):
        return None
    shares = [_SHARES.get(place, 0.0) for place in places]
    total = sum(shares)
    return tuple(share / max(total, 1.0) for share in shares) if total else None


def custom(name: str) -> tuple[str, ...]:
    """The positions in the name of FFmpeg's layout if their order is unusual; empty if it is usual,
    as in "5.1(side)"."""
    order = _ORDER.fullmatch(name)
    return tuple(order[1].split("+")) if order else ()


def weights_of(layout: AudioLayout) -> Weights | None:
    """Weights of an FFmpeg layout with the usual order; None: the plain mean."""
    if layout.nb_channels < 3 or layout.name.endswith(" channels"):
        return None
    return weights([channel.name for channel in layout.channels])


def of_ogg(head: bytes, channels: int) -> Weights | None:
    """Weights from the first bytes of an Ogg file: Vorbis prescribes an order, which Opus shares if
    its mapping family is 1 (RFC 7845, 5.1.1)."""
    start = head.find(b"OpusHead")
    if start >= 0 and head[start + 18 : start + 19] != b"\1":
        return None
    return weights(_VORBIS.get(channels, ()))
