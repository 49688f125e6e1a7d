"""Shelf of published formats: one file here is one format.

`tasks.plugins.contracts.formats` says what one has. `_rows.stream` reads the rows of a version for
its lists, `_readers` has the bounds of the usual readers.
"""

from tasks.plugins.contracts.formats import Bound, Hashes, Piece, Published, ReaderLimits

__all__ = ["Bound", "Hashes", "Piece", "Published", "ReaderLimits"]
