"""Sources list recordings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from tasks.plugins.contracts.base import LoadedPlugin, PluginModule, PluginSettings
from tasks.settings import SourceSettings

#: What a source says of one of its branches: its own, small and picklable.
SourceBranch = tuple[str | int | bool, ...]

if TYPE_CHECKING:
    from tasks.recording import Ignored, Recording


class SourceModule(PluginModule, Protocol):
    @property
    def Settings(self) -> type[SourceSettings]:
        """`kind` is a Literal of the file's name."""

    def recordings(self, settings: PluginSettings) -> Iterator[Recording | Ignored]:
        """Everything that the source holds, in a stable order; reads no audio. ConfigError, before
        the first recording, when the path cannot be read; a single bad entry is a Recording with
        `error`, or Ignored with the reason."""


class Source(SourceModule, LoadedPlugin, Protocol):
    @property
    def Settings(self) -> type[SourceSettings]: ...

    def branches(self, settings: PluginSettings, least: int) -> Sequence[SourceBranch] | None:
        """Branches of the source that workers can list apart from each other; None if there are
        fewer than `least`, or none are known."""
        return None

    def branch(
        self, settings: PluginSettings, branch: SourceBranch
    ) -> Iterator[Recording | Ignored] | None:
        """The share of `recordings` in one of `branches`; None if it turns out that the source has
        to be listed as a whole."""
        return None

    def notes(self, settings: PluginSettings) -> Sequence[str]:
        """What the source was taken for, and what of it is not taken, in sentences without a stop;
        looks at its beginning only. ConfigError as `recordings`."""
        return ()
