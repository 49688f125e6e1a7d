"""Sources list recordings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from tasks.plugins.contracts.base import LoadedPlugin, PluginModule
from tasks.settings import SourceSettings

if TYPE_CHECKING:
    from tasks.recording import Ignored, Recording


class SourceModule(PluginModule, Protocol):
    @property
    def Settings(self) -> type[SourceSettings]:
        """`kind` is a Literal of the file's name."""

    def recordings(self, settings: Any) -> Iterator[Recording | Ignored]:
        """Everything that the source holds, in a stable order; reads no audio. ConfigError, before
        the first recording, when the path cannot be read; a single bad entry is a Recording with
        `error`, or Ignored with the reason."""


class Source(SourceModule, LoadedPlugin, Protocol):
    @property
    def Settings(self) -> type[SourceSettings]: ...
