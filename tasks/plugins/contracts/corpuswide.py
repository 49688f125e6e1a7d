"""Rules that need every utterance of the corpus, of filters and on text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tasks.base.json_types import JsonObject
from tasks.plugins.contracts.base import PluginSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from tasks.base.arrays import Bools, Int64s
    from tasks.plugins.rules import Rejection


class Rows(Protocol):
    """All transcribed utterances, kept so far or not: more than fit in memory, so they are read
    some thousand at a time. Their order is the same each time; nothing may depend on it."""

    #: What tables of a rule's own may take before they go to temporary files, as `package.memory`
    #: says, and the folder for these (None: TMPDIR).
    memory: str
    scratch: Path | None

    def __len__(self) -> int: ...

    def tables(self, *columns: str) -> Iterator[pa.Table]:
        """These columns of `tasks.corpus.ROW`, or measures that the plug-in `asks` for."""

    def published(self, numbers: Int64s) -> Bools:
        """Whether these rows, in their order, are in the newest version: for few of them, cheaper
        than the column."""

    def by_id(self) -> Int64s:
        """The numbers of the rows, in the order of ids."""


#: reject(rows, settings, frozen) -> ((number of a row, its rejection) of some, what it freezes)
#:
#: Only rows that are kept may be rejected. `frozen` is what it returned when the version before was
#: published ({} at first, and on `package.refit`), so that bounds do not move under what is
#: published already; it is written as JSON. None: it freezes nothing.
Reject = Callable[
    [Rows, PluginSettings, JsonObject], tuple[Iterable[tuple[int, "Rejection"]], JsonObject | None]
]

#: A corpus-wide plug-in that `asks` for measures may also give labels by what it freezes:
#:
#: labelled(rows, settings, frozen) -> values of ANNOTATIONS, one for each row. `rows`: language
#: and the columns that it asks for, of some packaged clips.
Labelled = Callable[["pa.Table", PluginSettings, JsonObject], Mapping[str, "Sequence[str | None]"]]


class CorpusWide(Protocol):
    """What filters and plug-ins on text may have to see the whole corpus."""

    #: A rule over the whole corpus.
    reject: Reject | None = None
    #: Gives the values of its ANNOTATIONS, all of them labels, in place of `measure`.
    labelled: Labelled | None = None

    def asks(self, settings: PluginSettings) -> tuple[str, ...]:
        """Measures of this job, by column, that `reject` and `labelled` go by."""
        return ()
