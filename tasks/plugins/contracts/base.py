"""Members that plug-ins of all kinds have, those of filters and rules on text, and the defaults for
what they may omit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ...base.errors import ConfigError
from ...base.json_types import JsonObject
from ...models.registry import Model
from ...settings import StageSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from ...base.arrays import Bools, Int64s
    from ..annotation_kinds import Annotations
    from ..rules import Rejection, Rule

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
        no model, or `check_weights` refuses it. Default: that of `known_models`."""
        try:
            models = self.known_models(settings)
        except ConfigError:
            return None
        return "-".join(file.sha256 for model in models for file in model.files) or None

    #: The models of the registry that it uses whatever its settings, and how messages about them
    #: name it.
    USED_MODELS: tuple[Model, ...] = ()
    ASKED_BY: str = ""

    def known_models(self, settings: PluginSettings) -> tuple[Model, ...]:
        """The models that it uses: a version's data card names them."""
        return self.USED_MODELS

    def model_bytes(self, settings: PluginSettings) -> int:
        """Approximate memory of a worker that its weights take, bytes. Called before a worker
        starts; ConfigError if they are missing."""
        return sum(model.size for model in self.known_models(settings))

    def check_weights(self, settings: PluginSettings) -> None:
        """Check this machine for what it needs; ConfigError with the command that installs it.
        Called before a worker starts. Default: for USED_MODELS, in the folder that its setting
        `path` names, if it has one."""
        from ...models import model_files

        for model in self.USED_MODELS:
            model_files.located(model, self.ASKED_BY, dict(settings).get("path"))

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


class Rows(Protocol):
    """All transcribed utterances, kept so far or not: more than fit in memory. Their order is the
    same each time; nothing may depend on it."""

    #: Memory for a rule's own tables before they go to temporary files, from `package.memory`, and
    #: the folder for these (None: TMPDIR).
    memory: str
    scratch: Path | None

    def __len__(self) -> int: ...

    def tables(self, *columns: str) -> Iterator[pa.Table]:
        """These columns of `tasks.publish.corpus.ROW`, or measures that the plug-in `asks` for."""

    def published(self, numbers: Int64s) -> Bools:
        """Whether each of these rows is in the newest version: cheaper than the column for a few
        rows."""

    def by_id(self) -> Int64s:
        """The numbers of the rows, in the order of ids."""


#: reject(rows, settings, frozen) -> ((number of a row, its rejection) of some, values to freeze)
#:
#: Only kept rows may be rejected. `frozen`: the values returned when the previous version was
#: published ({} at first, and on `package.refit`), so that bounds do not move under published
#: clips; written as JSON. None: it freezes nothing.
Reject = Callable[
    [Rows, PluginSettings, JsonObject], tuple[Iterable[tuple[int, "Rejection"]], JsonObject | None]
]

#: A corpus-wide plug-in with `asks` may also give labels, by the values that it freezes:
#:
#: labelled(rows, settings, frozen) -> values of ANNOTATIONS, one for each row. `rows`: language
#: and the columns that it asks for, of some packaged clips.
Labelled = Callable[["pa.Table", PluginSettings, JsonObject], Mapping[str, "Sequence[str | None]"]]


class MeasuringPlugin(LoadedPlugin):
    """A filter or a rule on text: its columns, and rules on them."""

    __name__: str

    @property
    @abstractmethod
    def COLUMNS(self) -> Columns:
        """(unit, one line of documentation) of every column of `measure`: named like the plug-in,
        or `<plug-in>_<part>`; a filter's single one may have any name. Its limits are the settings
        `min` and `max`, or `min_<part>` and `max_<part>`, marked THRESHOLD."""

    #: Annotations, by name, which is also the column's. For a label, the setting `allowed` lists
    #: the values that are kept; for events, `min_share` and `max_share` limit the share of the
    #: utterance in which a label happens, by label. If the name is `<plug-in>_<part>`, they are
    #: `allowed_<part>` and `min_<part>_share`.
    ANNOTATIONS: Annotations = MappingProxyType({})
    #: Reasons for an utterance below and above the limits of a column; default: `low_<column>` and
    #: `high_<column>`.
    REASONS: Mapping[str, tuple[str, str]] = MappingProxyType({})
    #: A rule over the whole corpus.
    reject: Reject | None = None
    #: Returns the values of its ANNOTATIONS, all of them labels, in place of `measure`.
    labelled: Labelled | None = None

    def verdict(self, settings: PluginSettings) -> tuple[Rule, ...]:
        """Limits on columns, from the settings alone. Default: those that the contract names, if
        its settings have them, unless what the settings call `confirmed` holds. Override only
        where these do not fit."""
        from .. import annotation_kinds
        from ..rules import Limit

        values, unless = dict(settings), getattr(settings, "confirmed", ())
        rules = annotation_kinds.rules(self.__name__, self.ANNOTATIONS, self.REASONS, values)
        for column, (low, high) in limits(self.__name__, self.COLUMNS).items():
            if low in values or high in values:
                reasons = self.REASONS.get(column, (f"low_{column}", f"high_{column}"))
                rules.append(Limit(column, values.get(low), values.get(high), *reasons, unless))
        return tuple(rules)

    def asks(self, settings: PluginSettings) -> tuple[str, ...]:
        """Measures of this job, by column, that `reject` and `labelled` use."""
        return ()


def limits(module: str, columns: Collection[str]) -> dict[str, tuple[str, str]]:
    """The names of the two settings that limit each column of a plug-in."""
    name = module.rpartition(".")[2]
    parts = {column: column.removeprefix(name) for column in columns}
    if len(columns) == 1 and [*columns] == [*parts.values()]:  # its name differs from the module's
        parts = dict.fromkeys(columns, "")
    return {column: (f"min{part}", f"max{part}") for column, part in parts.items()}
