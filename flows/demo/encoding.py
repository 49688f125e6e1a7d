"""Encodes the demo's audio files in memory, so that their bytes depend only on their samples."""

from __future__ import annotations

import io

import numpy as np

from flows.demo.speech import Samples


def encode(samples: Samples, rate: int, extension: str, subtype: str) -> bytes:
    """A whole audio file, with nothing in it that depends on the clock or on chance."""
    buffer = io.BytesIO()
    if extension in ("m4a", "mp4"):
        _aac(buffer, samples, rate)
    elif subtype == "FLOAT":
        from scipy.io import wavfile  # libsndfile writes the time into float files

        wavfile.write(buffer, rate, samples)
    else:
        import soundfile

        soundfile.write(buffer, samples, rate, subtype, format=extension.upper())
    return _renumbered(buffer.getvalue()) if extension == "ogg" else buffer.getvalue()


def _aac(buffer: io.BytesIO, samples: Samples, rate: int) -> None:
    import av

    planes = np.atleast_2d(samples.T)
    layout = "mono" if len(planes) == 1 else "stereo"
    with av.open(buffer, "w", format="mp4", container_options={"fflags": "+bitexact"}) as out:
        stream = out.add_stream("aac", rate=rate, layout=layout)
        for start in range(0, planes.shape[1], 1024):
            block = np.ascontiguousarray(planes[:, start : start + 1024])
            frame = av.AudioFrame.from_ndarray(block, format="fltp", layout=layout)
            frame.sample_rate = rate
            frame.pts = start
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))


def _renumbered(ogg: bytes) -> bytes:
    """The same packets with a fixed stream number: libsndfile chooses one at random."""
    import av

    buffer = io.BytesIO()
    options = {"fflags": "+bitexact"}
    with (
        av.open(io.BytesIO(ogg), "r") as source,
        av.open(buffer, "w", format="ogg", container_options=options) as out,
    ):
        stream = out.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(source.streams.audio[0]):
            if packet.dts is not None:  # the last one only marks the end
                packet.stream = stream
                out.mux(packet)
    return buffer.getvalue()
