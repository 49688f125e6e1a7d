"""Prints log lines above live progress bars."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TextIO

from rich.console import Console
from rich.file_proxy import FileProxy


@contextmanager
def shared_console(console: Console, stream: TextIO) -> Iterator[None]:
    """Inside, log handlers that write to `stream` print through `console`, above the bars.

    Otherwise log lines and bars would garble each other. Prefect's handlers have their own
    console; plain handlers write to the stream.
    """
    with ExitStack() as restore:
        for handler in handlers():
            own = getattr(handler, "console", None)
            if isinstance(own, Console) and own.file in (stream, sys.stderr):
                restore.callback(setattr, handler, "console", own)
                handler.console = console  # type: ignore[attr-defined]
            elif isinstance(handler, logging.StreamHandler) and handler.stream is stream:
                restore.callback(handler.setStream, stream)
                handler.setStream(FileProxy(console, stream))
        yield


def handlers() -> list[logging.Handler]:
    """Of all loggers, each once."""
    loggers = [logging.getLogger(), *logging.root.manager.loggerDict.values()]
    # One handler may serve several loggers; placeholders in the list have none.
    found = {id(h): h for log in loggers if isinstance(log, logging.Logger) for h in log.handlers}
    return list(found.values())
