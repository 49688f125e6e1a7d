"""What plug-ins of every shelf have, and what each of them may leave out."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from tasks.settings import StageSettings
from tasks.weights.registry import Model

#: An instance of the `Settings` of the module that it is given to: a Protocol cannot say that.
PluginSettings: TypeAlias = Any
#: (unit, one line of documentation) by column.
Columns = dict[str, tuple[str, str]]


class PluginModule(Protocol):
    """The least that a module on any shelf has."""

    @property
    def Settings(self) -> type[StageSettings]:
        """Its settings; each field has a default, and a role where it is no part of the recipe."""


class VersionedModule(PluginModule, Protocol):
    @property
    def VERSION(self) -> int:
        """Part of the recipe: raise it when equal input no longer gives equal output."""


class LoadedPlugin(Protocol):
    """What a caller may ask any plug-in for; these are the defaults of what its module omits."""

    @property
    def Settings(self) -> type[StageSettings]: ...

    @property
    def VERSION(self) -> int:
        """0 where nothing that it gives is stored (sources, verdicts on text)."""
        return 0

    #: Modules that it imports inside its functions, each with an attribute whose reading loads it:
    #: workers of a run that uses it load them before their first task.
    ENGINES: Mapping[str, str] = MappingProxyType({})

    def identity(self, settings: PluginSettings) -> str | None:
        """Identity of a model that decides the output (sha256), for the recipe; None: there is no
        such model. ConfigError when it is missing."""
        return None

    def known_models(self, settings: PluginSettings) -> tuple[Model, ...]:
        """The models of the registry that it computes with: a version's data card names them."""
        return ()

    def check_weights(self, settings: PluginSettings) -> None:
        """Look for what it needs on this machine; ConfigError with the command that brings it.
        Asked before a worker starts."""

    def wants_gpu(self, settings: PluginSettings) -> bool:
        """Whether it runs on a GPU where its worker sees one."""
        return False

    def gpu_fault(self, settings: PluginSettings) -> str | None:
        """What is missing in this process to run it on a GPU, with the remedy; None: nothing is
        known to be."""
        return None
