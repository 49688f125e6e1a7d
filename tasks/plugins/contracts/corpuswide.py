"""Rules that need every utterance of the corpus, of filters and on text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ...base.json_types import JsonObject
from .base import PluginSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from ...base.arrays import Bools, Int64s
    from ..rules import Rejection


class Rows(Protocol):
    """All transcribed utterances, kept so far or not: more than fit in memory, so they are read
    some thousand at a time. Their order is the same each time; nothing may depend on it."""

    #: Memory for a rule's own tables before they go to temporary files, from `package.memory`, and
    #: the folder for these (None: TMPDIR).
    memory: str
    scratch: Path | None

    def __len__(self) -> int: ...

    def tables(self, *columns: str) -> Iterator[pa.Table]:
        """These columns of `tasks.corpus.ROW`, or measures that the plug-in `asks` for."""

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


class CorpusWide:
    """Members of filters and plug-ins on text that need the whole corpus."""

    #: A rule over the whole corpus.
    reject: Reject | None = None
    #: Returns the values of its ANNOTATIONS, all of them labels, in place of `measure`.
    labelled: Labelled | None = None

    def asks(self, settings: PluginSettings) -> tuple[str, ...]:
        """Measures of this job, by column, that `reject` and `labelled` use."""
        return ()
