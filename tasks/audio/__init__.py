"""Decoding and encoding; only this package decodes recordings.

`open_stream` decodes a recording block by block; a `Clip` is one utterance of a recording;
`encoding` makes the files of a dataset.
"""

from typing import TYPE_CHECKING, Any

from ..recording.container import digest
from .blocks import BLOCK_FRAMES, BLOCK_VALUES
from .clip import MATERIALISE_SECONDS, Clip
from .types import Header, Samples
from .wav import wav_header, write_wav_bytes

if TYPE_CHECKING:
    from .encoding import (
        DELAYS,
        MP3_LEAST,
        MP3_RATES,
        OPUS_PACKET,
        OPUS_RATES,
        decode_int16,
        encodes,
        stated_delay,
        write_flac_bytes,
        write_mp3_bytes,
        write_opus_bytes,
        write_small_mp3_bytes,
    )
    from .stream import Stream, open_stream, picked, probe, read_mix, read_span

_DECODING = {"Stream", "open_stream", "picked", "probe", "read_mix", "read_span"}
_ENCODING = {
    *("DELAYS", "MP3_LEAST", "MP3_RATES", "OPUS_PACKET", "OPUS_RATES"),
    *("decode_int16", "encodes", "stated_delay"),
    *("write_flac_bytes", "write_mp3_bytes", "write_opus_bytes", "write_small_mp3_bytes"),
}


def __getattr__(name: str) -> Any:
    """PyAV and libsndfile take 0.1 s to import, so what needs them is imported on first use: the
    main process of a run on workers lists, plans and publishes without them."""
    if name not in _DECODING | _ENCODING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import encoding, stream

    return getattr(stream if name in _DECODING else encoding, name)
