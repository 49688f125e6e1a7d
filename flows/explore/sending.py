"""Answers that are too large for memory: made in a file first, then sent from it.

So what goes wrong while a file is made is an answer with a sentence; what goes wrong while it is
sent breaks the connection before `Content-Length` is reached, which every client sees. A client
that reads slowly, or not at all, costs no thread and no memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, cast

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

BLOCK = 1 << 18  # bytes that are read at once


class Sent(StreamingResponse):
    """`size` bytes of an open file, from where it stands; it is closed however the answer ends."""

    def __init__(
        self, file: IO[bytes], size: int, kind: str, headers: Mapping[str, str], status: int = 200
    ) -> None:
        sized = {**headers, "Content-Length": str(size)}
        super().__init__(_blocks(file, size), status, sized, kind)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            await super().__call__(scope, receive, send)


def made(home: Path, write: Callable[[IO[bytes]], object]) -> tuple[IO[bytes], int]:
    """(an open file in the folder `home`, its size): `write` fills it; closed, it is gone."""
    file = cast(IO[bytes], tempfile.NamedTemporaryFile(dir=home))  # noqa: SIM115
    try:
        write(file)
        size = file.seek(0, 2)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file, size


def _blocks(file: IO[bytes], size: int) -> Iterator[bytes]:
    while size:
        block = file.read(min(size, BLOCK))
        if not block:
            raise OSError("the file that is sent was cut short")
        size -= len(block)
        yield block
