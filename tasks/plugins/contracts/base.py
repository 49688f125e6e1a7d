"""Members that plug-ins of all kinds have, and the defaults for those they may omit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from ...models.registry import Model
from ...settings import StageSettings

#: An instance of the receiving module's `Settings`.
PluginSettings: TypeAlias = Any
#: (unit, one line of documentation) by column.
Columns = dict[str, tuple[str, str]]


class LoadedPlugin(ABC):
    """A plug-in of any kind, as callers see it."""

    @property
    @abstractmethod
    def Settings(self) -> type[StageSettings]:
        """Its settings; each field has a default, and a role if it is not part of the recipe."""

    @property
    def VERSION(self) -> int:
        """0 if none of its results are stored (sources, rules on text)."""
        return 0

    #: Modules that it imports inside its functions, each with an attribute whose reading loads it:
    #: workers of a run that uses the plug-in load them before their first task.
    ENGINES: Mapping[str, str] = MappingProxyType({})

    def identity(self, settings: PluginSettings) -> str | None:
        """Identity of the model that determines the output (sha256), for the recipe; None: it has
        no model. ConfigError if the model is missing."""
        return None

    #: The models of the registry that it uses whatever its settings.
    USED_MODELS: tuple[Model, ...] = ()

    def known_models(self, settings: PluginSettings) -> tuple[Model, ...]:
        """The models that it uses: a version's data card names them."""
        return self.USED_MODELS

    def model_bytes(self, settings: PluginSettings) -> int:
        """Approximate memory of a worker that its weights take, bytes. Called before a worker
        starts; ConfigError if they are missing."""
        return sum(model.size for model in self.known_models(settings))

    def check_weights(self, settings: PluginSettings) -> None:  # noqa: B027 - a default
        """Check this machine for what it needs; ConfigError with the command that installs it.
        Called before a worker starts."""

    def wants_gpu(self, settings: PluginSettings) -> bool:
        """Whether it runs on a GPU if its worker sees one."""
        return False

    def gpu_fault(self, settings: PluginSettings) -> str | None:
        """What this process lacks to run it on a GPU, with the remedy; None if nothing is known to
        be missing."""
        return None


class VersionedPlugin(LoadedPlugin):
    """A plug-in whose results are stored."""

    @property
    @abstractmethod
    def VERSION(self) -> int:
        """Part of the recipe: raise it when equal input no longer gives equal output."""
