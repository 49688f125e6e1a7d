"""Finds and starts a cluster class by its dotted name (`cluster.kind: class`)."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from tasks.errors import ConfigError
from tasks.json_types import JsonObject


def cluster_class(name: str | None) -> Callable[..., Any]:
    """A cluster class by its dotted name; ConfigError when it cannot be imported."""
    module, _, attribute = (name or "").rpartition(".")
    try:
        with _interrupts_kept():
            found: Callable[..., Any] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"cluster.class_name: {name!r} cannot be imported: {error}") from error
    return found


def start(name: str | None, options: JsonObject) -> Any:
    """A cluster of such a class; ConfigError when the options do not fit it."""
    maker = cluster_class(name)
    try:
        return maker(**options)
    except TypeError as error:  # most often an option that it does not have
        raise ConfigError(f"cluster.options do not fit {name}: {error}") from error


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Undo what an import does to Ctrl-C: dask_jobqueue makes it end the process at once."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and signal.getsignal(signal.SIGINT) is not before:
            signal.signal(signal.SIGINT, before)
