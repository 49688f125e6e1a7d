"""The audio track that is read of a file with several: the one that is flagged as default, or the
first, unless it is silent; then the next that is not."""

from __future__ import annotations

from contextlib import suppress
from typing import cast

import av
import numpy as np
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.packet import Packet
from av.stream import Disposition, Stream

from tasks.audio.frames import grid
from tasks.recording.tracks import NOT_READ

SILENT = 1e-4  # -80 dBFS: a track without a louder sample is silent


def chosen(container: InputContainer) -> int:
    """Number of the track, from 0. The container is read to its end where tracks are silent."""
    streams = container.streams.audio
    playable = [n for n, stream in enumerate(streams) if stream.codec_context is not None]
    order = sorted(playable, key=lambda track: not _is_default(streams[track]))
    if not order:
        return 0
    track_at = {streams[track].index: track for track in order}
    heard: set[int] = set()
    # PyAV raises an IndexError at a stream that began after the header.
    with suppress(IndexError):
        for packet in container.demux(*(streams[track] for track in order)):
            track = track_at[packet.stream.index]
            if track not in heard and _sounds(packet):
                heard.add(track)
                if track == order[0]:
                    break
    return next((track for track in order if track in heard), order[0])


def _is_default(stream: AudioStream) -> bool:
    return bool(stream.disposition & Disposition.default)


def _sounds(packet: Packet[Stream]) -> bool:
    try:
        frames = cast("Packet[AudioStream]", packet).decode()
    except av.FFmpegError:
        return False
    return any(
        bool((np.abs(grid(frame, frame.layout.nb_channels)) > SILENT).any()) for frame in frames
    )


def not_read(container: InputContainer, track: int) -> list[str]:
    """A sentence for each other track, with its title and language."""
    return [
        f"{NOT_READ} {number}{_words(stream)} is not read; `track: {number}` of the source reads it"
        for number, stream in enumerate(container.streams.audio)
        if number != track
    ]


def _words(stream: AudioStream) -> str:
    texts = [stream.metadata.get(name, "")[:40] for name in ("title", "language")]
    named = [words for words in texts if words and words != "und"]
    return f" ({', '.join(named)})" if named else ""
