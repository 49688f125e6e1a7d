"""A chain of FFmpeg audio filters, written as for `ffmpeg -af`: `highpass=f=80,loudnorm`.

Graphs with branches (`;`, `[labels]`) are refused. A comma inside an argument is written `\\,`. The
chain gets mono float32 at the target rate and must return the same number of samples: up to 20 ms
more or less at the end are trimmed or padded with zeros; more is an ItemError `unsupported`
(`atempo`, `silenceremove` and `aecho` change the length). Filters that read or write files, or wait
for commands, are refused, as their input is not part of the recipe.

The chain is built once when the settings are read, so mistakes show before any work. Results depend
on the FFmpeg version in PyAV's wheel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field, field_validator

from ..base.arrays import Float32s
from ..base.errors import ItemError
from ..settings import StageSettings

if TYPE_CHECKING:
    from av.filter import Graph

VERSION = 1
BLOCK = 4096  # samples pushed at once
SLACK_SECONDS = 0.02
TRIED_AT = 16_000  # Hz
#: Filters that depend on more than the audio.
_REFUSED = """
abench agraphmonitor ametadata amovie arealtime arnndn asendcmd azmq
ladspa lv2 metadata movie sendcmd sofalizer zmq
"""
REFUSED = _REFUSED.split()

Chain = tuple[tuple[str, str], ...]  # (filter, its arguments)


class Settings(StageSettings):
    """The chain. The default does nothing."""

    graph: str = Field("anull", max_length=2000, description="Filters, as for `ffmpeg -af`.")

    @field_validator("graph")
    @classmethod
    def _can_be_made(cls, text: str) -> str:
        import av

        try:
            _build(chain(text), TRIED_AT)
        except av.FFmpegError as error:
            raise ValueError(f"FFmpeg refuses {text!r}: {error.strerror}") from None
        return text


def chain(text: str) -> Chain:
    """`highpass=f=80,loudnorm` to (("highpass", "f=80"), ("loudnorm", "")), or ValueError."""
    filters = []
    for part in re.findall(r"(?:\\.|[^,\\])+", text, re.DOTALL):
        name, _, arguments = part.strip().partition("=")
        if not re.fullmatch(r"[a-z0-9_]+", name):
            raise ValueError(f"{part.strip()!r} is not a filter; write filters separated by commas")
        if name in REFUSED:
            raise ValueError(f"the filter {name} is refused: it depends on more than the audio")
        filters.append((name, arguments))
    if not filters:
        raise ValueError("the chain is empty; `anull` does nothing")
    return tuple(filters)


def _build(filters: Chain, rate: int) -> Graph:
    """A configured graph. ValueError for an unknown filter, FFmpegError for other mistakes."""
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


def apply(samples: Float32s, rate: int, settings: Settings) -> Float32s:
    import av

    slack = round(SLACK_SECONDS * rate)
    result = np.zeros(len(samples) + slack, np.float32)
    position = 0
    try:
        for piece in _filtered(samples, rate, chain(settings.graph)):
            if position + len(piece) > len(result):
                raise ItemError("unsupported", f"{settings.graph!r} makes the audio longer")
            result[position : position + len(piece)] = piece
            position += len(piece)
    except av.FFmpegError as error:
        raise ItemError("unsupported", f"{settings.graph!r}: {error.strerror}") from None
    if position < len(samples) - slack:
        raise ItemError("unsupported", f"{settings.graph!r} makes the audio shorter")
    return result[: len(samples)].copy()


def _filtered(samples: Float32s, rate: int, filters: Chain) -> Iterator[Float32s]:
    """The chain's output in pieces."""
    import av

    graph = _build(filters, rate)
    for position in (*range(0, len(samples), BLOCK), None):
        frame = None  # the end
        if position is not None:
            block = np.ascontiguousarray(samples[None, position : position + BLOCK])
            frame = av.AudioFrame.from_ndarray(block, format="flt", layout="mono")
            frame.sample_rate, frame.pts, frame.time_base = rate, position, Fraction(1, rate)
        graph.push(frame)
        with suppress(av.BlockingIOError, av.EOFError):  # there is no more so far
            while True:
                yield graph.pull().to_ndarray().reshape(-1).astype(np.float32, copy=False)
