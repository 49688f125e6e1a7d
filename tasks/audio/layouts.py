"""Layouts of channels: how much of each channel belongs into the mix to one, as FFmpeg mixes.

Mono and stereo are mixed as the plain mean, and so are channels whose places nobody states, those
of an array of microphones for example.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from av.audio.layout import AudioLayout

from tasks.audio.types import Weights

_CLOSE, _AROUND = 2**-0.5, 0.5
#: What swresample mixes into a centre of each place; others (LFE, heights) it leaves out.
_SHARES = {
    "FC": 1.0,
    **dict.fromkeys(("FL", "FR", "FLC", "FRC"), _CLOSE),
    **dict.fromkeys(("BL", "BR", "BC", "SL", "SR"), _AROUND),
}
#: FFmpeg's words for channels without a place.
_NOWHERE = ("UNK", "UNSD", "NONE", "USR", "AMBI")
#: Places in the order that Vorbis prescribes for a number of channels.
_VORBIS = {
    3: ("FL", "FC", "FR"),
    4: ("FL", "FR", "BL", "BR"),
    5: ("FL", "FC", "FR", "BL", "BR"),
    6: ("FL", "FC", "FR", "BL", "BR", "LFE"),
    7: ("FL", "FC", "FR", "SL", "SR", "BC", "LFE"),
    8: ("FL", "FC", "FR", "SL", "SR", "BL", "BR", "LFE"),
}
#: A custom order in FFmpeg's words: "3 channels (FC+FL+FR)".
_ORDER = re.compile(r"\d+ channels \(([^)]*)\)")


def weights(places: Sequence[str]) -> Weights | None:
    """Weights of channels at these places, in FFmpeg's words; their sum is at most 1, so that the
    mix cannot be louder than full scale. None: the plain mean."""
    if len(places) < 3 or any(place.startswith(_NOWHERE) for place in places):
        return None
    shares = [_SHARES.get(place, 0.0) for place in places]
    total = sum(shares)
    return tuple(share / max(total, 1.0) for share in shares) if total else None


def custom(name: str) -> tuple[str, ...]:
    """Places by the name of FFmpeg's layout if their order is unusual; none if it is usual, as that
    of "5.1(side)"."""
    order = _ORDER.fullmatch(name)
    return tuple(order[1].split("+")) if order else ()


def weights_of(layout: AudioLayout) -> Weights | None:
    """Weights of a layout of FFmpeg whose order is usual; None: the plain mean."""
    if layout.nb_channels < 3 or layout.name.endswith(" channels"):
        return None
    return weights([channel.name for channel in layout.channels])


def of_ogg(head: bytes, channels: int) -> Weights | None:
    """Weights by the first bytes of an Ogg file: Vorbis prescribes an order, which Opus has too
    where its mapping family is 1 (RFC 7845, 5.1.1)."""
    start = head.find(b"OpusHead")
    if start >= 0 and head[start + 18 : start + 19] != b"\1":
        return None
    return weights(_VORBIS.get(channels, ()))
