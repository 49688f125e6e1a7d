"""Sources list recordings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...settings import SourceSettings
from .base import LoadedPlugin, PluginSettings

if TYPE_CHECKING:
    from ...recording import Ignored, Recording


class Source(LoadedPlugin):
    @property
    @abstractmethod
    def Settings(self) -> type[SourceSettings]:
        """`kind` is a Literal of the file's name."""

    @abstractmethod
    def recordings(self, settings: PluginSettings) -> Iterator[Recording | Ignored]:
        """Everything in the source, in a stable order; reads no audio. ConfigError, before the
        first recording, if the path cannot be read; a single bad entry becomes a Recording with
        `error`, or Ignored with the reason."""

    def gives(self, settings: PluginSettings) -> str:
        """Which files or columns give audio, text, speaker and so on, where `notes` do not begin
        with it; "" otherwise."""
        return ""

    def notes(self, settings: PluginSettings) -> Sequence[str]:
        """What kind of data the source was taken for, and what of it is skipped, in sentences
        without a full stop; reads only its beginning. ConfigError as `recordings`."""
        return ()
