"""Diarizers say who speaks when in a whole recording, before it is cut."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from .base import PluginSettings, VersionedPlugin

if TYPE_CHECKING:
    from ...base.arrays import Float32s
    from ...recording import Segment
    from ...recording.turns import Turn


class Diarizer(Protocol):
    """Finds who speaks when in one recording, which it gets block by block. Its memory may grow by
    some hundred bytes a second at most."""

    def push(self, block: Float32s) -> None:
        """Takes the next block, float32 [n, channels]; its size must not change the turns."""

    def finish(self) -> tuple[Turn, ...]:
        """Called at the end of the recording; returns its turns, by start."""


class DiarizerPlugin(VersionedPlugin):
    @abstractmethod
    def start(self, settings: PluginSettings, rate: int, given: Sequence[Segment]) -> Diarizer:
        """A diarizer for one recording of `rate` Hz; `given` are the source's own segments."""

    #: Whether the recipe of its turns includes the speakers of the source's segments.
    USES_SPEAKERS: bool = False
    #: Whether it gets the output of `tasks.audio.channels.Heard` for several channels.
    LISTENS: bool = False
