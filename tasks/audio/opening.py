"""Opening a file object with FFmpeg (PyAV): allowed demuxers, error detection, the header.

FFmpeg never sees a path or a name, and may open no other file: it judges by content alone.
"""

from __future__ import annotations

import logging
from typing import BinaryIO, NoReturn

import av
from av.audio.codeccontext import AudioCodecContext
from av.audio.layout import AudioLayout
from av.audio.stream import AudioStream
from av.container import InputContainer

from tasks.audio.damage.flac_md5 import STREAMINFO, info_in
from tasks.audio.nameless import Nameless
from tasks.audio.packets import in_words, listening
from tasks.audio.types import AGAIN, Header
from tasks.base.errors import ItemError

#: Demuxers that read one file of audio (or video). No playlist, script, image or device.
_FORMATS = (
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dts,dtshd,eac3,flac,flv,gsm,matroska,mov,mp3,"
    "mp4,mpc,mpc8,mpeg,mpegts,mxf,nistsphere,nut,ogg,oma,qcp,rm,tak,truehd,tta,voc,w64,wav,wtv,wv,"
    "xwma"
)
_OPTIONS = {
    "format_whitelist": _FORMATS,
    "protocol_whitelist": "none",
    "probesize": "5000000",  # bytes
    "analyzeduration": "5000000",  # microseconds
}
#: Codecs in which every frame has a checksum; FFmpeg drops the frames whose checksum is wrong.
CHECKED = {"flac", "wavpack", "tta"}
DROP_WRONG = "crccheck+explode"
#: In other codecs FFmpeg reports a fault and decodes on. It checks the checksums of AC-3, of E-AC-3
#: and of MPEG frames that have one, and the number of bits in each frame.
_REPORT_WRONG = "crccheck+bitstream+buffer"
#: No codec packs more samples into a byte; a header that claims more is wrong.
FRAMES_PER_BYTE = 20_000

# FFmpeg's messages become faults, or are irrelevant.
logging.getLogger("libav").addHandler(logging.NullHandler())
logging.getLogger("libav").propagate = False


def open_container(file: BinaryIO) -> InputContainer:
    """The container in a file object. ValueError with FFmpeg's messages where it cannot open one;
    av.FFmpegError where it gives none."""
    with listening() as heard:
        try:
            return av.open(Nameless(file), "r", container_options=_OPTIONS, io_open=_refuse)
        except av.FFmpegError as error:
            if not heard:
                raise
            said = dict.fromkeys(words.rstrip(".") for words in in_words(heard))
            raise ValueError("; ".join([*said][:3])) from error


def audio_stream(container: InputContainer, check: bool) -> AudioStream:
    """The first audio stream, set to one thread. ItemError `unreadable` if there is none.

    `check`: whether codecs with a checksum in every frame drop the frames in which it is wrong.
    """
    if not container.streams.audio:
        raise ItemError("unreadable", "it has no audio stream; take it out of the source")
    stream = container.streams.audio[0]
    context: AudioCodecContext | None = stream.codec_context
    if context is None:  # FFmpeg has no decoder for this codec
        raise ItemError("unreadable", "no decoder here knows its codec; convert it to FLAC")
    context.thread_count = 1
    checked = context.name in CHECKED
    if check or not checked:
        context.options = {"err_detect": DROP_WRONG if checked else _REPORT_WRONG}
    _number_channels(context)
    return stream


def header_of(name: str, stream: AudioStream, first: av.AudioFrame | None, size: int) -> Header:
    """The header of a file of `size` bytes in container `name`, from its first decoded frame.

    The codec's own rate and channels are wrong for HE-AAC, among others: the first frame has the
    right ones. ItemError `unreadable` where neither has any.
    """
    context = stream.codec_context
    header = Header(
        first.sample_rate if first is not None else context.sample_rate,
        first.layout.nb_channels if first is not None else context.layout.nb_channels,
        _promised_frames(stream, first, size),
        f"{name}/{_codec(name, context)}".lower(),
        "av",
    )
    if not (header.rate > 0 and header.channels > 0):
        raise ItemError("unreadable", f"no frame of it can be decoded; {AGAIN}")
    return header


def _number_channels(context: AudioCodecContext) -> None:
    """Replace an unusual order of channels by plain numbers: PyAV frees the list of such an order
    once for each copy of it, which ends the process."""
    layout = context.layout
    if " channels (" in layout.name:  # "3 channels (FC+FL+FR)"; the usual ones are "5.1(side)"
        _KEPT.append(layout)
        context.layout = f"{layout.nb_channels} channels"


_KEPT: list[AudioLayout] = []  # a few bytes each, never freed here because FFmpeg frees them


def _refuse(url: str, flags: int, options: dict[str, str]) -> NoReturn:
    raise PermissionError(f"a recording may not open other files: {url}")


def _codec(container: str, context: AudioCodecContext) -> str:
    """The codec's name. For a FLAC file its sample format, in libsndfile's words: `duplicate`
    prefers 24 bits to 16."""
    info = info_in(STREAMINFO + bytes(context.extradata or b"")) if container == "flac" else None
    return context.name if info is None else info.kind


def _promised_frames(stream: AudioStream, first: av.AudioFrame | None, size: int) -> int | None:
    if first is None or stream.duration is None or stream.time_base is None:
        return None
    frames = round(stream.duration * stream.time_base * first.sample_rate)
    return frames if 0 < frames <= size * FRAMES_PER_BYTE else None
