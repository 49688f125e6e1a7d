"""Rules that need every utterance of the corpus, of filters and on text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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

    def __len__(self) -> int: ...

    def tables(self, *columns: str) -> Iterator[pa.Table]:
        """These columns of `tasks.corpus.ROW`."""

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
