"""Shelf of published formats. A plug-in has

    VERSION: int                         # raise it when the bytes of a piece change
    COLUMNS: tuple[str, ...]             # of `utterances.parquet`: what a piece's bytes depend on
    def path(split: str, number: int) -> str                    # of a piece, in the version
    def offsets(rows: pa.Table) -> NDArray[int64]               # optional: of each row in its piece
    def write(piece: Piece, rows: list[Row], pcm, home: Path) -> None  # a worker; pcm(row) -> int16
    def check(piece: Piece, rows: list[Row], home: Path) -> list[str]  # reopen, decode; faults
    def finish(pieces: Sequence[Piece], home: Path) -> None     # lists over all pieces

A piece is what one worker call writes: one file of the format's folder, from one group of clips.
All formats of a version have the same groups.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """One file of a version, from the `clips` clips of group `group` of its plan. `same_as`, where
    not empty, is the file with the same content that the last version has, with its sha256 and
    size."""

    format: str
    path: str
    group: int
    clips: int
    same_as: str = ""
    sha256: str = ""
    size: int = 0
