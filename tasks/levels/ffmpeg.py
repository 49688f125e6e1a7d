"""A chain of FFmpeg's audio filters, written as for `ffmpeg -af`: `highpass=f=80,loudnorm`.

Filters follow one another; graphs with branches (`;`, `[labels]`) are refused. A comma inside an
argument is written `\\,`. The chain gets mono floats at the target rate and gives the same number
of samples back: up to 20 ms that it swallows or adds at the end are made up for, more is an
ItemError `unsupported` (`atempo`, `silenceremove`, `aecho` change the length). Filters that read or
write files or wait for commands are refused, as what they read is in no recipe.

Whether a chain can be made is tried when the settings are read. What a filter computes depends on
the version of FFmpeg that PyAV's wheel holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from tasks.errors import ItemError
from tasks.settings import StageSettings

VERSION = 1
BLOCK = 4096  # samples that are pushed at once
SLACK_SECONDS = 0.02
TRIED_AT = 16_000  # Hz
OUTSIDE = {
    "abench", "agraphmonitor", "ametadata", "amovie", "arealtime", "arnndn", "asendcmd", "azmq",
    "ladspa", "lv2", "metadata", "movie", "sendcmd", "sofalizer", "zmq",
}  # fmt: skip

Chain = tuple[tuple[str, str], ...]  # (filter, its arguments)


class Settings(StageSettings):
    """The chain. The default does nothing."""

    graph: str = Field("anull", max_length=2000, description="Filters, as for `ffmpeg -af`.")

    @field_validator("graph")
    @classmethod
    def _can_be_made(cls, text: str) -> str:
        import av

        try:
            _made(chain(text), TRIED_AT)
        except av.FFmpegError as error:
            raise ValueError(f"FFmpeg refuses {text!r}: {error.strerror}") from None
        return text


def chain(text: str) -> Chain:
    """`highpass=f=80,loudnorm` to (("highpass", "f=80"), ("loudnorm", "")); ValueError."""
    found = []
    for part in re.findall(r"(?:\\.|[^,\\])+", text, re.DOTALL):
        name, _, arguments = part.strip().partition("=")
        if not re.fullmatch(r"[a-z0-9_]+", name):
            raise ValueError(f"{part.strip()!r} is no filter; write filters after one another")
        if name in OUTSIDE:
            raise ValueError(f"the filter {name} is refused: it depends on more than the audio")
        found.append((name, arguments))
    if not found:
        raise ValueError("a chain of filters has one at least")
    return tuple(found)


def _made(filters: Chain, rate: int) -> Any:
    """A filter graph, configured. ValueError for an unknown filter, FFmpegError for the rest."""
    import av

    av.logging.set_level(None)
    graph = av.filter.Graph()
    last = graph.add_abuffer(
        sample_rate=rate, format="flt", layout="mono", time_base=Fraction(1, rate)
    )
    same = ("aformat", f"sample_fmts=flt:sample_rates={rate}:channel_layouts=mono")
    for name, arguments in (*filters, same, ("abuffersink", "")):
        node = graph.add(name, arguments or None)
        last.link_to(node)
        last = node
    graph.configure()
    return graph


def apply(samples: NDArray[np.float32], rate: int, settings: Settings) -> NDArray[np.float32]:
    import av

    slack = round(SLACK_SECONDS * rate)
    result = np.zeros(len(samples) + slack, np.float32)
    at = 0
    try:
        for piece in _filtered(samples, rate, chain(settings.graph)):
            if at + len(piece) > len(result):
                raise ItemError("unsupported", f"{settings.graph!r} makes the audio longer")
            result[at : at + len(piece)] = piece
            at += len(piece)
    except av.FFmpegError as error:
        raise ItemError("unsupported", f"{settings.graph!r}: {error.strerror}") from None
    if at < len(samples) - slack:
        raise ItemError("unsupported", f"{settings.graph!r} makes the audio shorter")
    return result[: len(samples)].copy()


def _filtered(samples: NDArray[np.float32], rate: int, filters: Chain) -> Iterator[Any]:
    import av

    graph = _made(filters, rate)
    for at in range(0, len(samples), BLOCK):
        block = np.ascontiguousarray(samples[None, at : at + BLOCK])
        frame = av.AudioFrame.from_ndarray(block, format="flt", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = rate, at, Fraction(1, rate)
        graph.push(frame)
        yield from _pulled(graph)
    graph.push(None)
    yield from _pulled(graph)


def _pulled(graph: Any) -> Iterator[Any]:
    """What has come out of a graph so far."""
    import av

    while True:
        try:
            frame = graph.pull()
        except (av.BlockingIOError, av.EOFError):
            return
        yield frame.to_ndarray().reshape(-1)
