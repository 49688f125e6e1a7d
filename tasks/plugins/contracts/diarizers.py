"""Diarizers say who speaks when in a whole recording, before it is cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from tasks.plugins.contracts.base import LoadedPlugin, PluginSettings, VersionedModule

if TYPE_CHECKING:
    from tasks.base.arrays import Float32s
    from tasks.recording import Segment
    from tasks.recording.turns import Turn


class Diarizer(Protocol):
    """Finds who speaks when in one recording, which it gets block by block. Its memory may grow by
    some hundred bytes for each second, no more."""

    def push(self, block: Float32s) -> None:
        """The next block, float32 [n, channels]; its size must not change the turns."""

    def finish(self) -> tuple[Turn, ...]:
        """The recording ended; its turns, in order of their starts."""


class DiarizerModule(VersionedModule, Protocol):
    def start(self, settings: PluginSettings, rate: int, given: Sequence[Segment]) -> Diarizer:
        """A diarizer for one recording of `rate` Hz; `given` are the source's own segments."""


class DiarizerPlugin(DiarizerModule, LoadedPlugin, Protocol):
    #: The speakers of the source's segments are in the recipe of its turns.
    USES_SPEAKERS: bool = False
    #: It hears what `tasks.audio.channels.Heard` makes of several channels.
    LISTENS: bool = False
